/* SPDX-License-Identifier: MIT */
/*
 * Slots: one for each session, and the proof that it lives.
 *
 * A session claims a slot when it opens and leaves it when it closes. Whoever finds
 * that a session is gone reaps its slot: takes its places and quick holds out of the
 * table, so that the locks pass on, and removes its FIFO. A slot becomes free last,
 * with a new generation, so reaping can be begun again by somebody else, and nothing
 * that was kept about the old session is mistaken for the new one.
 *
 * Three things tell whether a session lives: its process (peers.c watches it), its
 * state (SLOT_CLOSED: it closed and could not enter the guard), and a lock on byte
 * <slot> of the file `live`, which the kernel drops with the last descriptor. A forked
 * child inherits that descriptor, so a fork handler closes it there.
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

/* Under the lock, so that no fork falls between opening and enlisting. */
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

static int live_lock(int fd, int command, struct flock *lock, uint32_t slot)
{
    *lock = (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1
    };
    return fcntl(fd, command, lock);
}

bool hf__file_slot_locked(const struct file_queue *me, uint32_t slot)
{
    struct flock lock;

    if (slot == me->slot)
        return true; /* one's own lock does not show */
    return live_lock(me->live_fd, F_OFD_GETLK, &lock, slot) != 0 ||
           lock.l_type != F_UNLCK;
}

uint64_t hf__file_slot_start(int32_t pid)
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
    at = strrchr(text, ')'); /* the name may hold anything, also this */
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

static void slot_files_remove(const struct file_queue *me, uint32_t slot)
{
    char file[32];

    hf__file_home_fifo(file, slot, me->region.slots[slot].gen);
    hf__file_home_drop_fifo(me->dir_fd, file);
    hf__file_home_tmp(file, slot);
    hf__file_home_drop_tmp(me->dir_fd, file);
}

/* A detached hold stays, if its session ever knew of it. */
static bool place_goes(const struct block_place *p, uint32_t slot, uint32_t gen)
{
    const uint32_t stays = PLACE_DETACHED | PLACE_TOLD;

    if (p->state == PLACE_NONE || p->slot != slot || p->slot_gen != gen)
        return false;
    return p->state == PLACE_WAITING || (p->flags & stays) != stays;
}

static void blocks_reap(struct file_queue *me, uint32_t slot, uint32_t gen)
{
    for (uint32_t i = 1; i < me->region.head->high_water; i++) {
        struct region_block *block = block_at(me, i);
        uint64_t word = word_load(&block->word);

        if (block->type == BLOCK_PLACE && place_goes(&block->place, slot, gen)) {
            hf__file_place_end(me, block);
        } else if (block->type == BLOCK_RECORD && (word & WORD_HELD) &&
                   word_slot(word) == slot) {
            hf__file_record_drop(block);
            hf__file_record_settle(me, block);
        }
    }
}

void hf__file_slot_reap(struct file_queue *me, uint32_t slot)
{
    struct region_slot *s = &me->region.slots[slot];

    __atomic_store_n(&s->fifo, 0, __ATOMIC_RELEASE); /* nobody to wake */
    if (slot != me->slot || me->held)
        blocks_reap(me, slot, s->gen);
    slot_files_remove(me, slot);
    guard_step();
    __atomic_store_n(&s->gen, s->gen + 1, __ATOMIC_RELEASE);
    guard_step();
    __atomic_store_n(&s->state, SLOT_FREE, __ATOMIC_RELEASE);
    guard_step();
}

static bool slot_silent(const struct file_queue *me, uint32_t slot)
{
    const struct region_slot *s = &me->region.slots[slot];
    /* A lock of our own descriptor never shows in a probe through it. */
    return slot != me->slot &&
           __atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SLOT_FREE &&
           !hf__file_slot_locked(me, slot);
}

/* Sessions without their lock, to be looked at again in the guard. */
static uint32_t slots_silent(const struct file_queue *me, uint32_t *silent)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SLOT_COUNT; i++)
        if (slot_silent(me, i))
            silent[count++] = i;
    return count;
}

