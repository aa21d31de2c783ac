/* SPDX-License-Identifier: MIT */
/*
 * The directory `.holdfast`, where the queue layout keeps its files. Called while a
 * session opens, and from sessions.c, waiters.c and cells.c where files come and go.
 *
 * The directory of the URL is the user's, and may hold anything: a home directory, the
 * files of an application, the lock files of layout=flock, whose names never begin with
 * a dot. So the store touches one entry of it, its own directory. A directory counts as
 * the store's own if it has a state file, or nothing in it but what the store makes.
 * Even there a file is removed only if its whole name is one of the store's, and if it
 * has the type, and (a half-written cell) the mark, that the store gives it.
 *
 * The owner may be the user of this process, root, or the owner of the user's
 * directory. Another owner is accepted only if the locks are shared (mode=), and if
 * only those users could make it that the locks are shared with: with a group,
 * therefore, not in a directory where all users may write.
 */
#include "home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../base/error.h"
#include "cells.h"
#include "dir.h"
#include "region.h"

#define HOME_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define MAKE_TRIES 16
#define MODE_TRIES 200 /* 5 ms apart */
#define MODE_PAUSE_MS 5

/* ---- Names ----------------------------------------------------------------------- */

void hf__file_home_fifo(char *out, uint32_t session, uint32_t gen)
{
    snprintf(out, 32, "w%u.%u", session, gen);
}

void hf__file_home_tmp(char *out, uint32_t session)
{
    snprintf(out, 32, "tmp.%u", session);
}

/* The name made from its numbers must be the same, so that no other spelling counts. */
static bool name_is_fifo(const char *file)
{
    unsigned session, gen;
    char made[32];

    if (sscanf(file, "w%u.%u", &session, &gen) != 2 || session >= SESSION_COUNT)
        return false;
    hf__file_home_fifo(made, session, gen);
    return strcmp(file, made) == 0;
}

static bool name_is_tmp(const char *file)
{
    char made[32];
    unsigned session;

    if (sscanf(file, "tmp.%u", &session) != 1 || session >= SESSION_COUNT)
        return false;
    hf__file_home_tmp(made, session);
    return strcmp(file, made) == 0;
}

static bool name_is_cell(const char *file)
{
    return strncmp(file, HF_HOME_CELL, sizeof(HF_HOME_CELL) - 1) == 0;
}

static bool name_is_ours(const char *file)
{
    return strcmp(file, ".") == 0 || strcmp(file, "..") == 0 ||
           strcmp(file, HF_HOME_STATE) == 0 || strcmp(file, HF_HOME_LIVE) == 0 ||
           name_is_fifo(file) || name_is_tmp(file) || name_is_cell(file);
}

/* ---- Removing -------------------------------------------------------------------- */

