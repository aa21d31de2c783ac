/* SPDX-License-Identifier: MIT */
/*
 * A walk over names: who holds, who waits, which latches and cells there are. Shared by
 * hf_inspect(), hf_evict(), hf_revoke() and hf_diagnose().
 *
 * A survey is a job. It works off a list of sights, each a question to the server, so
 * many at a time; an answer may put further ones at the end. What holders, waiters and
 * objects say is told in the order of their queue, holders first.
 */
#ifndef HF_ZOOKEEPER_SURVEY_H
#define HF_ZOOKEEPER_SURVEY_H

#include "leases.h"

enum sight_what {
    SIGHT_FOLDER = 1, /* the folder of a name, or on the way to one: list it */
    SIGHT_BASE,       /* of a semaphore: read its limit */
    SIGHT_LEASES,     /* list them */
    SIGHT_QUEUE,      /* list it */
    SIGHT_NODE,       /* a holder, a waiter, an object: read it, and tell */
};

struct sight {
    struct hf_link link;
    struct survey *survey;
    enum sight_what what;
    bool way;        /* a folder on the way, itself of no interest */
    bool unreadable; /* we may see that it is there, not what it says */
    int32_t kind, role;
    uint32_t permits, limit, place;
    size_t folder_len; /* path[0 .. folder_len) is the folder of the name */
    char path[];
};

struct survey;

/* A node, as it was read; `reply` has no data if it is unreadable. */
typedef void survey_tell(struct zk_session *me, struct survey *survey,
                         const struct sight *sight, const struct zk_reply *reply);
/* A folder, as it was listed; may be NULL. */
typedef void survey_list(struct zk_session *me, struct survey *survey,
                         const struct sight *sight, const struct zk_reply *reply);
/* Nothing is left to be asked: to be ended with hf__zk_job_end(), or after more calls. */
typedef void survey_end(struct zk_session *me, struct survey *survey);

struct survey {
    struct job job;
    bool prefix;
    survey_tell *tell;
    survey_list *list;
    survey_end *end;
    struct hf_link todo;
    struct hf_link asked;
    size_t under_way;
    int rc;
    hf_error why;
    uint64_t found; /* the user's own */
    uint8_t rounds; /* the user's own */
    bool vanished;  /* a node had gone between being listed and being read */
    char *victim;
};

/* Begins at the request's name; with `prefix` at all names that begin so. NULL: the
 * request has been answered. survey_go() sets it off. */
struct survey *survey_begin(struct zk_session *me, struct hf_request *request,
                            bool prefix, survey_tell *tell, survey_end *end);
void survey_go(struct zk_session *me, struct survey *survey);
/* From the beginning, where nothing is left to be asked. */
void survey_again(struct zk_session *me, struct survey *survey);

/* A call more that the survey waits for: `survey_done` as `done`, the survey as
 * `subject`. Its errors end the survey, but for ZK_NONODE. */
void survey_expect(struct survey *survey);
zk_done survey_done;

/* The name of the lock that a sight is about; false if it has none. */
bool survey_name(const struct sight *sight, char name[HF_NAME_MAX + 1]);

#endif
