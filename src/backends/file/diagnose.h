/* SPDX-License-Identifier: MIT */
/* Findings about the directory of a file: store: facts are gathered, then judged. The
 * judgement is a pure function, so that tests can make facts up. */
#ifndef HF_FILE_DIAGNOSE_H
#define HF_FILE_DIAGNOSE_H

#include "../../../include/holdfast/backend.h"

#include <sys/types.h>

#define FACTS_PATH 512

struct dir_facts {
    char path[FACTS_PATH]; /* for messages; "" if not known */
    bool flock;            /* layout=flock */
    bool shielded;         /* cleaners of temporary files skip it */
    uint32_t fs_type;      /* of statfs() */
    uint64_t free_bytes;
    uint64_t free_inodes; /* UINT64_MAX: the file system does not count them */
    uid_t user;           /* the user of this process */
    uid_t dir_owner;
    mode_t dir_mode;
    mode_t file_mode;    /* of the state or token file; 0: there is none */
    bool file_replaced;  /* the state file is not the one in use */
    bool tokens_private; /* the token file cannot be written: own counter */
    uint32_t sessions, session_room;
    uint32_t in_other_namespace; /* sessions in another pid namespace */
    uint32_t blocks, block_room;
    bool cells;        /* there may be cells */
    uint32_t detached; /* holds that outlive their processes */
    uint32_t latches;  /* that are counting */
};

/* Fills in what the directory and its file `state` or `.holdfast-tokens` say, which is
 * open as `file_fd` (-1: no longer). The caller fills in the rest. HF_ESYSTEM. */
int hf__file_facts_gather(struct dir_facts *facts, int dir_fd, int file_fd,
                          hf_error *why);

typedef void hf__file_facts_tell(void *arg, const hf_finding *finding);

/* Calls `tell` with each finding that follows from the facts: at least one. */
void hf__file_facts_judge(const struct dir_facts *facts, hf__file_facts_tell *tell,
                          void *arg);

/* Gathers and judges; reports the findings to the host. */
int hf__file_facts_report(struct dir_facts *facts, int dir_fd, int file_fd,
                          struct hf_host *host, struct hf_request *request,
                          hf_error *why);

#endif
