/* SPDX-License-Identifier: MIT */
/*
 * Tickets, whatever their kind: what core asks and what the server replies, and what
 * core is told.
 *
 * All under the client's lock. A hold is proven by a node of this session and counts as
 * long as that session is known to live: grant.ttl_ns is the smaller of that and what
 * was asked for. The end of one lease does not end the session, so each ticket has a
 * timer here that deletes its node when the lease is not renewed. A ticket whose hold
 * was lost lives until core has withdrawn it, so that the answer can be HF_GONE.
 */
#include "ticket.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

enum { HINT_BUSY = 1 };

/* ---- Beginning and end ----------------------------------------------------------- */

struct zk_ticket *hf__zk_ticket_new(struct zk_session *me,
                                    struct hf_ticket *core_ticket, size_t size,
                                    const struct zk_ticket_ops *ops)
{
    hf_error why;
    struct zk_ticket *ticket = hf__alloc(size);
    if (!ticket) {
        hf__fail_code(&why, HF_ENOMEM);
        me->host->ops->failed(me->host, core_ticket, &why);
        return NULL;
    }
    ticket->session = me;
    ticket->ops = ops;
    ticket->core_ticket = core_ticket;
    ticket->id = core_ticket->id;
    ticket->kind = core_ticket->kind;
    core_ticket->store[0] = (uint64_t)(uintptr_t)ticket;
    hf__list_push_back(&me->tickets, &ticket->link);
    return ticket;
}

static void stop_proof(struct zk_session *me, struct zk_ticket *ticket)
{
    ticket->node = NULL;
    if (ticket->lease_timer.slot)
        me->host->ops->stop_timer(me->host, &ticket->lease_timer);
    hf__zk_watcher_end(me, &ticket->own_watcher);
}

/* Drops replies that are due. Core is told nothing. */
static void ticket_free(struct zk_session *me, struct zk_ticket *ticket)
{
    stop_proof(me, ticket);
    hf__zk_watcher_end(me, &ticket->watcher);
    hf__zk_renew_forget(me, ticket);
    if (ticket->requests)
        hf__zk_forget(me->zk, ticket);
    if (ticket->core_ticket)
        ticket->core_ticket->store[0] = 0;
    hf__list_remove(&ticket->link);
    if (ticket->ops->done)
        ticket->ops->done(me, ticket);
    hf__free(ticket->path);
    hf__free(ticket);
}

/* ---- What core is told ----------------------------------------------------------- */

/* How long the session is known to live counts from an earlier moment; so does
 * drift. */
static int64_t session_left(const struct zk_session *me, int64_t now)
{
    int64_t drift = hf__zk_session_ns(me->zk) / 100;
    int64_t left = hf__zk_valid_until(me->zk) - drift - now;
    return left > 1 ? left : 1;
}

static void lease_timer_fired(void *arg)
{
    struct zk_ticket *ticket = arg;
    struct zk_session *me = ticket->session;
    hf__zk_ticket_lost(me, ticket);
    if (ticket->goal == GOAL_HOLD)
        ticket->goal = GOAL_LOST;
    hf__zk_ticket_advance(me, ticket);
}

int64_t hf__zk_ticket_lease(struct zk_session *me, struct zk_ticket *ticket,
                            int64_t ttl_ns, int64_t since_ns)
{
    int64_t most = session_left(me, since_ns);
    int64_t given = ttl_ns > 0 && ttl_ns < most ? ttl_ns : most;
    ticket->lease_timer.callback = lease_timer_fired;
    ticket->lease_timer.arg = ticket;
    /* Without the timer the node still ends with the session. */
    me->host->ops->set_timer(me->host, &ticket->lease_timer, since_ns + given);
    return given;
}

static void grant_again(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_grant grant = {
        .token = ticket->token,
        .span = 1,
        .ttl_ns = ticket->ttl_ns,
        .since_ns = ticket->since_ns,
    };
    me->host->ops->granted(me->host, ticket->core_ticket, &grant);
}