void hf__file_home_drop_fifo(int home_fd, const char *file)
{
    struct stat st;

    if (fstatat(home_fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISFIFO(st.st_mode))
        unlinkat(home_fd, file, 0);
}

static bool tmp_is_ours(int fd)
{
    struct stat st;
    uint64_t mark = 0;

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return false;
    return st.st_size == 0 ||
           (pread(fd, &mark, sizeof(mark), 0) == sizeof(mark) && mark == CELL_MAGIC);
}

void hf__file_home_drop_tmp(int home_fd, const char *file)
{
    int fd = openat(home_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (tmp_is_ours(fd))
        unlinkat(home_fd, file, 0);
    close(fd);
}

/* NULL: errno says why. */
static DIR *home_list(int home_fd)
{
    int fd = openat(home_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

bool hf__file_home_clean(int home_fd)
{
    DIR *dir = home_list(home_fd);
    struct dirent *entry;
    bool cells = false;

    if (!dir)
        return true; /* not known: assume there are */
    while ((entry = readdir(dir)))
        if (name_is_fifo(entry->d_name))
            hf__file_home_drop_fifo(home_fd, entry->d_name);
        else if (name_is_tmp(entry->d_name))
            hf__file_home_drop_tmp(home_fd, entry->d_name);
        else
            cells |= name_is_cell(entry->d_name);
    closedir(dir);
    return cells;
}

/* ---- Checking -------------------------------------------------------------------- */

static int unknown_files_refuse(int home_fd, hf_error *why)
{
    DIR *dir = home_list(home_fd);
    struct dirent *entry;
    int rc = 0;

    if (!dir)
        return hf__fail_sys(why, hf__file_dir_code(errno), errno,
                            "'" HF_HOME "' cannot be read");
    while (rc == 0 && (entry = readdir(dir)))
        if (!name_is_ours(entry->d_name))
            rc = hf__fail(why, HF_EREFUSED,
                          "'" HF_HOME "' in the directory is in use for something "
                          "else: it holds '%.60s'; move that, or name another "
                          "directory",
                          entry->d_name);
    closedir(dir);
    return rc;
}

static bool home_fresh(int home_fd)
{
    struct stat st;

    return fstatat(home_fd, HF_HOME_STATE, &st, AT_SYMLINK_NOFOLLOW) != 0 &&
           errno == ENOENT;
}

static bool owner_trusted(const struct stat *top, const struct stat *home, mode_t mode)
{
    uid_t owner = home->st_uid;

    if (owner == geteuid() || owner == 0 || owner == top->st_uid)
        return true;
    return (mode & 0006) || ((mode & 0060) && !(top->st_mode & S_IWOTH));
}

static int home_check(const struct stat *top, const struct stat *home, mode_t mode,
                      hf_error *why)
{
    unsigned found = home->st_mode & 07777;

    if (!owner_trusted(top, home, mode))
        return hf__fail(why, HF_EREFUSED,
                        "'" HF_HOME "' in the directory belongs to user %lu, not to "
                        "user %lu: name another directory, or share the locks (mode=)",
                        (unsigned long)home->st_uid, (unsigned long)geteuid());
    if ((found & S_IWOTH) && !(mode & S_IWOTH))
        return hf__fail(why, HF_EREFUSED,
                        "all users may write to '" HF_HOME "' (mode %04o): take that "
                        "away (chmod o-w), or share the locks with all (mode=0666)",
                        found);
    return 0;
}

/* ---- Opening and making ---------------------------------------------------------- */

/* A user who may write the files must be able to make, replace and remove them too,
 * also those of other users: hence no sticky bit. It would protect nothing, since these
 * users may write the state file. */
static mode_t home_mode(mode_t mode)
{
    mode_t made = 0700;

    if (mode & 0060)
        made |= S_ISGID | (mode & 0020 ? 0070 : 0050);
    if (mode & 0006)
        made |= mode & 0002 ? 0007 : 0005;
    return made;
}

/* Gives a directory of this user that is not in use yet its group and mode, past the
 * umask; also if a crash came between mkdir() and this. */
static int home_adjust(int home_fd, const struct stat *top, const struct stat *home,
                       mode_t mode, hf_error *why)
{
    mode_t wanted = home_mode(mode);

    if (home->st_uid != geteuid() || (home->st_mode & 07777) == wanted)
        return 0;
    if ((mode & 0060) && home->st_gid != top->st_gid)
        (void)!fchown(home_fd, (uid_t)-1,
                      top->st_gid); /* works if the user is in that group */
    if (fchmod(home_fd, wanted) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno,
                            "'" HF_HOME "' cannot be given its mode");
    return 0;
}

static int home_refuse(int top_fd, int sys, hf_error *why)
{
    struct stat st;
    bool seen = fstatat(top_fd, HF_HOME, &st, AT_SYMLINK_NOFOLLOW) == 0;

    if (seen && S_ISLNK(st.st_mode))
        return hf__fail_sys(why, HF_EREFUSED, ELOOP,
                            "'" HF_HOME "' in the directory is a symbolic link, which "
                            "is never followed: remove it");
    if (seen && !S_ISDIR(st.st_mode))
        return hf__fail_sys(why, HF_EREFUSED, ENOTDIR,
                            "'" HF_HOME "' in the directory is not a directory: move "
                            "it, or name another directory");
    return hf__fail_sys(why, hf__file_dir_code(sys), sys,
                        "'" HF_HOME "' in the directory cannot be opened");
}

/* While another user is making the directory, it cannot be opened for a moment. */
static bool may_open_soon(int sys, mode_t mode, int pauses)
{
    return sys == EACCES && (mode & 0066) && pauses < MODE_TRIES;
}

static int home_open_or_make(int top_fd, mode_t mode, int *ret_fd, bool *ret_made,
                             hf_error *why)
{
    int pauses = 0, sys = ENOENT;

    for (int made = 0; made < MAKE_TRIES;) {
        *ret_fd = openat(top_fd, HF_HOME, HOME_FLAGS);
        sys = errno;
        if (*ret_fd >= 0)
            return 0;
        if (may_open_soon(sys, mode, pauses)) {
            pauses++;
            poll(NULL, 0, MODE_PAUSE_MS);
            continue;
        }
        if (sys != ENOENT)
            break;
        made++;
        *ret_made = mkdirat(top_fd, HF_HOME, 0700) == 0;
        if (!*ret_made && errno != EEXIST)
            return hf__fail_sys(why, hf__file_dir_code(errno), errno,
                                "'" HF_HOME "' cannot be made in the directory");
    }
    return home_refuse(top_fd, sys, why);
}

static int home_accept(int top_fd, int home_fd, mode_t mode, hf_error *why)
{
    struct stat top, home;
    int rc;

    if (fstat(top_fd, &top) != 0 || fstat(home_fd, &home) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "'" HF_HOME "' cannot be examined");
    rc = home_check(&top, &home, mode, why);
    if (rc != 0 || !home_fresh(home_fd))
        return rc;
    rc = unknown_files_refuse(home_fd, why);
    return rc == 0 ? home_adjust(home_fd, &top, &home, mode, why) : rc;
}

/* It may be removed while it is being opened: then another one is made. */
int hf__file_home_open(int top_fd, mode_t mode, int *ret_fd, bool *ret_made,
                       hf_error *why)
{
    int fd = -1, rc;

    *ret_made = false;
    for (int i = 0; i < MAKE_TRIES; i++) {
        rc = home_open_or_make(top_fd, mode, &fd, ret_made, why);
        if (rc != 0)
            return rc;
        rc = home_accept(top_fd, fd, mode, why);
        if (rc == 0) {
            *ret_fd = fd;
            return 0;
        }
        bool removed = hf__file_home_removed(fd);
        close(fd);
        if (!removed)
            return rc;
    }
    return hf__fail(why, HF_ESYSTEM, "'" HF_HOME "' is removed again and again");
}

bool hf__file_home_removed(int home_fd)
{
    struct stat st;

    return home_fd >= 0 && fstat(home_fd, &st) == 0 && st.st_nlink == 0;
}

void hf__file_home_remove(int top_fd)
{
    unlinkat(top_fd, HF_HOME, AT_REMOVEDIR);
}
