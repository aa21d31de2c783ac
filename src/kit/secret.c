/* SPDX-License-Identifier: MIT */
/*
 * Finds the password of a URL. Stores call it inside open(), on the caller's thread.
 *
 * A message never contains the password or the contents of the file; it may contain the
 * path and the variable's name. The file is read with read(2), so that no copy stays in
 * a buffer of stdio. It may be a pipe (a shell's <(...)); only for a regular file are
 * the permissions checked. In a set-user-ID program the environment is not read.
 */
#include "secret.h"

#include "../base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hf__secret_wipe(char *buffer, size_t size)
{
    explicit_bzero(buffer, size);
}

static const char *option(const struct hf_url *url, const char *key)
{
    for (size_t i = 0; i < url->option_count; i++)
        if (strcmp(url->options[i].key, key) == 0)
            return url->options[i].value;
    return NULL;
}

static int copy_in(const char *text, const char *source, char buffer[HF_SECRET_MAX],
                   hf_error *why)
{
    size_t len = strlen(text);
    if (len >= HF_SECRET_MAX)
        return hf__fail(why, HF_EURL, "%s: the password is too long", source);
    memcpy(buffer, text, len + 1);
    return 0;
}

static int from_env(const char *name, char buffer[HF_SECRET_MAX], hf_error *why)
{
    const char *value = secure_getenv(name);
    if (!value)
        return hf__fail(why, HF_EURL, "password_env: there is no variable %s", name);
    if (!*value)
        return hf__fail(why, HF_EURL, "password_env: the variable %s is empty", name);
    return copy_in(value, "password_env", buffer, why);
}

/* ---- Files --------------------------------------------------------------------- */

static int read_up_to(int fd, char *buffer, size_t size, size_t *ret_len)
{
    size_t len = 0;
    while (len < size) {
        ssize_t got = read(fd, buffer + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    *ret_len = len;
    return 0;
}

/* Reduces what was read to its first line, and wipes the rest. */
static int first_line(const char *path, char buffer[HF_SECRET_MAX], size_t len,
                      hf_error *why)
{
    char *end = memchr(buffer, '\n', len);
    size_t line = end ? (size_t)(end - buffer) : len;

    if (!end && len == HF_SECRET_MAX)
        return hf__fail(why, HF_EURL, "password_file: the first line of %s is too long",
                        path);
    if (line > 0 && buffer[line - 1] == '\r')
        line--;
    explicit_bzero(buffer + line, HF_SECRET_MAX - line);
    if (line == 0)
        return hf__fail(why, HF_EURL, "password_file: the first line of %s is empty",
                        path);
    if (memchr(buffer, '\0', line))
        return hf__fail(why, HF_EURL, "password_file: %s is not a text file", path);
    return 0;
}

static int file_check(int fd, const char *path, hf_error *why)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return hf__fail_sys(why, HF_EURL, errno, "password_file: %s", path);
    if (S_ISDIR(info.st_mode))
        return hf__fail(why, HF_EURL, "password_file: %s is a directory", path);
    if (S_ISREG(info.st_mode) && info.st_mode & (S_IROTH | S_IWOTH))
        return hf__fail(why, HF_EURL,
                        "password_file: all users can read or change %s (chmod o= it)",
                        path);
    return 0;
}

static int from_file(const char *path, char buffer[HF_SECRET_MAX], hf_error *why)
{
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return hf__fail_sys(why, HF_EURL, errno, "password_file: %s", path);
    int rc = file_check(fd, path, why);
    if (rc == 0) {
        int sys = read_up_to(fd, buffer, HF_SECRET_MAX, &len);
        if (sys)
            rc = hf__fail_sys(why, HF_EURL, sys, "password_file: %s", path);
    }
    close(fd);
    return rc == 0 ? first_line(path, buffer, len, why) : rc;
}

/* ---- Choosing -------------------------------------------------------------------- */

static int find(const struct hf_url *url, char buffer[HF_SECRET_MAX], hf_error *why)
{
    const char *path = option(url, "password_file");
    const char *name = option(url, "password_env");

    if ((path != NULL) + (name != NULL) + (*url->password != '\0') > 1)
        return hf__fail(why, HF_EURL, "the password is given in more than one place");
    if (path)
        return from_file(path, buffer, why);
    if (name)
        return from_env(name, buffer, why);
    return copy_in(url->password, "the URL", buffer, why);
}

int hf__secret_find(const struct hf_url *url, char buffer[HF_SECRET_MAX], hf_error *why)
{
    memset(buffer, 0, HF_SECRET_MAX);
    int rc = find(url, buffer, why);
    if (rc != 0)
        hf__secret_wipe(buffer, HF_SECRET_MAX);
    return rc;
}
