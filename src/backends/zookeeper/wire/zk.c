/* SPDX-License-Identifier: MIT */
/*
 * The life of the client: opening, keeping a session alive, losing the connection,
 * coming back, and the end of a session.
 *
 * The servers are tried in turn without a pause. After all of them there is a pause,
 * which grows from round to round and differs between clients, so that they do not all
 * reach an ensemble that comes back at the same moment.
 *
 * A session lives as long as the leader of the servers hears of us, counted from when
 * it heard last. This client counts from a moment of which the leader must have heard
 * (base_ns, see zk_read.c), which is earlier: at the end of that time the session is
 * over for us, whatever the servers think. An eighth of the session after the last sign
 * of the leader the client asks for one, by a sync, so that the base is at most half a
 * session old while all is well; when it is older the client asks more often. When it
 * is three quarters old the connection is given up, which leaves a quarter to go on
 * with the session elsewhere. A leader that takes a sixth of a session to answer can be
 * used.
 *
 * One timer serves all of that. It is moved only when it is set too late: a request in
 * the usual stream of requests does not touch it.
 *
 * hf__zk_open() uses the same state machine: it pumps the stream and runs the timer
 * itself until the client is up. Runs under the session's lock, in calls of the store
 * and in the loop's callbacks.
 */
#include "../../../base/clock.h"
#include "../../../base/error.h"
#include "../../../base/mem.h"
#include "zk_inside.h"

#include <poll.h>
#include <string.h>

#define BACKOFF_FIRST_NS (40 * HF_NS_PER_MS) /* halved by the jitter at most */
#define BACKOFF_LAST_NS (2 * HF_NS_PER_S)
#define CONNECT_DEFAULT_NS (5 * HF_NS_PER_S)

enum {
    BACKOFF_DOUBLINGS = 6,
    PAUSES = 8, /* that fit into a session */
    LAST_READS = 64,
    LIKELY_ROUNDS = 2, /* over all servers */
};

/* ---- Time ------------------------------------------------------------------------ */

/* The timer is always set: moving it cannot fail, nor can setting it again right after
 * it has fired. */
static void arm(struct zk *zk, int64_t at_ns)
{
    zk->host->ops->set_timer(zk->host, &zk->timer, at_ns);
}

