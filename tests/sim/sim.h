/* SPDX-License-Identifier: MIT */
/*
 * The simulator, from below: virtual system (os.c), a lease server and the network to
 * it (server.c, net.c), the store that speaks to it (store.c), what must hold
 * (oracle.c), actors that lock and let go (actors.c, acts.c), what befalls them
 * (nemesis.c), the scheduler (world.c) and the command line (main.c).
 *
 * One thread. Every decision is drawn from the seed, in an order that depends on
 * nothing else, so that a seed replays exactly.
 */
#ifndef HF_TESTS_SIM_H
#define HF_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/holdfast/backend.h"

enum { CLIENTS_MAX = 8, ACTORS_MAX = 4, NAMES_MAX = 8, PARTS_MAX = 3 };

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)
#define NEVER INT64_MAX

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
int64_t os_node_now(void);
extern struct node_clock os_clocks[CLIENTS_MAX];
int64_t os_ready_at(int fd); /* true time at which it polls readable; NEVER */
int64_t os_node_ready(int node, int fd); /* of a node's one descriptor, from memory */

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
        objects, reopen, in_callback; /* per mille */
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
    X(EVICT)

enum event_kind {
#define EVENT_ENUM(name) EVENT_##name,
    EVENTS(EVENT_ENUM)
#undef EVENT_ENUM
};
void trace(enum event_kind kind, int client, int actor, uint64_t a, uint64_t b);

struct count {
    uint64_t acquisitions, exposed, faults, refused, lost, ended;
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
bool sim_nested(void); /* inside a blocking call: no other one may begin */
bool sim_healed(void);
void sim_block(int node, int epoll_fd, int64_t until); /* from a wrapped epoll_wait */
struct client *sim_client(int index);

/* ---- the lease server ------------------------------------------------------------ */

extern const struct hf_backend sim_backend;

struct item {
    struct hf_id id;
    int32_t name; /* index */
    int32_t kind;
    int64_t ttl_ns;
    int32_t answer;
};

enum msg_kind {
    MSG_ATTEMPT = 1,
    MSG_WITHDRAW,
    MSG_RENEW,
    MSG_ASK,
    MSG_GRANT, /* pushed */
    MSG_LOST,  /* pushed */
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
    struct hf_id call_id;
    int64_t ttl_ns, left_ns, server_ns;
    struct item items[ITEMS_MAX];
};

enum answer { ANSWER_GRANTED = 1, ANSWER_QUEUED, ANSWER_BUSY };

void server_reset(void);
void server_receive(struct msg *msg);
void server_forget(void); /* a crash that keeps nothing */
/* How many that somebody should have withdrawn, and which was the last. */
size_t server_tickets(char *text, size_t size);
int64_t server_clock(void);
bool server_evict_any(uint64_t *ret_token, int *ret_name);
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

struct name {
    char text[16];
    enum family family;
    uint32_t limit;
    uint64_t told; /* the largest token told so far, and to whom */
    uint64_t told_owner;
    int told_client;
    uint64_t evicted; /* grants up to here may have been taken away */
    uint64_t fence;   /* the register: the largest token that touched it ... */
    uint64_t value;   /* ... and what it holds */
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
    bool lost_seen;
};

void oracle_reset(void);
uint64_t oracle_number(uint64_t token); /* as it goes into the trace */
void oracle_granted(struct belief *belief, uint64_t floor);
void oracle_work(struct belief *belief); /* reads and writes the register */
void oracle_ended(struct belief *belief);
void oracle_check(void); /* exclusion, now */

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
    bool latch, poll, once, cancelled, watched, told_lost, in_call, wants_reopen;
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
    bool blocked; /* inside a call that waits */
    bool closing, dead;
    int64_t not_before; /* does nothing until then */
    int64_t stalled;    /* sum of its pauses */
    struct actor actors[ACTORS_MAX];
};

void client_open(struct client *client);
void client_close(struct client *client);
void actor_act(struct actor *actor);
bool actor_busy(const struct actor *actor);
void actor_tell_lost(struct actor *actor);
void actor_release(struct actor *actor, bool may_block);

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
