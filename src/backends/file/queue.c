/* SPDX-License-Identifier: MIT */
/*
 * The queue layout of the file store: open, close, and the table of functions that
 * file.c passes to core. queue.h says which file holds what.
 *
 * Core calls all of this under the client's lock. Only open() may block for long;
 * close() accepts a session that is half open, and in a forked child touches nothing
 * that the parent shares.
 */
#include "queue.h"

#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"
#include "../../base/url.h"
#include "dir.h"
#include "file.h"
#include "home.h"

#define OPEN_TRIES 16
#define CAPABILITIES                                                                   \
    (HF_CAP_MUTEX | HF_CAP_FAIR | HF_CAP_RW | HF_CAP_DOWNGRADE | HF_CAP_PERMITS |      \
     HF_CAP_EXPIRING | HF_CAP_LATCH | HF_CAP_CELL | HF_CAP_LEASE | HF_CAP_DETACH |     \
     HF_CAP_INSPECT | HF_CAP_EVICT | HF_CAP_REVOKE | HF_CAP_PROCESSES | HF_CAP_CRASH | \
     HF_CAP_DURABLE | HF_CAP_HANDOFF | HF_CAP_DIAGNOSE)

static void queue_init(struct file_queue *me, struct hf_host *host)
{
    me->host = host;
    me->top_fd = me->dir_fd = me->live_fd = me->fifo_fd = me->region.fd = -1;
    me->session = SESSION_COUNT;
    hf__list_init(&me->waiters);
    gethostname(me->host_name, sizeof(me->host_name) - 1);
}

/* Closes what open() opened, except the user's directory. */
static void files_close(struct file_queue *me, bool forked)
{
    hf__file_session_close(me, forked);
    if (me->fifo_fd >= 0)
        close(me->fifo_fd);
    hf__file_region_close(&me->region);
    if (me->dir_fd >= 0)
        close(me->dir_fd);
    me->fifo_fd = me->dir_fd = -1;
}

static int files_open(struct file_queue *me, hf_error *why)
{
    int rc = hf__file_home_open(me->top_fd, me->mode, &me->dir_fd, &me->home_made, why);

    if (rc != 0)
        return rc;
    (void)flock(me->dir_fd, LOCK_SH | LOCK_NB); /* so that cleaners of /tmp skip it */
    rc = hf__file_region_open(&me->region, me->dir_fd, me->mode, me->open_until, why);
    if (rc == 0)
        rc = hf__file_session_register(me, why);
    return rc;
}

/* True if the directory was removed, or the state file that was opened is no longer the
 * one in it: then the result of opening them means nothing. */
static bool files_were_removed(const struct file_queue *me)
{
    return hf__file_home_removed(me->dir_fd) ||
           (me->region.fd >= 0 && !hf__file_region_there(&me->region, me->dir_fd));
}

/* The files may be removed while they are being opened, by a session that was asked to
 * diagnose (sessions.c) or by a person: then open() starts over. Once the session is
 * registered, other sessions do not remove them. */
static int files_open_surely(struct file_queue *me, hf_error *why)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        int rc = files_open(me, why);

        if (!files_were_removed(me))
            return rc;
        hf__file_session_unregister(me);
        files_close(me, false);
    }
    return hf__fail(why, HF_ESYSTEM, "the state file is removed again and again");
}

static int queue_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    struct file_queue *me = session;
    int rc;

    queue_init(me, host);
    me->open_until = hf__now() + host->request_ns;
    rc = hf__file_dir_mode(url, &me->mode, why);
    if (rc == 0)
        rc = hf__file_dir_open(url->path, &me->top_fd, why);
    if (rc == 0)
        rc = files_open_surely(me, why);
    if (rc == 0)
        *ret_caps = CAPABILITIES;
    me->open_until = 0;
    return rc;
}

static void waiters_free(struct file_queue *me, bool forked)
{
    struct hf_list_node *link;

    while ((link = hf__list_first(&me->waiters))) {
        struct queue_waiter *waiter = HF_CONTAINER(link, struct queue_waiter, link);
        if (!forked) {
            hf__file_waiter_free(waiter);
            continue;
        }
        me->host->ops->stop_timer(me->host,
                                  &waiter->timer); /* memory of this process */
        hf__list_remove(link);
        hf__free(waiter);
    }
    hf__free(me->numbers);
    if (me->retry.callback)
        me->host->ops->stop_timer(me->host, &me->retry);
}

static void queue_close(void *session, bool forked)
{
    struct file_queue *me = session;

    if (!me->host)
        return;
    if (me->fifo_fd >= 0 && !forked)
        me->host->ops->remove_fd(me->host, me->fifo_fd);
    if (!forked)
        hf__file_session_unregister(me);
    waiters_free(me, forked);
    hf__file_peers_close(me, forked);
    files_close(me, forked);
    if (me->files_removed && me->home_made)
        hf__file_home_remove(me->top_fd);
    if (me->top_fd >= 0)
        close(me->top_fd);
}

