/* SPDX-License-Identifier: MIT */
/*
 * storm: random calls of the whole public API, judged by a shadow model.
 *
 * main.c starts the store and the worker processes and judges the end. A worker
 * (process.c) has a few clients and a few *seats*; a seat is a random stream, and the
 * threads that play it one after the other. Each step of a seat is one *act* (act_*.c).
 * The *model* (model*.c) lies in memory that all processes share: what is held by whom,
 * as the callers know it. Acts tell the model before and after each call, and the model
 * says what the answer may be.
 *
 * A *part* is one name of one hold. Everything in the model is guarded by its lock,
 * which is never held over a call that may wait; hf_hold_state() and the like are
 * called under it.
 */
#ifndef STORM_H
#define STORM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* ---- A worker (process.c, clients.c, pools.c) ------------------------------------ */

struct client {
    hf_client *handle;
    uint64_t serial;
    bool user_driven;
    int64_t ttl_ms;
    atomic_bool closing, closed;
    struct client *next;
};

enum op_state { OP_FREE, OP_STARTING, OP_RUNNING, OP_ENDED };
enum op_what { OP_ACQUIRE, OP_RELEASE, OP_LATCH };

struct op {
    enum op_what what;
    _Atomic(enum op_state) state;
    uint32_t serial;
    bool by_callback;
    atomic_int refs; /* its callback, and its creator while there is an hf_op */
    atomic_bool cancelled;
    hf_op *handle;
    struct ask ask;
    struct farewell farewell;
    struct latch_view {
        int name;
        uint64_t sets, may_open;
        bool open, closed; /* for sure, when it began */
        int64_t timeout_ms, began_ns;
    } latch;
    uint64_t plan; /* decides what its callback does */
};

struct watch {
    uint32_t serial;
    atomic_int lost;
    atomic_bool released; /* its hf_release() has returned */
    _Atomic int64_t released_ns;
    int part;
    uint32_t part_serial;
    bool user_driven;
};

#define OPS_MAX 2048
#define WATCHES_MAX 4096
#define HELDS_MAX 10
#define STALE_MAX 64

struct stale {
    hf_hold *handle;
    struct client *client;
};

struct process {
    int number;
    pthread_mutex_t mutex; /* guards what follows */
    struct client *clients[SLOTS_MAX];
    bool slot_moves[SLOTS_MAX]; /* a thread closes or opens its client */
    struct client *all_clients;
    struct held helds[HELDS_MAX];
    size_t helds_count;
    struct op *waiting[HELDS_MAX]; /* ops whose result hf_op_wait() brings */
    size_t waiting_count;
    struct stale stale[STALE_MAX]; /* handles that were released */
    uint32_t stale_at;
    struct op ops[OPS_MAX];
    uint32_t ops_at;
    struct watch watches[WATCHES_MAX];
    uint32_t watches_at;
    atomic_bool stopping;
};

struct seat {
    int number;
    pthread_t thread;
    uint64_t step;
    uint64_t thread_serial;
    struct rng rng;
    int64_t ends_at; /* step at which this thread ends; the next one goes on */
    atomic_bool ended, over;
};

extern struct process *self;
extern _Thread_local struct seat *seat_now; /* NULL: a thread of the library */
extern _Thread_local int in_callback;

int process_run(int number);
void seat_step(struct seat *seat);

struct client *client_pick(struct rng *rng); /* NULL: none is open right now */
void slot_open(size_t slot, struct rng *rng);
bool slot_is_user_driven(size_t slot);
/* Closes its client if there is one, and opens another; not while another thread is
 * at it. A client that could not be opened is tried again that way. */
void slot_renew(size_t slot, struct rng *rng);
void slot_close(size_t slot);
void client_dispatch(struct client *client);

bool held_put(const struct held *held); /* false: the pool is full */
bool held_take(struct rng *rng, struct held *ret_held);
bool held_peek(struct rng *rng, struct held *ret_held);
void stale_put(const struct held *held);
bool stale_peek(struct rng *rng, struct stale *ret_stale);
struct op *op_new(enum op_what what, int refs);
void op_unref(struct op *op);
void op_drop(struct op *op); /* it was never started */
bool waiting_put(struct op *op);
struct op *waiting_take(struct rng *rng);
struct watch *watch_new(const struct held *held, uint32_t *ret_slot);

