/* SPDX-License-Identifier: MIT */
/*
 * Names of keys and channels, and the names that are refused. Pure.
 *
 * A name that contains a '{' is taken to have its own hash tag, as in Redisson:
 * `prefix:name` instead of `prefix:{name}`. So Redisson derives the same keys from `x`
 * and from `{x}`. Keys that only holdfast uses differ: they get a second colon if the
 * name has a tag (`holdfast_info::{x}`), and stay in the hash slot of the name. Of the
 * keys that Redisson derives, `{x}` may share the token (a counter that only grows) and
 * the channels (one request more) with `x`, and keys of read holds contain the owner;
 * the queue of the fair lock and the expiring permits would be mixed up. For these
 * kinds `{x}` is refused, and scripts of other kinds get an unused key instead.
 *
 * A name must not be a key of another name either: see hf__redis_name_check().
 */
#include "keys.h"

#include "../../base/error.h"
#include "../../base/text.h"

#include <string.h>

enum form { FORM_KEY, FORM_CHANNEL, FORM_OURS };

static const struct {
    enum form form;
    const char *before; /* followed by a colon, or NULL */
    const char *after;
    const char *wrapped; /* used for `{x}`, which would share the key with `x` */
} parts[] = {
    [KEY_NAME] = { FORM_KEY, NULL, NULL, NULL },
    [KEY_TOKEN] = { FORM_KEY, "redisson_lock_token", NULL, NULL },
    [KEY_INFO] = { FORM_OURS, "holdfast_info", NULL, NULL },
    [KEY_QUEUE] = { FORM_OURS, "holdfast_queue", NULL, NULL },
    [KEY_FAIR] = { FORM_KEY, "redisson_lock_queue", NULL, "holdfast_fair" },
    [KEY_PATIENCE] = { FORM_KEY, "redisson_lock_timeout", NULL, "holdfast_patience" },
    [KEY_CHANNEL] = { FORM_CHANNEL, "redisson_lock__channel", NULL, NULL },
    [KEY_RW] = { FORM_CHANNEL, "redisson_rwlock", NULL, NULL },
    [KEY_SC] = { FORM_CHANNEL, "redisson_sc", NULL, NULL },
    [KEY_PERMITS] = { FORM_OURS, "holdfast_permits", NULL, NULL },
    [KEY_TIMEOUT] = { FORM_KEY, NULL, "timeout", "holdfast_timeout" },
    [KEY_OPENED] = { FORM_OURS, "holdfast_opened", NULL, NULL },
    [KEY_GATE] = { FORM_CHANNEL, NULL, NULL, NULL },
};

static const char done_prefix[] = "holdfast_done";

