/* SPDX-License-Identifier: MIT */
/*
 * `holdfast acquire`, `release` and `extend`: a lock that a script holds from one call
 * of the command to another.
 *
 * The hold is detached: it belongs to no process and ends with its lease. acquire
 * prints its id, by which the other two adopt it. Adoption makes an id invalid, so
 * extend prints a new one. No process renews the lease.
 *
 * A hold whose id could not be printed is released: no caller could release it later.
 */
#include "commands.h"
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Wants ----------------------------------------------------------------------- */

/* "2/10": two numbers, each at least 1. */
static bool read_fraction(const char *text, uint32_t *ret_part, uint32_t *ret_whole)
{
    unsigned long part, whole;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    part = strtoul(text, &end, 10);
    if (*end != '/' || end[1] < '0' || end[1] > '9')
        return false;
    whole = strtoul(end + 1, &end, 10);
    if (*end || part < 1 || whole < 1 || part > UINT32_MAX || whole > UINT32_MAX)
        return false;
    *ret_part = (uint32_t)part;
    *ret_whole = (uint32_t)whole;
    return true;
}

static int want_permits(struct args *args, const char *name, hf_want *ret_want)
{
    const char *text = args_get(args, "permits")->text;
    uint32_t permits, limit;

    if (!read_fraction(text, &permits, &limit))
        return cli_usage(args, "--permits: \"%s\" is not K/N with 1 <= K <= N", text);
    if (permits > limit)
        return cli_usage(args,
                         "--permits: \"%s\" asks for more permits than the semaphore "
                         "has (K/N: K permits of N)",
                         text);
    *ret_want = hf_permits(name, permits, limit);
    return 0;
}

/* The last slash separates: the key may contain others. */
static int want_stripe(struct args *args, const char *name, hf_want *ret_want)
{
    const char *text = args_get(args, "stripe")->text;
    const char *slash = strrchr(text, '/');
    unsigned long stripes = 0;
    static char key[HF_NAME_MAX + 1];
    char *end = NULL;

    if (slash && slash[1] >= '0' && slash[1] <= '9')
        stripes = strtoul(slash + 1, &end, 10);
    if (!slash || slash == text || !end || *end || stripes < 1 || stripes > 65536)
        return cli_usage(args, "--stripe: \"%s\" is not KEY/N with N from 1 to 65536",
                         text);
    if ((size_t)(slash - text) >= sizeof key)
        return cli_usage(args, "--stripe: the key is too long");
    snprintf(key, sizeof key, "%.*s", (int)(slash - text), text);
    *ret_want = hf_striped(name, key, (uint32_t)stripes);
    return 0;
}

static int read_want(struct args *args, const char *name, hf_want *ret_want)
{
    static const char *const kinds[] = { "shared",  "exclusive", "fair",
                                         "permits", "expiring",  "stripe" };
    const char *kind = "";

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!args_get(args, kinds[i])->given)
            continue;
        if (*kind)
            return cli_usage(args, "--%s and --%s exclude each other", kind, kinds[i]);
        kind = kinds[i];
    }
    if (strcmp(kind, "permits") == 0)
        return want_permits(args, name, ret_want);
    if (strcmp(kind, "stripe") == 0)
        return want_stripe(args, name, ret_want);
    if (strcmp(kind, "shared") == 0)
        *ret_want = hf_read(name);
    else if (strcmp(kind, "exclusive") == 0)
        *ret_want = hf_write(name);
    else if (strcmp(kind, "fair") == 0)
        *ret_want = hf_fair(name);
    else if (strcmp(kind, "expiring") == 0)
        *ret_want = hf_expiring(name, (uint32_t)args_get(args, "expiring")->number);
    else
        *ret_want = hf_mutex(name);
    return 0;
}

/* ---- Output ---------------------------------------------------------------------- */

/* The text in single quotes, safe for eval. */
static void print_variable(const char *name, const char *text)
{
    printf("%s='", name);
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
    puts("'");
}

static void print_lines(struct args *args, const char *id, uint64_t token)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)token);
    print_variable("HOLDFAST_ID", id);
    print_variable("HOLDFAST_TOKEN", text);
    if (args_get(args, "export")->flag)
        puts("export HOLDFAST_ID HOLDFAST_TOKEN");
}

static void print_json(const char *id, uint64_t token, int64_t ttl_ms)
{
    struct json *json = json_new(stdout);

    json_open(json, NULL, '{');
    json_text(json, "id", id);
    json_token(json, "token", token);
    json_number(json, "lease_ms", ttl_ms);
    json_end(json);
}

/* Prints id and token and leaves the hold; releases it if they cannot be printed. */
static int id_hand_out(struct args *args, const char *what, hf_hold *hold)
{
    char id[HF_ID_MAX];
    hf_error why;

    if (hf_hold_id(hold, 0, id, sizeof id, &why) != 0) {
        hf_release(hold, NULL);
        return cli_fail(args, what, &why);
    }
    if (args_get(args, "json")->flag)
        print_json(id, hf_hold_token(hold, 0), args_get(args, "ttl")->ms);
    else
        print_lines(args, id, hf_hold_token(hold, 0));
    if (fflush(stdout) != 0 || ferror(stdout)) {
        hf_release(hold, NULL);
        cli_say("%s: the id could not be written, so the lock was released", what);
        return EXIT_INTERNAL;
    }
    if (hf_hold_leave(hold, &why) != 0)
        return cli_fail(args, what, &why);
    return EXIT_DONE;
}

