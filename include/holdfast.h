/* SPDX-License-Identifier: MIT */
/*
 * holdfast: locks across threads, processes and machines.
 *
 * CAVEATS: read these first
 *
 *   - A lock with a lease ends when the lease ends. A process that was stopped for
 *     longer than its lease has lost the lock and does not know it yet. Pass the
 *     fencing token (hf_hold_token) to the guarded resource, and let it refuse older
 *     tokens; or call hf_hold_state() right before each side effect.
 *   - An hf_hold has the lock, not a thread. Any thread may release any hold. A thread
 *     that acquires a plain mutex it already holds waits for itself (deadlock). Use
 *     hf_reentrant(), which counts.
 *   - If the store evicts a holder or loses its data, another client may get the lock
 *     before this client knows. It learns of an eviction at once if the hold is watched
 *     (hf_hold_watch), else at its next renewal, up to a third of the lease later.
 *   - hf_release() consumes the hold, whatever it returns. HF_ELOST means that another
 *     client may have held the lock while the work ran.
 *   - fork(): the child must not use clients, holds or ops that it inherited. Every
 *     call with them returns HF_EFORKED (hf_close just frees memory) and leaves the
 *     parent's locks alone. The child may open a client of its own.
 *   - The library holds none of its internal mutexes while a callback runs. Inside a
 *     callback, calls that may wait return HF_ECALLBACK, except hf_release(), which is
 *     allowed everywhere.
 *   - Do not cancel (pthread_cancel) a thread inside a call: its work would stay half
 *     done, and other threads that use the client wait for it.
 *   - A timeout of 0, NULL options and HF_ACQUIRE_OPTIONS_INIT try once and do not
 *     wait. To wait without limit, pass HF_FOREVER, which is -1.
 *   - Do not delete files of a file: directory while a process uses them.
 *
 * CONVENTIONS
 *
 *   Functions that can fail return 0 or a negative HF_E... code (hf_dispatch_fd() a
 *   descriptor or such a code). Their last parameter
 *   `why` may be NULL; on failure they fill it in, on success they leave it alone.
 *   `ret_` parameters are written on success only. The library copies the strings that
 *   it is passed. Option structs begin with `size`: set it to sizeof the struct (or use
 *   the HF_..._INIT macro); zero in any other field means the default. Every function
 *   may be called from any thread, unless its comment says otherwise. A *store* is
 *   where locks are kept: a Redis or ZooKeeper server, a directory, this process's
 *   memory. A *client* is one hf_open(); a *lease* is the time for which a store grants
 *   a lock.
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

/* In bytes: the longest lock name; the buffer that fits every id that hf_hold_id()
 * writes, with its NUL; the largest value of a versioned cell; the longest note
 * (hf_acquire_options.note) that a store keeps: the rest is cut off. */
#define HF_NAME_MAX 1024
#define HF_ID_MAX 1200
#define HF_CELL_MAX 65536
#define HF_NOTE_MAX 63

/* A timeout that never ends. hf_hold_left_ms() and hf_entry.left_ms have this value for
 * a hold without a lease: compare with it before you compare with a number of
 * milliseconds, because it is negative. */
#define HF_FOREVER INT64_C(-1)

/* ---- Errors ------------------------------------------------------------------ */

/* Code, value, sentence. Values never change. docs/api.md says what to do about each.
 * No store of this library answers HF_ENOTYOURS; the code stays for other stores. */
