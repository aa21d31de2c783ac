/* SPDX-License-Identifier: MIT */
/*
 * The bare client: a blocking socket, one send and as few receives as the reply takes.
 *
 * It sends requests that were put together beforehand and looks at a reply only to find
 * its end, so it is the least a client can cost. What it sends is what holdfast sends:
 * requests_learn() lets a client of ours take and release locks under MONITOR and keeps
 * the two requests of each.
 */
#include "redis_bare.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- Connection ------------------------------------------------------------------ */

static int connect_unix(int fd, const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path));
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

static int connect_tcp(int fd, int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(fd, (struct sockaddr *)&address, sizeof address);
}

int bare_open(struct bare *bare, const struct redis *server, bool unix_socket)
{
    int family = unix_socket ? AF_UNIX : AF_INET, rc = -1;

    bare->from = bare->to = 0;
    bare->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bare->fd >= 0)
        rc = unix_socket ? connect_unix(bare->fd, server->path)
                         : connect_tcp(bare->fd, server->port);
    if (rc && bare->fd >= 0)
        bare_close(bare);
    return rc;
}

void bare_close(struct bare *bare)
{
    close(bare->fd);
    bare->fd = -1;
}

int bare_send(const struct bare *bare, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(bare->fd, bytes, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return bench_error("send", NULL);
        bytes += sent;
        len -= (size_t)sent;
    }
    return 0;
}

static int bare_fill(struct bare *bare)
{
    ssize_t got;

    if (bare->from == bare->to)
        bare->from = bare->to = 0;
    if (bare->to == sizeof bare->in) {
        memmove(bare->in, bare->in + bare->from, bare->to - bare->from);
        bare->to -= bare->from;
        bare->from = 0;
    }
    got = recv(bare->fd, bare->in + bare->to, sizeof bare->in - bare->to, 0);
    if (got <= 0)
        return bench_error("recv", NULL);
    bare->to += (size_t)got;
    return 0;
}

/* The next line without its end, valid until more is read. */
static char *bare_line(struct bare *bare)
{
    char *end;

    while (!(end = memchr(bare->in + bare->from, '\n', bare->to - bare->from))) {
        if ((bare->from == 0 && bare->to == sizeof bare->in) || bare_fill(bare))
            return NULL;
    }
    char *line = bare->in + bare->from;
    bare->from = (size_t)(end + 1 - bare->in);
    end[-1] = '\0';
    return line;
}

static int bare_skip(struct bare *bare, size_t size)
{
    while (size > 0) {
        size_t there = bare->to - bare->from;
        size_t some = there < size ? there : size;

        bare->from += some;
        size -= some;
        if (size > 0 && bare_fill(bare))
            return -1;
    }
    return 0;
}

int bare_reply(struct bare *bare)
{
    for (int64_t left = 1; left > 0; left--) {
        const char *line = bare_line(bare);

        if (!line)
            return -1;
        if (*line == '-') {
            fprintf(stderr, "bench: the server says: %s\n", line + 1);
            return -1;
        } else if (*line == '*' || *line == '>') {
            left += strtol(line + 1, NULL, 10);
        } else if (*line == '%') {
            left += 2 * strtol(line + 1, NULL, 10);
        } else if (*line == '$' && line[1] != '-') {
            if (bare_skip(bare, strtoul(line + 1, NULL, 10) + 2))
                return -1;
        }
    }
    return 0;
}

int bare_call(struct bare *bare, const struct request *request)
{
    return bare_send(bare, request->bytes, request->len) ? -1 : bare_reply(bare);
}

/* ---- Requests -------------------------------------------------------------------- */

static void request_add(struct request *request, const char *word, size_t len)
{
    size_t room = sizeof request->bytes - request->len;
    char *at = request->bytes + request->len;
    int head = snprintf(at, room, "$%zu\r\n", len);

    if ((size_t)head + len + 2 > room)
        return;
    memcpy(at + head, word, len);
    memcpy(at + head + len, "\r\n", 2);
    request->len += (size_t)head + len + 2;
}

static void request_begin(struct request *request, size_t count)
{
    request->len =
        (size_t)snprintf(request->bytes, sizeof request->bytes, "*%zu\r\n", count);
}

