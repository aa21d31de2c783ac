/* SPDX-License-Identifier: MIT */
/*
 * The blocking connection: see resp_blocking.h.
 *
 * RESP2 over a unix socket, read with stdio. A connection on which an answer failed to
 * come in time is given up, so that the answer cannot be taken for that of the next
 * command. Replies are trusted: the server is ours. Only what the planted locks use is
 * understood; an array gives its first value.
 */
#include "resp_blocking.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define WORDS_MAX 16
#define COMMAND_MAX 1024

struct resp {
    FILE *in; /* NULL: not connected */
    int64_t timeout_ms;
    char path[108];
};

struct resp *resp_open(const char *socket_path)
{
    struct resp *resp = calloc(1, sizeof *resp);
    if (!resp || strlen(socket_path) >= sizeof resp->path) {
        free(resp);
        return NULL;
    }
    snprintf(resp->path, sizeof resp->path, "%s", socket_path);
    resp->timeout_ms = 1000;
    return resp;
}

static void hang_up(struct resp *resp)
{
    if (resp->in)
        fclose(resp->in);
    resp->in = NULL;
}

void resp_close(struct resp *resp)
{
    if (resp)
        hang_up(resp);
    free(resp);
}

static void set_timeout(struct resp *resp)
{
    struct timeval time = { .tv_sec = resp->timeout_ms / 1000,
                            .tv_usec = resp->timeout_ms % 1000 * 1000 };
    setsockopt(fileno(resp->in), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

void resp_patience(struct resp *resp, int64_t timeout_ms)
{
    resp->timeout_ms = timeout_ms;
    if (resp->in)
        set_timeout(resp);
}

static bool dial(struct resp *resp)
{
    if (resp->in)
        return true;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, resp->path, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        resp->in = fdopen(fd, "r");
    if (!resp->in)
        close(fd);
    else
        set_timeout(resp);
    return resp->in != NULL;
}

/* ---- Replies --------------------------------------------------------------------- */

/* A read with a timeout is interrupted when the process is stopped and goes on. */
static int byte_read(struct resp *resp)
{
    for (;;) {
        errno = 0;
        int byte = fgetc(resp->in);
        if (byte != EOF || errno != EINTR)
            return byte;
        clearerr(resp->in);
    }
}

static bool line_read(struct resp *resp, char *line, size_t size)
{
    size_t len = 0;
    int byte;
    while ((byte = byte_read(resp)) != '\n') {
        if (byte == EOF)
            return false;
        if (byte != '\r' && len + 1 < size)
            line[len++] = (char)byte;
    }
    line[len] = '\0';
    return len > 0;
}

static bool bulk_read(struct resp *resp, long len, struct reply *reply)
{
    for (long i = 0; i < len + 2; i++) {
        int byte = byte_read(resp);
        if (byte == EOF)
            return false;
        if (i < len && i < (long)sizeof reply->text - 1)
            reply->text[i] = (char)byte;
    }
    return true;
}

static bool value_read(struct resp *resp, struct reply *reply)
{
    char line[256];
    if (!line_read(resp, line, sizeof line))
        return false;
    reply->number = strtoll(line + 1, NULL, 10);
    reply->type = reply->number < 0 && (line[0] == '$' || line[0] == '*') ? 'n' : *line;
    if (reply->type == '$')
        return bulk_read(resp, (long)reply->number, reply);
    snprintf(reply->text, sizeof reply->text, "%s", line + 1);
    return true;
}

static bool reply_read(struct resp *resp, struct reply *reply)
{
    if (!value_read(resp, reply))
        return false;
    if (reply->type != '*')
        return true;
    struct reply rest = { 0 };
    int64_t count = reply->number;
    for (int64_t i = 0; i < count; i++)
        if (!value_read(resp, i == 0 ? reply : &rest))
            return false;
    return true;
}

/* ---- Commands -------------------------------------------------------------------- */

static struct reply send_words(struct resp *resp, const char *const *words,
                               size_t count)
{
    struct reply reply = { 0 };
    char *command = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&command, &size);
    if (!out || !dial(resp))
        goto out;
    fprintf(out, "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    fflush(out);
    reply.sent = send(fileno(resp->in), command, size, MSG_NOSIGNAL) == (ssize_t)size;
    if (!reply.sent || !reply_read(resp, &reply)) {
        hang_up(resp);
        reply.type = 0;
    }
out:
    if (out)
        fclose(out);
    free(command);
    return reply;
}

struct reply resp_say(struct resp *resp, const char *format, ...)
{
    char line[COMMAND_MAX];
    const char *words[WORDS_MAX];
    size_t count = 0;
    char *rest = NULL;
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    for (char *word = strtok_r(line, " ", &rest); word && count < WORDS_MAX;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    return send_words(resp, words, count);
}

struct reply resp_eval(struct resp *resp, const char *script, const char *key,
                       const char *arg, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    const char *words[] = { "EVAL", script, "1", key, arg, digits };
    return send_words(resp, words, 6);
}

bool reply_ok(const struct reply *reply)
{
    return reply->type == '+' && strcmp(reply->text, "OK") == 0;
}

bool reply_nil(const struct reply *reply)
{
    return reply->type == 'n';
}
