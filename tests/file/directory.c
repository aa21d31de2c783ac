/* SPDX-License-Identifier: MIT */
/* Directories and URLs that are refused, and the default directory. */
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534

static const char *make_dir(const char *name, mode_t mode)
{
    const char *path = in_scratch(name);

    CHECK(mkdir(path, 0700) == 0 && chmod(path, mode) == 0);
    return path;
}

static void dir_missing(void)
{
    check_refused(url_of(in_scratch("none"), NULL), HF_ENOENT, ENOENT, "mkdir");
    check_refused(url_of(in_scratch("none/below"), NULL), HF_ENOENT, ENOENT, "mkdir");
}

static void dir_is_file(void)
{
    close(open(in_scratch("file"), O_CREAT | O_RDWR, 0600));
    check_refused(url_of(in_scratch("file"), NULL), HF_EREFUSED, ENOTDIR,
                  "not a directory");
}

static void dir_is_link(void)
{
    make_dir("real", 0700);
    CHECK(symlink("real", in_scratch("link")) == 0);
    check_refused(url_of(in_scratch("link"), NULL), HF_EREFUSED, ELOOP,
                  "symbolic link");
    check_refused(url_of(in_scratch("link/"), NULL), HF_EREFUSED, ELOOP,
                  "symbolic link");
    check_refused(url_of(in_scratch("link///"), NULL), HF_EREFUSED, ELOOP,
                  "symbolic link");
    check_works(url_of(in_scratch("real/"), NULL));
}

static void dir_of_somebody(void)
{
    const char *path;

    need_root();
    path = make_dir("theirs", 0700);
    CHECK(chown(path, NOBODY, (gid_t)-1) == 0);
    check_refused(url_of(path, NULL), HF_EREFUSED, 0, "belongs to user 65534");
    CHECK(chown(path, 0, (gid_t)-1) == 0);
    check_works(url_of(path, NULL));
}

static void dir_open_to_all(void)
{
    const char *path = make_dir("open", 0777);

    check_refused(url_of(path, NULL), HF_EREFUSED, 0, "sticky");
    CHECK(chmod(path, 01777) == 0);
    check_works(url_of(path, NULL));
    CHECK(chmod(path, 0775) == 0);
    check_works(url_of(path, NULL));
}

static void dir_too_long(void)
{
    char path[6000];

    snprintf(path, sizeof path, "%s/", scratch);
    memset(path + strlen(path), 'a', 300);
    path[strlen(scratch) + 1 + 300] = '\0';
    check_refused(url_of(path, NULL), HF_EREFUSED, ENAMETOOLONG, "too long");
    memset(path + 1, '/', 5000);
    memset(path + 5001, 'a', 3);
    path[5004] = '\0';
    check_refused(url_of(path, NULL), HF_EREFUSED, ENAMETOOLONG, "too long");
}

