/* SPDX-License-Identifier: MIT */
/*
 * `holdfast cell`: versioned cells, for optimistic locking.
 *
 * stdout gets the bare value, or the new version, fit for $(...). The JSON of cell get:
 *
 *   {"url": ..., "name": ..., "version": 17, "value": "text", "base64": "dGV4dA=="}
 *
 * value is null if it is not text; base64 is always there.
 */
#include "commands.h"
#include "utf8.h"
#include "view.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SET_TRIES 100

static bool is_text(const char *data, size_t len)
{
    uint32_t code;
    size_t step;

    if (memchr(data, 0, len))
        return false;
    for (; *data; data += step)
        if ((step = utf8_read(data, &code)) == 0)
            return false;
    return true;
}

/* NULL without memory. */
static char *base64(const unsigned char *data, size_t len)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc((len + 2) / 3 * 4 + 1), *to = text;

    if (!text)
        return NULL;
    for (size_t i = 0; i < len; i += 3) {
        uint32_t group = (uint32_t)data[i] << 16;

        group |= i + 1 < len ? (uint32_t)data[i + 1] << 8 : 0;
        group |= i + 2 < len ? data[i + 2] : 0;
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = i + 1 < len ? digits[group >> 6 & 63] : '=';
        *to++ = i + 2 < len ? digits[group & 63] : '=';
    }
    *to = '\0';
    return text;
}

static void cell_json(struct args *args, const void *data, size_t len, uint64_t version)
{
    struct json *json = json_document(args, args_operand(args, 0));
    char *encoded = base64(data, len);

    json_token(json, "version", version);
    json_text(json, "value", is_text(data, len) ? data : NULL);
    json_text(json, "base64", encoded);
    json_end(json);
    free(encoded);
}

/* A value is untrusted: on a terminal, control characters and bytes that are not text
 * are shown as \xNN. */
static void print_escaped(const char *data, size_t len)
{
    for (size_t at = 0; at < len;) {
        uint32_t code = 0;
        size_t step = data[at] ? utf8_read(data + at, &code) : 0;
        bool plain = step && (code == '\n' || code == '\t' || !utf8_unsafe(code));

        if (plain)
            fwrite(data + at, 1, step, stdout);
        else
            for (size_t i = 0; i < (step ? step : 1); i++)
                printf("\\x%02x", (unsigned)(unsigned char)data[at + i]);
        at += step ? step : 1;
    }
}

static int run_cell_get(struct args *args)
{
    const char *name = args_operand(args, 0);
    int code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    uint64_t version;
    void *data;
    size_t len;
    hf_error why;

    if (!client)
        return code;
    if (hf_cell_get(client, name, &data, &len, &version, &why) != 0) {
        if (why.code == HF_ENOENT)
            snprintf(why.text, sizeof why.text, "there is no such cell");
        code = cli_fail(args, name, &why);
        goto out;
    }
    cli_verbose(args, "%s: version %llu", name, (unsigned long long)version);
    if (args_get(args, "json")->flag)
        cell_json(args, data, len, version);
    else if (isatty(STDOUT_FILENO) && !args_get(args, "raw")->flag)
        print_escaped(data, len);
    else
        fwrite(data, 1, len, stdout);
    hf_free(data);
out:
    hf_close(client);
    return code;
}