/* The calling process as a note: this process itself has ended when others inspect. */
static void default_note(char *buffer, size_t size)
{
    char path[64], program[32] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%ld/comm", (long)getppid());
    file = fopen(path, "re");
    if (file && fgets(program, sizeof program, file))
        program[strcspn(program, "\n")] = '\0';
    if (file)
        fclose(file);
    snprintf(buffer, size, "acquire for pid %ld %s", (long)getppid(), program);
}

/* ---- acquire --------------------------------------------------------------------- */

/* A waiter that dies leaves its ticket in the queue; when that is granted, the lock
 * stays held without a holder for a whole lease. So a signal withdraws the ticket
 * first. */
static int acquire_wait(struct args *args, hf_client *client, const hf_want *want,
                        const hf_acquire_options *options)
{
    struct signals signals;
    struct wait wait = { .client = client, .signals = &signals };
    int code = EXIT_INTERNAL;

    if (signals_begin(&signals) != 0) {
        cli_say("acquire: %s", strerror(errno));
        return cli_close(client, code);
    }
    if (hf_acquire_async(client, want, 1, options, wait_acquired, &wait, &wait.op,
                         &wait.why) == 0)
        wait_finish(&wait);
    if (wait.signal)
        return wait_signalled(&wait);
    if (wait.hold)
        code = id_hand_out(args, want->name, wait.hold);
    else if (wait.why.code == HF_EBUSY || wait.why.code == HF_ETIMEOUT)
        code = cli_fail_held(args, client, want->name, want, 1, &wait.why,
                             cli_exit_of(wait.why.code));
    else
        code = cli_fail(args, want->name, &wait.why);
    return cli_close(client, code);
}

static int run_acquire(struct args *args)
{
    const char *name = args_operand(args, 0);
    const struct value *wait = args_get(args, "wait");
    bool nonblock = args_get(args, "nonblock")->flag;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_options user = HF_OPTIONS_INIT;
    char note[HF_NOTE_MAX + 1];
    hf_client *client;
    hf_want want;
    int code = read_want(args, name, &want);

    if (code != 0)
        return code;
    if (args_get(args, "ttl")->ms <= 0)
        return cli_usage(args, "--ttl is required and must be longer than 0: the lease "
                               "ends a hold that is not released");
    if (nonblock && wait->given && wait->ms != 0)
        return cli_usage(args, "--nonblock and --wait exclude each other");
    options.timeout_ms = nonblock ? 0 : wait->given ? wait->ms : HF_FOREVER;
    options.ttl_ms = args_get(args, "ttl")->ms;
    default_note(note, sizeof note);
    options.note = args_get(args, "note")->given ? args_get(args, "note")->text : note;
    options.flags = HF_DETACHED | HF_FIXED;
    user.driver = HF_DRIVER_USER;
    client = cli_open(args, &user, &code);
    if (!client)
        return code;
    return acquire_wait(args, client, &want, &options);
}

