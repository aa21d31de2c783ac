/* SPDX-License-Identifier: MIT */
/*
 * Starts and stops private ZooKeeper servers: see zookeeper_server.h.
 *
 * Called on a test's main thread. A server has asked for a SIGKILL when its parent
 * dies. Its ports lie below those that the kernel gives to outgoing connections, so
 * that a server that is down for a while finds them free again. Nothing is forced to
 * disk: what a killed server has answered is in the page cache, which outlives it.
 *
 * A four-letter word that comes while the server is still starting may never be
 * answered, not even by an end of the connection: each has a second, and is repeated.
 */
#include "zookeeper_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define JARS "/usr/share/java/"
#define PREFIX "holdfast-zk-"
#define PORT_FIRST 10000
#define PORT_COUNT 20000
#define TEXT_MAX 65536

/* ---- Ports ----------------------------------------------------------------------- */

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)port);
    return address;
}

static bool port_is_free(int port)
{
    int one = 1;
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return free;
}

/* Each process begins elsewhere, and goes on from there. */
static int port_choose(void)
{
    static unsigned next;
    if (next == 0)
        next = (unsigned)getpid() * 61;
    for (;;) {
        int port = PORT_FIRST + (int)(next++ % PORT_COUNT);
        if (port_is_free(port))
            return port;
    }
}

/* ---- Files ----------------------------------------------------------------------- */

static int entry_remove(const char *path, const struct stat *about, int type,
                        struct FTW *ftw)
{
    (void)about;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* What is left of processes that were killed. */
static void directories_sweep(const char *base)
{
    DIR *dir = opendir(base);
    CHECK(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir));) {
        int pid = 0;
        char path[512];
        if (sscanf(entry->d_name, PREFIX "%d-", &pid) != 1 || pid <= 0 ||
            kill(pid, 0) == 0 || errno != ESRCH)
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        nftw(path, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    }
    closedir(dir);
}

static void directory_make(struct zookeeper *zoo)
{
    const char *base = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    if (zoo->options.base)
        base = zoo->options.base;
    directories_sweep(base);
    snprintf(zoo->directory, sizeof zoo->directory, "%s/" PREFIX "%d-XXXXXX", base,
             (int)getpid());
    CHECK(mkdtemp(zoo->directory) != NULL);
}

static void node_path(const struct zookeeper *zoo, size_t node, const char *entry,
                      char *path, size_t size)
{
    snprintf(path, size, "%s/%zu%s%s", zoo->directory, node + 1, *entry ? "/" : "",
             entry);
}

static void ensemble_write(const struct zookeeper *zoo, size_t node, FILE *file)
{
    char path[128];
    fprintf(file, "initLimit=50\nsyncLimit=%d\nstandaloneEnabled=false\n",
            zoo->options.sync_ticks);
    for (size_t i = 0; i < zoo->count; i++)
        fprintf(file, "server.%zu=127.0.0.1:%d:%d\n", i + 1, zoo->node[i].quorum_port,
                zoo->node[i].election_port);
    node_path(zoo, node, "myid", path, sizeof path);
    FILE *id = fopen(path, "we");
    CHECK(id != NULL && fprintf(id, "%zu\n", node + 1) > 0 && fclose(id) == 0);
}

static void config_write(const struct zookeeper *zoo, size_t node)
{
    char path[128];
    char data[128];
    node_path(zoo, node, "", data, sizeof data);
    CHECK_EQ(mkdir(data, 0700), 0);
    node_path(zoo, node, "zoo.cfg", path, sizeof path);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    fprintf(file,
            "tickTime=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
            "minSessionTimeout=100\nmaxSessionTimeout=86400000\nmaxClientCnxns=0\n"
            "admin.enableServer=false\n4lw.commands.whitelist=*\n%s",
            zoo->options.tick_ms, data, zoo->node[node].port,
            zoo->options.more ? zoo->options.more : "");
    if (zoo->count > 1)
        ensemble_write(zoo, node, file);
    CHECK_EQ(fclose(file), 0);
}

/* ---- One server ------------------------------------------------------------------ */

