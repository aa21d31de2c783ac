/* SPDX-License-Identifier: MIT */
/*
 * Renewal: the tickets of one call from core go into one script call, up to BATCH_MAX.
 *
 * A batch lives until its request is answered; a ticket that is forgotten meanwhile is
 * removed from it. No reply, or an error, is "unknown" for each: core renews again
 * until the lease is over.
 */
#include "noscript.h"
#include "session.h"

#include "../../base/clock.h"
#include "../../base/mem.h"

#include <string.h>

enum { KEYS_EACH = 3, ARGS_EACH = 4, BATCH_MAX = 128 };

struct batch {
    struct hf_list_node link;
    enum hf_renew_mode mode;
    uint32_t count;
    struct {
        struct hf_ticket *ticket; /* NULL: forgotten */
        int64_t ttl_ns;
    } of[];
};

void hf__redis_renew_forget(struct redis_session *me, const void *ticket)
{
    for (HF_EACH(link, &me->batches)) {
        struct batch *batch = HF_CONTAINER(link, struct batch, link);
        for (uint32_t i = 0; i < batch->count; i++)
            if (batch->of[i].ticket == ticket)
                batch->of[i].ticket = NULL;
    }
}

static void batch_free(struct batch *batch)
{
    hf__list_remove(&batch->link);
    hf__free(batch);
}

void hf__redis_renew_done(struct redis_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->batches));)
        batch_free(HF_CONTAINER(link, struct batch, link));
}

static enum hf_renewal answer_of(const struct resp *nodes, size_t index,
                                 enum hf_renew_mode mode)
{
    int64_t held;
    if (!nodes || !hf__redis_resp_number(hf__redis_resp_at(nodes, 0, index), &held))
        return HF_RENEWAL_UNKNOWN;
    if (!held)
        return HF_RENEWAL_LOST;
    return mode == HF_RENEW ? HF_RENEWED : HF_STILL_HELD;
}

static void renew_reply(void *session, void *subject, uint64_t word,
                        const struct resp *nodes, int64_t sent_ns, const hf_error *why)
{
    (void)word;
    (void)why;
    struct redis_session *me = session;
    struct batch *batch = subject;
    if (nodes && nodes[0].type != RESP_ERROR &&
        (nodes[0].type != RESP_ARRAY || nodes[0].len != batch->count))
        hf__redis_conn_distrust(me->conn);
    for (uint32_t i = 0; i < batch->count; i++) {
        struct hf_lease lease = { sent_ns, batch->of[i].ttl_ns };
        if (batch->of[i].ticket)
            me->host->ops->renewed(me->host, batch->of[i].ticket,
                                   answer_of(nodes, i, batch->mode), &lease);
    }
    batch_free(batch);
}

/* The keys and arguments of one batch, too large for the stack of a callback. */
struct load {
    struct resp_arg keys[KEYS_EACH * BATCH_MAX];
    struct resp_arg args[ARGS_EACH * BATCH_MAX];
    struct {
        char owner[OWNER_SIZE];
        char letter;
        char ttl[24];
        char token[24];
    } text[BATCH_MAX];
    char names[];
};

static enum key_name third_key(int kind)
{
    if (kind == HF_PERMITS)
        return KEY_PERMITS;
    return kind == HF_EXPIRING ? KEY_TIMEOUT : KEY_NAME;
}

static char *load_key(struct resp_arg *key, char *at, enum key_name which,
                      const struct hf_ticket *ticket)
{
    key->text = at;
    key->len = hf__redis_key_write(at, which, ticket->name, ticket->name_len);
    return at + key->len;
}

static char *load_ticket(const struct redis_session *me, struct load *load,
                         size_t index, char *at, const struct hf_ticket *ticket,
                         enum hf_renew_mode mode)
{
    struct resp_arg *keys = &load->keys[KEYS_EACH * index];
    struct resp_arg *args = &load->args[ARGS_EACH * index];
    struct args number;
    at = load_key(&keys[0], at, KEY_NAME, ticket);
    at = load_key(&keys[1], at, KEY_INFO, ticket);
    at = load_key(&keys[2], at, third_key(ticket->kind), ticket);

    hf__redis_args_init(&number);
    hf__redis_args_number(&number, mode == HF_RENEW ? hf__redis_ttl_ms(ticket) : 0);
    memcpy(load->text[index].ttl, number.arg[0].text, number.arg[0].len);
    load->text[index].letter = hf__redis_kind_letter(me, ticket->kind);
    size_t owner =
        hf__redis_owner_write(load->text[index].owner, me->layout, &ticket->id);
    args[0] = (struct resp_arg){ &load->text[index].letter, 1 };
    args[1] = (struct resp_arg){ load->text[index].owner, owner };
    args[2] = (struct resp_arg){ load->text[index].ttl, number.arg[0].len };
    hf__redis_args_number(&number, (int64_t)ticket->store[3]);
    memcpy(load->text[index].token, number.arg[1].text, number.arg[1].len);
    args[3] = (struct resp_arg){ load->text[index].token, number.arg[1].len };
    return at;
}

static void renew_some(struct redis_session *me, struct hf_ticket *const *tickets,
                       size_t count, enum hf_renew_mode mode)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += KEYS_EACH * (tickets[i]->name_len + KEY_SIZE - HF_NAME_MAX);
    struct load *load = hf__alloc(sizeof(*load) + room);
    struct batch *batch = hf__alloc(sizeof(*batch) + count * sizeof(batch->of[0]));
    if (!load || !batch) {
        for (size_t i = 0; i < count; i++)
            me->host->ops->renewed(me->host, tickets[i], HF_RENEWAL_UNKNOWN, NULL);
        hf__free(batch);
        hf__free(load);
        return;
    }
    char *at = load->names;
    for (size_t i = 0; i < count; i++) {
        batch->of[i].ticket = tickets[i];
        batch->of[i].ttl_ns = hf__redis_ttl_ms(tickets[i]) * HF_NS_PER_MS;
        at = load_ticket(me, load, i, at, tickets[i], mode);
    }
    batch->mode = mode;
    batch->count = (uint32_t)count;
    hf__list_push_back(&me->batches, &batch->link);
    hf__redis_conn_eval(me->conn, &hf__redis_script_renew, load->keys,
                        KEYS_EACH * count, load->args, ARGS_EACH * count, renew_reply,
                        batch, 0);
    hf__free(load);
}

void hf__redis_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                     enum hf_renew_mode mode)
{
    struct redis_session *me = session;
    for (size_t i = 0; !me->scripts && i < count; i++)
        hf__redis_noscript_renew(me, tickets[i], mode);
    while (me->scripts && count > 0) {
        size_t some = count < BATCH_MAX ? count : BATCH_MAX;
        renew_some(me, tickets, some, mode);
        tickets += some;
        count -= some;
    }
}