void hf__zk_deadline_note(struct zk *zk, int64_t now_ns)
{
    int64_t due = now_ns + zk->settings.request_ns;
    if (zk->timer.at_ns > due)
        arm(zk, due);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The earlier of two moments: when the leader must have been heard of, so that there is
 * time to go to another server; and when the oldest request must have been answered,
 * counted from its sending or from the last reply. */
static int64_t late_at(const struct zk *zk)
{
    const struct zk_pending *oldest = hf__zk_ring_oldest(&zk->ring);
    int64_t at = zk->base_ns + zk->session_ns / 4 * 3;

    if (!oldest)
        return at;
    int64_t since =
        oldest->sent_ns > zk->last_reply_ns ? oldest->sent_ns : zk->last_reply_ns;
    return least(at, since + zk->settings.request_ns);
}

/* When to ask for a sign of the leader. */
static int64_t ask_at(const struct zk *zk)
{
    int64_t often = zk->asked_ns + zk->session_ns / ZK_MARKS_PER_SESSION;
    int64_t old = zk->base_ns + zk->session_ns / 2;

    return least(zk->asked_ns + zk->session_ns / 8, often > old ? often : old);
}

static void rearm(struct zk *zk)
{
    int64_t at = HF_NEVER; /* CONNECTING: the stream has a deadline of its own */

    if (zk->state == ZK_STATE_WAITING)
        at = zk->retry_ns;
    else if (zk->state == ZK_STATE_UP)
        at = least(ask_at(zk), late_at(zk));
    else if (zk->state != ZK_STATE_CONNECTING)
        at = zk->handshake_until_ns;
    if (zk->session_id && !zk->expired)
        at = least(at, hf__zk_valid_until(zk));
    arm(zk, at);
}

static int64_t backoff_ns(struct zk *zk)
{
    unsigned doublings =
        zk->attempts < BACKOFF_DOUBLINGS ? zk->attempts : BACKOFF_DOUBLINGS;
    int64_t most = least(BACKOFF_FIRST_NS << doublings, BACKOFF_LAST_NS);
    uint32_t random = UINT32_MAX / 2;

    if (zk->session_id && !zk->expired)
        most = least(most, zk->session_ns / PAUSES); /* or it would end in a pause */
    hf__random(&zk->random, &random, sizeof random);
    return most / 2 + (int64_t)(((uint64_t)most / 2 * random) >> 32);
}

/* ---- Down ------------------------------------------------------------------------ */

static void connection_close(struct zk *zk)
{
    zk->state = ZK_STATE_WAITING;
    zk->close_sent = false;
    zk->connection++;
    zk->marks = (struct zk_marks){ .first = 0 };
    if (zk->stream)
        hf__stream_close(zk->stream);
}

/* The next server now; after the last one of a round the first again, later. */
static void retry_plan(struct zk *zk, int64_t now)
{
    zk->retry_ns = now;
    if (zk->tried >= zk->server_count) {
        zk->give_up = zk->give_up || !zk->reached;
        zk->retry_ns += backoff_ns(zk);
        zk->attempts++;
        zk->tried = 0;
        zk->reached = false;
    }
    rearm(zk);
}

void hf__zk_lost(struct zk *zk, const hf_error *why)
{
    bool was_up = zk->state == ZK_STATE_UP;
    int64_t now = zk_now(zk);

    zk->why = *why;
    if (was_up && now - zk->up_ns > BACKOFF_LAST_NS)
        zk->attempts = 0;
    connection_close(zk);
    retry_plan(zk, now);
    hf__zk_pending_fail_all(zk, &zk->why);
    if (was_up && !zk_is_quiet(zk))
        zk->user->down(zk->session, &zk->why);
}

void hf__zk_lost_because(struct zk *zk, int code, const char *what)
{
    hf_error why;
    hf__error_set(&why, code, "%s %s; the connection was closed",
                  hf__stream_peer(zk->stream), what);
    hf__zk_lost(zk, &why);
}

/* ---- The session ----------------------------------------------------------------- */

/* Servers refuse a client that has seen a later transaction than they have. If all of
 * them do, because their data was restored or one of them sent a false number, the
 * session ends here. Without that number any of them may then be asked to close it. */
void hf__zk_session_expire(struct zk *zk)
{
    bool tell = zk->announced && !zk_is_quiet(zk);

    if (!zk->session_id || zk->expired)
        return;
    zk->expired = true;
    zk->last_zxid = 0;
    if (tell)
        zk->user->expired(zk->session);
}

/* Nothing is carried over into the next session: its first server may have seen fewer
 * transactions than the last one. */
void hf__zk_session_forget(struct zk *zk)
{
    zk->session_id = 0;
    zk->expired = false;
    zk->announced = false;
    zk->last_zxid = 0;
    zk->base_ns = 0;
    explicit_bzero(zk->password, sizeof zk->password);
    zk->password_len = sizeof(int64_t[2]);
    hf__zk_watches_clear(zk);
}

void hf__zk_ready(struct zk *zk)
{
    bool fresh = zk->fresh;

    zk->state = ZK_STATE_UP;
    zk->up_ns = zk_now(zk);
    zk->tried = zk->server_count; /* after a loss there is a pause first */
    zk->reached = true;
    zk->announced = true;
    zk->fresh = false;
    rearm(zk);
    if (!zk_is_quiet(zk))
        zk->user->up(zk->session, fresh);
}

/* ---- Connecting ------------------------------------------------------------------ */

static void stream_opened(void *arg)
{
    struct zk *zk = arg;

    zk->state = ZK_STATE_HANDSHAKE;
    zk->reached = true;
    zk->handshake_until_ns = zk_now(zk) + hf__zk_server_share_ns(zk);
    rearm(zk);
    hf__zk_handshake_begin(zk);
}

static void stream_readable(void *arg)
{
    hf__zk_read(arg);
}

static void stream_broken(void *arg, const hf_error *why)
{
    hf__zk_lost(arg, why);
}

static const struct hf_stream_user stream_user = {
    .opened = stream_opened,
    .readable = stream_readable,
    .broken = stream_broken,
};

static void connect_next(struct zk *zk)
{
    hf_error why;

    zk->state = ZK_STATE_CONNECTING;
    rearm(zk);
    int rc = hf__zk_server_next(zk, &stream_user, &why);
    if (rc == 0)
        return;
    if (rc == HF_EURL || rc == HF_EUNSUPPORTED)
        zk->give_up = true;
    hf__zk_lost(zk, &why);
}

/* ---- The timer ------------------------------------------------------------------- */

static void lost_without_reply(struct zk *zk)
{
    hf__zk_lost_because(zk, HF_EUNREACHABLE, "does not answer in time");
}

/* After a suspend, or on a busy machine, the reply may have arrived unread: a deadline
 * is over only if reading the stream brings nothing. */
static void connection_check(struct zk *zk, int64_t now)
{
    uint32_t connection = zk->connection;

    for (int i = 0; i < LAST_READS && now >= late_at(zk); i++) {
        if (!hf__stream_pump(zk->stream, now))
            break;
        if (zk->connection != connection)
            return;
    }
    if (now >= late_at(zk)) {
        lost_without_reply(zk);
        return;
    }
    if (now >= ask_at(zk)) {
        zk->asked_ns = now;
        hf__zk_sync(zk, "/", NULL, NULL, 0);
    }
}

static void session_check(struct zk *zk, int64_t now)
{
    if (!zk->session_id || zk->expired || now < hf__zk_valid_until(zk))
        return;
    if (zk->state == ZK_STATE_UP || zk->state == ZK_STATE_AUTH)
        lost_without_reply(zk);
    hf__zk_session_expire(zk);
}

static void timer_fired(void *arg)
{
    struct zk *zk = arg;
    int64_t now = zk_now(zk);

    arm(zk, HF_NEVER);
    if (zk->state == ZK_STATE_UP)
        connection_check(zk, now);
    session_check(zk, now);
    if (zk->state == ZK_STATE_WAITING) {
        if (now >= zk->retry_ns && !(zk->closing && !zk->session_id))
            connect_next(zk);
    } else if (zk->state != ZK_STATE_UP && zk->state != ZK_STATE_CONNECTING) {
        if (now >= zk->handshake_until_ns)
            lost_without_reply(zk);
    }
    rearm(zk);
}

/* ---- Open ------------------------------------------------------------------------ */

/* Copies the texts of the settings into one block. */
static int texts_keep(struct zk *zk)
{
    struct zk_settings *s = &zk->settings;
    const char **texts[] = {
        &s->hosts,          &s->chroot,
        &s->auth,           &s->stream.unix_path,
        &s->stream.tls_ca,  &s->stream.tls_cert,
        &s->stream.tls_key, &s->stream.tls_name,
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };

    for (size_t i = 0; i < COUNT; i++) {
        *texts[i] = *texts[i] ? *texts[i] : "";
        zk->texts_size += strlen(*texts[i]) + 1;
    }
    char *at = zk->texts = hf__alloc(zk->texts_size);
    for (size_t i = 0; i < COUNT && at; i++) {
        size_t size = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
    zk->hosts = zk->texts; /* the first one */
    return at ? 0 : HF_ENOMEM;
}

static int chroot_check(struct zk *zk, hf_error *why)
{
    const char *chroot = zk->settings.chroot;
    size_t len = strlen(chroot);

    while (len > 0 && chroot[len - 1] == '/')
        len--;
    zk->chroot_len = len;
    if (len > 0 && (chroot[0] != '/' || strstr(chroot, "//")))
        return hf__fail(why, HF_EURL, "the path below which all is kept must be /a/b");
    return 0;
}

static int zk_new(struct hf_host *host, const struct zk_settings *settings,
                  const struct zk_user *user, void *session, struct zk **ret_zk,
                  hf_error *why)
{
    struct zk *zk = hf__alloc(sizeof *zk);

    if (!zk)
        return hf__fail_code(why, HF_ENOMEM);
    *ret_zk = zk;
    zk->host = host;
    zk->settings = *settings;
    if (zk->settings.stream.connect_ns <= 0)
        zk->settings.stream.connect_ns = CONNECT_DEFAULT_NS;
    zk->user = user;
    zk->session = session;
    zk->timer.callback = timer_fired;
    zk->timer.arg = zk;
    hf__zk_session_forget(zk);
    if (texts_keep(zk) < 0 || host->ops->set_timer(host, &zk->timer, HF_NEVER) < 0)
        return hf__fail_code(why, HF_ENOMEM);
    int rc = chroot_check(zk, why);
    return rc == 0 ? hf__zk_servers_make(zk, why) : rc;
}

/* What the loop would do once. */
static void run_once(struct zk *zk, int64_t deadline_ns)
{
    int64_t until = least(zk->timer.at_ns, deadline_ns);

    if (zk->state == ZK_STATE_WAITING)
        poll(NULL, 0, hf__poll_ms(zk_now(zk), until));
    else
        hf__stream_pump(zk->stream, until);
    if (zk->timer.at_ns <= zk_now(zk)) {
        zk->host->ops->stop_timer(zk->host, &zk->timer);
        timer_fired(zk);
    }
}

static int wait_until_up(struct zk *zk, hf_error *why)
{
    int64_t deadline = zk_now(zk) + zk->settings.stream.connect_ns;

    zk->opening = true;
    connect_next(zk);
    while (zk->state != ZK_STATE_UP && !zk->give_up && zk_now(zk) < deadline)
        run_once(zk, deadline);
    zk->opening = false;
    if (zk->state == ZK_STATE_UP)
        return 0;
    if (!zk->why.code)
        hf__error_set(&zk->why, HF_EUNREACHABLE, "%s does not answer in time",
                      hf__stream_peer(zk->stream));
    if (why)
        *why = zk->why;
    return zk->why.code;
}

int hf__zk_open(struct hf_host *host, const struct zk_settings *settings,
                const struct zk_user *user, void *session, struct zk **ret_zk,
                hf_error *why)
{
    struct zk *zk = NULL;
    int rc = zk_new(host, settings, user, session, &zk, why);

    if (rc == 0)
        rc = wait_until_up(zk, why);
    if (rc == 0)
        *ret_zk = zk;
    else
        hf__zk_close(zk, false);
    return rc;
}

/* ---- Close ----------------------------------------------------------------------- */

void hf__zk_mute(struct zk *zk)
{
    zk->muted = true;
    hf__zk_forget_all(zk);
}

/* Once per connection. The server carries out earlier requests first. */
static void close_send(struct zk *zk)
{
    if (zk->state != ZK_STATE_UP || zk->close_sent)
        return;
    zk->close_sent = hf__zk_request_empty(zk, ZK_OPCODE_CLOSE) == 0;
    if (zk->close_sent)
        hf__zk_flush_now(zk);
}

/* A session exists, or is being made, and a server to end it is connected. A session in
 * its first handshake counts: no other client could end it. */
static bool session_is_open(const struct zk *zk)
{
    return zk->state == ZK_STATE_HANDSHAKE ||
           (zk->session_id && zk->state != ZK_STATE_WAITING);
}

/* The connection was lost a moment ago: pauses are short, and servers can be
 * reached. */
static bool reconnect_is_likely(const struct zk *zk)
{
    return zk->session_id && zk->state == ZK_STATE_WAITING &&
           zk->attempts <= LIKELY_ROUNDS;
}

/* Reads until the server closes the connection: closing a socket with unread events
 * would discard what the server has not read yet. */
void hf__zk_close_wait(struct zk *zk, int64_t deadline_ns)
{
    zk->closing = true;
    close_send(zk);
    while ((session_is_open(zk) || reconnect_is_likely(zk)) &&
           zk_now(zk) < deadline_ns) {
        run_once(zk, deadline_ns);
        close_send(zk);
    }
}

void hf__zk_close(struct zk *zk, bool forked)
{
    if (!zk)
        return;
    if (!forked)
        close_send(zk);
    zk->host->ops->stop_timer(zk->host, &zk->timer);
    hf__zk_servers_done(zk, forked);
    hf__zk_watches_done(zk);
    hf__zk_lists_done(&zk->lists);
    hf__free(zk->ring.entries);
    if (zk->texts)
        explicit_bzero(zk->texts, zk->texts_size);
    hf__free(zk->texts);
    explicit_bzero(zk->password, sizeof zk->password);
    hf__free(zk);
}

/* ---- Looking --------------------------------------------------------------------- */

bool hf__zk_is_up(const struct zk *zk)
{
    return zk->state == ZK_STATE_UP;
}

int64_t hf__zk_session_id(const struct zk *zk)
{
    return zk->expired ? 0 : zk->session_id;
}

int64_t hf__zk_session_ns(const struct zk *zk)
{
    return zk->session_ns;
}

int64_t hf__zk_valid_until(const struct zk *zk)
{
    return zk->session_id && !zk->expired ? zk->base_ns + zk->session_ns : 0;
}
