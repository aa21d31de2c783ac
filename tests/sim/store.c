/* SPDX-License-Identifier: MIT */
/*
 * The store behind the seam that speaks to the simulated server: "lease:<client>".
 *
 * It does what a store on a network does. Each call is a message with a number; calls
 * under way are in a list until they are answered, their ticket has gone, or the
 * connection is lost, which makes them uncertain. While there is no connection nothing
 * is sent. After a new one every waiter looks again, because messages may be lost. What
 * arrives waits in an inbox, and an eventfd calls the loop, so that a client that gets
 * no turn hears nothing.
 *
 * The lease of a grant counts from before its request was sent. One that is pushed
 * began so much later than the request as the server's clock says, less what that clock
 * may have run too fast. The answer to a renewal says which one it answers.
 */
#include "store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "../../src/base/error.h"
#include "../../src/base/mem.h"

static struct session *sessions[CLIENTS_MAX];

int64_t session_now(const struct session *me)
{
    return me->host->ops->now(me->host);
}

/* ---- seats and calls ------------------------------------------------------------- */

static struct seat *seat_of(const struct hf_ticket *ticket)
{
    return (struct seat *)(uintptr_t)ticket->store[SEAT];
}

static struct hf_list_node *about_list(struct session *me, const void *subject)
{
    uint64_t mixed = (uintptr_t)subject * UINT64_C(0x9e3779b97f4a7c15);
    return &me->about[mixed >> (64 - ABOUT_BITS)];
}

static void about_set(struct session *me, struct call *call, uint32_t i, void *subject)
{
    struct about *about = &call->about[i];
    about->subject = subject;
    about->call = call;
    hf__list_push_back(about_list(me, subject), &about->link);
}

static void about_forget(struct about *about)
{
    if (about->subject)
        hf__list_remove(&about->link);
    about->subject = NULL;
}

void session_end_call(struct call *call)
{
    for (uint32_t i = 0; i < call->count; i++)
        about_forget(&call->about[i]);
    hf__list_remove(&call->link);
    hf__free(call);
}

static void calls_forget(struct session *me, const void *subject)
{
    for (HF_EACH_SAFE(link, about_list(me, subject))) {
        struct about *about = HF_CONTAINER(link, struct about, link);
        struct call *call = about->call;
        bool left = false;
        if (about->subject != subject)
            continue;
        about_forget(about);
        for (uint32_t i = 0; i < call->count; i++)
            left |= call->about[i].subject != NULL;
        if (!left)
            session_end_call(call);
    }
}

/* Nothing about this ticket may come any more. */
void session_unseat(struct session *me, struct hf_ticket *ticket)
{
    struct seat *seat = seat_of(ticket);
    calls_forget(me, ticket);
    if (!seat)
        return;
    hf__list_remove(&seat->link);
    hf__free(seat);
    ticket->store[SEAT] = 0;
}

bool session_seat(struct session *me, struct hf_ticket *ticket)
{
    if (seat_of(ticket))
        return true;
    struct seat *seat = hf__alloc(sizeof(*seat));
    if (!seat)
        return false;
    seat->ticket = ticket;
    hf__list_push_back(&me->seats, &seat->link);
    ticket->store[SEAT] = (uintptr_t)seat;
    return true;
}

struct call *session_call(struct session *me, int kind, void *subject)
{
    struct call *call = hf__alloc(sizeof(*call));
    if (!call)
        abort();
    call->number = ++me->last_call;
    call->kind = kind;
    call->sent_ns = session_now(me);
    call->count = 1;
    if (subject)
        about_set(me, call, 0, subject);
    hf__list_push_back(&me->calls, &call->link);
    return call;
}

struct msg *session_msg(const struct session *me, const struct call *call)
{
    struct msg *msg = msg_new(call->kind, me->client);
    msg->call = call->number;
    msg->count = call->count;
    return msg;
}

void item_fill(struct item *item, const struct hf_ticket *ticket)
{
    item->id = ticket->id;
    item->name = name_index(ticket->name);
    item->kind = ticket->kind;
    item->ttl_ns = ticket->ttl_ns;
}

/* ---- calls from core ------------------------------------------------------------- */

