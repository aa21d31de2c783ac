/* SPDX-License-Identifier: MIT */
/* What the file store checks before it trusts a directory and its files. */
#include "unit.h"

#include "../../src/backends/file/dir.h"
#include "unit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOMEBODY = 12345 };

static char scratch[64], path[128];
static int fd, top;

static void begin(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/test-dir-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    snprintf(path, sizeof path, "%s/it", scratch);
    top = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
}

static void end(void)
{
    tree_remove(AT_FDCWD, scratch);
    close(top);
}

/* ---- The directory --------------------------------------------------------------- */

static int opened(const char *at, hf_error *why)
{
    unsigned before = fds_open();
    int rc = hf__file_dir_open(at, &fd, why);
    ck_assert_uint_eq(fds_open(), before + (rc == 0));
    if (rc == 0)
        close(fd);
    return rc;
}

static void refused(const char *at, int code, int sys, const char *words)
{
    hf_error why = { 0 };
    ck_assert_int_eq(opened(at, &why), code);
    ck_assert_int_eq(why.sys, sys);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
}

START_TEST(directories)
{
    char slashes[160];
    begin();
    refused(path, HF_ENOENT, ENOENT, "make it first");
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(opened(path, NULL), 0);
    snprintf(slashes, sizeof slashes, "%s///", path);
    ck_assert_int_eq(opened(slashes, NULL), 0);
    ck_assert_int_eq(opened("/", NULL), 0);
    ck_assert_int_eq(chmod(path, 0755), 0);
    ck_assert_int_eq(opened(path, NULL), 0);
    ck_assert_int_eq(chmod(path, 0777), 0);
    refused(path, HF_EREFUSED, 0, "all users may write");
    ck_assert_int_eq(chmod(path, 01777), 0);
    ck_assert_int_eq(opened(path, NULL), 0);
    if (geteuid() == 0) { /* only root can make files of other users */
        ck_assert_int_eq(chown(path, SOMEBODY, (gid_t)-1), 0);
        refused(path, HF_EREFUSED, 0, "belongs to user 12345");
    }
    end();
}
END_TEST

/* A symbolic link is not a directory, also with a trailing slash, where open() would
 * follow it. */
START_TEST(what_is_no_directory)
{
    char slash[160], real[128];
    static char deep[PATH_MAX + 10];
    begin();
    snprintf(real, sizeof real, "%s/real", scratch);
    ck_assert_int_eq(mkdir(real, 0700), 0);
    ck_assert_int_eq(symlink(real, path), 0);
    refused(path, HF_EREFUSED, ELOOP, "symbolic link");
    snprintf(slash, sizeof slash, "%s/", path);
    refused(slash, HF_EREFUSED, ELOOP, "symbolic link");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mknod(path, S_IFREG | 0600, 0), 0);
    refused(path, HF_EREFUSED, ENOTDIR, "not a directory");
    snprintf(slash, sizeof slash, "%s/below", path);
    refused(slash, HF_EREFUSED, ENOTDIR, "cannot be opened");
    memset(deep, '/', sizeof deep - 1); /* which are none at its end */
    ck_assert_int_eq(opened(deep, NULL), 0);
    memset(deep, 'x', sizeof deep - 1);
    refused(deep, HF_EREFUSED, ENAMETOOLONG, "cannot be opened");
    end();
}
END_TEST

/* ---- Files ----------------------------------------------------------------------- */

static int file_opened(mode_t mode, struct stat *st, hf_error *why)
{
    unsigned before = fds_open();
    int rc = hf__file_dir_open_file(top, "it", O_RDWR, mode, &fd, st, why);
    ck_assert_uint_eq(fds_open(), before + (rc == 0));
    if (rc == 0)
        close(fd);
    return rc;
}

static void file_refused(int sys, const char *words)
{
    struct stat st;
    hf_error why = { 0 };
    ck_assert_int_eq(file_opened(0600, &st, &why), HF_EREFUSED);
    ck_assert_int_eq(why.sys, sys);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
    ck_assert_ptr_nonnull(strstr(why.text, "'it'"));
    ck_assert_int_eq(
        unlinkat(top, "it", 0) == 0 || unlinkat(top, "it", AT_REMOVEDIR) == 0, 1);
}