#define HF_ERRORS(X)                                                                   \
    X(HF_EINVAL, -1, "an argument is not valid")                                       \
    X(HF_ENAME, -2, "the name is empty, too long, or not printable UTF-8")             \
    X(HF_EURL, -3, "the URL cannot be understood")                                     \
    X(HF_EUNSUPPORTED, -4, "this store does not support that")                         \
    X(HF_EBUSY, -5, "the lock is already held, or the latch is not open")              \
    X(HF_ETIMEOUT, -6, "the wait timed out")                                           \
    X(HF_ECANCELLED, -7, "the operation was cancelled")                                \
    X(HF_ELOST, -8, "the lock had already been lost")                                  \
    X(HF_ENOTYOURS, -9, "another client owns that")                                    \
    X(HF_EREFUSED, -10, "the store refused the request")                               \
    X(HF_EUNREACHABLE, -11, "the store does not answer")                               \
    X(HF_EUNCERTAIN, -12, "the answer was lost; the outcome is not known")             \
    X(HF_EMISMATCH, -13, "the name is in use with another kind, limit or layout")      \
    X(HF_ECLOSED, -14, "the client is closed")                                         \
    X(HF_EFORKED, -15, "a client cannot be used in a forked child")                    \
    X(HF_ECALLBACK, -16, "a call that may wait was made inside a callback")            \
    X(HF_ERELEASED, -17, "the hold has already been released")                         \
    X(HF_ENOMEM, -18, "out of memory")                                                 \
    X(HF_EFULL, -19, "no room is left in the store")                                   \
    X(HF_ECORRUPT, -20, "the store's data is corrupt, or of another version")          \
    X(HF_ESTALE, -21, "the cell's version has changed")                                \
    X(HF_ENOENT, -22, "not found")                                                     \
    X(HF_ESYSTEM, -23, "a system call failed")

enum hf_code {
    HF_OK = 0,
#define HF_ERROR_ENUM(name, value, sentence) name = value,
    HF_ERRORS(HF_ERROR_ENUM)
#undef HF_ERROR_ENUM
};

/* Why a call failed. The caller owns the struct; there is nothing to free. `text` is
 * one line and never contains a password; `sys` is an errno, or 0. */
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

/* Which thread runs callbacks, renewals and other work that no call waits for. */
enum hf_driver {
    HF_DRIVER_THREAD = 0, /* a background thread, started when first needed */
    HF_DRIVER_USER = 1,   /* no thread: the caller's own loop calls hf_dispatch() */
};

#define HF_OFF (-1)

typedef struct hf_options {
    size_t size;
    const char *program;        /* shown by hf_inspect(); default: the program's name */
    int driver;                 /* enum hf_driver */
    int handoff;                /* the most hand-offs in a row between threads of this
                                   client; then the store's queue decides. 0: 64, the
                                   default; HF_OFF: never. (In a URL, handoff=0 is
                                   off.) */
    int64_t request_timeout_ms; /* for one request to the store; default 5000 */
    int64_t ttl_ms;             /* the default lease; default: the store's own */
    int64_t close_timeout_ms;   /* the longest that hf_close() waits for the store;
                                   default 1000. Locks that it could not release end
                                   with their leases */
    int64_t confirm_timeout_ms; /* how long after its deadline a call may still wait for
                                   the store to confirm that it has left the queue;
                                   default 80, more only if the store has been slow */
} hf_options;

/* clang-format off */
#define HF_OPTIONS_INIT { sizeof(hf_options), NULL, 0, 0, 0, 0, 0, 0 }
/* clang-format on */

/*
 * Connects to a store.
 *
 * `url` NULL means $HOLDFAST_URL or, if that is not set, the user's own directory on
 * this host (file:). A set-user-ID program does not read the environment. `options` may
 * be NULL. Errors: HF_EURL (syntax, unknown scheme or option, an option twice),
 * HF_EINVAL, HF_EUNSUPPORTED (this build lacks the store), HF_ENOENT (no such
 * directory), HF_EREFUSED, HF_EUNREACHABLE, HF_ECORRUPT, HF_EFULL, HF_ESYSTEM,
 * HF_ENOMEM.
 */
HF_API int hf_open(const char *url, const hf_options *options, hf_client **ret_client,
                   hf_error *why);

/*
 * Releases every lock of the client except those of detached holds, ends every wait
 * with HF_ECLOSED, runs the callbacks that are due and closes the client. NULL is
 * allowed. It waits for a store that does not answer for options.close_timeout_ms at
 * most. Later calls with this client or its holds return HF_ECLOSED. The handles of
 * holds and ops stay: pass each to hf_release() or hf_op_free() all the same, which
 * then just frees it. Inside a callback of the same client this does nothing.
 * With HF_DRIVER_USER the remaining callbacks run inside this call.
 */
