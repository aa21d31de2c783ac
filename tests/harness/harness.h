/* SPDX-License-Identifier: MIT */
/*
 * What scenarios are written with: stores, forms, the environment of one scenario, and
 * short words for what scenarios do all the time.
 *
 * A *form* is a kind of lock dressed as something that can be taken: a semaphore of
 * one, a semaphore of five with four permits out, a write lock, three names at once.
 * Each has a *subject* (what the scenario is about) and a *rival* (a want that cannot
 * be had while the subject is held, and the other way round). For all but read locks
 * the two are the same, so that a scenario written once proves every form.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <pthread.h>
#include <stdatomic.h>

#include "../../include/holdfast.h"
#include "check.h"

/* ---- Forms ----------------------------------------------------------------------- */

enum form_bit {
    MUTEX = 1 << 0,
    REENTRANT = 1 << 1,
    FAIR = 1 << 2,
    READ = 1 << 3,
    WRITE = 1 << 4,
    PERMITS = 1 << 5,
    PERMITS_OF_5 = 1 << 6,
    EXPIRING = 1 << 7,
    LATCH = 1 << 8,
    CELL = 1 << 9,
    MULTI = 1 << 10,
    STRIPED = 1 << 11,
};

#define SEMAPHORES (PERMITS | PERMITS_OF_5 | EXPIRING)
/* One want each; and all that can be held; and all that exclude their own like. */
#define SINGLES (MUTEX | REENTRANT | FAIR | READ | WRITE | SEMAPHORES | STRIPED)
#define LOCKS (SINGLES | MULTI)
#define EXCLUSIVE (LOCKS & ~READ)

struct wants {
    hf_want want[3];
    size_t count;
    char text[3][HF_NAME_MAX + 1];
};

struct form {
    const char *name;
    const char *kind;   /* the row of the matrix it belongs to */
    uint64_t caps;      /* what a store needs for it */
    uint32_t name_room; /* bytes of a name that the form itself needs */
    int code;           /* enum hf_kind of its first want */
    int64_t ttl_ms;     /* lease to ask for where the scenario does not care */
    bool ballast;       /* four of five permits are taken beforehand */
    void (*fill)(struct wants *wants, const char *name, bool rival);
};

extern const struct form forms[]; /* by the number of the bit; ends with a NULL name */
const struct form *form_find(const char *name);
void form_wants(const struct form *form, struct wants *wants, const char *name,
                bool rival);

/* ---- Stores ---------------------------------------------------------------------- */

struct env;

/* Capabilities that are not the library's: bits above those of enum hf_capability. */
#define NEED_FAULT (UINT64_C(1) << 40)   /* the store is wrapped by the fault shim */
#define NEED_ENDLESS (UINT64_C(1) << 41) /* a hold that asks for no lease has none */
#define NEED_LONG (UINT64_C(1) << 42)    /* a lease may be years long, unrenewed */
#define NEED_PROMPT (UINT64_C(1) << 43)  /* a lease ends by the store's own clock */

struct store {
    const char *name; /* as in --store, and as in the matrix */
    uint64_t caps;    /* exactly what hf_capabilities() has to say, and NEED_... */

    /* Makes a private store and writes its URL; undoes it after the scenario. */
    void (*start)(struct env *e);
    void (*stop)(struct env *e);

    /* Names one thing that is left behind and should not be; false if there is none.
     * And how much the store occupies, in a unit of its own. */
    bool (*residue)(const struct env *e, char *text, size_t size);
    uint64_t (*weight)(const struct env *e);

    /* In the runner, before a test is started: what tests share because it takes long
     * to start. Tests of one lane run one after the other. May be NULL. */
    void (*prepare)(size_t lane);

    /* After the scenario, before its clients are closed: waits until servers whose
     * clock was moved have got over it. May be NULL. */
    void (*settle)(const struct env *e);
};

extern const struct store stores[]; /* ends with a NULL name */
const struct store *store_find(const char *name);

/* Makes the shims known that `url` needs. */
void stores_register(const char *url);

/* The name of a capability bit, for messages and the matrix. */
const char *capability_name(uint64_t bit);

/* ---- Scenarios ------------------------------------------------------------------- */

