/* SPDX-License-Identifier: MIT */
/*
 * Eviction by exactly one token.
 *
 * A client hands off a mutex among its own callers without the server, under the next
 * token of its grant. The server then knows the block of tokens, but only the client
 * knows which of them holds now. So the script asks the holder's client. If the token
 * holds now, that client gives up the lock; otherwise it sends the server the token
 * that does. The evicting client repeats its request until the script has the answer.
 *
 * A hold with a single token is evicted at once. So is a hold whose client is not
 * connected, or does not answer for a tenth of request_timeout_ms, if the token is the
 * last one that the client has sent: at the grant, and with each renewal since.
 */
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"

#include <stdio.h>
#include <string.h>

#define ASK_AGAIN_NS (20 * HF_NS_PER_MS)

/* The holder's client has this part of request_timeout_ms to answer. */
#define ANSWER_PART 10

/* request->store[]: [0], [1] its link in me->evictions, [2] when it was asked first. */
static struct hf_list_node *link_of(struct hf_request *request)
{
    return (struct hf_list_node *)(void *)request->store;
}

/* ---- The evicting client --------------------------------------------------------- */

static void ask_again(void *session)
{
    struct redis_session *me = session;
    struct hf_list_node due;
    hf__list_init(&due);
    for (struct hf_list_node *link; (link = hf__list_first(&me->evictions));) {
        hf__list_remove(link);
        hf__list_push_back(&due, link);
    }
    for (struct hf_list_node *link; (link = hf__list_first(&due));) {
        hf__list_remove(link);
        hf__redis_ask(me, HF_CONTAINER(link, struct hf_request, store));
    }
}

void hf__redis_evict_start(struct redis_session *me)
{
    hf__list_init(&me->evictions);
    me->evict_timer.callback = ask_again;
    me->evict_timer.arg = me;
}

/* The time for the holder's client to answer is over: it hangs, or is cut off. */
bool hf__redis_evict_is_overdue(const struct redis_session *me,
                                const struct hf_request *request)
{
    int64_t asked = (int64_t)request->store[2];
    return asked &&
           me->host->ops->now(me->host) - asked > me->host->request_ns / ANSWER_PART;
}

/* The holder's client was asked. 0: the request waits for its answer. */
int hf__redis_evict_wait(struct redis_session *me, struct hf_request *request,
                         hf_error *why)
{
    int64_t now = me->host->ops->now(me->host);
    if (!request->store[2])
        request->store[2] = (uint64_t)now;
    if (now - (int64_t)request->store[2] > me->host->request_ns / 2)
        return hf__fail(why, HF_EUNREACHABLE,
                        "the client that holds the lock does not answer; the lock is "
                        "free when its lease is over");
    if (me->host->ops->set_timer(me->host, &me->evict_timer, now + ASK_AGAIN_NS) != 0)
        return hf__fail_code(why, HF_ENOMEM);
    hf__list_push_back(&me->evictions, link_of(request));
    me->host->ops->progress(me->host, request);
    return 0;
}

void hf__redis_evict_forget(struct redis_session *me, const void *request)
{
    for (HF_EACH_SAFE(link, &me->evictions))
        if (HF_CONTAINER(link, struct hf_request, store) == request)
            hf__list_remove(link);
}

void hf__redis_evict_done(struct redis_session *me)
{
    me->host->ops->stop_timer(me->host, &me->evict_timer);
}

/* ---- The holder's client --------------------------------------------------------- */

bool hf__redis_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    struct redis_session *me = session;
    if (!hf__redis_conn_is_up(me->conn))
        return false; /* the server could not ask this client */
    ticket->store[3] = token;
    return true;
}

void hf__redis_evict_reason(struct redis_session *me, struct hf_ticket *ticket,
                            const char *details, size_t len)
{
    char text[DETAILS_SIZE + 32];
    const char *pid = len ? memchr(details, '\x1f', len) : NULL;
    const char *end = details + len;
    const char *program = pid ? memchr(pid + 1, '\x1f', (size_t)(end - pid - 1)) : NULL;
    if (!program)
        return;
    const char *last = memchr(program + 1, '\x1f', (size_t)(end - program - 1));
    int written =
        snprintf(text, sizeof(text), "evicted by %.*s pid %.*s %.*s",
                 (int)(pid - details), details, (int)(program - pid - 1), pid + 1,
                 (int)((last ? last : end) - program - 1), program + 1);
    for (int i = 0; i < written && text[i]; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f')
            text[i] = '?';
    me->host->ops->reason(me->host, ticket, text);
}

/* y: that token holds the lock now. x: another token does. */
static void send_answer(struct redis_session *me, const struct hf_ticket *ticket,
                        const struct eviction *eviction, char word)
{
    struct keys keys;
    struct args args;
    hf__redis_keys_fill(&keys, hf__redis_evict_keys, ticket->name, ticket->name_len);
    hf__redis_keys_add_done(&keys, ticket->name, ticket->name_len, &eviction->id);
    hf__redis_args_init(&args);
    hf__redis_args_number(&args, (int64_t)eviction->token);
    hf__redis_args_letter(&args, me->layout == LAYOUT_SIMPLE ? 's' : 'r');
    hf__redis_args_letter(&args, word);
    hf__redis_args_id(&args, &eviction->id);
    hf__redis_args_text(&args, eviction->details, eviction->len);
    hf__redis_conn_eval(me->conn, &hf__redis_script_evict, keys.key, keys.count,
                        args.arg, args.count, NULL, NULL, 0);
}

/* The token of the block that holds the lock now. */
uint64_t hf__redis_evict_token_now(const struct hf_ticket *ticket, uint64_t first)
{
    return ticket->store[3] ? ticket->store[3] : first;
}

void hf__redis_evict_asked(struct redis_session *me, struct hf_ticket *ticket,
                           const struct eviction *eviction)
{
    if (hf__redis_conn_is_crowded(me->conn))
        return; /* the question is repeated; a flood must not fill the memory */
    if (eviction->token != hf__redis_evict_token_now(ticket, eviction->first)) {
        hf__redis_renew(me, &ticket, 1, HF_CHECK); /* sends the token that holds now */
        send_answer(me, ticket, eviction, 'x');
        return;
    }
    /* Lost to this client's callers first, so that none of them hands it off. */
    hf__redis_evict_reason(me, ticket, eviction->details, eviction->len);
    me->host->ops->event(me->host, ticket, HF_EVENT_LOST);
    send_answer(me, ticket, eviction, 'y');
}
