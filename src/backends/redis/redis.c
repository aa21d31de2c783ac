/* SPDX-License-Identifier: MIT */
/*
 * redis: locks on a Redis or Valkey server, in Redisson's layout.
 *
 * This file holds the table of the store, the URL, and opening and closing of a
 * session. README.md lists the other files; docs/backends/redis.md is for users.
 */
#include "noscript.h"
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"
#include "../../base/url.h"
#include "../../kit/secret.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PORT 6379
#define DEFAULT_LEASE_MS 30000

/* How long closing waits for the replies to the last withdrawals. */
#define CLOSE_WAIT_NS (500 * HF_NS_PER_MS)

#define CAPS_COMMON                                                                    \
    (HF_CAP_MUTEX | HF_CAP_LEASE | HF_CAP_DETACH | HF_CAP_INSPECT | HF_CAP_EVICT |     \
     HF_CAP_REVOKE | HF_CAP_PROCESSES | HF_CAP_DURABLE | HF_CAP_HANDOFF |              \
     HF_CAP_DIAGNOSE)
#define CAPS_NOSCRIPT                                                                  \
    (HF_CAP_MUTEX | HF_CAP_LEASE | HF_CAP_PROCESSES | HF_CAP_HANDOFF | HF_CAP_DIAGNOSE)
#define CAPS_REDISSON                                                                  \
    (CAPS_COMMON | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE | HF_CAP_PERMITS |       \
     HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL)

/* ---- The URL --------------------------------------------------------------------- */

static const char *option_or(const struct hf_url *url, const char *key,
                             const char *fallback)
{
    const char *value = hf__url_option(url, key);
    return value ? value : fallback;
}

static int one_of(const struct hf_url *url, const char *key, const char *first,
                  const char *second, bool *ret_second, hf_error *why)
{
    const char *value = option_or(url, key, first);
    *ret_second = strcmp(value, second) == 0;
    if (!*ret_second && strcmp(value, first) != 0)
        return hf__fail(why, HF_EURL, "the option '%s' must be '%s' or '%s'", key,
                        first, second);
    return 0;
}

static int read_address(const struct hf_url *url, struct conn_settings *settings,
                        hf_error *why)
{
    struct hf_stream_settings *stream = &settings->stream;
    uint64_t database = 0;
    const char *path = url->path;
    stream->tls = strcmp(url->scheme, "rediss") == 0;
    if (strcmp(url->scheme, "redis+unix") == 0) {
        if (url->host[0] || url->port || path[0] != '/' || !path[1])
            return hf__fail(why, HF_EURL,
                            "redis+unix: takes the path of a socket, as "
                            "in redis+unix:///run/redis.sock");
        stream->unix_path = path;
        path = option_or(url, "db", "0");
    } else {
        stream->unix_path = "";
        if (!url->host[0])
            return hf__fail(why, HF_EURL, "the URL names no host");
        if (strchr(url->host, ','))
            return hf__fail(why, HF_EURL, "one server is expected, not a list of them");
        if (hf__url_option(url, "db"))
            return hf__fail(why, HF_EURL,
                            "the database goes into the path, as in "
                            "redis://host/2");
        path += path[0] == '/';
    }
    if (path[0] && !hf__text_number(path, 1000000, &database))
        return hf__fail(why, HF_EURL, "the database is not a number");
    stream->host = url->host;
    stream->port = url->port ? url->port : DEFAULT_PORT;
    settings->database = (uint32_t)database;
    return 0;
}

static int read_tls(const struct hf_url *url, struct hf_stream_settings *stream,
                    hf_error *why)
{
    static const char *const keys[] = { "tls_ca", "tls_cert", "tls_key", "tls_name",
                                        "tls_verify" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !stream->tls; i++)
        if (hf__url_option(url, keys[i]))
            return hf__fail(why, HF_EURL, "the option '%s' needs rediss:", keys[i]);
    stream->tls_ca = option_or(url, "tls_ca", "");
    stream->tls_cert = option_or(url, "tls_cert", "");
    stream->tls_key = option_or(url, "tls_key", "");
    stream->tls_name = option_or(url, "tls_name", "");
    return one_of(url, "tls_verify", "on", "off", &stream->tls_insecure, why);
}

/* A dead connection is given up early enough for a request to be repeated on the next
 * connection before its own time is over. */
static int64_t reply_timeout_ms(const struct redis_session *me)
{
    int64_t ms = me->host->request_ns / HF_NS_PER_MS * 2 / 3;
    if (ms < 1)
        return 1;
    return ms < 600000 ? ms : 600000;
}

static int read_settings(struct redis_session *me, const struct hf_url *url,
                         struct conn_settings *settings, hf_error *why)
{
    int64_t connect_ms, timeout_ms, protocol;
    bool simple, off, no_foreign;
    int rc = read_address(url, settings, why);
    if (rc == 0)
        rc = read_tls(url, &settings->stream, why);
    if (rc == 0)
        rc = one_of(url, "layout", "redisson", "simple", &simple, why);
    if (rc == 0)
        rc = one_of(url, "script", "on", "off", &off, why);
    if (rc == 0)
        rc = one_of(url, "strangers", "on", "off", &no_foreign, why);
    if (rc == 0)
        rc = hf__url_time(url, "connect_timeout", 1, 600000, 5000, &connect_ms, why);
    if (rc == 0)
        rc = hf__url_time(url, "timeout", 1, 600000, reply_timeout_ms(me), &timeout_ms,
                          why);
    if (rc == 0)
        rc = hf__url_number(url, "protocol", 2, 3, 0, &protocol, why);
    if (rc != 0)
        return rc;
    if (off && !simple)
        return hf__fail(why, HF_EURL, "script=off works with layout=simple only");
    if (hf__url_option(url, "strangers") && !simple)
        return hf__fail(why, HF_EURL, "strangers= works with layout=simple only");
    me->foreign_clients = !no_foreign;
    me->layout = simple ? LAYOUT_SIMPLE : LAYOUT_REDISSON;
    me->scripts = !off;
    settings->stream.connect_ns = connect_ms * HF_NS_PER_MS;
    settings->request_ns = timeout_ms * HF_NS_PER_MS;
    settings->protocol = (int)protocol;
    settings->user = url->user;
    settings->client_name = option_or(url, "client_name", "holdfast");
    settings->inbox = me->inbox;
    return 0;
}

