/* SPDX-License-Identifier: MIT */
/*
 * Opens directories and files of the file: store. Called from open() and attempt() of
 * its layouts, never on a hot path.
 *
 * The rule throughout: open first, without following a link, then judge what was opened
 * through the descriptor. If the path were checked first and opened later, another user
 * could replace it in between. A check of the path serves only to explain why opening
 * it failed.
 *
 * The default directory is /var/tmp/holdfast-<effective user id>. It depends only on
 * the user: two processes must find the same one even if cron started one and sudo the
 * other, so $TMPDIR, $XDG_RUNTIME_DIR and $HOME are not used. It is in /var/tmp and not
 * in /tmp, because the tokens should survive a reboot; all users may write there, hence
 * the strict check of owner and mode.
 */
#include "dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../../base/error.h"
#include "../../base/url.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
#define FILE_TRIES 16

/* How much of a path is shown in a message, so that there is room for the rest of
 * it. */
#define SHOWN "%.100s"

int hf__file_dir_code(int sys)
{
    switch (sys) {
    case ENOMEM:
        return HF_ENOMEM;
    case ENOSPC:
    case EDQUOT:
        return HF_EFULL;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
    case ENOTDIR:
    case EISDIR:
    case ENXIO:
    case ENAMETOOLONG:
        return HF_EREFUSED;
    default:
        return HF_ESYSTEM;
    }
}

/* ---- Network file systems -------------------------------------------------------- */

static const struct {
    uint32_t type;
    const char *name;
} network_fs[] = {
    { 0x00006969, "NFS" },    { 0x0000517b, "SMB" },
    { 0xff534d42, "CIFS" },   { 0xfe534d42, "SMB2" },
    { 0x01021997, "9P" },     { 0x5346414f, "AFS" },
    { 0x6b414653, "AFS" },    { 0x73757245, "Coda" },
    { 0x00c36400, "Ceph" },   { 0x0bd00bd0, "Lustre" },
    { 0x47504653, "GPFS" },   { 0x65735546, "FUSE" },
    { 0x19830326, "BeeGFS" }, { 0x01161970, "GFS2" },
    { 0x7461636f, "OCFS2" },  { 0x786f4256, "VirtualBox shared folder" },
};

const char *hf__file_dir_network_fs(long type)
{
    for (size_t i = 0; i < sizeof network_fs / sizeof network_fs[0]; i++)
        if (network_fs[i].type == (uint32_t)type)
            return network_fs[i].name;
    return NULL;
}

static int fs_check(int fd, const char *path, hf_error *why)
{
    struct statfs fs;
    const char *name;

    if (fstatfs(fd, &fs) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "'" SHOWN "' cannot be examined",
                            path);
    name = hf__file_dir_network_fs((long)fs.f_type);
    if (name)
        return hf__fail(why, HF_EREFUSED,
                        "'" SHOWN "' is on a network file system (%s), where locks of "
                        "this host cannot be relied on: choose a local directory",
                        path, name);
    return 0;
}

/* ---- The directory --------------------------------------------------------------- */

