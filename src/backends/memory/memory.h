/* SPDX-License-Identifier: MIT */
/*
 * What the files of the mem store share. Read them in this order:
 *
 *   memory_space.c    spaces and the names in them
 *   memory_queue.c    the queue of a name: holders, waiters, admission
 *   memory_news.c     how a session hears what other sessions did
 *   memory.c          the seam's table, sessions and tickets
 *   memory_objects.c  requests: latches, cells
 *   memory_repair.c   requests: inspect, diagnose, evict, revoke, ...
 *
 * A space is what clients of one process share: names by hash, and for each name its
 * holders and its waiters, in order of arrival. A name exists only while it is in use.
 * An entry is what the store keeps of one ticket; it exists as long as it is in a queue
 * or a ticket points to it (ticket->store[0]), so a session may always read its own.
 *
 * The lock of a space guards all of it, the lists in sessions included, and is held for
 * moments: never while the host is called. A session that changes an entry of another
 * session leaves news there and wakes that session, which then answers on its own
 * thread.
 */
#ifndef HF_MEMORY_H
#define HF_MEMORY_H

#include "../../base/list.h"
#include "../../kit/admit.h"

#include <pthread.h>

#define MEMORY_DONE 256 /* requests remembered, so that none takes effect twice */
#define MEMORY_HOST 256 /* room for the name of this host */

enum memory_state {
    MEMORY_ENDED = 0, /* in no queue: ended, or never queued */
    MEMORY_WAITING,
    MEMORY_HELD,
};

enum memory_news {
    MEMORY_GRANTED = 1 << 0,
    MEMORY_REVOKED = 1 << 1,
    MEMORY_LOST = 1 << 2,
    MEMORY_ALARM = 1 << 3, /* the first waiter: check again at entry->alarm_ns */
};

struct memory_done {
    struct hf_id id;
    uint64_t result;
};

struct memory_name {
    struct memory_name *next; /* in its bucket, or on the free list */
    struct hf_list_node holders;
    struct hf_list_node waiters;
    struct hf_tally held; /* sum over the holders */
    int64_t next_end_ns;  /* no lease ends before; HF_NEVER: there is none */
    int32_t kind;         /* what it is used as */
    uint32_t limit;
    uint32_t latch_left;
    uint64_t cell_version; /* 0: no cell */
    void *cell_data;
    size_t cell_len;
    uint32_t hash;
    uint32_t len;
    char text[];
};

struct memory_session;

struct memory_entry {
    struct hf_list_node in_queue;   /* holders or waiters; or the free list */
    struct hf_list_node in_session; /* waiting or others */
    struct hf_list_node in_news;
    struct memory_name *name;       /* NULL: in no queue */
    struct memory_session *session; /* NULL: detached, its session is closed */
    struct hf_ticket *ticket;       /* NULL: forgotten */
    struct hf_id id;
    enum memory_state state;
    int32_t kind;
    uint32_t permits;
    uint32_t span;
    uint64_t token;
    int64_t ttl_ns;
    int64_t begun_ns; /* of its lease; 0: none */
    int64_t end_ns;   /* HF_NEVER without one */
    int64_t alarm_ns; /* when its session is to check again */
    int64_t since_ns;
    uint32_t news; /* enum memory_news, not reported yet */
    bool detached;
    bool interest;
    bool revoked;
    char note[HF_NOTE_MAX + 1];
};

struct memory_space {
    struct hf_list_node link; /* among the spaces of this process */
    unsigned session_count;
    pthread_mutex_t lock;
    struct memory_name **buckets;
    size_t bucket_count; /* a power of two */
    size_t name_count;
    struct memory_name *free_names;
    struct hf_list_node free_entries;
    struct memory_done done[MEMORY_DONE];
    size_t done_next;
    char label[];
};

/* One item of a report, with its texts behind it. */
struct memory_item {
    struct hf_list_node link;
    hf_entry entry;
    char text[];
};

struct memory_session {
    struct hf_host *host;
    struct memory_space *space; /* NULL: not open */
    struct hf_list_node waiting;
    struct hf_list_node others; /* held, or ended but not withdrawn yet */
    struct hf_list_node news;
    int wake_fd; /* -1 until the session first waits */
    bool woken;
    bool
        due; /* there were news when the space was unlocked; for the session's thread */
    struct hf_timer timer;
    void *cell_data; /* the value that a request found, until it is reported */
    size_t cell_len;
    struct hf_list_node report;
};

