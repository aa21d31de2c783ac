/* SPDX-License-Identifier: MIT */
/*
 * Other sessions: how this session wakes them, and how it learns that one has died.
 *
 * To wake a session is to write the index of one of its entries, or 0 for "check all",
 * into its FIFO. The FIFO is named after the number of the session and its generation,
 * and what is kept about another session is dropped when its generation changes: a
 * descriptor of a dead session must never swallow a wake-up for the living one with
 * that number. FIFOs are opened for reading too, so that one without a reader causes no
 * SIGPIPE.
 *
 * A waiter watches the sessions that it depends on: the first in the queue watches all
 * holders, any other the entry before it. With the guard held they are only noted, as
 * targets; the system calls come after. A process is watched by a pidfd that stays in
 * the loop. Where that is not possible (another pid namespace, no /proc, no descriptors
 * left) its lock in `live` is checked now and then.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../base/mem.h"
#include "home.h"
#include "queue.h"

static uint32_t session_gen(const struct file_queue *me, uint32_t session)
{
    return __atomic_load_n(&me->region.sessions[session].gen, __ATOMIC_ACQUIRE);
}

/* ---- What is kept about a session ------------------------------------------------ */

static void peer_forget(struct queue_peer *peer, bool forked)
{
    struct hf_host *host = peer->queue->host;

    if (peer->in_loop && !forked)
        host->ops->remove_fd(host, peer->process);
    if (peer->process >= 0)
        close(peer->process);
    if (peer->fifo >= 0)
        close(peer->fifo);
    *peer = (struct queue_peer){ 0 };
}

/* NULL: no memory. */
static struct queue_peer *peer_of(struct file_queue *me, uint32_t session)
{
    uint32_t gen = session_gen(me, session);
    struct queue_peer *peer;

    if (!me->peers)
        me->peers = hf__alloc(SESSION_COUNT * sizeof(*me->peers));
    if (!me->peers)
        return NULL;
    peer = &me->peers[session];
    if (peer->queue && peer->gen != gen)
        peer_forget(peer, false);
    if (!peer->queue)
        *peer =
            (struct queue_peer){ .queue = me, .gen = gen, .process = -1, .fifo = -1 };
    return peer;
}

void hf__file_peers_close(struct file_queue *me, bool forked)
{
    for (uint32_t i = 0; me->peers && i < SESSION_COUNT; i++)
        if (me->peers[i].queue)
            peer_forget(&me->peers[i], forked);
    hf__free(me->peers);
    hf__free(me->targets);
    me->peers = NULL;
    me->targets = NULL;
}

/* ---- Waking ---------------------------------------------------------------------- */

