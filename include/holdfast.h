/* SPDX-License-Identifier: MIT */
/*
 * holdfast: locks across threads, processes and machines.
 *
 * CAVEATS, before anything else
 *
 *   - A lock with a lease is a promise with an end. A process that was stopped for
 *     longer than its lease has lost the lock before it knows. Pass the fencing token
 *     (hf_hold_token) to whatever you guard and let it refuse older tokens; or call
 *     hf_hold_state() right before each side effect.
 *   - Possession is the hf_hold, not the thread. Any thread may release any hold. A
 *     plain mutex taken twice by one thread waits for itself; hf_reentrant() counts.
 *   - hf_release() consumes the hold whatever it answers. HF_ELOST means that the work
 *     may have run beside somebody else's.
 *   - fork(): the child may not use what it inherited. Every call there answers
 *     HF_EFORKED (hf_close just frees memory) and the parent's locks are not touched.
 *   - Callbacks run with no lock of ours held. Inside one, calls that may wait answer
 *     HF_ECALLBACK; hf_release() alone is allowed, because it must always work.
 *   - A thread inside a call must not be cancelled (pthread_cancel): what it had begun
 *     would be left half done, and others of the client wait for it.
 *   - Forever has to be spelt out: HF_FOREVER. A timeout of 0 tries once.
 *   - Do not delete files of a file: directory while somebody uses them.
 *
 * CONVENTIONS
 *
 *   Functions that can fail return 0 or a negative HF_E... code and take a last
 *   parameter `why`, which may be NULL. On failure it is filled with a sentence; on
 *   success it is not touched. `ret_` parameters are written on success only. Strings
 *   passed in are copied. Option structs begin with `size`: set it to sizeof the struct
 *   (or use the HF_..._INIT macro); zero in any other field means the default.
 *   All functions may be called from any thread unless they say otherwise.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0

#ifndef HF_API
#define HF_API __attribute__((visibility("default")))
#endif

/* Longest lock name in bytes, longest id that hf_hold_id() writes (with its NUL),
 * largest value of a versioned cell, longest note kept with a ticket (rest is cut). */
#define HF_NAME_MAX 1024
#define HF_ID_MAX 1200
#define HF_CELL_MAX 65536
#define HF_NOTE_MAX 63

/* A timeout that never ends; also what hf_hold_left_ms() says of a hold without
 * lease. */
#define HF_FOREVER INT64_C(-1)

/* ---- Errors ------------------------------------------------------------------ */

/* One table: code, value, sentence. Values never change. */
#define HF_ERRORS(X)                                                                   \
    X(HF_EINVAL, -1, "an argument is not valid")                                       \
    X(HF_ENAME, -2, "the name is empty, too long, or not clean UTF-8")                 \
    X(HF_EURL, -3, "the URL cannot be understood")                                     \
    X(HF_EUNSUPPORTED, -4, "this store cannot do that soundly")                        \
    X(HF_EBUSY, -5, "somebody else holds it")                                          \
    X(HF_ETIMEOUT, -6, "the time to wait is over")                                     \
    X(HF_ECANCELLED, -7, "the operation was cancelled")                                \
    X(HF_ELOST, -8, "the hold was lost before this call")                              \
    X(HF_ENOTYOURS, -9, "somebody else owns that")                                     \
    X(HF_EREFUSED, -10, "the store refused")                                           \
    X(HF_EUNREACHABLE, -11, "the store does not answer")                               \
    X(HF_EUNCERTAIN, -12, "the answer was lost; the outcome is not known")             \
    X(HF_EMISMATCH, -13, "the name is in use as another kind or with another limit")   \
    X(HF_ECLOSED, -14, "the client is closed")                                         \
    X(HF_EFORKED, -15, "a client cannot be used in a forked child")                    \
    X(HF_ECALLBACK, -16, "a call that may wait was made inside a callback")            \
    X(HF_ERELEASED, -17, "the hold was released before")                               \
    X(HF_ENOMEM, -18, "out of memory")                                                 \
    X(HF_EFULL, -19, "no room is left in the store")                                   \
    X(HF_ECORRUPT, -20, "the store's state makes no sense")                            \
    X(HF_ESTALE, -21, "the version has moved on")                                      \
    X(HF_ENOENT, -22, "no such thing")                                                 \
    X(HF_ESYSTEM, -23, "the operating system refused")

