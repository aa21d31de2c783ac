/* SPDX-License-Identifier: MIT */
/*
 * A host for testing one store alone, without core: it opens a session, writes down
 * every answer, and has a small loop of descriptors and timers of its own.
 *
 *     struct fake_host a;
 *     struct hf_ticket t = fake_ticket("name", HF_MUTEX);
 *     fake_open(&a, &hf__backend_memory, "mem:", &clock);
 *     fake_attempt(&a, &t);
 *     struct fake_answer answer = fake_next(&a);
 *     ck_assert_int_eq(answer.what, FAKE_GRANTED);
 *     fake_close(&a);
 *
 * Answers come back in the order in which they were given. Timers go by the clock that
 * the test moves; descriptors are real. One thread uses a fake host; an answer that is
 * given on another thread, or while the store is not being called, fails the test.
 */
#ifndef HF_TESTS_FAKE_HOST_H
#define HF_TESTS_FAKE_HOST_H

#include "../../include/holdfast/backend.h"

#include <pthread.h>

#define FAKE_MAX 256 /* answers, entries, each */
#define FAKE_SLOTS 8 /* descriptors, timers, each */

enum fake_what {
    FAKE_NOTHING = 0,
    FAKE_GRANTED,
    FAKE_QUEUED,
    FAKE_NOTICE,
    FAKE_BUSY,
    FAKE_FAILED,
    FAKE_WITHDRAWN,
    FAKE_RENEWED,
    FAKE_EVENT,
    FAKE_ANSWERED,
};

struct fake_answer {
    enum fake_what what;
    const void *about; /* the ticket or request */
    int code;          /* failed, answered: rc. Else which withdrawal, renewal, event */
    int64_t retry_ns;
    struct hf_grant grant;
    struct hf_lease lease; /* of renewed */
    hf_error why;
};

struct fake_entry {
    hf_entry entry;
    char name[HF_NAME_MAX + 1];
    char host[256];
    char program[64];
    char note[HF_NOTE_MAX + 1];
};

struct fake_finding {
    int32_t level;
    char topic[32];
    char what[800];
    char fix[800];
};

struct fake_clock {
    int64_t now_ns;
};

struct fake_watch {
    int fd;
    uint32_t events;
    hf_fd_cb *callback;
    void *arg;
};

struct fake_host {
    struct hf_host host;
    const struct hf_backend *store;
    void *session;
    uint64_t capabilities;
    struct fake_clock *clock;
    pthread_t thread;
    unsigned calls; /* how many calls of the store are under way */
    struct fake_answer answers[FAKE_MAX];
    size_t first, count;
    struct fake_entry *entries; /* of the last inspect */
    size_t entry_count;
    struct fake_finding findings[FAKE_SLOTS * 2]; /* of the last diagnose */
    size_t finding_count;
    char cell[HF_CELL_MAX + 1]; /* of the last cell get */
    size_t cell_len;
    struct fake_watch watches[FAKE_SLOTS]; /* callback NULL: free */
    char reason[256];                      /* the last one that was reported */
    unsigned reason_count, progress_count;
    unsigned wakes; /* how often a descriptor was ready */
    struct hf_timer *timers[FAKE_SLOTS];
};

extern const char *fake_program; /* the program that sessions see */

/* Opens a session. `clock` NULL: the real one. 0 or the result of open(); after an
 * error there is nothing to close. */
int fake_open(struct fake_host *fake, const struct hf_backend *store, const char *url,
              struct fake_clock *clock);
int fake_open_why(struct fake_host *fake, const struct hf_backend *store,
                  const char *url, struct fake_clock *clock, hf_error *why);

/* Closes it; also checks that no descriptor and no timer was left in the loop. */
void fake_close(struct fake_host *fake);
void fake_close_forked(struct fake_host *fake);

/* A ticket as core would fill it in, with an id of its own: one permit of one. */
struct hf_ticket fake_ticket(const char *name, int kind);
struct hf_ticket fake_permits(const char *name, int kind, uint32_t permits,
                              uint32_t limit);
struct hf_request fake_request(int verb, const char *name);
struct hf_id fake_id(void);

/* The calls of the seam. Those that return something wait for the answer and take it;
 * other answers stay for fake_next(). fake_try() is attempt with its answer. */
void fake_attempt(struct fake_host *fake, struct hf_ticket *ticket);
struct fake_answer fake_try(struct fake_host *fake, struct hf_ticket *ticket);
void fake_interest(struct fake_host *fake, struct hf_ticket *ticket);
void fake_forget(struct fake_host *fake, const void *ticket_or_request);
enum hf_withdrawal fake_withdraw(struct fake_host *fake, struct hf_ticket *ticket);
enum hf_renewal fake_renew(struct fake_host *fake, struct hf_ticket *ticket,
                           enum hf_renew_mode mode);
int fake_ask(struct fake_host *fake, struct hf_request *request, hf_error *why);

/* One pass of the loop: the timers that are due, then what is ready within
 * `timeout_ms`. */
void fake_turn(struct fake_host *fake, int timeout_ms);

/* The oldest answer; runs the loop until there is one, for ten seconds at most. */
struct fake_answer fake_next(struct fake_host *fake);

/* True if there is no answer, and a pass of the loop brings none. */
bool fake_quiet(struct fake_host *fake);

/* The next answer is a grant of, or an event about, this ticket. */
uint64_t fake_expect_grant(struct fake_host *fake, const struct hf_ticket *ticket);
void fake_expect_event(struct fake_host *fake, const struct hf_ticket *ticket,
                       enum hf_event event);

#endif
