/* SPDX-License-Identifier: MIT */
/*
 * zookeeper: locks on a ZooKeeper ensemble, in the queues of Curator's recipes.
 *
 * This file holds the table of the store, the URL, and how a session is opened and
 * closed. It passes on what core asks and what the client (wire/) reports. README.md
 * lists the other files; docs/backends/zookeeper.md tells users what they need to know.
 */
#include "changes.h"
#include "ticket.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/text.h"
#include "../../base/url.h"
#include "../../kit/secret.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_SESSION_MS 10000

enum { HOSTS_SIZE = 1024, AUTH_SIZE = 2 * HF_SECRET_MAX };

#define CAPS_SINGLE                                                                    \
    (HF_CAP_MUTEX | HF_CAP_LEASE | HF_CAP_REVOKE | HF_CAP_PROCESSES | HF_CAP_DURABLE | \
     HF_CAP_DIAGNOSE)
#define CAPS_KAZOO                                                                     \
    (CAPS_SINGLE | HF_CAP_EVICT | HF_CAP_INSPECT | HF_CAP_FAIR | HF_CAP_RW |           \
     HF_CAP_DOWNGRADE | HF_CAP_PERMITS)
#define CAPS_CURATOR (CAPS_KAZOO | HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL)

/* ---- The URL --------------------------------------------------------------------- */

static const char *option_or(const struct hf_url *url, const char *key,
                             const char *fallback)
{
    const char *value = hf__url_option(url, key);
    return value ? value : fallback;
}

static int read_layout(struct zk_session *me, const struct hf_url *url, hf_error *why)
{
    static const char *const words[] = { "curator", "kazoo", "single" };
    const char *value = option_or(url, "layout", words[0]);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        me->layout = (enum layout)i;
        if (strcmp(value, words[i]) == 0)
            return 0;
    }
    return hf__fail(why, HF_EURL,
                    "the option 'layout' must be 'curator', 'kazoo' or 'single'");
}

static int read_tls(const struct hf_url *url, struct hf_stream_settings *stream,
                    hf_error *why)
{
    static const char *const keys[] = { "tls_ca", "tls_cert", "tls_key", "tls_name",
                                        "tls_verify" };
    const char *verify = option_or(url, "tls_verify", "on");
    stream->tls = strcmp(url->scheme, "zookeepers") == 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !stream->tls; i++)
        if (hf__url_option(url, keys[i]))
            return hf__fail(why, HF_EURL, "the option '%s' needs zookeepers:", keys[i]);
    stream->tls_ca = option_or(url, "tls_ca", "");
    stream->tls_cert = option_or(url, "tls_cert", "");
    stream->tls_key = option_or(url, "tls_key", "");
    stream->tls_name = option_or(url, "tls_name", "");
    stream->tls_insecure = strcmp(verify, "off") == 0;
    if (!stream->tls_insecure && strcmp(verify, "on") != 0)
        return hf__fail(why, HF_EURL, "the option 'tls_verify' must be 'on' or 'off'");
    return 0;
}

/* Without `session` the session is as long as the lease that the URL asks for. */
static int read_times(const struct hf_url *url, struct zk_settings *settings,
                      hf_error *why)
{
    int64_t session_ms, ttl_ms, connect_ms, timeout_ms;
    int rc = hf__url_time(url, "ttl", 1, INT64_MAX / HF_NS_PER_MS, DEFAULT_SESSION_MS,
                          &ttl_ms, why);
    if (rc == 0 && ttl_ms > INT32_MAX)
        ttl_ms = INT32_MAX;
    if (rc == 0)
        rc = hf__url_time(url, "session", 1, INT32_MAX, ttl_ms, &session_ms, why);
    if (rc == 0)
        rc = hf__url_time(url, "connect_timeout", 1, 600000, 5000, &connect_ms, why);
    if (rc == 0)
        rc = hf__url_time(url, "timeout", 1, 600000, 5000, &timeout_ms, why);
    if (rc != 0)
        return rc;
    settings->session_ns = session_ms * HF_NS_PER_MS;
    settings->stream.connect_ns = connect_ms * HF_NS_PER_MS;
    settings->request_ns = timeout_ms * HF_NS_PER_MS;
    return 0;
}

