/* SPDX-License-Identifier: MIT */
/* What all processes of a storm share: what was asked for, names, parts, the model. */
#ifndef STORM_MODEL_H
#define STORM_MODEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/holdfast.h"

#define NAMES_MAX 32
#define PARTS_MAX 1024
#define IDS_MAX 48
#define GRANTS_KEPT 32
#define TAKINGS_KEPT 64
#define DISPUTES_MAX 256
#define PART_DISPUTES 6
#define PROCESSES_MAX 16
#define SEATS_MAX 16
#define LANES (SEATS_MAX + 2) /* seats, the loop, the client's own thread */
#define EVENTS_KEPT 64
#define WANTS_MAX 3
#define SLOTS_MAX 4
#define CODES 24

#define NS_PER_MS INT64_C(1000000)
#define FAR (INT64_MAX / 2)

/* ---- What was asked for (main.c) ------------------------------------------------- */

enum kinds_bit {
    K_MUTEX = 1 << 0,
    K_RW = 1 << 1,
    K_PERMITS = 1 << 2,
    K_EXPIRING = 1 << 3,
    K_LATCH = 1 << 4,
    K_CELL = 1 << 5,
    K_ALL = (1 << 6) - 1,
};

struct config {
    char store[32];
    uint64_t seed;
    int64_t seconds; /* 0: until the steps are done */
    int64_t steps;   /* of each seat; 0: until the time is over */
    int processes;
    int threads;
    int clients;
    bool lossy;
    bool unsent; /* lossy, but what fails has not been done: losses are told exactly */
    bool kills;
    bool pure; /* no name is asked for as another kind */
    uint32_t kinds;
    char skip[160]; /* acts that are left out, as ",fork,close," */
};

/* ---- Random streams (plan.c) ----------------------------------------------------- */

struct rng {
    uint64_t state;
};

uint64_t rng_next(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t bound);
bool rng_chance(struct rng *rng, uint32_t of_thousand);
/* The stream of one step: the same in each run, whatever happened before it. */
struct rng plan_step(uint64_t seed, int process, int seat, uint64_t step);

/* ---- Names (names.c) ------------------------------------------------------------- */

enum family { F_MUTEX = 1, F_RW, F_PERMITS, F_EXPIRING, F_LATCH, F_CELL };

struct grant {
    uint64_t token;
    uint64_t owner;
    int64_t over_ns;  /* when its last release returned; 0: not yet */
    int64_t freed_ns; /* since when the store cannot have it; 0: not known */
    int kind;         /* now: a writer may have become a reader */
    bool reentrant;
    bool handed; /* released while others waited: one of them may be getting it */
    bool passed; /* that was so, and may be over */
};

/* An eviction or adoption of a token, for as long as it is remembered: also for handles
 * of that grant that come to be known only later. */
enum taking_state { TAKE_FAILED, TAKE_RUNS, TAKE_OPEN, TAKE_DONE };
struct taking {
    uint64_t token;
    uint32_t serial; /* of its name, growing */
    enum taking_state state;
    bool adoption;
};

/* A latch or cell, as far as callers know it (act_latch.c, act_cell.c). */
#define VERSIONS_KEPT 64
struct latch {
    uint64_t least;      /* what is left of it is at least this */
    uint64_t sets;       /* hf_latch_set() that began */
    uint64_t setting;    /* and are under way */
    uint64_t downs;      /* sum of all count-downs that began */
    uint64_t going_down; /* and are under way */
    uint64_t may_open;   /* times at which it may have been open */
    uint64_t late_downs; /* sum of those that told no outcome: until then they may */
    int64_t late_until;  /* still be done */
    int64_t set_until;   /* the same of hf_latch_set() */
    bool surely_open;    /* and no hf_latch_set() has begun since */
};
struct cell {
    uint64_t begun, under_way; /* writes */
    uint64_t version;          /* the largest that was told */
    bool known;                /* `version` is what the store has; 0: no cell */
    uint64_t consumed[VERSIONS_KEPT];
    uint64_t written[VERSIONS_KEPT], hash[VERSIONS_KEPT];
    uint32_t consumed_at, written_at;
};