void hf__file_slots_sweep(struct file_queue *me)
{
    uint32_t silent[SLOT_COUNT];
    uint32_t count = slots_silent(me, silent);
    hf_error why;

    if (count == 0 || hf__file_guard_enter(me, &why) != 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        if (slot_silent(me, silent[i]))
            hf__file_slot_reap(me, silent[i]);
    hf__file_guard_leave(me);
}

/* ---- Claiming and leaving -------------------------------------------------------- */

static void slot_fill(struct file_queue *me, struct region_slot *s)
{
    size_t len = strnlen(me->host->program, sizeof(s->program) - 1);

    __atomic_store_n(&s->pid, me->pid, __ATOMIC_RELAXED);
    __atomic_store_n(&s->start, hf__file_slot_start(me->pid), __ATOMIC_RELAXED);
    __atomic_store_n(&s->space, me->space, __ATOMIC_RELAXED);
    __atomic_store_n(&s->flood, 0, __ATOMIC_RELAXED);
    memset(s->program, 0, sizeof(s->program));
    memcpy(s->program, me->host->program, len);
    guard_step();
    __atomic_store_n(&s->state, SLOT_USED, __ATOMIC_RELEASE);
    guard_step();
}

static int slot_take(struct file_queue *me, hf_error *why)
{
    for (uint32_t i = 0; i < SLOT_COUNT; i++) {
        struct region_slot *s = &me->region.slots[i];
        struct flock lock;

        if (s->state != SLOT_FREE || live_lock(me->live_fd, F_OFD_SETLK, &lock, i) != 0)
            continue;
        slot_fill(me, s);
        me->slot = i;
        me->slot_gen = s->gen;
        return 0;
    }
    return hf__fail(why, HF_EFULL, "all %d sessions of the directory are taken",
                    SLOT_COUNT);
}

/* Whether a slot may belong to somebody, whatever the lock says. */
static bool slot_inhabited(const struct file_queue *me, const struct region_slot *s)
{
    uint64_t space = __atomic_load_n(&s->space, __ATOMIC_RELAXED);
    uint64_t start = __atomic_load_n(&s->start, __ATOMIC_RELAXED);

    if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) != SLOT_USED)
        return false;
    return !space || space != me->space || !start ||
           start == hf__file_slot_start(__atomic_load_n(&s->pid, __ATOMIC_RELAXED));
}

/* If somebody removed `live` under its users they have locks that we cannot see: they
 * would all look dead. */
static int live_check(struct file_queue *me, uint64_t ino, hf_error *why)
{
    uint64_t *used = &me->region.head->live_ino;
    uint64_t seen = 0;

    if (__atomic_compare_exchange_n(used, &seen, ino, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) ||
        seen == ino)
        return 0;
    for (uint32_t i = 0; i < SLOT_COUNT; i++)
        if (slot_inhabited(me, &me->region.slots[i]))
            return hf__fail(why, HF_ECORRUPT,
                            "the file 'live' was removed while process %d used it: "
                            "end all processes that use the directory",
                            me->region.slots[i].pid);
    __atomic_store_n(used, ino, __ATOMIC_RELAXED);
    return 0;
}

int hf__file_slot_claim(struct file_queue *me, hf_error *why)
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
    hf__file_slots_sweep(me);
    rc = hf__file_guard_enter(me, why);
    if (rc != 0)
        return rc;
    rc = slot_take(me, why);
    hf__file_guard_leave(me);
    return rc;
}

/* Without the guard all we can do is say that we are gone, to those who listen. */
static void slot_abandon(struct file_queue *me)
{
    slot_files_remove(me, me->slot);
    __atomic_store_n(&me->region.slots[me->slot].state, SLOT_CLOSED, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < SLOT_COUNT; i++)
        if (i != me->slot)
            hf__file_peer_wake(me, i, 0);
}

static bool slots_free(const struct file_queue *me)
{
    for (uint32_t i = 0; i < SLOT_COUNT; i++)
        if (__atomic_load_n(&me->region.slots[i].state, __ATOMIC_ACQUIRE) != SLOT_FREE)
            return false;
    return true;
}

/*
 * A session that came to look takes the files that it made with it, if nobody used
 * them. One that opens the directory at this moment claims its slot after us, and sees
 * then that the state file is gone (queue.c). `live` goes first: nobody can have it
 * together with a newer state file.
 */
static void traces_remove(struct file_queue *me)
{
    if (!me->visit || !hf__file_region_unused(&me->region) || !slots_free(me) ||
        !hf__file_region_there(&me->region, me->dir_fd))
        return;
    unlinkat(me->dir_fd, HF_HOME_LIVE, 0);
    unlinkat(me->dir_fd, HF_HOME_STATE, 0);
    me->effaced = true;
}

void hf__file_slot_leave(struct file_queue *me)
{
    hf_error why;

    if (me->slot == SLOT_COUNT)
        return;
    if (hf__file_guard_enter(me, &why) == 0) {
        hf__file_slot_reap(me, me->slot);
        traces_remove(me);
        hf__file_guard_leave(me);
    } else {
        slot_abandon(me);
    }
    me->slot = SLOT_COUNT;
}

void hf__file_slot_close(struct file_queue *me, bool forked)
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
