/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store when processes die: holder and waiter killed in
 * every position, sessions reused, and a death at every step with the guard held. */
#include "file_peer.h"

#include <sys/prctl.h>

#define PEERS 5
#define STEPS_MAX 400

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

static const char *live_path(void)
{
    static char path[96];
    snprintf(path, sizeof(path), "%s/live", home);
    return path;
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

/* ---- Deaths ---------------------------------------------------------------------- */

static void holder_dies(struct hf_ticket held, struct hf_ticket waiting)
{
    struct peer holder;
    uint64_t token;

    ck_assert_int_eq(peer_start(&holder), 0);
    token = peer_takes(&holder, 0, held);
    ck_assert_int_eq(fake_try(&a, &waiting).what, FAKE_QUEUED);
    peer_kill(&holder); /* stays a zombie meanwhile */
    ck_assert_uint_gt(fake_expect_grant(&a, &waiting), token);
    ck_assert_int_eq(fake_withdraw(&a, &waiting), HF_WITHDRAWN);
    peer_bury(&holder);
}

START_TEST(a_killed_holder_lets_go)
{
    open_a(0);
    holder_dies(fake_ticket("x", HF_MUTEX), fake_ticket("x", HF_MUTEX));
    holder_dies(slow_ticket("x", HF_MUTEX), fake_ticket("x", HF_FAIR));
    holder_dies(fake_ticket("x", HF_FAIR), slow_ticket("x", HF_MUTEX));
    holder_dies(fake_ticket("rw", HF_WRITE), fake_ticket("rw", HF_READ));
    holder_dies(fake_ticket("rw", HF_READ), fake_ticket("rw", HF_WRITE));
    holder_dies(fake_permits("s", HF_PERMITS, 3, 3),
                fake_permits("s", HF_PERMITS, 1, 3));
    holder_dies(fake_permits("e", HF_EXPIRING, 1, 1),
                fake_permits("e", HF_EXPIRING, 1, 1));
    close_a();
}
END_TEST

/* No ticket waited when it died; the next client that tries detects it, also with
 * another kind. */
START_TEST(a_dead_holder_is_found_by_who_tries)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX);
    struct hf_ticket reader = fake_ticket("y", HF_READ);

    open_a(1);
    peer_takes(&p[0], 0, fake_ticket("x", HF_MUTEX));
    peer_takes(&p[0], 1, slow_ticket("y", HF_MUTEX));
    ticket.flags = reader.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(&a, &ticket).what, FAKE_BUSY);
    peer_kill(&p[0]);
    takes(&a, &ticket);
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    takes(&a, &reader);
    ck_assert_int_eq(fake_withdraw(&a, &reader), HF_WITHDRAWN);
    peer_bury(&p[0]);
    close_a();
}
END_TEST

/* Holders first, then waiters: whichever dies, the others are served in order. */
static void dies_at(int dead, int kind)
{
    open_a(PEERS);
    peer_takes(&p[0], 0, fake_ticket("x", kind));
    for (int i = 1; i < PEERS; i++)
        peer_queues(&p[i], 0, fake_ticket("x", kind));
    peer_kill(&p[dead]);
    for (int i = 0; i < PEERS; i++) {
        if (i == dead)
            continue;
        if (i > 0)
            peer_gets(&p[i], 0);
        peer_drops(&p[i], 0);
    }
    for (int i = 0; i < PEERS; i++)
        if (i != dead)
            peer_leaves(&p[i]);
    peer_bury(&p[dead]);
    close_a();
}

START_TEST(a_death_in_every_position)
{
    for (int dead = 0; dead < PEERS; dead++) {
        dies_at(dead, HF_FAIR);
        dies_at(dead, HF_MUTEX);
    }
}
END_TEST