enum hf_code {
    HF_OK = 0,
#define HF_ERROR_ENUM(name, value, sentence) name = value,
    HF_ERRORS(HF_ERROR_ENUM)
#undef HF_ERROR_ENUM
};

/* Why a call failed. A value of the caller's; nothing to free. `text` is one line and
 * never holds a secret; `sys` is an errno or 0. */
typedef struct hf_error {
    int code;
    int sys;
    char text[248];
} hf_error;

/* The name of a code ("HF_EBUSY") and its sentence. Static strings, never NULL. */
HF_API const char *hf_error_name(int code);
HF_API const char *hf_error_sentence(int code);

/* ---- Client ------------------------------------------------------------------ */

typedef struct hf_client hf_client;

/* Who runs callbacks, renewals and everything else that happens by itself. */
enum hf_driver {
    HF_DRIVER_THREAD = 0, /* a background thread, started when first needed */
    HF_DRIVER_USER = 1,   /* nobody but hf_dispatch(), from your own loop */
};

#define HF_OFF (-1)

typedef struct hf_options {
    size_t size;
    const char *program;        /* shown to others; default: name of the program */
    int driver;                 /* enum hf_driver */
    int handoff;                /* hand-offs between threads before other processes get
                                   their turn: 0 = default (64), HF_OFF, or a bound */
    int64_t request_timeout_ms; /* one request to the store; default 5000 */
    int64_t ttl_ms;             /* default lease; default: what the store suggests */
    int64_t close_timeout_ms;   /* hf_close() waits no longer for the store; default
                                   1000. What it could not release ends by its lease */
    int64_t confirm_timeout_ms; /* how long after its deadline a call may still wait to
                                   hear that its place in the queue was given up;
                                   default: 80, more only if the store has been slow */
} hf_options;

/* clang-format off */
#define HF_OPTIONS_INIT { sizeof(hf_options), NULL, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/*
 * Connects to a store.
 *
 * `url` NULL means $HOLDFAST_URL, else the per-user directory of this host (file:).
 * In a set-user-ID program the environment is not read. `options` may be NULL.
 * Errors: HF_EURL (syntax, unknown scheme or option, an option twice), HF_EINVAL,
 * HF_EUNSUPPORTED (a store this build lacks), HF_ENOENT (no such directory),
 * HF_EREFUSED, HF_EUNREACHABLE, HF_ECORRUPT, HF_EFULL, HF_ESYSTEM, HF_ENOMEM.
 */
HF_API int hf_open(const char *url, const hf_options *options, hf_client **ret_client,
                   hf_error *why);

/*
 * Releases what is still held (but for detached holds), ends every wait with
 * HF_ECLOSED, runs the callbacks that are due and gives the client up. NULL is fine.
 * A store that does not answer is waited for no longer than options.close_timeout_ms.
 * Later calls with this client or its holds answer HF_ECLOSED; hf_release() and
 * hf_op_free() then just free the handle. Does nothing in a callback of the same
 * client. With HF_DRIVER_USER the remaining callbacks run inside this call.
 */
HF_API void hf_close(hf_client *client);

/* What a store can do. A kind whose bit is missing answers HF_EUNSUPPORTED. */
enum hf_capability {
    HF_CAP_MUTEX = 1 << 0,      /* mutex and reentrant mutex */
    HF_CAP_FAIR = 1 << 1,       /* FIFO mutex */
    HF_CAP_RW = 1 << 2,         /* read and write */
    HF_CAP_DOWNGRADE = 1 << 3,  /* write to read without letting go */
    HF_CAP_PERMITS = 1 << 4,    /* weighted semaphore */
    HF_CAP_EXPIRING = 1 << 5,   /* permits with an id and a lease each */
    HF_CAP_LATCH = 1 << 6,      /* count-down latch */
    HF_CAP_CELL = 1 << 7,       /* versioned cell */
    HF_CAP_LEASE = 1 << 8,      /* ttl_ms is honoured */
    HF_CAP_DETACH = 1 << 9,     /* HF_DETACHED, hf_hold_id, hf_adopt */
    HF_CAP_INSPECT = 1 << 10,   /* hf_inspect */
    HF_CAP_EVICT = 1 << 11,     /* hf_evict */
    HF_CAP_REVOKE = 1 << 12,    /* hf_revoke */
    HF_CAP_PROCESSES = 1 << 13, /* other processes see the same locks */
    HF_CAP_CRASH = 1 << 14,     /* a killed holder's locks are free at once */
    HF_CAP_DURABLE = 1 << 15,   /* tokens keep growing over a restart of the store */
    HF_CAP_HANDOFF = 1 << 16,   /* grants carry room for in-process hand-offs */
    HF_CAP_DIAGNOSE = 1 << 17,  /* hf_diagnose knows this store's traps */
};

