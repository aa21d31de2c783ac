/* SPDX-License-Identifier: MIT */
/*
 * The ZooKeeper client, with servers that say anything at any time. The input is a row
 * of steps: bytes that come in, greetings, replies and events that are right but for
 * one thing, calls, watches, time that passes, connections that break; the stream is
 * one of our own, without a socket. Held against it:
 *
 *   - a call is answered at most once, and never after it was forgotten; an answer is
 *     a reply or a reason, and the reason says what was the case;
 *   - whoever is told "down" has heard of all his calls; a session ends once, and a new
 *     one begins only after the former has ended;
 *   - no session is believed beyond its time;
 *   - what is written is whole frames;
 *   - nothing is told while the client is being opened, nothing after it was closed;
 *   - no memory is left behind.
 */
#include "fuzz.h"

#include "../../src/backends/zookeeper/wire/zk_inside.h"
#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <poll.h>
#include <string.h>

enum { CALLS_MAX = 4096, SUBJECTS = 4, SERVERS = 3, INPUT_LIMIT = 1 << 20 };

static const char *const paths[] = { "/", "/a", "/b", "/a/b" };

static const uint8_t *steps;
static size_t steps_left;

static uint8_t next_step(void)
{
    if (steps_left == 0)
        return 0;
    steps_left--;
    return *steps++;
}

/* ---- The streams and the host ---------------------------------------------------- */

struct hf_stream {
    struct hf_stream_user user;
    void *arg;
    enum { CLOSED, OPENING, OPEN } state;
    char *room; /* given out for writing */
    char *in;   /* a block of exactly `in_size` */
    size_t in_size;
};

static struct hf_stream *current; /* the one that was opened last */
static size_t stream_count;
static int64_t now_ns;
static struct hf_timer *timer;
static struct zk *zk;

int hf__stream_new(struct hf_host *host, const struct hf_stream_settings *settings,
                   const struct hf_stream_user *user, void *arg,
                   struct hf_stream **ret_stream, hf_error *why)
{
    (void)host, (void)settings, (void)why;
    struct hf_stream *stream = calloc(1, sizeof *stream);
    MUST(stream && stream_count < SERVERS);
    stream->user = *user;
    stream->arg = arg;
    stream_count++;
    *ret_stream = stream;
    return 0;
}

void hf__stream_close(struct hf_stream *stream)
{
    free(stream->in);
    free(stream->room);
    stream->in = stream->room = NULL;
    stream->in_size = 0;
    stream->state = CLOSED;
}

void hf__stream_done(struct hf_stream *stream, bool forked)
{
    (void)forked;
    if (!stream)
        return;
    hf__stream_close(stream);
    free(stream);
}

int hf__stream_open(struct hf_stream *stream, hf_error *why)
{
    (void)why;
    MUST(!current || current == stream || current->state == CLOSED);
    hf__stream_close(stream);
    stream->state = OPENING;
    current = stream;
    return 0;
}

char *hf__stream_room(struct hf_stream *stream, size_t size)
{
    MUST(stream->state == OPEN && stream == current);
    free(stream->room);
    stream->room = malloc(size);
    return stream->room;
}

void hf__stream_wrote(struct hf_stream *stream, size_t size)
{
    struct jute record;
    size_t used = 0;

    MUST(hf__zk_jute_frame(stream->room, size, &record, &used) == JUTE_WHOLE &&
         used == size);
    free(stream->room);
    stream->room = NULL;
}

bool hf__stream_flush(struct hf_stream *stream)
{
    MUST(stream->state == OPEN);
    return true;
}

const char *hf__stream_input(const struct hf_stream *stream, size_t *ret_size)
{
    *ret_size = stream->in_size;
    return stream->in ? stream->in : "";
}

void hf__stream_consume(struct hf_stream *stream, size_t size)
{
    MUST(size <= stream->in_size);
    size_t left = stream->in_size - size;
    char *in = malloc(left ? left : 1);
    MUST(in != NULL);
    if (left)
        memcpy(in, stream->in + size, left);
    free(stream->in);
    stream->in = in;
    stream->in_size = left;
}

const char *hf__stream_peer(const struct hf_stream *stream)
{
    return stream ? "peer:2181" : NULL;
}

static void become_open(struct hf_stream *stream)
{
    stream->state = OPEN;
    stream->user.opened(stream->arg);
}

static void break_off(struct hf_stream *stream)
{
    hf_error why = { .code = HF_EUNREACHABLE, .text = "it broke" };
    if (!stream || stream->state == CLOSED)
        return;
    hf__stream_close(stream);
    stream->user.broken(stream->arg, &why);
}

