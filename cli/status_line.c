/* SPDX-License-Identifier: MIT */
/*
 * The status line that names the holder while `run` waits: on a terminal one line that
 * is overwritten every second, elsewhere with -v a line at growing intervals, otherwise
 * nothing.
 *
 * A request to the store takes as long as the store does and must delay neither the
 * wait nor a signal. So another process makes it: this program again, the looker,
 * started for the first request. It makes one request for each byte that it receives on
 * a socket, and answers with one message; it ends at the end of the socket. It gets the
 * URL through the environment, because the URL may contain a password.
 */
#include "view.h"
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_MS 1000 /* a short wait shows no line */
#define LONGEST_MS 60000
#define PATIENCE_MS 1000 /* after this time without an answer the line says so */

extern char **environ;

static int64_t waited_ms(const struct status_line *line)
{
    return (now_ns() - line->since_ns) / 1000000;
}

/* ---- Starting the looker --------------------------------------------------------- */

/* The environment with --url as HOLDFAST_URL; NULL without memory. */
static char **environment_make(const struct status_line *line)
{
    const char *url = args_url(line->args);
    size_t count = 0, kept = 0, size = url ? strlen(url) + 16 : 0;
    char **list, *entry;

    while (environ[count])
        count++;
    list = calloc(1, (count + 2) * sizeof *list + size);
    if (!list)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        if (!url || strncmp(environ[i], "HOLDFAST_URL=", 13) != 0)
            list[kept++] = environ[i];
    }
    if (url) {
        entry = (char *)(list + count + 2);
        snprintf(entry, size, "HOLDFAST_URL=%s", url);
        list[kept] = entry;
    }
    return list;
}

static int looker_spawn(struct status_line *line, int peer)
{
    char self[] = "/proc/self/exe", name[] = "holdfast", hidden[] = LOOK_COMMAND;
    char own_pid[24], *words[4 + 64] = { name, hidden, own_pid };
    char **environment = environment_make(line);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    int error;

    if (!environment)
        return ENOMEM;
    snprintf(own_pid, sizeof own_pid, "%d", (int)getpid());
    for (size_t i = 0, used = 3; i < line->count && used < 3 + 64; i++) {
        if (!line->wants[i].stripes)
            words[used++] = (char *)line->wants[i].name;
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, peer, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_RDWR, 0);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &line->signals->mask);
    error = posix_spawn(&line->pid, self, &files, &attr, words, environment);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    free(environment);
    return error;
}

static bool looker_start(struct status_line *line)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return false;
    if (looker_spawn(line, pair[1]) != 0) {
        close(pair[0]);
        pair[0] = -1;
    }
    close(pair[1]);
    line->fd = pair[0];
    return line->fd >= 0;
}

/* Does not wait for the looker: it may be in the middle of a request, and ends by
 * itself. */
static void looker_end(struct status_line *line)
{
    if (line->fd < 0)
        return;
    close(line->fd);
    line->fd = -1;
    waitpid(line->pid, NULL, WNOHANG);
}

