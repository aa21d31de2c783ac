/* SPDX-License-Identifier: MIT */
/*
 * What core knows: clients, claims, operations, holds.
 *
 *   client   one session with a store, its loop and its lock. Nearly everything below
 *            happens under client->lock.
 *   claim    core's record of one ticket: asked, queued, held, withdrawing. Several
 *            holds may share it (reentrant), several ops may wait on it (hand-off).
 *   op       one call under way, which ends exactly once.
 *   hold     possession, as the caller has it. Its memory is never given back to the
 *            heap while the process lives, so a stale handle is refused, not followed.
 *
 * An answer of the store only changes the state of a claim or request and marks the
 * claim ready (host.c). hf__run_ready() acts on it after the store has returned, so
 * core never calls a store from inside the store's own answer.
 */
#ifndef HF_CORE_CLIENT_H
#define HF_CORE_CLIENT_H

#include "../base/list.h"
#include "handle.h"
#include "loop.h"

#include <stdatomic.h>

#define HF_DEFAULT_HANDOFF 64
#define HF_DEFAULT_REQUEST_MS 5000
#define HF_DEFAULT_CLOSE_MS 1000
#define HF_DEFAULT_CONFIRM_MS 80
#define HF_CONFIRM_MAX_MS 1000
#define HF_DEFAULT_EXPIRING_MS 30000
#define HF_TTL_MAX_MS INT64_C(315360000000) /* ten years */
#define HF_WANTS_MAX 64
#define HF_RENEW_BATCH 128

enum claim_state {
    CLAIM_NEW = 0, /* the store has not been asked */
    CLAIM_ASKED,   /* attempt sent, no answer yet */
    CLAIM_QUEUED,  /* in the store's queue */
    CLAIM_HELD,    /* without a holder: offered, or granted a moment ago */
    CLAIM_BUSY,    /* tried once, and held by another client or caller */
    CLAIM_FAILED,  /* refused; nothing is queued */
    CLAIM_LOST,    /* was held, and is lost */
    CLAIM_WITHDRAWING,
    CLAIM_WITHDRAWN,
    CLAIM_IDLE, /* without a ticket: kept under its name for the next acquire */
};

/* The owner of a reentrant lock, who may enter it again: a thread, or what the caller
 * named. Numbers of threads never come again in a process. */
struct owner {
    uint64_t number;
    bool thread;
};

static inline bool hf__same_owner(struct owner a, struct owner b)
{
    return a.number == b.number && a.thread == b.thread;
}

struct claim {
    struct hf_ticket ticket; /* first: the store's pointer is ours */
    struct hf_client *client;
    struct claim *name_next;     /* chain of the client's table by name */
    struct hf_list_node all;     /* client->claims, or client->idle */
    struct hf_list_node ready;   /* client->ready */
    struct hf_list_node renewal; /* client->renewals, sorted by renew_at */
    struct hf_list_node ops;   /* acquires that wait on it; the first is next in line */
    struct hf_list_node parts; /* holds that have it */
    struct hf_list_node
        checks;                /* verify and extend ops that wait for the next answer */
    struct hf_op *withdraw_op; /* told when it is withdrawn */
    struct hf_timer timer;     /* repeat of a request, or the end of the lease */
    uint64_t token;
    struct owner owner;   /* of its holders */
    uint32_t tokens_left; /* numbers above `token` that are ours as well */
    uint32_t handoffs;    /* since the store granted it */
    uint32_t holders;
    uint32_t repeats;
    uint32_t requests;   /* under way about its ticket (HF_DOWNGRADE) */
    int64_t lease_since; /* before the request left that gave the lease */
    int64_t sent_at;     /* before the last attempt that was not answered at once */
    int64_t valid_until; /* HF_NEVER: no lease */
    int64_t renew_at;
    int64_t renew_sent; /* before the renewal under way left */
    int64_t max_hold_ns;
    int64_t end_at;   /* the lease never goes beyond; HF_NEVER without max_hold_ns */
    int64_t ttl_ns;   /* the lease to ask for; 0: none */
    int64_t piece_ns; /* what the store promises of it at a time: when to renew */
    uint8_t state;
    uint8_t want_index;   /* in the caller's order */
    uint8_t withdrawal;   /* enum hf_withdrawal, when CLAIM_WITHDRAWN */
    bool combine : 1;     /* other callers of this client may wait on it */
    bool named : 1;       /* in the table by name */
    bool reentrant : 1;   /* its owner may enter it again */
    bool renew : 1;       /* the lease is renewed */
    bool fixed : 1;       /* the caller wants it not to be (HF_FIXED) */
    bool fixed_end : 1;   /* max_hold_ns stands for a fixed lease: extending moves it */
    bool pinned : 1;      /* its id was given out: no hand-off */
    bool left_behind : 1; /* a detached hold was left: it stays in the store */
    bool unreachable : 1; /* the store's last word was that it cannot be reached */
    bool noticed : 1;     /* attempt again, whatever the last attempt says */
    bool sent : 1; /* the last attempt or withdrawal may have reached the store */
    bool sent_before : 1; /* an earlier one of the same sort may have */
    bool doubt_notified : 1;
    bool interested : 1; /* the store tells at once when it is lost */
    bool
        direct_next : 1; /* a woken waiter lost the race; the next release goes to it */
    char *lost_why;      /* what is known of its loss; NULL: nothing */