/* Bits of enum hf_capability, 0 for a client that is closed. */
HF_API uint64_t hf_capabilities(const hf_client *client);

/* "0.1.0"; and the stores of this build, "file mem", in a static string. */
HF_API const char *hf_version(void);
HF_API const char *hf_stores(void);

/* ---- Wants ------------------------------------------------------------------- */

enum hf_kind {
    HF_MUTEX = 1,
    HF_REENTRANT = 2, /* counts per owner: the thread, or options.owner */
    HF_FAIR = 3,      /* strictly first come, first served */
    HF_READ = 4,
    HF_WRITE = 5,
    HF_PERMITS = 6,  /* `permits` of `limit` */
    HF_EXPIRING = 7, /* one permit of `limit`, with its own id and lease */
    HF_LATCH = 8,    /* seen by hf_inspect only */
    HF_CELL = 9,     /* seen by hf_inspect only */
};

/*
 * What to acquire. A plain value: make it with the functions below.
 *
 * Names are 1 to HF_NAME_MAX bytes of UTF-8 without control characters; case counts.
 * mutex, reentrant and fair may meet on one name and exclude each other; any other mix
 * of kinds on one name, or two limits for one semaphore, answers HF_EMISMATCH.
 */
typedef struct hf_want {
    const char *name;
    const char *stripe_key; /* with stripes > 0: locks one of `stripes` parts of name */
    int32_t kind;
    uint32_t permits;
    uint32_t limit;
    uint32_t stripes;
} hf_want;

static inline hf_want hf_want_of(const char *name, int kind, uint32_t permits,
                                 uint32_t limit)
{
    hf_want want = { name, NULL, kind, permits, limit, 0 };
    return want;
}
static inline hf_want hf_mutex(const char *name)
{
    return hf_want_of(name, HF_MUTEX, 1, 1);
}
static inline hf_want hf_reentrant(const char *name)
{
    return hf_want_of(name, HF_REENTRANT, 1, 1);
}
static inline hf_want hf_fair(const char *name)
{
    return hf_want_of(name, HF_FAIR, 1, 1);
}
static inline hf_want hf_read(const char *name)
{
    return hf_want_of(name, HF_READ, 1, 1);
}
static inline hf_want hf_write(const char *name)
{
    return hf_want_of(name, HF_WRITE, 1, 1);
}
/* `permits` of a semaphore with `limit` in all; 1 <= permits <= limit. */
static inline hf_want hf_permits(const char *name, uint32_t permits, uint32_t limit)
{
    return hf_want_of(name, HF_PERMITS, permits, limit);
}
/* One of `limit` permits, each a lease of its own: ttl_ms, or 30 s if none is given. */
static inline hf_want hf_expiring(const char *name, uint32_t limit)
{
    return hf_want_of(name, HF_EXPIRING, 1, limit);
}
/* A mutex on the part of `name` that `key` falls into; 1 <= stripes <= 65536. */
static inline hf_want hf_striped(const char *name, const char *key, uint32_t stripes)
{
    hf_want want = hf_want_of(name, HF_MUTEX, 1, 1);
    want.stripe_key = key;
    want.stripes = stripes;
    return want;
}

/* ---- Acquire ----------------------------------------------------------------- */

typedef struct hf_hold hf_hold;
typedef struct hf_op hf_op;

enum hf_flag {
    HF_FIXED = 1 << 0,    /* the lease is not renewed: ttl_ms is the end of it */
    HF_DETACHED = 1 << 1, /* outlives this process until the lease ends; needs ttl_ms */
};

typedef struct hf_acquire_options {
    size_t size;
    int64_t timeout_ms;  /* 0 tries once, HF_FOREVER waits, else 1 .. 10 years */
    int64_t ttl_ms;      /* the lease, 1 .. 10 years; 0: the client's default */
    int64_t max_hold_ms; /* the hold is over by then, renewed or not; 0: no cap */
    uint64_t owner;      /* for reentrant: who asks; 0: the calling thread */
    const char *note;    /* shown by hf_inspect; the first HF_NOTE_MAX bytes are kept */
    uint32_t flags;      /* enum hf_flag */
} hf_acquire_options;