static const struct option cell_get_options[] = {
    { "raw", 0, OPT_FLAG, NULL, "print the exact bytes, also on a terminal", 0, 0 },
    { "json", 0, OPT_FLAG, NULL, "print JSON", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const cell_get_examples[] = {
    "holdfast cell get config/leader", "the value, byte for byte",
    "holdfast cell get config/leader --json | jq .version",
    "its version, for cell set --if-version", NULL
};

const struct command cmd_cell_get = {
    .name = "cell get",
    .operands = "NAME",
    .summary = "print the value of a cell",
    .group = "objects",
    .about =
        "Prints the value of the cell NAME as it is, without a newline at the end. On "
        "a terminal, control characters and bytes that are not text are shown as "
        "\\xNN, unless --raw is given. -v reports the version on stderr. The exit code "
        "is 1 if there is no such cell.",
    .examples = cell_get_examples,
    .options = cell_get_options,
    .run = run_cell_get,
    .min_operands = 1,
    .max_operands = 1,
};

/* The value from standard input; its length, or -1 after a message. */
static ssize_t read_input(struct args *args, char *buffer, size_t size)
{
    size_t len = fread(buffer, 1, size, stdin);

    if (ferror(stdin)) {
        cli_usage(args, "cannot read standard input");
        return -1;
    }
    if (len > HF_CELL_MAX) {
        cli_usage(args, "the value is larger than %d bytes", HF_CELL_MAX);
        return -1;
    }
    return (ssize_t)len;
}

/* Overwrites any version: tries again if another client writes between the read and the
 * write. */
static int cell_overwrite(hf_client *client, const char *name, const void *data,
                          size_t len, uint64_t *ret_version, hf_error *why)
{
    int rc = HF_ESTALE;

    for (int i = 0; rc == HF_ESTALE && i < SET_TRIES; i++) {
        uint64_t version = 0;
        void *old;
        size_t old_len;

        rc = hf_cell_get(client, name, &old, &old_len, &version, why);
        if (rc == 0)
            hf_free(old);
        else if (rc != HF_ENOENT)
            break;
        rc = hf_cell_set(client, name, rc == 0 ? version : 0, data, len, ret_version,
                         why);
    }
    return rc;
}

static int cell_fail(struct args *args, const char *name, hf_error *why)
{
    if (why->code == HF_ESTALE)
        snprintf(why->text, sizeof why->text,
                 args_get(args, "if-version")->given
                     ? "the cell has changed: its version is not the given one any more"
                     : "the cell already exists");
    return cli_fail(args, name, why);
}

static int cell_write(struct args *args, const char *data, size_t len)
{
    const char *name = args_operand(args, 0);
    const struct value *version = args_get(args, "if-version");
    int rc, code = EXIT_DONE;
    hf_client *client = cli_open(args, NULL, &code);
    uint64_t written;
    hf_error why;

    if (!client)
        return code;
    if (version->given || args_get(args, "create")->flag)
        rc = hf_cell_set(client, name, version->number, data, len, &written, &why);
    else
        rc = cell_overwrite(client, name, data, len, &written, &why);
    if (rc != 0)
        code = cell_fail(args, name, &why);
    else
        printf("%llu\n", (unsigned long long)written);
    hf_close(client);
    return code;
}

static int run_cell_set(struct args *args)
{
    static char input[HF_CELL_MAX + 2];
    const char *value = args_operand(args, 1);
    ssize_t len;

    if (args_get(args, "if-version")->given && args_get(args, "create")->flag)
        return cli_usage(args, "--if-version and --create exclude each other");
    if (strcmp(value, "-") != 0)
        return cell_write(args, value, strlen(value));
    len = read_input(args, input, sizeof input);
    return len < 0 ? EXIT_USAGE : cell_write(args, input, (size_t)len);
}

static const struct option cell_set_options[] = {
    { "if-version", 'V', OPT_NUMBER, "VERSION",
      "write only if the cell still has this version", 1, 0 },
    { "create", 'c', OPT_FLAG, NULL, "write only if the cell does not exist", 0, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

static const char *const cell_set_examples[] = {
    "holdfast cell set config/leader db3 --if-version 17",
    "write it unless another client has done so since version 17",
    "holdfast cell set config/map - < map.json", "the value from standard input", NULL
};

const struct command cmd_cell_set = {
    .name = "cell set",
    .operands = "NAME VALUE|-",
    .summary = "write a cell, optionally only if it has not changed",
    .group = "objects",
    .about =
        "Writes VALUE (\"-\": standard input) to the cell NAME and prints the new "
        "version. With --if-version or --create, nothing is written if the cell has "
        "changed in between; the exit code is then 1: read the cell and decide again. "
        "Without either, the cell is overwritten. A value has at most 65536 bytes.",
    .examples = cell_set_examples,
    .options = cell_set_options,
    .run = run_cell_set,
    .min_operands = 2,
    .max_operands = 2,
};

static int run_cell_rm(struct args *args)
{
    const char *name = args_operand(args, 0);
    const struct value *version = args_get(args, "if-version");
    int code = EXIT_DONE;
    hf_client *client;
    hf_error why;

    if (!version->given)
        return cli_usage(args, "--if-version is required: `holdfast cell get -v NAME` "
                               "reports the version");
    client = cli_open(args, NULL, &code);
    if (!client)
        return code;
    if (hf_cell_set(client, name, version->number, NULL, 0, NULL, &why) != 0)
        code = cell_fail(args, name, &why);
    hf_close(client);
    return code;
}

static const struct option cell_rm_options[] = {
    { "if-version", 'V', OPT_NUMBER, "VERSION",
      "remove the cell only if it still has this version (required)", 1, 0 },
    { NULL, 0, OPT_FLAG, NULL, NULL, 0, 0 },
};

const struct command cmd_cell_rm = {
    .name = "cell rm",
    .operands = "NAME",
    .summary = "remove a cell, if it has not changed",
    .group = "objects",
    .about = "Removes the cell NAME if it still has the given version; the exit code "
             "is 1 if it has changed. A version is never used again, even if the cell "
             "is created anew.",
    .options = cell_rm_options,
    .run = run_cell_rm,
    .min_operands = 1,
    .max_operands = 1,
};
