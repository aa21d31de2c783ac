/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store when a process is stopped while it holds the
 * guard, and when one cannot be watched because it is in another pid namespace. */
#include "file_peer.h"

#include "../../src/backends/file/stopped.h"
#include "../../src/base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>

#define PEERS 1
#define SLOW_MS 400
#define SLICE_MS 40    /* a little less than the 50 ms of guard.c */
#define FREEZE_MS 5000 /* at least; the kernel takes a moment */

static struct fake_host a, b;
static struct peer p[PEERS];

static void open_a(int peers)
{
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    for (int i = 0; i < peers; i++)
        ck_assert_int_eq(peer_start(&p[i]), 0);
}

static void close_a(void)
{
    struct hf_request inspect = fake_request(HF_INSPECT, "");
    struct state state = state_map();

    inspect.prefix = true; /* cleans up after dead sessions */
    ck_assert_int_eq(fake_ask(&a, &inspect, NULL), 0);
    ck_assert_uint_eq(a.entry_count, 0);
    fake_close(&a);
    state_check(&state);
    state_unmap(&state);
    ck_assert_int_eq(scratch_count("w"), 0);
    ck_assert_int_eq(scratch_count("tmp"), 0);
    scratch_remove();
}

static struct hf_ticket slow_ticket(const char *name, int kind)
{
    struct hf_ticket ticket = fake_ticket(name, kind);
    ticket.note = "noted";
    return ticket;
}

static uint64_t takes(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(host, ticket);
    ck_assert_msg(answer.what == FAKE_GRANTED, "answer %d: %s", answer.what,
                  answer.why.text);
    return answer.grant.token;
}

/* ---- A guard that somebody stopped in -------------------------------------------- */

static struct hf_ticket quick, slow, waiting, tried, later;

/* One peer waits for "slow", another one is stopped with the guard held. */
static void freeze(void)
{
    static struct peer_order order;

    open_a(1);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    quick = fake_ticket("quick", HF_MUTEX);
    slow = slow_ticket("slow", HF_MUTEX);
    waiting = fake_ticket("slow", HF_MUTEX);
    takes(&a, &quick);
    takes(&a, &slow);
    ck_assert_int_eq(fake_try(&b, &waiting).what, FAKE_QUEUED);
    peer_fails(&p[0], 3, SIGSTOP);
    order = (struct peer_order){ .verb = PEER_ATTEMPT,
                                 .ticket = fake_permits("s", HF_PERMITS, 1, 1) };
    snprintf(order.name, sizeof(order.name), "s");
    order.ticket.note = NULL;
    peer_send(&p[0], &order);
    peer_stopped(&p[0]);
}

static void frozen_answers(void)
{
    struct hf_request latch = fake_request(HF_LATCH_GET, "latch");
    struct fake_answer answer;
    char pid[16];
    hf_error why;

    snprintf(pid, sizeof(pid), "%d", p[0].pid);
    tried = slow_ticket("new", HF_MUTEX);
    tried.flags = HF_TICKET_TRY;
    answer = fake_try(&a, &tried);
    ck_assert_int_eq(answer.code, HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(answer.why.text, pid));
    ck_assert_uint_eq(a.count, 0); /* no notice: asking again at once would not help */
    later = slow_ticket("new", HF_MUTEX);
    answer = fake_try(&a, &later);
    ck_assert_int_eq(answer.what, FAKE_QUEUED);
    ck_assert_int_eq(answer.retry_ns, 10000000);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_WITHDRAWAL_UNSENT);
    ck_assert_int_eq(fake_renew(&a, &slow, HF_RENEW), HF_RENEWAL_UNKNOWN);
    ck_assert_int_eq(fake_ask(&a, &latch, &why), HF_EUNREACHABLE);
    ck_assert_int_eq(fake_withdraw(&a, &quick), HF_WITHDRAWN); /* needs no guard */
    quick.id = fake_id();
    takes(&a, &quick);
}

static void thawed(void)
{
    ck_assert_int_eq(fake_try(&a, &later).what, FAKE_GRANTED);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_WITHDRAWN);
    fake_expect_grant(&b, &waiting);
    ck_assert_int_eq(fake_withdraw(&a, &later), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&a, &quick), HF_WITHDRAWN);
    fake_close(&b);
    close_a();
}

START_TEST(a_stopped_process_delays_and_no_more)
{
    freeze();
    frozen_answers();
    kill(p[0].pid, SIGCONT);
    ck_assert_int_eq(peer_listen(&p[0]).what, FAKE_GRANTED);
    peer_leaves(&p[0]);
    thawed();
}
END_TEST

START_TEST(a_stopped_process_that_is_killed_is_repaired)
{
    struct state state;

    freeze();
    state = state_map();
    frozen_answers();
    peer_kill(&p[0]);
    peer_bury(&p[0]);
    thawed();
    ck_assert_uint_eq(state.head->recoveries, 1);
    state_unmap(&state);
}
END_TEST

