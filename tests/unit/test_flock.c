/* SPDX-License-Identifier: MIT */
/* The flock layout without core: two sessions of one process exclude each other, since
 * a lock belongs to the open file and not to the process. */
#include "fake_host.h"
#include "unit.h"

#include "../../src/backends/file/flock.h"
#include "../../src/backends/file/lockfile.h"
#include "../../src/backends/file/tokens.h"
#include "../../src/base/clock.h"
#include "../../src/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static char url[128];
static struct fake_host a, b;

static void dir_make(void)
{
    snprintf(dir, sizeof dir, "/tmp/test-flock-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s?layout=flock", dir);
}

static void dir_remove(void)
{
    DIR *stream = opendir(dir);
    struct dirent *entry;

    ck_assert_ptr_nonnull(stream);
    while ((entry = readdir(stream)))
        unlinkat(dirfd(stream), entry->d_name, 0);
    closedir(stream);
    ck_assert_int_eq(rmdir(dir), 0);
}

static void begin(void)
{
    dir_make();
    ck_assert_int_eq(fake_open(&a, &hf__file_flock, url, NULL), 0);
    ck_assert_int_eq(fake_open(&b, &hf__file_flock, url, NULL), 0);
}

static void end(void)
{
    fake_close(&a);
    fake_close(&b);
    dir_remove();
    ck_assert_uint_eq(hf__mem_live(), 0);
}

static const char *path_of(const char *file)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", dir, file);
    return path;
}

static int fd_count(void)
{
    DIR *stream = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(stream))
        count++;
    closedir(stream);
    return count;
}

/* A look at the path counts for microseconds, and at a release for a tick. */
static void let_look_age(void)
{
    int64_t until = hf__wall_us() + HF_LOCKFILE_AGAIN_US;
    int64_t tick = hf__now_coarse();

    while (hf__wall_us() <= until || hf__now_coarse() == tick)
        continue;
}

static uint64_t take(struct fake_host *fake, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(fake, ticket);

    ck_assert_int_eq(answer.what, FAKE_GRANTED);
    return answer.grant.token;
}

static int attempt(struct fake_host *fake, struct hf_ticket *ticket)
{
    return (int)fake_try(fake, ticket).what;
}

static struct hf_ticket try_ticket(const char *name, int kind)
{
    struct hf_ticket ticket = fake_ticket(name, kind);

    ticket.flags = HF_TICKET_TRY;
    return ticket;
}

/* ---- Exclusion ------------------------------------------------------------------- */

START_TEST(flock_excludes)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = try_ticket("x", HF_MUTEX);
    struct hf_ticket other = try_ticket("y", HF_MUTEX);

    begin();
    take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_BUSY);
    ck_assert_int_eq(attempt(&a, &two), FAKE_BUSY);
    ck_assert_int_eq(attempt(&b, &other), FAKE_GRANTED);
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_GONE);
    ck_assert_int_eq(attempt(&b, &two), FAKE_GRANTED);
    ck_assert_int_eq(fake_withdraw(&b, &two), HF_WITHDRAWN);
    ck_assert_int_eq(fake_withdraw(&b, &other), HF_WITHDRAWN);
    end();
}
END_TEST

START_TEST(flock_kinds)
{
    static const int kinds[] = { HF_MUTEX, HF_REENTRANT, HF_READ, HF_WRITE };

    begin();
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct hf_ticket one = fake_ticket("x", kinds[i]);
            struct hf_ticket two = try_ticket("x", kinds[k]);
            bool shared = kinds[i] == HF_READ && kinds[k] == HF_READ;

            take(&a, &one);
            ck_assert_int_eq(attempt(&b, &two), shared ? FAKE_GRANTED : FAKE_BUSY);
            fake_withdraw(&a, &one);
            fake_withdraw(&b, &two);
        }
    }
    end();
}
END_TEST

START_TEST(flock_refuses)
{
    static const int kinds[] = { HF_FAIR, HF_PERMITS, HF_EXPIRING, HF_LATCH };
    struct hf_ticket leased = fake_ticket("x", HF_MUTEX);
    struct hf_request request = fake_request(HF_INSPECT, "x");
    struct fake_answer answer;

    begin();
    for (size_t i = 0; i < 4; i++) {
        struct hf_ticket ticket = fake_ticket("x", kinds[i]);

        answer = fake_try(&a, &ticket);
        ck_assert_int_eq(answer.what, FAKE_FAILED);
        ck_assert_int_eq(answer.code, HF_EUNSUPPORTED);
    }
    leased.ttl_ns = 1;
    answer = fake_try(&a, &leased);
    ck_assert_int_eq(answer.code, HF_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "lease"));
    ck_assert_int_eq(fake_ask(&a, &request, NULL), HF_EUNSUPPORTED);
    ck_assert_int_ne(access(path_of("x"), F_OK), 0);
    end();
}
END_TEST

