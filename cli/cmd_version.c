/* SPDX-License-Identifier: MIT */
/*
 * `holdfast version`: the library this command was built with, and its stores. The
 * JSON: {"version": "0.1.0", "stores": ["mem", "file"]}.
 */
#include "commands.h"
#include "view.h"

#include <string.h>

void stores_json(struct json *json)
{
    const char *stores = hf_stores();

    json_open(json, "stores", '[');
    for (size_t len; (len = strcspn(stores, " ")) > 0;) {
        char store[64];

        snprintf(store, sizeof store, "%.*s", (int)len, stores);
        json_text(json, NULL, store);
        stores += len + (stores[len] == ' ');
    }
    json_close(json);
}

static void print_json(void)
{
    struct json *json = json_new(stdout);

    json_open(json, NULL, '{');
    json_text(json, "version", hf_version());
    stores_json(json);
    json_end(json);
}

static int run_version(struct args *args)
{
    if (args_get(args, "json")->flag)
        print_json();
    else
        printf("holdfast %s\nstores: %s\n", hf_version(), hf_stores());
    return EXIT_DONE;
}

static const struct option version_options[] = {
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

const struct command cmd_version = {
    .name = "version",
    .operands = "",
    .summary = "show the version and the stores of this build",
    .group = "look",
    .about = "Prints the version and the stores that were compiled in.",
    .options = version_options,
    .run = run_version,
    .min_operands = 0,
    .max_operands = 0,
};
