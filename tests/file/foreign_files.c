/* SPDX-License-Identifier: MIT */
/* Foreign files in the directory of the store: whatever their names, they are unchanged
 * afterwards. */
#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOOT_AT 16           /* in the state file: the boot id */
#define CELL_MARK "hlfscell" /* a cell begins with it, also a half-written one */

static char before[65536], after[65536];

static void put(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0640);

    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void put_text(const char *name, const char *text)
{
    put(in_scratch(name), text, strlen(text));
}

/* Every line of `before` that does not begin with `except` is in `after`. */
static void check_kept(const char *except)
{
    char *rest = NULL;

    snapshot(scratch, after, sizeof after);
    for (char *line = strtok_r(before, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (except && strncmp(line, except, strlen(except)) == 0)
            continue;
        if (!strstr(after, line))
            check_failed(__FILE__, __LINE__, "not as before: %s", line);
    }
}

/* Everything that makes or removes a file: waiting, cells, diagnosing, a killed
 * client. */
static void wait_for_x(void *arg)
{
    hf_client *client = opened(arg);
    hf_hold *hold;

    other_say("waiting");
    CHECK_RC(hf_lock(client, "x", HF_FOREVER, &hold, NULL), 0);
    other_wait();
}

static void work(const char *url)
{
    hf_client *client = opened(url);
    hf_report *report;
    struct other other;
    uint64_t version;
    hf_hold *hold;

    CHECK_RC(hf_lock(client, "x", 0, &hold, NULL), 0);
    other_start(&other, wait_for_x, (void *)url);
    other_expect(&other, "waiting");
    CHECK_RC(hf_cell_set(client, "plan", 0, "b", 1, &version, NULL), 0);
    CHECK_RC(hf_cell_set(client, "plan", version, "c", 1, &version, NULL), 0);
    other_kill(&other);
    CHECK_RC(hf_inspect(client, "", true, &report, NULL), 0);
    hf_report_free(report);
    CHECK_RC(hf_cell_set(client, "plan", version, NULL, 0, NULL, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), 0);
    hf_close(client);
}

/* Names as the store used them once, and as it uses them now. */
static void foreign_files_kept(void)
{
    static const char *const names[] = { "w2.pdf", "w9.2025.pdf", "tmp.backup.sql",
                                         "tmp.0",  "tmp.1",       "w0.1",
                                         "live",   "cell.plan",   "cell.x" };
    char image[8192] = { 0 };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_text(names[i], "precious");
    put_text("victim", "precious");
    memset(image + 4096, 'p', 4096);
    put(in_scratch("state"), image, sizeof image); /* begins with zeros */
    CHECK(symlink("victim", in_scratch("tmp.link")) == 0);
    CHECK(symlink("victim", in_scratch("w1.7")) == 0);
    CHECK(link(in_scratch("victim"), in_scratch("tmp.2")) == 0);
    CHECK(mkdir(in_scratch("tmp.3"), 0700) == 0);
    CHECK(mkfifo(in_scratch("w5.6"), 0600) == 0);
    snapshot(scratch, before, sizeof before);
    work(url_of(scratch, NULL));
    work(url_of(scratch, NULL));
    check_kept(NULL);
}

/* ---- Where our own directory should be ------------------------------------------- */

static void home_is_link(void)
{
    CHECK(mkdir(in_scratch("victim"), 0700) == 0);
    CHECK(symlink("victim", in_scratch(".holdfast")) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ELOOP, "symbolic link");
    CHECK(unlink(in_scratch(".holdfast")) == 0);
    CHECK(symlink("not-there", in_scratch(".holdfast")) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ELOOP, "symbolic link");
}

static void home_is_file(void)
{
    put_text(".holdfast", "precious");
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ENOTDIR, "not a directory");
    CHECK(unlink(in_scratch(".holdfast")) == 0);
    CHECK(mkfifo(in_scratch(".holdfast"), 0600) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, ENOTDIR, "not a directory");
}

/* A directory of that name exists for another purpose. */
static void home_in_use(void)
{
    CHECK(mkdir(in_scratch(".holdfast"), 0755) == 0);
    put_text(".holdfast/config", "precious");
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "'config'");
    CHECK(unlink(in_scratch(".holdfast/config")) == 0);
    put_text(".holdfast/w2.pdf", "precious");
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "'w2.pdf'");
    CHECK(unlink(in_scratch(".holdfast/w2.pdf")) == 0);
    check_works(url_of(scratch, NULL));
}

static void home_of_somebody(void)
{
    need_root();
    CHECK(mkdir(in_scratch(".holdfast"), 0700) == 0);
    CHECK(chown(in_scratch(".holdfast"), 65534, 65534) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "belongs to user 65534");
    CHECK(chown(in_scratch(".holdfast"), 0, 0) == 0);
    CHECK(chmod(in_scratch(".holdfast"), 0777) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "all users may write");
}

/* In a directory where all users may write, only mode=0666 shares the locks with
 * all. */