/* ---- Waiting --------------------------------------------------------------------- */

START_TEST(flock_waits)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = fake_ticket("x", HF_MUTEX);
    uint64_t token;

    begin();
    token = take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    ck_assert(fake_quiet(&b));
    fake_withdraw(&a, &one);
    ck_assert_uint_gt(fake_expect_grant(&b, &two), token);
    ck_assert_int_eq(fake_withdraw(&b, &two), HF_WITHDRAWN);
    end();
}
END_TEST

START_TEST(flock_wait_withdrawn)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = fake_ticket("x", HF_MUTEX);

    begin();
    take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    ck_assert_int_eq(fake_withdraw(&b, &two), HF_WITHDRAWN);
    fake_withdraw(&a, &one);
    ck_assert(fake_quiet(&b));
    take(&a, &one);
    fake_withdraw(&a, &one);
    end();
}
END_TEST

/* A withdrawal races with the grant: whichever comes first, no session holds the lock
 * after. */
START_TEST(flock_wait_race)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);

    begin();
    for (int i = 0; i < 500; i++) {
        struct hf_ticket two = fake_ticket("x", HF_MUTEX);

        take(&a, &one);
        ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
        fake_withdraw(&a, &one);
        if (i % 3 == 0)
            fake_turn(&b, i % 2);
        if (b.count)
            fake_expect_grant(&b, &two);
        ck_assert_int_eq(fake_withdraw(&b, &two), HF_WITHDRAWN);
        ck_assert(fake_quiet(&b));
    }
    take(&a, &one);
    fake_withdraw(&a, &one);
    end();
}
END_TEST

START_TEST(flock_close_while_waiting)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = fake_ticket("x", HF_MUTEX);
    struct hf_ticket three = fake_ticket("x", HF_READ);

    begin();
    take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    ck_assert_int_eq(attempt(&b, &three), FAKE_QUEUED);
    fake_forget(&b, &two);
    ck_assert_uint_eq(two.store[0], 0);
    end();
}
END_TEST

START_TEST(flock_close_while_held)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = try_ticket("x", HF_MUTEX);

    begin();
    take(&a, &one);
    fake_close(&a);
    take(&b, &two);
    ck_assert_int_eq(fake_open(&a, &hf__file_flock, url, NULL), 0);
    end();
}
END_TEST

/* ---- Files that go away ---------------------------------------------------------- */

static void replace(const char *file)
{
    ck_assert_int_eq(unlink(path_of(file)), 0);
    close(open(path_of(file), O_CREAT | O_EXCL | O_RDWR, 0600));
    let_look_age();
}

START_TEST(flock_deleted_idle)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);
    struct hf_ticket two = try_ticket("x", HF_MUTEX);
    char aside[128];

    begin();
    snprintf(aside, sizeof aside, "%s/aside", dir);
    for (int how = 0; how < 3; how++) {
        take(&a, &one);
        fake_withdraw(&a, &one);
        if (how == 0)
            ck_assert_int_eq(unlink(path_of("x")), 0);
        else if (how == 1)
            replace("x");
        else
            ck_assert_int_eq(rename(path_of("x"), aside), 0);
        take(&b, &two);
        let_look_age();
        ck_assert_int_eq(attempt(&a, &one), FAKE_BUSY);
        fake_withdraw(&b, &two);
    }
    end();
}
END_TEST

START_TEST(flock_deleted_while_waiting)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = fake_ticket("x", HF_MUTEX);
    struct hf_ticket three = fake_ticket("x", HF_MUTEX);
    struct fake_host c;

    begin();
    ck_assert_int_eq(fake_open(&c, &hf__file_flock, url, NULL), 0);
    take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    replace("x");
    take(&c, &three);
    /* The deleted file is unlocked now, but it is not the lock any more. */
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_GONE);
    ck_assert_int_eq(fake_next(&b).what, FAKE_QUEUED);
    fake_withdraw(&c, &three);
    fake_expect_grant(&b, &two);
    fake_withdraw(&b, &two);
    fake_close(&c);
    end();
}
END_TEST