void request_make(struct request *request, const char *const *words)
{
    size_t count = 0;

    while (words[count])
        count++;
    request_begin(request, count);
    for (size_t i = 0; i < count; i++)
        request_add(request, words[i], strlen(words[i]));
}

/* Undoes the escapes of MONITOR in place; returns the length. `*ret_next` is left
 * behind the closing quote. */
static size_t unquote(char *word, char **ret_next)
{
    static const char letters[] = "nrtab", meant[] = "\n\r\t\a\b";
    char *to = word, *from = word;

    for (; *from && *from != '"'; from++) {
        const char *letter;

        if (*from != '\\') {
            *to++ = *from;
        } else if (*++from == 'x') {
            const char hex[3] = { from[1], from[2], 0 };

            *to++ = (char)strtol(hex, NULL, 16);
            from += 2;
        } else {
            letter = strchr(letters, *from);
            *to++ = letter && *letter ? meant[letter - letters] : *from;
        }
    }
    *ret_next = *from ? from + 1 : from;
    return (size_t)(to - word);
}

/* A line of MONITOR as a request; false if it is no script call of a client. */
static bool request_from_monitor(struct request *request, char *line)
{
    char *words[32];
    size_t lens[32], count = 0;
    char *at = strchr(line, ']');

    if (!at || strncmp(at, "] \"EVALSHA\"", 11) != 0)
        return false;
    while (count < 32 && (at = strchr(at, '"')) != NULL) {
        words[count] = at + 1;
        lens[count] = unquote(at + 1, &at);
        count++;
    }
    request_begin(request, count);
    for (size_t i = 0; i < count; i++)
        request_add(request, words[i], lens[i]);
    return true;
}

static int lock_each(hf_client *client, int count)
{
    char name[32];
    hf_hold *hold;
    hf_error why;

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench/%d", i);
        if (hf_lock(client, name, 0, &hold, &why) || hf_release(hold, &why))
            return bench_error(name, &why);
    }
    return 0;
}

int requests_learn(const struct redis *server, struct request *pairs, int count)
{
    static const struct request monitor = REQUEST("MONITOR\r\n");
    struct bare *watcher = malloc(sizeof *watcher);
    hf_client *client = NULL;
    hf_error why;
    int rc = watcher ? bare_open(watcher, server, false) : -1, found = 0;

    if (rc == 0 && (rc = hf_open(server->url, NULL, &client, &why)) != 0)
        bench_error(server->url, &why);
    if (rc == 0)
        rc = lock_each(client, 1); /* from here on the server knows the scripts */
    if (rc == 0)
        rc = bare_call(watcher, &monitor);
    if (rc == 0)
        rc = lock_each(client, count);
    while (rc == 0 && found < 2 * count) {
        char *line = bare_line(watcher);

        if (!line)
            rc = -1;
        else
            found += request_from_monitor(&pairs[found], line);
    }
    hf_close(client);
    if (watcher && watcher->fd >= 0)
        bare_close(watcher);
    free(watcher);
    return rc;
}

/* Copies a word, with `by` for each `name` in it. */
static char *copy_word(char *to, const char *end, const char *word, size_t len,
                       const char *name, const char *by)
{
    size_t name_len = strlen(name), by_len = strlen(by);

    while (len > 0 && to + by_len + 1 < end) {
        if (len >= name_len && memcmp(word, name, name_len) == 0) {
            memcpy(to, by, by_len);
            to += by_len;
            word += name_len;
            len -= name_len;
        } else {
            *to++ = *word++;
            len--;
        }
    }
    *to++ = '\0';
    return to;
}

int request_words(const struct request *request, const char *name, const char *by,
                  char *text, size_t size, const char **words, int max)
{
    const char *at = memchr(request->bytes, '$', request->len);
    const char *end = request->bytes + request->len;
    char *next = text;
    int count = 0;

    while (at && at < end && count < max) {
        char *body;
        size_t len = strtoul(at + 1, &body, 10);

        words[count++] = next;
        next = copy_word(next, text + size, body + 2, len, name, by);
        at = body + 2 + len + 2;
    }
    return count;
}
