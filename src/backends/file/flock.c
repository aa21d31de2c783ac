/* SPDX-License-Identifier: MIT */
/*
 * The flock layout of the file: store: a lock is flock(2) on the file of its name, so
 * that holdfast and flock(1) exclude each other on one path. mutex, reentrant and write
 * lock it exclusively, read locks it shared. file.c forwards to this table when the URL
 * says layout=flock; core calls it as any store, under the client's lock.
 *
 * A free lock costs one system call to take and one to release: descriptors are kept
 * (lockfile.c), and the token comes from a mapped page (tokens.c). A wait is flock(2)
 * itself, on a thread of its own (kit/blocker.h), which writes to the session's eventfd
 * when it returns: nothing polls. The kernel does not queue in order, hence no fair
 * kind; turning a write lock into a read lock releases it for a moment, hence no
 * downgrade; the kernel knows neither the holder nor a time limit, hence no lease and
 * no report.
 *
 * Lock files are never written and never deleted. If another program deletes one, a
 * client that locks the deleted file detects that by looking at the path, and starts
 * over with the file that is there now; a file that was deleted under its holder is
 * reported at the release.
 *
 * ticket->store: the file that serves the ticket, and, once granted, token and span.
 */
#include "flock.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <unistd.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "diagnose.h"
#include "dir.h"
#include "lockfile.h"
#include "tokens.h"

#define REOPEN_TRIES 64
#define NO_THREAD_RETRY_NS (20 * HF_NS_PER_MS)

enum { STORE_FILE, STORE_TOKEN, STORE_SPAN };

struct session {
    struct hf_host *host; /* NULL: open() was never called */
    int event_fd;         /* -1: no ticket has waited yet */
    bool shielded;        /* cleaners of temporary files skip the directory */
    struct lockfiles files;
    struct hf_tokens tokens;
    bool diagnosed; /* asked to diagnose: removes the token file if it is not used */
};

static struct lockfile *ticket_file(const struct hf_ticket *ticket)
{
    return (struct lockfile *)(uintptr_t)ticket->store[STORE_FILE];
}

/* ---- Answers --------------------------------------------------------------------- */

static void answer_granted(struct session *s, struct hf_ticket *ticket)
{
    struct hf_grant grant = { .token = ticket->store[STORE_TOKEN],
                              .span = (uint32_t)ticket->store[STORE_SPAN] };

    s->host->ops->granted(s->host, ticket, &grant);
}

static void answer_failed(struct session *s, struct hf_ticket *ticket,
                          const hf_error *why)
{
    struct lockfile *file = ticket_file(ticket);

    if (file)
        hf__file_lockfile_free(file);
    ticket->store[STORE_FILE] = 0;
    s->host->ops->failed(s->host, ticket, why);
}

/* Unlocks the file and returns it to the cache; the ticket no longer has it. */
static void ticket_drop(struct session *s, struct hf_ticket *ticket)
{
    struct lockfile *file = ticket_file(ticket);

    hf__blocker_cancel(&file->blocker);
    flock(file->fd, LOCK_UN);
    hf__file_lockfile_put(&s->files, file);
    ticket->store[STORE_FILE] = 0;
    ticket->store[STORE_TOKEN] = 0;
}

/* ---- Waiting --------------------------------------------------------------------- */

static void file_advance(struct session *s, struct lockfile *file);

/* On the blocker's thread, which may be cancelled at any moment. */
static int file_block(void *arg)
{
    const struct lockfile *file = arg;
    int rc;

    do {
        rc = flock(file->fd, file->how);
    } while (rc != 0 && errno == EINTR);
    return rc == 0 ? 0 : -errno;
}

static void file_wake(struct session *s, struct lockfile *file)
{
    int rc = hf__blocker_collect(&file->blocker);
    hf_error why;

    if (rc == 0) {
        file_advance(s, file);
        return;
    }
    hf__fail_sys(&why, HF_ESYSTEM, -rc, "the lock file cannot be locked");
    answer_failed(s, file->ticket, &why);
}

static struct lockfile *session_woken(struct session *s)
{
    for (HF_EACH(link, &s->files.all)) {
        struct lockfile *file = HF_CONTAINER(link, struct lockfile, link);

        if (hf__blocker_done(&file->blocker))
            return file;
    }
    return NULL;
}