struct name {
    char text[HF_NAME_MAX + 1];
    char base[HF_NAME_MAX + 1]; /* of a stripe: the name it is a part of */
    uint32_t stripes;
    enum family family;
    uint32_t limit;
    bool mixed; /* is also asked for as other kinds */
    /* The model's, under its lock: */
    uint64_t max_token;
    uint64_t activity; /* acquires and adoptions that ever began */
    int asking_by[PROCESSES_MAX];
    int64_t asking;       /* acquires and adoptions under way */
    int64_t busy;         /* those, parts, releases under way */
    int64_t linger_until; /* something may be left until then that no caller has */
    uint64_t revokes;
    uint64_t evictions;
    struct grant grants[GRANTS_KEPT];
    uint32_t grants_at;
    struct taking takings[TAKINGS_KEPT];
    uint32_t takings_begun; /* the serial of the latest */
    struct latch latch;
    struct cell cell;
};

void names_make(struct name *names, size_t *ret_count, const struct config *config);
/* A name that the store refuses for that kind, by its documents. */
bool name_is_refused(const char *store, const char *text, int kind);
int name_find(const char *text); /* -1: not in this run */

/* ---- The model (model*.c) ------------------------------------------ */

enum part_flag {
    P_USED = 1 << 0,
    P_RELEASING = 1 << 1,
    P_EVICT_TRIED = 1 << 2, /* an eviction of this token began; the outcome is open */
    P_EVICTED = 1 << 3,
    P_ADOPT_TRIED = 1 << 4,
    P_ADOPTED = 1 << 5,
    P_CLOSING = 1 << 6,
    P_CLOSED = 1 << 7,
    P_LEFT = 1 << 8, /* in the store alone, without a handle */
    P_DOWNGRADING = 1 << 9,
    P_DOUBTED = 1 << 10, /* a fault may have cost it */
    P_DOWNGRADED = 1 << 11,
};
#define P_TAKEN (P_EVICT_TRIED | P_EVICTED | P_ADOPT_TRIED | P_ADOPTED)
#define P_EXCUSED (P_TAKEN | P_CLOSING | P_CLOSED | P_DOUBTED)

struct part {
    uint32_t flags;
    uint32_t serial; /* tells users of one slot apart */
    int name;
    int kind;
    uint32_t permits, limit;
    uint64_t token;
    uint64_t owner; /* of a reentrant one: who may enter again */
    int process;
    uint64_t client; /* serial of the client */
    hf_hold *handle; /* good in its process, until P_RELEASING */
    int64_t since_ns;
    int64_t asked_ns;   /* when its acquire began */
    int64_t sure_until; /* of P_LEFT */
    int64_t fixed_end;  /* never held after this; FAR: no such end */
    int64_t ttl_ms;     /* the longest lease that was asked for */
    bool leased, detached;
    bool left_once;      /* through another handle: releases do not ask the store */
    bool fixed;          /* nothing renews it */
    bool claim_detached; /* as the first of those who share the grant asked */
    bool detach_open; /* which of two that entered together came first is not known */
    uint32_t adopted_after; /* earlier adoptions of its token are none of it */
    uint32_t entered;       /* how often its owner has asked for it again */
    uint32_t extends;       /* of its grant that ever began */
    int extending;          /* of those, under way */
    bool lease_open;        /* the outcome of one is not known */
    uint32_t disputes[PART_DISPUTES];
    uint32_t disputes_count;
};

/* A grant that met other holds of its name, until their owners have said whether they
 * were held: `room` is what may be confirmed without harm. */
struct dispute {
    uint32_t serial;
    int64_t room;
    char text[192];
};

struct id_entry {
    bool used;
    uint32_t since; /* the name's latest taking when it was told */
    int name;
    uint64_t token;
    int kind;
    uint32_t permits, limit;
    char text[HF_ID_MAX];
};

struct event {
    int64_t at_ns;
    char text[112];
};

struct lane {
    atomic_uint at;
    struct event events[EVENTS_KEPT];
};

struct world {
    struct config config;
    int64_t began_ns;
    char url[300];
    uint64_t caps;
    int64_t default_ttl; /* of a hold that asks for none; 0: none */
    int64_t session_ms;  /* where leases are given in pieces: the longest; else 0 */
    atomic_bool over;
    atomic_int violations;
    atomic_int troubles; /* the storm itself failed */
    atomic_ullong grants, reentries, forks, threads_ended, evictions, adoptions, leaves,
        closes, old_tokens, late, steps, slow, disputes_opened, kills;
    atomic_ullong serials;
    atomic_ullong calls[96];
    atomic_ullong codes[CODES];
    atomic_bool doomed[PROCESSES_MAX]; /* is about to be killed */
    pthread_mutex_t mutex;
    size_t names_count;
    struct name names[NAMES_MAX];
    struct part parts[PARTS_MAX];
    int parts_end; /* slots from here on are free */
    struct dispute disputes[DISPUTES_MAX];
    uint32_t disputes_at;
    struct id_entry ids[IDS_MAX];
    uint32_t ids_at;
    struct lane lanes[PROCESSES_MAX][LANES];
};

