/* SPDX-License-Identifier: MIT */
/*
 * Requests that are not about a ticket's place in a queue: latches, cells, eviction,
 * revocation, downgrade, adoption. One script call each. A request that changes a latch
 * or cell, or evicts, carries an id, and the script stores its answer for a minute: a
 * repeated request gets the same answer.
 */
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/text.h"

#include <string.h>

typedef int verb_reply(struct redis_session *me, struct hf_request *request,
                       const struct resp *nodes, int64_t sent_ns);

static int number(const struct resp *value, int64_t *ret_number)
{
    return hf__redis_resp_number(value, ret_number) ? 0 : HF_ECORRUPT;
}

/* ---- Latch ----------------------------------------------------------------------- */

static const enum key_name latch_keys[] = { KEY_NAME, KEY_INFO,   KEY_QUEUE,
                                            KEY_GATE, KEY_OPENED, KEY_END };
static const enum key_name latch_get_keys[] = { KEY_NAME, KEY_INFO, KEY_END };

static int latch_was_set(struct redis_session *me, struct hf_request *request,
                         const struct resp *nodes, int64_t sent_ns)
{
    (void)me;
    (void)request;
    (void)sent_ns;
    int64_t set;
    int rc = number(nodes, &set);
    return rc == 0 && !set ? HF_EBUSY : rc;
}

static int latch_count(struct redis_session *me, struct hf_request *request,
                       const struct resp *nodes, int64_t sent_ns)
{
    (void)me;
    (void)sent_ns;
    int64_t left = 0;
    int rc = number(nodes, &left);
    if (rc == 0 && left > UINT32_MAX)
        left = UINT32_MAX; /* more than a latch can count */
    if (rc == 0)
        request->result = left > 0 ? (uint64_t)left : 0;
    return rc;
}

/* ---- Cell ------------------------------------------------------------------------ */

static const enum key_name cell_get_keys[] = { KEY_NAME, KEY_END };
static const enum key_name cell_set_keys[] = { KEY_NAME, KEY_TOKEN, KEY_END };
static const enum key_name revoke_keys[] = { KEY_NAME, KEY_INFO, KEY_END };

static int cell_was_read(struct redis_session *me, struct hf_request *request,
                         const struct resp *nodes, int64_t sent_ns)
{
    (void)sent_ns;
    int64_t version;
    if (nodes[0].type == RESP_NIL)
        return HF_ENOENT;
    const struct resp *data = hf__redis_resp_at(nodes, 0, 1);
    if (number(hf__redis_resp_at(nodes, 0, 0), &version) != 0 || version <= 0 ||
        !data || data->type != RESP_TEXT || data->len > HF_CELL_MAX)
        return HF_ECORRUPT;
    me->host->ops->cell_data(me->host, request, data->text, data->len);
    request->result = (uint64_t)version;
    return 0;
}

static int cell_was_set(struct redis_session *me, struct hf_request *request,
                        const struct resp *nodes, int64_t sent_ns)
{
    (void)me;
    (void)sent_ns;
    int64_t done, version;
    if (number(hf__redis_resp_at(nodes, 0, 0), &done) != 0 ||
        number(hf__redis_resp_at(nodes, 0, 1), &version) != 0)
        return HF_ECORRUPT;
    if (!done)
        return HF_ESTALE;
    if (version < 0 || (version == 0) != (request->data == NULL))
        return HF_ECORRUPT;
    request->result = (uint64_t)version;
    return 0;
}

/* ---- Repair ---------------------------------------------------------------------- */

/* The kind is not known: all the keys that a lock can have. */
const enum key_name hf__redis_evict_keys[] = { KEY_NAME,    KEY_TOKEN,   KEY_INFO,
                                               KEY_QUEUE,   KEY_FAIR,    KEY_PATIENCE,
                                               KEY_CHANNEL, KEY_RW,      KEY_SC,
                                               KEY_PERMITS, KEY_TIMEOUT, KEY_END };

static int any_found(struct redis_session *me, struct hf_request *request,
                     const struct resp *nodes, int64_t sent_ns)
{
    (void)me;
    (void)request;
    (void)sent_ns;
    int64_t count;
    int rc = number(nodes, &count);
    return rc == 0 && !count ? HF_ENOENT : rc;
}

static int was_downgraded(struct redis_session *me, struct hf_request *request,
                          const struct resp *nodes, int64_t sent_ns)
{
    int rc = any_found(me, request, nodes, sent_ns);
    return rc == HF_ENOENT ? HF_ELOST : rc;
}

static int was_adopted(struct redis_session *me, struct hf_request *request,
                       const struct resp *nodes, int64_t sent_ns)
{
    int64_t token, span, ttl;
    if (nodes[0].type == RESP_NIL)
        return HF_ENOENT;
    if (number(hf__redis_resp_at(nodes, 0, 0), &token) != 0 ||
        number(hf__redis_resp_at(nodes, 0, 1), &span) != 0 ||
        number(hf__redis_resp_at(nodes, 0, 2), &ttl) != 0)
        return HF_ECORRUPT;
    if (!hf__redis_grant_read(&request->grant, request->ticket, token, span, ttl,
                              sent_ns))
        return HF_ECORRUPT;
    hf__redis_number_bind(me, (uint32_t)request->store[0], request->ticket);
    request->store[0] = 0;
    return 0;
}

/* ---- The table ------------------------------------------------------------------- */

