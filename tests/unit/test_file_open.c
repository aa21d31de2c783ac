/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store, opened while another session that was asked to
 * diagnose removes the files that it made. */
#include "file_peer.h"

#include <pthread.h>
#include <stdatomic.h>

static struct fake_host a, b;
static int opener_tid;
static atomic_bool forking;

/* ---- One moment of open() -------------------------------------------------------- */

static int state_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir))) {
        char target[128];
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

        target[len > 0 ? len : 0] = '\0';
        count += strstr(target, "/.holdfast/state") != NULL;
    }
    closedir(dir);
    return count;
}

static bool opener_sleeps(void)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", opener_tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_gt(read(fd, text, sizeof(text) - 1), 0);
    close(fd);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

/* Runs while the file store's own fork handler keeps sessions from being opened: the
 * opener has the state file, and waits before it opens `live`. */
static void files_vanish(void)
{
    char path[96];

    atomic_store(&forking, true);
    while (state_descriptors() < 2 || !opener_sleeps())
        poll(NULL, 0, 1);
    snprintf(path, sizeof(path), "%s/live", home);
    ck_assert_int_eq(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/state", home);
    ck_assert_int_eq(unlink(path), 0);
}

static void *fork_once(void *arg)
{
    pid_t pid = fork();

    (void)arg;
    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return NULL;
}

/* A session with the same number in the old state file does not disturb the new one. */
START_TEST(files_that_vanish_are_made_again)
{
    pthread_t forker;
    hf_error why = { 0 };

    pthread_atfork(files_vanish, NULL, NULL); /* after the store's, which comes later */
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    opener_tid = gettid();
    ck_assert_int_eq(pthread_create(&forker, NULL, fork_once, NULL), 0);
    while (!atomic_load(&forking))
        poll(NULL, 0, 1);
    ck_assert_msg(fake_open_why(&b, &hf__backend_file, url, NULL, &why) == 0, "%s",
                  why.text);
    pthread_join(forker, NULL);
    ck_assert_int_eq(scratch_count("state"), 1);
    ck_assert_int_eq(scratch_count("live"), 1);
    fake_close(&b);
    fake_close(&a);
    scratch_remove();
}
END_TEST

UNIT_MAIN("file_open", files_that_vanish_are_made_again)
