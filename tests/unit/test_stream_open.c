/* SPDX-License-Identifier: MIT */
/*
 * Opening streams: peers that refuse or never answer, several addresses, names that are
 * slow or unknown, and closing at any moment. The test's own getaddrinfo, which
 * replaces the system's, answers for names under .test.
 */
#include "stream_rig.h"

#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Names ----------------------------------------------------------------------- */

typedef int resolver(const char *, const char *, const struct addrinfo *,
                     struct addrinfo **);

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* slow.test waits for it */
static atomic_uint lookups, answered;

/* nowhere.test is unknown; any other name is 127.0.0.2 first, then 127.0.0.1. */
static int answer(const char *host, const char *service, struct addrinfo **ret,
                  resolver *real)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };

    atomic_fetch_add(&lookups, 1);
    if (strcmp(host, "slow.test") == 0) {
        pthread_mutex_lock(&gate);
        pthread_mutex_unlock(&gate);
    }
    if (strcmp(host, "nowhere.test") == 0)
        return EAI_NONAME;
    int rc = real("127.0.0.2", service, &hints, ret);
    if (rc == 0)
        rc = real("127.0.0.1", service, &hints, &(*ret)->ai_next);
    atomic_fetch_add(&answered, 1);
    return rc;
}

int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    resolver *real = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    if (strstr(host, ".test") && !(hints->ai_flags & AI_NUMERICHOST))
        return answer(host, service, ret, real);
    return real(host, service, hints, ret);
}

/* A listener at 127.0.0.1 that the stream connects to by name. */
static void listen_as(struct rig *rig, const char *name)
{
    rig_listen(rig, "127.0.0.1");
    rig->settings.host = name;
}

static void expect_broken(struct rig *rig, int code, const char *words)
{
    RIG_WAIT(rig, rig->broken == 1);
    ck_assert_int_eq(rig->why.code, code);
    ck_assert_msg(strstr(rig->why.text, words), "%s", rig->why.text);
    ck_assert_uint_eq(rig->opened, 0);
    rig_turn(rig);
    ck_assert_uint_eq(rig->broken, 1);
}

/* ---- Nobody there ---------------------------------------------------------------- */

START_TEST(refused)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    close(rig.listener);
    rig.listener = -1;
    rig_new(&rig);
    rig_open(&rig);
    expect_broken(&rig, HF_EUNREACHABLE, "cannot connect to 127.0.0.1:");
    ck_assert_int_eq(rig.why.sys, ECONNREFUSED);
    rig_done(&rig);
}
END_TEST

START_TEST(no_such_path)
{
    struct rig rig;
    rig_listen(&rig, NULL);
    rig.settings.unix_path = "/nowhere/at/all";
    rig_new(&rig);
    rig_open(&rig);
    expect_broken(&rig, HF_EUNREACHABLE, "cannot connect to /nowhere/at/all: No such");
    rig_done(&rig);
}
END_TEST

START_TEST(refused_in_pump)
{
    struct rig rig;
    rig_listen(&rig, NULL);
    rig.settings.unix_path = "/nowhere/at/all";
    rig_new(&rig);
    rig_open(&rig);
    ck_assert(hf__stream_pump(rig.stream, hf__now() + 5 * HF_NS_PER_S));
    ck_assert_uint_eq(rig.broken, 1);
    rig_done(&rig);
}
END_TEST

/* A peer that neither accepts nor refuses; the test moves the time. */
START_TEST(silent_peer_meets_the_deadline)
{
    struct fake_clock clock = { HF_NS_PER_S };
    int fillers[RIG_FILLERS];
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_fill_backlog(rig.listener, fillers);
    rig.clock = &clock;
    rig_new(&rig);
    rig_open(&rig);
    clock.now_ns += rig.settings.connect_ns - 1;
    rig_turn(&rig);
    ck_assert_uint_eq(rig.broken, 0);
    clock.now_ns += 1;
    expect_broken(&rig, HF_EUNREACHABLE, "no answer from 127.0.0.1:");
    for (int i = 0; i < RIG_FILLERS; i++)
        close(fillers[i]);
    rig_done(&rig);
}
END_TEST