HF_API void hf_close(hf_client *client);

/* What a store can do. A call that needs a missing bit returns HF_EUNSUPPORTED. */
enum hf_capability {
    HF_CAP_MUTEX = 1 << 0,      /* mutex and reentrant mutex */
    HF_CAP_FAIR = 1 << 1,       /* FIFO mutex */
    HF_CAP_RW = 1 << 2,         /* read and write */
    HF_CAP_DOWNGRADE = 1 << 3,  /* write to read without releasing */
    HF_CAP_PERMITS = 1 << 4,    /* weighted semaphore */
    HF_CAP_EXPIRING = 1 << 5,   /* permits, each with its own id and lease */
    HF_CAP_LATCH = 1 << 6,      /* count-down latch */
    HF_CAP_CELL = 1 << 7,       /* versioned cell */
    HF_CAP_LEASE = 1 << 8,      /* leases: ttl_ms */
    HF_CAP_DETACH = 1 << 9,     /* HF_DETACHED, hf_hold_id, hf_adopt */
    HF_CAP_INSPECT = 1 << 10,   /* hf_inspect */
    HF_CAP_EVICT = 1 << 11,     /* hf_evict */
    HF_CAP_REVOKE = 1 << 12,    /* hf_revoke */
    HF_CAP_PROCESSES = 1 << 13, /* other processes see the same locks */
    HF_CAP_CRASH = 1 << 14,     /* a killed process's locks are free at once */
    HF_CAP_DURABLE = 1 << 15,   /* tokens go on growing after the store restarts */
    HF_CAP_HANDOFF = 1 << 16,   /* threads of a client may hand a mutex off */
    HF_CAP_DIAGNOSE = 1 << 17,  /* hf_diagnose */
};

/* Bits of enum hf_capability; 0 for a closed client. */
HF_API uint64_t hf_capabilities(const hf_client *client);

/* The version ("0.1.0"), and the stores of this build ("file mem"). Static strings. */
HF_API const char *hf_version(void);
HF_API const char *hf_stores(void);

/* ---- Wants ------------------------------------------------------------------- */

enum hf_kind {
    HF_MUTEX = 1,
    HF_REENTRANT = 2, /* counts per owner: the calling thread, or options.owner */
    HF_FAIR = 3,      /* strictly first come, first served */
    HF_READ = 4,
    HF_WRITE = 5,
    HF_PERMITS = 6,  /* `permits` of `limit` */
    HF_EXPIRING = 7, /* one permit of `limit`, with its own id and lease */
    HF_LATCH = 8,    /* only in reports of hf_inspect */
    HF_CELL = 9,     /* only in reports of hf_inspect */
};

/*
 * What to acquire. A plain value: make it with the functions below.
 *
 * A name is 1 to HF_NAME_MAX bytes of UTF-8 without control characters; case counts.
 * mutex, reentrant and fair may be used on one name, and exclude each other. Any other
 * mix of kinds on one name, two limits for one semaphore, or two layouts of one store
 * on one name return HF_EMISMATCH where the store can tell.
 */
typedef struct hf_want {
    const char *name;
    const char *stripe_key; /* with stripes > 0: chooses one of `stripes` sub-locks */
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
/* `permits` of a semaphore that has `limit` permits; 1 <= permits <= limit. */
static inline hf_want hf_permits(const char *name, uint32_t permits, uint32_t limit)
{
    return hf_want_of(name, HF_PERMITS, permits, limit);
}
/* One of `limit` permits, each with its own lease: ttl_ms, or 30 s if that is 0. */
static inline hf_want hf_expiring(const char *name, uint32_t limit)
{
    return hf_want_of(name, HF_EXPIRING, 1, limit);
}
/* A mutex: the one of the `stripes` sub-locks of `name` that the hash of `key` chooses;
 * 1 <= stripes <= 65536. */
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
    HF_FIXED = 1 << 0,    /* no renewal: the lease ends after ttl_ms */
    HF_DETACHED = 1 << 1, /* the hold outlives its client and this process, until its
                             lease ends; needs ttl_ms */
};

