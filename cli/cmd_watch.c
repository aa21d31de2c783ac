/* SPDX-License-Identifier: MIT */
/*
 * `holdfast watch`: one line for each change of a lock.
 *
 * watch inspects the lock repeatedly and compares, so it misses what comes and goes
 * between two requests. A holder is identified by its token; a waiter has none and is
 * identified by its host, process, program, note and kind. The store does not report
 * why a holder is gone; if its lease could have ended in between, the event is
 * "expired".
 *
 * The JSON, one object per line:
 *
 *   {"time": "2026-02-03T04:05:06.789Z", "name": "db", "event": "handed over",
 *    "who": {...}, "from": {...}, "left": null, "version": null, "holders": 1,
 *    "waiters": 2}
 *
 * who and from are holders or waiters as in `ls --json`, or null; left is of a latch,
 * version of a cell; holders and waiters are counts.
 *
 * Ends with a signal, after closing the client, or when the reader closes stdout.
 */
#include "commands.h"
#include "view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVERY_MS 200
#define WHO_MAX 1024

struct watch {
    struct args *args;
    const char *name;
    bool json;
    bool first;             /* the first request: prints the state, not changes */
    struct lock old, new;   /* name NULL: not in use */
    int64_t old_at, new_at; /* times of the two requests, ms */
};

static volatile sig_atomic_t ended_by;

static volatile sig_atomic_t
    looking; /* the store may not answer: end without waiting for it */

static void on_signal(int number)
{
    ended_by = number;
    if (looking)
        die_by(number);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Output ---------------------------------------------------------------------- */

struct change {
    const char *event;
    const hf_entry *who;
    const hf_entry *from; /* handed over: the former holder */
};

static void wall_time(bool json, char *buffer, size_t size)
{
    struct timespec now;
    struct tm parts;
    char text[40];

    clock_gettime(CLOCK_REALTIME, &now);
    if (json)
        gmtime_r(&now.tv_sec, &parts);
    else
        localtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, json ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &parts);
    snprintf(buffer, size, "%s.%03ld%s", text, now.tv_nsec / 1000000, json ? "Z" : "");
}

static void change_json(const struct watch *w, const struct change *change)
{
    const hf_entry *object = w->new.object;
    struct json *json = json_new(stdout);
    char when[64];

    wall_time(true, when, sizeof when);
    json_open(json, NULL, '{');
    json_text(json, "time", when);
    json_text(json, "name", w->name);
    json_text(json, "event", change->event);
    if (change->who)
        entry_json(json, "who", change->who);
    else
        json_null(json, "who");
    if (change->from)
        entry_json(json, "from", change->from);
    else
        json_null(json, "from");
    if (object && object->kind == HF_LATCH)
        json_number(json, "left", object->permits);
    else
        json_null(json, "left");
    if (object && object->kind == HF_CELL)
        json_token(json, "version", object->token);
    else
        json_null(json, "version");
    json_number(json, "holders", (int64_t)w->new.holder_count);
    json_number(json, "waiters", (int64_t)w->new.waiter_count);
    json_end(json);
}

static void who_print(const char *before, const hf_entry *entry)
{
    char who[WHO_MAX], safe[WHO_MAX];

    entry_describe(entry, who, sizeof who);
    text_escape(who, safe, sizeof safe);
    printf("%s%s", before, safe);
    if (entry->role == HF_HOLDER)
        printf(", token %llu", (unsigned long long)entry->token);
    if (entry->kind == HF_PERMITS)
        printf(", %u of %u permits", entry->permits, entry->limit);
    if (entry->note[0]) {
        text_escape(entry->note, safe, sizeof safe);
        printf(", \"%s\"", safe);
    }
}

static void change_print(const struct watch *w, const struct change *change)
{
    const hf_entry *object = w->new.object;
    char when[64];

    wall_time(false, when, sizeof when);
    printf("%s  %-11s", when, change->event);
    if (change->from)
        who_print("  from ", change->from);
    if (change->who)
        who_print(change->from ? " to " : "  ", change->who);
    else if (object && object->kind == HF_LATCH)
        printf("  %u left", object->permits);
    else if (object && object->kind == HF_CELL)
        printf("  version %llu", (unsigned long long)object->token);
    putchar('\n');
}

static void change_report(const struct watch *w, const char *event, const hf_entry *who,
                          const hf_entry *from)
{
    struct change change = { event, who, from };

    if (w->json)
        change_json(w, &change);
    else
        change_print(w, &change);
}