static bool looker_ask(struct status_line *line)
{
    if (line->fd < 0 && !looker_start(line))
        return false;
    return send(line->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

/* ---- The line -------------------------------------------------------------------- */

void status_line_begin(struct status_line *line, struct args *args,
                       const struct signals *signals)
{
    line->args = args;
    line->signals = signals;
    line->since_ns = now_ns();
    line->asked_ms = line->fd = -1;
    line->on_terminal = isatty(STDERR_FILENO) == 1;
    if (line->on_terminal || args_get(args, "verbose")->flag)
        line->step_ms = line->next_ms = FIRST_MS;
}

/* Cuts the text to the width of the terminal, so that the next one overwrites it. */
static void line_cut(char *text)
{
    struct winsize window = { 0, 0, 0, 0 };
    size_t width = 80;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
        width = window.ws_col;
    if (strlen(text) < width)
        return;
    text[--width] = '\0';
    while (width > 0 && (text[width - 1] & 0xc0) == 0x80) /* no half character */
        text[--width] = '\0';
    if (width > 0 && ((unsigned char)text[width - 1] & 0x80))
        text[--width] = '\0';
}

static void line_print(struct status_line *line)
{
    char text[LINE_MAX + 64];

    snprintf(text, sizeof text, "waiting %" PRId64 " s%s%s", waited_ms(line) / 1000,
             line->answer[0] ? ": " : "", line->answer);
    text_blank(text);
    if (line->on_terminal) {
        line_cut(text);
        fprintf(stderr, "\r%s\033[K", text);
        fflush(stderr);
        line->shown = true;
    } else {
        cli_verbose(line->args, "%s: %s", line->what, text);
        line->step_ms *= line->step_ms < LONGEST_MS ? 2 : 1;
    }
    line->next_ms = waited_ms(line) + line->step_ms;
}

int status_line_fd(const struct status_line *line)
{
    return line->fd;
}

int status_line_timeout(const struct status_line *line)
{
    int64_t left = line->next_ms - waited_ms(line);

    if (line->step_ms == 0)
        return -1;
    return left < 0 ? 0 : (int)left;
}

/* Reads the answer of the looker, if there is one. */
static void reply_read(struct status_line *line)
{
    ssize_t got = recv(line->fd, line->answer, sizeof line->answer - 1, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    line->answer[got > 0 ? got : 0] = '\0';
    line->asked_ms = -1;
    if (got <= 0)
        looker_end(line);
    line_print(line);
}

/* The next request is due, or the answer to the last one is late. */
static void look_due(struct status_line *line)
{
    if (line->asked_ms >= 0) {
        snprintf(line->answer, sizeof line->answer,
                 "the store has not answered for %" PRId64 " s",
                 (waited_ms(line) - line->asked_ms) / 1000);
        line_print(line);
        return;
    }
    if (looker_ask(line)) {
        line->asked_ms = waited_ms(line);
        line->next_ms = line->asked_ms + PATIENCE_MS;
        return;
    }
    looker_end(line);
    line->answer[0] = '\0';
    line_print(line);
}

void status_line_step(struct status_line *line)
{
    if (line->fd >= 0)
        reply_read(line);
    if (status_line_timeout(line) == 0)
        look_due(line);
}

void status_line_end(struct status_line *line)
{
    if (line->shown)
        fputs("\r\033[K", stderr);
    line->shown = false;
    line->step_ms = 0;
    looker_end(line);
}

/* ---- The looker ------------------------------------------------------------------ */

static void look_reply(hf_client **client, const hf_want *wants, size_t count,
                       int64_t pid)
{
    char text[LINE_MAX] = "";
    hf_error why;
    int rc = 0;

    if (!*client)
        rc = hf_open(NULL, NULL, client, &why);
    if (rc == 0)
        rc = holder_describe(*client, wants, count, pid, text, sizeof text, &why);
    if (rc == HF_EUNREACHABLE || rc == HF_EUNCERTAIN)
        snprintf(text, sizeof text, "the store cannot be reached: %s", why.text);
    else if (rc < 0)
        snprintf(text, sizeof text, "%s", why.text);
    send(STDIN_FILENO, text, strlen(text) + 1, MSG_NOSIGNAL);
}

int looker_main(char **words, size_t count)
{
    hf_want wants[64];
    hf_client *client = NULL;
    int64_t pid = count > 0 ? strtol(words[0], NULL, 10) : 0;
    size_t names = 0;
    char byte;

    for (size_t i = 1; i < count && names < 64; i++)
        wants[names++] = hf_mutex(words[i]);
    while (recv(STDIN_FILENO, &byte, 1, 0) == 1)
        look_reply(&client, wants, names, pid);
    hf_close(client);
    return EXIT_DONE;
}