static void home_of_somebody_in_the_open(void)
{
    need_root();
    CHECK(chmod(scratch, 01777) == 0);
    CHECK(mkdir(in_scratch(".holdfast"), 0700) == 0);
    CHECK(chmod(in_scratch(".holdfast"), 03770) == 0);
    CHECK(chown(in_scratch(".holdfast"), 65534, 65534) == 0);
    check_refused(url_of(scratch, NULL), HF_EREFUSED, 0, "belongs to user 65534");
    check_refused(url_of(scratch, "mode=0660"), HF_EREFUSED, 0, "user 65534");
    check_works(url_of(scratch, "mode=0666"));
}

/* ---- Files of others in our own directory ---------------------------------------- */

static void pretend_reboot(void)
{
    char other[16] = "another boot id";
    int fd = open(in_scratch(".holdfast/state"), O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0 && pwrite(fd, other, sizeof other, BOOT_AT) == sizeof other);
    close(fd);
}

/* Each of these would be a file of the store but for one thing: its name, its type, its
 * mark. */
static void almost_ours(void)
{
    static const char *const fifos[] = { "w01.3", "w1.03", "w9.2025.pdf", "w2000.13",
                                         "tmp.10" };
    static const char *const halves[] = { "tmp.011", "tmp.11.sql", "tmp.9998" };
    char path[64];

    for (size_t i = 0; i < sizeof fifos / sizeof *fifos; i++) {
        snprintf(path, sizeof path, ".holdfast/%s", fifos[i]);
        CHECK(mkfifo(in_scratch(path), 0600) == 0);
    }
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        snprintf(path, sizeof path, ".holdfast/%s", halves[i]);
        put_text(path, CELL_MARK);
    }
    put_text(".holdfast/w12.12", CELL_MARK);
    put_text("value", CELL_MARK);
    CHECK(symlink("../value", in_scratch(".holdfast/tmp.12")) == 0);
    put_text("value2", CELL_MARK);
    CHECK(link(in_scratch("value2"), in_scratch(".holdfast/tmp.13")) == 0);
}

/* After a reboot the directory is cleaned, but only of files that are provably the
 * store's. */
static void cleaning_is_careful(void)
{
    static const char *const names[] = { "w2.pdf", "w1.2", "w01.2",    "w1.02",
                                         "tmp.3",  "tmp",  "tmp.03",   "tmp.9999",
                                         "cell",   "w",    "w2000.12", "tmp.4x" };
    char path[64];

    check_works(url_of(scratch, NULL));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, ".holdfast/%s", names[i]);
        put_text(path, "precious");
    }
    CHECK(mkdir(in_scratch(".holdfast/tmp.5"), 0700) == 0);
    CHECK(mkdir(in_scratch(".holdfast/w5.5"), 0700) == 0);
    CHECK(symlink("w2.pdf", in_scratch(".holdfast/tmp.6")) == 0);
    CHECK(symlink("w2.pdf", in_scratch(".holdfast/w6.6")) == 0);
    almost_ours();
    snapshot(scratch, before, sizeof before);
    CHECK(mkfifo(in_scratch(".holdfast/w7.7"), 0600) == 0);
    put_text(".holdfast/tmp.7", "");
    put_text(".holdfast/tmp.8", CELL_MARK " and the rest of a value");
    pretend_reboot();
    work(url_of(scratch, NULL));
    CHECK(access(in_scratch(".holdfast/w7.7"), F_OK) != 0);
    CHECK(access(in_scratch(".holdfast/tmp.7"), F_OK) != 0);
    CHECK(access(in_scratch(".holdfast/tmp.8"), F_OK) != 0);
    check_kept("state ");
}

/* A foreign file with a name that the store would use. */
static void names_are_taken(void)
{
    hf_client *client = opened(url_of(scratch, NULL));
    uint64_t version = 0;
    hf_error why;

    put_text(".holdfast/tmp.0", "precious");
    snapshot(scratch, before, sizeof before);
    CHECK(hf_cell_set(client, "plan", 0, "b", 1, &version, &why) < 0);
    CHECK_EQ(why.sys, EEXIST);
    hf_close(client);
    check_kept("state ");
}

/* A state file is recognised by its mark. A file that begins with zeros has none. */
static void state_needs_its_mark(void)
{
    char image[8192] = { 0 };

    CHECK(mkdir(in_scratch(".holdfast"), 0700) == 0);
    image[5000] = 'p';
    put(in_scratch(".holdfast/state"), image, sizeof image);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "no state file");
    image[100] = 'p';
    CHECK(unlink(in_scratch(".holdfast/state")) == 0);
    put(in_scratch(".holdfast/state"), image, 4096);
    check_refused(url_of(scratch, NULL), HF_ECORRUPT, 0, "no state file");
    CHECK(truncate(in_scratch(".holdfast/state"), 0) == 0);
    check_works(url_of(scratch, NULL));
}

const struct file_case foreign_files_cases[] = {
    { "foreign-files-kept", foreign_files_kept, QUEUE },
    { "home-is-link", home_is_link, QUEUE },
    { "home-is-file", home_is_file, QUEUE },
    { "home-in-use", home_in_use, QUEUE },
    { "home-of-somebody", home_of_somebody, QUEUE },
    { "home-of-somebody-in-the-open", home_of_somebody_in_the_open, QUEUE },
    { "cleaning-is-careful", cleaning_is_careful, QUEUE },
    { "names-are-taken", names_are_taken, QUEUE },
    { "state-needs-its-mark", state_needs_its_mark, QUEUE },
    { NULL, NULL, 0 },
};