/* The holders of a semaphore change while a ticket waits; all of them are watched. */
START_TEST(every_holder_of_a_semaphore_is_watched)
{
    struct hf_ticket all = fake_permits("s", HF_PERMITS, 3, 3);

    open_a(4);
    for (int i = 0; i < 3; i++)
        peer_takes(&p[i], 0, fake_permits("s", HF_PERMITS, 1, 3));
    peer_queues(&p[3], 0, fake_permits("s", HF_PERMITS, 1, 3));
    ck_assert_int_eq(fake_try(&a, &all).what, FAKE_QUEUED);
    peer_drops(&p[0], 0);
    peer_gets(&p[3], 0);
    for (int i = 3; i > 0; i--) /* the waiter that watched the others first */
        peer_kill(&p[i]);
    fake_expect_grant(&a, &all);
    ck_assert_int_eq(fake_withdraw(&a, &all), HF_WITHDRAWN);
    for (int i = 1; i < 4; i++)
        peer_bury(&p[i]);
    peer_leaves(&p[0]);
    close_a();
}
END_TEST

/* The waiter before ours withdraws, and it watched the holder. */
START_TEST(who_moves_up_watches_the_holder)
{
    struct hf_ticket mine = fake_ticket("x", HF_FAIR);

    open_a(2);
    peer_takes(&p[0], 0, fake_ticket("x", HF_FAIR));
    peer_queues(&p[1], 0, fake_ticket("x", HF_FAIR));
    ck_assert_int_eq(fake_try(&a, &mine).what, FAKE_QUEUED);
    peer_leaves(&p[1]);
    ck_assert(fake_quiet(&a));
    peer_kill(&p[0]);
    fake_expect_grant(&a, &mine);
    ck_assert_int_eq(fake_withdraw(&a, &mine), HF_WITHDRAWN);
    peer_bury(&p[0]);
    close_a();
}
END_TEST

/* The pid of a dead session is reused by another process. The lock in `live` would say
 * that it lives, so only the start time shows the death. */
START_TEST(a_pid_that_is_used_again_is_not_the_holder)
{
    struct flock lock = { .l_type = F_WRLCK, .l_start = 1, .l_len = 1 };
    struct hf_ticket mine = fake_ticket("x", HF_MUTEX);
    struct state state;

    open_a(1);
    peer_takes(&p[0], 0, fake_ticket("x", HF_MUTEX));
    peer_kill(&p[0]);
    peer_bury(&p[0]);
    int fd = open(live_path(), O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
    state = state_map();
    state.sessions[1].pid = getppid();
    ck_assert_int_eq(fake_try(&a, &mine).what, FAKE_GRANTED);
    ck_assert_uint_eq(state.sessions[1].state, SESSION_FREE);
    ck_assert_int_eq(fake_withdraw(&a, &mine), HF_WITHDRAWN);
    state_unmap(&state);
    close(fd);
    close_a();
}
END_TEST

/* A session that woke the old session has a descriptor of its FIFO; it must not swallow
 * a wake-up for the new session with that number. */
START_TEST(a_reused_session_is_woken)
{
    struct hf_ticket mine;
    struct state state;

    open_a(0);
    for (int i = 0; i < 3; i++) {
        mine = slow_ticket("x", HF_FAIR);
        ck_assert_int_eq(peer_start(&p[0]), 0);
        takes(&a, &mine);
        peer_queues(&p[0], 0, fake_ticket("x", HF_FAIR));
        ck_assert_int_eq(fake_withdraw(&a, &mine), HF_WITHDRAWN);
        peer_gets(&p[0], 0);
        mine = slow_ticket("x", HF_FAIR);
        ck_assert_int_eq(fake_try(&a, &mine).what, FAKE_QUEUED);
        peer_kill(&p[0]);
        fake_expect_grant(&a, &mine);
        ck_assert_int_eq(fake_withdraw(&a, &mine), HF_WITHDRAWN);
        peer_bury(&p[0]);
        state = state_map();
        ck_assert_uint_eq(state.sessions[1].state, SESSION_FREE);
        ck_assert_uint_eq(state.sessions[2].gen,
                          state.sessions[1].gen - (unsigned)i - 1);
        state_unmap(&state);
    }
    close_a();
}
END_TEST

/* The lock in `live` must not survive in a child of the dead process. */
START_TEST(a_forked_child_keeps_nothing_alive)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX);
    struct state state;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    open_a(1);
    state = state_map();
    state.sessions[1].space = 1; /* its lock is the only proof of life */
    peer_takes(&p[0], 0, fake_ticket("x", HF_MUTEX));
    pid_t child = (pid_t)peer_order(&p[0], PEER_FORK, 0).result;
    ck_assert_int_gt(child, 0);
    peer_kill(&p[0]);
    if (fake_try(&a, &ticket).what == FAKE_QUEUED) /* the child has not run yet */
        fake_expect_grant(&a, &ticket);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    waitpid(child, NULL, 0);
    peer_bury(&p[0]);
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    state_unmap(&state);
    close_a();
}
END_TEST

