/* SPDX-License-Identifier: MIT */
/*
 * The measuring side of the bench: alternate, take medians, judge, print, write JSON.
 *
 * Everything here runs on the main thread. A row is printed the moment it is known, so
 * that a run that is cut short still says what it saw.
 */
#include "bench.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- Clocks and cores ------------------------------------------------------------ */

static int64_t clock_ns(clockid_t id)
{
    struct timespec time;

    clock_gettime(id, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static cpu_set_t *all_cores(void)
{
    static cpu_set_t cores;
    static bool known;

    if (!known)
        known = sched_getaffinity(0, sizeof cores, &cores) == 0;
    return &cores;
}

void pin_all(void)
{
    sched_setaffinity(0, sizeof(cpu_set_t), all_cores());
}

/* The last core: the first one is where most machines take their interrupts. */
void pin_one(void)
{
    const cpu_set_t *all = all_cores();
    cpu_set_t one;
    int cpu = CPU_SETSIZE - 1;

    while (cpu > 0 && !CPU_ISSET(cpu, all))
        cpu--;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

int thread_count(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    int count = 0;

    while (tasks && (task = readdir(tasks)) != NULL)
        count += task->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

/* ---- Measuring ------------------------------------------------------------------- */

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(const struct figures *samples, int count, int which)
{
    double sorted[BENCH_ROUNDS_MAX] = { 0 };

    for (int i = 0; i < count; i++)
        sorted[i] = samples[i].v[which];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_doubles);
    return count % 2 ? sorted[count / 2]
                     : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static struct figures medians(const struct figures *samples, int count)
{
    struct figures result;

    for (int i = 0; i < BENCH_FIGURES; i++)
        result.v[i] = median(samples, count, i);
    return result;
}

static void progress(const char *title, int round, int rounds)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, round < rounds ? "\r\033[K%s: round %d of %d" : "\r\033[K", title,
            round + 1, rounds);
}

int bench_alternate(struct bench *bench, const char *title, sampler *ours,
                    void *ours_arg, sampler *raw, void *raw_arg,
                    struct figures *ret_ours, struct figures *ret_raw)
{
    struct figures left[BENCH_ROUNDS_MAX] = { 0 }, right[BENCH_ROUNDS_MAX] = { 0 };
    int rc = 0;

    for (int i = 0; i < bench->rounds && rc == 0; i++) {
        progress(title, i, bench->rounds);
        rc = ours(bench, ours_arg, &left[i]);
        if (rc == 0)
            rc = raw(bench, raw_arg, &right[i]);
    }
    progress(title, bench->rounds, bench->rounds);
    if (rc == 0) {
        *ret_ours = medians(left, bench->rounds);
        *ret_raw = medians(right, bench->rounds);
    }
    return rc;
}

/* ---- Reporting ------------------------------------------------------------------- */

int bench_error(const char *what, const hf_error *why)
{
    if (why)
        fprintf(stderr, "bench: %s: %s: %s\n", what, hf_error_name(why->code),
                why->text);
    else
        fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    return -1;
}

void bench_url(const struct bench *bench, const char *name, const char *options,
               char *url, size_t size)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", bench->dir, name);
    snprintf(url, size, "file:%s%s", path, options);
    if (mkdir(path, 0700))
        bench_error(path, NULL);
}

static bool goal_met(const struct row *row)
{
    switch (row->measure.goal) {
    case RATIO_AT_MOST:
        return row->ratio <= row->measure.target;
    case RATIO_AT_LEAST:
        return row->ratio >= row->measure.target;
    case OURS_AT_MOST:
        return row->ours <= row->measure.target;
    case OURS_AT_LEAST:
        return row->ours >= row->measure.target;
    case GOAL_NONE:
        break;
    }
    return !isnan(row->ours);
}

static const char *goal_sign(enum goal goal)
{
    return goal == RATIO_AT_MOST || goal == OURS_AT_MOST ? "<=" : ">=";
}

/* Plain decimals, four digits that count, `none` for what does not exist. */
static const char *number(char *buffer, size_t size, double value, const char *none)
{
    int decimals = 4;

    if (isnan(value) || isinf(value))
        return none;
    for (double limit = 1; decimals > 0 && fabs(value) >= limit; limit *= 10)
        decimals--;
    snprintf(buffer, size, "%.*f", decimals, value);
    return buffer;
}

static void row_print(const struct row *row)
{
    char ours[64], raw[64], ratio[64], target[64] = "-";

    if (row->measure.goal != GOAL_NONE)
        snprintf(target, sizeof target, "%s%g", goal_sign(row->measure.goal),
                 row->measure.target);
    printf("bench: %s %s ours=%s raw=%s ratio=%s target=%s %s", row->measure.store,
           row->measure.name, number(ours, sizeof ours, row->ours, "-"),
           number(raw, sizeof raw, row->raw, "-"),
           number(ratio, sizeof ratio, row->ratio, "-"), target,
           row->ok ? "ok" : "short");
    printf("%s%s\n", row->peer ? " peer=" : "", row->peer ? row->peer : "");
    fflush(stdout);
}

void bench_report_peer(struct bench *bench, const struct measure *measure,
                       const char *peer, double ours, double raw)
{
    struct row *row;

    if (bench->row_count == BENCH_ROWS_MAX)
        return;
    row = &bench->rows[bench->row_count++];
    row->measure = *measure;
    row->peer = peer;
    row->ours = ours;
    row->raw = raw;
    row->ratio = raw != 0 ? ours / raw : NAN;
    row->ok = goal_met(row);
    row_print(row);
}

void bench_report(struct bench *bench, const struct measure *measure, double ours,
                  double raw)
{
    bench_report_peer(bench, measure, NULL, ours, raw);
}

void bench_missing(struct bench *bench, const struct measure *measure)
{
    bench->failures++;
    bench_report(bench, measure, NAN, NAN);
}

/* ---- JSON ------------------------------------------------------------------------ */

static void row_json(FILE *out, const struct row *row, const char *separator)
{
    char ours[64], raw[64], ratio[64], target[64];
    bool judged = row->measure.goal != GOAL_NONE;

    fprintf(out,
            "%s\n    {\"store\": \"%s\", \"measure\": \"%s\", \"unit\": \"%s\", "
            "\"ours\": %s, \"raw\": %s, \"ratio\": %s, \"goal\": \"%s\", "
            "\"target\": %s, \"verdict\": \"%s\"",
            separator, row->measure.store, row->measure.name, row->measure.unit,
            number(ours, sizeof ours, row->ours, "null"),
            number(raw, sizeof raw, row->raw, "null"),
            number(ratio, sizeof ratio, row->ratio, "null"),
            judged ? goal_sign(row->measure.goal) : "-",
            judged ? number(target, sizeof target, row->measure.target, "null")
                   : "null",
            row->ok ? "ok" : "short");
    if (row->peer)
        fprintf(out, ", \"peer\": \"%s\"", row->peer);
    fprintf(out, "}");
}

/* Makes the directories that `path` needs. */
static int make_parents(const char *path)
{
    char part[1024];

    if (strlen(path) >= sizeof part)
        return -1;
    for (const char *slash = strchr(path + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        if (mkdir(part, 0777) && errno != EEXIST)
            return -1;
    }
    return 0;
}

int bench_write_json(const struct bench *bench)
{
    struct utsname system;
    FILE *out;

    if (make_parents(bench->json) || (out = fopen(bench->json, "w")) == NULL)
        return bench_error(bench->json, NULL);
    uname(&system);
    fprintf(out,
            "{\n  \"version\": \"%s\", \"quick\": %s, \"rounds\": %d, \"cores\": %d, "
            "\"kernel\": \"%s\", \"machine\": \"%s\",\n  \"rows\": [",
            hf_version(), bench->quick ? "true" : "false", bench->rounds,
            CPU_COUNT(all_cores()), system.release, system.machine);
    for (size_t i = 0; i < bench->row_count; i++)
        row_json(out, &bench->rows[i], i ? "," : "");
    fprintf(out, "\n  ]\n}\n");
    return fclose(out) ? bench_error(bench->json, NULL) : 0;
}

/* ---- Servers --------------------------------------------------------------------- */

int bench_free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}
