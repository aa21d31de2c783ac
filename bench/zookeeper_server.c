/* SPDX-License-Identifier: MIT */
/*
 * The private ZooKeeper server: start, stop, where it runs, what it has counted.
 *
 * It has its own settings for nothing but what the bench needs: no limit of
 * connections, no snapshots and no other garbage collector threads in the middle of a
 * sample. Everything is forced to "disk", as by default, but the disk is memory. What
 * it runs with is printed, in a line of its own. Java compiles while it runs, so the
 * server is made to work for a while before anything is measured.
 */
#include "zookeeper_bare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define JARS "/usr/share/java/"
#define START_MS 30000
#define WARM_MS 8000
#define WORD_SIZE 16384
#define PATIENCE 20 /* times a second for an answer */
#define ROOM_NEEDED (UINT64_C(1) << 30)

/* ---- Start and stop -------------------------------------------------------------- */

static bool has_room(const char *path)
{
    struct statvfs about;

    return access(path, W_OK | X_OK) == 0 && statvfs(path, &about) == 0 &&
           (uint64_t)about.f_bavail * about.f_frsize >= ROOM_NEEDED;
}

static int write_config(const struct bench *bench, struct zookeeper *server)
{
    const char *base = has_room("/dev/shm") ? "/dev/shm" : bench->dir;
    char path[400];
    FILE *file;

    snprintf(server->dir, sizeof server->dir, "%s/holdfast-bench-zk.XXXXXX", base);
    if (!mkdtemp(server->dir))
        return bench_error(server->dir, NULL);
    snprintf(path, sizeof path, "%s/zoo.cfg", server->dir);
    file = fopen(path, "we");
    if (!file)
        return bench_error(path, NULL);
    fprintf(file,
            "tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=mntr,srvr\n",
            server->dir, server->port);
    return fclose(file) ? bench_error(path, NULL) : 0;
}

static void run_server(const struct bench *bench, const struct zookeeper *server)
{
    const char *compiler =
        bench->quick ? "-XX:TieredStopAtLevel=1" : "-XX:+TieredCompilation";
    char config[400], log[400];
    int null = open("/dev/null", O_RDWR), out;

    snprintf(config, sizeof config, "%s/zoo.cfg", server->dir);
    snprintf(log, sizeof log, "%s/log", server->dir);
    out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (access(JARS "zookeeper.jar", R_OK))
        _exit(127);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0); /* Ctrl-C is for the bench, which stops the server */
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execlp("java", "java", "-Xmx256m", "-XX:+UseSerialGC", compiler,
           "-Dzookeeper.snapCount=10000000",
           "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
           JARS "zookeeper.jar:" JARS "slf4j-simple.jar",
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(errno == ENOENT ? 127 : 126);
}

/* The answer to a four-letter word, to be freed. NULL: none came. A word that comes
 * while the server is starting may never be answered. */
static char *ask_word(const struct zookeeper *server, const char *word)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)server->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval limit = { .tv_sec = 1 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char *text = calloc(1, WORD_SIZE);
    size_t have = 0;
    ssize_t got = -1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (text && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(fd, word, 4, MSG_NOSIGNAL) == 4) {
        while ((got = recv(fd, text + have, WORD_SIZE - 1 - have, 0)) > 0)
            have += (size_t)got;
    }
    close(fd);
    if (got == 0 && have > 0)
        return text;
    free(text);
    return NULL;
}

/* 0 when it serves; else the exit status, or -1 if it does not come up. */
static int await_server(const struct zookeeper *server)
{
    int64_t end = now_ns() + INT64_C(1000000) * START_MS;
    bool serves;
    int status;

    while (now_ns() < end) {
        char *text;

        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        text = ask_word(server, "srvr");
        serves = text && strstr(text, "Mode: ");
        free(text);
        if (serves)
            return 0;
        poll(NULL, 0, 20);
    }
    return -1;
}

/* The folder of all bare locks; and work for the compiler in there. */
static int warm_up(const struct bench *bench, const struct zookeeper *server)
{
    static struct zoo_bare bare;
    char prefix[ZOO_PATH_SIZE], path[ZOO_PATH_SIZE];
    int64_t end = now_ns() + INT64_C(1000000) * (bench->quick ? 0 : WARM_MS);
    int rc;

    if (zoo_open(&bare, server))
        return -1;
    rc = zoo_make(&bare, "/bare");
    zoo_lock_path(prefix, "/bare");
    zookeeper_pin(server, true); /* the quickest way to many requests */
    while (rc == 0 && now_ns() < end) {
        rc = zoo_create_and_list(&bare, "/bare", prefix, path);
        if (rc == 0)
            rc = zoo_delete(&bare, path);
    }
    zookeeper_pin(server, false);
    zoo_close(&bare);
    return rc;
}

