/* SPDX-License-Identifier: MIT */
/*
 * Streams that are open: input and output, what happens when the peer closes, stops
 * reading or sends too much, and what callbacks may do. The peer is a real socket.
 */
#include "stream_rig.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE ((size_t)10 << 20)

static bool has_got(const struct rig *rig, const char *text)
{
    return rig->got_len == strlen(text) && memcmp(rig->got, text, rig->got_len) == 0;
}

static int option_of(int fd, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof(value);
    ck_assert_int_eq(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

/* The byte at `at` of a long text that does not repeat soon. */
static char pattern(size_t at)
{
    return (char)(at * 31 + at / 251);
}

/* ---- Talk ------------------------------------------------------------------------ */

START_TEST(tcp_talks)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    rig_say(&rig, "pong");
    RIG_WAIT(&rig, has_got(&rig, "pong"));
    ck_assert_int_eq(strncmp(hf__stream_peer(rig.stream), "127.0.0.1:", 10), 0);
    rig_done(&rig);
}
END_TEST

START_TEST(tcp_socket_is_tuned)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    int fd = rig.stream->fd;
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    ck_assert(option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    ck_assert(option_of(fd, SOL_SOCKET, SO_KEEPALIVE));
    ck_assert_int_le(option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    rig_done(&rig);
}
END_TEST

START_TEST(unix_talks)
{
    struct rig rig;
    rig_listen(&rig, "/");
    rig_connect(&rig);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    rig_say(&rig, "pong");
    RIG_WAIT(&rig, has_got(&rig, "pong"));
    ck_assert_str_eq(hf__stream_peer(rig.stream), rig.settings.unix_path);
    rig_done(&rig);
}
END_TEST

START_TEST(ipv6_talks)
{
    struct rig rig;
    rig_listen(&rig, "::1");
    if (rig.listener < 0)
        return; /* a host without IPv6 */
    rig_connect(&rig);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    ck_assert_int_eq(strncmp(hf__stream_peer(rig.stream), "[::1]:", 6), 0);
    rig_done(&rig);
}
END_TEST

/* What was written is sent by flush and not before, all of it at once. */
START_TEST(output_is_gathered)
{
    struct rig rig;
    char byte;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    memcpy(hf__stream_room(rig.stream, 3), "one", 3);
    hf__stream_wrote(rig.stream, 3);
    rig_turn(&rig);
    ck_assert_int_lt(recv(rig.peer, &byte, 1, MSG_DONTWAIT), 0);
    rig_send(&rig, "two");
    rig_expect(&rig, "onetwo");
    rig_done(&rig);
}
END_TEST

START_TEST(no_registration_per_request)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    unsigned adds = rig.adds;
    for (unsigned i = 1; i <= 100; i++) {
        rig_send(&rig, "ping");
        rig_expect(&rig, "ping");
        rig_say(&rig, "pong");
        RIG_WAIT(&rig, rig.got_len == 4 * i);
    }
    ck_assert_uint_eq(rig.adds, adds);
    ck_assert_uint_eq(rig.readable, 100);
    rig_done(&rig);
}
END_TEST

START_TEST(trickle_comes_through)
{
    static const char text[] = "*2\r\n$4\r\nPING\r\n$0\r\n\r\n";
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    for (unsigned i = 1; i <= strlen(text); i++) {
        size_t size;
        rig_say(&rig, (char[]){ text[i - 1], '\0' });
        RIG_WAIT(&rig, rig.readable == i);
        const char *data = hf__stream_input(rig.stream, &size);
        ck_assert_uint_eq(size, i);
        ck_assert_mem_eq(data, text, i);
    }
    hf__stream_consume(rig.stream, 4);
    size_t left;
    ck_assert_mem_eq(hf__stream_input(rig.stream, &left), "$4\r\n", 4);
    ck_assert_uint_eq(left, strlen(text) - 4);
    rig_done(&rig);
}
END_TEST

/* ---- Large ----------------------------------------------------------------------- */

static void feed(struct rig *rig, size_t *sent, size_t total)
{
    char piece[65536];
    size_t len = total - *sent < sizeof(piece) ? total - *sent : sizeof(piece);
    for (size_t i = 0; i < len; i++)
        piece[i] = pattern(*sent + i);
    ssize_t done = send(rig->peer, piece, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    *sent += done > 0 ? (size_t)done : 0;
}

START_TEST(large_input)
{
    struct rig rig;
    size_t sent = 0;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    while (rig.got_len < LARGE) {
        feed(&rig, &sent, LARGE);
        rig_turn(&rig);
        UNIT_ASSERT(rig.broken == 0);
    }
    for (size_t i = 0; i < LARGE; i++)
        UNIT_ASSERT(rig.got[i] == pattern(i));
    ck_assert_uint_le(rig.stream->in.size, (size_t)1 << 20);
    rig_done(&rig);
}
END_TEST

/* The user consumes one message of many at a time, so the buffer has to move its
 * contents. */
START_TEST(input_in_uneven_bites)
{
    struct rig rig;
    size_t sent = 0, taken = 0, total = (size_t)3 << 20, size;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    while (taken < total) {
        feed(&rig, &sent, total);
        rig_turn(&rig);
        const char *data = hf__stream_input(rig.stream, &size);
        size_t bite = sent == total ? size : size - size % 1009 / 2;
        for (size_t i = 0; i < bite; i++)
            UNIT_ASSERT(data[i] == pattern(taken + i));
        hf__stream_consume(rig.stream, bite);
        taken += bite;
    }
    ck_assert_uint_eq(taken, total);
    rig_done(&rig);
}
END_TEST

static size_t hear(struct rig *rig, size_t heard)
{
    static char piece[65536];
    ssize_t got = recv(rig->peer, piece, sizeof(piece), MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++)
        UNIT_ASSERT(piece[i] == pattern(heard + (size_t)i));
    return got > 0 ? (size_t)got : 0;
}

START_TEST(large_output)
{
    struct rig rig;
    size_t heard = 0;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    char *room = hf__stream_room(rig.stream, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        room[i] = pattern(i);
    hf__stream_wrote(rig.stream, LARGE);
    hf__stream_flush(rig.stream);
    ck_assert_uint_eq(rig.stream->watched, EPOLLIN | EPOLLOUT);
    while (heard < LARGE) {
        rig_turn(&rig);
        heard += hear(&rig, heard);
    }
    RIG_WAIT(&rig, rig.stream->watched == EPOLLIN);
    rig_send(&rig, "more");
    rig_expect(&rig, "more");
    rig_done(&rig);
}
END_TEST

/* ---- Bounds ---------------------------------------------------------------------- */

START_TEST(peer_stops_reading)
{
    struct rig rig;
    size_t step = (size_t)1 << 20, wrote = 0;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    for (char *room; (room = hf__stream_room(rig.stream, step)); wrote += step) {
        memset(room, 'x', step);
        hf__stream_wrote(rig.stream, step);
        hf__stream_flush(rig.stream);
        UNIT_ASSERT(wrote < (size_t)128 << 20);
    }
    ck_assert_uint_ge(wrote, (size_t)60 << 20);
    ck_assert_uint_le(rig.stream->out.size, HF_BUFFER_MAX);
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

START_TEST(input_is_bounded)
{
    struct rig rig;
    size_t sent = 0;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    while (!rig.broken) {
        feed(&rig, &sent, SIZE_MAX);
        rig_turn(&rig);
        UNIT_ASSERT(sent < (size_t)128 << 20);
    }
    ck_assert_uint_ge(sent, (size_t)60 << 20);
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    rig_done(&rig);
}
END_TEST

START_TEST(large_memory_is_given_back)
{
    struct rig rig;
    size_t size;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    for (size_t sent = 0; rig.stream->in.size < (size_t)4 << 20;) {
        feed(&rig, &sent, (size_t)5 << 20);
        rig_turn(&rig);
    }
    hf__stream_input(rig.stream, &size);
    hf__stream_consume(rig.stream, size);
    rig_say(&rig, "x");
    unsigned before = rig.readable;
    RIG_WAIT(&rig, rig.readable > before);
    ck_assert_uint_le(rig.stream->in.size, (size_t)1 << 20);
    rig_done(&rig);
}
END_TEST

/* ---- The peer leaves ------------------------------------------------------------- */

START_TEST(peer_closes_in_the_middle)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig_say(&rig, "$100\r\nhal");
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert(has_got(&rig, "$100\r\nhal"));
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(rig.why.text, "closed the connection"));
    rig_turn(&rig);
    ck_assert_uint_eq(rig.broken, 1);
    rig_done(&rig);
}
END_TEST

START_TEST(peer_resets)
{
    struct linger hard = { .l_onoff = 1 };
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    setsockopt(rig.peer, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    ck_assert_int_eq(rig.why.sys, ECONNRESET);
    rig_done(&rig);
}
END_TEST

/* Writing to a peer that has closed: no signal, no callback inside the call, and what
 * the peer had sent before still arrives. */
static void writes_after_the_end(const char *address)
{
    struct rig rig;
    rig_listen(&rig, address);
    rig_connect(&rig);
    rig_say(&rig, "-ERR go away\r\n");
    rig_close_peer(&rig);
    for (int i = 0; i < 50; i++)
        rig_send(&rig, "ping");
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert(has_got(&rig, "-ERR go away\r\n"));
    ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
    rig_done(&rig);
}

START_TEST(last_words_are_heard)
{
    writes_after_the_end("127.0.0.1");
    writes_after_the_end("/");
}
END_TEST

/* ---- Callbacks ------------------------------------------------------------------- */

static void then_close(struct rig *rig)
{
    hf__stream_close(rig->stream);
}

static void then_open(struct rig *rig)
{
    rig_open(rig);
}

START_TEST(close_inside_opened)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    rig.then = then_close;
    rig_open(&rig);
    RIG_WAIT(&rig, rig.opened == 1);
    rig_turn(&rig);
    ck_assert(!hf__stream_is_open(rig.stream));
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

START_TEST(close_inside_readable)
{
    struct rig rig;
    size_t size;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    rig.then = then_close;
    rig_say(&rig, "hello");
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.readable == 1);
    rig_turn(&rig);
    hf__stream_input(rig.stream, &size);
    ck_assert_uint_eq(size, 0);
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

START_TEST(open_inside_readable)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.then = then_open;
    rig_say(&rig, "hello");
    RIG_WAIT(&rig, rig.opened == 2);
    rig_close_peer(&rig);
    rig_accept(&rig);
    rig_send(&rig, "again");
    rig_expect(&rig, "again");
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

/* Nothing of the old connection is in the new one. */
START_TEST(open_inside_broken)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.greedy = true;
    rig_say(&rig, "old");
    RIG_WAIT(&rig, rig.readable == 1);
    memcpy(hf__stream_room(rig.stream, 5), "stale", 5);
    hf__stream_wrote(rig.stream, 5);
    rig.then = then_open;
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.opened == 2);
    rig_accept(&rig);
    rig_send(&rig, "fresh");
    rig_expect(&rig, "fresh");
    rig.greedy = false;
    rig_say(&rig, "new");
    RIG_WAIT(&rig, has_got(&rig, "new"));
    rig_done(&rig);
}
END_TEST

/* ---- Fork, pump, memory ---------------------------------------------------------- */

START_TEST(child_leaves_the_parent_alone)
{
    struct rig rig;
    int status;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    pid_t child = fork();
    if (child == 0) {
        int fd = rig.stream->fd;
        unsigned undone = rig.undone;
        hf__stream_done(rig.stream, true);
        _exit(fcntl(fd, F_GETFD) < 0 && rig.undone == undone ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    rig_say(&rig, "pong");
    RIG_WAIT(&rig, has_got(&rig, "pong"));
    rig_done(&rig);
}
END_TEST

START_TEST(pump_needs_no_loop)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    rig_open(&rig);
    rig_accept(&rig);
    while (!rig.opened)
        ck_assert(hf__stream_pump(rig.stream, hf__now() + 5 * HF_NS_PER_S));
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    ck_assert(!hf__stream_pump(rig.stream, hf__now() + 20 * HF_NS_PER_MS));
    rig_say(&rig, "pong");
    ck_assert(hf__stream_pump(rig.stream, hf__now() + 5 * HF_NS_PER_S));
    ck_assert(has_got(&rig, "pong"));
    rig_close_peer(&rig);
    ck_assert(hf__stream_pump(rig.stream, hf__now() + 5 * HF_NS_PER_S));
    ck_assert_uint_eq(rig.broken, 1);
    ck_assert(!hf__stream_pump(rig.stream, hf__now()));
    rig_done(&rig);
}
END_TEST

/* What cannot be sent yet stays in the buffer, and that is no error. */
START_TEST(flush_without_a_connection)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    ck_assert(hf__stream_flush(rig.stream));
    memcpy(hf__stream_room(rig.stream, 4), "ping", 4);
    hf__stream_wrote(rig.stream, 4);
    ck_assert(hf__stream_flush(rig.stream));
    ck_assert_uint_eq(rig.adds, 0);
    ck_assert_uint_eq(hf__buffer_used(&rig.stream->out), 4);
    ck_assert(!hf__stream_is_open(rig.stream));
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

static int refuse_fd(struct hf_host *host, int fd, uint32_t events, hf_fd_cb *callback,
                     void *arg)
{
    (void)host, (void)fd, (void)events, (void)callback, (void)arg;
    return HF_ENOMEM;
}

/* The loop refuses the socket when it has to be watched for output, too. */
START_TEST(a_socket_that_cannot_be_watched)
{
    struct rig rig;
    size_t step = (size_t)1 << 20;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    rig.ops.add_fd = refuse_fd;
    for (int i = 0; i < 128 && hf__stream_is_open(rig.stream); i++) {
        memset(hf__stream_room(rig.stream, step), 'x', step);
        hf__stream_wrote(rig.stream, step);
        hf__stream_flush(rig.stream);
    }
    ck_assert(!hf__stream_is_open(rig.stream));
    ck_assert_uint_eq(rig.broken, 0); /* not inside the call */
    RIG_WAIT(&rig, rig.broken == 1);
    ck_assert_int_eq(rig.why.code, HF_ESYSTEM);
    ck_assert_ptr_nonnull(strstr(rig.why.text, "cannot be watched"));
    rig_done(&rig);
}
END_TEST

/* The stream has its own copy of the settings: the caller's may change or be freed. */
START_TEST(settings_are_copied)
{
    struct rig rig;
    char *host = strdup("127.0.0.1");
    rig_listen(&rig, "127.0.0.1");
    rig.settings.host = host;
    rig_new(&rig);
    memset(host, 'x', strlen(host));
    rig_open(&rig);
    rig_accept(&rig);
    RIG_WAIT(&rig, rig.opened == 1);
    free(host);
    rig_done(&rig);
}
END_TEST

START_TEST(memory_runs_out)
{
    for (uint64_t nth = 1; nth <= 6; nth++) {
        struct rig rig;
        rig_listen(&rig, "127.0.0.1");
        rig_connect(&rig);
        hf__mem_fail(nth, true);
        char *room = hf__stream_room(rig.stream, 100000);
        ck_assert_int_eq(room == NULL, nth == 1);
        rig_say(&rig, "pong");
        rig_close_peer(&rig);
        RIG_WAIT(&rig, rig.broken == 1);
        hf__mem_fail(0, false);
        ck_assert_int_eq(rig.why.code, HF_EUNREACHABLE);
        ck_assert_int_eq(has_got(&rig, "pong"), nth > 2);
        rig_done(&rig);
    }
}
END_TEST

UNIT_MAIN("stream", tcp_talks, tcp_socket_is_tuned, unix_talks, ipv6_talks,
          output_is_gathered, no_registration_per_request, trickle_comes_through,
          large_input, input_in_uneven_bites, large_output, peer_stops_reading,
          input_is_bounded, large_memory_is_given_back, peer_closes_in_the_middle,
          peer_resets, last_words_are_heard, close_inside_opened, close_inside_readable,
          open_inside_readable, open_inside_broken, child_leaves_the_parent_alone,
          pump_needs_no_loop, flush_without_a_connection,
          a_socket_that_cannot_be_watched, settings_are_copied, memory_runs_out)