typedef struct hf_acquire_options {
    size_t size;
    int64_t timeout_ms;  /* 0 tries once, HF_FOREVER, or 1 ms .. 10 years */
    int64_t ttl_ms;      /* the lease, 1 ms .. 10 years; 0: the client's default */
    int64_t max_hold_ms; /* the hold ends after this, renewed or not; 0: no limit */
    uint64_t owner;      /* for reentrant: the owner; 0: the calling thread */
    const char *note;    /* hf_inspect shows its first HF_NOTE_MAX bytes */
    uint32_t flags;      /* enum hf_flag */
} hf_acquire_options;

/* Tries once: set timeout_ms to wait. */
/* clang-format off */
#define HF_ACQUIRE_OPTIONS_INIT { sizeof(hf_acquire_options), 0, 0, 0, 0, NULL, 0 }
/* clang-format on */

/*
 * Acquires all of `count` wants, or none of them (1 <= count <= 64).
 *
 * Several wants are acquired in the order of their names, so that two such calls cannot
 * deadlock; if one fails, the others are released in reverse order. `options` NULL
 * tries once and does not wait. Acquiring an hf_reentrant() again gives its owner
 * another hold with the same token; the lock is free when all of these holds are
 * released.
 * Errors: HF_EBUSY (tried once), HF_ETIMEOUT, HF_EINVAL (also two wants on one name),
 * HF_ENAME, HF_EMISMATCH, HF_EUNSUPPORTED, HF_EREFUSED, HF_EUNREACHABLE, HF_EUNCERTAIN,
 * HF_ELOST (granted, but the lease ended before the answer was read; or one of several
 * locks was lost while the call waited for the others), HF_EFULL, HF_ESYSTEM,
 * HF_ENOMEM, HF_ECLOSED, HF_EFORKED, HF_ECALLBACK. After an error the caller holds
 * nothing and is in no queue; after HF_EUNCERTAIN the library goes on withdrawing the
 * request in the background.
 * The call ends at its deadline, and at most options.confirm_timeout_ms later if the
 * store then has to confirm the withdrawal. A try (timeout_ms 0) has the time of one
 * request, options.request_timeout_ms.
 */
HF_API int hf_acquire(hf_client *client, const hf_want *wants, size_t count,
                      const hf_acquire_options *options, hf_hold **ret_hold,
                      hf_error *why);

/* hf_acquire() of one hf_mutex(). */
HF_API int hf_lock(hf_client *client, const char *name, int64_t timeout_ms,
                   hf_hold **ret_hold, hf_error *why);

/*
 * Releases the lock and frees the hold, whatever it returns. NULL returns 0.
 *
 * Errors: HF_ELOST (the lock had already been lost: treat the work as unguarded),
 * HF_EUNCERTAIN (no answer within options.request_timeout_ms; the library goes on
 * releasing in the background), HF_ERELEASED (the hold was released before; nothing was
 * done), HF_ECLOSED, HF_EFORKED (the parent still holds the lock).
 */
HF_API int hf_release(hf_hold *hold, hf_error *why);

/* With rc 0 the callback owns `hold`; else `hold` is NULL. `why` is valid until the
 * callback returns. */
typedef void hf_acquire_cb(void *user, int rc, hf_hold *hold, const hf_error *why);
typedef void hf_done_cb(void *user, int rc, const hf_error *why);

/*
 * Starts an acquire and returns. Its result is delivered exactly once: to `callback` if
 * that is given, else to hf_op_wait(). `ret_op` may be NULL if a callback is given; if
 * it is not NULL, the caller owns the op and ends that with hf_op_free(). If this call
 * returns an error (bad arguments, no memory, closed client), nothing was started and
 * the callback is not called.
 */