static int read_address(const struct hf_url *url, struct zk_settings *settings,
                        char chroot[FOLDER_SIZE], hf_error *why)
{
    size_t len = strlen(url->path);
    if (!url->host[0])
        return hf__fail(why, HF_EURL, "the URL names no host");
    while (len > 0 && url->path[len - 1] == '/')
        len--;
    if (len >= FOLDER_SIZE || strstr(url->path, "//"))
        return hf__fail(why, HF_EURL, "the path of the URL is not one of ZooKeeper's");
    memcpy(chroot, url->path, len);
    chroot[len] = '\0';
    settings->chroot = chroot;
    settings->hosts = url->host;
    settings->stream.port = url->port;
    settings->stream.unix_path = "";
    return 0;
}

static int read_auth(const struct hf_url *url, char auth[AUTH_SIZE], hf_error *why)
{
    char password[HF_SECRET_MAX];
    int rc = hf__secret_find(url, password, why);
    if (rc == 0 && !url->user[0] && password[0])
        rc = hf__fail(why, HF_EURL, "a password needs a user (user@host)");
    auth[0] = '\0';
    if (rc == 0 && url->user[0] &&
        snprintf(auth, AUTH_SIZE, "%s:%s", url->user, password) >= AUTH_SIZE)
        rc = hf__fail(why, HF_EURL, "the user's name is too long");
    hf__secret_wipe(password, sizeof(password));
    return rc;
}

static int read_acl(const struct hf_url *url, struct zk_settings *settings,
                    hf_error *why)
{
    const char *acl = option_or(url, "acl", "open");
    settings->creator_only = strcmp(acl, "creator") == 0;
    if (!settings->creator_only && strcmp(acl, "open") != 0)
        return hf__fail(why, HF_EURL, "the option 'acl' must be 'open' or 'creator'");
    if (settings->creator_only && !url->user[0])
        return hf__fail(why, HF_EURL, "acl=creator needs a user (user@host)");
    return 0;
}

/* ---- The session ----------------------------------------------------------------- */

static void session_up(void *session, bool fresh)
{
    struct zk_session *me = session;
    (void)fresh;
    hf__zk_orphan_nodes_retry(me);
    hf__zk_tickets_up(me);
}

static void session_down(void *session, const hf_error *why)
{
    (void)session;
    (void)why;
}

static void session_expired(void *session)
{
    struct zk_session *me = session;
    hf__zk_watchers_drop(me);
    hf__zk_orphan_nodes_done(me);
    hf__zk_tickets_expired(me);
}

static void session_event(void *session, enum zk_event_type type, const char *path,
                          size_t len)
{
    hf__zk_watchers_event(session, type, path, len);
}

static const struct zk_user zk_user = {
    .up = session_up,
    .down = session_down,
    .expired = session_expired,
    .event = session_event,
};

static uint64_t capabilities(enum layout layout)
{
    if (layout == LAYOUT_SINGLE)
        return CAPS_SINGLE;
    return layout == LAYOUT_KAZOO ? CAPS_KAZOO : CAPS_CURATOR;
}

static int session_open(void *session, struct hf_host *host, const struct hf_url *url,
                        uint64_t *ret_caps, hf_error *why)
{
    struct zk_session *me = session;
    struct zk_settings settings = { .session_ns = 0 };
    char chroot[FOLDER_SIZE], auth[AUTH_SIZE];
    me->host = host;
    hf__list_init(&me->tickets);
    hf__list_init(&me->jobs);
    hf__list_init(&me->batches);
    hf__list_init(&me->orphans);
    hf__zk_pending_changes_init(&me->pending);
    hf__zk_watchers_init(me);
    hf__zk_identity_init(&me->identity, host->program);
    int rc = read_layout(me, url, why);
    /* kazoo checks once whether the folder exists, and never again. */
    settings.keep_folders = me->layout == LAYOUT_KAZOO;
    if (rc == 0)
        rc = read_address(url, &settings, chroot, why);
    if (rc == 0)
        rc = read_tls(url, &settings.stream, why);
    if (rc == 0)
        rc = read_times(url, &settings, why);
    if (rc == 0)
        rc = read_acl(url, &settings, why);
    if (rc == 0)
        rc = read_auth(url, auth, why);
    if (rc != 0)
        return rc;
    me->session_asked_ns = settings.session_ns;
    settings.auth = auth;
    rc = hf__zk_open(host, &settings, &zk_user, me, &me->zk, why);
    hf__secret_wipe(auth, sizeof(auth));
    *ret_caps = capabilities(me->layout);
    return rc;
}