/* The process goes on as another program, which does not have the session. */
START_TEST(a_holder_that_runs_another_program_lets_go)
{
    struct hf_ticket waits = fake_ticket("x", HF_MUTEX);
    struct hf_ticket tries = fake_ticket("y", HF_MUTEX);

    open_a(1);
    peer_takes(&p[0], 0, fake_ticket("x", HF_MUTEX));
    peer_takes(&p[0], 1, fake_ticket("y", HF_MUTEX));
    ck_assert_int_eq(fake_try(&a, &waits).what, FAKE_QUEUED);
    ck_assert_int_eq(peer_order(&p[0], PEER_EXEC, 0).what, PEER_DIED);
    ck_assert_int_eq(kill(p[0].pid, 0), 0);
    ck_assert_int_eq(fake_try(&a, &waits).what, FAKE_GRANTED); /* core asks again */
    tries.flags = HF_TICKET_TRY;
    takes(&a, &tries);
    ck_assert_int_eq(fake_withdraw(&a, &waits), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&a, &tries), HF_WITHDRAWN);
    kill(p[0].pid, SIGKILL);
    peer_bury(&p[0]);
    close_a();
}
END_TEST

/* One session has more entries than there are sessions; the other holder is watched
 * too. */
START_TEST(many_entries_of_one_holder_hide_no_other)
{
    static struct hf_ticket mine[SESSION_COUNT + 10];
    struct hf_ticket waits = fake_permits("s", HF_PERMITS, 1, SESSION_COUNT + 11);

    open_a(1);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    for (int i = 0; i < SESSION_COUNT + 10; i++) {
        mine[i] = fake_permits("s", HF_PERMITS, 1, SESSION_COUNT + 11);
        takes(&b, &mine[i]);
    }
    peer_takes(&p[0], 0, fake_permits("s", HF_PERMITS, 1, SESSION_COUNT + 11));
    ck_assert_int_eq(fake_try(&a, &waits).what, FAKE_QUEUED);
    peer_kill(&p[0]);
    fake_expect_grant(&a, &waits);
    ck_assert_int_eq(fake_withdraw(&a, &waits), HF_WITHDRAWN);
    peer_bury(&p[0]);
    fake_close(&b);
    close_a();
}
END_TEST

