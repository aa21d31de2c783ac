/* SPDX-License-Identifier: MIT */
/*
 * Opening the store, and showing its URL in messages without the password.
 */
#include "args.h"

#include <stdlib.h>
#include <string.h>

/* Does the name of an option, mistyped or not, sound like a secret? The name of a file
 * or of a variable is none. */
static bool secret_option(const char *name, size_t length)
{
    static const char *const parts[] = {
        "pas", "pw", "token", "secret", "key", "auth"
    };
    static const char *const ends[] = { "_file", "_env" };
    char text[64];

    snprintf(text, sizeof text, "%.*s", (int)length, name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t size = strlen(ends[i]);

        if (strlen(text) > size && strcmp(text + strlen(text) - size, ends[i]) == 0)
            return false;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcasestr(text, parts[i]))
            return true;
    }
    return false;
}

/* Where the hidden part begins; it ends at `at`, the last '@'. In
 * "scheme://user:password@" it is the password. In any other form all that could be a
 * password is hidden: a slash or an escape may be missing. */
static const char *secret_begin(const char *url, const char *at)
{
    size_t scheme = strspn(url, "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    const char *start = strncmp(url + scheme, "://", 3) == 0 ? url + scheme + 3 : url;
    const char *user = start + strcspn(start, ":/?#@");
    const char *password = *user == ':' ? user + 1 : user;

    if (strncmp(url, "file:/", 6) == 0 && (start == url || *start == '/'))
        return NULL; /* a path with an '@' in it */
    if (start > url && user > start && *user == ':' && password < at &&
        password + strcspn(password, ":/?#@") == at)
        return password;
    return start;
}

/* The same for a URL without an '@': what is in the place of the port but is not a
 * number. The user may have forgotten the host. */
static const char *no_port(const char *url, const char **ret_end)
{
    const char *host = strstr(url, "://"), *port;

    if (!host || host[3] == '[') /* an IPv6 address contains colons */
        return NULL;
    port = host + 3 + strcspn(host + 3, ":/?#");
    if (*port != ':' || strchr(",/?#", port[1 + strspn(port + 1, "0123456789")]))
        return NULL;
    *ret_end = port + strcspn(port, "?");
    return port + 1;
}

/* The options of a URL, with the values of those that sound like a secret hidden. */
static size_t put_options(const char *text, char *buffer, size_t size)
{
    size_t used = 0;

    while (*text && used + 4 < size) {
        size_t name = strcspn(text + 1, "=&"), length = 1 + name;

        if (text[length] == '=')
            length++;
        for (size_t i = 0; i < length && used + 4 < size; i++)
            buffer[used++] = text[i];
        if (text[length - 1] == '=' && secret_option(text + 1, name)) {
            used += (size_t)snprintf(buffer + used, size - used, "***");
            length += strcspn(text + length, "&");
        }
        text += length;
        while (*text && *text != '&' && used + 4 < size)
            buffer[used++] = *text++;
    }
    return used;
}

void url_without_secrets(const char *url, char *buffer, size_t size)
{
    const char *at = strrchr(url, '@'), *rest = at;
    const char *secret = at ? secret_begin(url, at) : no_port(url, &rest);
    size_t used = 0, plain;

    if (!secret)
        rest = url;
    else if (at && memchr(url, '?', (size_t)(at - url)))
        rest = at + strlen(at); /* the '@' may be in the middle of an option */
    if (secret)
        used = (size_t)snprintf(buffer, size, "%.*s***", (int)(secret - url), url);
    if (used + 4 >= size) {
        buffer[size - 1] = '\0';
        return;
    }
    plain = strcspn(rest, "?");
    if (plain > size - used - 4)
        plain = size - used - 4;
    memcpy(buffer + used, rest, plain);
    used += plain;
    if (rest[plain] == '?')
        used += put_options(rest + plain, buffer + used, size - used);
    buffer[used] = '\0';
}

hf_client *cli_open(struct args *args, const hf_options *options, int *ret_exit)
{
    const char *url = args_url(args), *given = url ? url : getenv("HOLDFAST_URL");
    hf_client *client = NULL;
    hf_error why;

    if (hf_open(url, options, &client, &why) == 0)
        return client;
    if (given && *given) {
        char shown[512];

        url_without_secrets(given, shown, sizeof shown);
        *ret_exit = cli_fail(args, shown, &why);
    } else {
        *ret_exit = cli_fail(args, NULL, &why);
    }
    if (why.code == HF_ENOENT)
        *ret_exit = EXIT_UNREACHABLE; /* the store does not exist */
    return NULL;
}
