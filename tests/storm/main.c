/* SPDX-License-Identifier: MIT */
/*
 * storm: random calls of the whole API against a shadow model. README.md tells the
 * whole of it.
 *
 *     storm --store NAME [--seed N] [--seconds S | --steps K] [--processes P]
 *           [--threads T] [--clients C] [--lossy] [--kills] [--kinds mutex,rw,...]
 *
 * This is the supervisor: it starts the store and the workers, spoils the weather,
 * kills workers if asked to, and looks at what is left.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

#define PATIENCE_S 150 /* beyond the time that was asked for: a hang */

static pid_t workers[PROCESSES_MAX];
static int workers_running;

/* ---- Options --------------------------------------------------------------------- */

static uint32_t kind_parse(const char *word, size_t len)
{
    static const char *const names[] = { "mutex",    "rw",    "permits",
                                         "expiring", "latch", "cell" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncmp(word, names[i], len) == 0)
            return 1u << i;
    fprintf(stderr, "storm: there is no kind %.*s\n", (int)len, word);
    exit(2);
}

static uint32_t kinds_parse(const char *text)
{
    uint32_t kinds = 0;
    while (*text) {
        size_t len = strcspn(text, ",");
        kinds |= kind_parse(text, len);
        text += len + (text[len] == ',');
    }
    return kinds;
}

static void config_parse(struct config *config, int argc, char **argv)
{
    static const struct option options[] = {
        { "store", 1, NULL, 'S' },     { "seed", 1, NULL, 's' },
        { "seconds", 1, NULL, 't' },   { "steps", 1, NULL, 'n' },
        { "processes", 1, NULL, 'p' }, { "threads", 1, NULL, 'T' },
        { "clients", 1, NULL, 'c' },   { "lossy", 0, NULL, 'l' },
        { "skip", 1, NULL, 'x' },      { "kills", 0, NULL, 'k' },
        { "pure", 0, NULL, 'P' },      { "unsent", 0, NULL, 'u' },
        { "kinds", 1, NULL, 'K' },     { NULL, 0, NULL, 0 },
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'S':
            snprintf(config->store, sizeof config->store, "%s", optarg);
            break;
        case 's':
            config->seed = strtoull(optarg, NULL, 10);
            break;
        case 't':
            config->seconds = strtoll(optarg, NULL, 10);
            break;
        case 'n':
            config->steps = strtoll(optarg, NULL, 10);
            break;
        case 'p':
            config->processes = (int)strtol(optarg, NULL, 10);
            break;
        case 'T':
            config->threads = (int)strtol(optarg, NULL, 10);
            break;
        case 'c':
            config->clients = (int)strtol(optarg, NULL, 10);
            break;
        case 'l':
            config->lossy = true;
            break;
        case 'x':
            snprintf(config->skip, sizeof config->skip, ",%s,", optarg);
            break;
        case 'P':
            config->pure = true;
            break;
        case 'u':
            config->lossy = config->unsent = true;
            break;
        case 'k':
            config->kills = true;
            break;
        case 'K':
            config->kinds = kinds_parse(optarg);
            break;
        default:
            exit(2);
        }
    }
}

static void config_complete(struct config *config)
{
    bool alone = strcmp(config->store, "mem") == 0;
    bool limited = strcmp(config->store, "flock") == 0 ||
                   strcmp(config->store, "redis-simple") == 0;
    if (!config->processes)
        config->processes = alone ? 1 : 3;
    if (!config->threads)
        config->threads = alone ? 5 : 3;
    if (alone || config->processes > PROCESSES_MAX - 1)
        config->processes = 1;
    if (config->threads < 1 || config->threads > SEATS_MAX - 1)
        config->threads = 3;
    if (config->clients < 1 || config->clients > SLOTS_MAX)
        config->clients = 3;
    if (!config->seconds && !config->steps)
        config->seconds = 10;
    if (limited)
        config->kinds &= K_MUTEX | (config->store[0] == 'f' ? K_RW : 0);
    if (!config->store[0] || !config->kinds) {
        fprintf(stderr, "storm: --store NAME, and a kind that it has\n");
        exit(2);
    }
}

/* ---- Workers --------------------------------------------------------------------- */

