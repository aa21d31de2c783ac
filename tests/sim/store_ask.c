/* SPDX-License-Identifier: MIT */
/*
 * The simulated store: requests that are not about a place in a queue.
 *
 * Eviction goes as on Redis. A client hands a mutex on without asking the server, so
 * the server asks the holder's client which number holds now; that client gives the
 * lock up, or says that it is another number. The client that evicts asks again until
 * there is an answer; if none comes, the number that the server heard of last decides.
 */
#include "store.h"

#include "../../src/base/error.h"

#define ASK_AGAIN_NS (20 * MS)

enum { SURE = 'y', ANOTHER = 'x', OVERDUE = 'f' };

/* request->store[]: [0], [1] a link of me->evictions, [2] when it was asked first. */
static struct hf_list_node *link_of(struct hf_request *request)
{
    return (struct hf_list_node *)(void *)request->store;
}

static int64_t asked_for(const struct session *me, const struct hf_request *request)
{
    return request->store[2] ? session_now(me) - (int64_t)request->store[2] : 0;
}

void ask_send(void *session, struct hf_request *request)
{
    struct session *me = session;
    if (!me->up) {
        me->host->ops->answered(me->host, request, HF_EUNREACHABLE, NULL);
        return;
    }
    struct msg *msg = session_msg(me, session_call(me, MSG_ASK, request));
    msg->verb = request->verb;
    msg->number = request->number;
    msg->call_id = request->id;
    msg->other = request->other;
    msg->items[0].name = name_index(request->name);
    if (request->ticket)
        item_fill(&msg->items[0], request->ticket);
    if (request->verb == HF_EVICT)
        msg->mode = asked_for(me, request) > me->host->request_ns / 10 ? OVERDUE : 0;
    if (request->verb == HF_ADOPT)
        net.left_behind = true; /* if its answer is lost, the lease ends it */
    net_send(msg, true);
}

/* ---- the client that evicts ------------------------------------------------------ */

static void ask_again(void *session)
{
    struct session *me = session;
    struct hf_list_node due;
    hf__list_init(&due);
    for (struct hf_list_node *link; (link = hf__list_first(&me->evictions));) {
        hf__list_remove(link);
        hf__list_push_back(&due, link);
    }
    for (struct hf_list_node *link; (link = hf__list_first(&due));) {
        hf__list_remove(link);
        ask_send(me, HF_CONTAINER(link, struct hf_request, store));
    }
}

void ask_open(struct session *me)
{
    hf__list_init(&me->evictions);
    me->evict_timer.callback = ask_again;
    me->evict_timer.arg = me;
}

void ask_close(struct session *me)
{
    me->host->ops->stop_timer(me->host, &me->evict_timer);
}

void ask_forget(struct session *me, const void *gone)
{
    for (HF_EACH_SAFE(link, &me->evictions))
        if (HF_CONTAINER(link, struct hf_request, store) == gone)
            hf__list_remove(link);
}

static void evict_wait(struct session *me, struct hf_request *request)
{
    int64_t now = session_now(me);
    if (!request->store[2])
        request->store[2] = (uint64_t)now;
    if (now - (int64_t)request->store[2] > me->host->request_ns / 2) {
        me->host->ops->answered(me->host, request, HF_EUNREACHABLE, NULL);
        return;
    }
    me->host->ops->set_timer(me->host, &me->evict_timer, now + ASK_AGAIN_NS);
    hf__list_push_back(&me->evictions, link_of(request));
    me->host->ops->progress(me->host, request);
}

void ask_answered(struct session *me, struct hf_request *request, const struct msg *msg,
                  int64_t sent_ns)
{
    request->result = msg->number;
    if (request->verb == HF_EVICT && msg->answer == ANSWER_ASKED) {
        evict_wait(me, request);
        return;
    }
    if (request->verb == HF_CELL_GET && msg->answer == 0)
        me->host->ops->cell_data(me->host, request, &msg->number, sizeof(msg->number));
    if (request->verb == HF_ADOPT && msg->answer == 0) {
        request->grant = (struct hf_grant){ msg->token, 1, msg->ttl_ns, sent_ns };
        session_seat(me, request->ticket);
    }
    me->host->ops->answered(me->host, request, msg->answer, NULL);
}

/* ---- the client of the holder ---------------------------------------------------- */

/* Lost to our callers first, so that none of them hands it on. */
void ask_which(struct session *me, struct hf_ticket *ticket, const struct msg *msg)
{
    uint64_t now = ticket->store[NOW] ? ticket->store[NOW] : msg->token;
    struct msg *word = msg_new(MSG_ASK, me->client);
    word->verb = HF_EVICT;
    word->number = msg->number;
    word->call_id = msg->call_id;
    word->mode = msg->number == now ? SURE : ANOTHER;
    item_fill(&word->items[0], ticket);
    if (word->mode == SURE)
        me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
    net_send(word, true);
}
