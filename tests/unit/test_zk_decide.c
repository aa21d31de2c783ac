/* SPDX-License-Identifier: MIT */
/*
 * What a ticket of the zookeeper store does next, by what is known of it: the rules of
 * decide.h as tables, without a server.
 */
#include "unit.h"

#include "../../src/backends/zookeeper/decide.h"

#define EACH(rows) (size_t i = 0; i < sizeof(rows) / sizeof((rows)[0]); i++)

enum { STATES = TICKET_RELEASE + 1, GOALS = GOAL_WITHDRAW + 1 };

static struct facts facts(enum ticket_state state, enum awaits awaits, enum goal goal,
                          enum told told)
{
    return (
        struct facts){ .state = state, .awaits = awaits, .goal = goal, .told = told };
}

struct row {
    enum ticket_state state;
    enum awaits awaits;
    enum told told;
    enum action action;
};

static const struct row holds[] = {
    { TICKET_IDLE, AWAITS_NOTHING, TOLD_NOTHING, DO_ENTER },
    { TICKET_IDLE, AWAITS_NOTHING, TOLD_QUEUED, DO_ENTER },
    { TICKET_IDLE, AWAITS_NOTHING, TOLD_LOST, DO_NOTHING },
    { TICKET_IDLE, AWAITS_UP, TOLD_NOTHING, DO_NOTHING },
    { TICKET_ENTER, AWAITS_REPLY, TOLD_NOTHING, DO_NOTHING },
    { TICKET_ENTER, AWAITS_NOTHING, TOLD_NOTHING, DO_ENTER },
    { TICKET_FIND, AWAITS_NOTHING, TOLD_NOTHING, DO_FIND },
    { TICKET_FIND, AWAITS_UP, TOLD_NOTHING, DO_NOTHING },
    { TICKET_OWNER, AWAITS_NOTHING, TOLD_NOTHING, DO_OWNER },
    { TICKET_LIST, AWAITS_NOTHING, TOLD_NOTHING, DO_LIST },
    { TICKET_LIST, AWAITS_REPLY, TOLD_QUEUED, DO_NOTHING },
    { TICKET_WAIT, AWAITS_NOTHING, TOLD_NOTHING, TELL_QUEUED },
    { TICKET_WAIT, AWAITS_EVENT, TOLD_NOTHING, TELL_QUEUED },
    { TICKET_WAIT, AWAITS_NOTHING, TOLD_QUEUED, DO_WATCH },
    { TICKET_WAIT, AWAITS_EVENT, TOLD_QUEUED, DO_NOTHING },
    { TICKET_WAIT, AWAITS_UP, TOLD_NOTHING, DO_NOTHING },
    { TICKET_WAIT_DENIED, AWAITS_NOTHING, TOLD_QUEUED, DO_WATCH },
};

static const struct row locks[] = {
    { TICKET_PROBE, AWAITS_NOTHING, TOLD_NOTHING, DO_PROBE },
    { TICKET_FIRST, AWAITS_NOTHING, TOLD_NOTHING, DO_GRANT },
    { TICKET_HELD, AWAITS_NOTHING, TOLD_GRANTED, DO_NOTHING },
    { TICKET_HELD, AWAITS_NOTHING, TOLD_LOST, DO_NOTHING },
    { TICKET_DOWNGRADE, AWAITS_NOTHING, TOLD_GRANTED, DO_DOWNGRADE },
    { TICKET_DOWNGRADE, AWAITS_UP, TOLD_GRANTED, DO_NOTHING },
};

/* While no look is under way. */
static const struct row permits[] = {
    { TICKET_FIRST, AWAITS_NOTHING, TOLD_NOTHING, DO_LOOK },
    { TICKET_FIRST, AWAITS_EVENT, TOLD_NOTHING, TELL_QUEUED },
    { TICKET_FIRST, AWAITS_EVENT, TOLD_QUEUED, DO_NOTHING },
    { TICKET_FIRST, AWAITS_UP, TOLD_NOTHING, DO_NOTHING },
    { TICKET_TAKE, AWAITS_NOTHING, TOLD_NOTHING, DO_TAKE },
    { TICKET_TAKE, AWAITS_REPLY, TOLD_NOTHING, DO_NOTHING },
    { TICKET_FIND_LEASES, AWAITS_NOTHING, TOLD_NOTHING, DO_FIND_LEASES },
    { TICKET_LEASE_OWNER, AWAITS_NOTHING, TOLD_NOTHING, DO_LEASE_OWNER },
    { TICKET_CHECK, AWAITS_NOTHING, TOLD_NOTHING, DO_CHECK },
    { TICKET_CHECK, AWAITS_REPLY, TOLD_NOTHING, DO_NOTHING },
    { TICKET_CHECK_PROBE, AWAITS_NOTHING, TOLD_NOTHING, DO_CHECK_PROBE },
    { TICKET_CHECKED, AWAITS_NOTHING, TOLD_NOTHING, DO_GRANT },
    { TICKET_HELD, AWAITS_NOTHING, TOLD_GRANTED, DO_NOTHING },
};

START_TEST(a_ticket_that_is_to_hold)
{
    for
        EACH(holds)
        {
            const struct row *row = &holds[i];
            struct facts known = facts(row->state, row->awaits, GOAL_HOLD, row->told);
            ck_assert_int_eq(hf__zk_decide_lock(&known), row->action);
            ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), row->action);
        }
    for
        EACH(locks)
        {
            const struct row *row = &locks[i];
            struct facts known = facts(row->state, row->awaits, GOAL_HOLD, row->told);
            ck_assert_int_eq(hf__zk_decide_lock(&known), row->action);
        }
    for
        EACH(permits)
        {
            const struct row *row = &permits[i];
            struct facts known = facts(row->state, row->awaits, GOAL_HOLD, row->told);
            ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), row->action);
        }
}
END_TEST