void hf__zk_ticket_granted(struct zk_session *me, struct zk_ticket *ticket,
                           const char *node)
{
    hf__zk_ticket_set(ticket, TICKET_HELD);
    ticket->told = TOLD_GRANTED;
    ticket->node = node;
    ticket->ttl_ns =
        hf__zk_ticket_lease(me, ticket, ticket->core_ticket->ttl_ns, ticket->since_ns);
    ticket->core_ticket->hint = 0;
    grant_again(me, ticket);
}

static void queued(struct zk_session *me, struct zk_ticket *ticket)
{
    ticket->told = TOLD_QUEUED;
    me->host->ops->queued(me->host, ticket->core_ticket, 0);
}

/* HF_EUNREACHABLE or HF_EUNCERTAIN: the ticket lives on. */
static void failed(struct zk_session *me, struct zk_ticket *ticket, const hf_error *why)
{
    if (ticket->core_ticket)
        me->host->ops->failed(me->host, ticket->core_ticket, why);
}

static void over_withdrawn(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    bool gone = ticket->told == TOLD_LOST || !ticket->deleted;
    ticket_free(me, ticket);
    if (core_ticket)
        me->host->ops->withdrawn(me->host, core_ticket, gone ? HF_GONE : HF_WITHDRAWN);
}

static void over_refused(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    hf_error why = ticket->refusal;
    ticket_free(me, ticket);
    me->host->ops->failed(me->host, core_ticket, &why);
}

static void over_busy(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    core_ticket->hint = HINT_BUSY;
    ticket_free(me, ticket);
    me->host->ops->busy(me->host, core_ticket);
}

/* The store forgets the wait, and so does core. */
static void over_open(struct zk_session *me, struct zk_ticket *ticket)
{
    struct hf_ticket *core_ticket = ticket->core_ticket;
    struct hf_grant grant = { .token = ticket->token, .span = 1 };
    ticket_free(me, ticket);
    core_ticket->store[1] = 1; /* asked again, it is still open for this ticket */
    me->host->ops->granted(me->host, core_ticket, &grant);
}

/* Nothing is on the server. Core has its ticket unless that is withdrawn. */
static void ticket_over(struct zk_session *me, struct zk_ticket *ticket)
{
    if (ticket->goal == GOAL_WITHDRAW)
        over_withdrawn(me, ticket);
    else if (ticket->goal == GOAL_OPEN)
        over_open(me, ticket);
    else if (ticket->goal == GOAL_REFUSED)
        over_refused(me, ticket);
    else
        over_busy(me, ticket);
}

void hf__zk_ticket_lost(struct zk_session *me, struct zk_ticket *ticket)
{
    if (!ticket_is_held(ticket))
        return;
    ticket->told = TOLD_LOST;
    stop_proof(me, ticket);
    if (ticket->core_ticket)
        me->host->ops->event(me->host, ticket->core_ticket, HF_EVENT_LOST);
}

/* In layout=single the next holder's node has the same path: nothing is deleted. */
void hf__zk_ticket_node_gone(struct zk_session *me, struct zk_ticket *ticket)
{
    if (ticket_is_held(ticket) && me->layout == LAYOUT_SINGLE)
        hf__zk_ticket_set(ticket, TICKET_IDLE);
    hf__zk_ticket_lost(me, ticket);
}

/* ---- No reply -------------------------------------------------------------------- */

/* In layout=single nothing of ours is on the server while another client holds. */
static int unknown_code(const struct zk_session *me, const struct zk_ticket *ticket)
{
    bool waits = ticket->state == TICKET_LIST || ticket->state == TICKET_WAIT;
    return waits && me->layout == LAYOUT_SINGLE ? HF_EUNREACHABLE : HF_EUNCERTAIN;
}

void hf__zk_ticket_pause(struct zk_session *me, struct zk_ticket *ticket,
                         const hf_error *why)
{
    hf_error copy = *why;
    ticket->awaits = AWAITS_UP;
    if (hf__zk_is_up(me->zk))
        hf__zk_session_retry_soon(me);
    copy.code = unknown_code(me, ticket);
    if (ticket->goal != GOAL_WITHDRAW && ticket->told == TOLD_NOTHING)
        failed(me, ticket, &copy);
    else if (ticket->goal == GOAL_WITHDRAW && ticket->core_ticket)
        me->host->ops->withdrawn(me->host, ticket->core_ticket,
                                 ticket->deleted ? HF_WITHDRAWAL_UNKNOWN
                                                 : HF_WITHDRAWAL_UNSENT);
}

