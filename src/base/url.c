/* SPDX-License-Identifier: MIT */
/*
 * Parses the URLs of stores.
 *
 * Called by hf_open() on the caller's thread. One pass from left to right over the
 * text, which is never changed: each part is percent-decoded into one block that has
 * the options array first and the strings after it. A decoded part is never longer than
 * its source, so the block's size is known beforehand. Absent parts are "".
 *
 * The text may be hostile and may contain a password. So a message names the part that
 * is wrong and does not quote it. A password may contain characters that should have
 * been escaped: then what looks like a host, a port or an option is a part of it. This
 * is also why hf__url_redact() hides everything up to the last '@'.
 */
#include "url.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "mem.h"
#include "text.h"

#define MAX_OPTIONS 64
#define PART_COUNT 6 /* scheme, user, password, host, port, path */

struct parser {
    const char *at; /* not read yet */
    char *out;      /* where to write the next decoded string */
    struct hf_url url;
    struct hf_url_option *options;
    hf_error *why;
};

static int fail(struct parser *p, const char *sentence)
{
    return hf__fail(p->why, HF_EURL, "the URL cannot be understood: %s", sentence);
}

/* ---- Pieces --------------------------------------------------------------- */

/* The first `c` in from .. to, or `to`. */
static const char *find(const char *from, const char *to, char c)
{
    const char *found = memchr(from, c, (size_t)(to - from));
    return found ? found : to;
}