static void lease_attempt(void *session, struct hf_ticket *ticket)
{
    struct session *me = session;
    hf_error why;
    if (!me->up || !session_seat(me, ticket)) {
        hf__fail_code(&why, me->up ? HF_ENOMEM : HF_EUNREACHABLE);
        me->host->ops->failed(me->host, ticket, &why);
        return;
    }
    struct msg *msg = session_msg(me, session_call(me, MSG_ATTEMPT, ticket));
    item_fill(&msg->items[0], ticket);
    msg->flags = ticket->flags;
    msg->permits = ticket->permits;
    msg->limit = ticket->limit;
    msg->reserve = ticket->reserve;
    msg->ttl_ns = ticket->ttl_ns;
    net_send(msg, true);
}

static void lease_withdraw(void *session, struct hf_ticket *ticket)
{
    struct session *me = session;
    if (!me->up) {
        me->host->ops->withdrawn(me->host, ticket, HF_WITHDRAWAL_UNKNOWN);
        return;
    }
    struct msg *msg = session_msg(me, session_call(me, MSG_WITHDRAW, ticket));
    item_fill(&msg->items[0], ticket);
    net_send(msg, true);
}

static void renew_some(struct session *me, struct hf_ticket *const *tickets,
                       uint32_t some, enum hf_renew_mode mode)
{
    struct call *call = session_call(me, MSG_RENEW, NULL);
    call->count = some;
    call->mode = mode;
    struct msg *msg = session_msg(me, call);
    msg->mode = mode;
    for (uint32_t i = 0; i < some; i++) {
        about_set(me, call, i, tickets[i]);
        call->ttl_ns[i] = tickets[i]->ttl_ns;
        item_fill(&msg->items[i], tickets[i]);
        msg->items[i].token = tickets[i]->store[NOW];
    }
    net_send(msg, true);
}

static void lease_renew(void *session, struct hf_ticket *const *tickets, size_t count_,
                        enum hf_renew_mode mode)
{
    struct session *me = session;
    for (size_t i = 0; !me->up && i < count_; i++)
        me->host->ops->renewed(me->host, tickets[i], HF_RENEWAL_UNKNOWN, NULL);
    for (size_t i = 0; me->up && i < count_; i += ITEMS_MAX)
        renew_some(me, tickets + i,
                   (uint32_t)(count_ - i < ITEMS_MAX ? count_ - i : ITEMS_MAX), mode);
}

static void lease_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
}

static void lease_forget(void *session, const void *gone)
{
    struct session *me = session;
    for (HF_EACH_SAFE(link, &me->seats)) {
        struct seat *seat = HF_CONTAINER(link, struct seat, link);
        if (seat->ticket == gone)
            session_unseat(me, seat->ticket);
    }
    calls_forget(me, gone);
    ask_forget(me, gone);
}

/* ---- answers --------------------------------------------------------------------- */

static void attempt_answered(struct session *me, struct hf_ticket *ticket,
                             const struct msg *msg, int64_t sent_ns)
{
    struct hf_grant grant = { msg->token, msg->span, msg->ttl_ns, sent_ns };
    if (mutant == MUTANT_ARRIVAL)
        grant.since_ns = session_now(me);
    if (msg->answer == ANSWER_QUEUED) {
        int64_t rest = sent_ns + msg->left_ns - session_now(me);
        if (msg->left_ns)
            rest = rest > MS ? rest : MS;
        ticket->store[SENT] = (uint64_t)sent_ns;
        ticket->store[QUEUED] = (uint64_t)msg->server_ns;
        me->host->ops->queued(me->host, ticket, msg->left_ns ? rest : 0);
    } else if (msg->answer == ANSWER_BUSY) {
        session_unseat(me, ticket);
        me->host->ops->busy(me->host, ticket);
    } else {
        if (ticket->kind == HF_LATCH) {
            session_unseat(me, ticket);
            grant.ttl_ns = 0;
        }
        me->host->ops->granted(me->host, ticket, &grant);
    }
}

static void renew_answered(struct session *me, const struct call *call,
                           const struct msg *msg)
{
    for (uint32_t i = 0; i < call->count; i++) {
        struct hf_ticket *ticket = call->about[i].subject;
        struct hf_lease lease = { call->sent_ns, call->ttl_ns[i] };
        bool late = mutant == MUTANT_LATE_RENEWAL;
        if (ticket)
            me->host->ops->renewed(me->host, ticket,
                                   (enum hf_renewal)msg->items[i].answer,
                                   late ? NULL : &lease);
    }
}

