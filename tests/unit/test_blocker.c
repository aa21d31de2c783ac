/* SPDX-License-Identifier: MIT */
/* A blocking call on a thread of its own: it returns, and it can be cancelled, also
 * where no descriptor is left. */
#include "unit.h"

#include "../../src/kit/blocker.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct worker {
    sigset_t blocked;
    int fds[2];
    char byte;
};

static int read_byte(void *arg)
{
    struct worker *worker = arg;

    pthread_sigmask(SIG_BLOCK, NULL, &worker->blocked);
    return read(worker->fds[0], &worker->byte, 1) == 1 ? worker->byte : -errno;
}

START_TEST(blocker_returns)
{
    struct hf_blocker blocker = { 0 };
    struct worker worker = { 0 };
    int event_fd = eventfd(0, EFD_CLOEXEC);
    uint64_t count;

    ck_assert_int_eq(pipe(worker.fds), 0);
    ck_assert_int_eq(hf__blocker_start(&blocker, read_byte, &worker, event_fd), 0);
    ck_assert(!hf__blocker_done(&blocker));
    ck_assert_int_eq(write(worker.fds[1], "A", 1), 1);
    ck_assert_int_eq(read(event_fd, &count, sizeof count), sizeof count);
    ck_assert(hf__blocker_done(&blocker));
    ck_assert_int_eq(hf__blocker_collect(&blocker), 'A');
    ck_assert_int_eq(sigismember(&worker.blocked, SIGTERM), 1);
    ck_assert_int_eq(sigismember(&worker.blocked, SIGUSR1), 1);
    pthread_sigmask(SIG_BLOCK, NULL, &worker.blocked);
    ck_assert_int_eq(sigismember(&worker.blocked, SIGTERM), 0);
    hf__blocker_cancel(&blocker);
    close(event_fd);
}
END_TEST

START_TEST(blocker_cancelled)
{
    struct worker worker = { 0 };
    int event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    ck_assert_int_eq(pipe(worker.fds), 0);
    for (int i = 0; i < 500; i++) {
        struct hf_blocker blocker = { 0 };
        uint64_t count;

        ck_assert_int_eq(hf__blocker_start(&blocker, read_byte, &worker, event_fd), 0);
        if (i % 2)
            sched_yield();
        hf__blocker_cancel(&blocker);
        ck_assert(!hf__blocker_done(&blocker));
        ck_assert_int_eq(read(event_fd, &count, sizeof count), -1);
    }
    close(event_fd);
}
END_TEST

static void descriptors_limit(rlim_t count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count ? count : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Exit status 0: each call that could not be made failed with a code. */
static void break_without_descriptors(void)
{
    struct hf_blocker blocker = { 0 };
    struct worker worker = { 0 };
    int event_fd = eventfd(0, EFD_CLOEXEC);
    bool loaded = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL;

    if (event_fd < 0 || pipe(worker.fds) != 0)
        _exit(2);
    descriptors_limit(1);
    int rc = hf__blocker_start(&blocker, read_byte, &worker, event_fd);
    hf__blocker_cancel(&blocker);
    if (rc != (loaded ? 0 : -EMFILE))
        _exit(3);

    descriptors_limit(0);
    if (hf__blocker_start(&blocker, read_byte, &worker, event_fd) != 0)
        _exit(4);
    descriptors_limit(1);
    hf__blocker_cancel(&blocker);
    _exit(0);
}

/* The C library needs a descriptor for its first pthread_cancel(), and aborts the
 * program if there is none. Every test has a new process, so no thread was cancelled
 * before. */
START_TEST(blocker_without_descriptors)
{
    int status = 0;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0)
        break_without_descriptors();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(!WIFSIGNALED(status), "ended by signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

UNIT_MAIN("blocker", blocker_without_descriptors, blocker_returns, blocker_cancelled)
