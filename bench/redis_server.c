/* SPDX-License-Identifier: MIT */
/*
 * The private server: start, stop, where it runs, what it has counted.
 *
 * Counters come over a connection of their own that lives as long as a question, so
 * that nothing of the bench stands in the way of what is measured.
 */
#include "redis_bare.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 10000
#define INFO_SIZE 65536

/* ---- Start and stop -------------------------------------------------------------- */

static void run_server(const struct bench *bench, const struct redis *server)
{
    char port[16];
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for the bench, which stops the server */
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    snprintf(port, sizeof port, "%d", server->port);
    execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1",
           "--unixsocket", server->path, "--dir", bench->dir, "--save", "",
           "--appendonly", "no", "--maxclients", "3000", "--tcp-backlog", "511",
           (char *)NULL);
    _exit(errno == ENOENT ? 127 : 126);
}

/* 0 when it answers; else the exit status, or -1 if it does not come up. */
static int await_server(const struct redis *server)
{
    static const struct request ping = REQUEST("PING\r\n");
    struct bare *bare = malloc(sizeof *bare);
    int rc = -1, status;

    for (int i = 0; bare && rc != 0 && i < START_MS / 10; i++) {
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            rc = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            break;
        }
        if (bare_open(bare, server, true) == 0) {
            rc = bare_call(bare, &ping);
            bare_close(bare);
        } else {
            poll(NULL, 0, 10);
        }
    }
    free(bare);
    return rc;
}

static int start_server(struct bench *bench, struct redis *server)
{
    server->port = bench_free_port();
    snprintf(server->path, sizeof server->path, "%s/redis", bench->dir);
    snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d", server->port);
    server->pid = fork();
    if (server->pid < 0)
        return bench_error("fork", NULL);
    if (server->pid == 0)
        run_server(bench, server);
    return await_server(server);
}

/* The build may be without the store. */
static bool can_open(const struct redis *server)
{
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(server->url, NULL, &client, &why))
        bench_error("the rows of redis are left out", &why);
    hf_close(client);
    return client != NULL;
}

const struct redis *redis_server(struct bench *bench)
{
    int rc;

    if (bench->redis || bench->no_redis)
        return bench->redis;
    bench->redis = calloc(1, sizeof *bench->redis);
    rc = bench->redis ? start_server(bench, bench->redis) : -1;
    if (rc == 127)
        fprintf(stderr,
                "bench: redis-server is not installed: its rows are left out\n");
    else if (rc)
        fprintf(stderr, "bench: redis-server does not start (%d)\n", rc);
    bench->failures += rc != 0 && rc != 127;
    if (rc || !can_open(bench->redis))
        redis_stop(bench);
    bench->no_redis = !bench->redis;
    return bench->redis;
}

void redis_stop(struct bench *bench)
{
    if (bench->redis && bench->redis->pid > 0 &&
        waitpid(bench->redis->pid, NULL, WNOHANG) == 0) {
        kill(bench->redis->pid, SIGKILL);
        waitpid(bench->redis->pid, NULL, 0);
    }
    free(bench->redis);
    bench->redis = NULL;
}

void redis_pin(const struct redis *server, bool one)
{
    cpu_set_t cores;

    if (one)
        pin_one();
    else
        pin_all();
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        sched_setaffinity(server->pid, sizeof cores, &cores);
}

/* ---- Counters -------------------------------------------------------------------- */

int redis_clear(const struct redis *server)
{
    static const struct request flush = REQUEST("FLUSHALL\r\n");
    struct bare *bare = malloc(sizeof *bare);
    int rc = bare ? bare_open(bare, server, false) : -1;

    if (rc == 0) {
        rc = bare_call(bare, &flush);
        bare_close(bare);
    }
    free(bare);
    return rc;
}

/* The text of INFO section, to be freed. */
static char *info_text(const struct redis *server, const char *section)
{
    struct bare *bare = malloc(sizeof *bare);
    char *text = calloc(1, INFO_SIZE), *body = NULL;
    char command[64];
    size_t have = 0, want = INFO_SIZE;
    int len = snprintf(command, sizeof command, "INFO %s\r\n", section);

    if (!bare || !text || bare_open(bare, server, false)) {
        free(bare);
        free(text);
        return NULL;
    }
    bare_send(bare, command, (size_t)len);
    while (have < want && have < INFO_SIZE - 1) {
        ssize_t got = recv(bare->fd, text + have, INFO_SIZE - 1 - have, 0);

        if (got <= 0)
            break;
        have += (size_t)got;
        if (!body && (body = strchr(text, '\n')) != NULL)
            want = (size_t)(body + 1 - text) + strtoul(text + 1, NULL, 10) + 2;
    }
    bare_close(bare);
    free(bare);
    return text;
}

int64_t redis_counter(const struct redis *server, const char *section, const char *name)
{
    char *text = info_text(server, section);
    const char *found = text ? strstr(text, name) : NULL;
    int64_t value = text ? 0 : -1;

    if (found)
        value = strtoll(found + strlen(name), NULL, 10);
    free(text);
    return value;
}

/* What clients of ours can send once they are connected. */
int64_t redis_requests(const struct redis *server)
{
    static const char *const commands[] = {
        "\ncmdstat_evalsha:calls=",     "\ncmdstat_eval:calls=",
        "\ncmdstat_ping:calls=",        "\ncmdstat_subscribe:calls=",
        "\ncmdstat_unsubscribe:calls=",
    };
    char *text = info_text(server, "commandstats");
    int64_t sum = text ? 0 : -1;

    for (size_t i = 0; text && i < sizeof commands / sizeof *commands; i++) {
        const char *found = strstr(text, commands[i]);

        sum += found ? strtoll(found + strlen(commands[i]), NULL, 10) : 0;
    }
    free(text);
    return sum;
}
