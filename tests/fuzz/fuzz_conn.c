/* SPDX-License-Identifier: MIT */
/*
 * The connection, with a server that sends anything at any time. The input is a row of
 * steps: input bytes, requests, scripts, subscriptions, time that passes, connections
 * that break; the stream is the test's own, without a socket. Checked:
 *
 *   - a request is answered at most once, and never after it was forgotten;
 *   - an answer is a reply or an error, and the error says whether it was sent;
 *   - there is no callback while the connection is being opened, and none after close;
 *   - no memory is left behind.
 */
#include "fuzz.h"

#include "../../src/backends/redis/conn.h"
#include "../../src/backends/redis/scripts.h"
#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <poll.h>
#include <string.h>

enum { CALLS_MAX = 4096, SUBJECTS = 4, STREAMS = 2, INPUT_LIMIT = 1 << 20 };

static const char handshake3[] = "%1\r\n+version\r\n+7.0.15\r\n"
                                 ">3\r\n+subscribe\r\n+inbox\r\n:1\r\n+PONG\r\n";
static const char handshake2[] = "$20\r\nredis_version:7.0.1\n\r\n+PONG\r\n";
static const char inbox2[] = "*3\r\n+subscribe\r\n+inbox\r\n:1\r\n";

static const uint8_t *steps;
static size_t steps_left;

static uint8_t next_step(void)
{
    if (steps_left == 0)
        return 0;
    steps_left--;
    return *steps++;
}

/* ---- The stream and the host ----------------------------------------------------- */

struct hf_stream {
    struct hf_stream_user user;
    void *arg;
    enum { CLOSED, OPENING, OPEN } state;
    char *room; /* given out for writing */
    char *in;   /* a block of exactly `in_size` */
    size_t in_size, flushed, written;
};

static struct hf_stream *streams[STREAMS];
static size_t stream_count;
static int64_t now_ns;
static struct hf_timer *timer;

int hf__stream_new(struct hf_host *host, const struct hf_stream_settings *settings,
                   const struct hf_stream_user *user, void *arg,
                   struct hf_stream **ret_stream, hf_error *why)
{
    (void)host, (void)settings, (void)why;
    struct hf_stream *stream = calloc(1, sizeof *stream);
    MUST(stream && stream_count < STREAMS);
    stream->user = *user;
    stream->arg = arg;
    streams[stream_count++] = stream;
    *ret_stream = stream;
    return 0;
}

void hf__stream_close(struct hf_stream *stream)
{
    free(stream->in);
    free(stream->room);
    stream->in = stream->room = NULL;
    stream->in_size = stream->written = stream->flushed = 0;
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
    hf__stream_close(stream);
    stream->state = OPENING;
    return 0;
}

char *hf__stream_room(struct hf_stream *stream, size_t size)
{
    MUST(stream->state == OPEN);
    free(stream->room);
    stream->room = malloc(size);
    return stream->room;
}

void hf__stream_wrote(struct hf_stream *stream, size_t size)
{
    MUST(stream->room && stream->room[0] == '*' && stream->room[size - 1] == '\n');
    free(stream->room);
    stream->room = NULL;
    stream->written++;
}

bool hf__stream_flush(struct hf_stream *stream)
{
    MUST(stream->state == OPEN);
    stream->flushed = stream->written;
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
    (void)stream;
    return "peer:6379";
}

static void deliver(struct hf_stream *stream, const void *bytes, size_t size)
{
    if (!stream || stream->state != OPEN || size == 0 ||
        stream->in_size + size > INPUT_LIMIT)
        return;
    stream->in = realloc(stream->in, stream->in_size + size);
    MUST(stream->in != NULL);
    memcpy(stream->in + stream->in_size, bytes, size);
    stream->in_size += size;
    stream->user.readable(stream->arg);
}

