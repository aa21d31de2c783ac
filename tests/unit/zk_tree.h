/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper server inside the test: a tree of nodes, sessions, watches, transactions,
 * in the test's own thread. A fault can happen to any one request of the first client:
 *
 *     tree_begin();
 *     tree_open(&a, "");
 *     tree_spoil(3, TREE_CUT_AFTER);
 *     struct fake_answer answer = tree_take(&a, &ticket);
 *     tree_close(&a);
 *     tree_end();
 *
 * Time stands still while requests or replies are under way, and goes on when none are:
 * a pause of the client's costs the test nothing. Where the test itself has to be the
 * server, one reply at a time, use zk_play.h.
 */
#ifndef HF_TESTS_ZK_TREE_H
#define HF_TESTS_ZK_TREE_H

#include "../../src/backends/zookeeper/wire/zk_records.h"
#include "fake_host.h"

enum {
    TREE_NODES = 128,
    TREE_CALLERS = 4,
    TREE_WATCHES = 32,
    TREE_BUFFER = 1 << 16,
    TREE_PATH = 640,
    TREE_DATA = 1200,
};

enum tree_fault {
    TREE_FINE = 0,
    TREE_CUT_BEFORE, /* the connection ends, and the request was not carried out */
    TREE_CUT_AFTER,  /* it was */
    TREE_END_BEFORE, /* the same, and the session is over */
    TREE_END_AFTER,
    TREE_LINGER, /* as the last one, but the session's nodes stay for a while */
    TREE_REAP,   /* every empty container goes right before it */
    TREE_ERROR,  /* is answered with tree.error */
    TREE_CALL,   /* tree.call() is called right before it */
};

struct tree_node {
    char path[TREE_PATH]; /* "": free */
    char data[TREE_DATA];
    size_t len;
    int64_t czxid, mzxid, owner;
    int32_t version, next; /* number of the next child */
    bool container;
};

struct tree_caller {
    int fd; /* -1: not connected */
    int64_t session;
    char heard[TREE_BUFFER];
    size_t heard_len;
    struct {
        char path[TREE_PATH];
        bool child;
    } watches[TREE_WATCHES];
};

struct tree {
    int listener;
    uint16_t port;
    struct fake_clock clock;
    struct fake_host *hosts[TREE_CALLERS];
    struct tree_caller callers[TREE_CALLERS];
    struct tree_node nodes[TREE_NODES];
    int64_t zxid, sessions, over[16];
    size_t over_count;
    int64_t purge_ns;   /* when the nodes of sessions that are over go; 0: at once */
    int32_t session_ms; /* granted, whatever is asked for; 0: what is */
    unsigned losses;    /* events of a loss that tree_next() has passed */

    /* Of the first client. */
    enum tree_fault fault;
    unsigned requests, fault_at;
    bool spoilt;
    char asked_by_first[64]; /* a letter for each request since tree_spoil() */
    int32_t error;
    void (*call)(void);
    /* Whose answer is always the error, whoever asks. */
    enum zk_opcode deny;
    const char *deny_path; /* "": any; a part of the path; "=/a": that path */
    void (*after)(void);   /* after each request: what must hold always */
    unsigned asked;        /* by all clients, but for pings and syncs */
    bool deaf;             /* no client is let in */
};

extern struct tree tree;

void tree_begin(void);
void tree_end(void);
void tree_open(struct fake_host *host, const char *options); /* of the URL, with '?' */
void tree_close(struct fake_host *host);

/* The n-th request of the first client from now on. */
void tree_spoil(unsigned nth, enum tree_fault fault);

/* ---- The tree, by hand ----------------------------------------------------------- */

struct tree_node *tree_find(const char *path);
/* Of no session; parents are made. */
struct tree_node *tree_put(const char *path, const char *data);
struct tree_node *tree_put_at(const char *path, const char *data, int64_t owner);
void tree_delete(const char *path);
void tree_set(const char *path, const char *data);
void tree_reap(void);
void tree_session_end(size_t caller);
void tree_purge(void); /* nodes of sessions that are over */
void tree_cut(size_t caller);
size_t tree_count(const char *part); /* nodes with that in their path */
struct tree_node *tree_first(const char *part);
size_t tree_watches(void); /* of all clients */
size_t tree_left(void);    /* nodes of ours: all but folders */

/* ---- As core does ---------------------------------------------------------------- */

bool tree_step(void); /* hears and answers; false: nothing was said */
void tree_turn(void);
void tree_rest(void); /* until nothing is said any more, and a little longer */
void tree_sleep(int64_t ms);

/* The next answer about that ticket or request; others before it are dropped. */
struct fake_answer tree_next(struct fake_host *host, const void *about);
/* Until it is in, refused or busy: asked again where there was no answer. */
struct fake_answer tree_take(struct fake_host *host, struct hf_ticket *ticket);
void tree_queue(struct fake_host *host, struct hf_ticket *ticket);       /* it waits */
uint64_t tree_granted(struct fake_host *host, struct hf_ticket *ticket); /* at last */
enum hf_withdrawal tree_leave(struct fake_host *host, struct hf_ticket *ticket);
enum hf_renewal tree_renew(struct fake_host *host, struct hf_ticket *ticket,
                           enum hf_renew_mode mode);
int tree_ask(struct fake_host *host, struct hf_request *request, hf_error *why);
int tree_ask_once(struct fake_host *host, struct hf_request *request, hf_error *why);

#endif
