/* SPDX-License-Identifier: MIT */
/*
 * The token counter of a flock directory: numbers that grow for all its users, a file
 * that is damaged, and which process removes it.
 */
#include "unit.h"

#include "../../src/backends/file/tokens.h"
#include "unit_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, SOMEBODY = 12345 };

static char scratch[64], path[128];
static int top;
static unsigned before;
static struct hf_tokens one, two;

static void begin(void)
{
    snprintf(scratch, sizeof scratch, "/tmp/test-tokens-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    snprintf(path, sizeof path, "%s/" HF_TOKENS_FILE, scratch);
    top = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
    before = fds_open();
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
}

/* Nothing of it is open any more. */
static void end(void)
{
    hf__file_tokens_done(&one);
    hf__file_tokens_done(&two);
    ck_assert_uint_eq(fds_open(), before);
    unlink(path);
    ck_assert_int_eq(rmdir(scratch), 0);
    close(top);
}

static bool is_there(void)
{
    return access(path, F_OK) == 0;
}

static void damage(off_t at, uint64_t number)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, &number, sizeof number, at), sizeof number);
    close(fd);
}

START_TEST(numbers_grow_over_all)
{
    struct stat st;
    begin();
    umask(0077);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0640, NULL), 0);
    ck_assert_int_eq(hf__file_tokens_open(&two, top, 0640, NULL), 0);
    ck_assert(one.page && two.page && one.last != two.last);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0640);
    ck_assert_int_eq(st.st_size, PAGE);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 100), 100);
    ck_assert_uint_eq(hf__file_tokens_draw(&two, 5, 100), 101);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 103), 106);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 0), 107);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, -5), 108);
    ck_assert_uint_eq(hf__file_tokens_draw(&two, 1, 1000), 1000);
    hf__file_tokens_done(&one);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0640, NULL), 0);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 0), 1001); /* the file remembers */
    end();
}
END_TEST

START_TEST(numbers_have_an_end)
{
    begin();
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    damage(8, HF_TOKENS_END - 2);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 0), HF_TOKENS_END - 1);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 0), 0);
    end();
}
END_TEST

static void refused(int code, const char *words)
{
    hf_error why = { 0 };
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, &why), code);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
    hf__file_tokens_done(&one);
    ck_assert_uint_eq(fds_open(), before);
}

START_TEST(what_is_damaged)
{
    begin();
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    hf__file_tokens_done(&one);
    damage(8, HF_TOKENS_END);
    refused(HF_ECORRUPT, "damaged");
    damage(8, HF_TOKENS_END - 1);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    hf__file_tokens_done(&one);
    damage(0, 7);
    refused(HF_ECORRUPT, "damaged");
    ck_assert_int_eq(truncate(path, PAGE - 1), 0);
    refused(HF_ECORRUPT, "cut short");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused(HF_EREFUSED, "not a regular file");
    ck_assert_int_eq(rmdir(path), 0);
    end();
}
END_TEST

/* Made but not filled: a crash came between. */
START_TEST(what_is_empty)
{
    begin();
    ck_assert_int_eq(mknod(path, S_IFREG | 0600, 0), 0);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_ptr_nonnull(one.page);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 5), 5);
    end();
}
END_TEST

/* An error, and not a signal. */
START_TEST(no_room)
{
    struct rlimit old, none;
    begin();
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = PAGE - 1;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    refused(HF_EFULL, "cannot be made");
    none.rlim_cur = PAGE;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    end();
}
END_TEST

/* Where all users may write, a file of another user proves nothing: the process counts
 * for itself. Only root can make one. */
START_TEST(what_belongs_to_others)
{
    if (geteuid() != 0)
        return;
    begin();
    ck_assert_int_eq(mknod(path, S_IFREG | 0666, 0), 0);
    ck_assert_int_eq(chown(path, SOMEBODY, (gid_t)-1), 0);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_ptr_nonnull(one.page);
    hf__file_tokens_done(&one);
    ck_assert_int_eq(fchmod(top, 01777), 0);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_ptr_null(one.page);
    ck_assert_uint_eq(fds_open(), before);
    ck_assert_int_eq(hf__file_tokens_open(&two, top, 0600, NULL), 0);
    ck_assert_uint_eq(hf__file_tokens_draw(&one, 1, 10), 10);
    ck_assert_uint_eq(hf__file_tokens_draw(&two, 1, 10),
                      11); /* for all of its sessions */
    end();
}
END_TEST

/* ---- Who removes it -------------------------------------------------------------- */

START_TEST(removed_by_who_only_looked)
{
    begin();
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_int_eq(hf__file_tokens_open(&two, top, 0600, NULL), 0);
    hf__file_tokens_remove_unused(&one, top); /* another process has it open */
    ck_assert(is_there());
    hf__file_tokens_done(&two);
    hf__file_tokens_remove_unused(&one, top);
    ck_assert(!is_there());
    hf__file_tokens_done(&one);
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    ck_assert_uint_gt(hf__file_tokens_draw(&one, 1, 0), 0);
    hf__file_tokens_remove_unused(&one, top); /* a number was drawn */
    ck_assert(is_there());
    hf__file_tokens_remove_unused(&two, top); /* which is closed */
    end();
}
END_TEST

/* A file that replaced it is another one. */
START_TEST(not_the_file_that_replaced_it)
{
    char other[128];
    begin();
    ck_assert_int_eq(hf__file_tokens_open(&one, top, 0600, NULL), 0);
    snprintf(other, sizeof other, "%s/other", scratch);
    ck_assert_int_eq(mknod(other, S_IFREG | 0600, 0), 0);
    ck_assert_int_eq(rename(other, path), 0);
    hf__file_tokens_remove_unused(&one, top);
    ck_assert(is_there());
    end();
}
END_TEST

UNIT_MAIN("tokens", numbers_grow_over_all, numbers_have_an_end, what_is_damaged,
          what_is_empty, no_room, what_belongs_to_others, removed_by_who_only_looked,
          not_the_file_that_replaced_it)