/* ---- The session ----------------------------------------------------------------- */

/* Host, pid and program, which inspection shows. Bytes below a space would break the
 * records, so they become '?'. */
static void write_details(struct redis_session *me)
{
    char host[65] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(me->details, sizeof(me->details), "%s\x1f%ld\x1f%.64s\x1f", host,
             (long)getpid(), me->host->program);
    me->details_len = strlen(me->details);
    for (size_t i = 0; i < me->details_len; i++)
        if ((unsigned char)me->details[i] < ' ' && me->details[i] != '\x1f')
            me->details[i] = '?';
}

static int name_inbox(struct redis_session *me, hf_error *why)
{
    struct hf_id id;
    char text[INBOX_SIZE + 1] = "holdfast:";
    if (hf__random(&me->random, &id, sizeof(id)) != 0)
        return hf__fail_code(why, HF_ESYSTEM);
    hf__hex_encode(&id, sizeof(id), text + strlen(text));
    memcpy(me->inbox, text, INBOX_SIZE);
    me->inbox[INBOX_SIZE] = '\0';
    return 0;
}

static void redis_up(void *session)
{
    hf__redis_tickets_notify(session);
}

static void redis_down(void *session, const hf_error *why)
{
    (void)session;
    (void)why;
}

static const struct conn_user conn_user = {
    .up = redis_up,
    .down = redis_down,
    .message = hf__redis_message,
    .subscribed = hf__redis_subscribed,
};

static int redis_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    struct redis_session *me = session;
    struct conn_settings settings = { .database = 0 };
    char password[HF_SECRET_MAX];
    me->host = host;
    hf__list_init(&me->batches);
    hf__list_init(&me->walks);
    hf__list_init(&me->jobs);
    hf__redis_evict_start(me);
    hf__redis_listen_start(me);
    write_details(me);
    int rc = name_inbox(me, why);
    if (rc == 0)
        rc = read_settings(me, url, &settings, why);
    if (rc == 0)
        rc = hf__secret_find(url, password, why);
    if (rc != 0)
        return rc;
    settings.password = password;
    rc = hf__redis_conn_open(host, &settings, &conn_user, me, &me->conn, why);
    hf__secret_wipe(password, sizeof(password));
    if (!me->scripts)
        *ret_caps = CAPS_NOSCRIPT;
    else
        *ret_caps = me->layout == LAYOUT_SIMPLE ? CAPS_COMMON : CAPS_REDISSON;
    return rc;
}

static void redis_close(void *session, bool forked)
{
    struct redis_session *me = session;
    if (!me->host)
        return;
    if (me->conn && !forked && hf__redis_conn_is_up(me->conn)) {
        int64_t left = me->host->close_by_ns - me->host->ops->now(me->host);
        hf__redis_conn_mute(me->conn);
        if (hf__redis_tickets_withdraw(me) > 0 && left > 0)
            hf__redis_conn_drain(me->conn, left < CLOSE_WAIT_NS ? left : CLOSE_WAIT_NS);
    }
    hf__redis_evict_done(me);
    hf__redis_conn_close(me->conn, forked);
    hf__redis_listen_done(me);
    hf__redis_renew_done(me);
    hf__redis_inspect_done(me);
    hf__redis_noscript_done(me);
    hf__free(me->numbers);
}

/* Nothing to do: the scripts store each waiter's inbox. */
static void redis_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
}

static void redis_forget(void *session, const void *ticket_or_request)
{
    struct redis_session *me = session;
    hf__redis_conn_forget(me->conn, ticket_or_request);
    hf__redis_renew_forget(me, ticket_or_request);
    hf__redis_inspect_forget(me, ticket_or_request);
    hf__redis_evict_forget(me, ticket_or_request);
    hf__redis_noscript_forget(me, ticket_or_request);
    hf__redis_tickets_forget(me, ticket_or_request);
}

static const char *const schemes[] = { "redis", "rediss", "redis+unix", NULL };
static const char *const options[] = {
    "client_name",  "connect_timeout", "db",         "layout",
    "password_env", "password_file",   "protocol",   "script",
    "strangers",    "timeout",         "tls_ca",     "tls_cert",
    "tls_key",      "tls_name",        "tls_verify", NULL,
};

const struct hf_backend hf__backend_redis = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "redis",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct redis_session),
    .default_ttl_ns = DEFAULT_LEASE_MS * HF_NS_PER_MS,
    .open = redis_open,
    .close = redis_close,
    .attempt = hf__redis_attempt,
    .withdraw = hf__redis_withdraw,
    .renew = hf__redis_renew,
    .interest = redis_interest,
    .ask = hf__redis_ask,
    .forget = redis_forget,
    .pass = hf__redis_pass,
};
