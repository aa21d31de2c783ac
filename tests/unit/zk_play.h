/* SPDX-License-Identifier: MIT */
/*
 * A queue node of ZooKeeper's, with the server played by the test: what the store asks,
 * one request at a time, and what the server replies. The store is real, its host a
 * fake one.
 *
 *     play_begin(HF_MUTEX);
 *     fake_attempt(&stage.host, &ticket);
 *     struct entry entry = entry_asked("lock-");
 *     answer_create(entry.create, "lock-", "0000000004", 77);
 *     LIST(entry.list, own("lock-", "0000000004"));
 *     ...
 *     play_end();
 */
#ifndef HF_TESTS_ZK_PLAY_H
#define HF_TESTS_ZK_PLAY_H

#include "zk_peer.h"

#define OTHER_SESSION INT64_C(0x55500000000001)
#define FOLDER "/jobs"

extern struct stage stage; /* only its host: the store has a client of its own */
extern struct peer peer;
extern struct hf_ticket ticket; /* of the lock `jobs` */

void play_begin(int kind);
void play_begin_with(int kind, const char *options); /* of the URL, with the '?' */
void play_end(void);

void leave(void); /* withdraw, without waiting for the answer */
void expect(enum fake_what what);
void expect_left(enum hf_withdrawal wanted);
void expect_failed(int code);

/* The name of our node, and its path. */
const char *own(const char *form, const char *number);
const char *own_path(const char *number);

/* The next request is of that kind and about that path: its xid. */
int32_t asked(enum zk_opcode opcode, const char *path);

struct entry {
    int32_t create, list;
};
struct entry entry_asked(const char *form); /* both, in one flight */

void answer_create(int32_t xid, const char *form, const char *number, int64_t czxid);
void answer_made(int32_t xid, const char *path, int64_t czxid); /* of any path */
void answer_list(int32_t xid, const char *const *names);
void answer_stat(int32_t xid, int64_t czxid, int64_t owner);
void answer_data(int32_t xid, const char *data, int64_t mzxid);
void answer_sync(int32_t xid);
#define LIST(xid, ...) answer_list(xid, (const char *const[]){ __VA_ARGS__, NULL })

/* The client is back after peer_hang_up(); it is told of the same session, or of none.
 * Answers that are due must have been taken: the fake host is in a hurry while it has
 * some. */
void come_back(int64_t session);

void hold_it(void);     /* number 4, token 77 */
void wait_for_it(void); /* behind a-lock-0000000003, which is watched */

#endif