enum scenario_flag {
    CLOCK = 1 << 0, /* runs on the virtual clock; sleeps of the library are cut short */
};

struct scenario {
    const char *name;
    uint32_t forms; /* enum form_bit */
    uint64_t needs; /* capabilities beyond those of the form */
    uint32_t flags;
    void (*run)(struct env *e);
};

/* ---- The environment of one scenario --------------------------------------------- */

#define CLIENTS_MAX 128
#define TAKERS_MAX 16

struct taker {
    int64_t pid;
    int in;
    int out;
    size_t filled;
    char line[HF_ID_MAX + 64];
};

struct ballast {
    char *name;
    hf_hold *hold;
    struct ballast *next;
};

struct env {
    const struct store *store;
    const struct form *form;
    const struct scenario *scenario;
    char scratch[128]; /* a private directory; the runner removes it */
    char url[256];
    char clock[160]; /* the file of the virtual clock, if the store has one already */
    pthread_mutex_t mutex; /* recursive; guards what follows */
    hf_client *clients[CLIENTS_MAX];
    struct taker takers[TAKERS_MAX]; /* free if the pid is 0 */
    hf_client *ballast_client;
    struct ballast *ballasts;
    void *store_data;
};

/* Runs one scenario from the first check to the last, residue included. */
void env_run(const struct store *store, const struct form *form,
             const struct scenario *scenario, const char *scratch);

/* A new client on the scenario's store; closed at the end if not before. */
hf_client *client_open(struct env *e);
hf_client *client_with(struct env *e, const hf_options *options);
void client_close(struct env *e, hf_client *client);

/* How long a client waits for an answer that is going to be lost: short, but longer
 * than any other one takes. */
int64_t hasty_ms(const struct env *e);

/* Moves the clock of every process of the scenario (CLOCK only). */
void clock_advance(int64_t ms);

/* ---- Taking ---------------------------------------------------------------------- */

/* How to take: all zero takes the subject once, as owner 1, on the name "thing". */
struct take {
    const char *name;
    bool rival;
    uint64_t who; /* owner, for reentrant */
    int64_t timeout;
    int64_t ttl;
    int64_t max_hold;
    const char *note;
    uint32_t flags;
};

#define THING "thing"

int take_with(struct env *e, hf_client *client, hf_hold **ret_hold, struct take how);
hf_hold *held_with(struct env *e, hf_client *client, struct take how);
hf_hold *held_soon_with(struct env *e, hf_client *client, struct take how);
hf_op *begin_with(struct env *e, hf_client *client, hf_acquire_cb *callback, void *user,
                  struct take how);

/* take: the code. held: must succeed. held_soon: must succeed, as a lease is over; but
 * where it is not the store's clock that ends it, only in a moment. begin:
 * asynchronous, the op (which is the caller's only without callback). busy: must be
 * refused. */
#define take(e, client, ret_hold, ...)                                                 \
    take_with((e), (client), (ret_hold), (struct take){ __VA_ARGS__ })
#define held(e, client, ...) held_with((e), (client), (struct take){ __VA_ARGS__ })
#define held_soon(e, client, ...)                                                      \
    held_soon_with((e), (client), (struct take){ __VA_ARGS__ })
#define begin(e, client, callback, user, ...)                                          \
    begin_with((e), (client), (callback), (user), (struct take){ __VA_ARGS__ })
#define CHECK_BUSY(e, client, ...)                                                     \
    CHECK_RC(take((e), (client), &(hf_hold *){ NULL }, __VA_ARGS__), HF_EBUSY)

/* Takes the four permits of a form that wants them gone, if that was not done yet.
 * Done by itself but for takers' own requests. */
void ballast_ensure(struct env *e, const char *name);

/* Must succeed. And: the name can be had by the rival now, through a new client. */
void let_go(hf_hold *hold);
void check_free(struct env *e);

/* An op without callback: its end, its hold, and the op itself are done with. */
int op_end(hf_op *op, int64_t timeout_ms, hf_hold **ret_hold);

/* How many entries a fresh look shows, all names; ballast does not count. */
size_t seen(struct env *e, hf_client *client, int role);