/* The module lies beside the program that runs. */
static void clock_follow(const struct zookeeper *zoo)
{
    char path[512];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(len > 0);
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "clock_preload.so");
    CHECK_EQ(access(path, R_OK), 0);
    CHECK_EQ(setenv("LD_PRELOAD", path, 1), 0);
    CHECK_EQ(setenv("HOLDFAST_TEST_CLOCK", zoo->clock, 1), 0);
    CHECK_EQ(setenv("HOLDFAST_TEST_CLOCK_MONOTONIC", "1", 1), 0);
}

static void child_exec(const struct zookeeper *zoo, pid_t parent, const char *config,
                       const char *log)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || in < 0 ||
        out < 0)
        _exit(126);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    unsetenv("LD_PRELOAD");
    if (zoo->options.clock)
        clock_follow(zoo);
    char reap[96];
    char reap_unused[96];
    int every = zoo->options.container_ms ? zoo->options.container_ms : 60000;
    snprintf(reap, sizeof reap, "-Dznode.container.checkIntervalMs=%d", every);
    snprintf(reap_unused, sizeof reap_unused,
             "-Dznode.container.maxNeverUsedIntervalMs=%d", 4 * every);
    execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
           "-Xshare:auto", "-XX:-UsePerfData", "-Dzookeeper.forceSync=no",
           "-Dzookeeper.preAllocSize=64", "-Dzookeeper.snapCount=10000000",
           "-Dznode.container.maxPerMinute=60000", reap, reap_unused,
           "-Dzookeeper.fastleader.maxNotificationInterval=1000",
           "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp",
           JARS "zookeeper.jar:" JARS "slf4j-simple.jar",
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

void zookeeper_run(struct zookeeper *zoo, size_t node)
{
    char config[128];
    char log[128];
    pid_t parent = getpid();
    CHECK(node < zoo->count && zoo->node[node].pid == 0);
    node_path(zoo, node, "zoo.cfg", config, sizeof config);
    node_path(zoo, node, "log", log, sizeof log);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child_exec(zoo, parent, config, log);
    zoo->node[node].pid = pid;
    zoo->node[node].frozen = false;
}

void zookeeper_kill(struct zookeeper *zoo, size_t node)
{
    int status = 0;
    pid_t reaped;
    CHECK(zoo->node[node].pid > 0 && kill(zoo->node[node].pid, SIGKILL) == 0);
    do
        reaped = waitpid(zoo->node[node].pid, &status, 0);
    while (reaped < 0 && errno == EINTR);
    CHECK_EQ(reaped, zoo->node[node].pid);
    zoo->node[node].pid = 0;
}

void zookeeper_freeze(struct zookeeper *zoo, size_t node)
{
    int status = 0;
    CHECK(zoo->node[node].pid > 0 && kill(zoo->node[node].pid, SIGSTOP) == 0);
    CHECK_EQ(waitpid(zoo->node[node].pid, &status, WUNTRACED), zoo->node[node].pid);
    CHECK(WIFSTOPPED(status));
    zoo->node[node].frozen = true;
}

void zookeeper_thaw(struct zookeeper *zoo, size_t node)
{
    CHECK(zoo->node[node].pid > 0 && kill(zoo->node[node].pid, SIGCONT) == 0);
    zoo->node[node].frozen = false;
}

/* ---- Four-letter words ----------------------------------------------------------- */