/* ---- Acts ------------------------------------------------------------------------ */

bool ask_plan(struct ask *ask, struct rng *rng, struct client *client);
void act_acquire(struct rng *rng);
bool acquire_now(struct ask *ask, struct held *ret_held); /* true: it was granted */
void act_acquire_async(struct rng *rng);
void mutex_await(struct rng *rng, struct client *client, int name); /* and goes on */
void act_op(struct rng *rng);
void op_finish(struct op *op); /* cancels it, takes its end, frees it */
void latch_answer(struct op *op, int rc);

void act_release(struct rng *rng);
void release_now(struct held *held, const char *how);
void release_async(struct held *held);
void act_hold(struct rng *rng);
void act_stale(struct rng *rng);
void act_peek(struct rng *rng);
void act_watch(struct held *held);

void verify(struct held *held);
void extend(struct held *held, int64_t ttl_ms);
void downgrade(struct held *held);
void peek_downgrade(const struct held *held); /* while others may release it */

void act_enter_again(struct rng *rng);
void act_step_down(struct rng *rng);
void act_hand_over(struct rng *rng);

void act_id(struct rng *rng);
void act_adopt(struct rng *rng);
void act_leave(struct rng *rng);
void leave_held(struct rng *rng, struct held *held);

void act_inspect(struct rng *rng);
void inspect_name(struct client *client, int name); /* -1: all of them */
void act_evict(struct rng *rng);
void evict_now(struct client *client, int name, uint64_t token);
void act_revoke(struct rng *rng);
void act_diagnose(struct rng *rng);
void act_bad_input(struct rng *rng);

void act_latch(struct rng *rng);
void act_cell(struct rng *rng);
void objects_clear(struct client *client);

void act_close(struct rng *rng);
void act_fork(struct rng *rng);

/* Called inside callbacks. */
void callback_plays(struct client *client, uint64_t plan);

/* ---- Calls and reports (report.c) ------------------------------------------------ */

/* clang-format off */
#define FUNCTIONS(X)                                                                   \
    X(error_name)                                                                      \
    X(error_sentence)                                                                  \
    X(open)                                                                            \
    X(close)                                                                           \
    X(capabilities)                                                                    \
    X(version)                                                                         \
    X(stores)                                                                          \
    X(acquire)                                                                         \
    X(lock)                                                                            \
    X(release) X(acquire_async) X(release_async) X(op_cancel) X(op_wait) X(op_done)    \
        X(op_free) X(hold_count) X(hold_token) X(hold_state) X(hold_left_ms)           \
            X(hold_verify) X(hold_watch) X(hold_extend) X(hold_downgrade) X(hold_id)   \
                X(adopt) X(hold_leave) X(latch_set) X(latch_count) X(latch_count_down) \
                    X(latch_wait) X(latch_wait_async) X(cell_get) X(cell_set) X(free)  \
                        X(inspect) X(report_count) X(report_entry) X(report_free)      \
                            X(evict) X(revoke) X(diagnose) X(report_finding)           \
                                X(dispatch_fd) X(dispatch)
/* clang-format on */

enum function {
#define FUNCTION_ENUM(name) FN_##name,
    FUNCTIONS(FUNCTION_ENUM)
#undef FUNCTION_ENUM
        FN_COUNT
};

/* Counts a call that answers a code, or one that answers something else. */
#define CALL(name, ...) called(FN_##name, hf_##name(__VA_ARGS__))
#define COUNTED(name) (atomic_fetch_add(&world->calls[FN_##name], 1))

int called(enum function function, int rc);
int64_t now_ns(void);
void event(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A promise was broken; `check` is its number in README.md. */
void violation(int check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The storm itself cannot go on. */
_Noreturn void trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *code_name(int rc);
/* A code that no promise forbids where requests get lost or the machine is late. */
bool is_weather(int rc, int64_t began_ns);
void report_events(void);
bool report_end(void); /* false: a function was never called in a long run */

/* ---- Stores (stores.c) ----------------------------------------------------------- */

void store_start(void);   /* in the supervisor; fills in world->url and caps */
void store_connect(void); /* in each process, before its first client */
void store_weather(struct rng *rng); /* lossy runs: what breaks next, or nothing */
void store_calm(void);
void store_end(void); /* residue, then stops it */

#endif