    char name[28]; /* the name, if it fits; else ticket.name is a copy */
};

struct hold_part {
    struct hf_list_node link; /* claim->parts */
    struct claim *claim;      /* NULL: released, or its client is closed */
    struct hf_hold *hold;
    _Atomic uint64_t token; /* of a single want: read without a lock */
};

struct hold_watch {
    struct hf_list_node link; /* client->alerts */
    struct hf_hold *hold;
    hf_watch_cb *callback;
    void *user;
    uint32_t pending;   /* bits 1 << enum hf_event */
    bool lost_notified; /* the last event */
};

struct hf_hold {
    struct handle handle;               /* first */
    _Atomic(struct hf_client *) client; /* a stale handle may lead here: see peek */
    uint64_t client_tag; /* the client's generation, to know it is still the same */
    _Atomic int64_t valid_until;
    _Atomic int64_t doubt_at;
    atomic_bool lost;
    bool detached;
    bool handed_out; /* a caller has its handle */
    bool revoked;    /* before a watch was set */
    _Atomic uint32_t count;
    struct hold_part *parts; /* `one`, or an array that goes with the hold */
    struct hold_part one;
    struct hold_watch *watch;
    int64_t end_at;
};

/* In hold->valid_until: a caller was told that the lease is over, and no renewal that
 * comes in later changes that. */
#define HF_LAPSED INT64_MIN

enum op_kind { OP_ACQUIRE = 1, OP_LATCH, OP_RELEASE, OP_REQUEST, OP_CHECK };

struct hf_op {
    struct hf_client *client;
    uint64_t client_tag;
    struct hf_list_node link; /* claim->ops, claim->checks or client->calls */
    struct hf_list_node all;  /* client->ops: not finished */
    struct hf_timer timer;
    int64_t deadline;
    int64_t timeout_ms; /* as the caller gave it; 0: tries once */
    uint8_t kind;
    bool heap : 1;    /* made by an asynchronous call */
    bool undoing : 1; /* rolling back; `rc` is decided */
    bool finished : 1;
    bool delivered : 1;                /* the caller has its result */
    bool abandoned : 1;                /* hf_op_free came first */
    bool asleep : 1;                   /* a thread waits for it */
    bool driving : 1;                  /* that thread drives the loop */
    bool extend : 1;                   /* OP_CHECK: a new lease, not just a look */
    bool reserved : 1;                 /* room for its timer is set aside */
    bool woken : 1;                    /* to take an offered claim */
    bool calling : 1;                  /* its callback is running */
    bool outcome_open : 1, resend : 1; /* OP_REQUEST; OP_CHECK: it was not answered */
    int rc;
    uint32_t pending; /* claims that are not withdrawn yet */
    uint32_t count, at;
    uint64_t reentrant;    /* bit i: claims[i] is */
    uint64_t counted;      /* bit i: claims[i] is held, and its holders count this op */
    int64_t asked_ns;      /* OP_CHECK */
    struct claim **claims; /* in the order of names; &one for a single want */
    struct claim *one;
    uint32_t tries;
    struct hf_hold *hold; /* set aside before, the result after */
    struct owner owner;
    int64_t ttl_ns;