void hf__zk_ticket_unsent(struct zk_session *me, struct zk_ticket *ticket, int rc)
{
    hf_error why;
    if (rc == 0)
        return;
    hf__zk_unsent_why(me->zk, rc, &why);
    hf__zk_ticket_pause(me, ticket, &why);
}

void hf__zk_ticket_refuse(struct zk_ticket *ticket, const hf_error *why)
{
    if (ticket->goal != GOAL_HOLD)
        return;
    ticket->goal = GOAL_REFUSED;
    ticket->refusal = *why;
}

void hf__zk_ticket_fail(struct zk_session *me, struct zk_ticket *ticket,
                        const hf_error *why)
{
    hf__zk_ticket_reset(ticket, TICKET_IDLE);
    if (ticket->goal != GOAL_HOLD)
        return;
    if (why->code != HF_EUNREACHABLE && why->code != HF_EUNCERTAIN) {
        hf__zk_ticket_refuse(ticket, why);
        return;
    }
    ticket->awaits = AWAITS_UP;
    failed(me, ticket, why);
}

/* ---- Acting ---------------------------------------------------------------------- */

/* Is done without the kind. False: nothing is left to do. */
static bool tell(struct zk_session *me, struct zk_ticket *ticket, enum action action)
{
    if (action == TELL_OVER)
        ticket_over(me, ticket);
    else if (action == TELL_QUEUED)
        queued(me, ticket);
    else if (action == DO_GIVE_UP)
        ticket->goal = GOAL_BUSY;
    return action == TELL_QUEUED || action == DO_GIVE_UP;
}

void hf__zk_ticket_advance(struct zk_session *me, struct zk_ticket *ticket)
{
    for (;;) {
        struct facts facts = {
            .state = ticket->state,
            .awaits = ticket->awaits,
            .goal = ticket->goal,
            .told = ticket->told,
            .is_try = ticket->core_ticket &&
                      (ticket->core_ticket->flags & HF_TICKET_TRY) != 0,
        };
        enum action action = ticket->ops->decide(ticket, &facts);
        bool telling =
            action == TELL_OVER || action == TELL_QUEUED || action == DO_GIVE_UP;
        if (action == DO_NOTHING)
            return;
        if (!telling)
            ticket->ops->act(me, ticket, action);
        else if (!tell(me, ticket, action))
            return;
    }
}

void hf__zk_ticket_answered(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct zk_ticket *ticket = answer->subject;
    ticket->requests--;
    if (answer->tag >> 8 != ticket->generation)
        return;
    ticket->ops->record(me, ticket, answer->tag & UINT8_MAX, answer);
    hf__zk_ticket_advance(me, ticket);
}

/* ---- Other kinds ----------------------------------------------------------------- */

int hf__zk_ticket_probe(struct zk_session *me, struct zk_ticket *ticket,
                        const char *folder)
{
    char path[PATH_SIZE];
    int rc = 0;
    ticket->clash = 0;
    hf__zk_gather(me->zk);
    for (uint32_t i = 0; i < KIND_INSIDES && rc == 0; i++)
        if (hf__zk_kind_inside(path, folder, ticket->kind, i))
            rc = TICKET_ASK(ticket, ASK_PROBE + i, hf__zk_children, path, false);
    hf__zk_flush(me->zk);
    return rc;
}

bool hf__zk_ticket_probed(struct zk_session *me, struct zk_ticket *ticket,
                          enum request what, const struct zk_answer *answer)
{
    size_t index = what - ASK_PROBE;
    int32_t found =
        answer->reply ? hf__zk_kind_found(me->layout, index, answer->reply) : 0;
    if (found)
        ticket->clash = found;
    return index == hf__zk_kind_inside_last(ticket->kind);
}

/* ---- What core asks -------------------------------------------------------------- */

void hf__zk_ticket_no_memory(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    hf__fail_code(&why, HF_ENOMEM);
    hf__zk_ticket_refuse(ticket, &why);
    ticket_over(me, ticket);
}