/* ---- Comparing ------------------------------------------------------------------- */

static bool holds(const struct lock *lock, uint64_t token)
{
    for (size_t i = 0; i < lock->holder_count; i++)
        if (lock->holders[i]->token == token)
            return true;
    return false;
}

/* Holders of `lock` that `other` does not have; the first of them in *ret_first. */
static size_t count_others(const struct lock *lock, const struct lock *other,
                           const hf_entry **ret_first)
{
    size_t count = 0;

    for (size_t i = 0; i < lock->holder_count; i++) {
        if (holds(other, lock->holders[i]->token))
            continue;
        if (count++ == 0)
            *ret_first = lock->holders[i];
    }
    return count;
}

static bool lease_ended(const struct watch *w, const hf_entry *holder)
{
    return holder->left_ms >= 0 && holder->left_ms <= w->new_at - w->old_at;
}

static void compare_holders(const struct watch *w)
{
    const hf_entry *gone = NULL, *came = NULL;

    if (count_others(&w->old, &w->new, &gone) == 1 &&
        count_others(&w->new, &w->old, &came) == 1) {
        change_report(w, "handed over", came, gone);
        return;
    }
    for (size_t i = 0; i < w->old.holder_count; i++)
        if (!holds(&w->new, w->old.holders[i]->token))
            change_report(w, lease_ended(w, w->old.holders[i]) ? "expired" : "released",
                          w->old.holders[i], NULL);
    for (size_t i = 0; i < w->new.holder_count; i++)
        if (!holds(&w->old, w->new.holders[i]->token))
            change_report(w, w->first ? "holds" : "acquired", w->new.holders[i], NULL);
}

/* The program of a detached hold is not known once its process has ended. */
static bool same_client(const hf_entry *a, const hf_entry *b)
{
    return a->pid == b->pid && a->kind == b->kind && a->permits == b->permits &&
           strcmp(a->host, b->host) == 0 && strcmp(a->note, b->note) == 0 &&
           (!a->program[0] || !b->program[0] || strcmp(a->program, b->program) == 0);
}

/* How many of the `count` entries are like this one. */
static size_t count_like(const hf_entry *entry, const hf_entry *const *entries,
                         size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += same_client(entry, entries[i]);
    return found;
}

/* Waiters like this one that became holders: they have not left the queue ungranted. */
static size_t count_granted(const struct watch *w, const hf_entry *waiter)
{
    size_t found = 0;

    for (size_t i = 0; i < w->new.holder_count; i++)
        found += !holds(&w->old, w->new.holders[i]->token) &&
                 same_client(waiter, w->new.holders[i]);
    return found;
}

/* Of several identical waiters, the last ones count as new or as gone. */
static void compare_waiters(const struct watch *w)
{
    const struct lock *old = &w->old, *new = &w->new;

    for (size_t i = 0; i < old->waiter_count; i++) {
        const hf_entry *waiter = old->waiters[i];
        size_t stay = count_like(waiter, new->waiters, new->waiter_count);

        if (count_like(waiter, old->waiters, i + 1) > stay + count_granted(w, waiter))
            change_report(w, "left", waiter, NULL);
    }
    for (size_t i = 0; i < new->waiter_count; i++) {
        const hf_entry *waiter = new->waiters[i];
        size_t before = count_like(waiter, old->waiters, old->waiter_count);

        if (count_like(waiter, new->waiters, i + 1) > before)
            change_report(w, w->first ? "waits" : "waiting", waiter, NULL);
    }
}

static void compare_object(const struct watch *w)
{
    const hf_entry *old = w->old.object, *new = w->new.object;
    bool cell = (old && old->kind == HF_CELL) || (new &&new->kind == HF_CELL);

    if (!old && new && w->first)
        change_report(w, cell ? "exists" : "counts", NULL, NULL);
    else if (!old && new)
        change_report(w, cell ? "created" : "set", NULL, NULL);
    else if (old && !new)
        change_report(w, cell ? "removed" : "opened", NULL, NULL);
    else if (old && (old->token != new->token || old->permits != new->permits))
        change_report(w, cell ? "changed" : "counted", NULL, NULL);
}

static void compare(const struct watch *w)
{
    if (w->first && !w->new.name)
        change_report(w, "free", NULL, NULL);
    compare_object(w);
    compare_holders(w);
    compare_waiters(w);
}

