/* SPDX-License-Identifier: MIT */
/*
 * Names and sentences of error codes, and the one way to fill in an hf_error.
 *
 * They come from HF_ERRORS in holdfast.h, so a code cannot lack one. All failing
 * functions call this file, on any thread; nothing is shared and nothing is allocated,
 * so it also works when memory has run out.
 *
 * The text is always one line of at most sizeof(text) - 1 bytes: control characters,
 * which may come from a URL or a server, become '?', and a text that is cut never ends
 * in half a UTF-8 character.
 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *hf_error_name(int code)
{
    switch (code) {
    case HF_OK:
        return "HF_OK";
#define ERROR_NAME(name, value, sentence)                                              \
    case name:                                                                         \
        return #name;
        HF_ERRORS(ERROR_NAME)
#undef ERROR_NAME
    default:
        return "HF_E?";
    }
}

const char *hf_error_sentence(int code)
{
    switch (code) {
    case HF_OK:
        return "no error";
#define ERROR_SENTENCE(name, value, sentence)                                          \
    case name:                                                                         \
        return sentence;
        HF_ERRORS(ERROR_SENTENCE)
#undef ERROR_SENTENCE
    default:
        return "an error this version does not know";
    }
}

static const char *sys_sentence(int sys)
{
#ifdef __GLIBC__
    const char *sentence = strerrordesc_np(sys); /* as strerror, but never translated */
    return sentence ? sentence : "unknown system error";
#else
    return strerror(sys);
#endif
}

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Bytes of `text` up to the last whole character, for a text that was cut at `len`. */
static size_t whole_chars(const char *text, size_t len)
{
    size_t at = len;
    while (at > 0 && len - at < 3 && is_continuation(text[at - 1]))
        at--;
    if (at == 0 || (unsigned char)text[at - 1] < 0xC0)
        return len;
    unsigned char lead = (unsigned char)text[at - 1];
    size_t want = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return len - (at - 1) < want ? at - 1 : len;
}

static void text_clean(char *text, size_t size, size_t wanted)
{
    if (wanted >= size)
        text[whole_chars(text, size - 1)] = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
}

static size_t clipped(int printed)
{
    return printed > 0 ? (size_t)printed : 0;
}

static void fill(hf_error *why, int code, int sys, const char *format, va_list args)
{
    const size_t size = sizeof why->text;

    why->code = code;
    why->sys = sys;
    why->text[0] = '\0';
    size_t len = clipped(vsnprintf(why->text, size, format, args));
    if (sys && len < size)
        len +=
            clipped(snprintf(why->text + len, size - len, ": %s", sys_sentence(sys)));
    text_clean(why->text, size, len);
}

void hf__error_set(hf_error *why, int code, const char *format, ...)
{
    if (why) {
        va_list args;
        va_start(args, format);
        fill(why, code, 0, format, args);
        va_end(args);
    }
}

void hf__error_set_sys(hf_error *why, int code, int sys, const char *format, ...)
{
    if (why) {
        va_list args;
        va_start(args, format);
        fill(why, code, sys, format, args);
        va_end(args);
    }
}