static int fifo_open(struct file_queue *me, uint32_t session, uint32_t gen)
{
    char file[32];
    struct stat st;
    int fd;

    hf__file_home_fifo(file, session, gen);
    fd = openat(me->dir_fd, file, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void fifo_write(struct region_session *s, int fd, uint32_t entry)
{
    if (write(fd, &entry, sizeof(entry)) < 0 && errno == EAGAIN)
        __atomic_store_n(&s->fifo_full, 1, __ATOMIC_RELEASE);
}

void hf__file_peer_wake(struct file_queue *me, uint32_t session, uint32_t entry)
{
    struct region_session *s = &me->region.sessions[session];
    struct queue_peer *peer;
    int fd;

    if (session == me->session && entry && entry == me->current)
        return;
    if (__atomic_load_n(&s->fifo, __ATOMIC_ACQUIRE) == 0)
        return;
    peer = peer_of(me, session);
    fd = peer && peer->fifo >= 0 ? peer->fifo : fifo_open(me, session, s->gen);
    if (fd < 0)
        return;
    fifo_write(s, fd, entry);
    if (peer)
        peer->fifo = fd;
    else
        close(fd);
}

/* ---- Which sessions an entry waits for ------------------------------------------- */

struct session_set {
    uint64_t bits[SESSION_COUNT / 64];
};

static void target_add(struct file_queue *me, struct session_set *seen,
                       uint32_t session)
{
    uint64_t bit = UINT64_C(1) << session % 64;

    if (session == me->session || (seen->bits[session / 64] & bit))
        return;
    seen->bits[session / 64] |= bit;
    me->targets[me->target_count++] =
        (struct queue_target){ session, me->region.sessions[session].gen };
}

static void target_add_place(struct file_queue *me, struct session_set *seen,
                             const struct block_entry *e)
{
    bool tied = !(e->flags & ENTRY_DETACHED) || e->state == ENTRY_WAITING;
    if (tied && me->region.sessions[e->session].gen == e->session_gen)
        target_add(me, seen, e->session);
}

void hf__file_peer_note(struct file_queue *me, struct region_block *record,
                        struct region_block *entry)
{
    const struct block_record *r = &record->record;
    uint64_t word = word_load(&record->lock_word);
    uint32_t index = r->first;
    struct session_set seen = { { 0 } };

    me->target_count = 0;
    me->target_poll = false;
    if (entry && r->first_waiting != block_index(me, entry)) {
        target_add_place(me, &seen, &block_at(me, entry->entry.prev)->entry);
        return;
    }
    if (word & WORD_HELD)
        target_add(me, &seen, word_session(word));
    for (uint32_t i = 0; i < r->granted; i++) {
        target_add_place(me, &seen, &block_at(me, index)->entry);
        index = block_at(me, index)->next;
    }
}

/* ---- Checking them --------------------------------------------------------------- */

static void dead_reap(struct file_queue *me, const struct queue_target *dead,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (me->region.sessions[dead[i].session].gen == dead[i].gen)
            hf__file_session_reap(me, dead[i].session);
}

static bool process_over(int fd)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    return poll(&poll_fd, 1, 0) > 0;
}

static void process_ended(void *arg, uint32_t events)
{
    struct queue_peer *peer = arg;
    struct file_queue *me = peer->queue;
    struct queue_target dead = { (uint32_t)(peer - me->peers), peer->gen };
    hf_error why;

    (void)events;
    if (!process_over(peer->process))
        return; /* for an older descriptor with the same number */
    me->host->ops->remove_fd(me->host, peer->process);
    peer->in_loop = false;
    if (hf__file_guard_lock(me, &why) != 0) {
        hf__file_retry_soon(me);
        return;
    }
    dead_reap(me, &dead, 1);
    hf__file_guard_unlock(me);
}

enum process_answer { PROCESS_LIVES, PROCESS_DEAD, PROCESS_UNKNOWN };

/* The start time is read while the pidfd is open: if it is the right one then, the
 * descriptor refers to the right process for good. */
static enum process_answer process_open(const struct region_session *s, int *ret_fd)
{
    int32_t pid = __atomic_load_n(&s->pid, __ATOMIC_RELAXED);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    uint64_t start;

    if (fd < 0)
        return errno == ESRCH ? PROCESS_DEAD : PROCESS_UNKNOWN;
    start = hf__file_process_start(pid);
    if (start == __atomic_load_n(&s->start, __ATOMIC_RELAXED)) {
        *ret_fd = fd;
        return PROCESS_LIVES;
    }
    close(fd);
    return start == 0 ? PROCESS_UNKNOWN : PROCESS_DEAD;
}

/*
 * Another session may take the number meanwhile, and the pid that was read may belong
 * to either. If the generation is still the same afterwards, the pid was the right one.
 */
static enum process_answer peer_open(struct file_queue *me, struct queue_peer *peer,
                                     const struct queue_target *target)
{
    enum process_answer answer =
        process_open(&me->region.sessions[target->session], &peer->process);

    if (session_gen(me, target->session) == target->gen)
        return answer;
    peer_forget(peer, false);
    return PROCESS_LIVES;
}

static enum process_answer process_check(struct file_queue *me,
                                         const struct queue_target *target, bool stay)
{
    const struct region_session *s = &me->region.sessions[target->session];
    struct queue_peer *peer = peer_of(me, target->session);
    enum process_answer answer;

    if (!peer)
        return PROCESS_UNKNOWN;
    if (peer->gen != target->gen ||
        __atomic_load_n(&s->pid, __ATOMIC_RELAXED) == me->pid ||
        (stay && peer->in_loop))
        return PROCESS_LIVES;
    if (peer->process < 0) {
        answer = peer_open(me, peer, target);
        if (answer != PROCESS_LIVES || !peer->queue)
            return answer;
    }
    if (stay && me->host->ops->add_fd(me->host, peer->process, EPOLLIN, process_ended,
                                      peer) == 0) {
        peer->in_loop = true;
        return PROCESS_LIVES;
    }
    if (process_over(peer->process))
        return PROCESS_DEAD;
    return stay ? PROCESS_UNKNOWN : PROCESS_LIVES;
}

/* A session can end without its process: by exec, which closes its descriptors. So a
 * try, and core's repeated question, also check the lock. */
static bool target_dead(struct file_queue *me, const struct queue_target *target,
                        bool stay)
{
    const struct region_session *s = &me->region.sessions[target->session];
    uint32_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
    uint64_t space = __atomic_load_n(&s->space, __ATOMIC_RELAXED);
    enum process_answer answer = PROCESS_UNKNOWN;

    if (session_gen(me, target->session) != target->gen || state == SESSION_FREE)
        return false; /* already cleaned up: its waiters are woken */
    if (state == SESSION_CLOSED)
        return true;
    if (space && space == me->space && __atomic_load_n(&s->start, __ATOMIC_RELAXED))
        answer = process_check(me, target, stay);
    if ((answer == PROCESS_UNKNOWN || !stay || me->thorough) &&
        !hf__file_session_locked(me, target->session))
        answer = PROCESS_DEAD;
    if (answer == PROCESS_UNKNOWN)
        me->target_poll = true;
    return answer == PROCESS_DEAD;
}

bool hf__file_peer_check(struct file_queue *me, bool stay)
{
    uint32_t count = 0;
    hf_error why;

    for (uint32_t i = 0; i < me->target_count; i++)
        if (target_dead(me, &me->targets[i], stay))
            me->targets[count++] = me->targets[i];
    me->target_count = 0;
    if (count == 0)
        return false;
    if (hf__file_guard_lock(me, &why) != 0) {
        hf__file_retry_soon(me);
        return false;
    }
    dead_reap(me, me->targets, count);
    hf__file_guard_unlock(me);
    return true;
}