static int decode(struct parser *p, const char *from, const char *to, const char **ret)
{
    char *start = p->out;

    while (from < to) {
        unsigned char byte = (unsigned char)*from++;
        if (byte == '%') {
            if (to - from < 2 || !hf__hex_decode(from, &byte, 1))
                return fail(p, "'%' is not followed by two hex digits");
            if (byte == 0)
                return fail(p, "%00 cannot be part of it");
            from += 2;
        }
        *p->out++ = (char)byte;
    }
    *p->out++ = '\0';
    *ret = start;
    return 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_scheme_char(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '.' || c == '-';
}

static int parse_scheme(struct parser *p)
{
    const char *from = p->at;

    while (is_scheme_char(*p->at))
        p->at++;
    if (*p->at != ':' || !is_letter(*from))
        return fail(p, "it does not begin with a scheme such as \"file:\"");
    p->url.scheme = p->out;
    for (; from < p->at; from++)
        *p->out++ = (char)(is_letter(*from) ? *from | 0x20 : *from);
    *p->out++ = '\0';
    p->at++;
    return 0;
}

/* ---- The authority: [user[:password]@]host[:port][,host[:port]...] --------- */

static int parse_user(struct parser *p, const char *from, const char *to)
{
    const char *colon = find(from, to, ':');
    int rc = decode(p, from, colon, &p->url.user);
    if (rc == 0 && colon < to)
        rc = decode(p, colon + 1, to, &p->url.password);
    return rc;
}

static int parse_port(struct parser *p, const char *from, const char *to)
{
    const char *text;
    uint64_t port = 0;
    int rc = decode(p, from, to, &text);
    if (rc)
        return rc;
    if (!hf__text_number(text, UINT16_MAX, &port) || port == 0)
        return fail(p, "the port is not a number from 1 to 65535");
    p->url.port = (uint16_t)port;
    return 0;
}

/* A literal address, with an optional zone ("fe80::1%25eth0"), between brackets. */
static int parse_ipv6(struct parser *p, const char *from, const char *to)
{
    const char *zone = find(from, to, '%');
    const char *rest;
    struct in6_addr binary;
    int rc = decode(p, from, zone, &p->url.host);
    if (rc)
        return rc;
    if (inet_pton(AF_INET6, p->url.host, &binary) != 1 ||
        (zone < to && strncmp(zone, "%25", 3) != 0))
        return fail(p, "what stands in brackets is not an IPv6 address");
    p->out--; /* the zone is appended to the address */
    return decode(p, zone, to, &rest);
}

static int parse_host_name(struct parser *p, const char *from, const char *to)
{
    int rc = decode(p, from, to, &p->url.host);
    if (rc)
        return rc;
    if (strpbrk(p->url.host, " ,:@[]\"<>\\^`{|}"))
        return fail(p, "a character in the host is not allowed there");
    return 0;
}

static int parse_host(struct parser *p, const char *from, const char *to)
{
    const char *end;
    int rc;

    if (from < to && *from == '[') {
        end = find(from, to, ']');
        if (end == to)
            return fail(p, "a bracket is not closed");
        rc = parse_ipv6(p, from + 1, end++);
        if (rc == 0 && end < to && *end != ':')
            rc = fail(p, "something other than a port follows the brackets");
    } else {
        end = find(from, to, ':');
        rc = parse_host_name(p, from, end);
    }
    if (rc == 0 && !hf__text_clean(p->url.host, strlen(p->url.host)))
        rc = fail(p, "the host is not clean text");
    if (rc == 0 && end < to)
        rc = parse_port(p, end + 1, to);
    return rc;
}

/* Each host of the list is parsed as if it were the only one, and discarded; then the
 * list is copied as it is. */
static int parse_hosts(struct parser *p, const char *from, const char *to)
{
    char *out = p->out;
    int rc = 0;

    for (const char *at = from, *end; rc == 0 && at <= to; at = end + 1) {
        end = find(at, to, ',');
        rc = at < end ? parse_host(p, at, end) : fail(p, "a host in the list is empty");
        if (rc == 0 && !*p->url.host)
            rc = fail(p, "a host in the list is empty");
        p->out = out;
        p->url.port = 0;
    }
    return rc ? rc : decode(p, from, to, &p->url.host);
}

static int parse_authority(struct parser *p)
{
    const char *from = p->at + 2;
    const char *to = from + strcspn(from, "/?");
    const char *sign = find(from, to, '@');
    int rc = 0;

    p->at = to;
    if (sign < to) {
        rc = parse_user(p, from, sign);
        from = sign + 1;
        if (rc == 0 && find(from, to, '@') < to)
            rc = fail(p, "an '@' in user or password must be written %40");
    }
    if (rc)
        return rc;
    return find(from, to, ',') < to ? parse_hosts(p, from, to)
                                    : parse_host(p, from, to);
}

/* ---- Options -------------------------------------------------------------- */

static int fail_twice(struct parser *p, const char *from, const char *key)
{
    if (strchr(from, '@')) /* this may be part of a password with a '?' in it */
        return fail(p, "an option is given twice");
    return hf__fail(p->why, HF_EURL, "the option '%s' is given twice", key);
}

static int parse_option(struct parser *p, const char *from, const char *to)
{
    struct hf_url_option *option = &p->options[p->url.option_count];
    const char *equals = find(from, to, '=');
    int rc = decode(p, from, equals, &option->key);
    if (rc)
        return rc;
    if (!*option->key)
        return fail(p, "an option has no key");
    if (hf__url_option(&p->url, option->key))
        return fail_twice(p, from, option->key);
    p->url.option_count++;
    option->value = "";
    return equals < to ? decode(p, equals + 1, to, &option->value) : 0;
}

static int parse_options(struct parser *p)
{
    int rc = 0;

    while (rc == 0 && *p->at) {
        const char *from = p->at + 1; /* after '?' or '&' */
        p->at = from + strcspn(from, "&");
        if (p->url.option_count == MAX_OPTIONS)
            rc = fail(p, "it has too many options");
        else
            rc = parse_option(p, from, p->at);
    }
    return rc;
}

/* ---- The whole ------------------------------------------------------------ */

static int parse_url(struct parser *p)
{
    const char *end;
    int rc = strchr(p->at, '#') ? fail(p, "'#' must be written %23") : parse_scheme(p);
    if (rc == 0 && p->at[0] == '/' && p->at[1] == '/')
        rc = parse_authority(p);
    if (rc)
        return rc;
    end = p->at + strcspn(p->at, "?");
    rc = decode(p, p->at, end, &p->url.path);
    p->at = end;
    if (rc == 0 && strcmp(p->at, "?") != 0)
        rc = parse_options(p);
    return rc;
}

int hf__url_parse(const char *text, struct hf_url *url, void **ret_memory,
                  hf_error *why)
{
    static const struct hf_url nothing = { "", "", "", "", "", 0, 0, NULL };
    struct parser p = { .at = text, .url = nothing, .why = why };
    size_t head = MAX_OPTIONS * sizeof *p.options;
    /* A NUL for each part; those of options take the room of '?', '&' and '='. */
    void *memory = hf__alloc(head + strlen(text) + PART_COUNT);
    int rc;

    if (!memory)
        return hf__fail_code(why, HF_ENOMEM);
    p.options = memory;
    p.url.options = memory;
    p.out = (char *)memory + head;
    rc = parse_url(&p);
    if (rc) {
        hf__free(memory);
        return rc;
    }
    *url = p.url;
    *ret_memory = memory;
    return 0;
}

const char *hf__url_option(const struct hf_url *url, const char *key)
{
    for (size_t i = 0; i < url->option_count; i++)
        if (strcmp(url->options[i].key, key) == 0)
            return url->options[i].value;
    return NULL;
}

int hf__url_number(const struct hf_url *url, const char *key, int64_t low, int64_t high,
                   int64_t fallback, int64_t *ret_number, hf_error *why)
{
    const char *value = hf__url_option(url, key);
    uint64_t size = 0;

    if (!value) {
        *ret_number = fallback;
        return 0;
    }
    bool minus = *value == '-';
    bool fine = hf__text_number(value + minus, INT64_MAX, &size);
    int64_t number = minus ? -(int64_t)size : (int64_t)size;
    if (!fine || number < low || number > high)
        return hf__fail(why, HF_EURL,
                        "the option '%s' must be a whole number from %lld to %lld", key,
                        (long long)low, (long long)high);
    *ret_number = number;
    return 0;
}

/* ---- Times --------------------------------------------------------------- */

/* The unit at `text` in milliseconds; moves `text` after it. 0: no unit. */
static int64_t read_unit(const char **text)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = { { "ms", 1 },    { "sec", 1000 },  { "s", 1000 },    { "min", 60000 },
                  { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t len = strlen(units[i].name);
        if (strncmp(*text, units[i].name, len) != 0 || is_letter((*text)[len]))
            continue;
        *text += len;
        return units[i].ms;
    }
    return 0;
}

/* "500ms", "1m30s": whole numbers, each with a unit smaller than the one before. */
static bool read_time(const char *text, int64_t *ret_ms)
{
    int64_t total = 0, before = INT64_MAX;

    do {
        int64_t number = 0, unit;
        if (*text < '0' || *text > '9')
            return false;
        for (; *text >= '0' && *text <= '9'; text++) {
            number = number * 10 + (*text - '0');
            if (number > INT32_MAX * INT64_C(1000))
                return false;
        }
        unit = read_unit(&text);
        if (unit == 0 || unit >= before || number > (INT64_MAX - total) / unit)
            return false;
        before = unit;
        total += number * unit;
    } while (*text);
    *ret_ms = total;
    return true;
}

int hf__url_time(const struct hf_url *url, const char *key, int64_t low_ms,
                 int64_t high_ms, int64_t fallback_ms, int64_t *ret_ms, hf_error *why)
{
    const char *value = hf__url_option(url, key);
    int64_t ms = 0;
    uint64_t bare;

    if (!value) {
        *ret_ms = fallback_ms;
        return 0;
    }
    if (hf__text_number(value, UINT64_MAX, &bare))
        return hf__fail(why, HF_EURL,
                        "the option '%s' needs a unit, as in 30s or 500ms", key);
    if (!read_time(value, &ms) || ms < low_ms || ms > high_ms)
        return hf__fail(why, HF_EURL,
                        "the option '%s' must be a time from %lldms to %lldms, as in "
                        "30s or 500ms",
                        key, (long long)low_ms, (long long)high_ms);
    *ret_ms = ms;
    return 0;
}

void hf__url_redact(const char *text, char *buffer, size_t size)
{
    const char *sign = strrchr(text, '@');
    size_t scheme = strcspn(text, ":/?@");
    const char *secret = text[scheme] == ':' ? text + scheme + 1 : text;

    bool file = strncmp(text, "file:", 5) == 0 && *secret == '/';
    if (secret[0] == '/' && secret[1] == '/')
        secret += 2;
    /* "file:/" and "file:///" have no user, but a path may have an '@'. Elsewhere
     * slashes may be too many, or too few. */
    if (sign && (!file || *secret != '/'))
        snprintf(buffer, size, "%.*s***%s", (int)(secret - text), text, sign);
    else
        snprintf(buffer, size, "%s", text);
}