static int host_set_timer(struct hf_host *host, struct hf_timer *set, int64_t at_ns)
{
    (void)host;
    set->at_ns = at_ns;
    set->slot = 1;
    timer = set;
    return 0;
}

static void host_stop_timer(struct hf_host *host, struct hf_timer *set)
{
    (void)host;
    set->slot = 0;
    timer = NULL;
}

static int64_t host_now(struct hf_host *host)
{
    (void)host;
    return now_ns;
}

static const struct hf_host_ops ops = {
    .size = sizeof ops,
    .set_timer = host_set_timer,
    .stop_timer = host_stop_timer,
    .now = host_now,
};

/* A timer that is due again and again without time passing would spin. */
static void pass_time(int64_t ns)
{
    int turns = 0;

    now_ns += ns;
    while (timer && timer->slot && timer->at_ns <= now_ns) {
        MUST(turns++ < 100);
        timer->slot = 0;
        timer->callback(timer->arg);
    }
    MUST(hf__zk_session_id(zk) == 0 || now_ns < hf__zk_valid_until(zk));
}

/* ---- What the servers say -------------------------------------------------------- */

static void deliver(const void *bytes, size_t size)
{
    struct hf_stream *stream = current;

    if (!stream || stream->state != OPEN || size == 0 ||
        stream->in_size + size > INPUT_LIMIT)
        return;
    stream->in = realloc(stream->in, stream->in_size + size);
    MUST(stream->in != NULL);
    memcpy(stream->in + stream->in_size, bytes, size);
    stream->in_size += size;
    stream->user.readable(stream->arg);
}

static void put_steps(struct jute_out *out)
{
    for (size_t size = next_step(); size > 0 && steps_left > 0; size--)
        if (out->at < out->end)
            *out->at++ = (char)next_step();
}

static void deliver_steps(void)
{
    char bytes[256];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    put_steps(&out);
    deliver(bytes, (size_t)(out.at - bytes));
}

static void greet(uint8_t how)
{
    char bytes[128];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    char *frame = hf__zk_jute_open(&out);
    int64_t session = how & 8 ? how : 7;

    hf__zk_jute_put_int(&out, 0);
    hf__zk_jute_put_int(&out, how % 8 == 7 ? 0 : 1 + how * 100);
    hf__zk_jute_put_long(&out, how % 8 == 6 ? 0 : session);
    hf__zk_jute_put_text(&out, "0123456789abcdef", how % 17);
    if (how & 32)
        hf__zk_jute_put_bool(&out, how % 8 == 5);
    hf__zk_jute_close(&out, frame);
    deliver(bytes, (size_t)(out.at - bytes));
}

static void put_path(struct jute_out *out, uint8_t which)
{
    char text[32] = "/root";
    const char *path = paths[which % 4];

    if (which % 4)
        memcpy(text + 5, path, strlen(path) + 1);
    hf__zk_jute_put_text(out, which & 64 ? path : text,
                         strlen(which & 64 ? path : text));
}

static void put_body(struct jute_out *out, const struct zk_pending *call, uint8_t how)
{
    switch (call->opcode) {
    case ZK_OPCODE_CHILDREN2:
        hf__zk_jute_put_int(out, 2);
        hf__zk_jute_put_text(out, "x", 1);
        hf__zk_jute_put_text(out, "yy", 2);
        break;
    case ZK_OPCODE_MULTI:
        for (uint32_t i = 0; i < call->count; i++) {
            hf__zk_jute_put_int(out, ZK_OPCODE_CREATE);
            hf__zk_jute_put_bool(out, false);
            hf__zk_jute_put_int(out, 0);
            put_path(out, how);
        }
        hf__zk_jute_put_int(out, -1);
        hf__zk_jute_put_bool(out, true);
        hf__zk_jute_put_int(out, -1);
        return;
    case ZK_OPCODE_CREATE2:
    case ZK_OPCODE_CONTAINER:
        put_path(out, how);
        break;
    case ZK_OPCODE_GET:
        hf__zk_jute_put_text(out, "data", how % 5);
        break;
    default:
        break;
    }
    for (int i = 0; i < 17; i++) /* a Stat */
        hf__zk_jute_put_int(out, i);
}

static const int32_t errors[16] = {
    [5] = ZK_NONODE,       [7] = ZK_SESSIONEXPIRED, [9] = ZK_SESSIONMOVED,
    [11] = ZK_NOTREADONLY, [13] = ZK_AUTHFAILED,    [15] = ZK_NOWATCHER,
};