HF_API int hf_acquire_async(hf_client *client, const hf_want *wants, size_t count,
                            const hf_acquire_options *options, hf_acquire_cb *callback,
                            void *user, hf_op **ret_op, hf_error *why);

/* hf_release() that does not wait. It consumes the hold; `callback` may be NULL. */
HF_API int hf_release_async(hf_hold *hold, hf_done_cb *callback, void *user,
                            hf_error *why);

/* Asks an op to end with HF_ECANCELLED. An op that is just ending may still succeed or
 * fail in another way; its result says so. Never blocks; allowed in callbacks. */
HF_API void hf_op_cancel(hf_op *op);

/*
 * Waits for an op that has no callback and takes its result: the op's own rc and hold
 * (`ret_hold` may be NULL for ops that give none). If `timeout_ms` ends first, it
 * returns HF_ETIMEOUT and the op goes on. An op that itself timed out gives HF_ETIMEOUT
 * too: only then does hf_op_done() return true.
 */
HF_API int hf_op_wait(hf_op *op, int64_t timeout_ms, hf_hold **ret_hold, hf_error *why);
HF_API bool hf_op_done(const hf_op *op);

/* Frees the op. Cancels it if it is under way, and releases its hold if no call took
 * it. NULL is allowed. */
HF_API void hf_op_free(hf_op *op);

/* ---- The hold ---------------------------------------------------------------- */

enum hf_state {
    HF_HELD = 1,     /* held: the lease has not ended, and no loss is known */
    HF_DOUBTFUL = 2, /* the lease has not ended, but a renewal is overdue */
    HF_LOST = 3,     /* expired, evicted, released, or not a hold at all */
};

/* How many wants the hold has, and the fencing token of want `index`, in the order in
 * which they were passed: larger than the token of any earlier grant on that name. 0 if
 * there is none. */
HF_API size_t hf_hold_count(const hf_hold *hold);
HF_API uint64_t hf_hold_token(const hf_hold *hold, size_t index);

/* Compares this machine's clock with the end of the lease: no I/O, no lock, and correct
 * even if no thread of the library can run. Call it before each side effect, and
 * compare: `== HF_HELD`. No value of the enum is 0. An eviction shows as soon as this
 * client knows of it. */
HF_API enum hf_state hf_hold_state(const hf_hold *hold);

/* Milliseconds until the hold ends if it is not renewed; 0 when lost; HF_FOREVER, which
 * is -1, without a lease (the hold then ends with the process). So
 * `if (hf_hold_left_ms(hold) < 100)` is also true without a lease. */
HF_API int64_t hf_hold_left_ms(const hf_hold *hold);

/* Asks the store: 0 (held), HF_ELOST, or HF_EUNREACHABLE if the store does not say. */
HF_API int hf_hold_verify(hf_hold *hold, hf_error *why);

enum hf_event {
    HF_EVENT_LOST = 1,     /* the lock is lost; at most once, and the last event */
    HF_EVENT_DOUBTFUL = 2, /* a renewal is overdue */
    HF_EVENT_REVOKED = 3,  /* a client asks for the lock; the holder decides */
};
typedef void hf_watch_cb(void *user, hf_hold *hold, enum hf_event event,
                         const hf_error *why);

/*
 * Calls `callback` for each event of the hold, and at once for a loss or a revocation
 * that happened before this call. One watch per hold; NULL ends it. No callback begins
 * after hf_release() or the call with NULL has returned, but one that has begun on
 * another thread may still be running, and use `user`. A client runs one callback at a
 * time: free `user` in the callback of hf_release_async() or after hf_close(). With
 * HF_DRIVER_USER it may be freed as soon as hf_release() has returned to the thread
 * that dispatches.
 */
HF_API int hf_hold_watch(hf_hold *hold, hf_watch_cb *callback, void *user,
                         hf_error *why);

/* Sets the lease of every want to `ttl_ms` from now, which may be shorter than before.
 * Later renewals use this length too. Errors: HF_ELOST, HF_EINVAL (a hold without
 * lease, or past max_hold_ms), HF_EUNREACHABLE. */
