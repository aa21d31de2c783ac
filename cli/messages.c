/* SPDX-License-Identifier: MIT */
/*
 * What the command says when something fails: one line on stderr,
 * "holdfast: <command>: <what>: <sentence> (<error name>)", and the exit code that
 * belongs to an error of the library.
 */
#include "args.h"

#include <stdarg.h>
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

/* Replaces all that could move the cursor: names and notes are untrusted. Ends the line
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

/* One write per line, so that lines of several processes do not mix. */
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

void cli_error_line(struct args *args, const char *what, const hf_error *why,
                    char *buffer, size_t size)
{
    const char *text = why->text[0] ? why->text : hf_error_sentence(why->code);

    snprintf(buffer, size, "holdfast: %s: %s%s%s (%s)", args->command->name,
             what ? what : "", what ? ": " : "", text, hf_error_name(why->code));
    line_finish(buffer, size);
}

int cli_fail(struct args *args, const char *what, const hf_error *why)
{
    char line[2048];

    cli_error_line(args, what, why, line, sizeof line);
    fputs(line, stderr);
    return cli_exit_of(why->code);
}