/* Each pass may close files, hence the search from the start. */
static void session_wake(void *arg, uint32_t events)
{
    struct session *s = arg;
    struct lockfile *file;
    uint64_t count;

    (void)events;
    while (read(s->event_fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
    while ((file = session_woken(s)))
        file_wake(s, file);
}

static int event_open(struct session *s, hf_error *why)
{
    int rc;

    if (s->event_fd >= 0)
        return 0;
    s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->event_fd < 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "no descriptor to wait with");
    rc = s->host->ops->add_fd(s->host, s->event_fd, EPOLLIN, session_wake, s);
    if (rc == 0)
        return 0;
    close(s->event_fd);
    s->event_fd = -1;
    return hf__fail_code(why, rc);
}

static void file_wait(struct session *s, struct lockfile *file)
{
    struct hf_ticket *ticket = file->ticket;
    hf_error why;

    if (event_open(s, &why) != 0) {
        answer_failed(s, ticket, &why);
    } else if (hf__blocker_start(&file->blocker, file_block, file, s->event_fd) == 0) {
        s->host->ops->queued(s->host, ticket, 0);
    } else {
        ticket_drop(s, ticket);
        s->host->ops->queued(s->host, ticket, NO_THREAD_RETRY_NS);
    }
}

/* ---- Taking ---------------------------------------------------------------------- */

/* 0: locked at *ret_now, and the path leads to the file. HF_EBUSY: another client holds
 * it. */
static int file_lock(struct session *s, struct lockfile *file, int64_t *ret_now,
                     hf_error *why)
{
    for (int i = 0; i < REOPEN_TRIES; i++) {
        int rc;

        if (flock(file->fd, file->how | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                return HF_EBUSY;
            return hf__fail_sys(why, HF_ESYSTEM, errno, "'%.100s' cannot be locked",
                                file->file);
        }
        *ret_now = hf__wall_us();
        if (hf__file_lockfile_current(&s->files, file, *ret_now))
            return 0;
        rc = hf__file_lockfile_reopen(&s->files, file, why);
        if (rc != 0)
            return rc;
    }
    return hf__fail(why, HF_ESYSTEM, "'%.100s' is deleted as soon as it is made",
                    file->file);
}

static void file_grant(struct session *s, struct lockfile *file, int64_t now_us)
{
    struct hf_ticket *ticket = file->ticket;
    uint32_t span = ticket->reserve ? ticket->reserve : 1;
    uint64_t token = hf__file_tokens_draw(&s->tokens, span, now_us);
    hf_error why;

    if (token == 0) {
        hf__fail(&why, HF_ECORRUPT,
                 "'" HF_TOKENS_FILE
                 "' has no numbers left: remove it while no process uses "
                 "the directory");
        answer_failed(s, ticket, &why);
        return;
    }
    ticket->store[STORE_TOKEN] = token;
    ticket->store[STORE_SPAN] = span;
    answer_granted(s, ticket);
}

static void file_advance(struct session *s, struct lockfile *file)
{
    struct hf_ticket *ticket = file->ticket;
    int64_t now_us = 0;
    hf_error why;
    int rc = file_lock(s, file, &now_us, &why);

    if (rc == 0) {
        file_grant(s, file, now_us);
    } else if (rc != HF_EBUSY) {
        answer_failed(s, ticket, &why);
    } else if (ticket->flags & HF_TICKET_TRY) {
        ticket_drop(s, ticket);
        s->host->ops->busy(s->host, ticket);
    } else {
        file_wait(s, file);
    }
}

static int ticket_check(const struct hf_ticket *ticket, hf_error *why)
{
    if (ticket->kind != HF_MUTEX && ticket->kind != HF_REENTRANT &&
        ticket->kind != HF_READ && ticket->kind != HF_WRITE)
        return hf__fail(why, HF_EUNSUPPORTED,
                        "layout=flock has mutex, reentrant, read and write only");
    if (ticket->ttl_ns > 0)
        return hf__fail(why, HF_EUNSUPPORTED,
                        "layout=flock has no leases: a lock is held until it is "
                        "released or the process ends");
    return 0;
}

static void flock_attempt(void *session, struct hf_ticket *ticket)
{
    struct session *s = session;
    struct lockfile *file = ticket_file(ticket);
    hf_error why;

    if (file && ticket->store[STORE_TOKEN]) {
        answer_granted(s, ticket);
    } else if (file) {
        s->host->ops->queued(s->host, ticket, 0);
    } else if (ticket_check(ticket, &why) != 0 ||
               hf__file_lockfile_take(&s->files, ticket, &file, &why) != 0) {
        answer_failed(s, ticket, &why);
    } else {
        ticket->store[STORE_FILE] = (uintptr_t)file;
        file->how = ticket->kind == HF_READ ? LOCK_SH : LOCK_EX;
        file_advance(s, file);
    }
}

static void flock_withdraw(void *session, struct hf_ticket *ticket)
{
    struct session *s = session;
    struct lockfile *file = ticket_file(ticket);
    bool held = file && ticket->store[STORE_TOKEN];
    bool lost = !file || (held && !hf__file_lockfile_still(&s->files, file));

    if (file)
        ticket_drop(s, ticket);
    s->host->ops->withdrawn(s->host, ticket, lost ? HF_GONE : HF_WITHDRAWN);
}

/* ---- The rest -------------------------------------------------------------------- */

static void flock_renew(void *session, struct hf_ticket *const *tickets, size_t count,
                        enum hf_renew_mode mode)
{
    struct session *s = session;

    (void)mode;
    for (size_t i = 0; i < count; i++) {
        struct lockfile *file = ticket_file(tickets[i]);
        bool held = file && tickets[i]->store[STORE_TOKEN] &&
                    hf__file_lockfile_look(&s->files, file, hf__wall_us());

        s->host->ops->renewed(s->host, tickets[i],
                              held ? HF_STILL_HELD : HF_RENEWAL_LOST, NULL);
    }
}

static void flock_interest(void *session, struct hf_ticket *ticket)
{
    (void)session;
    (void)ticket;
}

static void flock_ask(void *session, struct hf_request *request)
{
    struct session *s = session;
    struct dir_facts facts = { .flock = true,
                               .shielded = s->shielded,
                               .tokens_private = !s->tokens.page };
    hf_error why;
    int rc;

    s->diagnosed = s->diagnosed || request->verb == HF_DIAGNOSE;
    if (request->verb != HF_DIAGNOSE)
        rc = hf__fail_code(&why, HF_EUNSUPPORTED);
    else
        rc = hf__file_facts_report(&facts, s->files.dir_fd, -1, s->host, request, &why);
    s->host->ops->answered(s->host, request, rc, rc ? &why : NULL);
}

/* Here no other client can see a hold, or evict it by its token. */
static bool flock_pass(void *session, struct hf_ticket *ticket, uint64_t token)
{
    (void)session;
    (void)ticket;
    (void)token;
    return true;
}

static void flock_forget(void *session, const void *ticket_or_request)
{
    struct session *s = session;

    for (HF_EACH(link, &s->files.all)) {
        struct lockfile *file = HF_CONTAINER(link, struct lockfile, link);

        if (file->ticket == ticket_or_request) {
            ticket_drop(s, file->ticket);
            return;
        }
    }
}

static int flock_open(void *session, struct hf_host *host, const struct hf_url *url,
                      uint64_t *ret_caps, hf_error *why)
{
    struct session *s = session;
    int rc;

    s->host = host;
    s->event_fd = -1;
    hf__file_lockfiles_init(&s->files);
    rc = hf__file_dir_mode(url, &s->files.mode, why);
    if (rc == 0)
        rc = hf__file_dir_open(url->path, &s->files.dir_fd, why);
    if (rc != 0)
        return rc;
    /* Cleaners of temporary files skip a locked directory. Only the default directory
     * is locked: another program may use a lock on a given one for something else. */
    if (url->path[0] == '\0')
        s->shielded = flock(s->files.dir_fd, LOCK_SH | LOCK_NB) == 0;
    rc = hf__file_tokens_open(&s->tokens, s->files.dir_fd, s->files.mode, why);
    if (rc != 0)
        return rc;
    *ret_caps = HF_CAP_MUTEX | HF_CAP_RW | HF_CAP_PROCESSES | HF_CAP_CRASH |
                HF_CAP_HANDOFF | HF_CAP_DIAGNOSE |
                (s->tokens.page ? HF_CAP_DURABLE : 0);
    return 0;
}

/* Unlocks what is still held or waited for, so that no copy of a descriptor, in
 * whatever process, keeps it locked. */
static void session_unlock(struct session *s)
{
    if (s->event_fd >= 0)
        s->host->ops->remove_fd(s->host, s->event_fd);
    for (HF_EACH(link, &s->files.all)) {
        struct lockfile *file = HF_CONTAINER(link, struct lockfile, link);

        hf__blocker_cancel(&file->blocker);
        if (file->ticket)
            flock(file->fd, LOCK_UN);
    }
}

static void flock_close(void *session, bool forked)
{
    struct session *s = session;

    if (!s->host)
        return;
    if (!forked)
        session_unlock(s);
    if (!forked && s->diagnosed)
        hf__file_tokens_remove_unused(&s->tokens, s->files.dir_fd);
    hf__file_lockfiles_done(&s->files);
    hf__file_tokens_done(&s->tokens);
    if (s->event_fd >= 0)
        close(s->event_fd);
}

static const char *const no_schemes[] = { NULL };
static const char *const url_options[] = { "layout", "mode", NULL };

const struct hf_backend hf__file_flock = {
    .size = sizeof(struct hf_backend),
    .abi = HF_BACKEND_ABI,
    .name = "file",
    .schemes = no_schemes,
    .options = url_options,
    .session_size = sizeof(struct session),
    .open = flock_open,
    .close = flock_close,
    .attempt = flock_attempt,
    .withdraw = flock_withdraw,
    .renew = flock_renew,
    .interest = flock_interest,
    .ask = flock_ask,
    .forget = flock_forget,
    .pass = flock_pass,
};