static const struct verb {
    const struct script *script;
    const enum key_name *keys; /* NULL: those of the ticket's kind */
    bool once;                 /* the last key stores the answer */
    verb_reply *reply;
} verbs[] = {
    [HF_LATCH_SET] = { &hf__redis_script_latch_set, latch_keys, true, latch_was_set },
    [HF_LATCH_GET] = { &hf__redis_script_latch_get, latch_get_keys, false,
                       latch_count },
    [HF_LATCH_DOWN] = { &hf__redis_script_latch_down, latch_keys, true, latch_count },
    [HF_CELL_GET] = { &hf__redis_script_cell_get, cell_get_keys, false, cell_was_read },
    [HF_CELL_SET] = { &hf__redis_script_cell_set, cell_set_keys, true, cell_was_set },
    [HF_EVICT] = { &hf__redis_script_evict, hf__redis_evict_keys, true, any_found },
    [HF_REVOKE] = { &hf__redis_script_revoke, revoke_keys, false, any_found },
    [HF_DOWNGRADE] = { &hf__redis_script_downgrade_rw, NULL, false, was_downgraded },
    [HF_ADOPT] = { &hf__redis_script_adopt, NULL, false, was_adopted },
};

static void ask_reply(void *session, void *subject, uint64_t word,
                      const struct resp *nodes, int64_t sent_ns,
                      const hf_error *no_reply)
{
    (void)word;
    struct redis_session *me = session;
    struct hf_request *request = subject;
    hf_error why;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    int64_t asked;
    if (request->verb == HF_EVICT && number(nodes, &asked) == 0 && asked == 2) {
        rc = hf__redis_evict_wait(me, request, &why);
        if (rc != 0)
            me->host->ops->answered(me->host, request, rc, &why);
        return;
    }
    if (rc == 0) {
        rc = verbs[request->verb].reply(me, request, nodes, sent_ns);
        hf__fail_code(&why, rc);
    }
    if (request->verb == HF_ADOPT) {
        hf__redis_number_free(me, (uint32_t)request->store[0]);
        request->store[0] = 0;
    }
    me->host->ops->answered(me->host, request, rc, rc ? &why : NULL);
}

void hf__redis_args_id(struct args *args, const struct hf_id *id)
{
    hf__hex_encode(id, sizeof(*id), args->at);
    hf__redis_args_text(args, args->at, 2 * sizeof(*id));
    args->at += 2 * sizeof(*id);
}

static void add_arguments(struct args *args, const struct redis_session *me,
                          const struct hf_request *request, char owners[2][OWNER_SIZE])
{
    const struct hf_ticket *ticket = request->ticket;
    switch (request->verb) {
    case HF_ADOPT:
        hf__redis_args_text(
            args, owners[0],
            hf__redis_owner_write(owners[0], me->layout, &request->other));
        hf__redis_args_number(args, (int64_t)request->number);
        hf__redis_args_take(args, me, ticket, request->store[0], owners[1]);
        break;
    case HF_DOWNGRADE:
        hf__redis_args_text(args, owners[0],
                            hf__redis_owner_write(owners[0], me->layout, &ticket->id));
        hf__redis_args_number(args, hf__redis_ttl_ms(ticket));
        break;
    case HF_CELL_SET:
        hf__redis_args_number(args, (int64_t)request->number);
        hf__redis_args_id(args, &request->id);
        hf__redis_args_number(args, request->data == NULL);
        hf__redis_args_text(args, request->data ? request->data : "",
                            request->data_len);
        break;
    default:
        hf__redis_args_number(args, (int64_t)request->number);
        if (request->verb == HF_EVICT) {
            hf__redis_args_letter(args, me->layout == LAYOUT_SIMPLE ? 's' : 'r');
            hf__redis_args_letter(args,
                                  hf__redis_evict_is_overdue(me, request) ? 'f' : 'n');
        }
        hf__redis_args_id(args, &request->id);
        if (request->verb == HF_EVICT)
            hf__redis_args_text(args, me->details, me->details_len);
    }
}

static int check_name(const struct redis_session *me, const struct hf_request *request,
                      hf_error *why)
{
    int kind = request->ticket ? request->ticket->kind : 0;
    if (request->verb == HF_DIAGNOSE || request->prefix)
        return 0;
    return hf__redis_name_check(me->layout, kind, request->name, request->name_len,
                                why);
}

void hf__redis_ask(void *session, struct hf_request *request)
{
    struct redis_session *me = session;
    const struct verb *verb = &verbs[request->verb];
    struct keys keys;
    struct args args;
    char owners[2][OWNER_SIZE];
    hf_error why;
    if (check_name(me, request, &why) != 0) {
        me->host->ops->answered(me->host, request, why.code, &why);
        return;
    }
    if (request->verb == HF_INSPECT) {
        hf__redis_inspect(me, request);
        return;
    }
    if (request->verb == HF_DIAGNOSE) {
        hf__redis_diagnose(me, request);
        return;
    }
    if (request->verb == HF_ADOPT)
        hf__redis_number_unbind(
            me, request->ticket); /* of an answer that did not reach core */
    if (request->verb == HF_ADOPT && !request->store[0])
        request->store[0] = hf__redis_number_reserve(me);
    if (request->verb == HF_ADOPT && !request->store[0]) {
        me->host->ops->answered(me->host, request, HF_ENOMEM, NULL);
        return;
    }
    hf__redis_keys_fill(
        &keys, verb->keys ? verb->keys : hf__redis_kind_keys(me, request->ticket->kind),
        request->name, request->name_len);
    if (verb->once)
        hf__redis_keys_add_done(&keys, request->name, request->name_len, &request->id);
    if (request->verb == HF_CELL_SET)
        hf__redis_keys_add(&keys, KEY_INFO, request->name, request->name_len);
    hf__redis_args_init(&args);
    add_arguments(&args, me, request, owners);
    hf__redis_conn_eval(me->conn, verb->script, keys.key, keys.count, args.arg,
                        args.count, ask_reply, request, 0);
}
