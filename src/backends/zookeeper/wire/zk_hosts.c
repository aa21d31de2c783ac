/* SPDX-License-Identifier: MIT */
/*
 * The servers of an ensemble. The list is shuffled once, so that clients spread over
 * them, and then used in a circle: after a failure the next one is tried, and none is
 * left out. Each has a stream of its own, made when it is tried first and kept: a
 * stream cannot be freed inside its callbacks, and TLS need not read its certificates
 * again.
 *
 * hf__zk_open() reports what is wrong with the list. Called under the session's lock.
 */
#include "../../../base/clock.h"
#include "../../../base/error.h"
#include "../../../base/mem.h"
#include "../../../base/text.h"
#include "zk_inside.h"

#include <string.h>

enum { DEFAULT_PORT = 2181, SERVERS_MAX = 64 };

#define SHARE_LEAST_NS (100 * HF_NS_PER_MS)

/* ---- The list -------------------------------------------------------------------- */

static int bad_list(hf_error *why)
{
    return hf__fail(why, HF_EURL,
                    "the servers must be given as host[:port],host[:port],...");
}

/* "host", "host:port", "[address]", "[address]:port", or an address with colons in it.
 * The text is cut at the end of the host. */
static int server_read(struct zk_server *server, char *text, uint16_t port)
{
    char *colon = strchr(text, ':');
    char *bracket = *text == '[' ? strchr(text, ']') : NULL;
    uint64_t number = port;

    if (bracket) {
        *bracket++ = '\0';
        text++;
        colon = *bracket ? bracket : NULL;
    } else if (colon && strchr(colon + 1, ':')) {
        colon = NULL;
    }
    if (colon) {
        if (*colon != ':' || !hf__text_number(colon + 1, UINT16_MAX, &number))
            return HF_EURL;
        *colon = '\0';
    }
    server->name = text;
    server->port = (uint16_t)number;
    return *text && number && !strchr(text, '[') ? 0 : HF_EURL;
}

static void shuffle(struct zk *zk)
{
    for (size_t i = zk->server_count; i > 1; i--) {
        uint32_t random = 0;
        hf__random(&zk->random, &random, sizeof random);
        size_t other = random % i;
        struct zk_server swap = zk->servers[i - 1];
        zk->servers[i - 1] = zk->servers[other];
        zk->servers[other] = swap;
    }
}

int hf__zk_servers_make(struct zk *zk, hf_error *why)
{
    uint16_t port = zk->settings.stream.port ? zk->settings.stream.port : DEFAULT_PORT;
    char *text = zk->hosts;

    zk->servers = hf__alloc(SERVERS_MAX * sizeof *zk->servers);
    if (!zk->servers)
        return hf__fail_code(why, HF_ENOMEM);
    for (char *next = text; next; text = next) {
        next = strchr(text, ',');
        if (next)
            *next++ = '\0';
        if (zk->server_count == SERVERS_MAX)
            return hf__fail(why, HF_EURL, "more than %d servers", SERVERS_MAX);
        if (server_read(&zk->servers[zk->server_count++], text, port) != 0)
            return bad_list(why);
    }
    shuffle(zk);
    zk->server_at = zk->server_count - 1; /* the next one is the first */
    return 0;
}

/* ---- Their streams --------------------------------------------------------------- */

int64_t hf__zk_server_share_ns(const struct zk *zk)
{
    int64_t all = zk->settings.stream.connect_ns;
    int64_t share = all / (int64_t)zk->server_count;

    return share < SHARE_LEAST_NS ? SHARE_LEAST_NS : share;
}

int hf__zk_server_next(struct zk *zk, const struct hf_stream_user *user, hf_error *why)
{
    zk->server_at = (zk->server_at + 1) % zk->server_count;
    zk->tried++;
    struct zk_server *server = &zk->servers[zk->server_at];
    struct hf_stream_settings settings = zk->settings.stream;
    int rc = 0;

    settings.host = server->name;
    settings.port = server->port;
    settings.connect_ns = hf__zk_server_share_ns(zk);
    if (!server->stream)
        rc = hf__stream_new(zk->host, &settings, user, zk, &server->stream, why);
    if (rc == 0) {
        zk->stream = server->stream;
        rc = hf__stream_open(zk->stream, why);
    }
    return rc;
}

void hf__zk_servers_done(struct zk *zk, bool forked)
{
    for (size_t i = 0; i < zk->server_count; i++)
        hf__stream_done(zk->servers[i].stream, forked);
    hf__free(zk->servers);
}