START_TEST(a_live_file_that_was_removed_is_noticed)
{
    struct hf_ticket mine = fake_ticket("x", HF_MUTEX);
    hf_error why;

    open_a(1);
    takes(&a, &mine);
    ck_assert_int_eq(unlinkat(AT_FDCWD, live_path(), 0), 0);
    ck_assert_int_eq(fake_open_why(&b, &hf__backend_file, url, NULL, &why),
                     HF_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(why.text, "'live' was removed"));
    ck_assert_int_eq(fake_renew(&a, &mine, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(fake_withdraw(&a, &mine), HF_WITHDRAWN);
    fake_close(&a);
    peer_kill(&p[0]); /* its session is left behind; a new session finds it dead */
    peer_bury(&p[0]);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    close_a();
}
END_TEST

START_TEST(a_child_that_closes_leaves_its_parent_alone)
{
    struct hf_ticket quick = fake_ticket("x", HF_MUTEX),
                     slow = slow_ticket("y", HF_MUTEX);
    struct hf_ticket waiting = fake_ticket("y", HF_MUTEX);

    open_a(0);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    takes(&a, &quick);
    takes(&a, &slow);
    ck_assert_int_eq(fake_try(&b, &waiting).what, FAKE_QUEUED);
    pid_t child = fork();
    if (child == 0) {
        fake_close_forked(&a);
        fake_close_forked(&b);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(fake_renew(&a, &quick, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(fake_withdraw(&a, &slow), HF_WITHDRAWN);
    fake_expect_grant(&b, &waiting);
    ck_assert_int_eq(fake_withdraw(&a, &quick), HF_WITHDRAWN);
    fake_close(&b);
    close_a();
}
END_TEST

/* ---- A death at every step inside the guard -------------------------------------- */

/* What the victim does; it dies at some step, or reaches the end. */
static bool act_takes(void)
{
    return peer_attempt(&p[0], 0, slow_ticket("x", HF_MUTEX)).what == FAKE_QUEUED;
}

static bool act_drops(void)
{
    return peer_order(&p[0], PEER_WITHDRAW, 1).what != PEER_DIED;
}

static bool act_drops_quick(void)
{
    return peer_order(&p[0], PEER_WITHDRAW, 2).what != PEER_DIED;
}

static bool act_makes_names(void)
{
    static const char name[] =
        "a name that does not fit into its record and goes on in two further blocks: "
        "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"
        "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz";
    return peer_attempt(&p[0], 0, fake_permits(name, HF_PERMITS, 1, 2)).what ==
           FAKE_GRANTED;
}

static bool act_counts_down(void)
{
    struct hf_request set = fake_request(HF_LATCH_SET, "latch");
    struct hf_request down = fake_request(HF_LATCH_DOWN, "latch");

    set.number = down.number = 2;
    return peer_ask(&p[0], set).what != PEER_DIED &&
           peer_attempt(&p[0], 0, fake_ticket("latch", HF_LATCH)).what == FAKE_QUEUED &&
           peer_ask(&p[0], down).what != PEER_DIED;
}

static bool act_evicts(void)
{
    struct hf_request evict = fake_request(HF_EVICT, "quick");
    struct state state = state_map();

    for (uint32_t i = 1; i < state.head->high_water; i++)
        if (state.blocks[i].type == BLOCK_RECORD &&
            strcmp(state.blocks[i].record.name, "quick") == 0)
            evict.number = state.blocks[i].record.token;
    state_unmap(&state);
    return peer_ask(&p[0], evict).what != PEER_DIED;
}

static bool act_leaves(void)
{
    struct peer_reply reply = peer_order(&p[0], PEER_LEAVE, 0);
    return reply.what != PEER_DIED;
}

static bool (*const acts[])(void) = { act_takes,       act_drops,  act_drops_quick,
                                      act_makes_names, act_evicts, act_counts_down,
                                      act_leaves };

/* Both tickets are granted, in any order, and released. */
static void served(struct peer *peer)
{
    uint64_t seen = 0;

    for (int i = 0; i < 2; i++) {
        struct peer_reply reply = peer_order(peer, PEER_NEXT, 0);
        ck_assert_int_eq(reply.what, FAKE_GRANTED);
        seen |= UINT64_C(1) << reply.result;
    }
    ck_assert_uint_eq(seen, 3);
    peer_drops(peer, 0);
    peer_drops(peer, 1);
}

/* The victim holds "x" in the table and "quick" on the fast path; two others wait for
 * both, and this session has "rw" twice. */
static void victim_prepare(struct hf_ticket *readers)
{
    open_a(4);
    for (int i = 0; i < 2; i++) {
        readers[i] = fake_ticket("rw", HF_READ);
        takes(&a, &readers[i]);
    }
    peer_takes(&p[0], 1, slow_ticket("x", HF_FAIR));
    peer_takes(&p[0], 2, fake_ticket("quick", HF_MUTEX));
    for (int i = 1; i < 3; i++) {
        peer_queues(&p[i], 0, fake_ticket("x", HF_FAIR));
        peer_queues(&p[i], 1, fake_ticket("quick", HF_FAIR));
    }
}

/* Every waiter gets its lock, in order, and the table is consistent. */
static void victim_survived(struct hf_ticket *readers)
{
    struct state state = state_map();

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(fake_renew(&a, &readers[i], HF_CHECK), HF_STILL_HELD);
        served(&p[i + 1]);
        ck_assert_int_eq(fake_withdraw(&a, &readers[i]), HF_WITHDRAWN);
    }
    state_check(&state);
    state_unmap(&state);
    for (int i = 1; i < 3; i++)
        peer_leaves(&p[i]);
    fake_close(&a);
    scratch_remove();
}

/* True if the victim lived. */
static bool dies_at_step(bool (*act)(void), uint32_t step)
{
    struct hf_ticket readers[2];
    bool lived;

    victim_prepare(readers);
    peer_fails(&p[0], step, SIGKILL);
    lived = act();
    kill(p[0].pid, SIGKILL);
    peer_bury(&p[0]);
    peer_leaves(&p[3]);
    victim_survived(readers);
    return lived;
}

START_TEST(a_death_at_every_step)
{
    uint32_t step = 1;

    while (!dies_at_step(acts[_i], step))
        ck_assert_uint_lt(++step, STEPS_MAX);
    ck_assert_uint_gt(step, 5); /* it did die on the way */
}
END_TEST

/* A hold that moves is written twice before it is removed once. Whichever client has it
 * in the end, it is one hold, and the next waiter gets it. True if the adopter
 * lived. */
static bool adopter_dies(struct hf_ticket held, uint32_t step)
{
    struct state state;
    uint64_t token;
    bool lived;

    open_a(2);
    token = takes(&a, &held);
    peer_queues(&p[1], 0, fake_ticket("x", HF_FAIR));
    peer_fails(&p[0], step, SIGKILL);
    lived = peer_adopt(&p[0], 0, &held, token).what != PEER_DIED;
    kill(p[0].pid, SIGKILL);
    peer_bury(&p[0]);
    if (fake_renew(&a, &held, HF_CHECK) == HF_STILL_HELD)
        ck_assert_int_eq(fake_withdraw(&a, &held), HF_WITHDRAWN);
    peer_gets(&p[1], 0);
    state = state_map();
    state_check(&state);
    state_unmap(&state);
    peer_leaves(&p[1]);
    close_a();
    return lived;
}

START_TEST(a_death_at_every_step_of_an_adoption)
{
    struct hf_ticket held[2] = { fake_ticket("x", HF_MUTEX),
                                 slow_ticket("x", HF_MUTEX) };
    uint32_t step = 1;

    while (!adopter_dies(held[_i], step))
        ck_assert_uint_lt(++step, STEPS_MAX);
    ck_assert_uint_gt(step, 5);
}
END_TEST

/* The process that repairs dies too, at some step of the repair. */
static bool repairer_dies(uint32_t step)
{
    struct hf_ticket readers[2];
    struct peer_reply reply;

    victim_prepare(readers);
    peer_fails(&p[0], 9, SIGKILL);
    peer_fails(&p[3], step, SIGKILL);
    ck_assert(!act_drops());
    reply = peer_attempt(&p[3], 0, slow_ticket("other", HF_MUTEX));
    kill(p[3].pid, SIGKILL);
    peer_bury(&p[0]);
    peer_bury(&p[3]);
    victim_survived(readers);
    return reply.what != PEER_DIED;
}

START_TEST(a_death_at_every_step_of_the_repair)
{
    uint32_t step = 1;

    while (!repairer_dies(step))
        ck_assert_uint_lt(++step, STEPS_MAX);
    ck_assert_uint_gt(step, 5);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_killed_holder_lets_go,
        &a_dead_holder_is_found_by_who_tries,
        &a_death_in_every_position,
        &every_holder_of_a_semaphore_is_watched,
        &who_moves_up_watches_the_holder,
        &a_pid_that_is_used_again_is_not_the_holder,
        &a_reused_session_is_woken,
        &a_forked_child_keeps_nothing_alive,
        &a_holder_that_runs_another_program_lets_go,
        &many_entries_of_one_holder_hide_no_other,
        &a_live_file_that_was_removed_is_noticed,
        &a_child_that_closes_leaves_its_parent_alone,
        &a_death_at_every_step_of_the_repair,
    };
    Suite *suite = suite_create("file_crash");
    TCase *tcase = tcase_create("file_crash");
    SRunner *runner = srunner_create(suite);

    tcase_set_timeout(tcase, UNIT_TIMEOUT_S);
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(tcase, *tests[i]);
    tcase_add_loop_test(tcase, a_death_at_every_step, 0,
                        sizeof(acts) / sizeof(acts[0]));
    tcase_add_loop_test(tcase, a_death_at_every_step_of_an_adoption, 0, 2);
    suite_add_tcase(suite, tcase);
    srunner_set_tap(runner, "-");
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
