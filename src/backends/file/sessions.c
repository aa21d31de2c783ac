/* SPDX-License-Identifier: MIT */
/*
 * Sessions in the state file, and the proof that they live.
 *
 * A session is registered when its client opens and unregistered when it closes. A
 * session that finds another one dead cleans up after it: it ends its entries and fast
 * holds, so that the locks are passed on, and removes its FIFO. The number of a session
 * becomes free last, with a new generation, so another session can repeat the clean-up
 * from the start, and nothing that was kept about the old session is mistaken for the
 * new one.
 *
 * Three things show whether a session lives: its process (peers.c watches it), its
 * state (SESSION_CLOSED: it closed and could not lock the guard), and a lock on byte
 * <session> of the file `live`, which the kernel drops with the last descriptor. A
 * forked child inherits that descriptor, so a fork handler closes it there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/error.h"
#include "dir.h"
#include "home.h"
#include "queue.h"

#define START_FIELD 20 /* of /proc/<pid>/stat, after the name: the state is 1 */

/* ---- Sessions of this process ---------------------------------------------------- */

static pthread_once_t sessions_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t sessions_lock = PTHREAD_MUTEX_INITIALIZER;
static struct hf_list_node sessions = { &sessions, &sessions };

static void fork_before(void)
{
    pthread_mutex_lock(&sessions_lock);
}

static void fork_after(void)
{
    pthread_mutex_unlock(&sessions_lock);
}

static void fork_in_child(void)
{
    for (HF_EACH(link, &sessions)) {
        struct file_queue *me = HF_CONTAINER(link, struct file_queue, in_process);
        close(me->live_fd);
        me->live_fd = -1;
    }
    fork_after();
}

static void sessions_begin(void)
{
    pthread_atfork(fork_before, fork_after, fork_in_child);
}

/* Under the lock, so that no fork falls between opening the file and adding it to the
 * list. */
static int live_open(struct file_queue *me, struct stat *st, hf_error *why)
{
    int rc;

    pthread_once(&sessions_once, sessions_begin);
    pthread_mutex_lock(&sessions_lock);
    rc = hf__file_dir_open_file(me->dir_fd, HF_HOME_LIVE, O_RDWR, me->mode,
                                &me->live_fd, st, why);
    if (rc == 0)
        hf__list_push_back(&sessions, &me->in_process);
    pthread_mutex_unlock(&sessions_lock);
    return rc;
}

/* ---- Signs of life --------------------------------------------------------------- */

static int live_lock(int fd, int command, struct flock *lock, uint32_t session)
{
    *lock = (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = session, .l_len = 1
    };
    return fcntl(fd, command, lock);
}

bool hf__file_session_locked(const struct file_queue *me, uint32_t session)
{
    struct flock lock;

    if (session == me->session)
        return true; /* a lock of the same descriptor does not show */
    return live_lock(me->live_fd, F_OFD_GETLK, &lock, session) != 0 ||
           lock.l_type != F_UNLCK;
}

uint64_t hf__file_process_start(int32_t pid)
{
    char path[32], text[1024];
    int fd;
    ssize_t got;
    char *at;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    got = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    at = strrchr(text, ')'); /* the name may contain this, too */
    for (int i = 0; at && i < START_FIELD; i++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* ---- Reaping --------------------------------------------------------------------- */

static void session_files_remove(const struct file_queue *me, uint32_t session)
{
    char file[32];

    hf__file_home_fifo(file, session, me->region.sessions[session].gen);
    hf__file_home_drop_fifo(me->dir_fd, file);
    hf__file_home_tmp(file, session);
    hf__file_home_drop_tmp(me->dir_fd, file);
}

/* A detached hold is kept, if its session ever reported the grant. */
static bool entry_ends(const struct block_entry *e, uint32_t session, uint32_t gen)
{
    const uint32_t kept = ENTRY_DETACHED | ENTRY_TOLD;

    if (e->state == ENTRY_NONE || e->session != session || e->session_gen != gen)
        return false;
    return e->state == ENTRY_WAITING || (e->flags & kept) != kept;
}

static void blocks_reap(struct file_queue *me, uint32_t session, uint32_t gen)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        uint64_t word = word_load(&block->lock_word);

        if (block->type == BLOCK_ENTRY && entry_ends(&block->entry, session, gen)) {
            hf__file_entry_end(me, block);
        } else if (block->type == BLOCK_RECORD && (word & WORD_HELD) &&
                   word_session(word) == session) {
            hf__file_record_drop(block);
            hf__file_record_update(me, block);
        }
    }
}

void hf__file_session_reap(struct file_queue *me, uint32_t session)
{
    struct region_session *s = &me->region.sessions[session];

    __atomic_store_n(&s->fifo, 0, __ATOMIC_RELEASE); /* cannot be woken any more */
    if (session != me->session || me->held)
        blocks_reap(me, session, s->gen);
    session_files_remove(me, session);
    guard_step();
    __atomic_store_n(&s->gen, s->gen + 1, __ATOMIC_RELEASE);
    guard_step();
    __atomic_store_n(&s->state, SESSION_FREE, __ATOMIC_RELEASE);
    guard_step();
}

static bool session_unlocked(const struct file_queue *me, uint32_t session)
{
    const struct region_session *s = &me->region.sessions[session];
    /* A lock of the same descriptor never shows in a probe. */
    return session != me->session &&
           __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SESSION_FREE &&
           !hf__file_session_locked(me, session);
}

/* Sessions without their lock, to be checked again with the guard held. */
static uint32_t sessions_unlocked(const struct file_queue *me, uint32_t *unlocked)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        if (session_unlocked(me, i))
            unlocked[count++] = i;
    return count;
}

