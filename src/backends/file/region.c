/* SPDX-License-Identifier: MIT */
/*
 * The state file: opened, made, renewed after a reboot, mapped and grown.
 *
 * Called when a session opens or closes, and with the guard held to grow. While a
 * session opens the file it has an flock(2) on it: a shared one to check the file, an
 * exclusive one to make or renew it, so that one process does so and the others find it
 * ready; nothing else uses that lock. The largest length is mapped from the start,
 * which costs address space only: growing needs no new mapping in any process. Room is
 * allocated on disk before a block in it is touched, so a full disk is an error and
 * never a signal.
 *
 * Numbers (tokens, versions of cells) come from one counter. The numbers given out are
 * always below `durable_ceiling`, which is on disk before it is relied on; after a
 * crash of the machine counting goes on above it. A new file begins at the clock's
 * microseconds, in case an older one was lost.
 */
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/text.h"
#include "dir.h"
#include "home.h"

#define CEILING_STEP (UINT64_C(1) << 32)
#define LOCK_PAUSE_MS 5
#define OPEN_TRIES 16
#define ADVICE "when no process uses the directory, remove " HF_HOME "/" HF_HOME_STATE

#define SESSIONS_AT REGION_HEAD_SIZE
#define BUCKETS_AT (SESSIONS_AT + SESSION_COUNT * sizeof(struct region_session))
#define BLOCKS_AT (BUCKETS_AT + BUCKET_COUNT * sizeof(uint32_t))
#define MAP_SIZE (BLOCKS_AT + (size_t)BLOCKS_MAX * sizeof(struct region_block))

_Static_assert(BLOCKS_AT % 64 == 0, "blocks begin at a cache line");

static off_t size_for(uint32_t blocks)
{
    return (off_t)(BLOCKS_AT + (size_t)blocks * sizeof(struct region_block));
}

static uint32_t abi_tag(void)
{
    return (uint32_t)(sizeof(pthread_mutex_t) << 16 | sizeof(void *) << 8 |
                      sizeof(struct region_block));
}

/* ---- What the system says -------------------------------------------------------- */

static int boot_read(unsigned char boot[16], hf_error *why)
{
    char text[64] = "", hex[32];
    size_t count = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    int sys = errno;

    if (fd >= 0)
        close(fd);
    if (got < 0 && sys != ENOENT)
        return hf__fail_sys(why, hf__file_dir_code(sys), sys,
                            "the boot id of this host cannot be read");
    for (ssize_t i = 0; i < got && count < sizeof(hex); i++)
        if (text[i] != '-')
            hex[count++] = text[i];
    if (count != sizeof(hex) || !hf__hex_decode(hex, boot, 16))
        return hf__fail(why, HF_EUNSUPPORTED,
                        "the boot id of this host cannot be read; is /proc there?");
    return 0;
}

static uint64_t time_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/time", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* ---- Growing --------------------------------------------------------------------- */

/* Over RLIMIT_FSIZE the kernel would send a signal, hence the check beforehand. */
static int file_extend(int fd, off_t from, off_t to, hf_error *why)
{
    struct rlimit limit;
    int sys;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < (rlim_t)to)
        sys = EFBIG;
    else
        do
            sys = posix_fallocate(fd, from, to - from);
        while (sys == EINTR);
    if (sys == 0)
        return 0;
    return hf__fail_sys(why, sys == EFBIG ? HF_EFULL : hf__file_dir_code(sys), sys,
                        "the state file cannot grow to %lld bytes", (long long)to);
}

int hf__file_region_grow(struct region *region, hf_error *why)
{
    struct region_head *head = region->head;
    uint32_t count = head->block_count;
    int rc;

    if (count >= BLOCKS_MAX)
        return hf__fail(why, HF_EFULL, "all %u blocks of the state file are in use",
                        count);
    rc = file_extend(region->fd, size_for(count), size_for(count * 2), why);
    if (rc == 0)
        head->block_count = count * 2;
    return rc;
}

