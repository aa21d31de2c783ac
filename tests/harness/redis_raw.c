/* SPDX-License-Identifier: MIT */
/*
 * The second opinion: see redis_raw.h.
 *
 * RESP2, read with stdio: one command at a time, from the thread that has the
 * connection. Replies are small and trusted, so there are no limits here; a read that
 * gets nothing for ten seconds fails the test.
 */
#include "redis_raw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"

#define WORDS_MAX 16
#define LINE_MAX_BYTES 512

struct raw {
    int fd;
    FILE *in;
    char *line;
    size_t line_size;
    char *text;
    size_t text_size;
};

/* ---- The connection -------------------------------------------------------------- */

static int socket_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = 10 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && strlen(path) < sizeof address.sun_path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

struct raw *raw_open_quietly(const char *socket_path)
{
    int fd = socket_connect(socket_path);
    if (fd < 0)
        return NULL;
    struct raw *raw = calloc(1, sizeof *raw);
    CHECK(raw != NULL);
    raw->fd = fd;
    raw->in = fdopen(fd, "r");
    CHECK(raw->in != NULL);
    return raw;
}

struct raw *raw_open(const char *socket_path)
{
    struct raw *raw = raw_open_quietly(socket_path);
    if (!raw)
        check_failed(__FILE__, __LINE__, "no server at %s", socket_path);
    return raw;
}

void raw_close(struct raw *raw)
{
    if (!raw)
        return;
    fclose(raw->in);
    free(raw->line);
    free(raw->text);
    free(raw);
}

/* ---- Commands -------------------------------------------------------------------- */

static void args_send(struct raw *raw, const char *const *args, size_t count)
{
    char *command = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&command, &size);
    CHECK(out != NULL);
    fprintf(out, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "$%zu\r\n%s\r\n", strlen(args[i]), args[i]);
    CHECK_EQ(fclose(out), 0);
    CHECK_EQ(send(raw->fd, command, size, MSG_NOSIGNAL), (ssize_t)size);
    free(command);
}

static void format_send(struct raw *raw, const char *format, va_list list)
{
    char line[LINE_MAX_BYTES];
    const char *words[WORDS_MAX];
    size_t count = 0;
    char *rest = NULL;
    int len = vsnprintf(line, sizeof line, format, list);
    CHECK(len > 0 && (size_t)len < sizeof line);
    for (char *word = strtok_r(line, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        CHECK(count < WORDS_MAX);
        words[count++] = word;
    }
    args_send(raw, words, count);
}

/* ---- Replies --------------------------------------------------------------------- */

static const char *line_read(struct raw *raw)
{
    ssize_t len = getline(&raw->line, &raw->line_size, raw->in);
    if (len < 3)
        check_failed(__FILE__, __LINE__, "the server says nothing: %s",
                     strerror(errno));
    raw->line[len - 2] = '\0';
    return raw->line;
}

static void bulk_read(struct raw *raw, FILE *out, long len)
{
    for (long i = 0; i < len + 2; i++) {
        int byte = fgetc(raw->in);
        CHECK(byte != EOF);
        if (i < len)
            fputc(byte, out);
    }
}

static void value_read(struct raw *raw, FILE *out)
{
    const char *line = line_read(raw);
    long number = strtol(line + 1, NULL, 10);
    switch (line[0]) {
    case '-':
        fputs(line, out);
        break;
    case '$':
        if (number < 0)
            fputs("(nil)", out);
        else
            bulk_read(raw, out, number);
        break;
    case '*':
        for (long i = 0; i < number; i++) {
            if (i > 0)
                fputc('\n', out);
            value_read(raw, out);
        }
        break;
    default:
        fputs(line + 1, out);
    }
}

const char *raw_read(struct raw *raw)
{
    free(raw->text);
    raw->text = NULL;
    FILE *out = open_memstream(&raw->text, &raw->text_size);
    CHECK(out != NULL);
    value_read(raw, out);
    CHECK_EQ(fclose(out), 0);
    return raw->text;
}

const char *raw_call(struct raw *raw, const char *const *args, size_t count)
{
    args_send(raw, args, count);
    return raw_read(raw);
}

void raw_send(struct raw *raw, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    format_send(raw, format, list);
    va_end(list);
}

const char *raw_say(struct raw *raw, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    format_send(raw, format, list);
    va_end(list);
    return raw_read(raw);
}

int64_t raw_number(struct raw *raw, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    format_send(raw, format, list);
    va_end(list);
    const char *text = raw_read(raw);
    char *end = NULL;
    int64_t number = strtoll(text, &end, 10);
    if (end == text || *end)
        check_failed(__FILE__, __LINE__, "'%.80s' is a number", text);
    return number;
}

/* ---- Looking around -------------------------------------------------------------- */

/* The reply is "cursor, key, key ..."; names have no line breaks. */
void raw_keys(struct raw *raw, bool (*each)(void *arg, const char *key), void *arg)
{
    char cursor[32] = "0";
    bool more = true;
    do {
        const char *const scan[] = { "SCAN", cursor, "COUNT", "1000" };
        char *copy = strdup(raw_call(raw, scan, 4));
        char *rest = NULL;
        CHECK(copy != NULL);
        snprintf(cursor, sizeof cursor, "%s", strtok_r(copy, "\n", &rest));
        for (char *key; more && (key = strtok_r(NULL, "\n", &rest));)
            more = each(arg, key);
        free(copy);
    } while (more && strcmp(cursor, "0") != 0);
}

size_t raw_others(struct raw *raw)
{
    size_t lines = 0;
    for (const char *at = raw_say(raw, "CLIENT LIST"); *at; at++)
        lines += *at == '\n';
    return lines - 1;
}