    union {
        hf_acquire_cb *acquired;
        hf_done_cb *done;
    } callback;
    void *user;
    pthread_cond_t *wake;
    uint8_t order[HF_WANTS_MAX]; /* claims[i] is the caller's want order[i] */
    hf_error why;
};

struct hf_client {
    struct handle handle; /* first */
    pthread_mutex_t lock; /* made once, and kept when the object is used again ... */
    bool lock_made;
    uint64_t fork_mark; /* ... as this is, within one process */
    const struct hf_backend *store;
    void *session;
    struct hf_host host;
    uint64_t caps;
    bool closing;
    bool user_driver;
    uint32_t handoff; /* 0: off */
    int64_t request_ns;
    int64_t close_ns;
    int64_t confirm_ns; /* 0: by how quickly the store answers */
    int64_t answer_ns;  /* what the latest answer that was waited for has taken */
    int64_t ttl_ns;     /* default lease; 0: none */
    char program[48];

    struct hf_loop loop;
    struct claim **names; /* table by name, `names_size` chains */
    uint32_t names_size, names_count;
    struct hf_list_node claims;   /* all of them */
    struct hf_list_node ready;    /* claims that heard something */
    struct hf_list_node renewals; /* held and renewed, earliest first */
    struct hf_timer renew_timer;
    struct hf_list_node ops;  /* that wait */
    struct hf_list_node idle; /* claims in CLAIM_IDLE, the latest first */
    uint32_t idle_count;
    struct hf_list_node calls;  /* ops whose end is to be told */
    struct hf_list_node alerts; /* watches with something to tell */
    struct handle *free_holds;
    uint32_t free_holds_count;

    struct hf_id next_id; /* of a ticket or request: hf__next_id() */

    /* Who drives the loop (driver.c). */
    bool driven;
    struct hf_list_node sleepers; /* threads that wait while another one drives */
    uint32_t inside;              /* threads that wait in this client, or dispatch */
    pthread_cond_t emptied;
    bool thread_running, thread_armed;
    pthread_t thread;
    int outer_fd; /* the background thread's epoll: the loop's, and done_fd */
    int done_fd;  /* eventfd: `calls` has something */
};

extern const struct hf_host_ops hf__host_ops;

/* The first id of a client is random, the others count up from it: no two clients have
 * the same, and no id is used twice. */
static inline struct hf_id hf__next_id(hf_client *client)
{
    struct hf_id id = client->next_id;
    client->next_id.word[0]++;
    return id;
}

/* handle of a client -> locked client, or NULL with the code in *ret_rc. */
hf_client *hf__client_lock(const hf_client *handle, int *ret_rc, hf_error *why);
/* Acts on what is ready, then unlocks. */
void hf__client_unlock(hf_client *client);

int hf__client_open(const char *url, const hf_options *options, hf_client **ret_client,
                    hf_error *why);
void hf__client_close(hf_client *handle);

/* claim_table.c */
/* A new claim, in no table. NULL: out of memory. */
struct claim *hf__claim_new(hf_client *client, const char *name, size_t len,
                            uint32_t hash);
/* The claim has neither holder nor ticket any more: it becomes idle, or goes. */
void hf__claim_free(struct claim *claim);
/* An idle claim of that name and kind, as a new one. NULL: there is none. */
struct claim *hf__claim_take_idle(hf_client *client, const char *name, int32_t kind);
void hf__claim_free_idle(hf_client *client);
void hf__claim_name(struct claim *claim);   /* into the table by name */
void hf__claim_unname(struct claim *claim); /* and out of it */
/* Another claim on the same name: one that `owner` holds and may enter again, if the
 * want is `reentrant`, else one to wait on, else NULL. */
struct claim *hf__claim_find(const struct claim *claim, struct owner owner,
                             bool reentrant);
