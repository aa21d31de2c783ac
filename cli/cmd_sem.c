/* SPDX-License-Identifier: MIT */
/*
 * `holdfast sem show`: how many permits of a semaphore are free. The JSON:
 *
 *   {"url": ..., "name": ..., "limit": 4, "available": 1, "holders": [...],
 *    "waiters": [...]}
 *
 * limit and available are null if the semaphore has neither holder nor waiter.
 */
#include "commands.h"
#include "view.h"

static void sem_json(struct args *args, const struct lock *lock)
{
    static const struct lock unused;
    struct json *json = json_document(args, args_operand(args, 0));
    uint32_t available;

    if (lock && lock_available(lock, &available)) {
        json_number(json, "limit", lock_limit(lock));
        json_number(json, "available", available);
    } else {
        json_null(json, "limit");
        json_null(json, "available");
    }
    if (!lock)
        lock = &unused;
    entries_json(json, "holders", lock->holders, lock->holder_count);
    entries_json(json, "waiters", lock->waiters, lock->waiter_count);
    json_end(json);
}

static void sem_print(const struct lock *lock)
{
    static const char *const heads[] = { "AVAILABLE", "LIMIT", "HOLDERS", "WAITERS",
                                         NULL };
    struct table *table;
    uint32_t available;

    if (!lock || !lock_available(lock, &available)) {
        puts("free: no holder, no waiter");
        return;
    }
    table = table_new(heads);
    table_cell(table, "%u", available);
    table_cell(table, "%u", lock_limit(lock));
    table_cell(table, "%zu", lock->holder_count);
    table_cell(table, "%zu", lock->waiter_count);
    table_print(table, stdout);
    table_free(table);
}

static int run_sem_show(struct args *args)
{
    const char *name = args_operand(args, 0);
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    const struct lock *lock;
    struct view view;
    uint32_t available;
    hf_error why;

    if (!client)
        return code;
    if (view_take(client, name, false, &view, &why) != 0) {
        code = cli_fail(args, name, &why);
        goto out;
    }
    lock = view.lock_count ? &view.locks[0] : NULL;
    if (lock && !lock_available(lock, &available)) {
        why.code = HF_EMISMATCH;
        snprintf(why.text, sizeof why.text,
                 "the name is not a semaphore but of kind %s", lock_kind_name(lock));
        code = cli_fail(args, name, &why);
    } else if (args_get(args, "json")->flag) {
        sem_json(args, lock);
    } else {
        sem_print(lock);
    }
    view_done(&view);
out:
    hf_close(client);
    return code;
}

static const struct option sem_show_options[] = {
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

const struct command cmd_sem_show = {
    .name = "sem show",
    .operands = "NAME",
    .summary = "show how many permits of a semaphore are free",
    .group = "objects",
    .about = "Shows how many permits of the semaphore NAME are free, and how many "
             "there are. The number is the limit that its clients give (--permits "
             "K/N): without a holder or a waiter it is not known. `holdfast show` "
             "lists holders and waiters; `holdfast run` and `holdfast acquire` take "
             "permits.",
    .options = sem_show_options,
    .run = run_sem_show,
    .min_operands = 1,
    .max_operands = 1,
};
