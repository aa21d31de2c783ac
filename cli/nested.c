/* SPDX-License-Identifier: MIT */
/*
 * What a run passes to its command in the environment, and what a run inside that
 * command reads from it (--reentrant).
 *
 * HOLDFAST_NAME and HOLDFAST_TOKEN are of the innermost run. HOLDFAST_RUN_ID has the
 * ids of all runs, which only these runs may release (cmd_hold.c). HOLDFAST_OUTER has
 * the runs that enclose the innermost one, one per line: names, a tab, tokens. None of
 * it is trusted: a name counts as held only if the store shows a holder with that token
 * which is an ancestor process. The warden of that holder kills this process with its
 * command, so its hold can be reused.
 */
#include "run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Enclosing runs -------------------------------------------------------------- */

/* All enclosing runs, innermost first; NULL if there are none. */
static char *outer_runs_read(void)
{
    const char *names = getenv("HOLDFAST_NAME"), *tokens = getenv("HOLDFAST_TOKEN");
    const char *outer = getenv("HOLDFAST_OUTER");
    size_t size;
    char *text;

    if (!names || !tokens)
        return outer ? strdup(outer) : NULL;
    size = strlen(names) + strlen(tokens) + (outer ? strlen(outer) : 0) + 3;
    text = malloc(size);
    if (text)
        snprintf(text, size, "%s\t%s%s%s", names, tokens, outer ? "\n" : "",
                 outer ? outer : "");
    return text;
}

/* Is `word`, which may contain blanks, in a list separated by blanks? */
static bool listed(const char *list, size_t length, const char *word)
{
    size_t size = strlen(word);

    for (size_t at = 0; at + size <= length; at++) {
        if (strncmp(list + at, word, size) == 0 && (at == 0 || list[at - 1] == ' ') &&
            (at + size == length || list[at + size] == ' '))
            return true;
    }
    return false;
}

/* Does one of the lines have the name, with the token on the same line? NULL: any
 * token. */
static bool outer_runs_have(const char *runs, const char *name, const char *token)
{
    for (const char *line = runs; *line; line += strspn(line, "\n")) {
        size_t length = strcspn(line, "\n"), names = strcspn(line, "\t\n");

        if (names < length && listed(line, names, name) &&
            (!token || listed(line + names + 1, length - names - 1, token)))
            return true;
        line += length;
    }
    return false;
}

static bool holds_exclusively(const hf_entry *entry)
{
    return entry->role == HF_HOLDER &&
           (entry->kind == HF_MUTEX || entry->kind == HF_REENTRANT ||
            entry->kind == HF_FAIR || entry->kind == HF_WRITE);
}

/* A holder on this host must be an ancestor. A holder on another host cannot be
 * checked: the user has passed its token on purpose. */
static bool may_be_ancestor(const hf_entry *entry)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    return entry->pid <= 0 || strcmp(entry->host, host) != 0 ||
           tree_is_ancestor((pid_t)entry->pid);
}

/* The token of an exclusive hold of an enclosing run on `name`, or 0. */
static uint64_t outer_hold_find(struct run *run, const char *runs, const char *name)
{
    hf_report *report = NULL;
    uint64_t found = 0;

    if (!outer_runs_have(runs, name, NULL) ||
        hf_inspect(run->client, name, false, &report, NULL) != 0)
        return 0;
    for (size_t i = 0; i < hf_report_count(report) && !found; i++) {
        const hf_entry *entry = hf_report_entry(report, i);
        char token[24];

        snprintf(token, sizeof token, "%" PRIu64, entry->token);
        if (holds_exclusively(entry) && outer_runs_have(runs, name, token) &&
            may_be_ancestor(entry))
            found = entry->token;
    }
    hf_report_free(report);
    if (found)
        cli_verbose(run->args, "%s: held by an enclosing run, token %" PRIu64, name,
                    found);
    return found;
}

int run_reuse_outer(struct run *run)
{
    size_t names = run->count;
    char *runs;

    if (!args_get(run->args, "reentrant")->flag)
        return 0;
    if (!(hf_capabilities(run->client) & HF_CAP_INSPECT)) {
        cli_say("run: %s: --reentrant needs a store that can list holders (%s)",
                run->names, hf_error_name(HF_EUNSUPPORTED));
        return EXIT_REFUSED;
    }
    runs = outer_runs_read();
    if (!runs)
        return 0;
    run->count = 0;
    for (size_t i = 0; i < names; i++) {
        run->outer_tokens[i] = outer_hold_find(run, runs, run->wants[i].name);
        if (!run->outer_tokens[i])
            run->wants[run->count++] = run->wants[i];
    }
    free(runs);
    return 0;
}

/* ---- The environment of the command ---------------------------------------------- */

static void export_outer(void)
{
    char *runs = outer_runs_read();

    if (runs)
        setenv("HOLDFAST_OUTER", runs, 1);
    free(runs);
}

/* One value per name, separated by blanks. */
static void export_tokens(struct run *run)
{
    char text[RUN_NAMES_MAX * 21 + 1];
    size_t used = 0, held = 0;

    for (size_t i = 0; i < args_count(run->args); i++) {
        uint64_t token = run->outer_tokens[i];

        if (!token)
            token = hf_hold_token(run->hold, held++);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64,
                                 i ? " " : "", token);
    }
    setenv("HOLDFAST_TOKEN", text, 1);
}

/* `acquire` may overwrite HOLDFAST_ID. This variable is set by runs only and has the
 * ids of the enclosing runs, too: `release` and `extend` refuse them. */
static void export_run_ids(const char *ids)
{
    const char *outer = getenv("HOLDFAST_RUN_ID");
    size_t size = strlen(ids) + (outer ? strlen(outer) : 0) + 2;
    char *text = malloc(size);

    if (!text)
        return;
    snprintf(text, size, "%s%s%s", ids, outer ? " " : "", outer ? outer : "");
    setenv("HOLDFAST_RUN_ID", text, 1);
    free(text);
}

bool run_has_id(const char *id)
{
    const char *ids = getenv("HOLDFAST_RUN_ID");

    return ids && *id && listed(ids, strlen(ids), id);
}

/* Ids of the holds of this run only: those of enclosing runs are not passed on. */
static void export_ids(struct run *run)
{
    size_t size = run->count * (HF_ID_MAX + 1), used = 0;
    char *text = calloc(1, size);

    if (!text)
        return;
    for (size_t i = 0; i < run->count; i++) {
        if (i)
            text[used++] = ' ';
        if (hf_hold_id(run->hold, i, text + used, size - used, NULL) != 0)
            goto out;
        used += strlen(text + used);
    }
    setenv("HOLDFAST_ID", text, 1);
    export_run_ids(text);
out:
    free(text);
}

/* Unchanged, with the password: a `holdfast` inside the command needs the same store.
 * Only this user can read the environment of the process, while every user can read the
 * command line that the password came from. */
static void export_url(struct run *run)
{
    const char *url = args_url(run->args), *given = getenv("HOLDFAST_URL");

    if (url)
        setenv("HOLDFAST_URL", url, 1);
    else if (!given || !*given)
        setenv("HOLDFAST_URL", "file:", 1);
}

void run_export(struct run *run)
{
    export_outer();
    setenv("HOLDFAST_NAME", run->names, 1);
    export_tokens(run);
    export_url(run);
    unsetenv("HOLDFAST_ID");
    if (run->hold && (hf_capabilities(run->client) & HF_CAP_DETACH))
        export_ids(run);
}
