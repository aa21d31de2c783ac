/* SPDX-License-Identifier: MIT */
/*
 * What a ticket does next: see decide.h. No session, no requests.
 */
#include "decide.h"

/* The request of a state that has one; it is sent again after a pause. */
static enum action request_of(enum ticket_state state)
{
    switch (state) {
    case TICKET_ENTER:
        return DO_ENTER;
    case TICKET_FIND:
        return DO_FIND;
    case TICKET_OWNER:
        return DO_OWNER;
    case TICKET_LIST:
        return DO_LIST;
    case TICKET_PROBE:
        return DO_PROBE;
    case TICKET_WAIT:
    case TICKET_WAIT_DENIED:
        return DO_WATCH;
    case TICKET_TAKE:
        return DO_TAKE;
    case TICKET_FIND_LEASES:
        return DO_FIND_LEASES;
    case TICKET_LEASE_OWNER:
        return DO_LEASE_OWNER;
    case TICKET_CHECK:
        return DO_CHECK;
    case TICKET_CHECK_PROBE:
        return DO_CHECK_PROBE;
    case TICKET_DOWNGRADE:
        return DO_DOWNGRADE;
    case TICKET_DELETE:
        return DO_DELETE;
    case TICKET_RELEASE:
        return DO_RELEASE;
    default:
        return DO_NOTHING;
    }
}

/* Nothing may be left on the server. What may be there has to be known first: the reply
 * to a create or a take is waited for, and its absence is looked into. */
static enum action decide_end(const struct facts *facts, enum action held)
{
    switch (facts->state) {
    case TICKET_IDLE:
    case TICKET_PEEK:
        return facts->goal == GOAL_LOST ? DO_NOTHING : TELL_OVER;
    case TICKET_ENTER:
        return facts->awaits == AWAITS_NOTHING ? TELL_OVER : DO_NOTHING;
    case TICKET_TAKE:
        return facts->awaits == AWAITS_NOTHING ? DO_DELETE : DO_NOTHING;
    case TICKET_FIND:
    case TICKET_OWNER:
    case TICKET_FIND_LEASES:
    case TICKET_LEASE_OWNER:
    case TICKET_DELETE:
    case TICKET_RELEASE:
        return facts->awaits == AWAITS_NOTHING ? request_of(facts->state) : DO_NOTHING;
    case TICKET_CHECK:
    case TICKET_CHECK_PROBE:
    case TICKET_CHECKED:
        return DO_RELEASE;
    case TICKET_HELD:
        return held;
    default:
        return DO_DELETE;
    }
}

static enum action decide_begin(const struct facts *facts)
{
    if (facts->told == TOLD_LOST || facts->awaits != AWAITS_NOTHING)
        return DO_NOTHING;
    return facts->is_try && facts->was_busy ? DO_PEEK : DO_ENTER;
}

enum action hf__zk_decide_lock(const struct facts *facts)
{
    bool waits = facts->state == TICKET_WAIT || facts->state == TICKET_WAIT_DENIED;
    if (facts->goal != GOAL_HOLD)
        return decide_end(facts, DO_DELETE);
    if (facts->state == TICKET_IDLE)
        return decide_begin(facts);
    if (waits && facts->told == TOLD_NOTHING && facts->awaits != AWAITS_UP)
        return facts->is_try ? DO_GIVE_UP : TELL_QUEUED;
    if (facts->awaits != AWAITS_NOTHING)
        return DO_NOTHING;
    return facts->state == TICKET_FIRST ? DO_GRANT : request_of(facts->state);
}

enum action hf__zk_decide_latch(const struct facts *facts, bool node_may_exist)
{
    if (facts->goal != GOAL_HOLD && facts->state == TICKET_DELETE)
        return facts->awaits == AWAITS_NOTHING ? DO_DELETE : DO_NOTHING;
    if (facts->goal != GOAL_HOLD)
        return facts->state == TICKET_IDLE && !node_may_exist ? TELL_OVER : DO_DELETE;
    if (facts->state == TICKET_WAIT && facts->told == TOLD_NOTHING)
        return TELL_QUEUED;
    if (facts->awaits != AWAITS_NOTHING)
        return DO_NOTHING;
    if (facts->state == TICKET_IDLE || facts->state == TICKET_WAIT)
        return DO_LIST;
    return request_of(facts->state);
}

/* First in its queue: the look decides, and then the end of another's lease. */
static enum action decide_first(const struct facts *facts, enum look look)
{
    if (facts->awaits == AWAITS_EVENT)
        return facts->told == TOLD_NOTHING ? TELL_QUEUED : DO_NOTHING;
    return look == LOOK_NONE && facts->awaits == AWAITS_NOTHING ? DO_LOOK : DO_NOTHING;
}

/* A try waits for what a look says: busy, or refused. */
static enum action decide_waiting(const struct facts *facts, enum look look)
{
    if (facts->awaits == AWAITS_UP)
        return DO_NOTHING;
    if (!facts->is_try && facts->told == TOLD_NOTHING)
        return TELL_QUEUED;
    if (facts->is_try && look == LOOK_NONE)
        return DO_LOOK;
    return facts->awaits == AWAITS_NOTHING ? DO_WATCH : DO_NOTHING;
}

enum action hf__zk_decide_permit(const struct facts *facts, enum look look)
{
    if (facts->goal != GOAL_HOLD)
        return decide_end(facts, DO_RELEASE);
    if (look == LOOK_DONE)
        return DO_JUDGE;
    switch (facts->state) {
    case TICKET_IDLE:
        return decide_begin(facts);
    case TICKET_WAIT:
    case TICKET_WAIT_DENIED:
        return decide_waiting(facts, look);
    case TICKET_FIRST:
        return decide_first(facts, look);
    default:
        if (facts->awaits != AWAITS_NOTHING)
            return DO_NOTHING;
        return facts->state == TICKET_CHECKED ? DO_GRANT : request_of(facts->state);
    }
}