static void deliver_steps(struct hf_stream *stream)
{
    size_t size = next_step();
    if (size > steps_left)
        size = steps_left;
    const uint8_t *from = steps;
    steps += size;
    steps_left -= size;
    deliver(stream, from, size);
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

/* Says what a server would, if the next step allows. */
static void answer_handshake(struct hf_stream *stream, uint8_t how)
{
    bool second = stream_count > 1 && stream == streams[1];
    if (how % 8 == 7)
        deliver_steps(stream);
    else if (second)
        deliver(stream, inbox2, sizeof inbox2 - 1);
    else if (how % 8 == 6)
        deliver(stream, handshake2, sizeof handshake2 - 1);
    else
        deliver(stream, handshake3, sizeof handshake3 - 1);
}

bool hf__stream_pump(struct hf_stream *stream, int64_t deadline_ns)
{
    now_ns += HF_NS_PER_MS;
    if (stream->state == OPENING)
        become_open(stream);
    else if (steps_left == 0)
        break_off(stream);
    else
        answer_handshake(stream, next_step());
    return now_ns < deadline_ns;
}

/* hf__redis_conn_open() waits with it between attempts; here it moves the clock. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    (void)fds, (void)count;
    now_ns += (timeout > 0 ? timeout : 0) * HF_NS_PER_MS;
    return 0;
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

static void pass_time(int64_t ns)
{
    now_ns += ns;
    if (timer && timer->slot && timer->at_ns <= now_ns) {
        timer->slot = 0;
        timer->callback(timer->arg);
    }
}

/* ---- The user -------------------------------------------------------------------- */

enum call_state { UNUSED, ASKED, ANSWERED, FORGOTTEN };

static struct redis_conn *conn;
static uint8_t calls[CALLS_MAX];
static size_t call_count;
static unsigned inside; /* callbacks that send requests of their own */
static bool is_up;
static char subjects[SUBJECTS];

static const struct script script = { "test", "return 1", 8, "0123456789" };

static void one_step(uint8_t step);

static void on_reply(void *session, void *subject, uint64_t word,
                     const struct resp *nodes, int64_t sent_ns, const hf_error *why)
{
    MUST(session == subjects && subject == &subjects[word % SUBJECTS]);
    MUST(calls[word] == ASKED && sent_ns <= now_ns);
    MUST(!nodes != !why);
    if (why)
        MUST(why->code == HF_EUNCERTAIN || why->code == HF_EUNREACHABLE);
    else
        MUST(nodes[0].type != RESP_PUSH && hf__redis_conn_is_up(conn));
    calls[word] = ANSWERED;
    if (inside == 0 && word % 3 == 0) {
        inside++;
        one_step(8 + next_step() % 6);
        inside--;
    }
}

static void on_up(void *session)
{
    MUST(session == subjects && conn && hf__redis_conn_is_up(conn) && !is_up);
    is_up = true;
}

static void on_down(void *session, const hf_error *why)
{
    MUST(session == subjects && conn && !hf__redis_conn_is_up(conn) && is_up &&
         why->code < 0);
    for (size_t i = 0; i < call_count; i++)
        MUST(calls[i] != ASKED);
    is_up = false;
}

static size_t sum(const char *bytes, size_t len)
{
    size_t all = 0;
    for (size_t i = 0; i < len; i++)
        all += (unsigned char)bytes[i];
    return all;
}

static void on_message(void *session, const char *channel, size_t channel_len,
                       const char *payload, size_t payload_len)
{
    MUST(session == subjects && conn);
    MUST(sum(channel, channel_len) + sum(payload, payload_len) < SIZE_MAX);
}

static void on_subscribed(void *session, const char *channel, size_t channel_len)
{
    MUST(session == subjects && conn && channel_len == 1 && channel[0] >= 'a');
}

static const struct conn_user user = { on_up, on_down, on_message, on_subscribed };

/* ---- Steps ----------------------------------------------------------------------- */

static void make_call(bool eval)
{
    const struct resp_arg args[] = { { "GET", 3 }, { "key", 3 } };
    size_t word = call_count;

    if (call_count == CALLS_MAX)
        return;
    call_count++;
    calls[word] = ASKED;
    void *subject = &subjects[word % SUBJECTS];
    if (eval)
        hf__redis_conn_eval(conn, &script, args, 1, args, 1 + word % 2, on_reply,
                            subject, word);
    else
        hf__redis_conn_send(conn, args, 2, on_reply, subject, word);
}

static void forget(size_t which)
{
    hf__redis_conn_forget(conn, &subjects[which]);
    for (size_t i = which; i < call_count; i += SUBJECTS)
        if (calls[i] == ASKED)
            calls[i] = FORGOTTEN;
}

static void one_step(uint8_t step)
{
    struct hf_stream *stream = stream_count > 1 && step & 16 ? streams[1] : streams[0];
    const char channel = (char)('a' + (step >> 5));

    switch (step % 16) {
    case 8:
        make_call(false);
        break;
    case 9:
        make_call(true);
        break;
    case 10:
        MUST(hf__redis_conn_subscribe(conn, &channel, 1) == 0);
        break;
    case 11:
        hf__redis_conn_unsubscribe(conn, &channel, 1);
        break;
    case 12:
        forget(step / 16 % SUBJECTS);
        break;
    case 13:
        make_call(step & 32);
        make_call(step & 64);
        break;
    case 4:
        deliver(stream, "+OK\r\n", 5);
        break;
    case 5:
        deliver(stream, "-NOSCRIPT no\r\n", 14);
        break;
    case 6:
        pass_time((int64_t)next_step() * 100 * HF_NS_PER_MS);
        break;
    case 7:
        break_off(stream);
        break;
    case 14:
        answer_handshake(stream, step >> 5);
        break;
    default:
        deliver_steps(stream);
        break;
    }
    for (size_t i = 0; i < stream_count && inside == 0; i++)
        if (streams[i]->state == OPENING)
            become_open(streams[i]);
}

static struct conn_settings settings_of(uint8_t how)
{
    return (struct conn_settings){
        .stream = { .host = "peer", .connect_ns = HF_NS_PER_S },
        .user = how & 8 ? "user" : "",
        .password = how & 16 ? "password" : "",
        .client_name = how & 32 ? "name" : "",
        .database = how >> 6,
        .request_ns = HF_NS_PER_S,
        .protocol = (how & 3) == 1 ? 0 : how & 3,
        .inbox = "inbox",
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
    timer = NULL;
    conn = NULL;
    const struct conn_settings settings = settings_of(next_step());
    int rc = hf__redis_conn_open(&host, &settings, &user, subjects, &conn, &why);
    MUST(rc == 0 ? conn != NULL && hf__redis_conn_is_up(conn)
                 : rc == why.code && !conn);
    is_up = rc == 0;
    while (rc == 0 && steps_left > 0)
        one_step(next_step());
    hf__redis_conn_close(conn, false);
    MUST(!timer && hf__mem_live() == live);
    return 0;
}
