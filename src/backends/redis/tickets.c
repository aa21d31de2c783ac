/* SPDX-License-Identifier: MIT */
/*
 * Tickets: attempt and withdraw.
 *
 * One script for each, for every kind; the scripts do the queueing. Under the client's
 * lock. The answer to an attempt is the script's reply, or later a message to our inbox
 * (listen.c). The lease of a grant counts from before its request was sent.
 */
#include "noscript.h"
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <string.h>

/* A waiter behind a Redisson client that could not subscribe, for want of memory, asks
 * again after so long. */
#define LOOK_OFTEN_MS 100

/* Waiters behind the same lease must not all ask at the same moment. */
#define STAGGER_MS 2

/* Polling where no message comes, at intervals that are random for each waiter. */
#define POLL_MIN_MS 20
#define POLL_SPREAD_MS 60

/* The longest lease that can be asked for: ten years. */
#define LEASE_MAX_MS INT64_C(315360000000)

/* The scripts count with doubles. */
#define TOKEN_MAX (INT64_C(1) << 53)

enum attempt_answer { ATTEMPT_GRANTED = 1, ATTEMPT_QUEUED = 2, ATTEMPT_BUSY = 3 };

/* ---- What differs between kinds -------------------------------------------------- */

static const enum key_name mutex_keys[] = { KEY_NAME,    KEY_TOKEN, KEY_INFO,
                                            KEY_QUEUE,   KEY_FAIR,  KEY_PATIENCE,
                                            KEY_CHANNEL, KEY_END };
static const enum key_name simple_keys[] = { KEY_NAME, KEY_TOKEN, KEY_INFO, KEY_QUEUE,
                                             KEY_END };
static const enum key_name rw_keys[] = { KEY_NAME,  KEY_TOKEN, KEY_INFO,
                                         KEY_QUEUE, KEY_RW,    KEY_END };
static const enum key_name permits_keys[] = { KEY_NAME,  KEY_TOKEN, KEY_INFO,
                                              KEY_QUEUE, KEY_SC,    KEY_PERMITS,
                                              KEY_END };
static const enum key_name expiring_keys[] = { KEY_NAME,  KEY_TOKEN, KEY_INFO,
                                               KEY_QUEUE, KEY_SC,    KEY_TIMEOUT,
                                               KEY_END };
static const enum key_name latch_keys[] = { KEY_NAME, KEY_INFO,   KEY_QUEUE,
                                            KEY_GATE, KEY_OPENED, KEY_END };

struct kind {
    char letter;
    const enum key_name *keys;
    const struct script *take, *withdraw;
};

static const struct kind kinds[] = {
    [HF_MUTEX] = { 'm', mutex_keys, &hf__redis_script_take_mutex,
                   &hf__redis_script_withdraw_mutex },
    [HF_REENTRANT] = { 'm', mutex_keys, &hf__redis_script_take_mutex,
                       &hf__redis_script_withdraw_mutex },
    [HF_FAIR] = { 'f', mutex_keys, &hf__redis_script_take_mutex,
                  &hf__redis_script_withdraw_mutex },
    [HF_READ] = { 'r', rw_keys, &hf__redis_script_take_rw,
                  &hf__redis_script_withdraw_rw },
    [HF_WRITE] = { 'w', rw_keys, &hf__redis_script_take_rw,
                   &hf__redis_script_withdraw_rw },
    [HF_PERMITS] = { 'p', permits_keys, &hf__redis_script_take_permits,
                     &hf__redis_script_withdraw_permits },
    [HF_EXPIRING] = { 'e', expiring_keys, &hf__redis_script_take_permits,
                      &hf__redis_script_withdraw_permits },
    [HF_LATCH] = { 'l', latch_keys, &hf__redis_script_latch_wait,
                   &hf__redis_script_latch_withdraw },
};

static const struct kind simple = { 's', simple_keys, &hf__redis_script_simple_take,
                                    &hf__redis_script_simple_withdraw };

static const struct kind *kind_of(const struct redis_session *me, int kind)
{
    return me->layout == LAYOUT_SIMPLE ? &simple : &kinds[kind];
}

char hf__redis_kind_letter(const struct redis_session *me, int kind)
{
    return kind_of(me, kind)->letter;
}

const enum key_name *hf__redis_kind_keys(const struct redis_session *me, int kind)
{
    return kind_of(me, kind)->keys;
}

/* ---- Arguments ------------------------------------------------------------------- */

void hf__redis_args_init(struct args *args)
{
    args->count = 0;
    args->at = args->text;
}