static int dir_check(int fd, const char *path, bool ours, hf_error *why)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "'" SHOWN "' cannot be examined",
                            path);
    if (ours && st.st_uid != geteuid())
        return hf__fail(why, HF_EREFUSED,
                        "'" SHOWN "' belongs to user %lu, not to user %lu: remove it, "
                        "or name another directory in the URL (file:/dir)",
                        path, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (ours && (st.st_mode & 07777) != 0700)
        return hf__fail(why, HF_EREFUSED,
                        "'" SHOWN "' has mode %04o instead of 0700: make sure that "
                        "no other user has changed it, then chmod it to 0700",
                        path, (unsigned)(st.st_mode & 07777));
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return hf__fail(why, HF_EREFUSED,
                        "'" SHOWN "' belongs to user %lu: it must belong to user %lu "
                        "or to root; chown it, or name another directory",
                        path, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        return hf__fail(why, HF_EREFUSED,
                        "all users may write to '" SHOWN "' (mode %04o): take that "
                        "away (chmod o-w), or set the sticky bit (chmod +t)",
                        path, (unsigned)(st.st_mode & 07777));
    return fs_check(fd, path, why);
}

/* Explains why the directory could not be opened. */
static int dir_refuse(const char *path, int sys, hf_error *why)
{
    struct stat st;

    if (sys == ENOENT)
        return hf__fail_sys(why, HF_ENOENT, sys,
                            "there is no directory '" SHOWN "'; make it first "
                            "(mkdir -m 700)",
                            path);
    if (sys == ENOTDIR && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return hf__fail_sys(why, HF_EREFUSED, ELOOP,
                            "'" SHOWN "' is a symbolic link: name the directory itself",
                            path);
    if (sys == ENOTDIR && lstat(path, &st) == 0)
        return hf__fail_sys(why, HF_EREFUSED, sys, "'" SHOWN "' is not a directory",
                            path);
    return hf__fail_sys(why, hf__file_dir_code(sys), sys,
                        "'" SHOWN "' cannot be opened", path);
}

/* Makes the default directory if it does not exist. The umask may have removed bits
 * from the mode of one that was just made. */
static int dir_open_default(const char *path, int *ret_fd, hf_error *why)
{
    bool made = mkdir(path, 0700) == 0;
    int sys = errno;
    int fd;

    if (!made && sys != EEXIST)
        return hf__fail_sys(why, hf__file_dir_code(sys), sys,
                            "'" SHOWN "' cannot be made", path);
    fd = open(path, DIR_FLAGS);
    if (fd < 0)
        return dir_refuse(path, errno, why);
    if (made && fchmod(fd, 0700) != 0) {
        sys = errno;
        close(fd);
        return hf__fail_sys(why, HF_ESYSTEM, sys,
                            "'" SHOWN "' cannot be given its mode", path);
    }
    *ret_fd = fd;
    return 0;
}

static int dir_open_given(const char *path, int *ret_fd, hf_error *why)
{
    int fd = open(path, DIR_FLAGS);

    if (fd < 0)
        return dir_refuse(path, errno, why);
    *ret_fd = fd;
    return 0;
}

/* The path without trailing slashes: with one, open() would follow a link. */
static bool path_trim(const char *path, char *out, size_t size)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    if (len >= size)
        return false;
    memcpy(out, path, len);
    out[len] = '\0';
    return true;
}

int hf__file_dir_open(const char *path, int *ret_fd, hf_error *why)
{
    char text[PATH_MAX];
    bool ours = path[0] == '\0';
    int fd = -1;
    int rc;

    if (ours)
        snprintf(text, sizeof text, "/var/tmp/holdfast-%lu", (unsigned long)geteuid());
    else if (!path_trim(path, text, sizeof text))
        return dir_refuse(path, ENAMETOOLONG, why);

    rc = ours ? dir_open_default(text, &fd, why) : dir_open_given(text, &fd, why);
    if (rc != 0)
        return rc;
    rc = dir_check(fd, text, ours, why);
    if (rc != 0)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}

int hf__file_dir_mode(const struct hf_url *url, mode_t *ret_mode, hf_error *why)
{
    const char *text = hf__url_option(url, "mode");
    unsigned mode = 0;
    size_t len = 0;

    if (!text) {
        *ret_mode = HF_DIR_MODE_DEFAULT;
        return 0;
    }
    for (; text[len] >= '0' && text[len] <= '7' && len < 5; len++)
        mode = mode * 8 + (unsigned)(text[len] - '0');
    if (len < 3 || len > 4 || text[len] != '\0' || (mode & ~0666u) ||
        (mode & 0600) != 0600)
        return hf__fail(
            why, HF_EURL,
            "mode=%.20s is not a file mode: give it in octal, 0600 to 0666, "
            "reading and writing for the owner included",
            text);
    *ret_mode = (mode_t)mode;
    return 0;
}

/* ---- Files in it ----------------------------------------------------------------- */

static int file_irregular(const char *file, int sys, hf_error *why)
{
    hf__fail(why, HF_EREFUSED, "'" SHOWN "' is not a regular file: remove it", file);
    if (why)
        why->sys = sys;
    return HF_EREFUSED;
}

static int file_check(int fd, const char *file, struct stat *st, hf_error *why)
{
    if (fstat(fd, st) != 0)
        return hf__fail_sys(why, HF_ESYSTEM, errno, "'" SHOWN "' cannot be examined",
                            file);
    if (!S_ISREG(st->st_mode))
        return file_irregular(file, 0, why);
    if (st->st_nlink > 1)
        return hf__fail(why, HF_EREFUSED,
                        "'" SHOWN "' has %lu names (hard links), and one of them "
                        "may be anywhere: remove it",
                        file, (unsigned long)st->st_nlink);
    return 0;
}

static int file_refuse(const char *file, int sys, hf_error *why)
{
    if (sys == ELOOP)
        return hf__fail_sys(why, HF_EREFUSED, sys,
                            "'" SHOWN "' is a symbolic link, which is never followed: "
                            "remove it",
                            file);
    if (sys == EISDIR || sys == ENXIO)
        return file_irregular(file, sys, why);
    return hf__fail_sys(why, hf__file_dir_code(sys), sys,
                        "'" SHOWN "' cannot be opened", file);
}

/*
 * Opening an existing file and making a new one are two steps, because O_CREAT on an
 * existing file of another user is forbidden in sticky directories (protected_regular)
 * even where reading and writing are not. Both steps may lose a race, hence the loop.
 */
static int file_open_or_make(int dir_fd, const char *file, int flags, mode_t mode)
{
    for (int i = 0; i < FILE_TRIES; i++) {
        int fd = openat(dir_fd, file, flags | FILE_FLAGS);

        if (fd >= 0 || errno != ENOENT)
            return fd;
        fd = openat(dir_fd, file, flags | FILE_FLAGS | O_CREAT | O_EXCL, mode);
        if (fd >= 0) {
            (void)fchmod(
                fd, mode); /* past the umask; the file is ours, so this cannot fail */
            return fd;
        }
        if (errno != EEXIST)
            return -1;
    }
    return -1;
}

int hf__file_dir_open_file(int dir_fd, const char *file, int flags, mode_t mode,
                           int *ret_fd, struct stat *ret_stat, hf_error *why)
{
    int fd = file_open_or_make(dir_fd, file, flags, mode);
    int rc;

    if (fd < 0)
        return file_refuse(file, errno, why);
    rc = file_check(fd, file, ret_stat, why);
    if (rc != 0)
        close(fd);
    else
        *ret_fd = fd;
    return rc;
}