START_TEST(full_unix_backlog_is_waited_for)
{
    int fillers[RIG_FILLERS];
    struct rig rig;
    rig_listen(&rig, "/");
    rig_fill_backlog(rig.listener, fillers);
    rig_new(&rig);
    rig_open(&rig);
    for (int i = 0; i < 5; i++)
        rig_turn(&rig);
    ck_assert_uint_eq(rig.opened + rig.broken, 0);
    rig_accept(&rig);
    rig_close_peer(&rig);
    RIG_WAIT(&rig, rig.opened == 1);
    for (int i = 0; i < RIG_FILLERS; i++)
        close(fillers[i]);
    rig_done(&rig);
}
END_TEST

/* ---- Names ----------------------------------------------------------------------- */

START_TEST(unknown_name)
{
    struct rig rig;
    listen_as(&rig, "nowhere.test");
    rig_new(&rig);
    rig_open(&rig);
    expect_broken(&rig, HF_EUNREACHABLE, "the host nowhere.test cannot be found");
    hf__stream_close(rig.stream);
    ck_assert_uint_eq(lookups, 1);
    rig_done(&rig);
}
END_TEST

/* The first address refuses, the second is the peer. */
START_TEST(second_address_is_tried)
{
    struct rig rig;
    listen_as(&rig, "two.test");
    rig_connect(&rig);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    rig_done(&rig);
}
END_TEST

START_TEST(name_in_pump)
{
    struct rig rig;
    listen_as(&rig, "two.test");
    rig_new(&rig);
    rig_open(&rig);
    while (!rig.opened)
        ck_assert(hf__stream_pump(rig.stream, hf__now() + 5 * HF_NS_PER_S));
    rig_done(&rig);
}
END_TEST