HF_API int hf_hold_extend(hf_hold *hold, int64_t ttl_ms, hf_error *why);

/* Turns the hf_write() at `index` into an hf_read() without releasing it. */
HF_API int hf_hold_downgrade(hf_hold *hold, size_t index, hf_error *why);

/*
 * Hands a hold to another process, or keeps one over an exec or a restart.
 *
 * hf_hold_id() writes the id of want `index` as one line of text. Keep it secret: a
 * client that knows the id can take the hold. hf_adopt() moves the hold of that one
 * want, with its token, to `client`; calls with the former handle then return HF_ELOST.
 * The locks of its other wants stay with the former client until it releases its
 * handle; each can be adopted by its own id. Of `options` only timeout_ms, ttl_ms (a
 * new lease from now), max_hold_ms and flags count; timeout_ms 0 is the time of one
 * request. HF_ENOENT: there is no such hold. HF_ELOST: there is no such hold now. An
 * earlier request of this call got no answer; it may have moved the hold here, and the
 * lease may have ended since. HF_EUNCERTAIN: no answer in time; if the hold moved, the
 * library releases it.
 * hf_hold_leave() frees the handle of a detached hold without releasing the lock. It
 * consumes the hold on success only. Errors: HF_EINVAL (the hold is not detached),
 * HF_ERELEASED, HF_ECLOSED, HF_EFORKED.
 */
HF_API int hf_hold_id(hf_hold *hold, size_t index, char *buffer, size_t size,
                      hf_error *why);
HF_API int hf_adopt(hf_client *client, const char *id,
                    const hf_acquire_options *options, hf_hold **ret_hold,
                    hf_error *why);
HF_API int hf_hold_leave(hf_hold *hold, hf_error *why);

/* ---- Count-down latch -------------------------------------------------------- */

/* Sets a latch to `count` (>= 1). HF_EBUSY if it is counting down already. */
HF_API int hf_latch_set(hf_client *client, const char *name, uint32_t count,
                        hf_error *why);
/* The count that is left; 0 if the latch is open. One that was never set is open. */
HF_API int hf_latch_count(hf_client *client, const char *name, uint32_t *ret_count,
                          hf_error *why);
/* Lowers the count by `by` (>= 1), not below 0; `ret_left` may be NULL. */
HF_API int hf_latch_count_down(hf_client *client, const char *name, uint32_t by,
                               uint32_t *ret_left, hf_error *why);
/* Waits until the latch opens, even if it is set again right after. A latch that was
 * never set is open: the call returns 0 at once, so set it before the first wait.
 * Errors as those of hf_acquire(). */
HF_API int hf_latch_wait(hf_client *client, const char *name, int64_t timeout_ms,
                         hf_error *why);
/* Starts hf_latch_wait() and returns, like hf_acquire_async(); the op has no hold. */
HF_API int hf_latch_wait_async(hf_client *client, const char *name, int64_t timeout_ms,
                               hf_done_cb *callback, void *user, hf_op **ret_op,
                               hf_error *why);

/* ---- Versioned cell: the optimistic lock ------------------------------------- */

/* Reads value and version. The caller frees `*ret_data` with hf_free(); a NUL follows
 * the data, which `*ret_len` does not count. HF_ENOENT if the cell does not exist. */
HF_API int hf_cell_get(hf_client *client, const char *name, void **ret_data,
                       size_t *ret_len, uint64_t *ret_version, hf_error *why);

/* Writes the value if the cell's version is still `version` (0: if there is no cell),
 * else returns HF_ESTALE. `data` NULL with `len` 0 removes the cell; to write an empty
 * value pass "" and 0. A version is never used twice on a name, even after a removal.
 * `ret_version` may be NULL. */
HF_API int hf_cell_set(hf_client *client, const char *name, uint64_t version,
                       const void *data, size_t len, uint64_t *ret_version,
                       hf_error *why);

/* Frees data that hf_cell_get() returned. NULL is allowed. */
HF_API void hf_free(void *data);

