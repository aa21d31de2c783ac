/* SPDX-License-Identifier: MIT */
/*
 * Servers that lie. A real server answers through a man in the middle, who spoils one
 * place of one reply: a number, a type, a length, the stream itself. The client is
 * driven through holdfast.h alone.
 *
 * An operation (ops.c, ops_waiting.c) is a few calls. It is run once with everything as
 * the server said it, to see which replies it brings and where they can be spoiled;
 * then once for each spot, with a fresh client. Whatever comes:
 *   - no crash, no report of a sanitizer, no call that does not end;
 *   - a known code with a clean sentence, or a result that may be true: a hold has a
 *     token, larger than the last one of that name, and a lease no longer than asked;
 *   - the same client works again as soon as the server is honest;
 *   - nothing is left: memory, descriptors, threads.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "../../include/holdfast.h"
#include "../harness/check.h"
#include "middle.h"

/* ---- Wires ----------------------------------------------------------------------- */

/* What is spoiled. */
enum family { NUMBERS = 1, TYPES, LENGTHS, LISTS, STREAMS, FAMILIES };

struct spoil {
    enum family family;
    const char *name;
    int how; /* the wire's own */
    const char *text;
};

struct wire {
    const char *name;
    const struct spoil *spoils; /* ended by a NULL name */
    const char *queries[3]; /* for the URL: the layouts that ops ask for by number */
    const char *client_query, *sane_query; /* and for each of the two */
    bool shared;                           /* one server serves all cases */

    void (*start)(const char *directory);
    void (*stop)(void);
    /* "redis://127.0.0.1:%d", of the middle; and of the server itself. */
    void (*url)(char *url, size_t size, int port);
    const char *(*upstream)(void);

    /* The bytes of the first whole reply, 0 if there is none yet. `first`: nothing was
     * said on the lane before. */
    size_t (*measure)(const char *data, size_t size);
    /* Places of a reply that can be spoiled, counted from 0. The other two are about
     * the reply that this thread has asked about last. */
    size_t (*sites)(const char *data, size_t len);
    bool (*fits)(size_t site, const struct spoil *how);
    void (*spoil)(struct lane *lane, const char *data, size_t len, size_t site,
                  const struct spoil *how);
    void (*told)(void *arg, struct lane *lane, const char *data, size_t size);
};

extern const struct wire redis_wire;
extern const struct wire zookeeper_wire;

/* ---- Plans ----------------------------------------------------------------------- */

enum { SPOTS_MAX = 4, REPLIES_MAX = 48 };

/* Where: the reply, counted from when the plan was armed, the site in it, and how. */
struct spot {
    uint32_t reply, site, spoil;
};

/* Everything here is guarded by the lock of the middle. */
struct plan {
    const struct wire *wire;
    bool armed, recording;
    uint32_t replies; /* since it was armed */
    uint32_t applied;
    size_t spot_count;
    struct spot spots[SPOTS_MAX];
    /* Of a script: replies pass here first while the plan is armed. True: it was dealt
     * with. */
    bool (*rewrite)(struct lane *lane, const char *data, size_t len);
    struct {
        char *data;
        size_t len;
    } seen[REPLIES_MAX]; /* while recording */
};

extern const struct middle_wire plan_hooks; /* arg: the plan */

/* All spots of what was recorded that belong to the family (0: any); *ret_spots is the
 * caller's to free. */
size_t plan_spots(const struct plan *plan, enum family family, struct spot **ret_spots);
void plan_forget(struct plan *plan); /* what was recorded */

/* ---- Trials ---------------------------------------------------------------------- */

struct trial {
    const struct wire *wire;
    struct middle *middle;
    struct plan *plan;
    hf_client *client; /* through the middle */
    hf_client *sane;   /* to the server itself */
    hf_error why;
    int64_t since_ms;
    uint64_t token; /* the last one of `name` */
    char name[64];  /* of this trial alone */
    char query[96];
};