void hf__file_sessions_sweep(struct file_queue *me)
{
    uint32_t unlocked[SESSION_COUNT];
    uint32_t count = sessions_unlocked(me, unlocked);
    hf_error why;

    if (count == 0 || hf__file_guard_lock(me, &why) != 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (session_unlocked(me, unlocked[i]))
            hf__file_session_reap(me, unlocked[i]);
    hf__file_guard_unlock(me);
}

/* ---- Registering and unregistering ----------------------------------------------- */

static void session_fill(struct file_queue *me, struct region_session *s)
{
    size_t len = strnlen(me->host->program, sizeof(s->program) - 1);

    __atomic_store_n(&s->pid, me->pid, __ATOMIC_RELAXED);
    __atomic_store_n(&s->start, hf__file_process_start(me->pid), __ATOMIC_RELAXED);
    __atomic_store_n(&s->space, me->space, __ATOMIC_RELAXED);
    __atomic_store_n(&s->fifo_full, 0, __ATOMIC_RELAXED);
    memset(s->program, 0, sizeof(s->program));
    memcpy(s->program, me->host->program, len);
    guard_step();
    __atomic_store_n(&s->state, SESSION_USED, __ATOMIC_RELEASE);
    guard_step();
}

static int session_take(struct file_queue *me, hf_error *why)
{
    for (uint32_t i = 0; i < SESSION_COUNT; i++) {
        struct region_session *s = &me->region.sessions[i];
        struct flock lock;

        if (s->state != SESSION_FREE ||
            live_lock(me->live_fd, F_OFD_SETLK, &lock, i) != 0)
            continue;
        session_fill(me, s);
        me->session = i;
        me->session_gen = s->gen;
        return 0;
    }
    return hf__fail(why, HF_EFULL, "all %d sessions of the directory are taken",
                    SESSION_COUNT);
}

/* Whether a session may live, whatever its lock says. */
static bool session_may_live(const struct file_queue *me,
                             const struct region_session *s)
{
    uint64_t space = __atomic_load_n(&s->space, __ATOMIC_RELAXED);
    uint64_t start = __atomic_load_n(&s->start, __ATOMIC_RELAXED);

    if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SESSION_USED)
        return false;
    return !space || space != me->space || !start ||
           start == hf__file_process_start(__atomic_load_n(&s->pid, __ATOMIC_RELAXED));
}

/* If `live` was removed while sessions use it, their locks cannot be seen: they would
 * all look dead. */
static int live_check(struct file_queue *me, uint64_t ino, hf_error *why)
{
    uint64_t *used = &me->region.head->live_ino;
    uint64_t seen = 0;

    if (__atomic_compare_exchange_n(used, &seen, ino, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) ||
        seen == ino)
        return 0;
    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        if (session_may_live(me, &me->region.sessions[i]))
            return hf__fail(why, HF_ECORRUPT,
                            "the file 'live' was removed while process %d used it: "
                            "end all processes that use the directory",
                            me->region.sessions[i].pid);
    __atomic_store_n(used, ino, __ATOMIC_RELAXED);
    return 0;
}

int hf__file_session_register(struct file_queue *me, hf_error *why)
{
    struct stat st;
    int rc = live_open(me, &st, why);

    if (rc != 0)
        return rc;
    me->pid = getpid();
    me->space = pid_space();
    rc = live_check(me, (uint64_t)st.st_ino, why);
    if (rc != 0)
        return rc;
    hf__file_sessions_sweep(me);
    rc = hf__file_guard_lock(me, why);
    if (rc != 0)
        return rc;
    rc = session_take(me, why);
    hf__file_guard_unlock(me);
    return rc;
}

/* Without the guard a session can only mark itself closed and wake the others. */
static void session_abandon(struct file_queue *me)
{
    session_files_remove(me, me->session);
    __atomic_store_n(&me->region.sessions[me->session].state, SESSION_CLOSED,
                     __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        if (i != me->session)
            hf__file_peer_wake(me, i, 0);
}

static bool sessions_all_free(const struct file_queue *me)
{
    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        if (__atomic_load_n(&me->region.sessions[i].state, __ATOMIC_ACQUIRE) !=
            SESSION_FREE)
            return false;
    return true;
}

/*
 * A session that was asked to diagnose removes the files that it made, if no other
 * session used them. One that opens the directory at this moment registers later, and
 * then sees that the state file was removed (queue.c). `live` is removed first, so that
 * no session can have it together with a newer state file.
 */
static void unused_files_remove(struct file_queue *me)
{
    if (!me->diagnosed || !hf__file_region_unused(&me->region) ||
        !sessions_all_free(me) || !hf__file_region_there(&me->region, me->dir_fd))
        return;
    unlinkat(me->dir_fd, HF_HOME_LIVE, 0);
    unlinkat(me->dir_fd, HF_HOME_STATE, 0);
    me->files_removed = true;
}

void hf__file_session_unregister(struct file_queue *me)
{
    hf_error why;

    if (me->session == SESSION_COUNT)
        return;
    if (hf__file_guard_lock(me, &why) == 0) {
        hf__file_session_reap(me, me->session);
        unused_files_remove(me);
        hf__file_guard_unlock(me);
    } else {
        session_abandon(me);
    }
    me->session = SESSION_COUNT;
}

void hf__file_session_close(struct file_queue *me, bool forked)
{
    if (!forked)
        pthread_mutex_lock(&sessions_lock);
    hf__list_remove(&me->in_process);
    if (!forked)
        pthread_mutex_unlock(&sessions_lock);
    if (me->live_fd >= 0)
        close(me->live_fd);
    me->live_fd = -1;
}
