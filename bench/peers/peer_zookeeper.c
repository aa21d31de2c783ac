/* SPDX-License-Identifier: MIT */
/*
 * libzookeeper_mt at work, with the lock recipe written on its blocking calls:
 * peer_zookeeper PORT, spoken to as bench/drivers.h says. The library brings no lock
 * that could be linked; this is the shortest one that waits as the recipe says.
 */
#define THREADED
#include <zookeeper/zookeeper.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_SIZE 128
#define NUMBER_LEN 10

static zhandle_t *zoo;

static int64_t clock_ns(clockid_t id)
{
    struct timespec time;

    clock_gettime(id, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void fail(const char *what, int rc)
{
    fprintf(stderr, "peer_zookeeper: %s: %s\n", what, zerror(rc));
    exit(1);
}

/* ---- The recipe ------------------------------------------------------------------ */

static void event(zhandle_t *handle, int type, int state, const char *path, void *arg)
{
    (void)handle;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        sem_post(arg);
}

static const char *number_of(const char *name)
{
    return name + strlen(name) - NUMBER_LEN;
}

/* False: nobody is before `own`. */
static int find_ahead(const char *folder, const char *own, char *ahead)
{
    struct String_vector names = { 0, NULL };
    const char *best = NULL;
    int rc = zoo_get_children(zoo, folder, 0, &names);

    if (rc != ZOK)
        fail("get_children", rc);
    for (int32_t i = 0; i < names.count; i++) {
        const char *number = number_of(names.data[i]);

        if (strcmp(number, number_of(own)) < 0 &&
            (!best || strcmp(number, number_of(best)) > 0))
            best = names.data[i];
    }
    if (best)
        snprintf(ahead, PATH_SIZE, "%s/%s", folder, best);
    deallocate_String_vector(&names);
    return best != NULL;
}

static void take(const char *folder, char *own)
{
    char prefix[PATH_SIZE], ahead[PATH_SIZE];
    struct Stat stat;
    sem_t gone;
    int rc;

    snprintf(prefix, sizeof prefix, "%s/lock-", folder);
    rc = zoo_create(zoo, prefix, "127.0.0.1", 9, &ZOO_OPEN_ACL_UNSAFE,
                    ZOO_EPHEMERAL | ZOO_SEQUENCE, own, PATH_SIZE);
    if (rc != ZOK)
        fail("create", rc);
    sem_init(&gone, 0, 0);
    while (find_ahead(folder, own, ahead)) {
        rc = zoo_wexists(zoo, ahead, event, &gone, &stat);
        if (rc == ZOK)
            sem_wait(&gone);
        else if (rc != ZNONODE)
            fail("wexists", rc);
    }
}

static void drop(const char *own)
{
    int rc = zoo_delete(zoo, own, -1);

    if (rc != ZOK)
        fail("delete", rc);
}

/* ---- Work ------------------------------------------------------------------------ */

static void work(const char *folder, long ms)
{
    char own[PATH_SIZE];
    int64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), now = clock_ns(CLOCK_MONOTONIC);
    int64_t end = now + (int64_t)ms * 1000000, longest = 0, count = 0;

    while (now < end) {
        take(folder, own);
        int64_t wait = clock_ns(CLOCK_MONOTONIC) - now;
        longest = wait > longest ? wait : longest;
        drop(own);
        count++;
        now = clock_ns(CLOCK_MONOTONIC);
    }
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%lld %lld %lld\n", (long long)count, (long long)(longest / 1000),
           (long long)(cpu / 1000));
}

static void *once(void *folder)
{
    char own[PATH_SIZE];

    take(folder, own);
    drop(own);
    return NULL;
}

static int count_children(const char *folder)
{
    struct Stat stat = { 0 };

    zoo_exists(zoo, folder, 0, &stat);
    return stat.numChildren;
}

static void rest(long ms)
{
    struct timespec time = { 0, ms * 1000000 };

    nanosleep(&time, NULL); /* pause: said where it is called */
}

static void crowd(char *folder, int count)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    char own[PATH_SIZE];
    int64_t start;

    take(folder, own);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, once, folder);
    while (count_children(folder) <= count)
        rest(50);
    rest(500); /* the last of them are setting their watches */
    start = clock_ns(CLOCK_MONOTONIC);
    drop(own);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%lld\n", (long long)(clock_ns(CLOCK_MONOTONIC) - start));
    free(threads);
}

static void obey(const char *line)
{
    char name[64], folder[PATH_SIZE];
    int number;

    if (sscanf(line, "crowd %63s %d", name, &number) == 2 ||
        sscanf(line, "%63s %d", name, &number) == 2) {
        snprintf(folder, sizeof folder, "/libzookeeper-%s", name);
        zoo_create(zoo, folder, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
        if (strncmp(line, "crowd ", 6) == 0)
            crowd(folder, number);
        else
            work(folder, number);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    char text[256];

    snprintf(text, sizeof text, "127.0.0.1:%s", argc > 1 ? argv[1] : "");
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zoo = zookeeper_init(text, NULL, 30000, NULL, NULL, 0);
    while (zoo && zoo_state(zoo) != ZOO_CONNECTED_STATE)
        rest(10);
    printf("ready\n");
    fflush(stdout);
    while (zoo && fgets(text, sizeof text, stdin))
        obey(text);
    zookeeper_close(zoo);
    return 0;
}
