/* SPDX-License-Identifier: MIT */
/*
 * `holdfast latch`: count-down latches.
 *
 * stdout gets the bare count that is left, fit for $(...). The JSON of latch show:
 *
 *   {"url": ..., "name": ..., "left": 3, "open": false}
 */
#include "commands.h"
#include "view.h"
#include "waiting.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option no_options[] = {
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const struct option json_options[] = {
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

/* A whole number from 1, or 0 after a message. */
static uint32_t read_count(struct args *args, const char *text)
{
    unsigned long count;
    char *end;

    count = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    if (count >= 1 && count <= UINT32_MAX && *end == '\0')
        return (uint32_t)count;
    cli_usage(args, "\"%s\" is not a number from 1 to %u", text, UINT32_MAX);
    return 0;
}

static int run_latch_set(struct args *args)
{
    const char *name = args_operand(args, 0);
    uint32_t count = read_count(args, args_operand(args, 1));
    int code = EXIT_USAGE;
    hf_client *client = count ? cli_open(args, NULL, &code) : NULL;
    hf_error why;

    if (!client)
        return code;
    code = EXIT_DONE;
    if (hf_latch_set(client, name, count, &why) != 0) {
        if (why.code == HF_EBUSY)
            snprintf(why.text, sizeof why.text, "the latch is already counting");
        code = cli_fail(args, name, &why);
    }
    hf_close(client);
    return code;
}

static const char *const latch_set_examples[] = { "holdfast latch set deploy/ready 3",
                                                  "it opens after three counts", NULL };

const struct command cmd_latch_set = {
    .name = "latch set",
    .operands = "NAME COUNT",
    .summary = "set a count-down latch",
    .group = "objects",
    .about = "Sets the latch NAME to COUNT. It opens when it has been counted down to "
             "0. A latch that is counting cannot be set (exit code 1); a latch that "
             "was never set is open.",
    .examples = latch_set_examples,
    .options = no_options,
    .run = run_latch_set,
    .min_operands = 2,
    .max_operands = 2,
};

static int run_latch_down(struct args *args)
{
    const char *name = args_operand(args, 0), *text = args_operand(args, 1);
    uint32_t left, by = text ? read_count(args, text) : 1;
    int code = EXIT_USAGE;
    hf_client *client = by ? cli_open(args, NULL, &code) : NULL;
    hf_error why;

    if (!client)
        return code;
    code = EXIT_DONE;
    if (hf_latch_count_down(client, name, by, &left, &why) != 0)
        code = cli_fail(args, name, &why);
    else
        printf("%u\n", left);
    hf_close(client);
    return code;
}

static const char *const latch_down_examples[] = {
    "holdfast latch down deploy/ready",
    "this host is ready; prints how many hosts are not", NULL
};

const struct command cmd_latch_down = {
    .name = "latch down",
    .operands = "NAME [BY]",
    .summary = "count a latch down",
    .group = "objects",
    .about =
        "Subtracts BY (default: 1) from the latch NAME, not below 0, and prints what "
        "is left.",
    .examples = latch_down_examples,
    .options = no_options,
    .run = run_latch_down,
    .min_operands = 1,
    .max_operands = 2,
};

static int run_latch_wait(struct args *args)
{
    const char *name = args_operand(args, 0);
    const struct value *asked = args_get(args, "wait");
    hf_options user = HF_OPTIONS_INIT;
    struct signals signals;
    struct wait wait = { .signals = &signals };
    int rc, code = EXIT_DONE;

    user.driver = HF_DRIVER_USER;
    wait.client = cli_open(args, &user, &code);
    if (!wait.client)
        return code;
    if (signals_begin(&signals) != 0) {
        cli_say("latch wait: %s", strerror(errno));
        return cli_close(wait.client, EXIT_INTERNAL);
    }
    rc = hf_latch_wait_async(wait.client, name, asked->given ? asked->ms : HF_FOREVER,
                             wait_done, &wait, &wait.op, &wait.why);
    rc = rc ? rc : wait_finish(&wait);
    if (wait.signal)
        return wait_signalled(&wait);
    if (rc == HF_EBUSY)
        snprintf(wait.why.text, sizeof wait.why.text, "the latch is not open yet");
    if (rc != 0)
        code = cli_fail(args, name, &wait.why);
    return cli_close(wait.client, code);
}

static const struct option latch_wait_options[] = {
    { "wait", 'w', OPT_FOREVER, "DURATION",
      "how long to wait: a duration, 0, or forever (the default)", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const latch_wait_examples[] = {
    "holdfast latch wait deploy/ready --wait 5m && ./switch-over",
    "continue when all hosts are ready, within five minutes", NULL
};

const struct command cmd_latch_wait = {
    .name = "latch wait",
    .operands = "NAME",
    .summary = "wait until a latch is open",
    .group = "objects",
    .about = "Waits until the latch NAME is open. The exit code is 0 when it is open, "
             "75 if --wait is over first, and 1 if it is not open and --wait is 0.",
    .examples = latch_wait_examples,
    .options = latch_wait_options,
    .run = run_latch_wait,
    .min_operands = 1,
    .max_operands = 1,
};

static int run_latch_show(struct args *args)
{
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    uint32_t left;
    hf_error why;

    if (!client)
        return code;
    if (hf_latch_count(client, args_operand(args, 0), &left, &why) != 0) {
        code = cli_fail(args, args_operand(args, 0), &why);
    } else if (args_get(args, "json")->flag) {
        struct json *json = json_document(args, args_operand(args, 0));

        json_number(json, "left", left);
        json_bool(json, "open", left == 0);
        json_end(json);
    } else {
        printf("%u\n", left);
    }
    hf_close(client);
    return code;
}

const struct command cmd_latch_show = {
    .name = "latch show",
    .operands = "NAME",
    .summary = "show the count that is left of a latch",
    .group = "objects",
    .about = "Prints the count that is left of the latch NAME: 0 if the latch is open "
             "or was never set. `holdfast show` also lists its waiters.",
    .options = json_options,
    .run = run_latch_show,
    .min_operands = 1,
    .max_operands = 1,
};