static void call_answered(struct session *me, struct call *call, const struct msg *msg)
{
    struct call copy = *call;
    session_end_call(call);
    if (copy.kind == MSG_ATTEMPT) {
        attempt_answered(me, copy.about[0].subject, msg, copy.sent_ns);
    } else if (copy.kind == MSG_WITHDRAW) {
        session_unseat(me, copy.about[0].subject);
        me->host->ops->withdrawn(me->host, copy.about[0].subject,
                                 (enum hf_withdrawal)msg->answer);
    } else if (copy.kind == MSG_RENEW) {
        renew_answered(me, &copy, msg);
    } else {
        ask_answered(me, copy.about[0].subject, msg, copy.sent_ns);
    }
}

/* The connection went first. */
static void call_lost(struct session *me, struct call *call)
{
    struct call copy = *call;
    hf_error why;
    session_end_call(call);
    hf__fail_code(&why, HF_EUNCERTAIN);
    for (uint32_t i = 0; i < copy.count; i++) {
        void *subject = copy.about[i].subject;
        if (!subject)
            continue;
        if (copy.kind == MSG_ATTEMPT)
            me->host->ops->failed(me->host, subject, &why);
        else if (copy.kind == MSG_WITHDRAW)
            me->host->ops->withdrawn(me->host, subject, HF_WITHDRAWAL_UNKNOWN);
        else if (copy.kind == MSG_RENEW)
            me->host->ops->renewed(me->host, subject, HF_RENEWAL_UNKNOWN, NULL);
        else
            me->host->ops->answered(me->host, subject, HF_EUNCERTAIN, &why);
    }
}

static void grant_pushed(struct session *me, struct hf_ticket *ticket,
                         const struct msg *msg)
{
    int64_t now = session_now(me), asked = (int64_t)ticket->store[SENT];
    int64_t waited = msg->server_ns - (int64_t)ticket->store[QUEUED];
    struct hf_grant grant = { msg->token, msg->span, msg->ttl_ns, 0 };
    if (ticket->kind == HF_LATCH) {
        grant.ttl_ns = 0;
        session_unseat(me, ticket);
        me->host->ops->granted(me->host, ticket, &grant);
        return;
    }
    waited -= waited / 100;
    grant.since_ns = asked + (waited > 0 ? waited : 0);
    if (grant.since_ns > now || mutant == MUTANT_ARRIVAL)
        grant.since_ns = now;
    if (!asked || now - grant.since_ns > grant.ttl_ns / 4)
        me->host->ops->notice(me->host, ticket);
    else
        me->host->ops->granted(me->host, ticket, &grant);
}

static void pushed(struct session *me, const struct msg *msg)
{
    for (HF_EACH(link, &me->seats)) {
        struct hf_ticket *ticket = HF_CONTAINER(link, struct seat, link)->ticket;
        if (memcmp(&ticket->id, &msg->items[0].id, sizeof(ticket->id)) != 0)
            continue;
        if (msg->kind == MSG_GRANT)
            grant_pushed(me, ticket, msg);
        else if (msg->kind == MSG_WHICH)
            ask_which(me, ticket, msg);
        else
            me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
        return;
    }
}

/* ---- the connection -------------------------------------------------------------- */

static void connect_again(void *arg)
{
    struct session *me = arg;
    struct net_conn *conn = &net.conns[me->client];
    bool through = net.server_up && !net.server_paused && !conn->side[0].blocked &&
                   !conn->side[1].blocked;
    if (!through) {
        me->host->ops->set_timer(me->host, &me->reconnect,
                                 session_now(me) + dice_between(10, 100) * MS);
        return;
    }
    me->up = conn->up = true;
    for (HF_EACH(link, &me->seats))
        me->host->ops->notice(me->host, HF_CONTAINER(link, struct seat, link)->ticket);
}

static void connection_lost(struct session *me)
{
    if (!me->up)
        return;
    me->up = false;
    me->host->ops->set_timer(me->host, &me->reconnect,
                             session_now(me) + dice_between(1, 50) * MS);
    for (struct hf_list_node *link; (link = hf__list_first(&me->calls));)
        call_lost(me, HF_CONTAINER(link, struct call, link));
}

