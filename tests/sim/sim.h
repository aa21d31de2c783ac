/* SPDX-License-Identifier: MIT */
/*
 * The simulator, from below: virtual system (os.c) and its threads (threads.c), a lease
 * server and the network to it (server.c, net.c), the store that speaks to it
 * (store.c), what must hold (oracle.c), actors that lock and let go (actors.c, acts.c),
 * what befalls them (nemesis.c), the scheduler (world.c) and the command line (main.c).
 *
 * One thread of this process, whatever runs in it. Every decision is drawn from the
 * seed, in an order that depends on nothing else, so that a seed replays exactly.
 */
#ifndef HF_TESTS_SIM_H
#define HF_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/holdfast/backend.h"

enum { CLIENTS_MAX = 8, ACTORS_MAX = 6, NAMES_MAX = 8, PARTS_MAX = 3 };
enum { THREADS_MAX = CLIENTS_MAX * (ACTORS_MAX + 3) };

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define NEVER INT64_MAX
#define BY_THREAD (UINT64_C(1) << 63) /* an owner that is a thread */

/* ---- chance ---------------------------------------------------------------------- */

uint64_t dice(void);                             /* 64 bits of the seed's stream */
int64_t dice_between(int64_t low, int64_t high); /* inclusive */
bool dice_chance(uint32_t per_mille);
int64_t dice_spread(int64_t mean); /* 0 .. many times the mean, as waiting times are */

/* ---- the virtual system ---------------------------------------------------------- */

extern int64_t sim_now; /* true time, ns since the seed began */

/* A node's clock: starts anywhere and runs `ppm` too fast. */
struct node_clock {
    int64_t start;
    int64_t ppm;
};
int64_t clock_read(const struct node_clock *clock, int64_t at);
int64_t clock_reach(const struct node_clock *clock, int64_t reading); /* true time */

/* Whose code is running: its clock is what hf__now() says. */
void os_reset(uint64_t seed);
int os_enter(int node); /* the node before */
int os_node(void);
int64_t os_node_now(void);
extern struct node_clock os_clocks[CLIENTS_MAX];
int64_t os_ready_at(int fd); /* true time at which it polls readable; NEVER */
int64_t os_node_ready(int node, int fd); /* of a node's one descriptor, from memory */
uint64_t os_changes(int node);           /* how often one of its descriptors changed */

/* ---- threads --------------------------------------------------------------------- */

struct thread;

/* Who a thread is to the library: its thread-local variables. */
struct identity {
    uint64_t serial;
    unsigned char locals[64];
};

void threads_init(void);
void threads_reset(void);
void identity_renew(struct identity *self); /* a thread that never ran before */
struct thread *thread_start(int node, struct identity *self, void (*work)(void *),
                            void *arg);
/* The thread that can go on first, if before *ret_at. */
struct thread *threads_next(int64_t *ret_at);
void thread_resume(
    struct thread *thread); /* until it sleeps, ends, or loses its turn */
int thread_index(const struct thread *thread);
int thread_node(const struct thread *thread);
bool threads_of(int node);    /* some are under way */
uint64_t thread_serial(void); /* of the one that runs */
void thread_point(void);      /* others may run here */
void thread_guard(bool on);   /* or not, until it is off again */
void thread_nap(int64_t span);
void thread_poll(int fd, int64_t until);

/* ---- settings of one seed -------------------------------------------------------- */

enum sim_store { SIM_MEM = 0, SIM_FAULT, SIM_LEASE, SIM_STORES };

enum mutant {
    MUTANT_NONE = 0,
    MUTANT_DOUBLE_GRANT, /* the server lets one in who is not in */
    MUTANT_TOKEN,        /* a grant does not raise the token */
    MUTANT_ARRIVAL,      /* a lease counts from when the answer came */
    MUTANT_LATE_RENEWAL, /* a renewal's answer counts for the last one sent */
    MUTANT_KEEP_TICKET,  /* a withdrawal is confirmed and not done */
    MUTANT_NO_PUSH,      /* the next in line is not told, nor asks again */
    MUTANT_CORE_ARRIVAL, /* core: a grant counts from when it is read */
    MUTANT_CORE_NO_WORD, /* core: now and then an answer wakes nobody */
    MUTANT_CORE_DEAF,    /* core: a renewal refused is taken for a success */
    MUTANT_OFFER_OWNER,  /* core: who takes an offer does not become the owner */
    MUTANT_OFFER_KEPT,   /* core: who times out keeps the offer made to it */
    MUTANT_OFFER_LEASE,  /* core: an offer is taken with the lease it had */
    MUTANTS,
};
extern enum mutant mutant;
extern const char *const mutant_names[MUTANTS];