/* This process lives on, so no session sees it die: the state of its session says that
 * it closed. */
START_TEST(a_session_closes_though_the_guard_is_busy)
{
    struct state state;

    freeze();
    state = state_map();
    fake_close(&a);
    ck_assert_uint_eq(state.sessions[0].state, SESSION_CLOSED);
    ck_assert(fake_quiet(&b));
    kill(p[0].pid, SIGCONT);
    fake_expect_grant(&b, &waiting);
    ck_assert_uint_eq(state.sessions[0].state, SESSION_FREE);
    state_unmap(&state);
    ck_assert_int_eq(peer_listen(&p[0]).what, FAKE_GRANTED);
    peer_leaves(&p[0]);
    ck_assert_int_eq(fake_withdraw(&b, &waiting), HF_WITHDRAWN);
    fake_close(&b);
    scratch_remove();
}
END_TEST

/* The owner of the guard is named if it is known; process 0 means not known. */
START_TEST(who_is_stopped_is_named)
{
    struct hf_request latch = fake_request(HF_LATCH_GET, "latch");
    struct fake_host late;
    struct state state;
    char pid[16];
    hf_error why;

    freeze();
    state = state_map();
    snprintf(pid, sizeof(pid), "%d", p[0].pid);
    ck_assert_int_eq(fake_open_why(&late, &hf__backend_file, url, NULL, &why),
                     HF_EUNREACHABLE);
    ck_assert_ptr_nonnull(strstr(why.text, pid));
    ck_assert_ptr_nonnull(strstr(why.text, "is stopped"));
    state.head->guard_pid = 0; /* as if it had not written it yet */
    state.head->guard_space = 0;
    tried = slow_ticket("new", HF_MUTEX);
    tried.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(&a, &tried).code, HF_EUNREACHABLE);
    ck_assert_int_eq(fake_next(&a).what, FAKE_NOTICE); /* it may be slow only */
    ck_assert_int_eq(fake_ask(&a, &latch, &why), HF_EUNREACHABLE);
    ck_assert_msg(!strstr(why.text, "process 0"), "%s", why.text);
    state.head->guard_pid = p[0].pid;
    state_unmap(&state);
    peer_kill(&p[0]);
    peer_bury(&p[0]);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_WITHDRAWN);
    fake_expect_grant(&b, &waiting);
    ck_assert_int_eq(fake_withdraw(&a, &quick), HF_WITHDRAWN);
    fake_close(&b);
    close_a();
}
END_TEST

/* ---- Whether a process can run --------------------------------------------------- */

START_TEST(a_stopped_process_is_told_from_others)
{
    ck_assert_str_eq(hf__file_stopped_by_stat("12 (x) T 1 12"), "stopped");
    ck_assert_str_eq(hf__file_stopped_by_stat("12 (a) S) t 1 12"),
                     "held by a debugger");
    ck_assert_ptr_null(hf__file_stopped_by_stat("12 (a) T) S 1 12"));
    ck_assert_ptr_null(hf__file_stopped_by_stat("12 (x) R 1"));
    ck_assert_ptr_null(hf__file_stopped_by_stat("12 (x)"));
    ck_assert_ptr_null(hf__file_stopped_by_stat(""));
    ck_assert_ptr_null(hf__file_stopped(getpid()));
    ck_assert_ptr_null(hf__file_stopped(0x3fffffff));
}
END_TEST

