/* SPDX-License-Identifier: MIT */
/*
 * `holdfast break` and `holdfast revoke`: taking a lock away, and asking for it.
 *
 * Both name a holder by its token, so that a lock that has changed hands since somebody
 * looked is not taken from the wrong one. break insists on it.
 */
#include "commands.h"
#include "view.h"

#define WHERE "`holdfast show NAME` shows the token of each holder"

/* Says with -v whom it hit. */
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
        cli_say("%s: %s: nobody holds it with token %llu (see holdfast show)", command,
                name, (unsigned long long)token);
    else
        cli_say("%s: %s: nobody holds it", command, name);
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
        return cli_usage(args, "--token is needed, so that nobody else is hit: " WHERE);
    client = cli_open(args, NULL, &code);
    if (!client)
        return code;
    verbose_holders(args, client, name, token->number, "taking it away from");
    if (hf_evict(client, name, token->number, &why) != 0)
        code = fail_holder(args, "break", name, token->number, &why);
    hf_close(client);
    return code;
}

static const struct option break_options[] = {
    { "token", 't', OPT_NUMBER, "TOKEN", "the holder's token (needed): " WHERE, 1, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const break_examples[] = {
    "holdfast break jobs/nightly --token 17",
    "take it away from the holder with token 17", NULL
};

const struct command cmd_break = {
    .name = "break",
    .operands = "NAME",
    .summary = "take a lock away from its holder",
    .group = "repair",
    .about =
        "Takes the lock NAME away from the holder with exactly this token, and lets "
        "the next one in. The holder is told, and `holdfast run` ends its command; but "
        "a program that does not listen goes on as if it held the lock. Make sure that "
        "it is gone, or that what it writes to checks tokens; else try `holdfast "
        "revoke` first, which asks.",
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
      "ask this holder only; default: all of them. " WHERE, 1, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const revoke_examples[] = { "holdfast revoke jobs/nightly",
                                               "ask whoever holds it to let go", NULL };

const struct command cmd_revoke = {
    .name = "revoke",
    .operands = "NAME",
    .summary = "ask the holders of a lock to let go",
    .group = "repair",
    .about = "Tells the holders of NAME that somebody wants it. What they make of it "
             "is up to them: nothing is taken away.",
    .examples = revoke_examples,
    .options = revoke_options,
    .run = run_revoke,
    .min_operands = 1,
    .max_operands = 1,
};