struct settings {
    enum sim_store store;
    uint64_t seed;
    uint64_t goal; /* acquisitions */
    int clients, actors, names;
    int64_t ttl_ms, request_ms, hold_ns, think_ns, delay_ns, ttl_most_ms;
    int handoff;
    uint32_t faults; /* bits of enum fault */
    int64_t calm_ns; /* mean time between faults */
    uint32_t forever, once, cancel, multi, blocking, fixed, capped, watch, poll,
        objects, reopen, in_callback, by_thread, leased, again, renew_thread,
        background, preempt, evict, adopt, leave, strange; /* per mille */
    int64_t preempt_ns;
};
extern struct settings set;

/* ---- what happened --------------------------------------------------------------- */

#define EVENTS(X)                                                                      \
    X(ASK)                                                                             \
    X(ASK_MULTI)                                                                       \
    X(GRANT)                                                                           \
    X(END)                                                                             \
    X(CANCEL)                                                                          \
    X(DROP)                                                                            \
    X(RELEASE)                                                                         \
    X(RELEASED)                                                                        \
    X(WATCH)                                                                           \
    X(EVENT)                                                                           \
    X(EXTEND)                                                                          \
    X(VERIFY)                                                                          \
    X(DOWNGRADE)                                                                       \
    X(LATCH)                                                                           \
    X(CELL)                                                                            \
    X(CLOSE)                                                                           \
    X(OPEN)                                                                            \
    X(SEND)                                                                            \
    X(ARRIVE)                                                                          \
    X(REPLY)                                                                           \
    X(ADMIT)                                                                           \
    X(EXPIRE)                                                                          \
    X(FAULT)                                                                           \
    X(HEAL)                                                                            \
    X(DISPATCH)                                                                        \
    X(BLOCK)                                                                           \
    X(RUN)                                                                             \
    X(AGAIN)                                                                           \
    X(THREAD)                                                                          \
    X(ADOPT)                                                                           \
    X(LEAVE)                                                                           \
    X(EVICT)

enum event_kind {
#define EVENT_ENUM(name) EVENT_##name,
    EVENTS(EVENT_ENUM)
#undef EVENT_ENUM
};
void trace(enum event_kind kind, int client, int actor, uint64_t a, uint64_t b);

struct count {
    uint64_t acquisitions, exposed, faults, refused, lost, ended;
    uint64_t offers, handoffs, switches, evicted, adopted;
    int64_t virtual_ns;
    uint64_t hash;
};
extern struct count count;

/* Says what is wrong and stops the seed. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool violated(void);
extern bool verbose;

/* ---- the scheduler --------------------------------------------------------------- */

struct client;
bool sim_healed(void);
struct client *sim_client(int index);

/* ---- the lease server ------------------------------------------------------------ */

extern const struct hf_backend sim_backend;

struct item {
    struct hf_id id;
    int32_t name; /* index */
    int32_t kind;
    int64_t ttl_ns;
    int32_t answer;
    uint64_t token; /* that holds now; 0: the first one */
};

enum msg_kind {
    MSG_ATTEMPT = 1,
    MSG_WITHDRAW,
    MSG_RENEW,
    MSG_ASK,
    MSG_GRANT, /* pushed */
    MSG_LOST,  /* pushed */
    MSG_WHICH, /* pushed: which number holds? */
    MSG_EOF,   /* the connection is gone */
};

enum { ITEMS_MAX = 4 };

struct msg {
    struct msg *next;
    int64_t at;
    uint64_t sequence;
    int32_t kind, client;
    uint32_t epoch;
    bool to_server;
    uint64_t call;
    int32_t mode, verb, answer; /* answer: of enum answer, or an rc */
    uint32_t flags, permits, limit, reserve, count, span;
    uint64_t token, number;
    struct hf_id call_id, other;
    int64_t ttl_ns, left_ns, server_ns;
    struct item items[ITEMS_MAX];
};

enum answer { ANSWER_GRANTED = 1, ANSWER_QUEUED, ANSWER_BUSY, ANSWER_ASKED };

