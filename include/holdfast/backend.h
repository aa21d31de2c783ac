/* SPDX-License-Identifier: MIT */
/*
 * The interface between holdfast's core and a store. The author of a store needs this
 * header and no other; docs/internals/new-backend.md walks through a small store.
 *
 * THE MODEL
 *
 *   A lock is a queue of tickets, and a hold is an admitted ticket. Core chooses the
 *   128-bit id of a ticket before the store sends the first byte, so core may repeat
 *   every request: `attempt` of a ticket that is queued or granted already answers its
 *   present state, `withdraw` of a ticket that is not there answers HF_GONE, and
 *   neither does anything twice. No id is used for a second ticket. Release, timeout,
 *   cancel and roll-back are all `withdraw`.
 *
 * THREADS
 *
 *   Core calls a session from one thread at a time, under the client's lock; it calls
 *   the callbacks of descriptors and timers in the same way. A store has no thread and
 *   no lock of its own and never blocks: it starts the request and returns. It answers
 *   to the host (below), inside the call or later, from the callback of a descriptor or
 *   timer. While a store answers, core does not call it.
 *
 * MEMORY
 *
 *   Core owns the session (`session_size` zeroed bytes), tickets, requests and names. A
 *   store may keep the pointer to a ticket from `attempt` until it has answered
 *   `withdrawn` or `failed` for it, and the pointer to a request until it has answered
 *   it; both only until core calls `forget`. The host copies what a store passes to it.
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
    HF_TICKET_YIELD = 1 << 2,    /* tickets that wait already come first */
};

/* A place in the queue of a name. Core fills it in and owns it. `store` is for the
 * store alone; core zeroes it before the first attempt. `hint` too is for the store
 * alone, but core may copy it to a later ticket of the same name, kind and session: a
 * short cut, which is 0 or may be out of date. */
struct hf_ticket {
    struct hf_id id;
    const char *name;
    uint32_t name_len;
    uint32_t name_hash; /* 32-bit hash of the name, the same in every process */
    int32_t kind;       /* enum hf_kind; HF_LATCH waits for the latch to open */
    uint32_t flags;     /* enum hf_ticket_flag */
    uint32_t permits;
    uint32_t limit;
    uint32_t reserve; /* how many token numbers core asks for, >= 1 */
    int64_t ttl_ns;   /* the lease wanted, 0: none (the session's life instead) */
    const char *note; /* "" if there is none */
    uint64_t store[4];
    uint64_t hint;
};

struct hf_grant {
    uint64_t token;   /* larger than any number granted before on this name */
    uint32_t span;    /* the ticket gets the numbers token .. token + span - 1;
                         1 <= span <= reserve */
    int64_t ttl_ns;   /* the lease given; 0: none. May be less than core asked for (what
                         the store can promise at a time): core then renews it until the
                         lease that it asked for is over */
    int64_t since_ns; /* a moment of host->now() not after the lease began; 0: the
                         moment before the last attempt. Set it in a pushed grant. */
};

enum hf_withdrawal {
    HF_WITHDRAWN = 1,          /* the ticket was there; the store has removed it */
    HF_GONE = 2,               /* it was not there: never, expired, evicted, adopted */
    HF_WITHDRAWAL_UNKNOWN = 3, /* no answer; core repeats the call */
    HF_WITHDRAWAL_UNSENT = 4,  /* the same; the server cannot have got this request */
};

enum hf_renewal {
    HF_RENEWED = 1,         /* the ticket holds the lock, and its lease begins anew */
    HF_STILL_HELD = 2,      /* it holds the lock; its lease was not changed */
    HF_RENEWAL_LOST = 3,    /* it does not hold the lock any more */
    HF_RENEWAL_UNKNOWN = 4, /* no answer; the hold lasts until its lease is over */
};

/* Which renewal the store answers, and the lease that it gave. */
struct hf_lease {
    int64_t since_ns; /* a moment of host->now() before the store sent the request */
    int64_t ttl_ns;   /* the lease given; as in a grant it may be shorter */
};

enum hf_renew_mode {
    HF_RENEW = 1, /* set the lease to the ticket's ttl_ns from now */
    HF_CHECK = 2, /* only say whether it is still held */
};

/* ---- Other requests ------------------------------------------------------------ */

