/* SPDX-License-Identifier: MIT */
/*
 * `holdfast ls` and `holdfast show`: holders and waiters. Both print the JSON that
 * view.c describes. Other users choose names, notes and programs; table.c and json.c
 * escape them.
 */
#include "commands.h"
#include "view.h"

static void print_json(struct args *args, const struct view *view)
{
    struct json *json = json_document(args, NULL);

    view_json(json, view);
    json_end(json);
}

/* ---- ls -------------------------------------------------------------------------- */

static void print_locks(const struct view *view)
{
    static const char *const heads[] = { "NAME",    "KIND",     "HELD BY", "HELD FOR",
                                         "WAITERS", "MAX WAIT", NULL };
    struct table *table = table_new(heads);
    char text[512];

    for (size_t i = 0; i < view->lock_count; i++) {
        const struct lock *lock = &view->locks[i];

        table_cell(table, "%s", lock->name);
        table_cell(table, "%s", lock_kind_name(lock));
        lock_describe(lock, text, sizeof text);
        table_cell(table, "%s", text);
        cell_duration(oldest_ms(lock->holders, lock->holder_count), "-", text,
                      sizeof text);
        table_cell(table, "%s", text);
        table_cell(table, "%zu", lock->waiter_count);
        cell_duration(oldest_ms(lock->waiters, lock->waiter_count), "-", text,
                      sizeof text);
        table_cell(table, "%s", text);
    }
    table_print(table, stdout);
    table_free(table);
}

static int run_ls(struct args *args)
{
    const char *prefix = args_operand(args, 0) ? args_operand(args, 0) : "";
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    struct view view;
    hf_error why;

    if (!client)
        return code;
    if (view_take(client, prefix, true, &view, &why) != 0) {
        code = cli_fail(args, *prefix ? prefix : NULL, &why);
        goto out;
    }
    if (args_get(args, "json")->flag)
        print_json(args, &view);
    else
        print_locks(&view);
    view_done(&view);
out:
    hf_close(client);
    return code;
}

static const struct option look_options[] = {
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const ls_examples[] = { "holdfast ls", "all names in use",
                                           "holdfast ls jobs/ --json",
                                           "the names that begin with jobs/, as JSON",
                                           NULL };

const struct command cmd_ls = {
    .name = "ls",
    .operands = "[PREFIX]",
    .summary = "list locks, their holders and the number of waiters",
    .group = "look",
    .about = "Lists the names in use: locks with a holder or a waiter, latches that "
             "are counting, and cells. With PREFIX only names that begin with it. The "
             "list is a snapshot: the locks may change while it is printed.",
    .examples = ls_examples,
    .options = look_options,
    .run = run_ls,
    .min_operands = 0,
    .max_operands = 1,
};

/* ---- show ------------------------------------------------------------------------ */

static void row_add(struct table *table, const hf_entry *entry)
{
    bool holds = entry->role == HF_HOLDER;
    char text[64];

    if (holds)
        table_cell(table, "holder");
    else
        table_cell(table, "waiter, %u ahead", entry->place);
    if (entry->kind == HF_PERMITS)
        table_cell(table, "%s %u/%u", kind_name(entry->kind), entry->permits,
                   entry->limit);
    else
        table_cell(table, "%s", kind_name(entry->kind));
    table_cell(table, "%s", entry->host[0] ? entry->host : "-");
    if (entry->pid > 0)
        table_cell(table, "%lld", (long long)entry->pid);
    else
        table_cell(table, "-");
    table_cell(table, "%s", entry->program[0] ? entry->program : "-");
    cell_duration(entry->since_ms, "-", text, sizeof text);
    table_cell(table, "%s", text);
    if (holds)
        table_cell(table, "%llu", (unsigned long long)entry->token);
    else
        table_cell(table, "-");
    cell_duration(holds ? entry->left_ms : -1, "-", text, sizeof text);
    table_cell(table, "%s", text);
    table_cell(table, "%s", entry->note[0] ? entry->note : "-");
}

static void print_people(const struct lock *lock)
{
    static const char *const heads[] = { "ROLE",    "KIND", "HOST",  "PID",
                                         "PROGRAM", "FOR",  "TOKEN", "LEASE LEFT",
                                         "NOTE",    NULL };
    struct table *table = table_new(heads);

    for (size_t i = 0; i < lock->holder_count; i++)
        row_add(table, lock->holders[i]);
    for (size_t i = 0; i < lock->waiter_count; i++)
        row_add(table, lock->waiters[i]);
    table_print(table, stdout);
    table_free(table);
}

static void print_lock(const struct lock *lock)
{
    uint32_t available;

    if (lock->object && lock->kind == HF_LATCH)
        printf("latch: %u left\n", lock->object->permits);
    else if (lock->object)
        printf("cell: version %llu\n", (unsigned long long)lock->object->token);
    if (lock_available(lock, &available))
        printf("semaphore: %u of %u permits free\n", available, lock_limit(lock));
    if (lock->holder_count || lock->waiter_count)
        print_people(lock);
}

static int run_show(struct args *args)
{
    const char *name = args_operand(args, 0);
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    struct view view;
    hf_error why;

    if (!client)
        return code;
    if (view_take(client, name, false, &view, &why) != 0) {
        code = cli_fail(args, name, &why);
        goto out;
    }
    if (args_get(args, "json")->flag)
        print_json(args, &view);
    else if (view.lock_count == 0)
        puts("free: no holder, no waiter");
    else
        print_lock(&view.locks[0]);
    view_done(&view);
out:
    hf_close(client);
    return code;
}

static const char *const show_examples[] = {
    "holdfast show jobs/nightly", "its holders with their tokens, and its waiters",
    "holdfast show jobs/nightly --json | jq '.locks[0].holders[0].token'",
    "the token of the holder, for break or revoke", NULL
};

const struct command cmd_show = {
    .name = "show",
    .operands = "NAME",
    .summary = "show the holders and the waiters of a lock",
    .group = "look",
    .about = "Shows each holder and each waiter of NAME: host, process, program, how "
             "long it has held or waited, token, remaining lease, and note. A lock "
             "without a lease is held until its holder releases it or ends.",
    .examples = show_examples,
    .options = look_options,
    .run = run_show,
    .min_operands = 1,
    .max_operands = 1,
};