void hf__redis_args_text(struct args *args, const char *text, size_t len)
{
    args->arg[args->count++] = (struct resp_arg){ text, len };
}

void hf__redis_args_number(struct args *args, int64_t number)
{
    char digits[20], *end = digits + sizeof(digits), *first = end;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        *--first = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        *--first = '-';
    memcpy(args->at, first, (size_t)(end - first));
    hf__redis_args_text(args, args->at, (size_t)(end - first));
    args->at += end - first;
}

void hf__redis_args_letter(struct args *args, char letter)
{
    *args->at = letter;
    hf__redis_args_text(args, args->at++, 1);
}

int64_t hf__redis_ttl_ms(const struct hf_ticket *ticket)
{
    return ticket->ttl_ns >= HF_NS_PER_MS ? ticket->ttl_ns / HF_NS_PER_MS : 1;
}

/* ---- Errors ---------------------------------------------------------------------- */

/* Beginnings of error replies. HF_EUNREACHABLE: the server executed nothing. */
static const struct {
    const char *word;
    int code;
} errors[] = {
    { "HOLDFAST mismatch", HF_EMISMATCH },
    { "HOLDFAST corrupt", HF_ECORRUPT },
    { "WRONGTYPE", HF_EMISMATCH },
    { "OOM", HF_EFULL },
    { "MISCONF", HF_EFULL },
    { "BUSY", HF_EUNREACHABLE },
    { "LOADING", HF_EUNREACHABLE },
    { "MASTERDOWN", HF_EUNREACHABLE },
    { "TRYAGAIN", HF_EUNREACHABLE },
    { "CLUSTERDOWN", HF_EUNREACHABLE },
    { "MOVED", HF_EUNSUPPORTED },
    { "ASK", HF_EUNSUPPORTED },
};

int hf__redis_reply_error(const struct resp *nodes, const hf_error *why,
                          hf_error *ret_why)
{
    if (!nodes) {
        *ret_why = *why;
        return why->code;
    }
    if (nodes[0].type != RESP_ERROR)
        return 0;
    int code = HF_EREFUSED;
    struct resp error = hf__redis_resp_cause(&nodes[0]);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (hf__redis_resp_begins(&error, errors[i].word))
            code = errors[i].code;
    if (code == HF_EMISMATCH)
        return hf__fail_code(ret_why, code);
    int len = error.len < 160 ? (int)error.len : 160;
    return hf__fail(ret_why, code, "the server says: %.*s", len, error.text);
}

/* ---- Attempt --------------------------------------------------------------------- */

static int64_t number_at(const struct resp *nodes, size_t index)
{
    int64_t number = 0;
    hf__redis_resp_number(hf__redis_resp_at(nodes, 0, index), &number);
    return number;
}

bool hf__redis_grant_read(struct hf_grant *ret_grant, const struct hf_ticket *ticket,
                          int64_t token, int64_t span, int64_t ttl, int64_t since_ns)
{
    if (token <= 0 || token > TOKEN_MAX || span <= 0 || ttl <= 0 || ttl > LEASE_MAX_MS)
        return false;
    *ret_grant = (struct hf_grant){
        .token = (uint64_t)token,
        .span = span < ticket->reserve ? (uint32_t)span : ticket->reserve,
        .ttl_ns = ttl * HF_NS_PER_MS,
        .since_ns = since_ns,
    };
    return true;
}

static bool attempt_granted(struct redis_session *me, struct hf_ticket *ticket,
                            const struct resp *nodes, int64_t sent_ns)
{
    struct hf_grant grant = { .token = 1, .span = 1 }; /* of an open latch */
    if (ticket->kind != HF_LATCH &&
        !hf__redis_grant_read(&grant, ticket, number_at(nodes, 1), number_at(nodes, 2),
                              number_at(nodes, 3), sent_ns))
        return false;
    hf__redis_listen_end(me, ticket);
    if (ticket->kind == HF_LATCH)
        hf__redis_ticket_attempt_done(me, ticket);
    me->host->ops->granted(me->host, ticket, &grant);
    return true;
}

int64_t hf__redis_poll_ms(struct redis_session *me, int64_t left)
{
    uint16_t random = 0;
    hf__random(&me->random, &random, sizeof(random));
    int64_t poll = POLL_MIN_MS + random % POLL_SPREAD_MS;
    return left >= 0 && left < poll ? left + 1 : poll;
}

