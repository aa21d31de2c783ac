/* SPDX-License-Identifier: MIT */
/*
 * holder URL NAME mutex|read|write try|wait: takes the lock, says "held" (or "busy" and
 * ends with 1), keeps it until a line comes on standard input, and says "released".
 * For scripts that play another tool against holdfast.
 */
#include "../../include/holdfast.h"

#include <stdio.h>
#include <string.h>

static int fail(const char *what, const hf_error *why)
{
    fprintf(stderr, "%s: %s: %s\n", what, hf_error_name(why->code), why->text);
    return 2;
}

static hf_want want_of(const char *name, const char *kind)
{
    if (strcmp(kind, "read") == 0)
        return hf_read(name);
    return strcmp(kind, "write") == 0 ? hf_write(name) : hf_mutex(name);
}

static int hold_and_wait(hf_client *client, hf_want want, int64_t timeout_ms)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_hold *hold;
    hf_error why;
    int rc;

    options.timeout_ms = timeout_ms;
    rc = hf_acquire(client, &want, 1, &options, &hold, &why);
    if (rc == HF_EBUSY) {
        puts("busy");
        return 1;
    }
    if (rc != 0)
        return fail("acquire", &why);
    puts("held");
    while (getchar() != '\n' && !feof(stdin))
        continue;
    rc = hf_release(hold, &why);
    if (rc != 0)
        return fail("release", &why);
    puts("released");
    return 0;
}

int main(int argc, char **argv)
{
    hf_client *client;
    hf_error why;
    int rc;

    if (argc != 5) {
        fprintf(stderr, "usage: %s URL NAME mutex|read|write try|wait\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (hf_open(argv[1], NULL, &client, &why) != 0)
        return fail("open", &why);
    rc = hold_and_wait(client, want_of(argv[2], argv[3]),
                       strcmp(argv[4], "wait") == 0 ? HF_FOREVER : 0);
    hf_close(client);
    return rc;
}