void hf__zk_ticket_attempt(struct zk_session *me, struct zk_ticket *ticket)
{
    hf_error why;
    if (ticket_is_held(ticket)) {
        grant_again(me, ticket);
    } else if (ticket->goal == GOAL_WITHDRAW || ticket->told == TOLD_LOST ||
               ticket->state == TICKET_PEEK) {
        return;
    } else if (ticket->state == TICKET_IDLE) {
        ticket->told = TOLD_NOTHING; /* so that this attempt is answered */
        ticket->awaits = AWAITS_NOTHING;
        hf__zk_ticket_advance(me, ticket);
    } else if (!hf__zk_is_up(me->zk)) {
        hf__fail(&why, unknown_code(me, ticket), "there is no connection to ZooKeeper");
        failed(me, ticket, &why);
    } else if (ticket->told == TOLD_QUEUED) {
        queued(me, ticket);
    }
}

static void ticket_withdraw(struct zk_session *me, struct zk_ticket *ticket)
{
    stop_proof(me, ticket);
    ticket->goal = GOAL_WITHDRAW;
    if (ticket->awaits == AWAITS_UP)
        ticket->awaits = AWAITS_NOTHING; /* core is answered in any case */
    hf__zk_ticket_advance(me, ticket);
}

void hf__zk_session_withdraw(void *session, struct hf_ticket *core_ticket)
{
    struct zk_session *me = session;
    struct zk_ticket *ticket = ticket_of(core_ticket);
    if (ticket)
        ticket_withdraw(me, ticket);
    else
        me->host->ops->withdrawn(me->host, core_ticket, HF_GONE);
}

/* `forgotten` is a ticket or a request of core's; only its address is compared. */
void hf__zk_tickets_forget(struct zk_session *me, const void *forgotten)
{
    for (HF_EACH_SAFE(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        if (ticket->core_ticket != forgotten)
            continue;
        hf__zk_renew_forget(me, ticket);
        ticket->core_ticket->store[0] = 0;
        ticket->core_ticket = NULL;
        ticket_withdraw(me, ticket);
        return;
    }
}

/* ---- What the client reports ----------------------------------------------------- */

/* What was waited for may have come meanwhile: it is asked for again. */
static void ticket_up(struct zk_session *me, struct zk_ticket *ticket)
{
    bool waits = ticket->state == TICKET_WAIT || ticket->state == TICKET_WAIT_DENIED;
    if (ticket->awaits == AWAITS_REPLY)
        return;
    if (waits)
        hf__zk_ticket_set(ticket, TICKET_LIST);
    if (ticket->awaits == AWAITS_UP && ticket->state == TICKET_IDLE &&
        ticket->goal == GOAL_HOLD && ticket->told == TOLD_NOTHING) {
        me->host->ops->notice(me->host, ticket->core_ticket);
        return;
    }
    ticket->awaits = AWAITS_NOTHING;
    hf__zk_ticket_advance(me, ticket);
}

void hf__zk_tickets_up(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->tickets)) {
        struct zk_ticket *ticket = HF_CONTAINER(link, struct zk_ticket, link);
        hf__zk_interest_watch(me, ticket);
        ticket_up(me, ticket);
    }
}

static void ticket_expired(struct zk_session *me, struct zk_ticket *ticket)
{
    hf__zk_ticket_lost(me, ticket);
    hf__zk_watcher_drop(&ticket->watcher);
    hf__zk_ticket_reset(ticket, TICKET_IDLE);
    ticket->deleted = false;
    if (ticket->ops->expired)
        ticket->ops->expired(me, ticket);
    if (ticket->goal == GOAL_WITHDRAW) {
        hf__zk_ticket_advance(me, ticket);
        return;
    }
    ticket->goal = GOAL_HOLD;
    ticket->awaits = AWAITS_UP;
}

void hf__zk_tickets_expired(struct zk_session *me)
{
    for (HF_EACH_SAFE(link, &me->tickets))
        ticket_expired(me, HF_CONTAINER(link, struct zk_ticket, link));
}

void hf__zk_tickets_done(struct zk_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->tickets));)
        ticket_free(me, HF_CONTAINER(link, struct zk_ticket, link));
}