enum hf_verb {
    HF_LATCH_SET = 1,  /* number: count, id: done once. HF_EBUSY if it is counting */
    HF_LATCH_GET = 2,  /* result: the count left, 0 if there is no latch */
    HF_LATCH_DOWN = 3, /* number: by, id: counted once. result: the count left */
    HF_CELL_GET = 4,   /* host->cell_data(), result: version. HF_ENOENT */
    HF_CELL_SET = 5,   /* number: expected version, data NULL removes, id: done once.
                          result: new version. HF_ESTALE */
    HF_INSPECT = 6,    /* host->entry() for each; `prefix` */
    HF_EVICT = 7,      /* number: exactly the token that a hold has now. HF_ENOENT */
    HF_REVOKE = 8,     /* number: token or 0. HF_ENOENT */
    HF_DOWNGRADE = 9,  /* ticket: held, HF_WRITE to HF_READ. HF_ELOST */
    HF_ADOPT = 10,     /* other: id of a held ticket, moved to `ticket` (new id and
                          ttl_ns); number: a token of its span, which is then the
                          hold's only token; grant: as in `granted`. HF_ENOENT */
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
    uint64_t store[4];     /* for the store alone */
};

/* ---- The host: what core offers a store ----------------------------------------- */

struct hf_fd_watch;
typedef void hf_fd_cb(void *arg, uint32_t events); /* EPOLLIN ... as ready */
typedef void hf_timer_cb(void *arg);

/* A timer that a store has in its session. A zeroed timer is idle. */
struct hf_timer {
    int64_t at_ns;
    hf_timer_cb *callback;
    void *arg;
    size_t slot; /* for core alone; 0: idle */
};

struct hf_host_ops {
    uint32_t size;

    /* Answers to attempt. `queued`: the ticket is in the queue; the store will push the
     * grant (`granted`), or ask core by `notice` to attempt again, or, if retry_ns > 0,
     * core attempts again after that time at the latest. `busy` is for HF_TICKET_TRY
     * only. `failed` ends the ticket: this attempt has queued nothing; if an earlier
     * one may have, core withdraws the ticket. Two codes of `failed` leave the ticket
     * open: HF_EUNREACHABLE (this attempt cannot have reached the server) and
     * HF_EUNCERTAIN (it may have). After them core attempts again, withdraws the
     * ticket, or forgets it if none of its attempts can have reached the server. */
    void (*granted)(struct hf_host *, struct hf_ticket *, const struct hf_grant *);
    void (*queued)(struct hf_host *, struct hf_ticket *, int64_t retry_ns);
    void (*notice)(struct hf_host *, struct hf_ticket *);
    void (*busy)(struct hf_host *, struct hf_ticket *);
    void (*failed)(struct hf_host *, struct hf_ticket *, const hf_error *);

    void (*withdrawn)(struct hf_host *, struct hf_ticket *, enum hf_withdrawal);
    /* `lease` may be NULL inside the call of renew only. A later answer says by `lease`
     * which call it answers: core may have repeated the call since. */
    void (*renewed)(struct hf_host *, struct hf_ticket *, enum hf_renewal,
                    const struct hf_lease *lease);

    /* Something happened to a granted ticket: HF_EVENT_LOST or HF_EVENT_REVOKED; no
     * answer to a call of core's. A store that knows what happened calls `reason`
     * before HF_EVENT_LOST ("evicted by db3 pid 8123 holdfast"); core copies the text.
     * */
    void (*event)(struct hf_host *, struct hf_ticket *, enum hf_event);
    void (*reason)(struct hf_host *, struct hf_ticket *, const char *text);

    /* Ends a request: rc is 0 or a code; `why` has the sentence, and may be NULL. */
    void (*answered)(struct hf_host *, struct hf_request *, int rc,
                     const hf_error *why);
    void (*entry)(struct hf_host *, struct hf_request *, const hf_entry *);
    void (*cell_data)(struct hf_host *, struct hf_request *, const void *, size_t);
    void (*finding)(struct hf_host *, struct hf_request *, const hf_finding *);
    /* A part of a long answer has arrived, with or without an entry in it: core begins
     * anew to count the time that it waits for this request. */
    void (*progress)(struct hf_host *, struct hf_request *);

