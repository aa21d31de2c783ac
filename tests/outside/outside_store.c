/* SPDX-License-Identifier: MIT */
/*
 * toy: a store from outside the tree, as small as one can be. Mutexes among the clients
 * of one process, and nothing else: no leases, no reports, no push.
 *
 * It includes backend.h only and links the shared library only. Held locks are kept in
 * one list for the whole process; who waits is not kept at all. A ticket that finds
 * the lock taken is told "queued, and ask again in a moment", which is all that a store
 * that cannot push has to do. Clients have threads of their own, so the list has a
 * mutex; no host is answered while it is locked.
 */
#include <holdfast/backend.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS 2000000

struct toy_session {
    struct hf_host *host;
};

struct toy_lock {
    struct toy_lock *next;
    struct toy_session *session;
    struct hf_id id;
    uint64_t token;
    char *name;
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct toy_lock *held;
static uint64_t last_token;

static struct toy_lock **lock_find(const char *name)
{
    struct toy_lock **at = &held;

    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    return at;
}

static struct toy_lock *lock_new(struct toy_session *me, const struct hf_ticket *ticket)
{
    struct toy_lock *lock = calloc(1, sizeof(*lock));

    if (!lock)
        return NULL;
    lock->name = strdup(ticket->name);
    if (!lock->name) {
        free(lock);
        return NULL;
    }
    lock->session = me;
    lock->id = ticket->id;
    lock->token = ++last_token;
    lock->next = held;
    held = lock;
    return lock;
}

static void lock_free(struct toy_lock **at)
{
    struct toy_lock *lock = *at;

    *at = lock->next;
    free(lock->name);
    free(lock);
}

static bool lock_is(const struct toy_lock *lock, const struct hf_ticket *ticket)
{
    return memcmp(&lock->id, &ticket->id, sizeof(lock->id)) == 0;
}

static int toy_open(void *session, struct hf_host *host, const struct hf_url *url,
                    uint64_t *ret_caps, hf_error *why)
{
    struct toy_session *me = session;

    (void)url;
    (void)why;
    me->host = host;
    *ret_caps = HF_CAP_MUTEX;
    return 0;
}

static void toy_close(void *session, bool forked)
{
    struct toy_lock **at = &held;

    if (forked)
        return; /* the list is the parent's, and may be half changed */
    pthread_mutex_lock(&guard);
    while (*at) {
        if ((*at)->session == session)
            lock_free(at);
        else
            at = &(*at)->next;
    }
    pthread_mutex_unlock(&guard);
}

static void toy_attempt(void *session, struct hf_ticket *ticket)
{
    struct toy_session *me = session;
    const struct hf_host_ops *ops = me->host->ops;
    struct hf_grant grant = { .span = 1 };
    hf_error why = { .code = HF_ENOMEM, .text = "no memory for a lock" };
    struct toy_lock *lock;

    pthread_mutex_lock(&guard);
    lock = *lock_find(ticket->name);
    bool taken = lock && !lock_is(lock, ticket);
    if (!lock)
        lock = lock_new(me, ticket);
    if (lock)
        grant.token = lock->token;
    pthread_mutex_unlock(&guard);

    if (!lock)
        ops->failed(me->host, ticket, &why);
    else if (!taken)
        ops->granted(me->host, ticket, &grant);
    else if (ticket->flags & HF_TICKET_TRY)
        ops->busy(me->host, ticket);
    else
        ops->queued(me->host, ticket, RETRY_NS);
}

static void toy_withdraw(void *session, struct hf_ticket *ticket)
{
    struct toy_session *me = session;
    enum hf_withdrawal answer = HF_GONE;
    struct toy_lock **at;

    pthread_mutex_lock(&guard);
    at = lock_find(ticket->name);
    if (*at && lock_is(*at, ticket)) {
        lock_free(at);
        answer = HF_WITHDRAWN;
    }
    pthread_mutex_unlock(&guard);
    me->host->ops->withdrawn(me->host, ticket, answer);
}

static void toy_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                      enum hf_renew_mode mode)
{
    struct toy_session *me = session;

    (void)mode;
    for (size_t i = 0; i < count; i++)
        me->host->ops->renewed(me->host, tickets[i], HF_STILL_HELD, NULL);
}

/* Nothing is ever taken away from a holder. */
static void toy_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
}

/* No capability, no question. */
static void toy_ask(void *session, struct hf_request *request)
{
    struct toy_session *me = session;

    me->host->ops->answered(me->host, request, HF_EUNSUPPORTED, NULL);
}

/* No pointer is kept after a call. */
static void toy_forget(void *session, const void *ticket_or_request)
{
    (void)session;
    (void)ticket_or_request;
}

static const char *const schemes[] = { "toy", NULL };
static const char *const options[] = { NULL };

extern const struct hf_backend outside_store;
const struct hf_backend outside_store = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "toy",
    .schemes = schemes,
    .options = options,
    .session_size = sizeof(struct toy_session),
    .open = toy_open,
    .close = toy_close,
    .attempt = toy_attempt,
    .withdraw = toy_withdraw,
    .renew = toy_renew,
    .interest = toy_interest,
    .ask = toy_ask,
    .forget = toy_forget,
};
