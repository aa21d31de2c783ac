/* SPDX-License-Identifier: MIT */
/*
 * The checker: histories in, verdict out.
 *
 *     struct check *check = check_new(&options);
 *     history_read(directory, check_add, check);
 *     const struct check_report *report = check_run(check);
 *
 * One thread. What each check means is in README.md beside history.h.
 */
#ifndef CHECKER_CHECK_H
#define CHECKER_CHECK_H

#include "../history.h"

enum check_id {
    K1_EXCLUSION,
    K2_BELIEF, /* informative */
    K3_TOKENS,
    K4_FENCED,
    K5_PLAIN, /* informative, unless strict_plain */
    K7_ORDER,
    K8_LIVENESS,
    K9_CONSERVATION,
    K10_BUSY,
    K11_RESIDUE,
    K12_MOVES,
    CHECKS,
};

/* Kinds as people count them: read and write are one. */
enum check_group { G_MUTEX, G_FAIR, G_RW, G_PERMITS, G_REENTRANT, G_NONE, GROUPS };

/* A process that was killed on purpose, and when it was gone for sure; UINT64_MAX if
 * that is not known. */
struct check_killed {
    uint32_t process;
    uint64_t gone_ns;
};

struct check_options {
    uint64_t bound_ns; /* K8: within this, after the heal */
    uint64_t grace_ns; /* how long a fault is felt after it is over */
    bool strict_plain; /* K5 is a violation */
    bool unsound;      /* faults that no lease survives: only K3 and K4 must hold */
    const struct check_killed *killed;
    size_t killed_count;
};

#define CHECK_OPTIONS_INIT                                                             \
    {                                                                                  \
        .bound_ns = UINT64_C(5000000000), .grace_ns = UINT64_C(1000000000)             \
    }

#define CHECK_EXAMPLES 10

struct check_finding {
    bool applicable; /* there was something to look at */
    uint64_t examined;
    uint64_t found;
    uint64_t found_by[GROUPS];
    char *examples[CHECK_EXAMPLES];
};

struct check_totals {
    uint64_t acquisitions;
    uint64_t exposed; /* acquisitions during which a fault was felt */
    uint64_t busy;
    uint64_t timeout;
    uint64_t unknown;
    uint64_t failed;
    uint64_t lost;     /* the lock said so while it was held */
    uint64_t late;     /* releases that said that the cover had gone */
    uint64_t stuck;    /* part of K8 */
    uint64_t fenced;   /* writes accepted by the fenced register */
    uint64_t rejected; /* writes it refused */
    uint64_t lost_fenced;
    uint64_t lost_plain;
    uint64_t adoptions; /* these five: those that said "ok" */
    uint64_t left;
    uint64_t evictions;
    uint64_t downgrades;
    uint64_t extends;
};

struct check_report {
    struct check_finding checks[CHECKS];
    struct check_totals by[GROUPS];
    struct check_totals all;
    uint64_t histories;
    uint64_t events;
    uint64_t duration_ns;
    uint64_t faults;
    uint64_t faults_by[256]; /* by the number of their kind */
    uint64_t belief_max_ns;  /* K2: the longest */
    uint64_t suspicions;     /* K7: by time alone */
    uint64_t excused;        /* K10: a fault was felt */
    uint64_t unserved;       /* K10: the machine did not run who was needed */
    uint64_t doubted;        /* K12: releases whose "ok" may be wrong, in a fault */
    uint64_t residue;
    uint64_t violations; /* of all checks that must hold */
};

struct check;

struct check *check_new(const struct check_options *options);
void check_free(struct check *check);

/* A history_each. All events of a thread come one after the other. */
void check_add(void *check, const struct history_header *header,
               const struct history_event *event);

/* Once, when all has been added. The report lives as long as the check. */
const struct check_report *check_run(struct check *check);

const char *check_name(enum check_id id);  /* "K1" */
const char *check_title(enum check_id id); /* "exclusion" */
const char *check_group_name(enum check_group group);
bool check_must_hold(const struct check_options *options, enum check_id id);

#endif