/* `claim` is held by this owner, and may be entered by it once more. */
bool hf__claim_may_reenter(const struct claim *claim, struct owner owner);
/* Held, and any caller of this client may take it. */
bool hf__claim_is_offered(const struct claim *claim);
/* Its lease has the length that an op asked for. */
bool hf__claim_fits(const struct claim *claim, int64_t ttl_ns);
void hf__claim_end_older(const struct claim *claim); /* just granted */

/* claim.c */
void hf__claim_attempt(struct claim *claim);
void hf__claim_timeout(void *claim);
void hf__claim_timer(struct claim *claim, int64_t at_ns);
void hf__claim_mark_ready(struct claim *claim); /* put it on client->ready */
void hf__claim_granted(struct claim *claim, const struct hf_grant *grant);
void hf__claim_interest(struct claim *claim);
void hf__claim_withdraw(struct claim *claim, struct hf_op *withdraw_op);
void hf__claim_withdrawn(struct claim *claim);
void hf__claim_release(struct claim *claim, struct hf_op *withdraw_op);
bool hf__claim_hand_off(struct claim *claim);

void hf__claim_give_up(struct claim *claim);
void hf__claim_lost(struct claim *claim, const char *reason); /* NULL: by time */
void hf__claim_end_checks(struct claim *claim, int rc, const char *reason);
void hf__claim_end_requests(struct claim *claim);

/* plan.c */
/* Checks the wants and makes the claims and the hold of an acquire. On failure op->why
 * says why, and nothing is left. */
int hf__plan(struct hf_op *op, const hf_want *wants, size_t count,
             const hf_acquire_options *options);
void hf__plan_free(struct hf_op *op); /* the claims of an op that was not started */

/* acquire.c */
int hf__acquire(hf_client *client, const hf_want *wants, size_t count,
                const hf_acquire_options *options, hf_hold **ret_hold, hf_error *why);
int hf__acquire_async(hf_client *client, const hf_want *wants, size_t count,
                      const hf_acquire_options *options, hf_acquire_cb *callback,
                      void *user, hf_op **ret_op, hf_error *why);
int hf__latch_wait(hf_client *client, const char *name, int64_t timeout_ms,
                   bool background, hf_done_cb *callback, void *user, hf_op **ret_op,
                   hf_error *why);
void hf__acquire_advance(struct hf_op *op);
void hf__acquire_undo(struct hf_op *op, int rc);

/* hold.c */
struct hf_hold *hf__hold_new(hf_client *client, uint32_t count);
void hf__hold_free(struct hf_hold *hold);
void hf__hold_discard(struct hf_hold *hold, uint32_t tag); /* of a closed client */
void hf__hold_take(struct hf_hold *hold, uint32_t index, struct claim *claim);
void hf__hold_refresh(struct hf_hold *hold);
void hf__hold_notify(struct hf_hold *hold, enum hf_event event);
hf_hold *hf__hold_handle(struct hf_hold *hold);
/* handle -> hold with its client locked, or NULL with the code in *ret_rc. */
struct hf_hold *hf__hold_lock(const hf_hold *handle, int *ret_rc, hf_error *why);
struct hf_hold *hf__hold_peek(const hf_hold *handle);
int hf__hold_release(struct hf_hold *hold, hf_error *why);
int hf__hold_release_async(struct hf_hold *hold, hf_done_cb *callback, void *user,
                           hf_error *why);
void hf__hold_drop(struct hf_hold *hold); /* without the claims, which it has not */
int hf__hold_watch(struct hf_hold *hold, hf_watch_cb *callback, void *user,
                   hf_error *why);
uint64_t hf__hold_token(const hf_hold *handle, size_t index);
size_t hf__hold_count(const hf_hold *handle);
enum hf_state hf__hold_state(struct hf_hold *hold, int64_t *ret_left_ms);
int hf__hold_leave(struct hf_hold *hold, hf_error *why);
/* HF_ELOST, with what is known of the loss. */
int hf__hold_fail_lost(const struct hf_hold *hold, hf_error *why);