static int start_server(const struct bench *bench, struct zookeeper *server)
{
    int rc;

    server->port = bench_free_port();
    snprintf(server->url, sizeof server->url, "zookeeper://127.0.0.1:%d/bench",
             server->port);
    if (write_config(bench, server))
        return -1;
    server->pid = fork();
    if (server->pid < 0)
        return bench_error("fork", NULL);
    if (server->pid == 0)
        run_server(bench, server);
    rc = await_server(server);
    return rc ? rc : warm_up(bench, server);
}

/* The build may be without the store. */
static bool can_open(const struct zookeeper *server)
{
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(server->url, NULL, &client, &why))
        bench_error("the rows of zookeeper are left out", &why);
    hf_close(client);
    return client != NULL;
}

/* What it is, and how it runs. */
static void say_server(const struct zookeeper *server)
{
    char *text = ask_word(server, "srvr");
    const char *version = text ? strstr(text, "version: ") : NULL;
    int len = version ? (int)strcspn(version + 9, "-,\n") : 0;

    printf("# zookeeper: server %.*s, standalone, data in %s, forceSync=yes, "
           "no snapshots, java -Xmx256m -XX:+UseSerialGC\n",
           len, version ? version + 9 : "",
           strncmp(server->dir, "/dev/shm/", 9) == 0 ? "memory" : "a directory");
    fflush(stdout);
    free(text);
}

const struct zookeeper *zookeeper_server(struct bench *bench)
{
    int rc;

    if (bench->zookeeper || bench->no_zookeeper)
        return bench->zookeeper;
    bench->zookeeper = calloc(1, sizeof *bench->zookeeper);
    rc = bench->zookeeper ? start_server(bench, bench->zookeeper) : -1;
    if (rc == 127)
        fprintf(stderr, "bench: ZooKeeper is not installed: its rows are left out\n");
    else if (rc)
        fprintf(stderr, "bench: ZooKeeper does not start (%d)\n", rc);
    bench->failures += rc != 0 && rc != 127;
    if (rc || !can_open(bench->zookeeper))
        zookeeper_stop(bench);
    else
        say_server(bench->zookeeper);
    bench->no_zookeeper = !bench->zookeeper;
    return bench->zookeeper;
}

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void zookeeper_stop(struct bench *bench)
{
    struct zookeeper *server = bench->zookeeper;

    if (server && server->pid > 0 && waitpid(server->pid, NULL, WNOHANG) == 0) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    }
    if (server && server->dir[0])
        nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(server);
    bench->zookeeper = NULL;
}

/* ---- Where it runs, what it has counted ------------------------------------------ */

void zookeeper_pin(const struct zookeeper *server, bool one)
{
    char path[64];
    const struct dirent *task;
    cpu_set_t cores;
    DIR *tasks;

    if (one)
        pin_one();
    else
        pin_all();
    snprintf(path, sizeof path, "/proc/%d/task", (int)server->pid);
    tasks = opendir(path);
    if (sched_getaffinity(0, sizeof cores, &cores) != 0 || !tasks)
        return;
    while ((task = readdir(tasks)) != NULL) {
        if (task->d_name[0] != '.')
            sched_setaffinity((pid_t)strtol(task->d_name, NULL, 10), sizeof cores,
                              &cores);
    }
    closedir(tasks);
}

static int64_t count_of(const char *text, const char *name)
{
    const char *found = strstr(text, name);

    return found ? strtoll(found + strlen(name), NULL, 10) : 0;
}

/* A question is counted before it is answered, its answer (two packets) after that. */
int zookeeper_packets(const struct zookeeper *server, struct zoo_packets *ret_packets)
{
    static int64_t asked;
    char *text = NULL;

    for (int i = 0; !text && i < PATIENCE; i++, asked++)
        text = ask_word(server, "mntr");
    if (!text)
        return bench_error("mntr", NULL);
    ret_packets->received = count_of(text, "\nzk_packets_received\t") - asked;
    ret_packets->sent = count_of(text, "\nzk_packets_sent\t") - 2 * asked;
    free(text);
    return 0;
}