extern struct world *world;

void world_make(const struct config *config);
void model_lock(void);
void model_unlock(void);
/* The process is dead: nobody has its parts. Until when they may still be in the store
 * is for the caller to say. */
void model_doom_process(int process); /* right before it is killed */
void model_forget_process(int process, int64_t linger_ns);
void name_asks(struct name *name, int change);

struct client;

/* An acquire, from before the call to its end. */
struct ask {
    struct client *client;
    uint64_t client_serial;
    size_t count;
    hf_want wants[WANTS_MAX];
    int names[WANTS_MAX];
    uint64_t floor[WANTS_MAX];
    uint64_t activity[WANTS_MAX];
    bool quiet[WANTS_MAX]; /* nothing of the name was there when it began */
    bool alone[WANTS_MAX]; /* no other acquire was under way */
    int reenters; /* index of a part that this owner holds: must be granted; or -1 */
    uint32_t reenters_serial;
    uint64_t owner;
    hf_acquire_options options;
    int64_t began_ns;
    bool cancelled, blocking;
    bool reentered; /* by the token of one want, at least */
    char key[16];
};

/* A hold of this process: its handle and its parts. */
struct held {
    hf_hold *handle;
    struct client *client;
    size_t count;
    int parts[WANTS_MAX];
    bool watched;
    uint32_t watch; /* slot of process.c */
};

void model_ask(struct ask *ask);
/* The end of an ask: judges the code, and registers what was granted. */
void model_answer(struct ask *ask, int rc, hf_hold *handle, struct held *ret_held);
/* Right before and right after a release. */
struct farewell {
    int64_t began_ns;
    enum hf_state state;
    int64_t left_ms;
    size_t count;
    int parts[WANTS_MAX];
    int name; /* of the first part */
    uint64_t token;
    uint32_t flags;
    bool closed;   /* the client was closed before */
    bool siblings; /* others have the same grant: the last one to go hears of a loss */
    bool release;  /* else: a look */
    uint64_t activity[WANTS_MAX]; /* of the names, */
    bool asked[WANTS_MAX];        /* and whether others asked for them, */
    uint32_t entered[WANTS_MAX];  /* and of the parts, when it began */
};
void model_release(const struct held *held, struct farewell *farewell);
void model_released(struct farewell *farewell, int rc, const char *how);
/* What a look at the store may say of a hold that is not being released. */
void model_look(const struct held *held, struct farewell *farewell);
void model_looked(struct farewell *farewell, int rc, const char *how);
/* An op was freed while under way: its end is told to no caller. */
void model_abandon(const struct ask *ask);
/* What is known of a token: a part has it for sure, or certainly none has. */
enum known { UNKNOWN, SURELY_HELD, SURELY_FREE };
enum known model_known(int name, uint64_t token); /* under the lock */
void model_left(const struct held *held);
void model_closing(struct client *client, uint32_t flag);

/* Under the lock (model_parts.c, model_check.c). check_token(): true for a re-entry. */
int part_new(const struct ask *ask, size_t index, hf_hold *handle, uint64_t token);
void part_free(struct part *part);
bool check_token(const struct ask *ask, size_t index, uint64_t token);
void check_exclusion(struct part *part);
void check_lease(const struct ask *ask, const hf_hold *handle, bool reentered);
void part_confirm(struct part *part);
bool parts_are_one(const struct part *a, const struct part *b);
void disputes_answer(int process);
enum family family_of(int kind);
/* Something of the name may be in the store until then that no caller has. */
void name_linger(struct name *name, int64_t until);
int64_t lease_asked(const struct ask *ask); /* in ms; 0: none */
bool enters_beside_others(const struct ask *ask);
bool was_adopted(uint64_t owner); /* the owner of an adopted part is nobody */
/* An eviction or adoption begins and ends; each is open to its parts meanwhile. */
struct taking *taking_begin(int name, uint64_t token, bool adoption);
void taking_end(int name, struct taking *taking, enum taking_state state);
uint32_t taken_flags(const struct part *part);
/* Another adoption of that token was under way, or has begun since that taking. */
bool adoption_meets(int name, const struct taking *mine, uint32_t since);
struct grant *grant_find(struct name *name, uint64_t token);
bool part_is_held(const struct part *part, int64_t margin_ms);

#endif