/* ---- Look and repair --------------------------------------------------------- */

enum hf_role { HF_HOLDER = 1, HF_WAITER = 2, HF_OBJECT = 3 /* a latch or a cell */ };

/* One line of a report. `size` is sizeof the struct as the library was built; strings
 * live as long as the report and are never NULL. */
typedef struct hf_entry {
    size_t size;
    const char *name;
    const char *host;
    const char *program;
    const char *note;
    int32_t kind;     /* enum hf_kind */
    int32_t role;     /* enum hf_role */
    uint64_t token;   /* of a holder; of a cell its version */
    uint32_t permits; /* held or asked for; of a latch the count that is left */
    uint32_t limit;
    uint32_t place;   /* of a waiter: how many waiters are before it */
    int64_t pid;      /* 0 if not known */
    int64_t since_ms; /* how long it has held or waited; -1 if not known */
    int64_t left_ms;  /* what is left of its lease; HF_FOREVER (-1) without one */
} hf_entry;

typedef struct hf_report hf_report;

/* Lists holders and waiters. With `prefix` of all names that begin with `name` ("": of
 * all names), else of that name alone; a free name gives an empty report. The caller
 * frees the report with hf_report_free(). It is a snapshot and may be out of date when
 * the caller reads it. A large store may take longer than request_timeout_ms;
 * HF_EUNREACHABLE means that it was silent for so long. */
HF_API int hf_inspect(hf_client *client, const char *name, bool prefix,
                      hf_report **ret_report, hf_error *why);
/* How many entries (or findings) a report has; one entry, NULL if there is none at
 * `index`. */
HF_API size_t hf_report_count(const hf_report *report);
HF_API const hf_entry *hf_report_entry(const hf_report *report, size_t index);
HF_API void hf_report_free(hf_report *report);

/* Takes the lock away from the holder that has exactly this token; HF_ENOENT if no
 * holder has it. The former holder gets HF_EVENT_LOST, and its calls HF_ELOST. */
HF_API int hf_evict(hf_client *client, const char *name, uint64_t token, hf_error *why);

/* Asks the holder with this token to release `name`: it gets HF_EVENT_REVOKED. `token`
 * 0 asks all holders. HF_ENOENT if there is none. On redis it returns 0 without asking
 * any holder if the client that had this token has handed the lock off to another of
 * its callers. */
HF_API int hf_revoke(hf_client *client, const char *name, uint64_t token,
                     hf_error *why);

/* What hf_diagnose() found: how serious it is, what it is, and what to do about it.
 * Strings live as long as the report and are never NULL; `fix` is "" if there is
 * nothing to do. */
enum hf_level { HF_GOOD = 1, HF_REMARK = 2, HF_TRAP = 3 /* may break a lock */ };

typedef struct hf_finding {
    size_t size;
    int32_t level;     /* enum hf_level */
    const char *topic; /* "version", "persistence", ... */
    const char *what;
    const char *fix;
} hf_finding;

/* Examines the store for settings and conditions that are known to break locks there.
 * The report has findings instead of entries: hf_report_count() of them, worst first.
 * hf_report_finding() returns NULL if there is none at `index`. Errors as those of
 * hf_inspect(). */
HF_API int hf_diagnose(hf_client *client, hf_report **ret_report, hf_error *why);
HF_API const hf_finding *hf_report_finding(const hf_report *report, size_t index);

/* ---- Your own event loop ----------------------------------------------------- */

/* Returns a descriptor (0 or more), or a negative code. It polls readable when
 * hf_dispatch() has something to do, also for a timer. For clients opened with
 * HF_DRIVER_USER, else HF_EINVAL. The client owns it: never read, write or close it. */
HF_API int hf_dispatch_fd(hf_client *client, hf_error *why);

/* Does what is due and runs callbacks, on the calling thread; never blocks. Call it
 * from one thread at a time, and not from a callback. */
HF_API int hf_dispatch(hf_client *client, hf_error *why);

#ifdef __cplusplus
}
#endif
#endif
