/* SPDX-License-Identifier: MIT */
/*
 * The seam between holdfast's core and a store. Whoever writes a store needs this
 * header and no other; docs/internals/new-backend.md walks through a small one.
 *
 * THE MODEL
 *
 *   A lock is a queue of tickets, and a hold is an admitted ticket. Core chooses the
 *   128-bit id of a ticket before the first byte is sent, so every request may be
 *   repeated: `attempt` of a ticket that is queued or granted already answers what is
 *   the case, `withdraw` of one that is not there answers HF_GONE, and neither does
 *   anything twice. (An id may come again, for the same name, after its withdrawal was
 *   answered inside the call: nothing can be under way then.) Release, timeout, cancel,
 *   roll-back: all of them are `withdraw`.
 *
 * THREADS
 *
 *   Core calls a session from one thread at a time, under the client's lock; callbacks
 *   of descriptors and timers come the same way. A store has no thread and no lock of
 *   its own and never blocks: it starts the request and returns. Answers go to the host
 *   (below), inside the call or later from a descriptor's or timer's callback. While a
 *   store answers, core never calls back into it.
 *
 * MEMORY
 *
 *   The session (`session_size` zeroed bytes), tickets, requests and names belong to
 *   core. A store may keep the pointer to a ticket from `attempt` until it has answered
 *   `withdrawn` or `failed` for it, and that to a request until it has answered it, or
 *   until core calls `forget`. What a store passes to the host is copied.
 *
 * TIME
 *
 *   Nanoseconds of host->now(), a clock that runs during suspend. Never a wall clock.
 */
#ifndef HOLDFAST_BACKEND_H
#define HOLDFAST_BACKEND_H

#include "../holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HF_BACKEND_ABI 1

struct hf_host;

struct hf_id {
    uint64_t word[2];
};

struct hf_url_option {
    const char *key;
    const char *value;
};

/* A URL taken apart and percent-decoded. Absent parts are "", never NULL. */
struct hf_url {
    const char *scheme;
    const char *user;
    const char *password;
    const char *host;
    const char *path; /* with its leading '/' if there is an authority */
    uint16_t port;    /* 0: not given */
    size_t option_count;
    const struct hf_url_option *options;
};

/* ---- Tickets ------------------------------------------------------------------ */

enum hf_ticket_flag {
    HF_TICKET_TRY = 1 << 0,      /* do not queue: granted now, or busy */
    HF_TICKET_DETACHED = 1 << 1, /* outlives the session; ends with its lease */
    HF_TICKET_YIELD = 1 << 2,    /* whoever waits already comes first */
};

/* A place in the queue of a name. Core fills it in and keeps it; `store` is the store's
 * own, zeroed before the first attempt. So is `hint`, which core may hand on to a later
 * ticket of the same name, kind and session: a short cut, 0 or possibly out of date. */
struct hf_ticket {
    struct hf_id id;
    const char *name;
    uint32_t name_len;
    uint32_t name_hash; /* 32-bit hash of the name, the same in every process */
    int32_t kind;       /* enum hf_kind; HF_LATCH waits for the latch to open */
    uint32_t flags;     /* enum hf_ticket_flag */
    uint32_t permits;
    uint32_t limit;
    uint32_t reserve; /* how many token numbers core would like, >= 1 */
    int64_t ttl_ns;   /* the lease wanted, 0: none (the session's life instead) */
    const char *note; /* "" if there is none */
    uint64_t store[4];
    uint64_t hint;
};

struct hf_grant {
    uint64_t token; /* larger than any number granted before on this name */
    uint32_t span;  /* token .. token + span - 1 are ours; 1 <= span <= reserve */
    int64_t ttl_ns; /* the lease given; 0: none. May be less than was asked (what the
                       store can promise at a time): core then renews it as long as
                       the lease that was asked for lasts */
    int64_t
        since_ns; /* a moment of host->now() not after the lease began; 0: the moment
                         before the last attempt. A pushed grant should say it. */
};

enum hf_withdrawal {
    HF_WITHDRAWN = 1, /* it was there, and is not any more */
    HF_GONE = 2,      /* it was not there: never was, expired, evicted, adopted */
    HF_WITHDRAWAL_UNKNOWN = 3, /* no answer; core repeats the call */
    HF_WITHDRAWAL_UNSENT = 4,  /* the same, and this call cannot have got there */
};

enum hf_renewal {
    HF_RENEWED = 1,         /* ours, and the lease begins anew */
    HF_STILL_HELD = 2,      /* ours; the lease was not touched */
    HF_RENEWAL_LOST = 3,    /* not ours any more */
    HF_RENEWAL_UNKNOWN = 4, /* no answer; not lost until the deadline says so */
};