/* The reply that is due, or nearly. */
static void reply(uint8_t how, bool made_up)
{
    char bytes[1024];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    const struct zk_pending *oldest = zk ? hf__zk_ring_oldest(&zk->ring) : NULL;
    char *frame = hf__zk_jute_open(&out);

    if (!oldest)
        return;
    hf__zk_jute_put_int(&out, oldest->xid);
    hf__zk_jute_put_long(&out, how);
    hf__zk_jute_put_int(&out, errors[how % 16]);
    if (made_up)
        put_steps(&out);
    else
        put_body(&out, oldest, how);
    hf__zk_jute_close(&out, frame);
    deliver(bytes, (size_t)(out.at - bytes));
}

static void event(uint8_t how)
{
    char bytes[128];
    struct jute_out out = { .at = bytes, .end = bytes + sizeof bytes };
    char *frame = hf__zk_jute_open(&out);

    hf__zk_jute_put_int(&out, ZK_XID_EVENT);
    hf__zk_jute_put_long(&out, -1);
    hf__zk_jute_put_int(&out, 0);
    hf__zk_jute_put_int(&out, how % 7 - 1);
    hf__zk_jute_put_int(&out, 3);
    put_path(&out, how >> 3);
    hf__zk_jute_close(&out, frame);
    deliver(bytes, (size_t)(out.at - bytes));
}

/* In hf__zk_open(), and when the client looks whether something is there. */
bool hf__stream_pump(struct hf_stream *stream, int64_t deadline_ns)
{
    (void)deadline_ns;
    now_ns += HF_NS_PER_MS;
    if (stream->state == OPENING)
        become_open(stream);
    else if (steps_left == 0)
        break_off(stream);
    else if (steps[0] % 4 == 3)
        reply(next_step(), false);
    else if (steps[0] % 4 == 2)
        deliver_steps();
    else
        greet(next_step());
    return true;
}

/* hf__zk_open() waits with it between two tries; here it only lets time pass. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    (void)fds, (void)count;
    now_ns += (timeout > 0 ? timeout : 1) * HF_NS_PER_MS;
    return 0;
}

/* ---- The user -------------------------------------------------------------------- */

enum call_state { UNUSED, ASKED, ANSWERED, FORGOTTEN };

static uint8_t calls[CALLS_MAX];
static size_t call_count;
static unsigned inside; /* callbacks that make calls of their own */
static bool is_up, has_session;
static char subjects[SUBJECTS];

static void one_step(uint8_t step);

static size_t sum(struct zk_text text)
{
    size_t all = 0;
    for (size_t i = 0; i < text.len; i++)
        all += (unsigned char)text.at[i];
    return all;
}

static void look_at(const struct zk_reply *got)
{
    const struct zk_text *texts = got->names ? got->names : got->paths;
    size_t all = sum(got->path) + sum(got->data);
    for (size_t i = 0; i < got->count; i++)
        all += sum(texts[i]) + (got->errors && got->errors[i] != 0);
    MUST(all < SIZE_MAX);
}

static void on_done(const struct zk_answer *answer)
{
    const struct zk_reply *got = answer->reply;
    MUST(answer->session == subjects &&
         answer->subject == &subjects[answer->tag % SUBJECTS]);
    MUST(calls[answer->tag] == ASKED && answer->sent_ns <= now_ns);
    MUST(!got != !answer->why);
    if (answer->why)
        MUST(answer->why->code == HF_EUNCERTAIN ||
             answer->why->code == HF_EUNREACHABLE);
    else
        look_at(got);
    calls[answer->tag] = ANSWERED;
    if (inside == 0 && answer->tag % 3 == 0) {
        inside++;
        one_step(8 + next_step() % 8);
        inside--;
    }
}

static void on_up(void *session, bool fresh)
{
    MUST(session == subjects && zk && hf__zk_is_up(zk) && !is_up);
    MUST(fresh != has_session && hf__zk_session_id(zk) != 0);
    is_up = has_session = true;
}

static void on_down(void *session, const hf_error *why)
{
    MUST(session == subjects && zk && !hf__zk_is_up(zk) && is_up && why->code < 0);
    for (size_t i = 0; i < call_count; i++)
        MUST(calls[i] != ASKED);
    is_up = false;
}

static void on_expired(void *session)
{
    MUST(session == subjects && zk && !is_up && has_session);
    has_session = false;
}

static void on_event(void *session, enum zk_event_type type, const char *path,
                     size_t len)
{
    MUST(session == subjects && zk && is_up);
    MUST(type >= ZK_CREATED && type <= ZK_CHILD && len > 0 && path[0] == '/');
    MUST(sum((struct zk_text){ path, len }) > 0);
}

static const struct zk_user user = { on_up, on_down, on_expired, on_event };

/* ---- Steps ----------------------------------------------------------------------- */

