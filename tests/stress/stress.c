/* SPDX-License-Identifier: MIT */
/*
 * The common part of the stress programs; see stress.h. Linked into each of them.
 */
#include "stress.h"

#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- TAP ------------------------------------------------------------------------- */

static atomic_int tap_count, tap_failed;
static char last_note[160] = "start";

static void tap_line(const char *head, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static void tap_line(const char *head, const char *format, va_list list)
{
    char text[400];

    vsnprintf(text, sizeof text, format, list);
    printf("%s%s\n", head, text);
    fflush(stdout);
}

bool tap_ok(bool good, const char *format, ...)
{
    char head[48];
    va_list list;

    snprintf(head, sizeof head, "%s %d - ", good ? "ok" : "not ok",
             atomic_fetch_add(&tap_count, 1) + 1);
    if (!good)
        atomic_fetch_add(&tap_failed, 1);
    va_start(list, format);
    tap_line(head, format, list);
    va_end(list);
    return good;
}

void tap_note(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(last_note, sizeof last_note, format, list);
    va_end(list);
    printf("# %s\n", last_note);
    fflush(stdout);
}

void tap_bail(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    tap_line("Bail out! ", format, list);
    va_end(list);
    _exit(1);
}

int tap_done(void)
{
    printf("1..%d\n", atomic_load(&tap_count));
    return atomic_load(&tap_failed) ? 1 : 0;
}

/* Only what is safe in a signal handler. */
static void bark(int signal_number)
{
    static const char head[] = "Bail out! hangs after: ";
    ssize_t ignored;

    (void)signal_number;
    ignored = write(STDOUT_FILENO, head, sizeof head - 1);
    ignored += write(STDOUT_FILENO, last_note, strlen(last_note));
    ignored += write(STDOUT_FILENO, "\n", 1);
    (void)ignored;
    _exit(1);
}

void watchdog(int seconds)
{
    signal(SIGALRM, bark);
    alarm((unsigned)seconds);
}

/* ---- Options --------------------------------------------------------------------- */

static int positive(const char *text)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end || value < 1 || value > 1000000) {
        fprintf(stderr, "not a number to work with: %s\n", text);
        exit(2);
    }
    return (int)value;
}

void stress_options(int argc, char **argv, struct stress_options *options)
{
    static const struct option known[] = {
        { "seconds", required_argument, NULL, 's' },
        { "rounds", required_argument, NULL, 'r' },
        { "processes", required_argument, NULL, 'p' },
        { "threads", required_argument, NULL, 't' },
        { "no-lock", no_argument, NULL, 'n' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 's')
            options->seconds = positive(optarg);
        else if (option == 'r')
            options->rounds = positive(optarg);
        else if (option == 'p')
            options->processes = positive(optarg);
        else if (option == 't')
            options->threads = positive(optarg);
        else if (option == 'n')
            options->no_lock = true;
        else
            exit(2);
    }
}

/* ---- Surroundings ---------------------------------------------------------------- */

void scratch_make(char *path, size_t size)
{
    const char *parent = getenv("TMPDIR");

    snprintf(path, size, "%s/holdfast-stress.XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(path))
        tap_bail("cannot make %s", path);
}

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *where)
{
    (void)info;
    (void)type;
    (void)where;
    return remove(path);
}

void scratch_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int64_t real_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint32_t random_below(uint64_t *state, uint32_t limit)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return limit ? (uint32_t)(*state >> 32) % limit : 0;
}

void spin(uint32_t turns)
{
    for (volatile uint32_t i = 0; i < turns; i++) {
    }
}

hf_client *open_or_bail(const char *url, const hf_options *options)
{
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(url, options, &client, &why))
        tap_bail("hf_open(%s): %s", url, why.text);
    return client;
}

int entries_seen(hf_client *client)
{
    hf_report *report = NULL;
    int count;

    if (hf_inspect(client, "", true, &report, NULL))
        return -1;
    count = (int)hf_report_count(report);
    hf_report_free(report);
    return count;
}