/* ---- memory_space.c -------------------------------------------------------------- */

struct memory_space *hf__memory_space_open(const char *label); /* NULL: no memory */
void hf__memory_space_close(struct memory_space *space);
const char *hf__memory_host_name(void);
uint64_t hf__memory_draw(uint32_t count); /* the first of `count` new numbers */

/* Lock and unlock the space of the session. All below is called with it locked. */
void hf__memory_lock(struct memory_session *me);
void hf__memory_unlock(struct memory_session *me);

/* The name if it is in use, after its expired holders were removed; or NULL. */
struct memory_name *hf__memory_find(struct memory_session *me, const char *text,
                                    uint32_t len, uint32_t hash);
struct memory_name *hf__memory_name_new(struct memory_session *me, const char *text,
                                        uint32_t len, uint32_t hash, int32_t kind,
                                        uint32_t limit);
void hf__memory_name_drop(struct memory_session *me, struct memory_name *name);

/* ---- memory_queue.c -------------------------------------------------------------- */

/* 0, or HF_EMISMATCH with a message that names both uses. */
int hf__memory_match(const struct memory_name *name, int32_t kind, uint32_t limit,
                     hf_error *why);

/* To be called after every change of a name: ends expired leases, admits waiters that
 * fit, and frees the name if it is not in use any more: then false. */
bool hf__memory_update(struct memory_session *me, struct memory_name *name);

/* A new entry is in no queue. `admit` draws its token and makes it a holder, `hold`
 * makes it a holder under the token it has, `lease` starts its lease anew. */
struct memory_entry *hf__memory_entry_new(struct memory_session *me,
                                          struct hf_ticket *ticket);
bool hf__memory_fits(const struct memory_name *name, int32_t kind, uint32_t permits);
void hf__memory_wait(struct memory_name *name, struct memory_entry *entry);
void hf__memory_admit(struct memory_session *me, struct memory_name *name,
                      struct memory_entry *entry);
void hf__memory_hold(struct memory_session *me, struct memory_name *name,
                     struct memory_entry *entry);
void hf__memory_lease(struct memory_session *me, struct memory_entry *entry);

/* `end` takes an entry out of its queue, and frees it if no ticket points to it. `lose`
 * also tells a session that is interested; `unbind` detaches the ticket. */
void hf__memory_end(struct memory_session *me, struct memory_entry *entry);
void hf__memory_lose(struct memory_session *me, struct memory_entry *entry);
void hf__memory_unbind(struct memory_session *me, struct memory_entry *entry);

/* ---- memory_news.c --------------------------------------------------------------- */

/* Leaves news for the session of the entry and wakes that session, unless it is
 * `me`. */
void hf__memory_post(struct memory_session *me, struct memory_entry *entry,
                     uint32_t news);

/* Space not locked. `listen` makes it possible to wake this session; news that came
 * before are due when it returns. `drain` reports what is due. */
int hf__memory_listen(struct memory_session *me, hf_error *why);
void hf__memory_drain(struct memory_session *me);

/* ---- memory_objects.c and memory_repair.c ---------------------------------------- */

typedef int hf__memory_verb(struct memory_session *me, struct hf_request *request,
                            hf_error *why);

hf__memory_verb hf__memory_inspect, hf__memory_evict, hf__memory_revoke,
    hf__memory_downgrade, hf__memory_adopt, hf__memory_diagnose;
extern const hf_finding hf__memory_finding; /* the only finding about mem */

void hf__memory_ask(void *session, struct hf_request *request);

static inline struct memory_entry *hf__memory_entry_of(const struct hf_ticket *ticket)
{
    return (struct memory_entry *)(uintptr_t)ticket->store[0];
}

static inline struct memory_name *hf__memory_asked(struct memory_session *me,
                                                   const struct hf_request *request)
{
    return hf__memory_find(me, request->name, request->name_len, request->name_hash);
}

static inline struct hf_grant hf__memory_grant(const struct memory_entry *entry)
{
    return (struct hf_grant){ entry->token, entry->span, entry->ttl_ns,
                              entry->begun_ns };
}

#endif
