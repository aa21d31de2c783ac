/* SPDX-License-Identifier: MIT */
/*
 * Histories on disk: what is written comes back; what a killed process, a full file or
 * a torn page leaves behind is read as far as it is sound, and no further.
 */
#include "../history.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/test_history.XXXXXX";
static char path[sizeof directory + 8];

struct seen {
    uint64_t count;
    uint64_t next; /* value of the next one */
    bool in_order;
    struct history_header header;
};

static void seen_event(void *arg, const struct history_header *header,
                       const struct history_event *event)
{
    struct seen *seen = arg;
    seen->header = *header;
    seen->in_order = seen->in_order && event->value == seen->next;
    seen->next++;
    seen->count++;
}

/* 0, or the error. */
static int read_all(struct seen *seen)
{
    *seen = (struct seen){ .in_order = true };
    return history_read(directory, seen_event, seen) < 0 ? errno : 0;
}

static void write_some(uint64_t capacity, uint64_t count)
{
    unlink(path);
    struct history *history = history_create(path, 7, 3, capacity, "test");
    if (!history)
        exit(2);
    for (uint64_t i = 0; i < count; i++)
        history_add(history, (struct history_event){ .op = H_ACQUIRE, .value = i });
    history_close(history);
}

/* Overwrites one byte of event `index`. */
static void spoil(uint64_t index, unsigned at)
{
    int fd = open(path, O_RDWR);
    unsigned char byte = 0;
    off_t place = (off_t)(64 + index * 64 + at);
    if (pread(fd, &byte, 1, place) != 1)
        exit(2);
    byte ^= 0x10;
    if (pwrite(fd, &byte, 1, place) != 1)
        exit(2);
    close(fd);
}

static void round_trip(struct tap *tap)
{
    struct seen seen;
    write_some(20000, 15000);
    int rc = read_all(&seen);
    tap_ok(tap, rc == 0 && seen.count == 15000 && seen.in_order, "comes back in order");
    tap_ok(tap, seen.header.process == 7 && seen.header.thread == 3, "with its header");

    struct stat status;
    stat(path, &status);
    tap_ok(tap, status.st_size == 64 + 20000 * 64, "room for all is there");

    tap_ok(tap, !history_create(path, 1, 1, 10, "again") && errno == EEXIST,
           "is not written over");
}

static void full(struct tap *tap)
{
    struct seen seen;
    unlink(path);
    struct history *history = history_create(path, 1, 1, 100, "full");
    struct history_event event = { .op = H_ACQUIRE };
    bool early = history_full(history);
    for (; event.value < 36; event.value++)
        history_add(history, event);
    bool before = history_full(history);
    history_add(history, event);
    bool after = history_full(history);
    for (event.value++; event.value < 100; event.value++)
        history_add(history, event);
    bool refused = !history_add(history, event);
    history_close(history);
    int rc = read_all(&seen);
    tap_ok(tap, !early && !before && after, "full with less than 64 left");
    tap_ok(tap, refused, "and then takes no more");
    tap_ok(tap, rc == 0 && seen.count == 100 && seen.in_order, "a full file is read");
}

static void torn(struct tap *tap)
{
    struct seen seen;
    for (unsigned at = 0; at < 60; at += 59 / 3) {
        write_some(10000, 6000);
        spoil(5999, at);
        int rc = read_all(&seen);
        tap_ok(tap, rc == 0 && seen.count == 5999, "a torn last event is dropped");
    }
    write_some(10000, 6000);
    spoil(3000, 40);
    tap_ok(tap, read_all(&seen) == EBADMSG, "a torn event in the middle is refused");
    /* Far apart: between them is a hole in the file. */
    write_some(200000, 10);
    int fd = open(path, O_RDWR);
    struct history_event event = { .t_ns = 1, .op = H_ACQUIRE };
    event.sum = history_sum(&event);
    if (pwrite(fd, &event, sizeof event, 64 + 64 * 150000) != sizeof event)
        exit(2);
    close(fd);
    tap_ok(tap, read_all(&seen) == EBADMSG, "an event after a hole is refused");
}

static void strangers(struct tap *tap)
{
    struct seen seen;
    write_some(10, 5);
    if (truncate(path, 64 + 64 * 4 + 30) < 0)
        exit(2);
    int rc = read_all(&seen);
    tap_ok(tap, rc == 0 && seen.count == 4, "a file cut short");
    if (truncate(path, 0) < 0 || truncate(path, 640) < 0)
        exit(2);
    rc = read_all(&seen);
    tap_ok(tap, rc == 0 && seen.count == 0, "killed before there was a header");
    int fd = open(path, O_RDWR);
    if (write(fd, "something else altogether, and long enough to be one of ours....",
              64) != 64)
        exit(2);
    close(fd);
    tap_ok(tap, read_all(&seen) == EBADMSG, "a file that is none of ours");
    unlink(path);
    rc = history_read("/nonexistent", seen_event, &seen);
    tap_ok(tap, rc < 0 && errno == ENOENT, "no directory");
    tap_ok(tap, read_all(&seen) == 0 && seen.count == 0, "an empty directory");
}

/* Appends until it is killed; tells through the pipe that it is under way. */
static void child_write(int ready)
{
    struct history *history = history_create(path, 1, 1, 10000000, "killed");
    struct history_event event = { .op = H_ACQUIRE };
    while (history && history_add(history, event))
        if (++event.value == 1000 && write(ready, "x", 1) != 1)
            break;
    _exit(1);
}

static void killed(struct tap *tap)
{
    bool sound = true;
    for (int i = 0; i < 20; i++) {
        struct seen seen;
        int ready[2];
        char byte;
        unlink(path);
        if (pipe(ready) < 0)
            exit(2);
        pid_t child = fork();
        if (child == 0)
            child_write(ready[1]);
        if (read(ready[0], &byte, 1) != 1)
            exit(2);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        int rc = read_all(&seen);
        sound = sound && rc == 0 && seen.count >= 1000 && seen.in_order;
    }
    tap_ok(tap, sound, "killed while writing: sound up to the last event");
}

static void sums(struct tap *tap)
{
    /* Computed by history.py; test_program.py compares the rest. */
    struct history_event event = {
        .t_ns = 123456789, .token = 42, .op = H_ACQUIRE, .phase = H_RETURN, .kind = 6
    };
    tap_ok(tap, history_sum(&event) == UINT32_C(0x94ce62f), "the sum, by the book");
}

int main(void)
{
    struct tap tap = { 0 };
    if (!mkdtemp(directory))
        return 2;
    snprintf(path, sizeof path, "%s/a.hist", directory);
    round_trip(&tap);
    full(&tap);
    torn(&tap);
    strangers(&tap);
    killed(&tap);
    sums(&tap);
    unlink(path);
    rmdir(directory);
    return tap_done(&tap);
}