START_TEST(flock_deleted_while_held)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);

    begin();
    take(&a, &one);
    ck_assert_int_eq(fake_renew(&a, &one, HF_CHECK), HF_STILL_HELD);
    ck_assert_int_eq(unlink(path_of("x")), 0);
    ck_assert_int_eq(fake_renew(&a, &one, HF_CHECK), HF_RENEWAL_LOST);
    let_look_age();
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_GONE);
    take(&a, &one);
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_WITHDRAWN);
    end();
}
END_TEST

START_TEST(flock_links_refused)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);
    struct fake_answer answer;
    struct stat st;

    begin();
    ck_assert_int_eq(symlink("target", path_of("x")), 0);
    answer = fake_try(&a, &one);
    ck_assert_int_eq(answer.code, HF_EREFUSED);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "symbolic link"));
    ck_assert_int_ne(stat(path_of("target"), &st), 0);
    ck_assert_int_eq(unlink(path_of("x")), 0);

    ck_assert_int_eq(mkfifo(path_of("x"), 0600), 0);
    answer = fake_try(&a, &one);
    ck_assert_int_eq(answer.code, HF_EREFUSED);
    ck_assert_ptr_nonnull(strstr(answer.why.text, "regular"));
    end();
}
END_TEST

/* A lock must never be a file that the queue layout keeps in the same directory. */
START_TEST(flock_queue_names_refused)
{
    struct hf_ticket one = try_ticket("state", HF_MUTEX);
    struct hf_ticket two = try_ticket("cell.x", HF_MUTEX);

    begin();
    ck_assert_int_eq(attempt(&a, &one), FAKE_GRANTED);
    fake_withdraw(&a, &one);
    ck_assert_int_eq(truncate(path_of("state"), 4096), 0);
    close(open(path_of("live"), O_CREAT | O_RDWR, 0600));
    ck_assert_int_eq(fake_try(&b, &one).code, HF_EREFUSED);
    ck_assert_int_eq(fake_try(&b, &two).code, HF_EREFUSED);
    ck_assert_int_ne(access(path_of("cell.x"), F_OK), 0);
    end();
}
END_TEST

/* ---- Descriptors ----------------------------------------------------------------- */

START_TEST(flock_cache_bounded)
{
    char name[16];
    int before;

    begin();
    before = fd_count();
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "n%d", i % 300);
        struct hf_ticket one = try_ticket(name, HF_MUTEX);

        take(&a, &one);
        fake_withdraw(&a, &one);
    }
    ck_assert_int_eq(fd_count(), before + HF_LOCKFILE_IDLE_MAX);
    end();
}
END_TEST

START_TEST(flock_descriptors_run_out)
{
    struct hf_ticket held = fake_ticket("held", HF_MUTEX);
    struct hf_ticket again = try_ticket("held", HF_READ);
    struct fake_answer answer;
    struct rlimit was, few;
    char name[16];

    begin();
    take(&a, &held);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)dup(0) + 1;
    close((int)few.rlim_cur - 1);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    /* One descriptor is left, and serves one name after another. */
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "n%d", i);
        struct hf_ticket one = try_ticket(name, HF_MUTEX);

        take(&a, &one);
        fake_withdraw(&a, &one);
    }
    take(&a, &(struct hf_ticket[]){ fake_ticket("last", HF_MUTEX) }[0]);
    answer = fake_try(&a, &again);
    ck_assert_int_eq(answer.code, HF_ESYSTEM);
    ck_assert_int_eq(answer.why.sys, EMFILE);
    setrlimit(RLIMIT_NOFILE, &was);
    ck_assert_int_eq(attempt(&a, &again), FAKE_BUSY);
    fake_withdraw(&a, &held);
    end();
}
END_TEST