/* ---- The command ----------------------------------------------------------------- */

static void catch_signals(sigset_t *ret_before)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t blocked;

    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction before;

        sigaction(numbers[i], NULL, &before);
        if (before.sa_handler == SIG_IGN)
            continue; /* nohup, or a shell's background job */
        sigaction(numbers[i], &action, NULL);
        sigaddset(&blocked, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &blocked, ret_before);
}

/* Dies of the received signal, as the shell expects; 130 for Ctrl-C. */
static int die(const sigset_t *before)
{
    int number = ended_by;

    fflush(stdout);
    signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, before, NULL);
    raise(number);
    return 128 + number;
}

/* Waits for the next request; false if a signal came or the reader closed stdout. */
static bool pause_watch(int64_t every_ms, const sigset_t *mask)
{
    struct pollfd out = { .fd = fileno(stdout), .events = 0 };
    struct timespec timeout = { every_ms / 1000, every_ms % 1000 * 1000000 };

    if (fflush(stdout) != 0)
        return false;
    if (ppoll(&out, 1, &timeout, mask) < 0)
        return errno == EINTR && !ended_by;
    return !(out.revents & (POLLERR | POLLHUP | POLLNVAL)) && !ended_by;
}

/* Signals are unblocked during the request, and then end the process at once. */
static int look(struct watch *w, hf_client *client, const sigset_t *mask,
                struct view *ret_view, hf_error *why)
{
    sigset_t blocked;
    int rc;

    looking = 1;
    sigprocmask(SIG_SETMASK, mask, &blocked);
    rc = view_take(client, w->name, false, ret_view, why);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    looking = 0;
    return rc;
}

static int watch_loop(struct watch *w, hf_client *client, int64_t every_ms,
                      const sigset_t *mask)
{
    struct view before = { 0 }, view;
    int code = EXIT_DONE;
    hf_error why;

    w->first = true;
    do {
        if (look(w, client, mask, &view, &why) != 0) {
            code = cli_fail(w->args, w->name, &why);
            break;
        }
        w->old = w->new;
        w->old_at = w->new_at;
        w->new = view.lock_count ? view.locks[0] : (struct lock){ 0 };
        w->new_at = now_ms();
        compare(w);
        w->first = false;
        view_done(&before);
        before = view;
    } while (pause_watch(every_ms, mask));
    view_done(&before);
    return code;
}

static int run_watch(struct args *args)
{
    const struct value *every = args_get(args, "every");
    int64_t every_ms = every->given ? every->ms : EVERY_MS;
    struct watch w = { .args = args,
                       .name = args_operand(args, 0),
                       .json = args_get(args, "json")->flag };
    int code = EXIT_DONE;
    hf_client *client;
    sigset_t before;

    if (every_ms < 1)
        return cli_usage(args, "--every must be longer than 0");
    client = cli_open(args, NULL, &code);
    if (!client)
        return code;
    catch_signals(&before);
    code = watch_loop(&w, client, every_ms, &before);
    cli_close(client, ended_by ? 128 + ended_by : code);
    if (ended_by)
        return die(&before);
    if (ferror(stdout))
        clearerr(stdout); /* the reader closed stdout: an end, not a failure */
    return code;
}

static const struct option watch_options[] = {
    { "every", 'e', OPT_DURATION, "DURATION", "how often to ask the store (200ms)", 0,
      0 },
    { "json", 0, OPT_FLAG, NULL, "print one JSON object per line", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const watch_examples[] = {
    "holdfast watch jobs/nightly",
    "a line for each grant, each release and each waiter",
    "holdfast watch jobs/nightly --json | jq -r .event",
    "only the events, for a program", NULL
};

const struct command cmd_watch = {
    .name = "watch",
    .operands = "NAME",
    .summary = "print a line for each change of a lock",
    .group = "look",
    .about =
        "Prints the current state, then one line for each change, until Ctrl-C: "
        "acquired, released, handed over, expired, waiting, left; for a latch set, "
        "counted, opened; for a cell created, changed, removed.\n\n"
        "The command asks the store every --every, so a change that is undone in "
        "between is not seen. \"released\" also stands for a holder that died or was "
        "evicted: the store does not say why a hold has ended.",
    .examples = watch_examples,
    .options = watch_options,
    .run = run_watch,
    .min_operands = 1,
    .max_operands = 1,
};