static void worker_start(int number)
{
    fflush(stdout);
    workers[number] = fork();
    if (workers[number] < 0)
        trouble("cannot fork");
    if (workers[number] == 0) {
        int status = process_run(number);
        exit(status); /* not _exit(): sanitizers look for leaks now */
    }
    workers_running++;
}

static int worker_of(pid_t pid)
{
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (workers[i] == pid)
            return i;
    return -1;
}

static void worker_ended(int number, int status)
{
    workers[number] = 0;
    workers_running--;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return;
    atomic_fetch_add(&world->troubles, 1);
    fprintf(stderr, "# process %d ended with %#x\n", number, (unsigned)status);
    atomic_store(&world->over, true);
}

static void workers_reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        int number = worker_of(pid);
        if (number >= 0)
            worker_ended(number, status);
    }
}

/* A worker that is killed is gone with its handles; another one takes its place. */
static void worker_kill(struct rng *rng)
{
    int status;
    int number = (int)rng_below(rng, (uint64_t)world->config.processes);
    if (workers[number] <= 0 || waitpid(workers[number], &status, WNOHANG) != 0)
        return;
    model_doom_process(number);
    kill(workers[number], SIGKILL);
    waitpid(workers[number], &status, 0);
    workers_running--;
    model_forget_process(number, 60000 * NS_PER_MS);
    atomic_fetch_add(&world->kills, 1);
    worker_start(number);
}

static void workers_end_by_force(void)
{
    fprintf(stderr, "# no end after %lld s\n",
            (long long)((now_ns() - world->began_ns) / NS_PER_MS / 1000));
    atomic_fetch_add(&world->violations, 1);
    for (int i = 0; i < PROCESSES_MAX; i++)
        if (workers[i] > 0)
            kill(workers[i], SIGABRT);
}

static int64_t patience_ns(void)
{
    const char *factor = getenv("HOLDFAST_TEST_PATIENCE");
    int64_t times = factor ? strtoll(factor, NULL, 10) : 1;
    int64_t seconds = world->config.seconds ? world->config.seconds : 3600;
    return (seconds + PATIENCE_S * (times > 1 ? times : 1)) * 1000 * NS_PER_MS;
}

static void supervise(void)
{
    struct rng rng = plan_step(world->config.seed, 255, 254, 1);
    int64_t end = world->config.seconds * 1000 * NS_PER_MS;
    int64_t next_kill = now_ns() + 700 * NS_PER_MS;
    bool forced = false;
    while (workers_running > 0) {
        poll(NULL, 0, 5); /* pause: between two looks at the workers */
        int64_t now = now_ns();
        if (end && now - world->began_ns > end)
            atomic_store(&world->over, true);
        bool over = atomic_load(&world->over);
        if (world->config.lossy && !over)
            store_weather(&rng);
        else if (world->config.lossy)
            store_calm();
        if (world->config.kills && !over && now > next_kill) {
            next_kill = now + (int64_t)(300 + rng_below(&rng, 900)) * NS_PER_MS;
            worker_kill(&rng);
        }
        workers_reap();
        if (!forced && now - world->began_ns > patience_ns()) {
            workers_end_by_force();
            forced = true;
        }
    }
}

/* ---- The end --------------------------------------------------------------------- */

static void command_show(int argc, char **argv)
{
    fprintf(stderr, "# again: storm");
    for (int i = 1; i < argc; i++)
        fprintf(stderr, " %s", argv[i]);
    fprintf(stderr, "\n# seed %llu\n", (unsigned long long)world->config.seed);
}

int main(int argc, char **argv)
{
    struct config config = { .seed = 1, .kinds = K_ALL };
    config_parse(&config, argc, argv);
    config_complete(&config);
    world_make(&config);
    store_start();
    world->began_ns = now_ns();
    for (int i = 0; i < config.processes; i++)
        worker_start(i);
    supervise();
    store_end();
    bool all = report_end();
    bool right = all && atomic_load(&world->violations) == 0 &&
                 atomic_load(&world->troubles) == 0;
    if (!right) {
        report_events();
        command_show(argc, argv);
    }
    printf("1..1\n%sok 1 - storm on %s, seed %llu\n", right ? "" : "not ", config.store,
           (unsigned long long)config.seed);
    return right ? 0 : 1;
}