/* Only a listing that shows the ticket first grants a lock, and only checked leases
 * grant permits. */
START_TEST(what_grants)
{
    for (int state = 0; state < STATES; state++)
        for (int awaits = 0; awaits <= AWAITS_UP; awaits++)
            for (int told = 0; told <= TOLD_LOST; told++)
                for (int goal = 0; goal < GOALS; goal++) {
                    struct facts known = facts(state, awaits, goal, told);
                    bool free = awaits == AWAITS_NOTHING && goal == GOAL_HOLD;
                    ck_assert_int_eq(hf__zk_decide_lock(&known) == DO_GRANT,
                                     free && state == TICKET_FIRST);
                    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE) ==
                                         DO_GRANT,
                                     free && state == TICKET_CHECKED);
                    ck_assert(hf__zk_decide_latch(&known, false) != DO_GRANT);
                }
}
END_TEST

START_TEST(a_try)
{
    struct facts known = facts(TICKET_IDLE, AWAITS_NOTHING, GOAL_HOLD, TOLD_NOTHING);
    known.is_try = true;
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_ENTER);
    known.was_busy = true;
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_PEEK);
    known.state = TICKET_WAIT;
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_GIVE_UP);
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), DO_LOOK);
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_DUE), DO_WATCH);
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_DONE), DO_JUDGE);
    known.awaits = AWAITS_UP;
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_NOTHING);
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), DO_NOTHING);
}
END_TEST

/* Core is told that it is over only when nothing can be on the server. */
START_TEST(a_ticket_that_is_to_end)
{
    for (int state = 0; state < STATES; state++)
        for (int awaits = 0; awaits <= AWAITS_UP; awaits++)
            for (int goal = GOAL_LOST; goal < GOALS; goal++) {
                struct facts known = facts(state, awaits, goal, TOLD_NOTHING);
                enum action action = hf__zk_decide_lock(&known);
                bool nothing = state == TICKET_IDLE || state == TICKET_PEEK ||
                               (state == TICKET_ENTER && awaits == AWAITS_NOTHING);
                if (action == TELL_OVER)
                    ck_assert(nothing);
                else if (nothing)
                    ck_assert(goal == GOAL_LOST && action == DO_NOTHING);
                ck_assert(action != DO_ENTER && action != DO_GRANT &&
                          action != TELL_QUEUED && action != DO_WATCH);
            }
}
END_TEST

/* What is not known is found out before anything is deleted. */
START_TEST(an_end_that_has_to_wait)
{
    static const enum ticket_state states[] = { TICKET_ENTER,       TICKET_TAKE,
                                                TICKET_FIND,        TICKET_OWNER,
                                                TICKET_FIND_LEASES, TICKET_LEASE_OWNER,
                                                TICKET_DELETE,      TICKET_RELEASE };
    for
        EACH(states)
        {
            struct facts known =
                facts(states[i], AWAITS_REPLY, GOAL_WITHDRAW, TOLD_NOTHING);
            ck_assert_int_eq(hf__zk_decide_lock(&known), DO_NOTHING);
            ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_DONE), DO_NOTHING);
        }
    struct facts known =
        facts(TICKET_FIND, AWAITS_NOTHING, GOAL_WITHDRAW, TOLD_NOTHING);
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_FIND);
    known.state = TICKET_FIND_LEASES;
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), DO_FIND_LEASES);
    known.state = TICKET_HELD;
    ck_assert_int_eq(hf__zk_decide_lock(&known), DO_DELETE);
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_NONE), DO_RELEASE);
    known.state = TICKET_FIRST;
    ck_assert_int_eq(hf__zk_decide_permit(&known, LOOK_DONE), DO_DELETE);
}
END_TEST

START_TEST(a_wait_for_a_latch)
{
    struct facts known = facts(TICKET_IDLE, AWAITS_NOTHING, GOAL_HOLD, TOLD_NOTHING);
    ck_assert_int_eq(hf__zk_decide_latch(&known, false), DO_LIST);
    known.state = TICKET_ENTER;
    ck_assert_int_eq(hf__zk_decide_latch(&known, false), DO_ENTER);
    known.state = TICKET_WAIT;
    known.awaits = AWAITS_EVENT;
    ck_assert_int_eq(hf__zk_decide_latch(&known, true), TELL_QUEUED);
    known.told = TOLD_QUEUED;
    ck_assert_int_eq(hf__zk_decide_latch(&known, true), DO_NOTHING);
    known.awaits = AWAITS_NOTHING; /* the gate has changed */
    ck_assert_int_eq(hf__zk_decide_latch(&known, true), DO_LIST);
    known.goal = GOAL_WITHDRAW;
    ck_assert_int_eq(hf__zk_decide_latch(&known, true), DO_DELETE);
    known.state = TICKET_DELETE;
    known.awaits = AWAITS_REPLY;
    ck_assert_int_eq(hf__zk_decide_latch(&known, true), DO_NOTHING);
    known.state = TICKET_IDLE;
    ck_assert_int_eq(hf__zk_decide_latch(&known, false), TELL_OVER);
}
END_TEST

UNIT_MAIN("zk_decide", a_ticket_that_is_to_hold, what_grants, a_try,
          a_ticket_that_is_to_end, an_end_that_has_to_wait, a_wait_for_a_latch)
