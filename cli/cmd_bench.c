/* SPDX-License-Identifier: MIT */
/*
 * `holdfast bench`: a quick measurement of locks on one store, from this host.
 *
 * Three numbers, each over --time: one thread that acquires and releases a free lock;
 * four threads of one client on one lock; and the time from the moment one client
 * begins to release until another client, which waits, has the lock. They are orders of
 * magnitude. A benchmark that compares (`make bench`) takes longer and repeats its
 * measurements.
 *
 * The lock names are used by bench only. The JSON:
 *
 *   {"url": ..., "name": "holdfast-bench-...", "time_ms": 1000,
 *    "pairs_per_second": 2000000, "contended_pairs_per_second": 900000, "threads": 4,
 *    "handover_ns": {"p50": 9100, "p99": 30200, "count": 812}}
 */
#include "commands.h"
#include "view.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define TIME_MS 1000
#define SAMPLES_MAX 200000
#define PATIENCE_MS 10000

struct bench {
    hf_client *client;
    hf_client *other;
    char name[96];
    int64_t time_ns;
    double pairs_per_s, contended_per_s;
    int64_t *samples; /* ns */
    size_t sample_count;
    hf_error why;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Pairs of acquire and release ------------------------------------------------ */

static int pairs_until(hf_client *client, const char *name, int64_t end,
                       uint64_t *ret_pairs, hf_error *why)
{
    uint64_t pairs = 0;
    int rc;

    do {
        hf_hold *hold = NULL;

        rc = hf_lock(client, name, PATIENCE_MS, &hold, why);
        if (rc == 0)
            rc = hf_release(hold, why);
        pairs++;
    } while (rc == 0 && now_ns() < end);
    *ret_pairs = pairs;
    return rc;
}

static int measure_pairs(struct bench *b)
{
    int64_t begin = now_ns();
    uint64_t pairs;
    int rc = pairs_until(b->client, b->name, begin + b->time_ns, &pairs, &b->why);

    b->pairs_per_s = (double)pairs * 1e9 / (double)(now_ns() - begin);
    return rc;
}

struct worker {
    struct bench *bench;
    pthread_t thread;
    int64_t end;
    uint64_t pairs;
    int rc;
    hf_error why;
};

static void *worker_run(void *arg)
{
    struct worker *worker = arg;

    worker->rc = pairs_until(worker->bench->client, worker->bench->name, worker->end,
                             &worker->pairs, &worker->why);
    return NULL;
}

static int no_thread(hf_error *why)
{
    *why = (hf_error){ .code = HF_ESYSTEM, .text = "no thread could be started" };
    return HF_ESYSTEM;
}

static int measure_contended(struct bench *b)
{
    struct worker workers[THREADS];
    int64_t begin = now_ns();
    uint64_t pairs = 0;
    size_t started = 0;
    int rc = 0;

    for (; started < THREADS; started++) {
        struct worker *worker = &workers[started];

        *worker = (struct worker){ .bench = b, .end = begin + b->time_ns };
        if (pthread_create(&worker->thread, NULL, worker_run, worker) != 0) {
            rc = no_thread(&b->why);
            break;
        }
    }
    for (size_t i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pairs;
        if (workers[i].rc != 0 && rc == 0) {
            rc = workers[i].rc;
            b->why = workers[i].why;
        }
    }
    b->contended_per_s = (double)pairs * 1e9 / (double)(now_ns() - begin);
    return rc;
}

/* ---- Time from release to grant -------------------------------------------------- */

/* Two threads, in rounds: the holder has the lock (go), the waiter begins to wait
 * (asking), the holder releases, the waiter has acquired and released the lock (taken).
 * The holder acquires again only then: it could be faster than a waiter that must wake
 * up. */
struct relay {
    struct bench *bench;
    sem_t go, asking, taken;
    atomic_bool stop;
    _Atomic int64_t released_at;
    int rc; /* of the waiter */
    hf_error why;
};

static void sem_take(sem_t *sem)
{
    while (sem_wait(sem) != 0)
        continue;
}

static void *relay_wait(void *arg)
{
    struct relay *relay = arg;
    struct bench *b = relay->bench;

    for (sem_take(&relay->go); !atomic_load(&relay->stop); sem_take(&relay->go)) {
        hf_hold *hold = NULL;

        sem_post(&relay->asking);
        relay->rc = hf_lock(b->other, b->name, PATIENCE_MS, &hold, &relay->why);
        if (relay->rc == 0) {
            b->samples[b->sample_count++] = now_ns() - atomic_load(&relay->released_at);
            relay->rc = hf_release(hold, &relay->why);
        }
        sem_post(&relay->taken);
    }
    return NULL;
}

static void pause_ns(int64_t ns)
{
    struct timespec time = { ns / 1000000000, ns % 1000000000 };

    nanosleep(&time, NULL);
}

/* The side of the holder, until the time is over or one side fails. */
static int relay_hold(struct relay *relay, int64_t queue_ns)
{
    struct bench *b = relay->bench;
    int64_t end = now_ns() + b->time_ns;
    int rc = 0;

    while (rc == 0 && relay->rc == 0 && now_ns() < end &&
           b->sample_count < SAMPLES_MAX) {
        hf_hold *hold = NULL;

        rc = hf_lock(b->client, b->name, PATIENCE_MS, &hold, &b->why);
        if (rc != 0)
            break;
        sem_post(&relay->go);
        sem_take(&relay->asking);
        pause_ns(queue_ns);
        atomic_store(&relay->released_at, now_ns());
        rc = hf_release(hold, &b->why);
        sem_take(&relay->taken);
    }
    return rc;
}

static int measure_handover(struct bench *b)
{
    struct relay relay = { .bench = b };
    /* A few round trips: long enough for the waiter to be queued. */
    int64_t queue_ns = 1000000 + (int64_t)(3e9 / (b->pairs_per_s + 1));
    pthread_t waiter;
    int rc;

    sem_init(&relay.go, 0, 0);
    sem_init(&relay.asking, 0, 0);
    sem_init(&relay.taken, 0, 0);
    if (pthread_create(&waiter, NULL, relay_wait, &relay) != 0)
        return no_thread(&b->why);
    rc = relay_hold(&relay, queue_ns);
    atomic_store(&relay.stop, true);
    sem_post(&relay.go);
    pthread_join(waiter, NULL);
    if (rc == 0 && relay.rc != 0) {
        rc = relay.rc;
        b->why = relay.why;
    }
    return rc;
}

static int sample_order(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static int64_t percentile_ns(const struct bench *b, size_t percent)
{
    size_t index = b->sample_count * percent / 100;

    return b->sample_count ? b->samples[index] : 0;
}

/* ---- The command ----------------------------------------------------------------- */

static void print_text(const struct bench *b, const char *url)
{
    double seconds = (double)b->time_ns / 1e9;
    char safe[1024];

    text_escape(url, safe, sizeof safe);
    printf("%s, %g s per measurement:\n", safe, seconds);
    printf("free lock, one thread            %12.0f acquire + release per second\n",
           b->pairs_per_s);
    printf("one lock, %d threads, one client  %12.0f acquire + release per second\n",
           THREADS, b->contended_per_s);
    printf("from release to the next client  %12.1f us median, %.1f us 99th percentile "
           "(%zu times)\n",
           (double)percentile_ns(b, 50) / 1000, (double)percentile_ns(b, 99) / 1000,
           b->sample_count);
    puts("Measured once, on a machine that may be busy: an order of magnitude, not a "
         "comparison.");
}

static void print_json(struct args *args, const struct bench *b)
{
    struct json *json = json_document(args, b->name);

    json_number(json, "time_ms", b->time_ns / 1000000);
    json_number(json, "pairs_per_second", (int64_t)b->pairs_per_s);
    json_number(json, "contended_pairs_per_second", (int64_t)b->contended_per_s);
    json_number(json, "threads", THREADS);
    json_open(json, "handover_ns", '{');
    json_number(json, "p50", percentile_ns(b, 50));
    json_number(json, "p99", percentile_ns(b, 99));
    json_number(json, "count", (int64_t)b->sample_count);
    json_end(json);
}

/* A new name for each run, unless the store keeps a file for each name for ever: a
 * store that cannot be inspected is a directory of lock files. */
static void name_lock(struct bench *b)
{
    if (hf_capabilities(b->client) & HF_CAP_INSPECT)
        snprintf(b->name, sizeof b->name, "holdfast-bench-%ld-%lld", (long)getpid(),
                 (long long)now_ns());
    else
        snprintf(b->name, sizeof b->name, "holdfast-bench");
}

static int measure(struct args *args, struct bench *b)
{
    int rc;

    b->samples = calloc(SAMPLES_MAX, sizeof *b->samples);
    if (!b->samples) {
        cli_say("out of memory");
        return EXIT_INTERNAL;
    }
    cli_verbose(args, "%s: one thread", b->name);
    rc = measure_pairs(b);
    cli_verbose(args, "%s: %d threads", b->name, THREADS);
    if (rc == 0)
        rc = measure_contended(b);
    cli_verbose(args, "%s: hand-over", b->name);
    if (rc == 0)
        rc = measure_handover(b);
    qsort(b->samples, b->sample_count, sizeof *b->samples, sample_order);
    return rc == 0 ? EXIT_DONE : cli_fail(args, b->name, &b->why);
}

static int run_bench(struct args *args)
{
    const struct value *time = args_get(args, "time");
    struct bench b = { .time_ns = (time->given ? time->ms : TIME_MS) * 1000000 };
    int code = EXIT_DONE;
    char url[512];

    if (b.time_ns <= 0 || b.time_ns > INT64_C(3600000000000))
        return cli_usage(args, "--time must be longer than 0 and at most an hour");
    b.client = cli_open(args, NULL, &code);
    b.other = b.client ? cli_open(args, NULL, &code) : NULL;
    if (b.other) {
        name_lock(&b);
        code = measure(args, &b);
    }
    hf_close(b.other);
    hf_close(b.client);
    store_url(args, url, sizeof url);
    if (code == EXIT_DONE && args_get(args, "json")->flag)
        print_json(args, &b);
    else if (code == EXIT_DONE)
        print_text(&b, url);
    free(b.samples);
    return code;
}

static const struct option bench_options[] = {
    { "time", 't', OPT_DURATION, "DURATION", "length of each measurement (1s)", 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const bench_examples[] = {
    "holdfast bench --url file:/srv/locks --time 3s",
    "how fast locks are in this directory", NULL
};

const struct command cmd_bench = {
    .name = "bench",
    .operands = "",
    .summary = "measure roughly how fast locks are on this store",
    .group = "look",
    .about =
        "Measures three things, each for --time: how often one thread can acquire and "
        "release a free lock; the same for four threads that share one client and one "
        "lock; and the time from a release until another client, which waits, has the "
        "lock. It uses a lock name of its own, but puts load on the store.",
    .examples = bench_examples,
    .options = bench_options,
    .run = run_bench,
    .min_operands = 0,
    .max_operands = 0,
};
