/* SPDX-License-Identifier: MIT */
/*
 * The life of a link: connecting, shaking hands, losing the connection, and coming back
 * after a while that grows from try to try and is different for each client, so that a
 * server that comes back is not run over.
 *
 * One timer serves all: the next try while the link is down; the deadline of the oldest
 * call, and a PING after a long silence, while there is a connection. It is moved only
 * when it stands too late: a call in the usual stream of calls does not touch it. Each
 * reply gives the calls behind it a new deadline: a server that is slow with many of
 * them is slow, and not gone.
 *
 * link_open() is the same machine, driven by hand: it pumps the stream and runs the
 * timer itself until the link is up. What cannot change by waiting ends it at once.
 *
 * Runs under the session's lock, in calls of the store and in the loop's callbacks.
 */
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "link_inside.h"

#include <poll.h>
#include <string.h>

#define BACKOFF_FIRST_NS (40 * HF_NS_PER_MS) /* halved by the jitter at most */
#define BACKOFF_LAST_NS (2 * HF_NS_PER_S)
#define SILENCE_NS (15 * HF_NS_PER_S)

enum { BACKOFF_DOUBLINGS = 6, CROWD = 1024 };

/* ---- Time ------------------------------------------------------------------------ */

/* The timer is always set: moving it cannot fail, nor can setting it again where it has
 * just fired. */
static void arm(struct link *link, int64_t at_ns)
{
    link->host->ops->set_timer(link->host, &link->timer, at_ns);
}

void link_watch(struct link *link, int64_t now_ns)
{
    int64_t due = now_ns + link->settings.request_ns;
    if (link->timer.at_ns > due)
        arm(link, due);
}

static int64_t backoff_ns(struct link *link)
{
    unsigned doublings =
        link->attempts < BACKOFF_DOUBLINGS ? link->attempts : BACKOFF_DOUBLINGS;
    int64_t most = BACKOFF_FIRST_NS << doublings;
    uint32_t random = UINT32_MAX / 2;

    if (most > BACKOFF_LAST_NS)
        most = BACKOFF_LAST_NS;
    hf__random(&link->random, &random, sizeof random);
    return most / 2 + (int64_t)(((uint64_t)most / 2 * random) >> 32);
}

static void ping(struct wire *wire, int64_t now)
{
    static const struct resp_arg args[] = { { "PING", 4 } };
    const struct call call = { .sent_ns = now, .step = STEP_PING };

    if (link_put(wire, args, 1, &call) == 0)
        link_flush(wire);
}

/* Since when the server owes the oldest answer. */
static int64_t owed_since(const struct wire *wire)
{
    int64_t since = wire->calls[wire->first & (wire->room - 1)].sent_ns;
    return wire->moved_ns > since ? wire->moved_ns : since;
}

/* When this wire must be looked at again; 0: calls wait, and no answer came in time. */
static int64_t wire_due(struct wire *wire, int64_t now)
{
    int64_t request_ns = wire->link->settings.request_ns;

    if (wire->first == wire->end && now - wire->heard_ns >= SILENCE_NS)
        ping(wire, now);
    if (wire->first == wire->end)
        return (wire->heard_ns > now - SILENCE_NS ? wire->heard_ns : now) + SILENCE_NS;
    int64_t due = owed_since(wire) + request_ns;
    return due > now ? due : 0;
}

static void lost_in_silence(struct wire *wire)
{
    hf_error why;
    hf__error_set(&why, HF_EUNREACHABLE, "no answer from %s within %lld ms",
                  hf__stream_peer(wire->stream),
                  (long long)(wire->link->settings.request_ns / HF_NS_PER_MS));
    link_lost(wire->link, &why);
}

/* After a suspend, or on a busy machine, the answer may be there without having been
 * read: a deadline is over only when a look at the stream brings nothing. */
static int64_t wire_due_really(struct wire *wire, int64_t now)
{
    int64_t due = wire_due(wire, now);

    if (due == 0 && hf__stream_pump(wire->stream, now) && wire->talking)
        due = wire_due(wire, now);
    return due;
}

static void look_after_wires(struct link *link)
{
    int64_t now = link_now(link), next = now + SILENCE_NS;

    for (unsigned i = 0; i < link->wire_count; i++) {
        struct wire *wire = &link->wires[i];
        int64_t due = wire->talking ? wire_due_really(wire, now) : next;
        if (link->state == LINK_WAITING)
            return; /* lost in the course of that */
        if (due == 0) {
            lost_in_silence(wire);
            return;
        }
        next = due < next ? due : next;
    }
    if (next < link->timer.at_ns)
        arm(link, next);
}

