/* SPDX-License-Identifier: MIT */
/*
 * What a worker is told on its command line. Called once, before there are threads; bad
 * usage ends the program with 2.
 *
 *   --dir D --resources FILE      where histories go; the registers (both wanted)
 *   --process N --threads M       number of this process; so many threads take locks
 *   --share N                     the first N of them share one client
 *   --locks K --kinds LIST        K locks of each of mutex,fair,rw,permits,reentrant
 *   --driver NAME --url URL --command CMD --ttl MS
 *   --seed S --hold-us LO-HI --think-us LO-HI --timeout MS --events N
 *   --long-hold N                 one hold in N lasts two leases
 *   --moves LIST                  of extend,downgrade,adopt,leave,evict; none otherwise
 *   --names FILE                  the names of the locks, one a line
 *   --until                       until it is stopped; there is no other way
 *   --residue                     count what is left in the store at the end
 *   --sabotage                    now and then do without the lock
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker.h"

static _Noreturn void usage(const char *what)
{
    fprintf(stderr, "worker: %s; see the head of worker_orders.c\n", what);
    exit(2);
}

static uint64_t number_of(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (end == text || *end)
        usage("a number is wanted");
    return number;
}

static void range_of(const char *text, uint32_t range[2])
{
    if (sscanf(text, "%u-%u", &range[0], &range[1]) != 2 || range[0] > range[1])
        usage("a range LO-HI is wanted");
}

static uint8_t kind_of(const char *word, size_t len)
{
    static const char *const words[] = { [H_MUTEX] = "mutex",
                                         [H_FAIR] = "fair",
                                         [H_READ] = "rw",
                                         [H_PERMITS] = "permits",
                                         [H_REENTRANT] = "reentrant" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] && strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return (uint8_t)i;
    usage("no such kind");
}

static uint32_t moves_of(const char *list)
{
    static const char *const words[] = { "extend", "downgrade", "adopt", "leave",
                                         "evict" };
    uint32_t moves = 0;
    while (*list) {
        size_t len = strcspn(list, ","), i = 0;
        while (i < 5 && (strlen(words[i]) != len || memcmp(words[i], list, len) != 0))
            i++;
        if (i == 5)
            usage("no such move");
        moves |= 1u << i;
        list += len + (list[len] == ',');
    }
    return moves;
}

/* The names instead of those that locks_make() gave, in the same order. */
static void names_read(struct orders *orders, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        usage("the names cannot be read");
    for (uint32_t i = 0; i < orders->lock_count; i++) {
        char *name = orders->locks[i].name;
        if (!fgets(name, sizeof orders->locks[i].name, file))
            usage("there are fewer names than locks");
        name[strcspn(name, "\n")] = '\0';
    }
    fclose(file);
}

/* `each` locks of every kind in "mutex,rw"; lock numbers are the same in every worker
 * that is told the same. */
static void locks_make(struct orders *orders, const char *kinds, uint32_t each)
{
    while (*kinds) {
        size_t len = strcspn(kinds, ",");
        uint8_t kind = kind_of(kinds, len);
        for (uint32_t i = 0; i < each; i++) {
            if (orders->lock_count == LOCKS_MAX)
                usage("too many locks");
            struct target *target = &orders->locks[orders->lock_count++];
            target->kind = kind;
            snprintf(target->name, sizeof target->name, "torture-%.*s-%u", (int)len,
                     kinds, i);
        }
        kinds += len + (kinds[len] == ',');
    }
}

enum word {
    O_DIR = 1,
    O_PROCESS,
    O_THREADS,
    O_SHARE,
    O_LOCKS,
    O_KINDS,
    O_DRIVER,
    O_URL,
    O_COMMAND,
    O_TTL,
    O_SEED,
    O_HOLD,
    O_THINK,
    O_LONG,
    O_MOVES,
    O_NAMES,
    O_TIMEOUT,
    O_RESOURCES,
    O_EVENTS,
    O_UNTIL,
    O_RESIDUE,
    O_SABOTAGE,
};