static void take(struct session *me, const struct msg *msg)
{
    if (msg->kind == MSG_EOF) {
        connection_lost(me);
        return;
    }
    if (msg->kind == MSG_GRANT || msg->kind == MSG_LOST || msg->kind == MSG_WHICH) {
        pushed(me, msg);
        return;
    }
    for (HF_EACH_SAFE(link, &me->calls)) {
        struct call *call = HF_CONTAINER(link, struct call, link);
        if (call->number > msg->call)
            return;
        if (call->number == msg->call) {
            call_answered(me, call, msg);
            return;
        }
        session_end_call(call); /* answers come in order: this one's is lost */
    }
}

static void inbox_read(void *arg, uint32_t events)
{
    struct session *me = arg;
    uint64_t number;
    (void)events;
    if (read(me->wake_fd, &number, sizeof(number)) < 0)
        return;
    for (struct msg *msg; (msg = me->inbox);) {
        me->inbox = msg->next;
        if (!me->inbox)
            me->inbox_end = &me->inbox;
        take(me, msg);
        msg_free(msg);
    }
}

void session_receive(int client, struct msg *msg)
{
    struct session *me = sessions[client];
    uint64_t one = 1;
    if (!me) {
        msg_free(msg);
        return;
    }
    msg->next = NULL;
    *me->inbox_end = msg;
    me->inbox_end = &msg->next;
    if (write(me->wake_fd, &one, sizeof(one)) < 0)
        abort();
}

/* ---- the table ------------------------------------------------------------------- */

static int lease_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    struct session *me = session;
    me->host = host;
    me->client = url->path[0] - '0';
    me->inbox_end = &me->inbox;
    me->reconnect.callback = connect_again;
    me->reconnect.arg = me;
    hf__list_init(&me->seats);
    hf__list_init(&me->calls);
    ask_open(me);
    for (size_t i = 0; i < sizeof(me->about) / sizeof(*me->about); i++)
        hf__list_init(&me->about[i]);
    me->wake_fd = eventfd(0, EFD_NONBLOCK);
    if (host->ops->add_fd(host, me->wake_fd, EPOLLIN, inbox_read, me) != 0)
        return hf__fail_code(why, HF_ESYSTEM);
    sessions[me->client] = me;
    net.conns[me->client].epoch++;
    net.conns[me->client].up = false;
    connect_again(me);
    *ret_caps = HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE |
                HF_CAP_PERMITS | HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL |
                HF_CAP_LEASE | HF_CAP_EVICT | HF_CAP_DETACH | HF_CAP_HANDOFF |
                HF_CAP_PROCESSES;
    return 0;
}

/* What was not withdrawn goes with the session, as far as it can be told. */
static void lease_close(void *session, bool forked)
{
    struct session *me = session;
    (void)forked;
    for (struct hf_list_node *link; (link = hf__list_first(&me->seats));) {
        struct hf_ticket *ticket = HF_CONTAINER(link, struct seat, link)->ticket;
        net.left_behind = true; /* nobody will ask whether it got there */
        if (me->up && !(ticket->flags & HF_TICKET_DETACHED)) {
            struct msg *msg = msg_new(MSG_WITHDRAW, me->client);
            item_fill(&msg->items[0], ticket);
            net_send(msg, true);
        }
        session_unseat(me, ticket);
    }
    for (struct hf_list_node *link; (link = hf__list_first(&me->calls));)
        session_end_call(HF_CONTAINER(link, struct call, link));
    for (struct msg *msg; (msg = me->inbox);) {
        me->inbox = msg->next;
        msg_free(msg);
    }
    ask_close(me);
    me->host->ops->stop_timer(me->host, &me->reconnect);
    me->host->ops->remove_fd(me->host, me->wake_fd);
    close(me->wake_fd);
    sessions[me->client] = NULL;
}

static bool lease_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    const struct session *me = session;
    if (!me->up)
        return false; /* the server could not ask us */
    ticket->store[NOW] = token;
    return true;
}

static const char *const schemes[] = { "lease", NULL };
static const char *const options[] = { NULL };

const struct hf_backend sim_backend = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "lease",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct session),
    .default_ttl_ns = 30 * SECOND,
    .open = lease_open,
    .close = lease_close,
    .attempt = lease_attempt,
    .withdraw = lease_withdraw,
    .renew = lease_renew,
    .interest = lease_interest,
    .ask = ask_send,
    .forget = lease_forget,
    .pass = lease_pass,
};