/* ---- Down and up ----------------------------------------------------------------- */

static void wire_opened(void *arg)
{
    struct wire *wire = arg;
    struct link *link = wire->link;
    hf_error why;

    link->state = LINK_SHAKING;
    wire->talking = true;
    wire->heard_ns = link_now(link);
    if (link_shake(wire) < 0) {
        hf__fail_code(&why, HF_ENOMEM);
        link_lost(link, &why);
        return;
    }
    link_flush(wire);
    link_watch(link, wire->heard_ns);
}

static void wire_readable(void *arg)
{
    link_read(arg);
}

static void wire_broken(void *arg, const hf_error *why)
{
    struct wire *wire = arg;
    wire->link->hopeless = true;
    link_lost(wire->link, why);
}

static const struct hf_stream_user stream_user = {
    .opened = wire_opened,
    .readable = wire_readable,
    .broken = wire_broken,
};

static int stream_make(struct link *link, unsigned index, hf_error *why)
{
    struct wire *wire = &link->wires[index];

    if (wire->stream)
        return 0;
    return hf__stream_new(link->host, &link->settings.stream, &stream_user, wire,
                          &wire->stream, why);
}

static void connect_wire(struct link *link, unsigned index)
{
    hf_error why;
    int rc = stream_make(link, index, &why);

    if (rc == 0)
        rc = hf__stream_open(link->wires[index].stream, &why);
    if (rc == 0)
        return;
    link->hopeless = true;
    link_lost(link, &why);
}

static void connect_first(struct link *link)
{
    link->state = LINK_CONNECTING;
    link->wire_count = link->speaks == 2 ? 2 : 1;
    connect_wire(link, 0);
}

void link_wire_ready(struct wire *wire)
{
    struct link *link = wire->link;

    if (wire != link_channel_wire(link)) {
        connect_wire(link, 1);
        return;
    }
    link->state = LINK_UP;
    link->up_ns = link_now(link);
    if (!link->opening)
        link->user->up(link->session);
}

static void hang_up(struct link *link)
{
    link->state = LINK_WAITING;
    for (unsigned i = 0; i < 2; i++) {
        struct wire *wire = &link->wires[i];
        wire->talking = false;
        wire->shaking = 0;
        if (wire->stream)
            hf__stream_close(wire->stream);
    }
}

void link_lost(struct link *link, const hf_error *why)
{
    bool was_up = link->state == LINK_UP && !link->opening;
    int64_t now = link_now(link);

    link->why = *why;
    if (was_up && now - link->up_ns > BACKOFF_LAST_NS)
        link->attempts = 0;
    hang_up(link);
    arm(link, now + backoff_ns(link));
    link->attempts++;
    for (unsigned i = 0; i < 2; i++)
        link_fail_calls(&link->wires[i], &link->why);
    link_channels_lost(link);
    if (was_up)
        link->user->down(link->session, &link->why);
}

void link_again(struct link *link)
{
    hf_error why = { .code = HF_EUNREACHABLE };

    hang_up(link);
    arm(link, link_now(link));
    for (unsigned i = 0; i < 2; i++)
        link_fail_calls(&link->wires[i], &why);
    link_channels_lost(link);
}

static void tick(void *arg)
{
    struct link *link = arg;

    arm(link, HF_NEVER);
    if (link->state == LINK_WAITING)
        connect_first(link);
    else
        look_after_wires(link);
}

/* ---- Open and close -------------------------------------------------------------- */

