/* SPDX-License-Identifier: MIT */
/*
 * The program that exists to be killed.
 *
 *   taker URL [handoff=N]
 *
 * opens the store, says "ready" and obeys lines on standard input, each with one line
 * of answer, until the input ends; it then leaves without closing anything, as a
 * program does that forgot to. It keeps one hold. FORM is a form of the harness; times
 * are milliseconds, -1 is forever.
 *
 *   take FORM NAME TIMEOUT TTL FLAGS    held TOKEN | failed CODE
 *   begin FORM NAME TIMEOUT TTL FLAGS   begun; later held or failed, as above
 *   adopt ID TTL FLAGS                  held TOKEN | failed CODE
 *   work FORM NAME ROUNDS PATH          worked: visits the guarded thing at PATH
 *   release | leave | verify            done | failed CODE
 *   state | id | write PATH             state N | id TEXT | written or refused
 *   down NAME BY | await NAME TIMEOUT   done | failed CODE
 *   get NAME                            value VERSION TEXT | failed CODE
 *   close | exit                        closed; exit answers nothing
 *
 * Commands run on the main thread, the callback of `begin` on the library's. It dies
 * with its parent.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "harness.h"

struct program {
    hf_client *client;
    _Atomic(hf_hold *) hold;
};

struct command {
    const char *word;
    void (*run)(struct program *program, const char *rest);
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char line[HF_ID_MAX + 64];
    va_list list;
    va_start(list, format);
    int len = vsnprintf(line, sizeof line - 1, format, list);
    va_end(list);
    CHECK(len > 0 && (size_t)len < sizeof line - 1);
    line[len++] = '\n';
    CHECK_EQ(write(STDOUT_FILENO, line, (size_t)len), len);
}

static void say_rc(int rc)
{
    if (rc == 0)
        say("done");
    else
        say("failed %s", hf_error_name(rc));
}

static void say_hold(struct program *program, int rc, hf_hold *hold)
{
    atomic_store(&program->hold, rc == 0 ? hold : NULL);
    if (rc == 0)
        say("held %" PRIu64, hf_hold_token(hold, 0));
    else
        say("failed %s", hf_error_name(rc));
}

/* ---- Taking ---------------------------------------------------------------------- */

static void parse_take(const char *rest, struct wants *wants,
                       hf_acquire_options *options)
{
    char form[32];
    char name[256];
    CHECK_EQ(sscanf(rest, "%31s %255s %" SCNd64 " %" SCNd64 " %" SCNu32, form, name,
                    &options->timeout_ms, &options->ttl_ms, &options->flags),
             5);
    CHECK(form_find(form) != NULL);
    form_wants(form_find(form), wants, name, false);
    options->note = "taker";
}

static void run_take(struct program *program, const char *rest)
{
    hf_hold *hold = NULL;
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    parse_take(rest, &wants, &options);
    int rc =
        hf_acquire(program->client, wants.want, wants.count, &options, &hold, NULL);
    say_hold(program, rc, hold);
}

static void begin_ended(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    (void)why;
    say_hold(user, rc, hold);
}

/* "begun" is said first: the answer may come before hf_acquire_async() returns. */
static void run_begin(struct program *program, const char *rest)
{
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    parse_take(rest, &wants, &options);
    say("begun");
    CHECK_RC(hf_acquire_async(program->client, wants.want, wants.count, &options,
                              begin_ended, program, NULL, NULL),
             0);
}