struct op {
    const char *name;
    int query;      /* of wire->queries */
    uint64_t needs; /* enum hf_capability; 0 if any store will do */
    bool opens;     /* the client is opened by the operation itself */
    bool clock;     /* needs the virtual clock */
    void (*run)(struct trial *t);
};

extern const struct op ops[]; /* ended by a NULL name */
extern const struct op waiting_ops[];

/* From here on replies are spoiled; and no more. */
void arm(struct trial *t);
void disarm(struct trial *t);

/* REQUEST_MS is how long one request may take; a try that gets no answer ends soon.
 * What takes SLACK_MS longer than it may is a hang: the machine may be busy. */
#define REQUEST_MS 300
#define WAIT_MS 400
#define LEASE_MS 20000
#define SLACK_MS 15000

/* Around each call: `rc` and t->why are as the header says, and it ended in time. */
void begin(struct trial *t);
int judged(struct trial *t, int rc, int64_t most_ms);
/* A hold that was just granted or renewed, with a lease of that many ms at most. */
void judge_hold(struct trial *t, hf_hold *hold, int64_t lease_ms);
bool text_is_clean(const char *text);

int take(struct trial *t, const hf_want *wants, size_t count, int64_t timeout_ms,
         hf_hold **ret_hold);
void let_go(struct trial *t, hf_hold *hold);
/* What has to be held before the plan is armed, from an honest, maybe slow server. */
hf_hold *held(struct trial *t, hf_want want);
hf_hold *sane_hold(struct trial *t, hf_want want); /* of the sane client */
size_t entries(struct trial *t, int role); /* of t->name, as the sane one sees */

hf_client *client_open(struct trial *t, int port, hf_error *why, int *ret_rc);

/* Runs the operation under the spots; 0 of them: as the server says it. Returns whether
 * one of them was met. */
bool trial_run(struct trial *t, const struct op *op, const struct spot *spots,
               size_t count, bool record);

/* The same for a script. */
struct script;
void script_run(struct trial *t, const struct script *script);

/* ---- Cases ----------------------------------------------------------------------- */

struct settings {
    const struct wire *wire;
    const char *query; /* for every URL: the protocol */
    uint64_t seed;
    uint32_t each;  /* spots of each family that are tried; 0: all */
    uint32_t count; /* of random trials */
    int flood;      /* messages of a flood */
};

extern struct settings settings;

/* The world of a case: server, middle, the sane client. And its end, with the check
 * that nothing is left. */
void world_begin(struct trial *t, const char *directory, const struct op *op);
void world_end(struct trial *t);

/* A script of its own: floods and the like. */
/* Bytes of memory that this process had at most, so far. A script looks before and
 * after; what the sanitizers keep for themselves is allowed for. */
int64_t peak_bytes(void);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PEAK_FACTOR 4
#else
#define PEAK_FACTOR 1
#endif

#define MIB (INT64_C(1) << 20)
void check_peak(int64_t before, int64_t most);

/* A wait for t->name, which the sane client holds, begins; and ends with the grant. */
hf_op *queue_behind(struct trial *t);
void granted_after(struct trial *t, hf_hold *theirs, hf_op *op);

/* NULL: replies are passed on as they are. */
void set_rewrite(struct trial *t, bool (*rewrite)(struct lane *, const char *, size_t));

void never_lasts(struct trial *t); /* a script */

/* The path that a client of ZooKeeper has watched last. */
extern char zookeeper_watched[512];

/* What the redis wire has heard of the client under the middle's lock: its inbox, and
 * the owner and number of the last ticket it asked for. */
struct redis_heard {
    char inbox[64], owner[80], number[16];
};
extern struct redis_heard redis_heard;

struct script {
    const char *name;
    void (*run)(struct trial *t);
    bool large; /* takes long, and memory: not with --each */
};
extern const struct script redis_scripts[];
extern const struct script zookeeper_scripts[];

uint64_t mix(uint64_t number); /* a number that looks random */

#endif
