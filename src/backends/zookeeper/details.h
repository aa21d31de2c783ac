/* SPDX-License-Identifier: MIT */
/*
 * The line of text in the data of our nodes: it describes the client that made the
 * node.
 *
 *     holdfast host=web7 pid=811 program=night%20watch kind=fair permits=1/1
 *     ttl=30000 since=4be1a3c0:81234567 note=row%2042          (all in one line)
 *
 * Values are percent-encoded where they hold a space, a '%' or a control character.
 * `since` is a moment of the host's own clock, which no other machine has, behind the
 * first digits of its boot id: only a client with the same boot id can tell from it how
 * old the node is. Data of any other form is a foreign client's and is shown as the
 * host: Curator writes its address, kazoo what its user chose.
 */
#ifndef HF_ZOOKEEPER_DETAILS_H
#define HF_ZOOKEEPER_DETAILS_H

#include "../../../include/holdfast/backend.h"

enum {
    ZK_BOOT_SIZE = 9,       /* eight digits and a NUL */
    ZK_IDENTITY_SIZE = 512, /* host, pid and program */
    ZK_DETAILS_SIZE = 1024  /* a whole line */
};

/* The host, pid and program of this client; written once per session. */
struct zk_identity {
    char boot[ZK_BOOT_SIZE];
    char text[ZK_IDENTITY_SIZE]; /* "holdfast host=... pid=... program=..." */
    size_t len;
};

void hf__zk_identity_init(struct zk_identity *identity, const char *program);

/* The line of a ticket, with a NUL; returns its length. `token`: of a hold whose node
 * is younger than its grant, else 0. */
size_t hf__zk_details_write(const struct zk_identity *identity,
                            const struct hf_ticket *ticket, int64_t now_ns,
                            uint64_t token, char line[ZK_DETAILS_SIZE]);

struct zk_details {
    bool ours; /* written by holdfast */
    int kind;  /* 0: not stated */
    uint32_t permits, limit;
    uint64_t token;
    int64_t pid;
    int64_t since_ms, left_ms; /* -1: not known; left: HF_FOREVER without a lease */
    char host[256];
    char program[128];
    char note[HF_NOTE_MAX + 1];
};

void hf__zk_details_read(const struct zk_identity *identity, const char *data,
                         size_t len, int64_t now_ns, struct zk_details *ret);

#endif