/* Which renewal is answered, and what it brought. */
struct hf_lease {
    int64_t since_ns; /* a moment of host->now() before its request was sent */
    int64_t ttl_ns;   /* the lease given; may be less than was asked, as in a grant */
};

enum hf_renew_mode {
    HF_RENEW = 1, /* set the lease to the ticket's ttl_ns from now */
    HF_CHECK = 2, /* only say whether it is still held */
};

/* ---- Other requests ------------------------------------------------------------ */

enum hf_verb {
    HF_LATCH_SET = 1,  /* number: count, id: done once. HF_EBUSY if it is counting */
    HF_LATCH_GET = 2,  /* result: what is left, 0 if there is none */
    HF_LATCH_DOWN = 3, /* number: by, id: counted once. result: what is left */
    HF_CELL_GET = 4,   /* host->cell_data(), result: version. HF_ENOENT */
    HF_CELL_SET = 5,   /* number: expected version, data NULL removes, id: done once.
                          result: new version. HF_ESTALE */
    HF_INSPECT = 6,    /* host->entry() for each; `prefix` */
    HF_EVICT = 7,      /* number: the token a hold has now, no other. HF_ENOENT */
    HF_REVOKE = 8,     /* number: token or 0. HF_ENOENT */
    HF_DOWNGRADE = 9,  /* ticket: held, HF_WRITE to HF_READ. HF_ELOST */
    HF_ADOPT = 10,     /* other: id of a held ticket, moved to `ticket` (new id and
                          ttl_ns); number: a token of its span, which is then the
                          hold's only one; grant: as granted. HF_ENOENT */
    HF_DIAGNOSE = 11,  /* host->finding() for each; no name */
};

struct hf_request {
    int32_t verb;
    bool prefix;
    uint32_t name_len;
    uint32_t name_hash;
    const char *name;
    struct hf_id id;
    struct hf_id other;
    uint64_t number;
    const void *data;
    size_t data_len;
    struct hf_ticket *ticket;
    uint64_t result;       /* written by the store */
    struct hf_grant grant; /* written by the store */
    uint64_t store[4];     /* the store's own */
};

/* ---- The host: what core offers a store ----------------------------------------- */

struct hf_fd_watch;
typedef void hf_fd_cb(void *arg, uint32_t events); /* EPOLLIN ... as ready */
typedef void hf_timer_cb(void *arg);

/* A timer the store keeps in its session. Zeroed is idle. */
struct hf_timer {
    int64_t at_ns;
    hf_timer_cb *callback;
    void *arg;
    size_t slot; /* core's own; 0: idle */
};

struct hf_host_ops {
    uint32_t size;

    /* Answers to attempt. `queued`: stands in the queue; the grant will be pushed
     * (`granted`), or `notice` says "attempt again", or, if retry_ns > 0, core attempts
     * again after that time at the latest. `busy` is for HF_TICKET_TRY only. `failed`
     * ends the ticket: this attempt has queued nothing, and if one before it may have,
     * core withdraws. HF_EUNREACHABLE (this attempt cannot have got there) and
     * HF_EUNCERTAIN (it may have) leave it open: core attempts again, withdraws, or
     * forgets a ticket of which no attempt got there. */
    void (*granted)(struct hf_host *, struct hf_ticket *, const struct hf_grant *);
    void (*queued)(struct hf_host *, struct hf_ticket *, int64_t retry_ns);
    void (*notice)(struct hf_host *, struct hf_ticket *);
    void (*busy)(struct hf_host *, struct hf_ticket *);
    void (*failed)(struct hf_host *, struct hf_ticket *, const hf_error *);

    void (*withdrawn)(struct hf_host *, struct hf_ticket *, enum hf_withdrawal);
    /* `lease` NULL inside the call of renew only. An answer that comes later says which
     * call it is an answer to: core may have repeated it since. */
    void (*renewed)(struct hf_host *, struct hf_ticket *, enum hf_renewal,
                    const struct hf_lease *lease);

    /* About a granted ticket, unasked: HF_EVENT_LOST or HF_EVENT_REVOKED. `reason`
     * before HF_EVENT_LOST says what happened ("evicted by db3 pid 8123 holdfast"), if
     * the store knows; it is copied. */
    void (*event)(struct hf_host *, struct hf_ticket *, enum hf_event);
    void (*reason)(struct hf_host *, struct hf_ticket *, const char *text);