void server_reset(void);
void server_receive(struct msg *msg);
void server_forget(void); /* a crash that keeps nothing */
/* How many that somebody should have withdrawn, and which was the last. */
size_t server_tickets(char *text, size_t size);
int64_t server_clock(void);
bool server_evict_any(uint64_t *ret_first, uint64_t *ret_last, int *ret_name);
extern struct node_clock server_node;

struct net_side {
    int64_t last_at;
    bool blocked;
    struct msg *stalled, **stalled_end;
};
struct net_conn {
    uint32_t epoch;
    bool up;                 /* as the server sees it */
    struct net_side side[2]; /* 0: to the client, 1: to the server */
};
struct net {
    struct net_conn conns[CLIENTS_MAX];
    bool server_up, server_paused;
    bool left_behind; /* tickets whose client is no more: leases end them */
    uint32_t loss;    /* per mille of messages */
    int64_t delay_ns;
};
extern struct net net;

void net_reset(void);
void net_done(void);
struct msg *msg_new(int kind, int client);
void msg_free(struct msg *msg);
void net_send(struct msg *msg, bool to_server);
int64_t net_next(void);
void net_step(void);
void net_block(int client, int side, bool blocked);
void net_pause_server(bool paused);
void net_cut(int client, int64_t notice_ns);
void session_receive(int client, struct msg *msg);

int name_index(const char *name);

/* ---- what must hold -------------------------------------------------------------- */

enum family { FAMILY_MUTEX = 0, FAMILY_RW, FAMILY_PERMITS, FAMILY_EXPIRING, FAMILIES };

enum { EVICTIONS_KEPT = 64, TOKENS_KEPT = 8 };

struct range {
    uint64_t first, last;
};

struct name {
    char text[160];
    enum family family;
    uint32_t limit;
    uint64_t told; /* the largest token told so far, and to whom */
    uint64_t told_owner;
    int told_client;
    struct range gone[EVICTIONS_KEPT]; /* numbers that were evicted, or may be */
    uint32_t gone_next;
    uint64_t done[TOKENS_KEPT]; /* released, for certain */
    uint32_t done_next;
    uint64_t fence; /* the register: the largest token that touched it ... */
    uint64_t value; /* ... and what it holds */
    struct belief *beliefs;
    int belief_count;
};
extern struct name names[NAMES_MAX];

/* One want of a hold that an actor has been given. */
struct belief {
    struct belief *next;
    const hf_hold *hold;
    int client, name;
    int32_t kind;
    uint32_t permits;
    uint64_t token, owner, value;
    uint64_t closes; /* of its client, when it was asked for */
    bool lost_seen;
    int moved;       /* adoptions that have moved it, or may have */
    bool gone;       /* evicted or adopted, for certain */
    bool ghost;      /* left behind: held by no handle ... */
    int64_t until;   /* ... and at least until then */
    bool for_good;   /* without a lease: ends by release, eviction or adoption only */
    int64_t dies_at; /* fixed or capped: not ours after this, true time */
};

void oracle_reset(void);
uint64_t oracle_number(uint64_t token); /* as it goes into the trace */
void oracle_granted(struct belief *belief, uint64_t floor);
bool oracle_alive(struct belief *belief);          /* held, by its own client's clock */
void oracle_extended(const struct belief *belief); /* its lease, or is about to be */
void oracle_work(struct belief *belief);           /* reads and writes the register */
void oracle_ended(struct belief *belief);
uint32_t oracle_evicting(int name, uint64_t first, uint64_t last); /* or it has been */
void oracle_not_evicted(int name, uint32_t entry);
bool oracle_is_evicted(int name, uint64_t token);
/* A belief with that token, or NULL; all of them are moved, or are not after all. */
struct belief *oracle_holder(int name, uint64_t token);
void oracle_moved(int name, uint64_t token, bool moved);
void oracle_gone(int name, uint64_t token); /* for certain */
void oracle_adopted(struct belief *belief);
void oracle_left(const struct belief *belief, int64_t until); /* becomes a ghost */
void oracle_forget(void); /* the server has: nothing is left behind any more */
bool oracle_is_gone(const struct belief *belief); /* evicted or adopted */
void oracle_check(void);                          /* exclusion, now */

