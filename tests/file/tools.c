/* SPDX-License-Identifier: MIT */
/* Helpers of the cases; see cases.h. Everything runs in the process of a case, before
 * it has threads where that matters (fork, mounts). */
#include "cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Places and URLs ------------------------------------------------------------- */

#define BUFFERS 8
#define BUFFER_SIZE 8192

static char *buffer_next(void)
{
    static char buffers[BUFFERS][BUFFER_SIZE];
    static unsigned turn;

    return buffers[turn++ % BUFFERS];
}

const char *in_scratch(const char *name)
{
    char *text = buffer_next();

    snprintf(text, BUFFER_SIZE, "%s/%s", scratch, name);
    return text;
}

const char *url_of(const char *path, const char *option)
{
    char *text = buffer_next();

    snprintf(text, BUFFER_SIZE, "file:%s?layout=%s%s%s", path,
             layout == QUEUE ? "queue" : "flock", option ? "&" : "",
             option ? option : "");
    return text;
}

const char *state_name(void)
{
    return layout == QUEUE ? ".holdfast/state" : ".holdfast-tokens";
}

/* ---- Root ------------------------------------------------------------------------ */

void need_root(void)
{
    if (geteuid() != 0)
        skip("needs root");
}

void private_tmpfs(const char *path, const char *options)
{
    need_root();
    if (unshare(CLONE_NEWNS) != 0)
        skip("no mount namespaces here");
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("none", path, "tmpfs", 0, options) == 0);
}

/* ---- Snapshots ------------------------------------------------------------------- */

/* FNV-1a over the contents, of which only the beginning, where headers are. */
static unsigned long content_hash(int dir_fd, const char *name)
{
    unsigned char bytes[65536];
    unsigned long hash = 0xcbf29ce484222325ul;
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);

    for (ssize_t i = 0; i < got; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ul;
    if (fd >= 0)
        close(fd);
    return hash;
}

static void entry_describe(int dir_fd, const char *name, char *text, size_t size)
{
    struct stat st;
    size_t used = strlen(text);

    CHECK(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
    snprintf(text + used, size - used, "%s %o %u %lu %lld %lu %lx\n", name,
             (unsigned)st.st_mode, (unsigned)st.st_uid, (unsigned long)st.st_nlink,
             S_ISDIR(st.st_mode) ? 0ll : (long long)st.st_size,
             (unsigned long)st.st_ino,
             S_ISREG(st.st_mode) ? content_hash(dir_fd, name) : 0);
}

static int entry_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void tree_describe(const char *path, int depth, char *text, size_t size)
{
    struct dirent **entries;
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int count = scandir(path, &entries, NULL, entry_order);

    CHECK(dir_fd >= 0 && count >= 0);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char below[4096];

        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            entry_describe(dir_fd, name, text, size);
            if (entries[i]->d_type == DT_DIR && depth < 2) {
                snprintf(below, sizeof below, "%s/%s", path, name);
                tree_describe(below, depth + 1, text, size);
            }
        }
        free(entries[i]);
    }
    free(entries);
    close(dir_fd);
}

void snapshot(const char *path, char *text, size_t size)
{
    text[0] = '\0';
    tree_describe(path, 0, text, size);
}

/* ---- Clients --------------------------------------------------------------------- */

static int descriptor_count(void)
{
    DIR *stream = opendir("/proc/self/fd");
    int count = 0;

    while (stream && readdir(stream))
        count++;
    if (stream)
        closedir(stream);
    return count;
}

void check_refused(const char *url, int code, int sys, const char *part)
{
    static char before[16384], after[16384];
    hf_client *client = NULL;
    hf_error why = { 0 };
    int descriptors = descriptor_count();

    snapshot(scratch, before, sizeof before);
    CHECK_RC(hf_open(url, NULL, &client, &why), code);
    snapshot(scratch, after, sizeof after);
    CHECK(client == NULL);
    CHECK_EQ(why.code, code);
    if (!strstr(why.text, part))
        check_failed(__FILE__, __LINE__, "'%s' says '%s'", why.text, part);
    if (sys >= 0)
        CHECK_EQ(why.sys, sys);
    CHECK_TEXT(after, before);
    CHECK_EQ(descriptor_count(), descriptors);
}

hf_client *opened(const char *url)
{
    hf_client *client = NULL;
    hf_error why = { 0 };
    int rc = hf_open(url, NULL, &client, &why);

    if (rc != 0)
        check_failed(__FILE__, __LINE__, "%s: %s: %s", url, hf_error_name(rc),
                     why.text);
    return client;
}

void check_works(const char *url)
{
    hf_client *client = opened(url);
    hf_hold *hold;

    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

int try_want(hf_client *client, hf_want want, hf_hold **ret_hold)
{
    return hf_acquire(client, &want, 1, NULL, ret_hold, NULL);
}

/* ---- Other processes ------------------------------------------------------------- */

void other_start(struct other *other, void (*body)(void *arg), void *arg)
{
    int in[2], out[2];

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    other->pid = fork();
    CHECK(other->pid >= 0);
    if (other->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        close(out[0]);
        body(arg);
        _exit(0);
    }
    close(in[0]);
    close(out[1]);
    other->in = in[1];
    other->out = out[0];
}

static void exec_body(void *arg)
{
    char *const *argv = arg;

    execvp(argv[0], argv);
    _exit(127);
}

void other_run(struct other *other, const char *const *argv)
{
    other_start(other, exec_body, (void *)(uintptr_t)argv);
}

void other_say(const char *line)
{
    dprintf(STDOUT_FILENO, "%s\n", line);
}

void other_wait(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) == 1)
        continue;
}

void other_expect(struct other *other, const char *line)
{
    char text[512];
    size_t used = 0;

    while (used < sizeof text - 1 && read(other->out, text + used, 1) == 1 &&
           text[used] != '\n')
        used++;
    text[used] = '\0';
    CHECK_TEXT(text, line);
}

int other_end(struct other *other)
{
    int status;

    close(other->in);
    CHECK(waitpid(other->pid, &status, 0) == other->pid);
    close(other->out);
    return status;
}

void other_kill(struct other *other)
{
    int status;

    kill(other->pid, SIGKILL);
    CHECK(waitpid(other->pid, &status, 0) == other->pid);
    close(other->in);
    close(other->out);
}

int run_program(const char *const *argv)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, STDIN_FILENO);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
