/* SPDX-License-Identifier: MIT */
/*
 * The line of text in our nodes: written for tickets, read by inspections. Pure but for
 * hf__zk_identity_init(), which reads the names of the host and the boot.
 *
 * The line is not written again when a lease is renewed. So what is left of the lease
 * is counted from the beginning, or is all of it where that is over: more than the
 * truth, never less.
 */
#include "details.h"

#include "../../base/clock.h"
#include "../../base/error.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char first_word[] = "holdfast ";

static const char *const kind_words[] = {
    [HF_MUTEX] = "mutex",       [HF_REENTRANT] = "reentrant", [HF_FAIR] = "fair",
    [HF_READ] = "read",         [HF_WRITE] = "write",         [HF_PERMITS] = "permits",
    [HF_EXPIRING] = "expiring", [HF_LATCH] = "latch",         [HF_CELL] = "cell",
};

enum { KIND_WORDS = sizeof(kind_words) / sizeof(kind_words[0]) };

/* ---- Writing --------------------------------------------------------------------- */

/* At most `max` bytes of `text`, encoded. `out` has room for three times that. */
static size_t encode(char *out, const char *text, size_t max)
{
    static const char digits[] = "0123456789ABCDEF";
    char *at = out;
    for (size_t i = 0; i < max && text[i]; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte > ' ' && byte != '%' && byte != 0x7f) {
            *at++ = (char)byte;
            continue;
        }
        *at++ = '%';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    *at = '\0';
    return (size_t)(at - out);
}

static void read_boot(char boot[ZK_BOOT_SIZE])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, boot, ZK_BOOT_SIZE - 1) : 0;
    boot[got == ZK_BOOT_SIZE - 1 ? ZK_BOOT_SIZE - 1 : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

void hf__zk_identity_init(struct zk_identity *identity, const char *program)
{
    char host[65] = "", encoded_host[3 * 64 + 1], encoded[3 * 64 + 1];
    read_boot(identity->boot);
    gethostname(host, sizeof(host) - 1);
    encode(encoded_host, host, 64);
    encode(encoded, program, 64);
    int len =
        snprintf(identity->text, sizeof(identity->text), "%shost=%s pid=%ld program=%s",
                 first_word, encoded_host, (long)getpid(), encoded);
    identity->len = (size_t)len;
}

size_t hf__zk_details_write(const struct zk_identity *identity,
                            const struct hf_ticket *ticket, int64_t now_ns,
                            uint64_t token, char line[ZK_DETAILS_SIZE])
{
    char note[3 * HF_NOTE_MAX + 1], given[32] = "";
    encode(note, ticket->note, HF_NOTE_MAX);
    if (token)
        snprintf(given, sizeof(given), " token=%" PRIu64, token);
    int len = snprintf(line, ZK_DETAILS_SIZE,
                       "%s kind=%s permits=%u/%u ttl=%" PRId64 " since=%s:%" PRId64
                       "%s note=%s",
                       identity->text, kind_words[ticket->kind], ticket->permits,
                       ticket->limit, ticket->ttl_ns / HF_NS_PER_MS, identity->boot,
                       now_ns / HF_NS_PER_MS, given, note);
    return (size_t)len;
}

/* ---- Reading --------------------------------------------------------------------- */

static int digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    if (letter >= 'A' && letter <= 'F')
        return letter - 'A' + 10;
    return -1;
}

/* A control character becomes '?' in a report: any client can write into a node. */
static char shown(char byte)
{
    return (unsigned char)byte < ' ' || byte == 0x7f ? '?' : byte;
}

static void decode(const char *from, size_t len, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used + 1 < size; i++) {
        char byte = from[i];
        if (byte == '%' && i + 2 < len && digit(from[i + 1]) >= 0 &&
            digit(from[i + 2]) >= 0) {
            byte = (char)(digit(from[i + 1]) * 16 + digit(from[i + 2]));
            i += 2;
        }
        out[used++] = shown(byte);
    }
    out[used] = '\0';
}

/* The value behind " key=" in a line that ends with a NUL, or NULL. */
static const char *value_of(const char *line, const char *key, size_t *ret_len)
{
    size_t key_len = strlen(key);
    for (const char *at = line; (at = strchr(at, ' '));) {
        at++;
        if (strncmp(at, key, key_len) != 0 || at[key_len] != '=')
            continue;
        *ret_len = strcspn(at + key_len + 1, " ");
        return at + key_len + 1;
    }
    *ret_len = 0;
    return NULL;
}

static void text_of(const char *line, const char *key, char *out, size_t size)
{
    size_t len;
    const char *value = value_of(line, key, &len);
    decode(value ? value : "", len, out, size);
}

static int64_t number_of(const char *line, const char *key)
{
    size_t len;
    const char *value = value_of(line, key, &len);
    return value ? strtoll(value, NULL, 10) : 0;
}

static int kind_of(const char *line)
{
    size_t len;
    const char *value = value_of(line, "kind", &len);
    for (int kind = HF_MUTEX; value && kind < KIND_WORDS; kind++)
        if (strlen(kind_words[kind]) == len &&
            memcmp(kind_words[kind], value, len) == 0)
            return kind;
    return 0;
}

/* Limited to UINT32_MAX. */
static uint32_t count_at(const char *text, char **ret_end)
{
    unsigned long long number = strtoull(text, ret_end, 10);
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static void read_permits(const char *line, struct zk_details *ret)
{
    size_t len;
    char *slash;
    const char *value = value_of(line, "permits", &len);
    if (!value)
        return;
    ret->permits = count_at(value, &slash);
    if (*slash == '/')
        ret->limit = count_at(slash + 1, &slash);
}

static void read_times(const struct zk_identity *identity, const char *line,
                       int64_t now_ns, struct zk_details *ret)
{
    size_t len, boot = strlen(identity->boot);
    const char *value = value_of(line, "since", &len);
    int64_t ttl = number_of(line, "ttl"), age;
    ret->left_ms = ttl > 0 ? ttl : HF_FOREVER;
    if (!value || !boot || strncmp(value, identity->boot, boot) != 0 ||
        value[boot] != ':')
        return;
    age = strtoll(value + boot + 1, NULL, 10);
    if (age < 0)
        return; /* not a time of our clock */
    age = now_ns / HF_NS_PER_MS - age;
    ret->since_ms = age > 0 ? age : 0;
    if (ttl > 0 && ret->since_ms < ttl)
        ret->left_ms = ttl - ret->since_ms;
}

void hf__zk_details_read(const struct zk_identity *identity, const char *data,
                         size_t len, int64_t now_ns, struct zk_details *ret)
{
    char line[ZK_DETAILS_SIZE];
    size_t word = sizeof(first_word) - 1;
    *ret = (struct zk_details){
        .permits = 1, .limit = 1, .since_ms = -1, .left_ms = HF_FOREVER
    };
    bool fits = len >= word && len < sizeof(line);
    if (!fits || memcmp(data, first_word, word) != 0) {
        decode(data, len, ret->host, sizeof(ret->host));
        return;
    }
    memcpy(line, data, len);
    line[len] = '\0';
    ret->ours = true;
    ret->kind = kind_of(line);
    ret->pid = number_of(line, "pid");
    ret->token = (uint64_t)number_of(line, "token");
    text_of(line, "host", ret->host, sizeof(ret->host));
    text_of(line, "program", ret->program, sizeof(ret->program));
    text_of(line, "note", ret->note, sizeof(ret->note));
    read_permits(line, ret);
    read_times(identity, line, now_ns, ret);
}