void objects_reset(void);
void objects_forget(void); /* the server lost its memory */
void objects_act(int client, hf_client *handle);
void objects_heal(int client, hf_client *handle);
int64_t objects_wait_began(void);
void objects_wait_ended(int64_t began, int rc);
extern const char objects_latch[];

/* ---- actors ---------------------------------------------------------------------- */

enum actor_state { ACTOR_IDLE = 0, ACTOR_WAITING, ACTOR_HOLDING, ACTOR_LEAVING };

struct actor {
    enum actor_state state;
    int client, index;
    int64_t next_at;
    uint64_t owner;
    hf_op *op;
    hf_hold *hold;
    bool busy;            /* a thread of its own is under way */
    bool in_call;         /* inside a callback */
    bool new_thread;      /* the next one has a new identity */
    struct identity self; /* of its thread */
    uint64_t round;       /* how many acquires have ended */
    hf_op *spent;         /* ended while its thread was using it: to be freed */
    hf_hold *leaving;     /* inside hf_release() */
    bool latch, poll, once, cancelled, watched, told_lost, posted;
    bool was_gone, was_fine; /* what its last hold was when the release began */
    int released;            /* of its parts */
    uint64_t closes_before;
    int64_t asked_ttl_ms, asked_max_ms;
    uint32_t asked_flags;
    int64_t began, timeout_ns, stalled_before, latch_began, release_at;
    uint64_t faults_before;
    bool exposed;
    int count;
    struct belief parts[PARTS_MAX];
    uint64_t floor[PARTS_MAX];
};

struct client {
    hf_client *handle; /* NULL: not open */
    int fd;
    int index;
    bool closing, dead;
    bool frozen;      /* dead, and its threads stay where they are */
    bool dispatching; /* its loop's thread is in hf_dispatch() */
    bool background;  /* it has a thread of the library instead */
    uint64_t closes;
    int64_t loop_not_before;
    struct identity loop_self;
    int64_t not_before; /* does nothing until then */
    int64_t stalled;    /* sum of its pauses */
    struct actor actors[ACTORS_MAX];
};

void client_open(struct client *client);
void client_close(struct client *client); /* by one of its threads */
struct client *client_of(const struct actor *actor);
void actor_act(void *actor); /* what its thread does next */
void actor_rest(struct actor *actor);
void actor_acquire(struct actor *actor);
void actor_wait_latch(struct actor *actor);
void actor_ended(struct actor *actor, int rc, hf_hold *hold);
bool actor_was_closed(const struct actor *actor);
bool actor_busy(const struct actor *actor);
void actor_tell_lost(struct actor *actor);
void actor_release(struct actor *actor, bool may_block);
void actor_take(struct actor *actor, hf_hold *hold, bool adopted);
void actor_begin(struct actor *actor);
void actor_draw_options(struct actor *actor, hf_acquire_options *options);
void actor_end_beliefs(struct actor *actor);

/* repair.c: what is done to holds by their token or their id. */
void repair_reset(void);
bool repair_evict(struct actor *actor);
bool repair_adopt(struct actor *actor); /* false: there was nothing to do */
void repair_post(struct actor *actor);  /* lets others adopt what it holds */
void repair_leave(struct actor *actor); /* and leaves it to them */
void repair_released(int name, uint64_t token);
hf_watch_cb actor_told;

/* ---- what befalls them ----------------------------------------------------------- */

enum fault {
    FAULT_PAUSE = 0, /* a client gets no turn */
    FAULT_CUT,
    FAULT_STALL_UP,
    FAULT_STALL_DOWN,
    FAULT_PARTITION,
    FAULT_SERVER_PAUSE,
    FAULT_CRASH,  /* with its state */
    FAULT_FORGET, /* without, and away for longer than any lease */
    FAULT_LOSS,
    FAULT_SLOW,
    FAULT_KILL,
    FAULT_EVICT,
    FAULT_PLAN,   /* of the fault shim */
    FAULT_FREEZE, /* of the fault shim */
    FAULTS,
};

void nemesis_reset(void);
int64_t nemesis_next(void);
bool nemesis_is_at_it(void);
void nemesis_act(void);
int64_t nemesis_heal(void); /* when its last fault is over */

/* world.c: runs one seed; false if something was wrong. */
bool sim_run(const struct settings *settings);
void settings_draw(struct settings *settings, enum sim_store store, uint64_t seed,
                   uint64_t goal);

#endif