static const struct option acquire_options[] = {
    { "shared", 's', OPT_FLAG, NULL, "read lock: shared with other --shared holders", 0,
      0 },
    { "exclusive", 'x', OPT_FLAG, NULL,
      "write lock: excludes --shared and --exclusive holders", 0, 0 },
    { "fair", 0, OPT_FLAG, NULL, "mutex granted strictly in order of arrival", 0, 0 },
    { "permits", 0, OPT_TEXT, "K/N", "take K of the N permits of a semaphore", 0, 0 },
    { "expiring", 0, OPT_NUMBER, "N", "take one of N permits, each with its own lease",
      1, UINT32_MAX },
    { "stripe", 0, OPT_TEXT, "KEY/N", "hash KEY to one of N sub-locks of NAME", 0, 0 },
    { "ttl", 't', OPT_DURATION, "DURATION",
      "length of the lease (required): the lock ends after it unless it is extended", 0,
      0 },
    { "wait", 'w', OPT_FOREVER, "DURATION",
      "how long to wait for the lock: 10s or 10, 1m30s, 0, or forever (the default)", 0,
      0 },
    { "nonblock", 'n', OPT_FLAG, NULL, "the same as --wait 0", 0, 0 },
    { "note", 0, OPT_TEXT, "TEXT",
      "text about this hold for other users, printed by show and watch; default: the "
      "calling process",
      0, 0 },
    { "export", 0, OPT_FLAG, NULL, "also print a line that exports the variables", 0,
      0 },
    { "json", 0, OPT_FLAG, NULL, "print JSON: id, token, lease_ms", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const acquire_examples[] = {
    "eval \"$(holdfast acquire --export jobs/nightly --ttl 10m)\"",
    "hold the lock for ten minutes; HOLDFAST_ID and HOLDFAST_TOKEN are set",
    "holdfast acquire gpu --permits 1/4 --ttl 1h --wait 0 --json",
    "one of four permits for an hour, if one is free now", NULL
};

const struct command cmd_acquire = {
    .name = "acquire",
    .operands = "NAME",
    .summary = "acquire a lock that stays held after this command has ended",
    .group = "hold",
    .about =
        "Acquires the lock NAME, prints its id and its fencing token as two shell "
        "variables, and exits. The lock stays held until `holdfast release` or until "
        "the lease (--ttl) is over, whichever comes first: no process renews the "
        "lease, and the end of the script does not release the lock. Prefer `holdfast "
        "run` where one command is enough.\n\n"
        "Any process that knows the id can release the lock, so treat the id as a "
        "secret.",
    .examples = acquire_examples,
    .options = acquire_options,
    .run = run_acquire,
    .min_operands = 1,
    .max_operands = 1,
};

/* ---- release, extend ------------------------------------------------------------- */

/* Messages do not name the lock: the id is a secret and contains the name. */
static hf_hold *adopt(struct args *args, hf_client *client, int64_t ttl_ms,
                      int *ret_exit)
{
    const char *given = args_operand(args, 0);
    const char *id = given ? given : getenv("HOLDFAST_ID");
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold = NULL;
    hf_error why;
    int rc;

    options.ttl_ms = ttl_ms;
    options.flags = ttl_ms ? HF_DETACHED | HF_FIXED : 0;
    rc = hf_adopt(client, id, &options, &hold, &why);
    if (rc == 0)
        return hold;
    if (rc != HF_ENOENT) {
        *ret_exit = cli_fail(args, NULL, &why);
        return NULL;
    }
    cli_say("%s: this id no longer holds a lock: the lock was released, expired, "
            "evicted, or extended, which gives a new id",
            ttl_ms ? "extend" : "release");
    *ret_exit = EXIT_LOST;
    return NULL;
}

static int check_id(struct args *args)
{
    const char *given = args_operand(args, 0);
    const char *id = given ? given : getenv("HOLDFAST_ID");

    if (!id || (!given && !*id))
        return cli_usage(args, "the id is missing: give the one that `holdfast "
                               "acquire` printed, or set HOLDFAST_ID");
    if (run_has_id(id))
        return cli_usage(args, "this lock belongs to the enclosing `holdfast run`, "
                               "which releases it when its command has ended");
    return 0;
}

static int run_release(struct args *args)
{
    int code = check_id(args);
    hf_client *client = code == 0 ? cli_open(args, NULL, &code) : NULL;
    hf_hold *hold;
    hf_error why;

    if (!client)
        return code;
    hold = adopt(args, client, 0, &code);
    if (hold && hf_release(hold, &why) != 0)
        code = cli_fail(args, NULL, &why);
    hf_close(client);
    return code;
}

static const struct option release_options[] = {
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const release_examples[] = { "holdfast release \"$HOLDFAST_ID\"",
                                                "release the lock that acquire took",
                                                NULL };

const struct command cmd_release = {
    .name = "release",
    .operands = "[ID]",
    .summary = "release a lock that acquire took",
    .group = "hold",
    .about = "Releases the lock with this ID, or with the one in HOLDFAST_ID. If the "
             "lock is no longer held, the exit code is 78: the work may have "
             "overlapped with that of another client.",
    .examples = release_examples,
    .options = release_options,
    .run = run_release,
    .min_operands = 0,
    .max_operands = 1,
};

static int run_extend(struct args *args)
{
    int64_t ttl_ms = args_get(args, "ttl")->ms;
    int code = check_id(args);
    hf_client *client;
    hf_hold *hold;

    if (code != 0)
        return code;
    if (ttl_ms <= 0)
        return cli_usage(args, "--ttl is required and must be longer than 0: the new "
                               "lease, from now on");
    client = cli_open(args, NULL, &code);
    if (!client)
        return code;
    hold = adopt(args, client, ttl_ms, &code);
    if (hold)
        code = id_hand_out(args, "extend", hold);
    hf_close(client);
    return code;
}

static const struct option extend_options[] = {
    { "ttl", 't', OPT_DURATION, "DURATION", "the new lease, from now on (required)", 0,
      0 },
    { "export", 0, OPT_FLAG, NULL, "also print a line that exports the variables", 0,
      0 },
    { "json", 0, OPT_FLAG, NULL, "print JSON: id, token, lease_ms", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const extend_examples[] = {
    "eval \"$(holdfast extend \"$HOLDFAST_ID\" --ttl 10m)\"",
    "ten more minutes from now; HOLDFAST_ID changes", NULL
};

const struct command cmd_extend = {
    .name = "extend",
    .operands = "[ID]",
    .summary = "set a new lease for a lock that acquire took",
    .group = "hold",
    .about = "Sets the lease of the lock with this ID, or with the one in HOLDFAST_ID, "
             "to --ttl from now. Prints a new id and the token, which does not change. "
             "The old id is no longer valid. If the lock is no longer held, the exit "
             "code is 78.",
    .examples = extend_examples,
    .options = extend_options,
    .run = run_extend,
    .min_operands = 0,
    .max_operands = 1,
};