static void run_adopt(struct program *program, const char *rest)
{
    hf_hold *hold = NULL;
    char id[HF_ID_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    _Static_assert(HF_ID_MAX == 1200, "width in the format below");
    CHECK_EQ(sscanf(rest, "%1199s %" SCNd64 " %" SCNu32, id, &options.ttl_ms,
                    &options.flags),
             3);
    int rc = hf_adopt(program->client, id, &options, &hold, NULL);
    say_hold(program, rc, hold);
}

static void run_work(struct program *program, const char *rest)
{
    char form[32];
    char name[256];
    char path[256];
    unsigned rounds = 0;
    struct wants wants;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    CHECK_EQ(sscanf(rest, "%31s %255s %u %255s", form, name, &rounds, path), 4);
    options.ttl_ms = form_find(form)->ttl_ms;
    form_wants(form_find(form), &wants, name, false);

    struct guarded *guarded = guarded_map(path);
    for (unsigned i = 0; i < rounds; i++) {
        hf_hold *hold = NULL;
        CHECK_RC(
            hf_acquire(program->client, wants.want, wants.count, &options, &hold, NULL),
            0);
        guarded_visit(guarded, hf_hold_token(hold, 0));
        CHECK_RC(hf_release(hold, NULL), 0);
    }
    guarded_unmap(guarded);
    say("worked");
}

/* ---- The hold -------------------------------------------------------------------- */

static void run_release(struct program *program, const char *rest)
{
    (void)rest;
    say_rc(hf_release(atomic_exchange(&program->hold, NULL), NULL));
}

static void run_leave(struct program *program, const char *rest)
{
    (void)rest;
    say_rc(hf_hold_leave(atomic_exchange(&program->hold, NULL), NULL));
}

static void run_verify(struct program *program, const char *rest)
{
    (void)rest;
    say_rc(hf_hold_verify(atomic_load(&program->hold), NULL));
}

static void run_state(struct program *program, const char *rest)
{
    (void)rest;
    say("state %d", (int)hf_hold_state(atomic_load(&program->hold)));
}

static void run_id(struct program *program, const char *rest)
{
    (void)rest;
    char id[HF_ID_MAX];
    CHECK_RC(hf_hold_id(atomic_load(&program->hold), 0, id, sizeof id, NULL), 0);
    say("id %s", id);
}

static void run_write(struct program *program, const char *rest)
{
    struct guarded *guarded = guarded_map(rest);
    bool done = guarded_write(guarded, hf_hold_token(atomic_load(&program->hold), 0));
    guarded_unmap(guarded);
    say(done ? "written" : "refused");
}

/* ---- Latch and cell -------------------------------------------------------------- */

static void run_down(struct program *program, const char *rest)
{
    char name[256];
    uint32_t by = 0;
    CHECK_EQ(sscanf(rest, "%255s %" SCNu32, name, &by), 2);
    say_rc(hf_latch_count_down(program->client, name, by, NULL, NULL));
}

static void run_await(struct program *program, const char *rest)
{
    char name[256];
    int64_t timeout = 0;
    CHECK_EQ(sscanf(rest, "%255s %" SCNd64, name, &timeout), 2);
    say_rc(hf_latch_wait(program->client, name, timeout, NULL));
}

static void run_get(struct program *program, const char *rest)
{
    void *data = NULL;
    size_t len = 0;
    uint64_t version = 0;
    int rc = hf_cell_get(program->client, rest, &data, &len, &version, NULL);
    if (rc == 0)
        say("value %" PRIu64 " %.100s", version, (const char *)data);
    else
        say_rc(rc);
    hf_free(data);
}

/* ---- The end --------------------------------------------------------------------- */

static void run_close(struct program *program, const char *rest)
{
    (void)rest;
    hf_close(program->client);
    program->client = NULL;
    say("closed");
}

static void run_exit(struct program *program, const char *rest)
{
    (void)program;
    (void)rest;
    _exit(0);
}

static const struct command commands[] = {
    { "take", run_take },   { "begin", run_begin },     { "adopt", run_adopt },
    { "work", run_work },   { "release", run_release }, { "leave", run_leave },
    { "state", run_state }, { "verify", run_verify },   { "id", run_id },
    { "write", run_write }, { "down", run_down },       { "await", run_await },
    { "get", run_get },     { "close", run_close },     { "exit", run_exit },
};

static void obey(struct program *program, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *rest = line + strcspn(line, " ");
    if (*rest)
        *rest++ = '\0';
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].word, line) == 0) {
            commands[i].run(program, rest);
            return;
        }
    check_failed(__FILE__, __LINE__, "taker knows no '%s'", line);
}

int main(int argc, char **argv)
{
    struct program program = { NULL, NULL };
    hf_options options = HF_OPTIONS_INIT;
    hf_error why = { 0 };
    char line[HF_ID_MAX + 128];
    const char *clock = getenv("HOLDFAST_TEST_CLOCK");

    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    CHECK(argc >= 2);
    if (argc > 2)
        CHECK_EQ(sscanf(argv[2], "handoff=%d", &options.handoff), 1);
    if (clock)
        CHECK_EQ(hf__clock_shift_open(clock), 0);
    options.program = "taker";
    options.confirm_timeout_ms = 15000; /* scenarios are rarely about that */
    stores_register(argv[1]);
    if (hf_open(argv[1], &options, &program.client, &why) != 0)
        check_failed(__FILE__, __LINE__, "hf_open: %s", why.text);
    say("ready");
    while (fgets(line, sizeof line, stdin))
        obey(&program, line);
    _exit(0);
}
