/* SPDX-License-Identifier: MIT */
/*
 * What the files of the redis store share: the session and its tickets.
 *
 * A ticket that the server may know has a ticket number. The scripts store it and put
 * it into every message about the ticket. ticket->store[]:
 *   [0] the number, counted from 1, 0 for none; from bit 32: requests about the ticket
 *       under way; the highest bit: it is being withdrawn; the next: one bad reply came
 *   [1] struct listener *, NULL for none
 *   [2] a moment before the request that queued it was sent, ns: a pushed grant cannot
 *       be older, however late it is read
 *   [3] the token of the current holder, if the client handed the lock off since the
 *       grant; else 0
 */
#ifndef HF_REDIS_SESSION_H
#define HF_REDIS_SESSION_H

#include "../../base/list.h"
#include "../../base/rand.h"
#include "conn.h"
#include "keys.h"
#include "scripts.h"

enum { LISTENER_BUCKETS = 64, DETAILS_SIZE = 192, INBOX_SIZE = 41 };

struct redis_session {
    struct hf_host *host;
    struct redis_conn *conn;
    enum redis_layout layout;
    bool scripts;         /* false: script=off, MULTI and WATCH instead */
    bool foreign_clients; /* layout=simple: clients of other libraries may wait */

    char inbox[INBOX_SIZE + 1]; /* "holdfast:<32 hex>", our own channel */
    char details[DETAILS_SIZE]; /* host, pid, program: each followed by 0x1f */
    size_t details_len;

    uintptr_t *numbers; /* a ticket, or (next free + 1) << 1 | 1 */
    uint32_t number_count, number_room;
    uint32_t number_free; /* the first free number, counted from 1; 0: none */

    struct hf_list_node listeners[LISTENER_BUCKETS];
    struct hf_list_node batches;   /* renewals under way */
    struct hf_list_node walks;     /* inspections under way */
    struct hf_list_node jobs;      /* of noscript.c; the first one may be running */
    struct hf_list_node evictions; /* the holder's client was asked about */
    struct hf_timer evict_timer;
    bool job_running, jobs_busy;
    struct hf_random random;
};

/* ---- tickets.c ------------------------------------------------------------------- */

void hf__redis_attempt(void *session, struct hf_ticket *ticket);
void hf__redis_withdraw(void *session, struct hf_ticket *ticket);
/* Sends the withdrawal of the ticket; `reply` may be NULL. */
void hf__redis_ticket_withdraw(struct redis_session *me, struct hf_ticket *ticket,
                               conn_reply *reply);

/* When to ask again for a simple lock: a foreign holder releases it without a message.
 * `left`: what is left of its lease, -1 if it has none. */
int64_t hf__redis_poll_ms(struct redis_session *me, int64_t left);

/* The lease to ask for, 1 ms at least. */
int64_t hf__redis_ttl_ms(const struct hf_ticket *ticket);

char hf__redis_kind_letter(const struct redis_session *me, int kind);
const enum key_name *hf__redis_kind_keys(const struct redis_session *me, int kind);

/* The code and sentence of an error reply, or of a missing reply (nodes NULL, `why`).
 * 0 for any other reply. */
int hf__redis_reply_error(const struct resp *nodes, const hf_error *why,
                          hf_error *ret_why);

/* A grant of these numbers, whose lease (ms) counts from `since_ns`. False if no grant
 * can have them: server input is untrusted. */
bool hf__redis_grant_read(struct hf_grant *ret_grant, const struct hf_ticket *ticket,
                          int64_t token, int64_t span, int64_t ttl, int64_t since_ns);

/* The reply to an attempt is invalid; the server may have queued or granted the ticket
 * all the same. The first time the result is uncertain, and core asks again; the second
 * time it is HF_ECORRUPT, and core withdraws the ticket. */
int hf__redis_ticket_bad_reply(struct hf_ticket *ticket, hf_error *why);

/* ---- ticket_numbers.c ------------------------------------------------------------ */

/* The ticket with this number if `owner` is its owner, else NULL. */
struct hf_ticket *hf__redis_number_find(const struct redis_session *me, uint64_t number,
                                        const char *owner, size_t owner_len);
/* Gives the ticket a number if it has none. 0 or HF_ENOMEM. */
int hf__redis_number_assign(struct redis_session *me, struct hf_ticket *ticket);
/* Reserves a number, counted from 1, for a ticket to come; 0: out of memory. */
uint32_t hf__redis_number_reserve(struct redis_session *me);
void hf__redis_number_bind(struct redis_session *me, uint32_t number,
                           struct hf_ticket *ticket);