START_TEST(files)
{
    struct stat st;
    begin();
    umask(0077);
    ck_assert_int_eq(file_opened(0664, &st, NULL), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0664); /* past the umask */
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(file_opened(0664, &st, NULL), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600); /* which it has, and keeps */
    ck_assert_int_eq(linkat(top, "it", top, "other", 0), 0);
    file_refused(0, "2 names");
    ck_assert_int_eq(symlinkat("other", top, "it"), 0);
    file_refused(ELOOP, "symbolic link");
    ck_assert_int_eq(mkdirat(top, "it", 0700), 0);
    file_refused(EISDIR, "not a regular file");
    ck_assert_int_eq(mkfifoat(top, "it", 0600), 0);
    file_refused(0, "not a regular file");
    end();
}
END_TEST

START_TEST(files_that_cannot_be_made)
{
    struct stat st;
    hf_error why = { 0 };
    int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_lt(hf__file_dir_open_file(proc, "it", O_RDWR, 0600, &fd, &st, &why),
                     0);
    ck_assert_ptr_nonnull(strstr(why.text, "cannot be opened"));
    ck_assert_int_ne(why.sys, 0);
    close(proc);
}
END_TEST

START_TEST(codes)
{
    static const int refusals[] = { EACCES,  EPERM,  EROFS, ELOOP,
                                    ENOTDIR, EISDIR, ENXIO, ENAMETOOLONG };
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        ck_assert_int_eq(hf__file_dir_code(refusals[i]), HF_EREFUSED);
    ck_assert_int_eq(hf__file_dir_code(ENOMEM), HF_ENOMEM);
    ck_assert_int_eq(hf__file_dir_code(ENOSPC), HF_EFULL);
    ck_assert_int_eq(hf__file_dir_code(EDQUOT), HF_EFULL);
    ck_assert_int_eq(hf__file_dir_code(EIO), HF_ESYSTEM);
    ck_assert_int_eq(hf__file_dir_code(EMFILE), HF_ESYSTEM);
}
END_TEST

/* ---- What needs no directory ----------------------------------------------------- */

START_TEST(dir_network_fs)
{
    static const long local[] = { 0xEF53,     TMPFS_MAGIC,           BTRFS_SUPER_MAGIC,
                                  0x58465342, OVERLAYFS_SUPER_MAGIC, 0 };
    static const struct {
        long type;
        const char *name;
    } network[] = {
        { NFS_SUPER_MAGIC, "NFS" },
        { SMB_SUPER_MAGIC, "SMB" },
        { (long)CIFS_SUPER_MAGIC, "CIFS" },
        { (long)SMB2_SUPER_MAGIC, "SMB2" },
        { (int)CIFS_SUPER_MAGIC, "CIFS" },
        { V9FS_MAGIC, "9P" },
        { AFS_SUPER_MAGIC, "AFS" },
        { AFS_FS_MAGIC, "AFS" },
        { CODA_SUPER_MAGIC, "Coda" },
        { CEPH_SUPER_MAGIC, "Ceph" },
        { 0x0BD00BD0, "Lustre" },
        { 0x47504653, "GPFS" },
        { FUSE_SUPER_MAGIC, "FUSE" },
        { 0x19830326, "BeeGFS" },
        { 0x01161970, "GFS2" },
        { 0x7461636f, "OCFS2" },
        { 0x786f4256, "VirtualBox shared folder" },
    };

    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        ck_assert_ptr_null(hf__file_dir_network_fs(local[i]));
    for (size_t i = 0; i < sizeof network / sizeof network[0]; i++)
        ck_assert_str_eq(hf__file_dir_network_fs(network[i].type), network[i].name);
}
END_TEST

START_TEST(dir_mode)
{
    static const char *const wrong[] = { "",      "6",    "600x", "0o600",
                                         "800",   "0400", "0700", "4600",
                                         "00600", "-600", "0666 " };
    struct hf_url_option option = { "mode", NULL };
    struct hf_url parsed = { .option_count = 0, .options = &option };
    mode_t mode = 0;
    hf_error why;

    ck_assert_int_eq(hf__file_dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0600);
    parsed.option_count = 1;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        option.value = wrong[i];
        ck_assert_int_eq(hf__file_dir_mode(&parsed, &mode, &why), HF_EURL);
    }
    option.value = "666";
    ck_assert_int_eq(hf__file_dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0666);
    option.value = "0640";
    ck_assert_int_eq(hf__file_dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0640);
    option.value = "600";
    ck_assert_int_eq(hf__file_dir_mode(&parsed, &mode, NULL), 0);
    ck_assert_uint_eq(mode, 0600);
}
END_TEST

UNIT_MAIN("dir", directories, what_is_no_directory, files, files_that_cannot_be_made,
          codes, dir_network_fs, dir_mode)