static char *append(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *append_name(char *at, const char *name, size_t len, bool braces)
{
    if (braces)
        *at++ = '{';
    at = append(at, name, len);
    if (braces)
        *at++ = '}';
    return at;
}

static bool has_tag(const char *name, size_t len)
{
    return memchr(name, '{', len) != NULL;
}

/* A key that only holdfast uses: `prefix:{name}`, or `prefix::name` with a tag. */
static char *append_ours(char *at, const char *prefix, const char *name, size_t len)
{
    bool tag = has_tag(name, len);
    at = append(at, prefix, strlen(prefix));
    *at++ = ':';
    if (tag)
        *at++ = ':';
    return append_name(at, name, len, !tag);
}

/* `{x}`, where x has no tag: Redisson derives the same keys from x. */
static bool is_wrapped(const char *name, size_t len)
{
    return len >= 2 && name[0] == '{' && name[len - 1] == '}' &&
           !has_tag(name + 1, len - 1);
}

size_t hf__redis_key_write(char *out, enum key_name which, const char *name, size_t len)
{
    static const char gate[] = "redisson_countdownlatch__channel__";
    char *at = out;
    if (which == KEY_NAME)
        return (size_t)(append(at, name, len) - out);
    if (which == KEY_GATE) { /* always with braces */
        at = append(at, gate, sizeof(gate) - 1);
        return (size_t)(append_name(at, name, len, true) - out);
    }
    const char *before = parts[which].before, *after = parts[which].after;
    if (parts[which].form == FORM_OURS)
        return (size_t)(append_ours(at, before, name, len) - out);
    if (parts[which].wrapped && is_wrapped(name, len))
        return (size_t)(append_ours(at, parts[which].wrapped, name, len) - out);
    if (before) {
        at = append(at, before, strlen(before));
        *at++ = ':';
    }
    at = append_name(at, name, len, !has_tag(name, len));
    if (after) {
        *at++ = ':';
        at = append(at, after, strlen(after));
    }
    return (size_t)(at - out);
}

bool hf__redis_key_parse(const char *key, size_t len, struct resp_arg *ret_name)
{
    const char *before = parts[KEY_INFO].before;
    size_t skip = strlen(before) + 1;
    if (len < skip + 2 || memcmp(key, before, skip - 1) != 0 || key[skip - 1] != ':')
        return false;
    key += skip;
    len -= skip;
    if (*key == ':') {
        *ret_name = (struct resp_arg){ key + 1, len - 1 };
        return has_tag(key + 1, len - 1);
    }
    *ret_name = (struct resp_arg){ key + 1, len - 2 };
    return is_wrapped(key, len) && len > 2;
}

void hf__redis_keys_init(struct keys *keys)
{
    keys->count = 0;
    keys->at = keys->text;
}

void hf__redis_keys_add(struct keys *keys, enum key_name which, const char *name,
                        size_t len)
{
    struct resp_arg *key = &keys->key[keys->count++];
    key->text = keys->at;
    key->len = hf__redis_key_write(keys->at, which, name, len);
    keys->at += key->len;
}

void hf__redis_keys_fill(struct keys *keys, const enum key_name *list, const char *name,
                         size_t len)
{
    hf__redis_keys_init(keys);
    for (; *list != KEY_END; list++)
        hf__redis_keys_add(keys, *list, name, len);
}

void hf__redis_keys_add_done(struct keys *keys, const char *name, size_t len,
                             const struct hf_id *id)
{
    struct resp_arg *key = &keys->key[keys->count++];
    char *at = append_ours(keys->at, done_prefix, name, len);
    *at++ = ':';
    hf__hex_encode(id, sizeof(*id), at);
    at += 2 * sizeof(*id);
    *key = (struct resp_arg){ keys->at, (size_t)(at - keys->at) };
    keys->at = at;
}

/* ---- Names that are refused ------------------------------------------------------ */

static bool begins(const char *name, size_t len, const char *prefix)
{
    size_t plen = strlen(prefix);
    return len > plen && memcmp(name, prefix, plen) == 0 && name[plen] == ':';
}

/* The prefix that makes this name a key of another name, or NULL. */
static const char *reserved_prefix(const char *name, size_t len)
{
    static const char latch[] = "redisson_unlock_latch"; /* used by Redisson only */
    for (size_t i = 0; i < KEY_END; i++) {
        const char *before = parts[i].before, *wrapped = parts[i].wrapped;
        if (before && parts[i].form != FORM_CHANNEL && begins(name, len, before))
            return before;
        if (wrapped && begins(name, len, wrapped))
            return wrapped;
    }
    if (begins(name, len, done_prefix))
        return done_prefix;
    return begins(name, len, latch) ? latch : NULL;
}

static bool ends(const char *name, size_t len, const char *suffix, size_t *ret_rest)
{
    size_t slen = strlen(suffix);
    *ret_rest = len - slen;
    return len > slen && memcmp(name + len - slen, suffix, slen) == 0;
}

/* A key of the form `{x}:timeout` or `{x}:owner:rwlock_timeout:1`. */
static const char *reserved_suffix(const char *name, size_t len)
{
    size_t rest, digits = len;
    if (ends(name, len, ":timeout", &rest) && has_tag(name, rest))
        return ":timeout";
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    if (digits < len && ends(name, digits, ":rwlock_timeout:", &rest) &&
        has_tag(name, rest))
        return ":rwlock_timeout:n";
    return NULL;
}

int hf__redis_name_check(enum redis_layout layout, int kind, const char *name,
                         size_t len, hf_error *why)
{
    const char *prefix = reserved_prefix(name, len);
    if (prefix)
        return hf__fail(why, HF_EINVAL,
                        "a name that begins with '%s:' is a key of another lock",
                        prefix);
    if (layout == LAYOUT_SIMPLE)
        return 0;
    const char *suffix = reserved_suffix(name, len);
    if (suffix)
        return hf__fail(why, HF_EINVAL,
                        "a name with a '{' that ends with '%s' is a key of another "
                        "lock",
                        suffix);
    if ((kind == HF_FAIR || kind == HF_EXPIRING) && is_wrapped(name, len))
        return hf__fail(why, HF_EINVAL,
                        "a name in braces shares the %s with the name without them; "
                        "add to it outside of the braces",
                        kind == HF_FAIR ? "queue of a fair lock" : "expiring permits");
    return 0;
}

/* ---- Owners ---------------------------------------------------------------------- */

size_t hf__redis_owner_write(char out[OWNER_SIZE], enum redis_layout layout,
                             const struct hf_id *id)
{
    static const unsigned char lengths[] = { 8, 4, 4, 4, 12 };
    char hex[2 * sizeof(*id)];
    const char *from = hex;
    hf__hex_encode(id, sizeof(*id), hex);
    if (layout == LAYOUT_SIMPLE) {
        memcpy(out, hex, sizeof(hex));
        return sizeof(hex);
    }
    for (size_t i = 0; i < sizeof(lengths); i++) {
        out = append(out, from, lengths[i]);
        from += lengths[i];
        *out++ = i + 1 < sizeof(lengths) ? '-' : ':';
    }
    *out = '1';
    return OWNER_SIZE;
}

bool hf__redis_owner_is(const char *text, size_t len, const struct hf_id *id)
{
    char owner[OWNER_SIZE];
    enum redis_layout layout = len == OWNER_SIZE ? LAYOUT_REDISSON : LAYOUT_SIMPLE;
    return hf__redis_owner_write(owner, layout, id) == len &&
           memcmp(text, owner, len) == 0;
}