static bool group_write(const char *group, const char *file, const char *text)
{
    char path[160];
    int fd;
    bool done;

    snprintf(path, sizeof(path), "%s/%s", group, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* One of the ways to freeze a group of processes; false if this host does not have it.
 * The process is thawed before the result is judged: a frozen process cannot even be
 * killed. */
static bool frozen_in(const char *root, const char *file, const char *freeze,
                      const char *thaw)
{
    char group[96], number[16];
    const char *word = NULL;
    bool frozen = false;
    pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    snprintf(group, sizeof(group), "%s/test-file-stop-%d", root, pid);
    snprintf(number, sizeof(number), "%d", pid);
    if (mkdir(group, 0700) == 0) {
        frozen = group_write(group, "cgroup.procs", number) &&
                 group_write(group, file, freeze);
        for (int ms = 0; frozen && !word && ms < FREEZE_MS; ms++) {
            poll(NULL, 0, 1);
            word = hf__file_stopped(pid);
        }
        group_write(group, file, thaw);
    }
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    while (rmdir(group) != 0 && errno == EBUSY)
        poll(NULL, 0, 1);
    if (frozen)
        ck_assert_pstr_eq(word, "frozen");
    return frozen;
}

START_TEST(a_frozen_process_is_stopped)
{
    const char *cgroups = "/sys/fs/cgroup";
    bool any = frozen_in("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED");

    if (access("/sys/fs/cgroup/unified", F_OK) == 0)
        cgroups = "/sys/fs/cgroup/unified";
    if (access("/sys/fs/cgroup/freezer", F_OK) != 0 ||
        strcmp(cgroups, "/sys/fs/cgroup") != 0)
        any |= frozen_in(cgroups, "cgroup.freeze", "1", "0");
    if (!any)
        printf("# no right to freeze a process on this host: not tried\n");
}
END_TEST

/* ---- A guard that somebody is slow in -------------------------------------------- */

static void be_slow(int signal)
{
    (void)signal;
    poll(NULL, 0, SLOW_MS); /* pause: the slowness is the subject */
}

/* The peer keeps the guard for a while, as if the host did not run it. */
static void slow_down(void)
{
    static struct peer_order order;
    struct state state = state_map();

    peer_fails(&p[0], 1, SIGUSR1);
    order = (struct peer_order){ .verb = PEER_ASK,
                                 .request = fake_request(HF_LATCH_GET, "latch") };
    snprintf(order.name, sizeof(order.name), "latch");
    peer_send(&p[0], &order);
    while (__atomic_load_n(&state.head->guard_pid, __ATOMIC_RELAXED) != p[0].pid)
        poll(NULL, 0, 1);
    state_unmap(&state);
}

static void speeds_up(void)
{
    ck_assert_int_eq(peer_listen(&p[0]).code, 0);
}

START_TEST(a_slow_process_is_waited_for)
{
    struct hf_request latch = fake_request(HF_LATCH_GET, "latch"),
                      all = fake_request(HF_INSPECT, ""),
                      set = fake_request(HF_CELL_SET, "cell");
    hf_error why = { 0 };

    signal(SIGUSR1, be_slow);
    open_a(1);
    slow = slow_ticket("slow", HF_MUTEX);
    takes(&a, &slow);
    slow_down();
    ck_assert_msg(fake_open_why(&b, &hf__backend_file, url, NULL, &why) == 0, "%s",
                  why.text);
    speeds_up();
    fake_close(&b);
    slow_down();
    ck_assert_msg(fake_ask(&a, &latch, &why) == 0, "%s", why.text);
    speeds_up();
    slow_down();
    all.prefix = true;
    ck_assert_msg(fake_ask(&a, &all, &why) == 0, "%s", why.text);
    ck_assert_uint_eq(a.entry_count, 1);
    speeds_up();
    slow_down();
    set.data = "x";
    set.data_len = 1;
    ck_assert_msg(fake_ask(&a, &set, &why) == 0, "%s", why.text);
    speeds_up();
    set = fake_request(HF_CELL_SET, "cell");
    peer_leaves(&p[0]);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_WITHDRAWN);
    fake_close(&a);
    scratch_remove();
}
END_TEST

static void *makes_slowly(void *arg)
{
    poll(NULL, 0, SLOW_MS); /* pause: the slowness is the subject */
    ck_assert_int_eq(flock(*(int *)arg, LOCK_UN), 0);
    return NULL;
}

/* The process that makes the state file has it locked meanwhile. */
START_TEST(a_slow_maker_is_waited_for)
{
    char path[96];
    hf_error why = { 0 };
    pthread_t maker;

    open_a(0);
    snprintf(path, sizeof(path), "%s/state", home);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(pthread_create(&maker, NULL, makes_slowly, &fd), 0);
    ck_assert_msg(fake_open_why(&b, &hf__backend_file, url, NULL, &why) == 0, "%s",
                  why.text);
    pthread_join(maker, NULL);
    close(fd);
    fake_close(&b);
    fake_close(&a);
    scratch_remove();
}
END_TEST

/* Core's back-off would spend most of a try's time asleep. And each attempt waits at
 * the guard for a whole slice: a shorter one may end before it gets the guard. */
START_TEST(a_try_at_a_slow_guard_is_asked_for_again_at_once)
{
    struct fake_answer answer;
    int64_t asked;

    signal(SIGUSR1, be_slow);
    open_a(1);
    slow_down();
    tried = slow_ticket("new", HF_MUTEX);
    tried.flags = HF_TICKET_TRY;
    asked = hf__now();
    answer = fake_try(&a, &tried);
    while (answer.what == FAKE_FAILED) {
        ck_assert_int_ge(hf__now() - asked, SLICE_MS * HF_NS_PER_MS);
        ck_assert_int_eq(answer.code, HF_EUNREACHABLE);
        ck_assert_uint_eq(a.count, 1);
        ck_assert_int_eq(fake_next(&a).what, FAKE_NOTICE);
        asked = hf__now();
        answer = fake_try(&a, &tried);
    }
    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    speeds_up();
    peer_leaves(&p[0]);
    ck_assert_int_eq(fake_withdraw(&a, &tried), HF_WITHDRAWN);
    fake_close(&a);
    scratch_remove();
}
END_TEST

/* Core forgets a request that has waited long enough, and may close at any time. */
START_TEST(a_request_that_is_put_off_can_be_forgotten)
{
    struct hf_request first = fake_request(HF_LATCH_GET, "latch"),
                      second = fake_request(HF_LATCH_GET, "latch"),
                      third = fake_request(HF_LATCH_GET, "latch");

    signal(SIGUSR1, be_slow);
    open_a(1);
    slow_down();
    a.calls++;
    a.store->ask(a.session, &first);
    a.store->ask(a.session, &second);
    a.store->ask(a.session, &third);
    a.calls--;
    ck_assert_uint_eq(a.count, 0);
    fake_forget(&a, &second);
    speeds_up();
    ck_assert_ptr_eq(fake_next(&a).about, &first);
    ck_assert_ptr_eq(fake_next(&a).about, &third);
    ck_assert(fake_quiet(&a));
    slow_down();
    a.calls++;
    a.store->ask(a.session, &first);
    a.calls--;
    ck_assert_uint_eq(a.count, 0);
    fake_close(&a);
    speeds_up();
    peer_leaves(&p[0]);
    scratch_remove();
}
END_TEST

/* ---- Processes that cannot be watched -------------------------------------------- */

static void unseen_holder_dies(void)
{
    struct hf_ticket waits = fake_ticket("x", HF_MUTEX),
                     tries = fake_ticket("y", HF_MUTEX);

    peer_takes(&p[0], 0, fake_ticket("x", HF_MUTEX));
    peer_takes(&p[0], 1, slow_ticket("y", HF_MUTEX));
    ck_assert_int_eq(fake_try(&a, &waits).what, FAKE_QUEUED);
    ck_assert(fake_quiet(&a));
    tries.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(&a, &tries).what, FAKE_BUSY);
    peer_kill(&p[0]);
    takes(&a, &tries);
    fake_expect_grant(&a, &waits);
    ck_assert_int_eq(fake_withdraw(&a, &waits), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&a, &tries), HF_WITHDRAWN);
    peer_bury(&p[0]);
    close_a();
}