/* clang-format off */
#define HF_ACQUIRE_OPTIONS_INIT { sizeof(hf_acquire_options), 0, 0, 0, 0, NULL, 0 }
/* clang-format on */

/*
 * Acquires all of `count` wants, or none of them (1 <= count <= 64).
 *
 * Several wants are taken in a global order, so that two multi-locks cannot deadlock,
 * and handed back in reverse order if one cannot be had. `options` NULL tries once.
 * Errors: HF_EBUSY (tried once), HF_ETIMEOUT, HF_EINVAL (also two wants on one name),
 * HF_ENAME, HF_EMISMATCH, HF_EUNSUPPORTED, HF_EREFUSED, HF_EUNREACHABLE, HF_EUNCERTAIN,
 * HF_ELOST (granted, but over before we knew: the lease, or one of several wants was
 * taken away while others were waited for), HF_EFULL, HF_ESYSTEM, HF_ENOMEM,
 * HF_ECLOSED, HF_EFORKED, HF_ECALLBACK. After any of them nothing is held
 * and nothing is queued; after HF_EUNCERTAIN the withdrawal goes on by itself.
 * The call ends at its deadline, and at most options.confirm_timeout_ms later if the
 * store then has to confirm the withdrawal. A try (timeout_ms 0) has the time of one
 * request, options.request_timeout_ms.
 * Re-entering an hf_reentrant() gives another hold with the same token; the lock is
 * free when all of them are released.
 */
HF_API int hf_acquire(hf_client *client, const hf_want *wants, size_t count,
                      const hf_acquire_options *options, hf_hold **ret_hold,
                      hf_error *why);

/* hf_acquire() of one hf_mutex(). */
HF_API int hf_lock(hf_client *client, const char *name, int64_t timeout_ms,
                   hf_hold **ret_hold, hf_error *why);

/*
 * Gives the hold up and frees it, whatever the answer. NULL answers 0.
 *
 * Errors: HF_ELOST (the lock had already been lost: treat the work as unguarded),
 * HF_EUNCERTAIN (no answer within options.request_timeout_ms; goes on by itself),
 * HF_ERELEASED (released before; nothing was done), HF_ECLOSED, HF_EFORKED (the parent
 * still holds).
 */
HF_API int hf_release(hf_hold *hold, hf_error *why);

/* `hold` is yours on rc 0 and NULL otherwise; `why` lives for the call only. */
typedef void hf_acquire_cb(void *user, int rc, hf_hold *hold, const hf_error *why);
typedef void hf_done_cb(void *user, int rc, const hf_error *why);

/*
 * Starts an acquire and returns. Its end is told exactly once: to `callback` if given,
 * else to hf_op_wait(). `ret_op` may be NULL if a callback is given; otherwise the op
 * is yours until hf_op_free(). An error returned here means that nothing was started
 * and no callback will come (bad arguments, no memory, closed).
 */
HF_API int hf_acquire_async(hf_client *client, const hf_want *wants, size_t count,
                            const hf_acquire_options *options, hf_acquire_cb *callback,
                            void *user, hf_op **ret_op, hf_error *why);

/* hf_release() that does not wait. The hold is consumed; `callback` may be NULL. */
HF_API int hf_release_async(hf_hold *hold, hf_done_cb *callback, void *user,
                            hf_error *why);

/* Asks an op to end with HF_ECANCELLED. It may still end otherwise if it was quicker:
 * whoever is told the end knows. Never blocks; may be called from callbacks. */
HF_API void hf_op_cancel(hf_op *op);

/*
 * Waits for an op that has no callback and takes its result: the op's own rc and hold
 * (`ret_hold` may be NULL for ops that give none). HF_ETIMEOUT with `op` still under
 * way if `timeout_ms` is over first; hf_op_done() tells the two apart.
 */
HF_API int hf_op_wait(hf_op *op, int64_t timeout_ms, hf_hold **ret_hold, hf_error *why);
HF_API bool hf_op_done(const hf_op *op);

/* Gives the op up. One still under way is cancelled, and a hold nobody took is
 * released. NULL is fine. */
HF_API void hf_op_free(hf_op *op);

/* ---- The hold ---------------------------------------------------------------- */

enum hf_state {
    HF_HELD = 1,     /* ours, by the clock and by all we were told */
    HF_DOUBTFUL = 2, /* still inside the lease, but a renewal is overdue */
    HF_LOST = 3,     /* over: expired, evicted, released, or not a hold at all */
};