START_TEST(flock_not_in_child)
{
    struct hf_ticket one = fake_ticket("x", HF_MUTEX);
    struct hf_ticket two = fake_ticket("x", HF_MUTEX);
    int status;
    pid_t child;

    begin();
    take(&a, &one);
    ck_assert_int_eq(attempt(&b, &two), FAKE_QUEUED);
    child = fork();
    if (child == 0) {
        struct stat st, open_st;
        bool found = false;

        stat(path_of("x"), &st);
        for (int fd = 0; fd < 1024; fd++)
            found |= fstat(fd, &open_st) == 0 && open_st.st_ino == st.st_ino &&
                     open_st.st_dev == st.st_dev;
        fake_close_forked(&a);
        fake_close_forked(&b);
        _exit(found || hf__mem_live() != 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    /* The parent's lock and its waiter are as they were. */
    ck_assert(fake_quiet(&b));
    fake_withdraw(&a, &one);
    fake_expect_grant(&b, &two);
    end();
}
END_TEST

/* ---- Tokens ---------------------------------------------------------------------- */

START_TEST(tokens_grow)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);
    uint64_t last = 0, clock_us = (uint64_t)hf__wall_us();

    begin();
    ck_assert_uint_ne(a.capabilities & HF_CAP_DURABLE, 0);
    for (int i = 0; i < 100; i++) {
        struct fake_host *fake = i % 2 ? &a : &b;
        struct fake_answer answer;

        one.reserve = 1000;
        answer = fake_try(fake, &one);
        ck_assert_int_eq(answer.what, FAKE_GRANTED);
        ck_assert_uint_gt(answer.grant.token, last);
        ck_assert_uint_eq(answer.grant.span, 1000);
        ck_assert_int_eq(answer.grant.ttl_ns, 0);
        last = answer.grant.token + answer.grant.span - 1;
        ck_assert_uint_eq(take(fake, &one), answer.grant.token);
        fake_withdraw(fake, &one);
    }
    ck_assert_uint_ge(last, clock_us);
    /* A counter that was lost starts from the clock. */
    fake_close(&a);
    ck_assert_int_eq(unlink(path_of(HF_TOKENS_FILE)), 0);
    ck_assert_int_eq(fake_open(&a, &hf__file_flock, url, NULL), 0);
    ck_assert_uint_ge(take(&a, &one), clock_us);
    end();
}
END_TEST

/* The larger of what is stored and the clock. */
START_TEST(tokens_rule)
{
    struct hf_tokens tokens = { 0 };
    _Atomic uint64_t last = 100;

    tokens.last = &last;
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 1, 50), 101);
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 10, 0), 102);
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 1, -5), 112);
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 1, 1000), 1000);
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 1, 1000), 1001);
    last = UINT64_MAX;
    ck_assert_uint_eq(hf__file_tokens_draw(&tokens, 1, 1000), 0);
}
END_TEST

static void tokens_write(const char *bytes, size_t size)
{
    int fd = open(path_of(HF_TOKENS_FILE), O_RDWR | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

START_TEST(tokens_damaged)
{
    char garbage[4096];
    hf_error why = { 0 };

    dir_make();
    memset(garbage, 'x', sizeof garbage);
    tokens_write(garbage, sizeof garbage);
    ck_assert_int_eq(fake_open_why(&a, &hf__file_flock, url, NULL, &why), HF_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(why.text, "remove it"));
    tokens_write("short", 5);
    ck_assert_int_eq(fake_open_why(&a, &hf__file_flock, url, NULL, &why), HF_ECORRUPT);
    ck_assert_ptr_nonnull(strstr(why.text, "cut short"));
    dir_remove();
}
END_TEST

/* ---- Every allocation fails once ------------------------------------------------- */

START_TEST(flock_out_of_memory)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);
    struct fake_answer answer;

    begin();
    hf__mem_fail(1, 0);
    answer = fake_try(&a, &one);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_ENOMEM);
    ck_assert_int_ne(access(path_of("x"), F_OK), 0);
    take(&a, &one);
    end();
}
END_TEST

/* ---- The directory --------------------------------------------------------------- */

/* The mode is what the option says, whatever the umask. */
START_TEST(dir_mode_kept)
{
    struct hf_ticket one = try_ticket("x", HF_MUTEX);
    struct stat st;

    dir_make();
    snprintf(url, sizeof url, "file:%s?layout=flock&mode=0664", dir);
    umask(0077);
    ck_assert_int_eq(fake_open(&a, &hf__file_flock, url, NULL), 0);
    take(&a, &one);
    ck_assert_int_eq(stat(path_of("x"), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0664);
    ck_assert_int_eq(st.st_size, 0);
    ck_assert_int_eq(stat(path_of(HF_TOKENS_FILE), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0664);
    fake_close(&a);
    dir_remove();
}
END_TEST

UNIT_MAIN("flock", flock_excludes, flock_kinds, flock_refuses, flock_waits,
          flock_wait_withdrawn, flock_wait_race, flock_close_while_waiting,
          flock_close_while_held, flock_deleted_idle, flock_deleted_while_waiting,
          flock_deleted_while_held, flock_links_refused, flock_queue_names_refused,
          flock_cache_bounded, flock_descriptors_run_out, flock_not_in_child,
          tokens_grow, tokens_rule, tokens_damaged, flock_out_of_memory, dir_mode_kept)
