/* SPDX-License-Identifier: MIT */
/*
 * Another library's lock under torture, behind a pipe: `--driver peer --command CMD`.
 *
 * Each thread runs `CMD URL TTL_MS` through the shell and speaks with it in lines, on
 * its standard input and output:
 *
 *   acquire NAME TIMEOUT_MS TTL_MS   ok [TOKEN] | busy | timeout | unknown WHY |
 *                                    failed WHY    (timeout 0 tries once)
 *   release                          ok | late | unknown WHY | failed WHY
 *   held                             yes | no
 *
 * A peer is part of its worker: the worker leads a process group of its own, which
 * whoever stops or kills it has to hit as a whole, and a peer ends when its input does.
 * One that ends by itself counts as "unknown" and is followed by another.
 *
 * No peer says until when its lock is held for sure, so none is said to promise it:
 * until_ns is for ever, and what overlaps then is belief, not a broken word.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

#define LINE_MAX_LEN 512

extern char **environ;

struct peer {
    struct driver_settings settings;
    char *command; /* for the shell */
    pid_t pid;
    int fd; /* its input and output; -1: not there */
    size_t len;
    char text[LINE_MAX_LEN]; /* read and not yet used */
};

static pthread_once_t group_once = PTHREAD_ONCE_INIT;

static void group_lead(void)
{
    setpgid(0, 0);
}

/* ---- The process ----------------------------------------------------------------- */

static int peer_spawn(struct peer *peer, int fd)
{
    char ttl[24];
    char *const argv[] = { (char *)"sh",  (char *)"-c",
                           peer->command, (char *)peer->settings.url,
                           ttl,           NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t pipes;
    snprintf(ttl, sizeof ttl, "%" PRId64, peer->settings.ttl_ms);
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE); /* the worker ignores it */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &pipes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int rc = posix_spawn(&peer->pid, "/bin/sh", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static bool peer_start(struct peer *peer)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    int rc = peer_spawn(peer, ends[1]);
    close(ends[1]);
    peer->len = 0;
    peer->fd = ends[0];
    if (rc == 0)
        return true;
    close(ends[0]);
    peer->fd = -1;
    return false;
}

/* Tells it that nothing more will come, and waits: it may have a lock to give back. */
static void peer_stop(struct peer *peer)
{
    if (peer->fd < 0)
        return;
    close(peer->fd);
    peer->fd = -1;
    while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- Lines ----------------------------------------------------------------------- */

static bool line_send(struct peer *peer, const char *line)
{
    size_t len = strlen(line);
    while (len) {
        ssize_t sent = send(peer->fd, line, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        if (sent > 0) {
            line += sent;
            len -= (size_t)sent;
        }
    }
    return true;
}

static bool line_take(struct peer *peer, char *line)
{
    char *end = memchr(peer->text, '\n', peer->len);
    if (!end)
        return false;
    size_t len = (size_t)(end - peer->text);
    memcpy(line, peer->text, len);
    line[len] = '\0';
    peer->len -= len + 1;
    memmove(peer->text, end + 1, peer->len);
    return true;
}

static bool line_receive(struct peer *peer, char *line)
{
    while (!line_take(peer, line)) {
        size_t room = sizeof peer->text - peer->len;
        ssize_t len = room ? read(peer->fd, peer->text + peer->len, room) : 0;
        if (len == 0 || (len < 0 && errno != EINTR))
            return false;
        if (len > 0)
            peer->len += (size_t)len;
    }
    return true;
}

/* One question, one answer; false if the peer is gone, which starts another. */
static bool peer_ask(struct peer *peer, const char *question, char *answer)
{
    if (peer->fd < 0 && !peer_start(peer))
        return false;
    if (line_send(peer, question) && line_receive(peer, answer))
        return true;
    fprintf(stderr, "worker: the peer ended by itself\n");
    peer_stop(peer);
    return false;
}

/* ---- The driver ------------------------------------------------------------------ */

static void peer_close(void *self)
{
    struct peer *peer = self;
    peer_stop(peer);
    free(peer->command);
    free(peer);
}

static void *peer_open(const struct driver_settings *settings)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (!settings->command || !settings->url) {
        fprintf(stderr, "worker: a peer wants --command and --url\n");
        free(peer);
        return NULL;
    }
    pthread_once(&group_once, group_lead);
    if (!peer)
        return NULL;
    peer->settings = *settings;
    peer->fd = -1;
    if (asprintf(&peer->command, "exec %s \"$0\" \"$1\"", settings->command) < 0) {
        free(peer);
        return NULL;
    }
    if (!peer_start(peer)) {
        perror("worker: the peer");
        peer_close(peer);
        return NULL;
    }
    return peer;
}

static enum history_result result_of(const char *answer)
{
    static const struct {
        const char *word;
        enum history_result result;
    } words[] = {
        { "ok", H_OK },     { "busy", H_BUSY },       { "timeout", H_TIMEOUT },
        { "late", H_LATE }, { "unknown", H_UNKNOWN }, { "failed", H_FAILED },
    };
    size_t len = strcspn(answer, " ");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == len && memcmp(words[i].word, answer, len) == 0)
            return words[i].result;
    fprintf(stderr, "worker: the peer says \"%s\"\n", answer);
    return H_UNKNOWN;
}

static enum history_result peer_acquire(void *self, const struct driver_want *want,
                                        struct driver_grant *ret_grant)
{
    struct peer *peer = self;
    char question[LINE_MAX_LEN];
    char answer[LINE_MAX_LEN];
    *ret_grant = (struct driver_grant){ .until_ns = UINT64_MAX };
    snprintf(question, sizeof question, "acquire %s %" PRId64 " %" PRId64 "\n",
             want->name, want->timeout_ms, peer->settings.ttl_ms);
    if (!peer_ask(peer, question, answer))
        return H_UNKNOWN;
    enum history_result result = result_of(answer);
    if (result == H_OK)
        ret_grant->token = strtoull(answer + strlen("ok"), NULL, 10);
    return result;
}

static enum history_result peer_release(void *self)
{
    char answer[LINE_MAX_LEN];
    return peer_ask(self, "release\n", answer) ? result_of(answer) : H_UNKNOWN;
}

static bool peer_still_held(void *self, uint64_t *ret_until_ns)
{
    char answer[LINE_MAX_LEN];
    *ret_until_ns = UINT64_MAX;
    return peer_ask(self, "held\n", answer) && strcmp(answer, "yes") == 0;
}

const struct driver driver_peer = {
    .name = "peer",
    .kinds = 1 << H_MUTEX,
    .open = peer_open,
    .close = peer_close,
    .acquire = peer_acquire,
    .release = peer_release,
    .still_held = peer_still_held,
};
