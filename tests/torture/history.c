/* SPDX-License-Identifier: MIT */
/*
 * Histories on disk: see history.h.
 *
 * Writing: one thread owns a history and appends to a shared mapping of its file. What
 * was stored there belongs to the kernel, so that a process killed between any two
 * instructions leaves everything but the event it was at. The sum is stored last, and
 * the magic of a new file after the rest of its header: what is half written does not
 * pass for whole.
 *
 * Reading: files are read through a small buffer instead of being mapped, because a
 * long campaign leaves more of them than a checker should hold in memory. Holes in
 * sparse files are skipped. Nobody writes meanwhile.
 */
#include "history.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPARE 64   /* events kept free for an orderly end */
#define BLOCK 4096 /* events read at once */

_Static_assert(sizeof(struct history_header) == 64, "events begin on a cache line");
_Static_assert(offsetof(struct history_event, sum) == 56, "seven words, then the sum");

struct history {
    struct history_header *header;
    struct history_event *events;
    uint64_t count;
    uint64_t capacity;
};

uint64_t history_now(void)
{
    struct timespec now;
    /* Not clock_gettime(): a preloaded library may have replaced it. */
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint32_t history_sum(const struct history_event *event)
{
    const uint64_t prime = UINT64_C(0x100000001b3);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    uint64_t words[7];

    memcpy(words, event, sizeof words);
    for (int i = 0; i < 7; i++)
        hash = (hash ^ words[i]) * prime;
    uint32_t sum = (uint32_t)(hash ^ (hash >> 32));
    return sum ? sum : 1;
}

/* ---- Writing --------------------------------------------------------------------- */

static size_t file_size(uint64_t capacity)
{
    return sizeof(struct history_header) + capacity * sizeof(struct history_event);
}

static void header_fill(struct history_header *header, uint32_t process,
                        uint32_t thread, uint64_t capacity, const char *label)
{
    header->process = process;
    header->thread = thread;
    header->capacity = capacity;
    header->pid = (uint64_t)getpid();
    memcpy(header->label, label, strnlen(label, sizeof header->label - 1));
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint64_t *)&header->magic = HISTORY_MAGIC;
}

struct history *history_create(const char *path, uint32_t process, uint32_t thread,
                               uint64_t capacity, const char *label)
{
    void *memory = MAP_FAILED;
    int fd = -1;
    struct history *history = calloc(1, sizeof *history);
    if (!history)
        goto out;
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        goto out;
    if (ftruncate(fd, (off_t)file_size(capacity)) < 0)
        goto out;
    memory = mmap(NULL, file_size(capacity), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        goto out;
    history->header = memory;
    history->events = (struct history_event *)(history->header + 1);
    history->capacity = capacity;
    header_fill(history->header, process, thread, capacity, label);
out:
    if (fd >= 0)
        close(fd);
    if (memory == MAP_FAILED) {
        free(history);
        history = NULL;
    }
    return history;
}

void history_close(struct history *history)
{
    if (!history)
        return;
    munmap(history->header, file_size(history->capacity));
    free(history);
}

bool history_add(struct history *history, struct history_event event)
{
    if (history->count == history->capacity)
        return false;
    if (event.t_ns == 0)
        event.t_ns = history_now();
    event.sum = 0;
    event.spare = 0;
    uint32_t sum = history_sum(&event);
    struct history_event *slot = &history->events[history->count++];
    memcpy(slot, &event, sizeof event);
    /* Killed before this store: the slot ends in zero, which is no valid sum. */
    atomic_signal_fence(memory_order_seq_cst);
    *(volatile uint32_t *)&slot->sum = sum;
    return true;
}

bool history_full(const struct history *history)
{
    return history->capacity - history->count < SPARE;
}

/* ---- Reading --------------------------------------------------------------------- */

struct reading {
    int fd;
    off_t size;
    off_t at;
    bool torn; /* met an event that is not sound: none may follow that is */
    history_each *each;
    void *arg;
    struct history_header header;
    struct history_event block[BLOCK];
};

static bool all_zero(const void *bytes, size_t size)
{
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        if (byte[i])
            return false;
    return true;
}

/* 1: there is a header; 0: its writer was killed before there was one; -1: not ours. */
static int reading_header(struct reading *reading)
{
    ssize_t got = pread(reading->fd, &reading->header, sizeof reading->header, 0);
    if (got < 0)
        return -1;
    if (got == (ssize_t)sizeof reading->header &&
        reading->header.magic == HISTORY_MAGIC) {
        reading->header.label[sizeof reading->header.label - 1] = 0;
        return 1;
    }
    if (all_zero(&reading->header, got < 8 ? (size_t)got : 8))
        return 0;
    errno = EBADMSG;
    return -1;
}

static int reading_event(struct reading *reading, const struct history_event *event)
{
    bool sound = event->sum != 0 && event->sum == history_sum(event);

    if (sound && reading->torn) {
        errno = EBADMSG;
        return -1;
    }
    if (sound)
        reading->each(reading->arg, &reading->header, event);
    else
        reading->torn = true;
    return 0;
}

/* Steps over a hole, to the event that data begins in. */
static void reading_skip(struct reading *reading)
{
    off_t data = lseek(reading->fd, reading->at, SEEK_DATA);
    off_t first = (off_t)sizeof reading->header;

    if (data < 0)
        data = errno == ENXIO ? reading->size : reading->at;
    data -= (data - first) % (off_t)sizeof(struct history_event);
    if (data > reading->at) {
        reading->at = data;
        reading->torn = true;
    }
}

static int reading_events(struct reading *reading)
{
    while (reading->at < reading->size) {
        if (reading->torn)
            reading_skip(reading);
        ssize_t got =
            pread(reading->fd, reading->block, sizeof reading->block, reading->at);
        if (got < 0)
            return -1;
        size_t count = (size_t)got / sizeof reading->block[0];
        if (count == 0)
            break; /* the rest of an event at the very end: torn, dropped */
        reading->at += (off_t)(count * sizeof reading->block[0]);
        for (size_t i = 0; i < count; i++)
            if (reading_event(reading, &reading->block[i]) < 0)
                return -1;
    }
    return 0;
}

static int file_read(struct reading *reading, int dirfd, const char *name)
{
    struct stat status;
    int rc = -1;

    reading->at = (off_t)sizeof reading->header;
    reading->torn = false;
    reading->fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    if (reading->fd < 0)
        return -1;
    if (fstat(reading->fd, &status) < 0)
        goto out;
    reading->size = status.st_size;
    posix_fadvise(reading->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    rc = reading_header(reading);
    if (rc > 0)
        rc = reading_events(reading);
out:;
    int error = errno;
    close(reading->fd);
    errno = error;
    return rc;
}

static int is_history(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 5 && strcmp(entry->d_name + length - 5, ".hist") == 0;
}

int history_read(const char *directory, history_each *each, void *arg)
{
    struct dirent **entries = NULL;
    int count = 0, rc = -1, error = 0;
    int dirfd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct reading *reading = malloc(sizeof *reading);

    if (dirfd < 0 || !reading)
        goto out;
    reading->each = each;
    reading->arg = arg;
    count = scandirat(dirfd, ".", &entries, is_history, alphasort);
    if (count < 0)
        goto out;
    rc = 0;
    for (int i = 0; i < count && rc == 0; i++)
        rc = file_read(reading, dirfd, entries[i]->d_name);
out:
    error = errno;
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(reading);
    if (dirfd >= 0)
        close(dirfd);
    errno = error;
    return rc;
}
