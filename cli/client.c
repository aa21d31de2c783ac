/* SPDX-License-Identifier: MIT */
/*
 * Opening the store, and what is said when something fails: one line on stderr,
 * "holdfast: <command>: <what>: <sentence>", words instead of codes, never a password.
 */
#include "args.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int cli_exit_of(int code)
{
    switch (code) {
    case HF_OK:
        return EXIT_DONE;
    case HF_EBUSY:
    case HF_ENOENT:
    case HF_ESTALE:
        return EXIT_BUSY;
    case HF_ETIMEOUT:
        return EXIT_TIMEOUT;
    case HF_ELOST:
    case HF_ERELEASED:
        return EXIT_LOST;
    case HF_EINVAL:
    case HF_ENAME:
    case HF_EURL:
        return EXIT_USAGE;
    case HF_EREFUSED:
    case HF_ENOTYOURS:
    case HF_EMISMATCH:
    case HF_EUNSUPPORTED:
        return EXIT_REFUSED;
    case HF_EUNREACHABLE:
    case HF_EUNCERTAIN:
        return EXIT_UNREACHABLE;
    default:
        return EXIT_INTERNAL;
    }
}

/* ---- Messages -------------------------------------------------------------------- */

/* Nothing that moves the cursor can reach the terminal through a name or a note. Ends
 * with a newline, and a NUL if there is room. */
static size_t line_finish(char *line, size_t size)
{
    size_t length;

    text_blank(line);
    length = strlen(line);
    if (length > size - 2)
        length = size - 2;
    line[length++] = '\n';
    line[length] = '\0';
    return length;
}

/* One write for the line, so that lines of several processes do not mix. */
static void say_line(char *line, size_t size)
{
    size_t length = line_finish(line, size);

    fwrite(line, 1, length, stderr);
}

static void say(const char *prefix, const char *format, va_list list)
{
    char line[2048];
    int used = snprintf(line, sizeof line, "holdfast: %s%s", prefix ? prefix : "",
                        prefix ? ": " : "");

    if (used > 0 && (size_t)used < sizeof line)
        vsnprintf(line + used, sizeof line - (size_t)used, format, list);
    say_line(line, sizeof line);
}

void cli_say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(NULL, format, list);
    va_end(list);
}

void cli_verbose(struct args *args, const char *format, ...)
{
    va_list list;

    if (!args_verbose(args))
        return;
    va_start(list, format);
    say(args->command->name, format, list);
    va_end(list);
}

int cli_usage(struct args *args, const char *format, ...)
{
    const char *name = args->command->name;
    char text[1024];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    cli_say("%s: %s (see holdfast %s --help)", name, text, name);
    return EXIT_USAGE;
}

void cli_line(struct args *args, const char *what, const hf_error *why, char *buffer,
              size_t size)
{
    const char *text = why->text[0] ? why->text : hf_error_sentence(why->code);

    snprintf(buffer, size, "holdfast: %s: %s%s%s (%s)", args->command->name,
             what ? what : "", what ? ": " : "", text, hf_error_name(why->code));
    line_finish(buffer, size);
}

int cli_fail(struct args *args, const char *what, const hf_error *why)
{
    char line[2048];

    cli_line(args, what, why, line, sizeof line);
    fputs(line, stderr);
    return cli_exit_of(why->code);
}

/* ---- The store ------------------------------------------------------------------- */

static bool secret_option(const char *name, size_t length)
{
    static const char *const secrets[] = { "password", "token", "secret", "key" };

    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++) {
        if (strlen(secrets[i]) == length && strncmp(secrets[i], name, length) == 0)
            return true;
    }
    return false;
}

/* The end of the authority of `url`, where neither path nor options have begun. */
static const char *authority_of(const char *url, const char **ret_end)
{
    const char *start = strstr(url, "://");

    start = start ? start + 3 : url;
    *ret_end = start + strcspn(start, "/?#");
    return start;
}

/* A password may hold an unescaped '/' or '?', against the rules: then the last '@' of
 * the URL ends it all the same. Better to blank out too much. */
static const char *password_of(const char *url, const char **ret_end)
{
    const char *end, *start = authority_of(url, &end);
    const char *at = strrchr(start, '@');
    const char *colon = at ? memchr(start, ':', (size_t)(at - start)) : NULL;

    *ret_end = at;
    return colon && strstr(url, "://") ? colon + 1 : NULL;
}

void url_without_secrets(const char *url, char *buffer, size_t size)
{
    const char *end = NULL, *password = password_of(url, &end);
    bool hidden = false;
    size_t used = 0;

    for (const char *c = url; *c && used + 4 < size; c++) {
        if (c == password) {
            memcpy(buffer + used, "***", 3);
            used += 3;
            c = end;
        }
        if (*c == '?' || *c == '&') {
            size_t length = strcspn(c + 1, "=&");

            hidden = c[length + 1] == '=' && secret_option(c + 1, length);
        }
        if (hidden && c > url && c[-1] == '=') {
            memcpy(buffer + used, "***", 3);
            used += 3;
            c += strcspn(c, "&");
            hidden = false;
            if (!*c)
                break;
        }
        buffer[used++] = *c;
    }
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
        *ret_exit = EXIT_UNREACHABLE; /* it is the store that is not there */
    return NULL;
}