/* A second listener, at 127.0.0.2 and the same port: the first address of the name. */
static int listen_beside(const struct rig *rig)
{
    struct sockaddr_in name = { .sin_family = AF_INET,
                                .sin_port = htons(rig->settings.port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, "127.0.0.2", &name.sin_addr);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    return fd;
}

/* An unresponsive address gets its share of the time and no more. */
START_TEST(silent_address_is_left)
{
    struct fake_clock clock = { HF_NS_PER_S };
    int fillers[RIG_FILLERS];
    struct rig rig;
    listen_as(&rig, "two.test");
    int silent = listen_beside(&rig);
    rig_fill_backlog(silent, fillers);
    rig.clock = &clock;
    rig_new(&rig);
    rig_open(&rig);
    RIG_WAIT(&rig, rig.stream->state == STREAM_CONNECTING);
    clock.now_ns += rig.settings.connect_ns / 2;
    RIG_WAIT(&rig, rig.opened == 1);
    ck_assert_uint_eq(rig.broken, 0);
    for (int i = 0; i < RIG_FILLERS; i++)
        close(fillers[i]);
    close(silent);
    rig_done(&rig);
}
END_TEST

/* The address of the peer that closed is not the first to be tried again. */
START_TEST(next_opening_takes_the_next_address)
{
    struct rig rig;
    listen_as(&rig, "two.test");
    int first = listen_beside(&rig);
    rig_new(&rig);
    rig_open(&rig);
    RIG_WAIT(&rig, rig.opened == 1);
    close(accept(first, NULL, NULL));
    RIG_WAIT(&rig, rig.broken == 1);
    rig_open(&rig);
    RIG_WAIT(&rig, rig.opened == 2);
    rig_accept(&rig);
    rig_send(&rig, "ping");
    rig_expect(&rig, "ping");
    close(first);
    rig_done(&rig);
}
END_TEST

/* A slow name: the deadline ends the opening, not the lookup, and the next opening
 * takes the lookup over. */
START_TEST(slow_name_is_asked_once)
{
    struct fake_clock clock = { HF_NS_PER_S };
    struct rig rig;
    listen_as(&rig, "slow.test");
    rig.clock = &clock;
    pthread_mutex_lock(&gate);
    rig_new(&rig);
    rig_open(&rig);
    rig_turn(&rig);
    clock.now_ns += rig.settings.connect_ns;
    expect_broken(&rig, HF_EUNREACHABLE, "no address");
    rig_open(&rig);
    pthread_mutex_unlock(&gate);
    RIG_WAIT(&rig, rig.opened == 1);
    ck_assert_uint_eq(lookups, 1);
    rig_done(&rig);
}
END_TEST

START_TEST(done_while_resolving)
{
    struct rig rig;
    listen_as(&rig, "slow.test");
    pthread_mutex_lock(&gate);
    rig_new(&rig);
    rig_open(&rig);
    rig_turn(&rig);
    hf__stream_done(rig.stream, false);
    rig.stream = NULL;
    ck_assert_uint_eq(answered, 0);
    pthread_mutex_unlock(&gate);
    rig_done(&rig);
}
END_TEST

START_TEST(fork_while_resolving)
{
    struct rig rig;
    int status;
    listen_as(&rig, "slow.test");
    pthread_mutex_lock(&gate);
    rig_new(&rig);
    rig_open(&rig);
    rig_turn(&rig);
    pid_t child = fork();
    if (child == 0) {
        hf__stream_done(rig.stream, true);
        _exit(hf__mem_live() == rig.memory_before ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    pthread_mutex_unlock(&gate);
    RIG_WAIT(&rig, rig.opened == 1);
    rig_done(&rig);
}
END_TEST

/* ---- Giving up, failing ---------------------------------------------------------- */

/* Closed in every state, again and again: rig_done() checks what is left. */
START_TEST(close_at_any_moment)
{
    struct rig rig;
    listen_as(&rig, "two.test");
    rig_new(&rig);
    for (int turns = 0; turns < 6; turns++) {
        rig_open(&rig);
        for (int i = 0; i < turns; i++)
            rig_turn(&rig);
        hf__stream_close(rig.stream);
        rig_turn(&rig);
    }
    ck_assert_uint_eq(rig.broken, 0);
    rig_done(&rig);
}
END_TEST

START_TEST(reopened_a_hundred_times)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_connect(&rig);
    unsigned fds = rig_count_fds();
    for (unsigned i = 2; i <= 100; i++) {
        rig_close_peer(&rig);
        RIG_WAIT(&rig, rig.broken == i - 1);
        rig_open(&rig);
        rig_accept(&rig);
        RIG_WAIT(&rig, rig.opened == i);
    }
    ck_assert_uint_eq(rig_count_fds(), fds);
    rig_done(&rig);
}
END_TEST

static void nothing(void *arg)
{
    (void)arg;
}

static void nothing_broken(void *arg, const hf_error *why)
{
    (void)arg, (void)why;
}

static const struct hf_stream_user nobody = { nothing, nothing, nothing_broken };

START_TEST(memory_runs_out)
{
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        size_t live = hf__mem_live();
        struct hf_stream *stream = NULL;
        hf_error why;
        hf__mem_fail(nth, false);
        int rc =
            hf__stream_new(&rig.fake.host, &rig.settings, &nobody, NULL, &stream, &why);
        hf__mem_fail(0, false);
        ck_assert_int_eq(rc, nth <= 2 ? HF_ENOMEM : 0);
        hf__stream_done(stream, false);
        ck_assert_uint_eq(hf__mem_live(), live);
    }
    rig_done(&rig);
}
END_TEST

static void expect_refusal(struct rig *rig, int code, const char *words)
{
    struct hf_stream *stream;
    hf_error why;
    int rc =
        hf__stream_new(&rig->fake.host, &rig->settings, &nobody, NULL, &stream, &why);
    ck_assert_int_eq(rc, code);
    ck_assert_int_eq(why.code, code);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
}

START_TEST(bad_settings)
{
    char path[200];
    struct rig rig;
    rig_listen(&rig, "127.0.0.1");
    rig_new(&rig);
    const struct hf_stream_settings good = rig.settings;

    rig.settings.host = "";
    expect_refusal(&rig, HF_EURL, "no host");
    rig.settings = good;
    rig.settings.port = 0;
    expect_refusal(&rig, HF_EURL, "no port");
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    rig.settings = good;
    rig.settings.unix_path = path;
    expect_refusal(&rig, HF_EURL, "too long");
    rig.settings = (struct hf_stream_settings){ .unix_path = "/x", .tls = true };
    expect_refusal(&rig, HF_EURL, "tls_name");
    rig.settings = good;
    rig.settings.tls = true;
    setenv("HOLDFAST_MODULES", "/nowhere", 1);
    expect_refusal(&rig, HF_EUNSUPPORTED, "TLS");
    rig_done(&rig);
}
END_TEST

UNIT_MAIN("stream_open", refused, no_such_path, refused_in_pump,
          silent_peer_meets_the_deadline, full_unix_backlog_is_waited_for, unknown_name,
          second_address_is_tried, name_in_pump, silent_address_is_left,
          next_opening_takes_the_next_address, slow_name_is_asked_once,
          done_while_resolving, fork_while_resolving, close_at_any_moment,
          reopened_a_hundred_times, memory_runs_out, bad_settings)