/* ---- Requests -------------------------------------------------------------------- */

static const struct {
    queue_verb *run;
    bool guarded;
} verbs[] = {
    [HF_LATCH_SET] = { hf__file_queue_latch_set, true },
    [HF_LATCH_GET] = { hf__file_queue_latch_get, true },
    [HF_LATCH_DOWN] = { hf__file_queue_latch_down, true },
    [HF_CELL_GET] = { hf__file_queue_cell_get, false },
    [HF_CELL_SET] = { hf__file_queue_cell_set, false },
    [HF_INSPECT] = { hf__file_queue_inspect, false },
    [HF_EVICT] = { hf__file_queue_evict, true },
    [HF_REVOKE] = { hf__file_queue_revoke, true },
    [HF_DOWNGRADE] = { hf__file_queue_downgrade, true },
    [HF_ADOPT] = { hf__file_queue_adopt, true },
    [HF_DIAGNOSE] = { hf__file_queue_diagnose, false },
};

static int queue_run(struct file_queue *me, struct hf_request *request, hf_error *why)
{
    size_t verb = (size_t)request->verb;
    int rc;

    if (verb >= sizeof(verbs) / sizeof(verbs[0]) || !verbs[verb].run)
        return hf__fail_code(why, HF_EUNSUPPORTED);
    if (!verbs[verb].guarded)
        return verbs[verb].run(me, request, why);
    rc = hf__file_guard_lock(me, why);
    if (rc != 0)
        return rc;
    rc = verbs[verb].run(me, request, why);
    hf__file_guard_unlock(me);
    return rc;
}

/* ---- Requests that wait for the guard -------------------------------------------- */

/*
 * request->store: [0] the next postponed request, [1] until when it may be postponed,
 * [2] how far inspect has come. The answer must be there before core's timeout.
 */
static void request_append(struct file_queue *me, struct hf_request *request)
{
    request->store[0] = 0;
    if (me->postponed)
        me->postponed_last->store[0] = (uint64_t)(uintptr_t)request;
    else
        me->postponed = request;
    me->postponed_last = request;
}

static bool request_postpone(struct file_queue *me, struct hf_request *request)
{
    if (!request->store[1])
        request->store[1] = (uint64_t)(hf__now() + me->host->request_ns / 4 * 3);
    if (me->guard_stopped || hf__now() >= (int64_t)request->store[1] ||
        !hf__file_retry_soon(me))
        return false;
    request_append(me, request);
    return true;
}

static struct hf_request *request_next(const struct hf_request *request)
{
    return (struct hf_request *)(uintptr_t)request->store[0];
}

static void queue_ask(void *session, struct hf_request *request)
{
    struct file_queue *me = session;
    hf_error why;
    int rc = queue_run(me, request, &why);

    if (rc == HF_EUNREACHABLE && request_postpone(me, request))
        return;
    memset(request->store, 0, sizeof(request->store));
    me->host->ops->answered(me->host, request, rc, rc ? &why : NULL);
}

void hf__file_queue_resume(struct file_queue *me)
{
    struct hf_request *request = me->postponed;

    me->postponed = NULL;
    while (request) {
        struct hf_request *next = request_next(request);
        queue_ask(me, request);
        request = next;
    }
}

static void request_forget(struct file_queue *me, const void *request)
{
    struct hf_request *all = me->postponed;

    me->postponed = NULL;
    while (all) {
        struct hf_request *next = request_next(all);
        if (all == request)
            memset(all->store, 0, sizeof(all->store));
        else
            request_append(me, all);
        all = next;
    }
}

/* Of tickets only those with a waiter are remembered, of requests those postponed. */
static void queue_forget(void *session, const void *ticket_or_request)
{
    struct file_queue *me = session;

    request_forget(me, ticket_or_request);
    for (HF_EACH(link, &me->waiters)) {
        struct queue_waiter *waiter = HF_CONTAINER(link, struct queue_waiter, link);
        if (waiter->ticket == ticket_or_request) {
            hf__file_waiter_free(waiter);
            return;
        }
    }
}

const struct hf_backend hf__file_queue = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "file",
    .session_size = sizeof(struct file_queue),
    .open = queue_open,
    .close = queue_close,
    .attempt = hf__file_queue_attempt,
    .withdraw = hf__file_queue_withdraw,
    .renew = hf__file_queue_renew,
    .interest = hf__file_queue_interest,
    .ask = queue_ask,
    .forget = queue_forget,
    .pass = hf__file_queue_pass,
};
