/* SPDX-License-Identifier: MIT */
/* Passwords from the URL, a file or the environment, and every wrong form. */
#include "../../src/kit/secret.h"

#include "../../src/base/mem.h"
#include "../../src/base/url.h"
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char secret[HF_SECRET_MAX];
static char path[64];
static hf_error why;

static int find(const char *text)
{
    struct hf_url url;
    void *memory;
    ck_assert_int_eq(hf__url_parse(text, &url, &memory, &why), 0);
    memset(secret, 'x', sizeof(secret));
    memset(&why, 0, sizeof(why));
    int rc = hf__secret_find(&url, secret, &why);
    hf__free(memory);
    return rc;
}

/* Refused with this message, without any part of a password in it, and nothing left in
 * the buffer. */
static void expect_refused(const char *text, const char *words)
{
    ck_assert_int_eq(find(text), HF_EURL);
    ck_assert_int_eq(why.code, HF_EURL);
    ck_assert_msg(strstr(why.text, words), "%s", why.text);
    ck_assert_ptr_null(strstr(why.text, "sesame"));
    for (size_t i = 0; i < sizeof(secret); i++)
        UNIT_ASSERT(secret[i] == '\0');
}

static void file_make(const void *data, size_t len, mode_t mode)
{
    snprintf(path, sizeof(path), "/tmp/hf-secret-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static const char *file_url(void)
{
    static char url[128];
    snprintf(url, sizeof(url), "redis://host/?password_file=%s", path);
    return url;
}

static void expect_line(const char *content, const char *password)
{
    file_make(content, strlen(content), 0600);
    int rc = find(file_url());
    unlink(path);
    ck_assert_int_eq(rc, 0);
    ck_assert_str_eq(secret, password);
    for (size_t i = strlen(secret); i < sizeof(secret); i++)
        UNIT_ASSERT(secret[i] == '\0');
}

static void expect_bad_file(const void *data, size_t len, mode_t mode,
                            const char *words)
{
    file_make(data, len, mode);
    expect_refused(file_url(), words);
    ck_assert_ptr_nonnull(strstr(why.text, path));
    unlink(path);
}

START_TEST(url_alone)
{
    ck_assert_int_eq(find("redis://user:open%20sesame@host"), 0);
    ck_assert_str_eq(secret, "open sesame");
    ck_assert_int_eq(find("redis://host"), 0);
    ck_assert_str_eq(secret, "");
}
END_TEST

START_TEST(first_line_of_a_file)
{
    expect_line("sesame", "sesame");
    expect_line("sesame\n", "sesame");
    expect_line("sesame\r\n", "sesame");
    expect_line("sesame\nsecond line\n", "sesame");
    expect_line(" open sesame \n", " open sesame ");
}
END_TEST

START_TEST(longest_line)
{
    char line[HF_SECRET_MAX + 1];
    memset(line, 'a', sizeof(line));
    line[HF_SECRET_MAX - 1] = '\n';
    line[HF_SECRET_MAX] = '\0';
    file_make(line, HF_SECRET_MAX, 0600);
    ck_assert_int_eq(find(file_url()), 0);
    ck_assert_uint_eq(strlen(secret), HF_SECRET_MAX - 1);
    unlink(path);
    line[HF_SECRET_MAX - 1] = 'a';
    line[HF_SECRET_MAX] = '\n';
    expect_bad_file(line, sizeof(line), 0600, "too long");
}
END_TEST

START_TEST(bad_files)
{
    expect_bad_file("", 0, 0600, "is empty");
    expect_bad_file("\nsesame", 7, 0600, "is empty");
    expect_bad_file("ses\0ame\n", 8, 0600, "not a text file");
    expect_bad_file("sesame", 6, 0604, "all users can read");
    expect_bad_file("sesame", 6, 0602, "all users can read");
    expect_refused("redis://host/?password_file=/nowhere/at/all", "No such file");
    expect_refused("redis://host/?password_file=/tmp", "is a directory");
    /* It can be opened, and nothing can be read at its beginning. */
    expect_refused("redis://host/?password_file=/proc/self/mem", "Input/output error");
}
END_TEST

static void *write_line(void *arg)
{
    int fd = open(arg, O_WRONLY | O_CLOEXEC);
    ssize_t done = write(fd, "sesame\n", 7);
    close(fd);
    return done == 7 ? arg : NULL;
}

/* As a shell's <(...) gives it, whatever its permissions. */
START_TEST(pipe_will_do)
{
    pthread_t writer;
    void *done;
    snprintf(path, sizeof(path), "/tmp/hf-secret-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    snprintf(path + strlen(path), sizeof(path) - strlen(path), "/pipe");
    ck_assert_int_eq(mkfifo(path, 0644), 0);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_line, path), 0);
    ck_assert_int_eq(find(file_url()), 0);
    ck_assert_str_eq(secret, "sesame");
    pthread_join(writer, &done);
    ck_assert_ptr_nonnull(done);
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}
END_TEST

START_TEST(environment)
{
    char large[HF_SECRET_MAX + 1];
    setenv("HF_TEST_SECRET", "open sesame", 1);
    ck_assert_int_eq(find("redis://host/?password_env=HF_TEST_SECRET"), 0);
    ck_assert_str_eq(secret, "open sesame");
    setenv("HF_TEST_SECRET", "", 1);
    expect_refused("redis://host/?password_env=HF_TEST_SECRET", "is empty");
    unsetenv("HF_TEST_SECRET");
    expect_refused("redis://host/?password_env=HF_TEST_SECRET",
                   "there is no variable HF_TEST_SECRET");
    memset(large, 'a', HF_SECRET_MAX);
    large[HF_SECRET_MAX] = '\0';
    setenv("HF_TEST_SECRET", large, 1);
    expect_refused("redis://host/?password_env=HF_TEST_SECRET", "too long");
}
END_TEST

START_TEST(one_place_only)
{
    setenv("HF_TEST_SECRET", "sesame", 1);
    expect_refused("redis://:sesame@host/?password_env=HF_TEST_SECRET",
                   "more than one");
    expect_refused("redis://:sesame@host/?password_file=/nowhere", "more than one");
    expect_refused("redis://host/?password_file=/nowhere&password_env=HF_TEST_SECRET",
                   "more than one");
}
END_TEST

START_TEST(wiped)
{
    char text[] = "sesame";
    hf__secret_wipe(text, sizeof(text));
    for (size_t i = 0; i < sizeof(text); i++)
        ck_assert_int_eq(text[i], 0);
}
END_TEST

UNIT_MAIN("secret", url_alone, first_line_of_a_file, longest_line, bad_files,
          pipe_will_do, environment, one_place_only, wiped)