static const struct option option_table[] = {
    { "dir", 1, NULL, O_DIR },
    { "process", 1, NULL, O_PROCESS },
    { "threads", 1, NULL, O_THREADS },
    { "share", 1, NULL, O_SHARE },
    { "locks", 1, NULL, O_LOCKS },
    { "kinds", 1, NULL, O_KINDS },
    { "driver", 1, NULL, O_DRIVER },
    { "url", 1, NULL, O_URL },
    { "command", 1, NULL, O_COMMAND },
    { "ttl", 1, NULL, O_TTL },
    { "seed", 1, NULL, O_SEED },
    { "hold-us", 1, NULL, O_HOLD },
    { "think-us", 1, NULL, O_THINK },
    { "long-hold", 1, NULL, O_LONG },
    { "moves", 1, NULL, O_MOVES },
    { "names", 1, NULL, O_NAMES },
    { "timeout", 1, NULL, O_TIMEOUT },
    { "resources", 1, NULL, O_RESOURCES },
    { "events", 1, NULL, O_EVENTS },
    { "until", 0, NULL, O_UNTIL },
    { "residue", 0, NULL, O_RESIDUE },
    { "sabotage", 0, NULL, O_SABOTAGE },
    { NULL, 0, NULL, 0 },
};

struct words {
    const char *kinds;
    const char *driver;
    const char *names;
    uint32_t locks;
};

static void option_take(struct orders *orders, struct words *words, int option)
{
    switch (option) {
    case O_DIR:
        orders->directory = optarg;
        break;
    case O_PROCESS:
        orders->process = (uint32_t)number_of(optarg);
        break;
    case O_THREADS:
        orders->threads = (uint32_t)number_of(optarg);
        break;
    case O_SHARE:
        orders->sharing = (uint32_t)number_of(optarg);
        break;
    case O_LOCKS:
        words->locks = (uint32_t)number_of(optarg);
        break;
    case O_KINDS:
        words->kinds = optarg;
        break;
    case O_DRIVER:
        words->driver = optarg;
        break;
    case O_URL:
        orders->settings.url = optarg;
        break;
    case O_COMMAND:
        orders->settings.command = optarg;
        break;
    case O_TTL:
        orders->settings.ttl_ms = (int64_t)number_of(optarg);
        break;
    case O_SEED:
        orders->seed = number_of(optarg);
        break;
    case O_HOLD:
        range_of(optarg, orders->hold_us);
        break;
    case O_THINK:
        range_of(optarg, orders->think_us);
        break;
    case O_LONG:
        orders->long_hold = (uint32_t)number_of(optarg);
        break;
    case O_MOVES:
        orders->moves = moves_of(optarg);
        break;
    case O_NAMES:
        words->names = optarg;
        break;
    case O_TIMEOUT:
        orders->timeout_ms = (int64_t)number_of(optarg);
        break;
    case O_RESOURCES:
        orders->resources_path = optarg;
        break;
    case O_EVENTS:
        orders->events = number_of(optarg);
        break;
    case O_UNTIL: /* said for clearness; there is no other way */
        break;
    case O_RESIDUE:
        orders->residue = true;
        break;
    case O_SABOTAGE:
        orders->sabotage = true;
        break;
    default:
        usage("no such option");
    }
}

void orders_read(struct orders *orders, int argc, char **argv)
{
    struct words words = { "mutex", "holdfast", NULL, 1 };
    int option;
    *orders = (struct orders){ .process = 1,
                               .threads = 1,
                               .seed = 1,
                               .events = 1 << 20,
                               .hold_us = { 0, 1000 },
                               .think_us = { 0, 1000 },
                               .timeout_ms = 2000 };
    while ((option = getopt_long(argc, argv, "", option_table, NULL)) != -1)
        option_take(orders, &words, option);
    if (!orders->directory || !orders->resources_path)
        usage("--dir and --resources are wanted");
    if (orders->threads < 1 || orders->threads > THREADS_MAX)
        usage("1 to 64 threads");
    orders->driver = driver_find(words.driver);
    if (!orders->driver)
        usage("no such driver");
    orders->label = words.driver;
    locks_make(orders, words.kinds, words.locks);
    if (words.names)
        names_read(orders, words.names);
}