static void make_call(uint8_t how)
{
    static const struct zk_op pair[] = {
        { .what = ZK_OP_CREATE, .path = "/a", .data = "x", .len = 1 },
        { .what = ZK_OP_DELETE, .path = "/b", .version = -1 },
    };
    const char *path = paths[how >> 6];
    size_t word = call_count;

    if (call_count == CALLS_MAX)
        return;
    call_count++;
    calls[word] = ASKED;
    void *subject = &subjects[word % SUBJECTS];
    int rc = 0;
    switch (how / 4 % 12) {
    case 1:
        rc = hf__zk_exists(zk, path, how & 1, on_done, subject, word);
        break;
    case 0:
    case 2:
        rc = hf__zk_get(zk, path, how & 1, on_done, subject, word);
        break;
    case 3:
    case 4:
        rc = hf__zk_children(zk, path, how & 1, on_done, subject, word);
        break;
    case 6:
        rc = hf__zk_multi(zk, pair, 1 + (how & 1), on_done, subject, word);
        break;
    case 7:
        rc = hf__zk_create(zk, path, "abc", 3, ZK_EPHEMERAL_SEQUENTIAL, on_done,
                           subject, word);
        break;
    case 8:
        rc = hf__zk_make_folder(zk, path, on_done, subject, word);
        break;
    case 9:
        rc = hf__zk_set(zk, path, "abc", 3, -1, on_done, subject, word);
        break;
    case 10:
        rc = hf__zk_ping(zk, on_done, subject, word);
        break;
    default:
        rc = hf__zk_delete(zk, path, -1, on_done, subject, word);
        break;
    }
    MUST(rc == 0 || rc == HF_EUNREACHABLE || rc == HF_ENOMEM);
    if (rc != 0)
        calls[word] = ANSWERED;
}

static void forget(size_t which)
{
    hf__zk_forget(zk, &subjects[which]);
    for (size_t i = which; i < call_count; i += SUBJECTS)
        if (calls[i] == ASKED)
            calls[i] = FORGOTTEN;
}

static void server_step(uint8_t step)
{
    switch (step % 8) {
    case 0:
    case 1:
        reply(next_step(), false);
        break;
    case 2:
        reply(next_step(), true);
        break;
    case 3:
        greet(next_step());
        break;
    case 4:
        event(next_step());
        break;
    case 5:
        pass_time((int64_t)next_step() * 50 * HF_NS_PER_MS);
        break;
    case 6:
        break_off(current);
        break;
    default:
        deliver_steps();
        break;
    }
}

static void user_step(uint8_t step)
{
    switch (step % 8) {
    case 3:
        hf__zk_unwatch(zk, paths[step >> 6]);
        break;
    case 4:
        forget(step / 16 % SUBJECTS);
        break;
    default:
        hf__zk_gather(zk);
        for (int i = step % 8 > 4; i >= 0; i--)
            make_call(next_step());
        hf__zk_flush(zk);
    }
}

static void one_step(uint8_t step)
{
    if (step & 8)
        user_step(step);
    else
        server_step(step);
    if (inside == 0 && current && current->state == OPENING)
        become_open(current);
}

static struct zk_settings settings_of(uint8_t how)
{
    return (struct zk_settings){
        .hosts = how & 1 ? "a" : "a,b:1,c",
        .chroot = how & 2 ? "" : "/root",
        .stream = { .host = "", .connect_ns = HF_NS_PER_S },
        .auth = how & 4 ? "user:password" : "",
        .session_ns = 4 * HF_NS_PER_S,
        .request_ns = HF_NS_PER_S,
    };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_host host = { .ops = &ops,
                            .program = "fuzz",
                            .request_ns = INT64_C(5000000000) };
    size_t live = hf__mem_live();
    hf_error why = { .code = 0 };

    steps = data;
    steps_left = size;
    now_ns = 1000 * HF_NS_PER_S;
    stream_count = call_count = 0;
    current = NULL;
    timer = NULL;
    zk = NULL;
    const uint8_t how = next_step();
    const struct zk_settings settings = settings_of(how);
    int rc = hf__zk_open(&host, &settings, &user, subjects, &zk, &why);
    MUST(rc == 0 ? zk != NULL && hf__zk_is_up(zk) : rc == why.code && !zk);
    is_up = has_session = rc == 0;
    while (rc == 0 && steps_left > 0)
        one_step(next_step());
    if (rc == 0 && how & 8) {
        hf__zk_mute(zk);
        is_up = has_session = false;
        hf__zk_close_wait(zk, now_ns + HF_NS_PER_S);
    }
    hf__zk_close(zk, false);
    MUST(!timer && hf__mem_live() == live);
    return 0;
}