void hf__file_region_raise(struct region *region, uint64_t end)
{
    struct region_head *head = region->head;
    uint64_t ceiling = end + CEILING_STEP;
    uint64_t seen = __atomic_load_n(&head->durable_ceiling, __ATOMIC_RELAXED);

    while (seen < ceiling &&
           !__atomic_compare_exchange_n(&head->durable_ceiling, &seen, ceiling, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    msync(head, REGION_HEAD_SIZE, MS_SYNC);
    seen = __atomic_load_n(&head->ceiling, __ATOMIC_RELAXED);
    while (seen < ceiling &&
           !__atomic_compare_exchange_n(&head->ceiling, &seen, ceiling, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/* ---- Making ---------------------------------------------------------------------- */

static int guard_make(pthread_mutex_t *guard, hf_error *why)
{
    pthread_mutexattr_t how;
    int sys = pthread_mutexattr_init(&how);

    if (sys == 0)
        sys = pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    if (sys == 0)
        sys = pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    if (sys == 0)
        sys = pthread_mutex_init(guard, &how);
    pthread_mutexattr_destroy(&how);
    return sys ? hf__fail_sys(why, HF_ESYSTEM, sys, "no robust mutex") : 0;
}

static void head_number(struct region *region, uint64_t ceiling)
{
    struct region_head *head = region->head;
    uint64_t wall = (uint64_t)hf__wall_us();

    head->next_token = ceiling > wall ? ceiling : wall;
    head->ceiling = 0;
    hf__file_region_raise(region, head->next_token);
}

/*
 * Makes the state anew: everything is forgotten except the numbers that were given out.
 * A crash in here leaves another magic, and the next process begins again, above
 * `ceiling`. The generations of sessions start at a number that an earlier state did
 * not use, because FIFOs of that state may still exist.
 */
static int region_make(struct region *region, int dir_fd, const unsigned char boot[16],
                       uint64_t ceiling, hf_error *why)
{
    struct region_head *head = region->head;
    int rc = file_extend(region->fd, 0, REGION_HEAD_SIZE, why);

    if (rc != 0)
        return rc;
    head->magic = REGION_MAKING;
    if (ftruncate(region->fd, REGION_HEAD_SIZE) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "the state file cannot be renewed");
    rc = file_extend(region->fd, REGION_HEAD_SIZE, size_for(BLOCKS_FIRST), why);
    if (rc == 0)
        rc = guard_make(&head->guard, why);
    if (rc != 0)
        return rc;
    head_number(region, ceiling);
    region->first_token = ceiling ? 0 : head->next_token;
    head->cells = hf__file_home_clean(dir_fd);
    for (uint32_t i = 0; i < SESSION_COUNT; i++)
        region->sessions[i].gen = (uint32_t)head->next_token;
    head->version = REGION_VERSION;
    head->abi = abi_tag();
    head->time_ns = time_space();
    memcpy(head->boot, boot, sizeof(head->boot));
    head->recoveries = 0;
    head->next_seq = 1;
    head->block_count = BLOCKS_FIRST;
    head->high_water = 1;
    head->free_first = head->free_count = 0;
    head->live_ino = 0;
    head->guard_pid = 0;
    __atomic_store_n(&head->magic, REGION_MAGIC, __ATOMIC_RELEASE);
    return 0;
}

/* ---- Opening --------------------------------------------------------------------- */

static int head_check(const struct region_head *head, off_t size, hf_error *why)
{
    uint64_t here = time_space();

    if (size < size_for(head->block_count))
        return hf__fail(why, HF_ECORRUPT, "the state file was cut short; " ADVICE);
    if (head->time_ns && here && head->time_ns != here)
        return hf__fail(why, HF_EUNSUPPORTED,
                        "this process is in another time namespace than those that "
                        "made the state file: leases could not be compared");
    return 0;
}

/* Whether this is a state file of which a crash of the machine left only the length:
 * one of the store's lengths, and nothing but zeros. Any other file without the magic
 * is not a state file. */
static bool head_blank(const struct region_head *head, off_t size)
{
    const unsigned char *bytes = (const unsigned char *)head;

    if (size == 0)
        return true;
    if (size != REGION_HEAD_SIZE && size != size_for(BLOCKS_FIRST))
        return false;
    for (size_t i = 0; i < REGION_HEAD_SIZE; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Checks the file, and makes it if needed; without `may_make` it returns 1 instead. */
static int region_prepare(struct region *region, int dir_fd, off_t size, bool may_make,
                          hf_error *why)
{
    struct region_head head = { 0 };
    unsigned char boot[16];
    int rc = boot_read(boot, why);

    if (rc != 0)
        return rc;
    if (pread(region->fd, &head, sizeof(head), 0) < 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "the state file cannot be read");
    if (head.magic == REGION_MAKING || head_blank(region->head, size))
        return may_make ? region_make(region, dir_fd, boot, head.durable_ceiling, why)
                        : 1;
    if (head.magic != REGION_MAGIC)
        return hf__fail(why, HF_ECORRUPT, "'state' is no state file; " ADVICE);
    if (head.version != REGION_VERSION || head.abi != abi_tag())
        return hf__fail(why, HF_ECORRUPT,
                        "the state file is of layout %u.%x, this is %d.%x: use one "
                        "version and one C library for all; or " ADVICE,
                        head.version, head.abi, REGION_VERSION, abi_tag());
    if (memcmp(head.boot, boot, sizeof(boot)) != 0)
        return may_make ? region_make(region, dir_fd, boot, head.durable_ceiling, why)
                        : 1;
    return head_check(&head, size, why);
}

static int region_map(struct region *region, hf_error *why)
{
    char *base = mmap(NULL, MAP_SIZE, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_NORESERVE, region->fd, 0);

    if (base == MAP_FAILED)
        return hf__fail_sys(why, hf__file_dir_code(errno), errno,
                            "the state file cannot be mapped");
    madvise(base, MAP_SIZE, MADV_DONTDUMP);
    region->head = (struct region_head *)(void *)base;
    region->sessions = (struct region_session *)(void *)(base + SESSIONS_AT);
    region->buckets = (uint32_t *)(void *)(base + BUCKETS_AT);
    region->blocks = (struct region_block *)(void *)(base + BLOCKS_AT);
    return 0;
}

static int file_lock(int fd, int how, int64_t until, hf_error *why)
{
    for (;;) {
        if (flock(fd, how | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return hf__fail_sys(why, HF_ESYSTEM, errno,
                                "the state file cannot be locked");
        if (hf__now() >= until)
            return hf__fail(why, HF_EUNREACHABLE,
                            "another process is making the state file and does not "
                            "go on");
        poll(NULL, 0, LOCK_PAUSE_MS); /* flock cannot wait with a limit */
    }
}

/* True if the name still leads to the file that was opened and locked. */
static bool file_is_there(int dir_fd, const struct stat *opened)
{
    struct stat now;
    return fstatat(dir_fd, HF_HOME_STATE, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_dev == opened->st_dev && now.st_ino == opened->st_ino;
}

static bool owner_is_sane(uid_t owner, mode_t mode)
{
    bool shared = mode & 0066;
    return shared || owner == 0 || owner == geteuid() || geteuid() == 0;
}

static int file_open(int dir_fd, mode_t mode, int how, int64_t until, int *ret_fd,
                     off_t *ret_size, hf_error *why)
{
    struct stat st;
    int fd, rc;

    for (int i = 0; i < OPEN_TRIES; i++) {
        rc = hf__file_dir_open_file(dir_fd, HF_HOME_STATE, O_RDWR, mode, &fd, &st, why);
        if (rc != 0)
            return rc;
        if (!owner_is_sane(st.st_uid, mode))
            rc = hf__fail(why, HF_EREFUSED, "the state file belongs to user %lu",
                          (unsigned long)st.st_uid);
        if (rc == 0)
            rc = file_lock(fd, how, until, why);
        if (rc == 0 && fstat(fd, &st) == 0 && file_is_there(dir_fd, &st)) {
            *ret_fd = fd;
            *ret_size = st.st_size;
            return 0;
        }
        close(fd);
        if (rc != 0)
            return rc;
    }
    return hf__fail(why, HF_ESYSTEM, "the state file is removed again and again");
}

/* `how` LOCK_SH: 1 if it has to be made first. */
static int open_locked(struct region *region, int dir_fd, mode_t mode, int how,
                       int64_t until, hf_error *why)
{
    off_t size = 0;
    int rc;

    region->fd = -1;
    region->first_token = 0;
    rc = file_open(dir_fd, mode, how, until, &region->fd, &size, why);
    if (rc != 0)
        return rc;
    rc = region_map(region, why);
    if (rc == 0)
        rc = region_prepare(region, dir_fd, size, how == LOCK_EX, why);
    flock(region->fd, LOCK_UN);
    if (rc != 0)
        hf__file_region_close(region);
    return rc;
}

int hf__file_region_open(struct region *region, int dir_fd, mode_t mode, int64_t until,
                         hf_error *why)
{
    int rc = open_locked(region, dir_fd, mode, LOCK_SH, until, why);

    return rc == 1 ? open_locked(region, dir_fd, mode, LOCK_EX, until, why) : rc;
}

bool hf__file_region_there(const struct region *region, int dir_fd)
{
    struct stat st;

    return fstat(region->fd, &st) == 0 && file_is_there(dir_fd, &st);
}

bool hf__file_region_unused(const struct region *region)
{
    const struct region_head *head = region->head;

    return region->first_token && head->next_token == region->first_token &&
           head->high_water == 1 && !head->cells;
}

void hf__file_region_close(struct region *region)
{
    if (region->head)
        munmap(region->head, MAP_SIZE);
    if (region->fd >= 0)
        close(region->fd);
    region->head = NULL;
    region->fd = -1;
}
