/* SPDX-License-Identifier: MIT */
/*
 * `holdfast break` and `holdfast revoke`: evicting a holder, and asking holders to
 * release.
 *
 * Both name a holder by its token, so that a lock that has changed hands since the user
 * looked is not taken from the wrong holder. break requires the token.
 */
#include "commands.h"
#include "view.h"

#define WHERE "`holdfast show NAME` shows the token of each holder"

/* With -v, prints the holders that are evicted or asked. */
static void verbose_holders(struct args *args, hf_client *client, const char *name,
                            uint64_t token, const char *what)
{
    struct view view;
    char who[400];

    if (!args_get(args, "verbose")->flag ||
        view_take(client, name, false, &view, NULL) != 0)
        return;
    for (size_t i = 0; view.lock_count && i < view.locks[0].holder_count; i++) {
        const hf_entry *holder = view.locks[0].holders[i];

        if (token && holder->token != token)
            continue;
        entry_describe(holder, who, sizeof who);
        cli_verbose(args, "%s: %s %s, token %llu", name, what, who,
                    (unsigned long long)holder->token);
    }
    view_done(&view);
}

static int fail_holder(struct args *args, const char *command, const char *name,
                       uint64_t token, const hf_error *why)
{
    if (why->code != HF_ENOENT)
        return cli_fail(args, name, why);
    if (token)
        cli_say("%s: %s: no holder has token %llu (see holdfast show)", command, name,
                (unsigned long long)token);
    else
        cli_say("%s: %s: the lock has no holder", command, name);
    return EXIT_BUSY;
}

static int run_break(struct args *args)
{
    const char *name = args_operand(args, 0);
    const struct value *token = args_get(args, "token");
    int code = EXIT_DONE;
    hf_client *client;
    hf_error why;

    if (!token->given)
        return cli_usage(args, "--token is required, so that no other holder is "
                               "evicted: " WHERE);
    client = cli_open(args, NULL, &code);
    if (!client)
        return code;
    verbose_holders(args, client, name, token->number, "evicting");
    if (hf_evict(client, name, token->number, &why) != 0)
        code = fail_holder(args, "break", name, token->number, &why);
    hf_close(client);
    return code;
}

static const struct option break_options[] = {
    { "token", 't', OPT_NUMBER, "TOKEN", "the holder's token (required): " WHERE, 1,
      0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const break_examples[] = { "holdfast break jobs/nightly --token 17",
                                              "evict the holder with token 17", NULL };

const struct command cmd_break = {
    .name = "break",
    .operands = "NAME",
    .summary = "evict a holder: take the lock away from it",
    .group = "repair",
    .about =
        "Evicts the holder of NAME with exactly this token, and the next waiter is "
        "granted the lock. The evicted client is notified, and `holdfast run` kills "
        "its command; but a program that ignores the notice continues as if it held "
        "the lock. Make sure that the program has ended, or that the resource it "
        "writes to checks tokens; otherwise try `holdfast revoke` first, which only "
        "asks.",
    .examples = break_examples,
    .options = break_options,
    .run = run_break,
    .min_operands = 1,
    .max_operands = 1,
};

static int run_revoke(struct args *args)
{
    const char *name = args_operand(args, 0);
    uint64_t token = args_get(args, "token")->number;
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    hf_error why;

    if (!client)
        return code;
    verbose_holders(args, client, name, token, "asking");
    if (hf_revoke(client, name, token, &why) != 0)
        code = fail_holder(args, "revoke", name, token, &why);
    hf_close(client);
    return code;
}

static const struct option revoke_options[] = {
    { "token", 't', OPT_NUMBER, "TOKEN",
      "ask this holder only; default: all holders. " WHERE, 1, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const revoke_examples[] = { "holdfast revoke jobs/nightly",
                                               "ask its holders to release it", NULL };

const struct command cmd_revoke = {
    .name = "revoke",
    .operands = "NAME",
    .summary = "ask the holders of a lock to release it",
    .group = "repair",
    .about = "Notifies the holders of NAME that another client wants the lock. Each "
             "holder decides what to do; nothing is taken away. `holdfast run "
             "--on-revoke=term` sends SIGTERM to its command.",
    .examples = revoke_examples,
    .options = revoke_options,
    .run = run_revoke,
    .min_operands = 1,
    .max_operands = 1,
};