/* The end of the session deletes every node; what is left is to wait for it. */
static void session_close(void *session, bool forked)
{
    struct zk_session *me = session;
    if (!me->host)
        return;
    me->closing = true;
    if (me->zk && !forked) {
        hf__zk_mute(me->zk);
        hf__zk_close_wait(me->zk, me->host->close_by_ns);
    }
    if (me->retry_timer.slot)
        me->host->ops->stop_timer(me->host, &me->retry_timer);
    if (me->zk) {
        hf__zk_tickets_done(me);
        hf__zk_jobs_done(me);
        hf__zk_renew_done(me);
        hf__zk_orphan_nodes_done(me);
        hf__zk_pending_changes_done(me);
        hf__zk_close(me->zk, forked);
    }
}

/* ---- What core asks -------------------------------------------------------------- */

static void session_attempt(void *session, struct hf_ticket *core_ticket)
{
    struct zk_session *me = session;
    struct zk_ticket *ticket = ticket_of(core_ticket);
    if (ticket)
        hf__zk_ticket_attempt(me, ticket);
    else if (core_ticket->kind == HF_PERMITS || core_ticket->kind == HF_EXPIRING)
        hf__zk_permits_attempt(me, core_ticket);
    else if (core_ticket->kind == HF_LATCH)
        hf__zk_latch_attempt(me, core_ticket);
    else if (me->layout == LAYOUT_SINGLE)
        hf__zk_single_attempt(me, core_ticket);
    else
        hf__zk_lock_attempt(me, core_ticket);
}

static void session_ask(void *session, struct hf_request *request)
{
    struct zk_session *me = session;
    switch (request->verb) {
    case HF_LATCH_SET:
    case HF_LATCH_GET:
    case HF_LATCH_DOWN:
        hf__zk_latch_ask(me, request);
        break;
    case HF_CELL_GET:
    case HF_CELL_SET:
        hf__zk_cell_ask(me, request);
        break;
    case HF_INSPECT:
        hf__zk_inspect(me, request);
        break;
    case HF_EVICT:
        hf__zk_evict(me, request);
        break;
    case HF_REVOKE:
        hf__zk_revoke(me, request);
        break;
    case HF_DOWNGRADE:
        hf__zk_downgrade(me, request);
        break;
    case HF_DIAGNOSE:
        hf__zk_diagnose(me, request);
        break;
    default:
        me->host->ops->answered(me->host, request, HF_EUNSUPPORTED, NULL);
    }
}

static void session_forget(void *session, const void *ticket_or_request)
{
    struct zk_session *me = session;
    hf__zk_forget(me->zk, ticket_or_request);
    hf__zk_jobs_forget(me, ticket_or_request);
    hf__zk_downgrade_forget(me, ticket_or_request);
    hf__zk_tickets_forget(me, ticket_or_request);
}

static const char *const schemes[] = { "zookeeper", "zookeepers", NULL };
static const char *const options[] = {
    "acl",      "connect_timeout", "layout", "password_env", "password_file",
    "session",  "timeout",         "tls_ca", "tls_cert",     "tls_key",
    "tls_name", "tls_verify",      NULL,
};

const struct hf_backend hf__backend_zookeeper = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "zookeeper",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct zk_session),
    .default_ttl_ns = DEFAULT_SESSION_MS * HF_NS_PER_MS,
    .open = session_open,
    .close = session_close,
    .attempt = session_attempt,
    .withdraw = hf__zk_session_withdraw,
    .renew = hf__zk_session_renew,
    .interest = hf__zk_session_interest,
    .ask = session_ask,
    .forget = session_forget,
};