/* What is left of `left` ms since the request was sent: the reply may be read late. */
static int64_t left_now(struct redis_session *me, int64_t left, int64_t sent_ns)
{
    int64_t rest = sent_ns + left * HF_NS_PER_MS - me->host->ops->now(me->host);
    return rest > HF_NS_PER_MS ? rest : HF_NS_PER_MS;
}

/* When to ask again behind a foreign holder. A waiter for a latch gets a message when
 * it opens, and of the waiters for a fair lock only the first could be granted it. */
static int64_t look_ms(struct redis_session *me, const struct hf_ticket *ticket,
                       int64_t left, int64_t place, int64_t foreign)
{
    if (me->layout == LAYOUT_SIMPLE)
        return foreign > 1 && foreign < left ? foreign : hf__redis_poll_ms(me, left);
    if (ticket->kind == HF_LATCH || (ticket->kind == HF_FAIR && place > 0))
        return left;
    return left < SCRIPT_ASK_FOREIGN_MS ? left : SCRIPT_ASK_FOREIGN_MS;
}

static void attempt_queued(struct redis_session *me, struct hf_ticket *ticket,
                           const struct resp *nodes, int64_t sent_ns)
{
    int64_t left = number_at(nodes, 1), place = number_at(nodes, 2);
    int64_t foreign = number_at(nodes, 3);
    ticket->store[2] = (uint64_t)sent_ns;
    if (left < 0 || left > SCRIPT_ASK_MS)
        left = SCRIPT_ASK_MS;
    /* The first waiter asks first when the lease may have ended, the others later. */
    if (place < 0 || place > 1000)
        place = 1000;
    left += 1 + place * STAGGER_MS;
    if (foreign)
        left = look_ms(me, ticket, left, place, foreign);
    if (!foreign)
        hf__redis_listen_end(me, ticket);
    me->host->ops->queued(me->host, ticket, left_now(me, left, sent_ns));
    /* After `queued`: an existing subscription is reported inside this function. */
    if (foreign && me->layout == LAYOUT_REDISSON &&
        hf__redis_listen_to(me, ticket) != 0)
        me->host->ops->queued(me->host, ticket, LOOK_OFTEN_MS * HF_NS_PER_MS);
}

int hf__redis_ticket_bad_reply(struct hf_ticket *ticket, hf_error *why)
{
    int code = ticket->store[0] & BAD_REPLY ? HF_ECORRUPT : HF_EUNCERTAIN;
    ticket->store[0] |= BAD_REPLY;
    return hf__fail(why, code, "the server sent an invalid reply");
}

static void attempt_reply(void *session, void *subject, uint64_t word,
                          const struct resp *nodes, int64_t sent_ns,
                          const hf_error *no_reply)
{
    (void)word;
    struct redis_session *me = session;
    struct hf_ticket *ticket = subject;
    hf_error why;
    ticket->store[0] -= ONE_REQUEST;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    int64_t answer = rc == 0 && nodes[0].type == RESP_ARRAY ? number_at(nodes, 0) : 0;
    if (rc == 0 && answer == ATTEMPT_GRANTED &&
        attempt_granted(me, ticket, nodes, sent_ns)) {
        return;
    } else if (rc == 0 && answer == ATTEMPT_QUEUED) {
        attempt_queued(me, ticket, nodes, sent_ns);
    } else if (rc == 0 && answer == ATTEMPT_BUSY) {
        hf__redis_ticket_attempt_done(me, ticket);
        me->host->ops->busy(me->host, ticket);
    } else {
        if (rc == 0 && answer != ATTEMPT_GRANTED)
            hf__redis_conn_distrust(me->conn); /* the reply to another request */
        if (rc == 0)
            rc = hf__redis_ticket_bad_reply(ticket, &why);
        if (rc != HF_EUNREACHABLE && rc != HF_EUNCERTAIN)
            hf__redis_ticket_attempt_done(me, ticket);
        me->host->ops->failed(me->host, ticket, &why);
    }
}

static void add_flags(struct args *args, const struct hf_ticket *ticket)
{
    char *from = args->at;
    if (ticket->flags & HF_TICKET_TRY)
        *args->at++ = 't';
    if (ticket->flags & HF_TICKET_YIELD)
        *args->at++ = 'y';
    hf__redis_args_text(args, from, (size_t)(args->at - from));
}

static void add_details(struct args *args, const struct redis_session *me,
                        const struct hf_ticket *ticket)
{
    char *from = args->at;
    size_t note = strnlen(ticket->note, HF_NOTE_MAX);
    *args->at++ = (char)('0' + ticket->kind);
    *args->at++ = '\x1f';
    memcpy(args->at, me->details, me->details_len);
    memcpy(args->at + me->details_len, ticket->note, note);
    args->at += me->details_len + note;
    hf__redis_args_text(args, from, (size_t)(args->at - from));
}