    /* Ends a request: rc 0 or a code, with `why` (may be NULL) for the sentence. */
    void (*answered)(struct hf_host *, struct hf_request *, int rc,
                     const hf_error *why);
    void (*entry)(struct hf_host *, struct hf_request *, const hf_entry *);
    void (*cell_data)(struct hf_host *, struct hf_request *, const void *, size_t);
    void (*finding)(struct hf_host *, struct hf_request *, const hf_finding *);
    /* A part of a long answer has come in, whether there was something to tell in it or
     * not: the time that core waits for this request begins anew. */
    void (*progress)(struct hf_host *, struct hf_request *);

    /* The loop. add_fd: 0 or HF_ESYSTEM, HF_ENOMEM; one watch per descriptor; remove it
     * before closing it. set_timer: 0 or HF_ENOMEM; moves a timer that is set, which
     * cannot fail. Stop timers before their memory goes. */
    int (*add_fd)(struct hf_host *, int fd, uint32_t events, hf_fd_cb *, void *arg);
    void (*remove_fd)(struct hf_host *, int fd);
    int (*set_timer)(struct hf_host *, struct hf_timer *, int64_t at_ns);
    void (*stop_timer)(struct hf_host *, struct hf_timer *);
    int64_t (*now)(struct hf_host *);
};

/* Given to open(). `program` names this client to others. `request_ns` is how long core
 * waits for an answer before it asks again or gives up: a store that waits for
 * something of its own should not give up much earlier. `close_by_ns` is set before
 * close(): a moment of now() until which it may wait for the store; at once if it has
 * passed. */
struct hf_host {
    const struct hf_host_ops *ops;
    const char *program;
    int64_t request_ns;
    int64_t close_by_ns;
};

/* ---- The store ------------------------------------------------------------------ */

/*
 * One const table per store. Every function must be there; a store without leases may
 * answer HF_STILL_HELD to every renewal, and one that lacks a capability is never
 * asked for it.
 */
struct hf_backend {
    uint32_t size; /* sizeof(struct hf_backend) */
    uint32_t abi;  /* HF_BACKEND_ABI */
    const char *name;
    const char *const *schemes; /* "file", ..., NULL */
    const char *const *options; /* URL options it knows, NULL at the end */
    size_t session_size;
    int64_t default_ttl_ns; /* 0: holds end with the session, no lease unless asked */

    /* Begins a session; may block for a moment, as close() may, and no other. Sets
     * `ret_caps` (enum hf_capability). After an error close() is called all the same,
     * so it must accept what is half built. */
    int (*open)(void *session, struct hf_host *host, const struct hf_url *url,
                uint64_t *ret_caps, hf_error *why);

    /* Ends it: no answer may come after. Tickets that were not withdrawn go away with
     * the session, detached ones excepted. `forked` true: we are in a forked child;
     * close descriptors, stop timers and free memory, and touch nothing that the parent
     * shares (add_fd and remove_fd do). */
    void (*close)(void *session, bool forked);

    /* Ask for a place and the grant. Answer: granted, queued, busy or failed. */
    void (*attempt)(void *session, struct hf_ticket *ticket);

    /* Leave the queue or give the lock up, whichever it is, and let the next one in.
     * Answer: withdrawn. */
    void (*withdraw)(void *session, struct hf_ticket *ticket);

    /* Answer: renewed, once for each ticket. */
    void (*renew)(void *session, struct hf_ticket *const *tickets, size_t count,
                  enum hf_renew_mode mode);

    /* Core wants to hear about this granted ticket at once (event). No answer. */
    void (*interest)(void *session, struct hf_ticket *ticket);

    /* The hold goes on to another caller of this client, under `token`, a later number
     * of the grant's span: HF_EVICT, HF_REVOKE and HF_INSPECT know it by that one from
     * now on. False: it cannot, and core withdraws the ticket instead. May be NULL in a
     * store without HF_CAP_HANDOFF. */
    bool (*pass)(void *session, struct hf_ticket *ticket, uint64_t token);

    /* Any of enum hf_verb whose capability is there. Answer: answered. */
    void (*ask)(void *session, struct hf_request *request);

    /* Drop every pointer to this ticket or request; no answer to it may come. What was
     * sent cannot be unsent: core withdraws tickets before it forgets them. */
    void (*forget)(void *session, const void *ticket_or_request);
};

/* Makes a store known under its schemes, for this process, before hf_open(). The table
 * must live as long as the process. HF_EINVAL if something is missing in it or a scheme
 * is taken. */
HF_API int hf_backend_register(const struct hf_backend *backend, hf_error *why);

#ifdef __cplusplus
}
#endif
#endif
