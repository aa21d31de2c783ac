/* SPDX-License-Identifier: MIT */
/*
 * The guarded page of kill_storm; see kill_stage.h.
 *
 * Only the holder of the lock writes to it, its own record excepted. That the holder
 * before is really gone, all its threads included, is asked of the kernel (pidfd).
 */
#include "kill_stage.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "stress.h"

void stage_violation(struct stage *stage, int kind)
{
    atomic_fetch_add(&stage->violations[kind], 1);
}

static bool process_gone(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd watch = { fd, POLLIN, 0 };
    bool gone;

    if (fd < 0)
        return errno == ESRCH;
    gone = poll(&watch, 1, 0) == 1;
    close(fd);
    return gone;
}

/* Finds out whether an increment that was cut short took place. */
static void record_settle(struct stage *stage, struct record *record)
{
    uint64_t target = atomic_load(&record->target);
    uint64_t counter = atomic_load(&stage->counter);

    if (target == 0)
        return;
    if (counter == target)
        atomic_store(&record->done, atomic_load(&record->before) + 1);
    else if (counter == target - 1)
        atomic_store(&record->done, atomic_load(&record->before));
    else
        stage_violation(stage, LOST_UPDATE);
    atomic_store(&record->target, 0);
    atomic_fetch_add(&stage->settled, 1);
}

static void stage_enter(struct stage *stage, int place, uint64_t token)
{
    pid_t pid = atomic_load(&stage->inside_pid);

    if (token <= atomic_load(&stage->last_token))
        stage_violation(stage, OLD_TOKEN);
    atomic_store(&stage->last_token, token);
    if (pid) {
        if (pid == getpid() || !process_gone(pid))
            stage_violation(stage, TWO_INSIDE);
        atomic_fetch_add(&stage->orphans, 1);
        record_settle(stage, &stage->records[atomic_load(&stage->inside_place)]);
        atomic_store(&stage->inside_pid, 0);
    }
    atomic_store(&stage->inside_place, place);
    atomic_store(&stage->inside_token, token);
    atomic_store(&stage->inside_pid, getpid());
}

static void stage_increment(struct stage *stage, struct record *record)
{
    uint64_t value = atomic_load(&stage->counter);
    uint32_t dawdle = value % 16 ? 20 : 1000;

    spin(20);
    atomic_store(&record->before, atomic_load(&record->done));
    atomic_store(&record->target, value + 1);
    spin(dawdle); /* so that some are killed here, */
    atomic_store(&stage->counter, value + 1);
    spin(dawdle); /* and some here */
    atomic_store(&record->done, atomic_load(&record->before) + 1);
    atomic_store(&record->target, 0);
}

static void stage_leave(struct stage *stage, uint64_t token)
{
    if (atomic_load(&stage->inside_token) != token ||
        atomic_load(&stage->inside_pid) != getpid())
        stage_violation(stage, TWO_INSIDE);
    atomic_store(&stage->inside_pid, 0);
    atomic_fetch_add(&stage->acquired, 1);
}

void stage_visit(struct stage *stage, int place, uint64_t token)
{
    stage_enter(stage, place, token);
    stage_increment(stage, &stage->records[place]);
    stage_leave(stage, token);
}

uint64_t stage_sum(struct stage *stage, int count)
{
    uint64_t sum = 0;

    for (int i = 0; i < count; i++) {
        record_settle(stage, &stage->records[i]);
        sum += atomic_load(&stage->records[i].done);
    }
    return sum;
}

uint64_t stage_violations(const struct stage *stage)
{
    uint64_t sum = 0;

    for (int i = 0; i < VIOLATION_KINDS; i++)
        sum += atomic_load(&stage->violations[i]);
    return sum;
}
