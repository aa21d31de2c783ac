/* SPDX-License-Identifier: MIT */
/*
 * The file store's own directory: when a directory counts as such, how it is made, and
 * that nothing is removed from it but files of the store.
 */
#include "unit.h"

#include "../../src/backends/file/cells.h"
#include "../../src/backends/file/home.h"
#include "unit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOMEBODY = 12345 };

static char scratch[64];
static int top, home;

static void begin(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/test-home-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    top = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
}

/* An empty directory of this user with this mode. */
static void begin_home(mode_t mode)
{
    begin();
    ck_assert_int_eq(mkdirat(top, HF_HOME, 0700), 0);
    ck_assert_int_eq(fchmodat(top, HF_HOME, mode, 0), 0);
    home = openat(top, HF_HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(home, 0);
}

static void end(void)
{
    tree_remove(AT_FDCWD, scratch);
    close(top);
}

static void put(const char *file, const void *bytes, size_t size)
{
    int fd = openat(home, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static bool is_there(const char *file)
{
    struct stat st;
    return fstatat(home, file, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- Removing -------------------------------------------------------------------- */

START_TEST(fifos_of_ours_go)
{
    static const char *const ours[] = { "w0.0", "w7.12", "w1023.4294967295" };
    static const char *const others[] = { "w1024.1",       "w99999.1", "w07.1", "w7.01",
                                          "w+7.1",         "w7.1x",    "w7",    "w7.",
                                          "w.7",           "w7. 1",    "w-1.1", "xw7.1",
                                          "w4294967296.1", "W7.1" };
    begin_home(0700);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        ck_assert_int_eq(mkfifoat(home, ours[i], 0600), 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_int_eq(mkfifoat(home, others[i], 0600), 0);
    put("w9.9", "", 0); /* is none */
    ck_assert_int_eq(symlinkat("w7", home, "w8.8"), 0);
    ck_assert(!hf__file_home_clean(home));
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        ck_assert_msg(!is_there(ours[i]), "%s", ours[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(is_there(others[i]), "%s", others[i]);
    ck_assert(is_there("w9.9") && is_there("w8.8"));
    end();
}
END_TEST

/* A cell that was being written: empty, or with the mark that it begins with. */
START_TEST(half_written_cells_go)
{
    const uint64_t mark = CELL_MAGIC, other = CELL_MAGIC + 1;
    static const char *const gone[] = { "tmp.0", "tmp.1", "tmp.1023" };
    static const char *const kept[] = { "tmp.2",  "tmp.3", "tmp.4",  "tmp.5",
                                        "tmp.6",  "tmp.7", "tmp.8",  "tmp.1024",
                                        "tmp.01", "tmp.",  "tmp.1x", "atmp.1",
                                        "linked" };
    begin_home(0700);
    put("tmp.0", "", 0);
    put("tmp.1", &mark, sizeof mark);
    put("tmp.1023", "", 0);
    put("tmp.2", &other, sizeof other);
    put("tmp.3", &mark, sizeof mark - 1);
    put("tmp.4", "a letter to my mother", 21);
    put("tmp.5", "", 0);
    ck_assert_int_eq(linkat(home, "tmp.5", home, "linked", 0), 0);
    ck_assert_int_eq(symlinkat("linked", home, "tmp.6"), 0);
    ck_assert_int_eq(mkdirat(home, "tmp.7", 0700), 0);
    ck_assert_int_eq(mkfifoat(home, "tmp.8", 0600), 0);
    put("tmp.1024", "", 0);
    put("tmp.01", "", 0);
    put("tmp.", "", 0);
    put("tmp.1x", "", 0);
    put("atmp.1", "", 0);
    ck_assert(!hf__file_home_clean(home));
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
        ck_assert_msg(!is_there(gone[i]), "%s", gone[i]);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        ck_assert_msg(is_there(kept[i]), "%s", kept[i]);
    end();
}
END_TEST

START_TEST(cells_are_seen)
{
    begin_home(0700);
    put("state", "x", 1);
    put("cell", "", 0);
    put("xcell.1", "", 0);
    ck_assert(!hf__file_home_clean(home));
    put("cell.1", "", 0);
    ck_assert(hf__file_home_clean(home));
    put("zzz", "", 0); /* whatever follows */
    ck_assert_int_eq(mkfifoat(home, "w1.1", 0600), 0);
    ck_assert(hf__file_home_clean(home));
    ck_assert(is_there("cell.1") && is_there("state"));
    unsigned before = fds_open();
    hf__file_home_clean(home);
    hf__file_home_drop_tmp(home, "state");
    ck_assert_uint_eq(fds_open(), before);
    ck_assert(hf__file_home_clean(-1)); /* it cannot be known */
    end();
}
END_TEST

START_TEST(names_that_are_made)
{
    char name[32];
    hf__file_home_fifo(name, 4095, 4294967295U);
    ck_assert_str_eq(name, "w4095.4294967295");
    hf__file_home_tmp(name, 12);
    ck_assert_str_eq(name, "tmp.12");
}
END_TEST

/* ---- Making ---------------------------------------------------------------------- */

static int opened(mode_t mode, bool *ret_made, hf_error *why)
{
    int fd = -1;
    unsigned before = fds_open();
    int rc = hf__file_home_open(top, mode, &fd, ret_made, why);
    ck_assert_int_eq(fd >= 0, rc == 0);
    ck_assert_uint_eq(fds_open(), before + (rc == 0));
    if (rc == 0)
        close(fd);
    return rc;
}

static unsigned mode_now(void)
{
    struct stat st;
    ck_assert_int_eq(fstatat(top, HF_HOME, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777;
}

/* Users who may write the files may make and remove them, too; past the umask. */
START_TEST(modes)
{
    static const struct {
        mode_t mode, home;
    } rows[] = {
        { 0600, 0700 },  { 0660, 02770 }, { 0640, 02750 }, { 0666, 02777 },
        { 0644, 02755 }, { 0604, 0705 },  { 0606, 0707 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool made = false;
        begin();
        umask(i % 2 ? 0077 : 0);
        ck_assert_int_eq(opened(rows[i].mode, &made, NULL), 0);
        ck_assert(made);
        ck_assert_uint_eq(mode_now(), rows[i].home);
        ck_assert_int_eq(opened(rows[i].mode, &made, NULL), 0);
        ck_assert(!made);
        end();
    }
}
END_TEST

/* A directory that is not in use yet gets its mode; one in use keeps it. */
START_TEST(modes_of_one_that_is_there)
{
    bool made = true;
    begin_home(0755);
    ck_assert_int_eq(opened(0600, &made, NULL), 0);
    ck_assert(!made);
    ck_assert_uint_eq(mode_now(), 0700);
    put("state", "", 0);
    ck_assert_int_eq(opened(0660, &made, NULL), 0);
    ck_assert_uint_eq(mode_now(), 0700);
    end();
}
END_TEST

static void refused(mode_t mode, const char *words)
{
    bool made = false;
    hf_error why = { 0 };
    ck_assert_int_eq(opened(mode, &made, &why), HF_EREFUSED);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
}

START_TEST(what_everybody_may_write)
{
    bool made;
    for (int used = 0; used <= 1; used++) {
        begin_home(0777);
        if (used)
            put("state", "", 0);
        refused(0600, "all users may write");
        refused(0660, "all users may write");
        refused(0664, "all users may write");
        ck_assert_int_eq(opened(0666, &made, NULL), 0);
        end();
    }
}
END_TEST

START_TEST(what_is_no_directory)
{
    begin();
    ck_assert_int_eq(symlinkat("/tmp", top, HF_HOME), 0);
    refused(0600, "symbolic link");
    ck_assert_int_eq(unlinkat(top, HF_HOME, 0), 0);
    ck_assert_int_eq(mknodat(top, HF_HOME, S_IFREG | 0600, 0), 0);
    refused(0600, "not a directory");
    end();
}
END_TEST

/* Without a state file it is the store's if it contains only files of the store. */
START_TEST(what_holds_files_of_others)
{
    static const char *const ours[] = { "live", "w1.2", "tmp.3", "cell.x" };
    static const char *const others[] = { "notes", "w1",      "tmp.",
                                          "cell",  "State",   "state.1",
                                          "live1", ".hidden", "..." };
    bool made;
    begin_home(0700);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        put(ours[i], "", 0);
    ck_assert_int_eq(opened(0600, &made, NULL), 0);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        put(others[i], "", 0);
        refused(0600, others[i]);
        ck_assert_int_eq(unlinkat(home, others[i], 0), 0);
    }
    put("notes", "", 0);
    put("state", "", 0); /* with one it is the store's, whatever else it contains */
    ck_assert_int_eq(opened(0600, &made, NULL), 0);
    end();
}
END_TEST

/* Only root can make files of other users. */
START_TEST(what_belongs_to_others)
{
    bool made;
    if (geteuid() != 0)
        return;
    begin_home(0755);
    ck_assert_int_eq(fchown(home, SOMEBODY, (gid_t)-1), 0);
    refused(0600, "belongs to user 12345");
    ck_assert_int_eq(opened(0660, &made, NULL), 0); /* shared with a group */
    ck_assert_int_eq(opened(0640, &made, NULL), 0);
    ck_assert_int_eq(opened(0604, &made, NULL), 0);
    ck_assert_uint_eq(mode_now(), 0755);     /* not this user's to change */
    ck_assert_int_eq(fchmod(top, 01777), 0); /* where any user could have made it */
    refused(0660, "belongs to user 12345");
    ck_assert_int_eq(opened(0666, &made, NULL), 0);
    ck_assert_int_eq(fchown(top, SOMEBODY, (gid_t)-1),
                     0); /* the owner of the user's directory */
    ck_assert_int_eq(opened(0600, &made, NULL), 0);
    end();
}
END_TEST

/* The group of the user's directory shares the locks. */
START_TEST(groups)
{
    struct stat st;
    bool made;
    if (geteuid() != 0)
        return;
    for (int shared = 0; shared <= 1; shared++) {
        begin();
        ck_assert_int_eq(fchown(top, (uid_t)-1, SOMEBODY), 0);
        ck_assert_int_eq(opened(shared ? 0660 : 0600, &made, NULL), 0);
        ck_assert_int_eq(fstatat(top, HF_HOME, &st, 0), 0);
        ck_assert_int_eq(st.st_gid == SOMEBODY, shared);
        end();
    }
}
END_TEST

/* ---- Going ----------------------------------------------------------------------- */

START_TEST(removed)
{
    begin_home(0700);
    put("state", "", 0);
    hf__file_home_remove(top);
    ck_assert(is_there("state") && !hf__file_home_removed(home)); /* in use */
    ck_assert_int_eq(unlinkat(home, "state", 0), 0);
    hf__file_home_remove(top);
    ck_assert(hf__file_home_removed(home));
    ck_assert(!hf__file_home_removed(-1));
    end();
}
END_TEST

UNIT_MAIN("home", fifos_of_ours_go, half_written_cells_go, cells_are_seen,
          names_that_are_made, modes, modes_of_one_that_is_there,
          what_everybody_may_write, what_is_no_directory, what_holds_files_of_others,
          what_belongs_to_others, groups, removed)
