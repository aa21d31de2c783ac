/* SPDX-License-Identifier: MIT */
/*
 * Mistakes with lock files.
 *
 * `pidfile`: made with O_EXCL, the pid inside. Who finds the file looks whether that
 * process lives, and removes the file if not. Two of them find the same dead pid; one
 * removes the file and makes its own; the other removes that one. Pid files of daemons
 * and the scripts that start them do this. (The pid may also have been given to
 * another process since, and then the file stays for good.)
 *
 * `flock-and-unlink`: flock(2) on a file that is removed at the end, to leave no
 * litter. Somebody waits for the old file, by its descriptor, and gets it; somebody
 * else makes a new one under the same name, and gets that. The trap line `rm -f
 * "$lock"` of many shell scripts is this.
 *
 * Breaks by: kill -9 and two who tidy up; contention.
 */
#include "planted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define PATH_BYTES 400

static void lock_path(const struct planted *self, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/%s.lock", self->place, self->key);
    for (char *at = path + snprintf(NULL, 0, "%s/", self->place); *at; at++)
        if (*at == '/')
            *at = '_';
}

/* ---- O_EXCL and a pid ------------------------------------------------------------ */

static bool owner_dead(const char *path)
{
    char text[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, text, sizeof text - 1);
    close(fd);
    long pid = len > 0 ? strtol(text, NULL, 10) : 0;
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static enum history_result pidfile_try(struct planted *self,
                                       const struct driver_want *want)
{
    (void)want;
    char path[PATH_BYTES];
    lock_path(self, path);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dprintf(fd, "%d\n", (int)getpid());
        close(fd);
        return H_OK;
    }
    if (errno == EEXIST && owner_dead(path)) {
        planted_point(self, "before-unlink");
        unlink(path);
    }
    return H_BUSY;
}

static enum history_result pidfile_acquire(void *self, const struct driver_want *want,
                                           struct driver_grant *ret_grant)
{
    return planted_poll(self, want, pidfile_try, ret_grant);
}

static enum history_result pidfile_release(void *self)
{
    char path[PATH_BYTES];
    lock_path(self, path);
    return unlink(path) == 0 ? H_OK : H_LATE;
}

/* ---- flock and unlink ------------------------------------------------------------ */

static enum history_result flock_try(struct planted *self,
                                     const struct driver_want *want)
{
    (void)want;
    char path[PATH_BYTES];
    lock_path(self, path);
    if (self->fd < 0)
        self->fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (self->fd < 0)
        return H_FAILED;
    return flock(self->fd, LOCK_EX | LOCK_NB) == 0 ? H_OK : H_BUSY;
}

static void flock_close(struct planted *self)
{
    if (self->fd >= 0)
        close(self->fd);
    self->fd = -1;
}

static enum history_result flock_acquire(void *self, const struct driver_want *want,
                                         struct driver_grant *ret_grant)
{
    enum history_result result = planted_poll(self, want, flock_try, ret_grant);
    if (result != H_OK)
        flock_close(self);
    return result;
}

static enum history_result flock_release(void *self)
{
    char path[PATH_BYTES];
    lock_path(self, path);
    unlink(path);
    flock_close(self);
    return H_OK;
}

extern const struct driver driver_pidfile, driver_flock_unlink;
const struct driver driver_pidfile =
    PLANTED_DRIVER("pidfile", ONLY_MUTEX, pidfile_acquire, pidfile_release);
const struct driver driver_flock_unlink =
    PLANTED_DRIVER("flock-and-unlink", ONLY_MUTEX, flock_acquire, flock_release);
