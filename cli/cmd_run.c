/* SPDX-License-Identifier: MIT */
/*
 * `holdfast run`: options, wants and exit code. run.h lists the other files.
 */
#include "run.h"

#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GRACE_MS 2000

static const struct option options[] = {
    { "shared", 's', OPT_FLAG, NULL, "read lock: shared with other --shared holders", 0,
      0 },
    { "exclusive", 'x', OPT_FLAG, NULL,
      "write lock: excludes --shared and --exclusive holders", 0, 0 },
    { "fair", 0, OPT_FLAG, NULL, "mutex granted strictly in order of arrival", 0, 0 },
    { "reentrant", 0, OPT_FLAG, NULL,
      "reuse a lock that an enclosing `holdfast run` holds exclusively", 0, 0 },
    { "permits", 0, OPT_TEXT, "K/N", "take K of the N permits of a semaphore", 0, 0 },
    { "stripe", 0, OPT_TEXT, "KEY/N", "hash KEY to one of N sub-locks of NAME", 0, 0 },
    { "wait", 'w', OPT_FOREVER, "DURATION",
      "how long to wait for the lock: 10s or 10, 1m30s, 0, or forever (the default)", 0,
      0 },
    { "nonblock", 'n', OPT_FLAG, NULL, "the same as --wait 0", 0, 0 },
    { "conflict-exit-code", 'E', OPT_NUMBER, "CODE",
      "exit with CODE if the lock was not granted in time; 0 also omits the message", 0,
      255 },
    { "quiet", 'q', OPT_FLAG, NULL,
      "print no message if the lock was not granted in time", 0, 0 },
    { "ttl", 't', OPT_DURATION, "DURATION",
      "length of the lease; default: chosen by the store", 0, 0 },
    { "no-renew", 0, OPT_FLAG, NULL,
      "do not renew the lease: the hold ends after --ttl, the command before it", 0,
      0 },
    { "max-hold", 0, OPT_DURATION, "DURATION",
      "longest time to hold the lock; the command gets SIGTERM before it ends", 0, 0 },
    { "note", 0, OPT_TEXT, "TEXT",
      "text about this hold for other users, printed by show and watch", 0, 0 },
    { "on-lost", 0, OPT_TEXT, "ACTION",
      "if the lock is lost or about to end: kill the command (the default), warn, or "
      "exec:COMMAND",
      0, 0 },
    { "on-revoke", 0, OPT_TEXT, "ACTION",
      "when another client asks for the lock: ignore (the default), or term (SIGTERM)",
      0, 0 },
    { "grace", 0, OPT_DURATION, "DURATION",
      "time from SIGTERM to SIGKILL, within the last third of the lease; default 2s", 0,
      0 },
    { "command", 'c', OPT_TEXT, "STRING", "run STRING with sh -c", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

/* ---- Wants ----------------------------------------------------------------------- */

/* "2/8" or "key/8": cuts the text at the last slash; returns the number behind it. */
static int split(struct args *args, const char *option, char *text,
                 uint32_t *ret_number)
{
    char *slash = strrchr(text, '/'), *end = NULL;
    unsigned long number;

    errno = 0;
    number =
        slash && slash[1] >= '0' && slash[1] <= '9' ? strtoul(slash + 1, &end, 10) : 0;
    if (!slash || slash == text || !end || *end || errno || number < 1 ||
        number > UINT32_MAX)
        return cli_usage(args, "--%s: \"%s\" is not %s", option, text,
                         strcmp(option, "permits") == 0 ? "K/N, as in 1/4"
                                                        : "KEY/N, as in user42/16");
    *slash = '\0';
    *ret_number = (uint32_t)number;
    return 0;
}

static int want_permits(struct args *args, hf_want *want)
{
    char text[64];
    char *end;
    unsigned long permits;
    int rc;

    snprintf(text, sizeof text, "%s", args_get(args, "permits")->text);
    rc = split(args, "permits", text, &want->limit);
    if (rc != 0)
        return rc;
    permits = strtoul(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && permits > want->limit)
        return cli_usage(
            args,
            "--permits: \"%s\" asks for more permits than the semaphore has (K/N: K "
            "permits of N)",
            args_get(args, "permits")->text);
    if (text[0] < '0' || text[0] > '9' || *end || permits < 1)
        return cli_usage(args, "--permits: \"%s\" is not K/N, as in 1/4",
                         args_get(args, "permits")->text);
    want->permits = (uint32_t)permits;
    want->kind = HF_PERMITS;
    return 0;
}

static int want_stripe(struct args *args, hf_want *want)
{
    char *key = strdup(args_get(args, "stripe")->text);
    int rc;

    if (!key)
        return EXIT_INTERNAL;
    rc = split(args, "stripe", key, &want->stripes);
    want->stripe_key = key;
    return rc;
}

static int want_make(struct args *args, const char *name, hf_want *want)
{
    static const struct {
        const char *option;
        int kind;
    } kinds[] = { { "shared", HF_READ },     { "exclusive", HF_WRITE },
                  { "fair", HF_FAIR },       { "reentrant", HF_REENTRANT },
                  { "permits", HF_PERMITS }, { "stripe", HF_MUTEX } };
    const char *chosen = NULL;

    *want = hf_mutex(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!args_get(args, kinds[i].option)->given)
            continue;
        if (chosen)
            return cli_usage(args, "--%s and --%s exclude each other", chosen,
                             kinds[i].option);
        chosen = kinds[i].option;
        want->kind = kinds[i].kind;
    }
    if (want->kind == HF_PERMITS)
        return want_permits(args, want);
    if (chosen && strcmp(chosen, "stripe") == 0)
        return want_stripe(args, want);
    return 0;
}

static int wants_make(struct run *run)
{
    struct args *args = run->args;
    size_t size = 1;
    int rc = 0;

    if (args_count(args) > RUN_NAMES_MAX)
        return cli_usage(args, "at most %d names can be given", RUN_NAMES_MAX);
    for (size_t i = 0; i < args_count(args) && rc == 0; i++) {
        size += strlen(args_operand(args, i)) + 1;
        rc = want_make(args, args_operand(args, i), &run->wants[run->count++]);
    }
    run->names = calloc(1, size);
    if (!run->names)
        return EXIT_INTERNAL;
    for (size_t i = 0, used = 0; i < args_count(args); i++)
        used += (size_t)snprintf(run->names + used, size - used, "%s%s", i ? " " : "",
                                 args_operand(args, i));
    return rc;
}

/* ---- Other options --------------------------------------------------------------- */

static int parse_on_lost(struct run *run)
{
    const char *text = args_get(run->args, "on-lost")->text;

    if (!text || strcmp(text, "kill") == 0)
        return 0;
    if (strcmp(text, "warn") == 0) {
        run->on_lost = LOST_WARN;
        return 0;
    }
    if (strncmp(text, "exec:", 5) == 0 && text[5]) {
        run->on_lost = LOST_EXEC;
        run->on_lost_command = text + 5;
        return 0;
    }
    return cli_usage(run->args, "--on-lost: \"%s\" is not kill, warn or exec:COMMAND",
                     text);
}

static int parse_on_revoke(struct run *run)
{
    const char *text = args_get(run->args, "on-revoke")->text;

    if (!text || strcmp(text, "ignore") == 0)
        return 0;
    run->revoke_ends = strcmp(text, "term") == 0;
    return run->revoke_ends
               ? 0
               : cli_usage(run->args, "--on-revoke: \"%s\" is not ignore or term",
                           text);
}

static int parse_command(struct run *run)
{
    static char shell[] = "/bin/sh", flag[] = "-c";
    static char *line[] = { shell, flag, NULL, NULL };
    const char *text = args_get(run->args, "command")->text;
    char **rest = args_command(run->args);

    if (text && rest && rest[0])
        return cli_usage(run->args, "--command and a command after \"--\" exclude each "
                                    "other");
    if (text) {
        line[2] = strdup(text);
        run->command = line;
        return line[2] ? 0 : EXIT_INTERNAL;
    }
    if (!rest && args_count(run->args) > 1)
        return cli_usage(run->args,
                         "\"--\" is missing before the command: holdfast run %s -- %s",
                         args_operand(run->args, 0), args_operand(run->args, 1));
    if (!rest || !rest[0])
        return cli_usage(run->args, "the command is missing: holdfast run NAME -- "
                                    "COMMAND");
    run->command = rest;
    return 0;
}

static int parse_times(struct run *run)
{
    struct args *args = run->args;
    const struct value *wait = args_get(args, "wait");
    const struct value *grace = args_get(args, "grace");
    bool fixed = args_get(args, "no-renew")->flag;

    if (args_get(args, "nonblock")->flag && wait->given && wait->ms != 0)
        return cli_usage(args, "--nonblock and --wait exclude each other");
    run->acquire.timeout_ms = wait->given ? wait->ms : HF_FOREVER;
    if (args_get(args, "nonblock")->flag)
        run->acquire.timeout_ms = 0;
    run->acquire.ttl_ms = args_get(args, "ttl")->ms;
    if (args_get(args, "ttl")->given && run->acquire.ttl_ms == 0)
        return cli_usage(args, "--ttl must be longer than 0");
    run->acquire.max_hold_ms = args_get(args, "max-hold")->ms;
    if (args_get(args, "max-hold")->given && run->acquire.max_hold_ms == 0)
        return cli_usage(args, "--max-hold must be longer than 0");
    run->acquire.note = args_get(args, "note")->text;
    run->acquire.flags = fixed ? HF_FIXED : 0;
    run->grace_ms = grace->given ? grace->ms : GRACE_MS;
    return 0;
}

static int run_parse(struct run *run)
{
    int rc = parse_times(run);

    rc = rc ? rc : parse_on_lost(run);
    rc = rc ? rc : parse_on_revoke(run);
    rc = rc ? rc : parse_command(run);
    return rc ? rc : wants_make(run);
}

/* ---- Running --------------------------------------------------------------------- */

int run_not_acquired(struct run *run, const hf_error *why)
{
    const struct value *code = args_get(run->args, "conflict-exit-code");
    bool conflict = why->code == HF_EBUSY || why->code == HF_ETIMEOUT;
    int result = conflict && code->given ? (int)code->number : cli_exit_of(why->code);

    if (conflict && (args_get(run->args, "quiet")->flag || result == EXIT_DONE))
        return result; /* with -E 0 that is no failure: cron would mail the message */
    if (conflict)
        return cli_fail_held(run->args, run->client, run->names, run->wants, run->count,
                             why, result);
    cli_fail(run->args, run->names, why);
    return result;
}

/* The terminal's Ctrl-C ended the command. Without holdfast it would have reached this
 * process group as well: a script that runs holdfast has to end, too. */
static void die_with_group(int signal)
{
    struct rlimit no_core = { 0, 0 };
    sigset_t set;

    fflush(NULL);
    setrlimit(RLIMIT_CORE, &no_core);
    sigemptyset(&set);
    sigaddset(&set, signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(0, signal);
}

static const char *program_of(const struct run *run)
{
    const char *first = run->command ? run->command[0] : "holdfast";
    const char *slash = strrchr(first, '/');

    return slash && slash[1] ? slash + 1 : first;
}

/* Enclosing runs hold all the names, and their wardens kill this command, too: run it
 * in place of holdfast. */
static int run_without_lock(struct run *run)
{
    run_export(run);
    hf_close(run->client);
    execvp(run->command[0], run->command);
    return exec_failed(run, errno);
}

static int run_under_lock(struct run *run, int *ret_signal)
{
    hf_options client = HF_OPTIONS_INIT;
    struct signals signals;
    int code = EXIT_INTERNAL;

    client.driver = HF_DRIVER_USER;
    client.program = program_of(run);
    run->client = cli_open(run->args, &client, &code);
    if (!run->client)
        return code;
    code = run_reuse_outer(run);
    if (code != 0)
        goto out;
    if (run->count == 0)
        return run_without_lock(run);
    if (signals_begin(&signals) != 0) {
        cli_say("run: %s", strerror(errno));
        code = EXIT_INTERNAL;
        goto out;
    }
    code = run_acquire(run, &signals);
    if (!run->hold)
        goto out;
    run_export(run);
    code = run_supervise(run, &signals, ret_signal);
    code = run_release(run, &signals, code);
    warden_done(&run->warden);
out:
    if (run->given_up || !run->client) /* closing would wait for the store once more */
        return code;
    return cli_close(run->client, code);
}

static int run_run(struct args *args)
{
    struct run run = { .args = args,
                       .acquire = HF_ACQUIRE_OPTIONS_INIT,
                       .warden = { .fd = -1 } };
    int signal = 0, code = run_parse(&run);

    if (code == 0)
        code = run_under_lock(&run, &signal);
    for (size_t i = 0; i < run.count; i++)
        free((char *)run.wants[i].stripe_key);
    free(run.names);
    if (signal)
        die_with_group(signal);
    if (run.given_up)
        _exit(code);
    return code;
}

static const char *const examples[] = {
    "holdfast run jobs/nightly -- ./backup.sh",
    "one backup at a time; further ones wait",
    "holdfast run -n -E 0 jobs/nightly -- ./backup.sh",
    "for cron: skip this backup, without an error, while the previous one still runs",
    "holdfast run --wait 30s --permits 1/4 licences/cad -- render scene.blend",
    "at most four at a time, counted over all hosts",
    "holdfast run --ttl 10s --note 'release 42' deploy/web deploy/db -- ./deploy.sh",
    "both locks or none, with a short lease",
    "holdfast run --url 'file:/var/lock?layout=flock' backup.lock -- ./backup.sh",
    "excludes `flock /var/lock/backup.lock`, too",
    NULL,
};

const struct command cmd_run = {
    .name = "run",
    .operands = "NAME... -- COMMAND [ARGUMENT...]",
    .summary = "run a command while holding a lock",
    .group = "run",
    .about =
        "Waits for the lock, runs the command, releases the lock and exits with the "
        "command's exit code. Several names are acquired all or none, in an order that "
        "cannot deadlock.\n\n"
        "If the lease cannot be renewed in time, the command and every process that it "
        "started get SIGTERM and then SIGKILL, all before another client can get the "
        "lock. If the store reports that the lock is already lost (another client "
        "evicted the holder, or the store lost its data), they get SIGKILL as soon as "
        "`holdfast` learns of it.\n\n"
        "With --reentrant: if an enclosing `holdfast run` already holds NAME "
        "exclusively, that lock is reused. The command gets the token of that lock and "
        "is killed when that lock is lost. --ttl, --max-hold and the other options of "
        "the hold are those of the enclosing run. The enclosing command must wait for "
        "this one: a `run --reentrant` that it leaves in the background continues "
        "without a lock.",
    .examples = examples,
    .options = options,
    .run = run_run,
    .min_operands = 1,
    .max_operands = -1,
    .takes_command = true,
};