    /* The loop. add_fd returns 0, HF_ESYSTEM or HF_ENOMEM; one watch per descriptor;
     * remove the watch before you close the descriptor. set_timer returns 0 or
     * HF_ENOMEM; it also moves a timer that is set, which cannot fail. Stop a timer
     * before you free its memory. */
    int (*add_fd)(struct hf_host *, int fd, uint32_t events, hf_fd_cb *, void *arg);
    void (*remove_fd)(struct hf_host *, int fd);
    int (*set_timer)(struct hf_host *, struct hf_timer *, int64_t at_ns);
    void (*stop_timer)(struct hf_host *, struct hf_timer *);
    int64_t (*now)(struct hf_host *);
};

/* Core passes this to open(). `program` names this client to other clients.
 * `request_ns` is how long core waits for an answer before it asks again or gives up; a
 * store that waits for something itself should not give up much earlier. Core sets
 * `close_by_ns` before close(): until that moment of now() close() may wait for the
 * server; if it has passed, close() must not wait. */
struct hf_host {
    const struct hf_host_ops *ops;
    const char *program;
    int64_t request_ns;
    int64_t close_by_ns;
};

/* ---- The store ------------------------------------------------------------------ */

/*
 * One const table per store. Every function must be there, except `pass` (below). A
 * store without leases may answer HF_STILL_HELD to every renewal. Core never asks a
 * store for a capability that it lacks.
 */
struct hf_backend {
    uint32_t size; /* sizeof(struct hf_backend) */
    uint32_t abi;  /* HF_BACKEND_ABI */
    const char *name;
    const char *const *schemes; /* "file", ..., NULL */
    const char *const *options; /* URL options it knows, NULL at the end */
    size_t session_size;
    int64_t default_ttl_ns; /* 0: holds end with the session, no lease unless asked */

    /* Begins a session. Sets `ret_caps` (enum hf_capability). Only open() and close()
     * may block for a moment. Core calls close() also after an error of open(), so
     * close() must accept a session that is half built. */
    int (*open)(void *session, struct hf_host *host, const struct hf_url *url,
                uint64_t *ret_caps, hf_error *why);

    /* Ends the session; the store must not answer after it. Tickets that core has not
     * withdrawn end with the session, except detached ones. `forked` true: this is a
     * forked child; close descriptors, stop timers and free memory, and touch nothing
     * that is shared with the parent (so neither add_fd nor remove_fd). */
    void (*close)(void *session, bool forked);

    /* Ask for a place in the queue and for the grant. Answer: granted, queued, busy or
     * failed. */
    void (*attempt)(void *session, struct hf_ticket *ticket);

    /* Take the ticket out of the queue, or release its lock, and admit the tickets that
     * can now be admitted. Answer: withdrawn. */
    void (*withdraw)(void *session, struct hf_ticket *ticket);

    /* Answer: renewed, once for each ticket. */
    void (*renew)(void *session, struct hf_ticket *const *tickets, size_t count,
                  enum hf_renew_mode mode);

    /* From now on report an event of this granted ticket at once. No answer. */
    void (*interest)(void *session, struct hf_ticket *ticket);

    /* Core hands the lock off to another caller of this client, under `token`, a later
     * number of the grant's span: from now on that is the ticket's token for HF_EVICT,
     * HF_REVOKE and HF_INSPECT. Returns false if the store cannot do that; core then
     * withdraws the ticket. May be NULL in a store without HF_CAP_HANDOFF. */
    bool (*pass)(void *session, struct hf_ticket *ticket, uint64_t token);

    /* Any request of enum hf_verb whose capability the store has. Answer: answered. */
    void (*ask)(void *session, struct hf_request *request);

    /* Drop every pointer to this ticket or request, and do not answer it any more. A
     * request that was sent may still take effect: core withdraws a ticket before it
     * forgets it. */
    void (*forget)(void *session, const void *ticket_or_request);
};

/* Makes a store known under its schemes, in this process; call it before hf_open(). The
 * table must live as long as the process. HF_EINVAL if something is missing in it, or
 * if another store has one of the schemes. */
HF_API int hf_backend_register(const struct hf_backend *backend, hf_error *why);

#ifdef __cplusplus
}
#endif
#endif