/* Without the rights to make anything in it. */
static void dir_not_writable(void)
{
    const char *path;

    need_root();
    path = make_dir("theirs", 0755);
    CHECK(chmod(scratch, 0755) == 0);
    CHECK(setegid(NOBODY) == 0 && seteuid(NOBODY) == 0);
    if (layout == QUEUE) {
        check_refused(url_of(path, NULL), HF_EREFUSED, EACCES,
                      "'.holdfast' cannot be made");
        return;
    }
    /* flock works with existing files, and refuses where a file would have to be
     * made. */
    hf_client *client = opened(url_of(path, NULL));
    hf_hold *hold;
    hf_error why;
    CHECK_RC(hf_lock(client, "x", 0, &hold, &why), HF_EREFUSED);
    CHECK_EQ(why.sys, EACCES);
    CHECK(seteuid(0) == 0);
    close(open(in_scratch("theirs/x"), O_CREAT | O_RDWR, 0644));
    CHECK(seteuid(NOBODY) == 0);
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK(hf_hold_token(hold, 0) > 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_EQ(hf_capabilities(client) & HF_CAP_DURABLE, 0);
    hf_close(client);
}

static void dir_not_searchable(void)
{
    need_root();
    make_dir("theirs", 0700);
    CHECK(setegid(NOBODY) == 0 && seteuid(NOBODY) == 0);
    hf_client *client = NULL;
    hf_error why = { 0 };
    CHECK_RC(hf_open(url_of(in_scratch("theirs"), NULL), NULL, &client, &why),
             HF_EREFUSED);
    CHECK_EQ(why.sys, EACCES);
    CHECK(strstr(why.text, "theirs"));
}

static void dir_read_only_mount(void)
{
    const char *argv[] = { "mount", "-o", "remount,ro", scratch, NULL };

    private_tmpfs(scratch, "");
    CHECK(chmod(scratch, 0700) == 0);
    close(open(in_scratch("x"), O_CREAT | O_RDWR, 0600));
    CHECK_EQ(run_program(argv), 0);
    if (layout == QUEUE) {
        check_refused(url_of(scratch, NULL), HF_EREFUSED, EROFS,
                      "'.holdfast' cannot be made");
        return;
    }
    hf_client *client = opened(url_of(scratch, NULL));
    hf_hold *hold;
    hf_error why;
    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    CHECK_RC(hf_lock(client, "y", 0, &hold, &why), HF_EREFUSED);
    CHECK_EQ(why.sys, EROFS);
    hf_close(client);
}

static void url_wrong(void)
{
    char text[512];

    snprintf(text, sizeof text, "file:%s?layout=heap", scratch);
    check_refused(text, HF_EURL, 0, "layout");
    snprintf(text, sizeof text, "file:%s?layout=", scratch);
    check_refused(text, HF_EURL, 0, "layout");
    check_refused(url_of(scratch, "mode=0700"), HF_EURL, 0, "mode");
    check_refused(url_of(scratch, "mode=9"), HF_EURL, 0, "mode");
    check_refused(url_of(scratch, "mode="), HF_EURL, 0, "mode");
    check_refused(url_of(scratch, "mode=0200"), HF_EURL, 0, "mode");
    check_refused(url_of(scratch, "mode=0600&mode=0600"), HF_EURL, 0, "mode");
    check_refused(url_of(scratch, "colour=red"), HF_EURL, 0, "colour");
    check_works(url_of(scratch, "mode=0660"));
}

/* The mode option applies whatever the umask, in both directions. */
static void mode_kept(void)
{
    struct stat st;

    umask(0077);
    check_works(url_of(scratch, "mode=0664"));
    CHECK(stat(in_scratch(state_name()), &st) == 0);
    CHECK_EQ(st.st_mode & 07777, 0664);
}

static void mode_default(void)
{
    struct stat st;

    umask(0);
    check_works(url_of(scratch, NULL));
    CHECK(stat(in_scratch(state_name()), &st) == 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
}

/* ---- The default directory, on a /var/tmp of our own ----------------------------- */

static const char *default_path(void)
{
    static char path[64];

    snprintf(path, sizeof path, "/var/tmp/holdfast-%u", (unsigned)geteuid());
    return path;
}

static void default_made(void)
{
    struct stat st;

    private_tmpfs("/var/tmp", "mode=1777");
    setenv("TMPDIR", scratch, 1);
    setenv("XDG_RUNTIME_DIR", scratch, 1);
    setenv("HOME", scratch, 1);
    umask(0277);
    check_works(url_of("", NULL));
    CHECK(lstat(default_path(), &st) == 0 && S_ISDIR(st.st_mode));
    CHECK_EQ(st.st_mode & 07777, 0700);
    CHECK_EQ(st.st_uid, geteuid());
    check_works(url_of("", NULL));
}

/* Another user made the directory first, in each way that is possible. */
static void default_planted(void)
{
    private_tmpfs("/var/tmp", "mode=1777");
    CHECK(mkdir(default_path(), 0700) == 0);
    CHECK(chown(default_path(), NOBODY, NOBODY) == 0);
    check_refused(url_of("", NULL), HF_EREFUSED, 0,
                  "name another directory in the URL");
    CHECK(chown(default_path(), 0, 0) == 0 && chmod(default_path(), 0755) == 0);
    check_refused(url_of("", NULL), HF_EREFUSED, 0, "0755 instead of 0700");
    CHECK(chmod(default_path(), 01700) == 0);
    check_refused(url_of("", NULL), HF_EREFUSED, 0, "1700 instead of 0700");
    CHECK(rmdir(default_path()) == 0 && symlink(scratch, default_path()) == 0);
    check_refused(url_of("", NULL), HF_EREFUSED, ELOOP, "symbolic link");
    CHECK(unlink(default_path()) == 0);
    close(open(default_path(), O_CREAT | O_RDWR, 0600));
    check_refused(url_of("", NULL), HF_EREFUSED, ENOTDIR, "not a directory");
    CHECK(unlink(default_path()) == 0);
    check_works(url_of("", NULL));
}

const struct file_case directory_cases[] = {
    { "dir-missing", dir_missing, BOTH },
    { "dir-is-file", dir_is_file, BOTH },
    { "dir-is-link", dir_is_link, BOTH },
    { "dir-of-somebody", dir_of_somebody, BOTH },
    { "dir-open-to-all", dir_open_to_all, BOTH },
    { "dir-too-long", dir_too_long, BOTH },
    { "dir-not-writable", dir_not_writable, BOTH },
    { "dir-not-searchable", dir_not_searchable, BOTH },
    { "dir-read-only-mount", dir_read_only_mount, BOTH },
    { "url-wrong", url_wrong, BOTH },
    { "mode-kept", mode_kept, BOTH },
    { "mode-default", mode_default, BOTH },
    { "default-made", default_made, BOTH },
    { "default-planted", default_planted, BOTH },
    { NULL, NULL, 0 },
};