START_TEST(a_process_that_cannot_be_watched_is_polled)
{
    struct state state;

    open_a(1);
    state = state_map();
    state.sessions[1].space++; /* as if it were in another pid namespace */
    state_unmap(&state);
    unseen_holder_dies();
}
END_TEST

/* A process in between makes the namespace and ends; the peer is the first one in
 * it. */
static bool peer_start_inside(struct peer *peer)
{
    int orders[2], pids[2];
    bool inside = true;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders), 0);
    ck_assert_int_eq(pipe2(pids, O_CLOEXEC), 0);
    pid_t between = fork();
    if (between == 0) {
        inside = unshare(CLONE_NEWPID) == 0;
        pid_t pid = fork();
        if (pid == 0) {
            close(orders[0]);
            peer_main(orders[1]);
        }
        _exit(write(pids[1], &pid, sizeof(pid)) == sizeof(pid) && inside ? 0 : 1);
    }
    close(orders[1]);
    ck_assert_int_eq(read(pids[0], &peer->pid, sizeof(peer->pid)), sizeof(peer->pid));
    int status;
    ck_assert_int_eq(waitpid(between, &status, 0), between);
    close(pids[0]);
    close(pids[1]);
    peer->fd = orders[0];
    ck_assert_int_eq(peer_listen(peer).code, 0);
    return status == 0;
}

START_TEST(a_pid_namespace_of_its_own)
{
    struct state state;
    bool inside;

    open_a(0);
    inside = peer_start_inside(&p[0]);
    state = state_map();
    if (inside) {
        ck_assert_int_eq(state.sessions[1].pid, 1);
        ck_assert_uint_ne(state.sessions[1].space, state.sessions[0].space);
    } else {
        printf("# no right to make a pid namespace: it is only pretended\n");
        state.sessions[1].space++;
    }
    state_unmap(&state);
    unseen_holder_dies();
}
END_TEST

UNIT_MAIN("file_stop", a_stopped_process_delays_and_no_more,
          a_stopped_process_that_is_killed_is_repaired,
          a_session_closes_though_the_guard_is_busy, who_is_stopped_is_named,
          a_stopped_process_is_told_from_others, a_frozen_process_is_stopped,
          a_slow_process_is_waited_for, a_slow_maker_is_waited_for,
          a_try_at_a_slow_guard_is_asked_for_again_at_once,
          a_request_that_is_put_off_can_be_forgotten,
          a_process_that_cannot_be_watched_is_polled, a_pid_namespace_of_its_own)