/* How many wants the hold has, and the fencing token of want `index` in the caller's
 * order: larger than that of any earlier grant on that name. 0 if there is none. */
HF_API size_t hf_hold_count(const hf_hold *hold);
HF_API uint64_t hf_hold_token(const hf_hold *hold, size_t index);

/* From arithmetic on this machine's clock alone: no I/O, no lock, whatever our threads
 * are doing. Call it before each side effect. */
HF_API enum hf_state hf_hold_state(const hf_hold *hold);

/* Milliseconds until the hold is over if nothing renews it: HF_FOREVER without a lease
 * (it then ends with the process), 0 when lost. */
HF_API int64_t hf_hold_left_ms(const hf_hold *hold);

/* Asks the store. 0, HF_ELOST, or HF_EUNREACHABLE when it cannot be known. */
HF_API int hf_hold_verify(hf_hold *hold, hf_error *why);

enum hf_event {
    HF_EVENT_LOST = 1,     /* at most once, and the last event */
    HF_EVENT_DOUBTFUL = 2, /* a renewal is overdue */
    HF_EVENT_REVOKED = 3,  /* somebody asks for it (hf_revoke); yours to decide */
};
typedef void hf_watch_cb(void *user, hf_hold *hold, enum hf_event event,
                         const hf_error *why);

/* Tells `callback` what happens to the hold; one watch per hold, NULL ends it. Told
 * at once if it is lost already, or was asked for. No event comes after hf_release()
 * has returned, but one that has begun on another thread may still be running. */
HF_API int hf_hold_watch(hf_hold *hold, hf_watch_cb *callback, void *user,
                         hf_error *why);

/* Sets the lease of every want to `ttl_ms` from now. HF_ELOST, HF_EINVAL (a hold
 * without lease, or past max_hold_ms), HF_EUNREACHABLE. */
HF_API int hf_hold_extend(hf_hold *hold, int64_t ttl_ms, hf_error *why);

/* Turns the hf_write() at `index` into an hf_read() without letting go. */
HF_API int hf_hold_downgrade(hf_hold *hold, size_t index, hf_error *why);

/*
 * Hands a hold to another process, or keeps one over an exec or a restart.
 *
 * hf_hold_id() writes the id of want `index` as one line of text. The id is a secret of
 * its holder: who knows it can take the hold. hf_adopt() moves the hold to its client,
 * token and all; the former handle then answers HF_ELOST. Only timeout_ms, ttl_ms (a
 * new lease from now), max_hold_ms and flags of `options` count; 0 as timeout_ms is the
 * time of one request. HF_ENOENT: no such hold. HF_ELOST: none any more, but it may
 * have moved here, unheard, and ended since. HF_EUNCERTAIN: no answer in time; if it
 * moved it is given up.
 * hf_hold_leave() forgets a detached hold without releasing it.
 */
HF_API int hf_hold_id(hf_hold *hold, size_t index, char *buffer, size_t size,
                      hf_error *why);
HF_API int hf_adopt(hf_client *client, const char *id,
                    const hf_acquire_options *options, hf_hold **ret_hold,
                    hf_error *why);
HF_API int hf_hold_leave(hf_hold *hold, hf_error *why);

/* ---- Count-down latch -------------------------------------------------------- */

/* Sets a latch that is not counting to `count` (>= 1). HF_EBUSY if it is. */
HF_API int hf_latch_set(hf_client *client, const char *name, uint32_t count,
                        hf_error *why);
/* What is left; 0 for an open latch, which is also one that was never set. */
HF_API int hf_latch_count(hf_client *client, const char *name, uint32_t *ret_count,
                          hf_error *why);
/* Takes `by` (>= 1) off, not below 0; `ret_left` may be NULL. */
HF_API int hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                               uint32_t *ret_left, hf_error *why);
/* Waits until the latch is open. A latch that opened while we waited counts, even if
 * it was set again since. Errors as hf_acquire(). */
HF_API int hf_latch_wait(hf_client *client, const char *name, int64_t timeout_ms,
                         hf_error *why);
/* The same without waiting; the op gives no hold. */
HF_API int hf_latch_wait_async(hf_client *client, const char *name, int64_t timeout_ms,
                               hf_done_cb *callback, void *user, hf_op **ret_op,
                               hf_error *why);