/* renew.c */
void hf__renew_schedule(struct claim *claim);
void hf__renew_stop(struct claim *claim);
void hf__renew_due(void *client);
void hf__renew_timeout(struct claim *claim);
void hf__check_timeout(struct hf_op *op);
void hf__renew_answer(struct claim *claim, enum hf_renewal answer,
                      const struct hf_lease *given);
int hf__hold_check(struct hf_hold *hold, int64_t ttl_ns, bool extend, hf_error *why);
int64_t hf__drift(int64_t ttl_ns);
/* Why the lease of a claim is over, in words. */
void hf__lease_end_words(const struct claim *claim, char *text, size_t size);
/* A lease as a store gave it, in bounds: no sum of it overflows, it has not begun later
 * than now, and it is no longer than the claim asked for. */
struct hf_lease hf__lease_in_bounds(const struct claim *claim, int64_t since_ns,
                                    int64_t ttl_ns);
/* True if the store gave less than was wanted of it. */
bool hf__take_piece(struct claim *claim, int64_t given_ns, int64_t wanted_ns);

/* request.c */
struct request_call {
    struct hf_request request;
    struct hf_op op;
    int64_t until;     /* the caller's deadline; 0: none but the number of tries */
    int64_t answer_ns; /* so long an answer is waited for */
    hf_report *report; /* HF_INSPECT */
    void *cell;        /* HF_CELL_GET */
    size_t cell_len;
    bool no_memory;
};
int hf__request(hf_client *client, struct request_call *call, hf_error *why);
void hf__request_answer(struct hf_op *op, int rc, const hf_error *why);
void hf__request_progress(struct hf_op *op);
void hf__request_timeout(struct hf_op *op);
struct hf_op *hf__request_op(struct hf_request *request);
struct hf_request *hf__op_request(struct hf_op *op); /* NULL: it is another op */
int hf__request_named(hf_client *client, struct request_call *call, int verb,
                      const char *name, uint64_t number, hf_error *why);
int hf__downgrade(struct hf_hold *hold, size_t index, hf_error *why);
int hf__hold_text_id(struct hf_hold *hold, size_t index, char *buffer, size_t size,
                     hf_error *why);
int hf__adopt(hf_client *client, const char *id, const hf_acquire_options *options,
              hf_hold **ret_hold, hf_error *why);

/* op.c */
void hf__op_init(struct hf_op *op, hf_client *client, enum op_kind kind);
struct hf_op *hf__op_new(hf_client *client, enum op_kind kind);
void hf__op_finish(struct hf_op *op, int rc); /* the one way an op ends */
void hf__op_free(struct hf_op *op);
void hf__op_free_claims(struct hf_op *op); /* the array, not the claims */
int hf__op_reserve_timer(struct hf_op *op);
void hf__op_give_up(struct hf_op *op); /* no longer waits for withdrawals */
void hf__op_forget_in_child(
    struct hf_op *op); /* in a forked child, before it is freed */
void hf__op_timer(struct hf_op *op, int64_t at_ns);
void hf__op_wake(struct hf_op *op); /* the thread that sleeps on it */
/* Until when a caller waits to hear that a withdrawal was done. */
int64_t hf__confirm_until(const hf_client *client);

/* driver.c */
int hf__op_await(struct hf_op *op, int64_t until); /* 0 or HF_ETIMEOUT */
bool hf__in_callback(const hf_client *client);
void hf__run_calls(hf_client *client);
void hf__signal_calls(hf_client *client); /* something is on client->calls */
/* Timers and pushed messages are to be seen though no caller waits. */
int hf__need_thread(hf_client *client, hf_error *why);
void hf__stop_thread(hf_client *client);
int hf__dispatch(hf_client *client);
void hf__run_ready(hf_client *client);

/* want.c */
int hf__wants_check(const hf_want *wants, size_t count, hf_error *why);
int hf__want_check(const hf_client *client, const hf_want *want, hf_error *why);
int hf__options_check(const hf_client *client, const hf_acquire_options *given,
                      hf_acquire_options *ret_options, hf_error *why);
int hf__name_check(const char *name, size_t *ret_len, hf_error *why);

#endif
