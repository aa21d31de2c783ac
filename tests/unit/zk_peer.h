/* SPDX-License-Identifier: MIT */
/*
 * A ZooKeeper server that the test plays, on a port of its own. A thread answers the
 * first handshake, because hf__zk_open() blocks; after that the test itself reads and
 * writes, and runs the client's loop meanwhile.
 */
#ifndef HF_TESTS_ZK_PEER_H
#define HF_TESTS_ZK_PEER_H

#include "zk_stage.h"

#include <pthread.h>

enum { PEER_BUFFER = 1 << 20, PEER_SESSION_MS = 9000 };

#define PEER_SESSION INT64_C(0x1234500000abcd)

/* What a client says first. */
struct peer_hello {
    int64_t last_zxid, session;
    int32_t timeout_ms;
    char password[32];
    bool read_only;
};

struct peer {
    int listener, fd; /* of the last connection; -1 */
    uint16_t port;
    char hosts[32]; /* "127.0.0.1:port" */
    pthread_t thread;
    bool greeting;
    char greets[256]; /* what the thread answers */
    size_t greets_len;
    bool will_check; /* and to auth, which follows, with the verdict */
    int32_t verdict;
    struct peer_hello hello; /* heard last */
    unsigned connections;
    char heard[PEER_BUFFER];
    size_t heard_len, taken;
};

void peer_begin(struct peer *peer);
void peer_end(struct peer *peer);
/* Nobody can connect any more; and again. */
void peer_deafen(struct peer *peer);
void peer_listen(struct peer *peer);

/* The thread answers the first hello with this session, or with these bytes and, if
 * there are none, closes. */
void peer_will_greet(struct peer *peer, int64_t session, int32_t timeout_ms);
void peer_will_say(struct peer *peer, const void *bytes, size_t len);
void peer_met(struct peer *peer); /* after hf__zk_open(): the thread is done */

/* Opens a client, greeted by the peer with PEER_SESSION. */
void peer_open(struct peer *peer, struct stage *stage, struct fake_clock *clock);

/* Waits for the next connection and its hello, then answers it. */
void peer_accept(struct peer *peer, struct stage *stage);
void peer_greet(struct peer *peer, int64_t session, int32_t timeout_ms);
void peer_hang_up(struct peer *peer);

/* The next request, as a record; waits for it. */
struct jute peer_hear(struct peer *peer, struct stage *stage);
/* The same; it must be of that kind. Its xid is returned, its body left in `ret`. */
int32_t peer_expect(struct peer *peer, struct stage *stage, enum zk_opcode opcode,
                    struct jute *ret);
/* For a thread that plays the server alone; false: nothing came for a while. */
bool peer_wait(struct peer *peer, struct jute *ret);
bool peer_quiet(struct peer *peer, struct stage *stage); /* nothing more came */

void peer_say(struct peer *peer, const void *bytes, size_t len);
/* Frames. `body` is what follows the header. */
void peer_reply(struct peer *peer, int32_t xid, int64_t zxid, int32_t error);
void peer_reply_with(struct peer *peer, int32_t xid, int64_t zxid, const void *body,
                     size_t len);
void peer_event(struct peer *peer, int32_t type, const char *path);

/* The body of a reply: a path, a vector of names, zeros for a Stat. */
struct peer_body {
    char bytes[4096];
    struct jute_out out;
};
void body_begin(struct peer_body *body);
void body_stat(struct peer_body *body, int64_t owner);
size_t body_len(const struct peer_body *body);

#endif