/* The first holder that a look shows, ballast aside. And: takes the lock from it. */
struct holder {
    char name[HF_NAME_MAX + 1];
    uint64_t token;
};
struct holder holder_find(struct env *e, hf_client *client);
void holder_evict(struct env *e, hf_client *client);

/* True once `count` waiters stand in the queues of the store; for EVENTUALLY. */
bool queued(struct env *e, hf_client *client, size_t count);

/* ---- Being told ------------------------------------------------------------------ */

/* Collects what callbacks say. `ended` counts acquire and done callbacks. */
struct told {
    atomic_int ended;
    atomic_int rc;
    _Atomic(hf_hold *) hold;
    atomic_int lost;
    atomic_int doubtful;
    atomic_int revoked;
    atomic_int foreign; /* callbacks on another thread than `home` */
    pthread_t home;
    bool homed;
};

void told_hold(void *user, int rc, hf_hold *hold, const hf_error *why);
void told_done(void *user, int rc, const hf_error *why);
void told_event(void *user, hf_hold *hold, enum hf_event event, const hf_error *why);

/* A thread that takes and keeps what it got. */
struct contender {
    struct env *e;
    hf_client *client;
    struct take how;
    pthread_t thread;
    int rc;
    hf_hold *hold;
    atomic_bool over;
};

void contender_start(struct contender *contender, struct env *e, hf_client *client,
                     struct take how);
int contender_join(struct contender *contender);

#define contend(contender, e, client, ...)                                             \
    contender_start((contender), (e), (client), (struct take){ __VA_ARGS__ })

/* Runs `body` on `count` threads with the numbers 0 .. count - 1 and waits for all. */
void threads_run(size_t count, void (*body)(void *arg, size_t number), void *arg);

/* ---- Memory ---------------------------------------------------------------------- */

/* Makes the n-th allocation of the library from now fail; 0 ends that. How many
 * allocations it has asked for; what the store occupies. */
void memory_fail(uint64_t nth);
uint64_t memory_asked(void);
uint64_t store_weight(struct env *e);

/* ---- Guarded things -------------------------------------------------------------- */

/* What a lock guards: shared between threads and, through a file, between processes. */
struct guarded {
    atomic_llong inside;     /* how many are in right now */
    atomic_llong most;       /* the most that ever were */
    atomic_llong count;      /* incremented without atomicity, on purpose */
    atomic_llong violations; /* an increment that met somebody, or an old token */
    atomic_ullong token;     /* the largest token seen */
};

struct guarded *guarded_map(const char *path);
void guarded_unmap(struct guarded *guarded);

/* One visit under an exclusive lock. Enter and leave, for locks that several hold. */
void guarded_visit(struct guarded *guarded, uint64_t token);
void guarded_enter(struct guarded *guarded);
void guarded_leave(struct guarded *guarded);

/* A write that carries its token; false if a larger one was seen before. */
bool guarded_write(struct guarded *guarded, uint64_t token);

/* ---- Takers: other processes (see taker.c) --------------------------------------- */

/* Starts one on the scenario's store; `option` NULL or one more argument. It belongs to
 * the environment and is killed at its end. */
struct taker *taker_start(struct env *e, const char *option);
void taker_say(struct taker *taker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The rest of the next line, which must begin with `word`. */
const char *taker_expect(struct taker *taker, const char *word);
bool taker_has_said(const struct taker *taker); /* something that was not read yet */
/* take and expect "held": the token. */
uint64_t taker_take(struct env *e, struct taker *taker, const char *name,
                    int64_t timeout_ms, int64_t ttl_ms, uint32_t flags);
/* The same without waiting for it; the line "held" or "failed" comes later. */
void taker_begin(struct env *e, struct taker *taker, const char *name,
                 int64_t timeout_ms, int64_t ttl_ms, uint32_t flags);
void taker_stop(struct taker *taker); /* SIGSTOP, and it has stopped */
void taker_continue(struct taker *taker);
void taker_kill(struct taker *taker);  /* SIGKILL, and it is gone */
void taker_close(struct taker *taker); /* it closes its client, and is gone */
void taker_gone(struct taker *taker);  /* waits until it has ended */

#endif