static int word_connect(int port)
{
    struct timeval limit = { .tv_sec = 1 };
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

bool zookeeper_word(const struct zookeeper *zoo, size_t node, const char *word,
                    char *text, size_t size)
{
    size_t used = 0;
    ssize_t got = -1;
    int fd = word_connect(zoo->node[node].port);
    if (fd >= 0 && send(fd, word, 4, MSG_NOSIGNAL) == 4)
        while (used < size - 1 && (got = recv(fd, text + used, size - 1 - used, 0)) > 0)
            used += (size_t)got;
    text[used] = '\0';
    if (fd >= 0)
        close(fd);
    return got >= 0 && used > 0;
}

int64_t zookeeper_number(const struct zookeeper *zoo, size_t node, const char *key)
{
    static char text[TEXT_MAX];
    char line[96];
    snprintf(line, sizeof line, "zk_%s\t", key);
    EVENTUALLY(zookeeper_word(zoo, node, "mntr", text, sizeof text) &&
               strstr(text, "zk_"));
    const char *at = strstr(text, line);
    if (!at)
        check_failed(__FILE__, __LINE__, "the server counts %s", key);
    return strtoll(at + strlen(line), NULL, 10);
}

static bool node_runs(const struct zookeeper_node *node)
{
    return node->pid && !node->frozen;
}

int64_t zookeeper_total(const struct zookeeper *zoo, const char *key)
{
    int64_t total = 0;
    for (size_t i = 0; i < zoo->count; i++)
        if (node_runs(&zoo->node[i]))
            total += zookeeper_number(zoo, i, key);
    return total;
}

/* ---- All of them ----------------------------------------------------------------- */

static bool node_serves(const struct zookeeper *zoo, size_t node)
{
    char text[4096];
    char path[128];
    int status = 0;
    node_path(zoo, node, "log", path, sizeof path);
    if (waitpid(zoo->node[node].pid, &status, WNOHANG) > 0)
        check_failed(__FILE__, __LINE__, "ZooKeeper runs (it ended with %#x, see %s)",
                     (unsigned)status, path);
    return zookeeper_word(zoo, node, "srvr", text, sizeof text) &&
           strstr(text, "Mode: ");
}

void zookeeper_settle(struct zookeeper *zoo)
{
    for (size_t i = 0; i < zoo->count; i++)
        if (node_runs(&zoo->node[i]))
            EVENTUALLY(node_serves(zoo, i));
}

static bool mode_find(const struct zookeeper *zoo, bool leads, size_t *ret_node)
{
    char text[4096];
    for (size_t i = 0; i < zoo->count; i++)
        if (node_runs(&zoo->node[i]) &&
            zookeeper_word(zoo, i, "srvr", text, sizeof text) &&
            (strstr(text, leads ? "Mode: leader" : "Mode: follower") ||
             (leads && strstr(text, "Mode: standalone")))) {
            *ret_node = i;
            return true;
        }
    return false;
}

size_t zookeeper_leader(const struct zookeeper *zoo)
{
    size_t node = 0;
    EVENTUALLY(mode_find(zoo, true, &node));
    return node;
}

size_t zookeeper_follower(const struct zookeeper *zoo)
{
    size_t node = 0;
    EVENTUALLY(mode_find(zoo, false, &node));
    return node;
}

void zookeeper_hosts(const struct zookeeper *zoo, char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < zoo->count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s127.0.0.1:%d",
                                 i ? "," : "", zoo->node[i].port);
    CHECK(used < size);
}

void zookeeper_start(struct zookeeper *zoo, size_t count,
                     const struct zookeeper_options *options)
{
    CHECK(count >= 1 && count <= ZOOKEEPER_MAX);
    *zoo = (struct zookeeper){ .count = count };
    if (options)
        zoo->options = *options;
    if (!zoo->options.tick_ms)
        zoo->options.tick_ms = 200;
    if (!zoo->options.sync_ticks)
        zoo->options.sync_ticks = 10;
    if (zoo->options.clock)
        snprintf(zoo->clock, sizeof zoo->clock, "%s", zoo->options.clock);
    directory_make(zoo);
    for (size_t i = 0; i < count; i++) {
        zoo->node[i].port = port_choose();
        zoo->node[i].quorum_port = port_choose();
        zoo->node[i].election_port = port_choose();
    }
    for (size_t i = 0; i < count; i++) {
        config_write(zoo, i);
        zookeeper_run(zoo, i);
    }
    zookeeper_settle(zoo);
}

void zookeeper_stop(struct zookeeper *zoo)
{
    for (size_t i = 0; i < zoo->count; i++)
        if (zoo->node[i].pid)
            zookeeper_kill(zoo, i);
    if (zoo->directory[0])
        nftw(zoo->directory, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
    *zoo = (struct zookeeper){ 0 };
}