void hf__redis_number_free(struct redis_session *me, uint32_t number);
void hf__redis_number_unbind(struct redis_session *me, struct hf_ticket *ticket);
/* Before the last answer about the ticket: after it the memory is core's again, so no
 * request under way may keep a pointer to it. */
void hf__redis_ticket_done(struct redis_session *me, struct hf_ticket *ticket);

/* The same before the answer to an attempt, unless the ticket is being withdrawn: then
 * the answer to the withdrawal is the last one. */
void hf__redis_ticket_attempt_done(struct redis_session *me, struct hf_ticket *ticket);

#define ONE_REQUEST (UINT64_C(1) << 32)
#define WITHDRAWING (UINT64_C(1) << 63)
#define BAD_REPLY (UINT64_C(1) << 62)
static inline uint32_t ticket_number(const struct hf_ticket *ticket)
{
    return (uint32_t)ticket->store[0];
}
/* Notifies core about every ticket, so that it attempts again. */
void hf__redis_tickets_notify(struct redis_session *me);
/* Withdraws every ticket; returns how many. */
size_t hf__redis_tickets_withdraw(struct redis_session *me);
void hf__redis_tickets_forget(struct redis_session *me, const void *ticket);

/* ---- listen.c -------------------------------------------------------------------- */

/* What the server pushes, and the subscriptions to Redisson's channels. */
void hf__redis_listen_start(struct redis_session *me);
int hf__redis_listen_to(struct redis_session *me, struct hf_ticket *ticket);
void hf__redis_listen_end(struct redis_session *me, struct hf_ticket *ticket);
void hf__redis_listen_done(struct redis_session *me);
void hf__redis_message(void *session, const char *channel, size_t channel_len,
                       const char *payload, size_t len);
void hf__redis_subscribed(void *session, const char *channel, size_t channel_len);

/* ---- evict.c --------------------------------------------------------------------- */

extern const enum key_name hf__redis_evict_keys[];
void hf__redis_evict_start(struct redis_session *me);
int hf__redis_evict_wait(struct redis_session *me, struct hf_request *request,
                         hf_error *why);
bool hf__redis_evict_is_overdue(const struct redis_session *me,
                                const struct hf_request *request);
void hf__redis_evict_forget(struct redis_session *me, const void *request);
void hf__redis_evict_done(struct redis_session *me);
struct eviction {
    uint64_t token;
    uint64_t first; /* the token that the server knows */
    struct hf_id id;
    const char *details; /* of the client that evicts */
    size_t len;
};
uint64_t hf__redis_evict_token_now(const struct hf_ticket *ticket, uint64_t first);
void hf__redis_evict_asked(struct redis_session *me, struct hf_ticket *ticket,
                           const struct eviction *eviction);
/* Reports who evicted the hold; `details` as the evicting client wrote them. */
void hf__redis_evict_reason(struct redis_session *me, struct hf_ticket *ticket,
                            const char *details, size_t len);
bool hf__redis_pass(void *session, struct hf_ticket *ticket, uint64_t token);

/* ---- renew.c, requests.c, inspect.c, diagnose.c ---------------------------------- */

void hf__redis_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                     enum hf_renew_mode mode);
void hf__redis_renew_forget(struct redis_session *me, const void *ticket);
void hf__redis_renew_done(struct redis_session *me);

void hf__redis_ask(void *session, struct hf_request *request);

void hf__redis_inspect(struct redis_session *me, struct hf_request *request);
void hf__redis_inspect_forget(struct redis_session *me, const void *request);
void hf__redis_inspect_done(struct redis_session *me);

void hf__redis_diagnose(struct redis_session *me, struct hf_request *request);

/* ---- Arguments of scripts -------------------------------------------------------- */

/* Arguments of one script; numbers are written into `text`. */
struct args {
    size_t count;
    struct resp_arg arg[16];
    char *at;
    char text[512];
};

void hf__redis_args_init(struct args *args);
void hf__redis_args_text(struct args *args, const char *text, size_t len);
void hf__redis_args_number(struct args *args, int64_t number);
void hf__redis_args_letter(struct args *args, char letter);
void hf__redis_args_id(struct args *args, const struct hf_id *id);
/* The arguments of the take scripts, for the ticket with this number. */
void hf__redis_args_take(struct args *args, const struct redis_session *me,
                         const struct hf_ticket *ticket, uint64_t number,
                         char owner[OWNER_SIZE]);

#endif