void hf__redis_args_take(struct args *args, const struct redis_session *me,
                         const struct hf_ticket *ticket, uint64_t number,
                         char owner[OWNER_SIZE])
{
    hf__redis_args_text(args, owner,
                        hf__redis_owner_write(owner, me->layout, &ticket->id));
    hf__redis_args_number(args, hf__redis_ttl_ms(ticket));
    hf__redis_args_number(args, ticket->reserve);
    hf__redis_args_text(args, me->inbox, INBOX_SIZE);
    hf__redis_args_number(args, (int64_t)number - 1);
    add_details(args, me, ticket);
    add_flags(args, ticket);
    hf__redis_args_letter(args, kind_of(me, ticket->kind)->letter);
    hf__redis_args_number(args, ticket->permits);
    hf__redis_args_number(args, ticket->limit);
}

void hf__redis_attempt(void *session, struct hf_ticket *ticket)
{
    struct redis_session *me = session;
    const struct kind *kind = kind_of(me, ticket->kind);
    struct keys keys;
    struct args args;
    char owner[OWNER_SIZE];
    hf_error why;
    if (hf__redis_name_check(me->layout, ticket->kind, ticket->name, ticket->name_len,
                             &why)) {
        me->host->ops->failed(me->host, ticket, &why);
        return;
    }
    if (!me->scripts) {
        hf__redis_noscript_attempt(me, ticket);
        return;
    }
    if (hf__redis_number_assign(me, ticket) != 0) {
        hf__fail_code(&why, HF_ENOMEM);
        me->host->ops->failed(me->host, ticket, &why);
        return;
    }
    hf__redis_keys_fill(&keys, kind->keys, ticket->name, ticket->name_len);
    hf__redis_args_init(&args);
    hf__redis_args_take(&args, me, ticket, ticket_number(ticket), owner);
    ticket->store[0] += ONE_REQUEST;
    hf__redis_conn_eval_undoable(me->conn, kind->take, keys.key, keys.count, args.arg,
                                 args.count, attempt_reply, ticket, 0);
}

/* ---- Withdraw -------------------------------------------------------------------- */

static void withdraw_reply(void *session, void *subject, uint64_t word,
                           const struct resp *nodes, int64_t sent_ns,
                           const hf_error *no_reply)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct hf_ticket *ticket = subject;
    hf_error why;
    int64_t number;
    ticket->store[0] -= ONE_REQUEST;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    enum hf_withdrawal answer =
        rc == HF_EUNREACHABLE ? HF_WITHDRAWAL_UNSENT : HF_WITHDRAWAL_UNKNOWN;
    if (rc == 0 && hf__redis_resp_number(&nodes[0], &number))
        answer = number ? HF_WITHDRAWN : HF_GONE;
    else if (rc == HF_EMISMATCH)
        answer = HF_GONE; /* the name has another type now */
    else if (rc == 0)
        hf__redis_conn_distrust(me->conn);
    if (answer == HF_WITHDRAWN || answer == HF_GONE)
        hf__redis_ticket_done(me, ticket);
    me->host->ops->withdrawn(me->host, ticket, answer);
}

void hf__redis_ticket_withdraw(struct redis_session *me, struct hf_ticket *ticket,
                               conn_reply *reply)
{
    const struct kind *kind = kind_of(me, ticket->kind);
    struct keys keys;
    struct args args;
    char owner[OWNER_SIZE];
    hf__redis_keys_fill(&keys, kind->keys, ticket->name, ticket->name_len);
    hf__redis_args_init(&args);
    hf__redis_args_text(&args, owner,
                        hf__redis_owner_write(owner, me->layout, &ticket->id));
    hf__redis_args_letter(&args, kind->letter);
    hf__redis_args_number(&args, me->foreign_clients);
    ticket->store[0] = (ticket->store[0] + ONE_REQUEST) | WITHDRAWING;
    hf__redis_conn_eval(me->conn, kind->withdraw, keys.key, keys.count, args.arg,
                        args.count, reply, ticket, 0);
}

void hf__redis_withdraw(void *session, struct hf_ticket *ticket)
{
    struct redis_session *me = session;
    if (me->scripts)
        hf__redis_ticket_withdraw(me, ticket, withdraw_reply);
    else
        hf__redis_noscript_withdraw(me, ticket);
}