/* ---- Versioned cell: the optimistic lock ------------------------------------- */

/* Reads value and version. `ret_data` is yours, free it with hf_free(); it is followed
 * by a NUL that `ret_len` does not count. HF_ENOENT if the cell does not exist. */
HF_API int hf_cell_get(hf_client *client, const char *name, void **ret_data,
                       size_t *ret_len, uint64_t *ret_version, hf_error *why);

/* Writes only if the version still is `version` (0: only if there is no cell), else
 * HF_ESTALE. `data` NULL removes the cell. A version never comes back, also not after
 * removal. `ret_version` may be NULL. */
HF_API int hf_cell_set(hf_client *client, const char *name, uint64_t version,
                       const void *data, size_t len, uint64_t *ret_version,
                       hf_error *why);

HF_API void hf_free(void *data);

/* ---- Look and repair --------------------------------------------------------- */

enum hf_role { HF_HOLDER = 1, HF_WAITER = 2, HF_OBJECT = 3 /* a latch or a cell */ };

/* One line of a report. `size` is what the library knows; strings live with the report
 * and are never NULL. */
typedef struct hf_entry {
    size_t size;
    const char *name;
    const char *host;
    const char *program;
    const char *note;
    int32_t kind;     /* enum hf_kind */
    int32_t role;     /* enum hf_role */
    uint64_t token;   /* of a holder; version of a cell */
    uint32_t permits; /* of a ticket; what is left of a latch */
    uint32_t limit;
    uint32_t place;   /* of a waiter: how many stand before it */
    int64_t pid;      /* 0 if not known */
    int64_t since_ms; /* how long it has held or waited; -1 if not known */
    int64_t left_ms;  /* of its lease; HF_FOREVER without one */
} hf_entry;

typedef struct hf_report hf_report;

/* Who holds and who waits. With `prefix` all names that begin with `name` ("" is all
 * of them), else that name alone; a free name gives an empty report. Free it with
 * hf_report_free(). A snapshot: it may be old when you read it. A large store takes its
 * time: HF_EUNREACHABLE is one that says nothing for request_timeout_ms. */
HF_API int hf_inspect(hf_client *client, const char *name, bool prefix,
                      hf_report **ret_report, hf_error *why);
HF_API size_t hf_report_count(const hf_report *report);
HF_API const hf_entry *hf_report_entry(const hf_report *report, size_t index);
HF_API void hf_report_free(hf_report *report);

/* Takes the lock away from the holder with exactly that token. HF_ENOENT if it is not
 * held with it. The former holder is told (HF_EVENT_LOST, HF_ELOST). */
HF_API int hf_evict(hf_client *client, const char *name, uint64_t token, hf_error *why);

/* Asks holders of `name` to let go: they get HF_EVENT_REVOKED. `token` 0 asks all.
 * HF_ENOENT if nobody holds it. On redis: 0 too for a token whose client has handed the
 * lock on to another of its callers, who is not asked. */
HF_API int hf_revoke(hf_client *client, const char *name, uint64_t token,
                     hf_error *why);

/* What hf_diagnose() found: how grave, what it is, what to do about it. Strings live
 * with the report and are never NULL; `fix` is "" where there is nothing to do. */
enum hf_level { HF_GOOD = 1, HF_REMARK = 2, HF_TRAP = 3 /* may cost a lock */ };

typedef struct hf_finding {
    size_t size;
    int32_t level;     /* enum hf_level */
    const char *topic; /* "version", "persistence", ... */
    const char *what;
    const char *fix;
} hf_finding;

/* Examines the store for what is known to break locks there. The report has findings
 * instead of entries: hf_report_count() of them, worst first. Errors as those of
 * hf_inspect(). */
HF_API int hf_diagnose(hf_client *client, hf_report **ret_report, hf_error *why);
HF_API const hf_finding *hf_report_finding(const hf_report *report, size_t index);

/* ---- Your own event loop ----------------------------------------------------- */

/* A descriptor that polls readable when hf_dispatch() has something to do; timers
 * included. For clients opened with HF_DRIVER_USER, else HF_EINVAL. Belongs to the
 * client: never read, write or close it. */
HF_API int hf_dispatch_fd(hf_client *client, hf_error *why);

/* Does what is due and runs callbacks, on this thread; never blocks. From one thread
 * at a time, not from a callback. */
HF_API int hf_dispatch(hf_client *client, hf_error *why);

#ifdef __cplusplus
}
#endif
#endif