/* The texts of the settings, one behind the other in one block of the link's. */
static int texts_keep(struct link *link)
{
    struct link_settings *s = &link->settings;
    const char **texts[] = {
        &s->stream.host,    &s->stream.unix_path,
        &s->stream.tls_ca,  &s->stream.tls_cert,
        &s->stream.tls_key, &s->stream.tls_name,
        &s->user,           &s->password,
        &s->client_name,    &s->inbox,
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };

    for (size_t i = 0; i < COUNT; i++) {
        *texts[i] = *texts[i] ? *texts[i] : "";
        link->texts_size += strlen(*texts[i]) + 1;
    }
    char *at = link->texts = hf__alloc(link->texts_size);
    for (size_t i = 0; i < COUNT && at; i++) {
        size_t size = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
    return at ? 0 : HF_ENOMEM;
}

/* The server takes no blanks, line ends or others in a client's name. */
static void name_clean(struct link *link)
{
    for (char *c = (char *)(uintptr_t)link->settings.client_name; *c; c++)
        if (*c < '!' || *c > '~')
            *c = '_';
}

static int link_make(struct hf_host *host, const struct link_settings *settings,
                     const struct link_user *user, void *session,
                     struct link **ret_link, hf_error *why)
{
    struct link *link = hf__alloc(sizeof *link);

    if (!link)
        return hf__fail_code(why, HF_ENOMEM);
    *ret_link = link;
    link->host = host;
    link->settings = *settings;
    link->user = user;
    link->session = session;
    link->speaks = settings->protocol == 2 ? 2 : 3;
    link->wire_count = 1;
    link->timer.callback = tick;
    link->timer.arg = link;
    link->wires[0].link = link->wires[1].link = link;
    link->nodes = hf__alloc(RESP_NODES_MAX * sizeof *link->nodes);
    if (texts_keep(link) < 0 || !link->nodes ||
        host->ops->set_timer(host, &link->timer, HF_NEVER) < 0)
        return hf__fail_code(why, HF_ENOMEM);
    name_clean(link);
    return stream_make(link, 0, why);
}

/* One turn of what the loop would do. */
static void turn(struct link *link, int64_t deadline_ns)
{
    int64_t until = link->timer.at_ns < deadline_ns ? link->timer.at_ns : deadline_ns;
    unsigned now_shaking =
        link->wires[0].talking && !link->wires[0].shaking && link->wire_count == 2;

    if (link->state == LINK_WAITING)
        poll(NULL, 0, hf__poll_ms(link_now(link), until));
    else
        hf__stream_pump(link->wires[now_shaking].stream, until);
    if (link->timer.at_ns <= link_now(link)) {
        link->host->ops->stop_timer(link->host, &link->timer);
        tick(link);
    }
}

static int wait_until_up(struct link *link, hf_error *why)
{
    int64_t deadline =
        link_now(link) + link->settings.stream.connect_ns + link->settings.request_ns;

    link->opening = true;
    connect_first(link);
    while (link->state != LINK_UP && !link->hopeless && link_now(link) < deadline)
        turn(link, deadline);
    link->opening = false;
    if (link->state == LINK_UP)
        return 0;
    if (!link->why.code)
        hf__error_set(&link->why, HF_EUNREACHABLE, "%s does not answer",
                      hf__stream_peer(link->wires[0].stream));
    if (why)
        *why = link->why;
    return link->why.code;
}

int link_open(struct hf_host *host, const struct link_settings *settings,
              const struct link_user *user, void *session, struct link **ret_link,
              hf_error *why)
{
    struct link *link = NULL;
    int rc = link_make(host, settings, user, session, &link, why);

    if (rc == 0)
        rc = wait_until_up(link, why);
    if (rc == 0)
        *ret_link = link;
    else
        link_close(link, false);
    return rc;
}

void link_mute(struct link *link)
{
    link->opening = true; /* when there are no callbacks, either */
    link_forget_all(&link->wires[0]);
}

void link_settle(struct link *link, int64_t patience_ns)
{
    struct wire *wire = &link->wires[0];
    bool looked = false; /* at what may have come already */

    link_flush(wire);
    while (link->state == LINK_UP && wire->first != wire->end) {
        int64_t deadline = owed_since(wire) + patience_ns;
        if (looked && link_now(link) >= deadline)
            break;
        looked = true;
        turn(link, deadline);
    }
}

void link_close(struct link *link, bool forked)
{
    if (!link)
        return;
    link->host->ops->stop_timer(link->host, &link->timer);
    link_wire_done(&link->wires[0], forked);
    link_wire_done(&link->wires[1], forked);
    link_channels_done(link);
    if (link->texts)
        explicit_bzero(link->texts, link->texts_size);
    hf__free(link->texts);
    hf__free(link->nodes);
    hf__free(link->args);
    hf__free(link);
}

bool link_is_up(const struct link *link)
{
    return link->state == LINK_UP;
}

bool link_is_crowded(const struct link *link)
{
    return link->wires[0].end - link->wires[0].first > CROWD;
}

const char *link_version(const struct link *link)
{
    return link->version;
}
