/* SPDX-License-Identifier: MIT */
/*
 * Names of keys and channels. Pure.
 *
 * A name that holds a '{' anywhere is taken to bring its own hash tag, as Redisson does
 * it. The channel of a latch is the one exception: it always gets braces.
 */
#include "keys.h"

#include "../../base/text.h"

#include <string.h>

static const struct {
    const char *before; /* with a colon between, or NULL */
    const char *after;
} parts[] = {
    [KEY_NAME] = { NULL, NULL },
    [KEY_TOKEN] = { "redisson_lock_token", NULL },
    [KEY_INFO] = { "holdfast_info", NULL },
    [KEY_QUEUE] = { "holdfast_queue", NULL },
    [KEY_FAIR] = { "redisson_lock_queue", NULL },
    [KEY_PATIENCE] = { "redisson_lock_timeout", NULL },
    [KEY_CHANNEL] = { "redisson_lock__channel", NULL },
    [KEY_RW] = { "redisson_rwlock", NULL },
    [KEY_SC] = { "redisson_sc", NULL },
    [KEY_PERMITS] = { "holdfast_permits", NULL },
    [KEY_TIMEOUT] = { NULL, "timeout" },
    [KEY_OPENED] = { "holdfast_opened", NULL },
};

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

size_t key_write(char *out, enum key_name which, const char *name, size_t len)
{
    static const char gate[] = "redisson_countdownlatch__channel__";
    char *at = out;
    if (which == KEY_NAME)
        return (size_t)(append(at, name, len) - out);
    if (which == KEY_GATE) {
        at = append(at, gate, sizeof(gate) - 1);
        return (size_t)(append_name(at, name, len, true) - out);
    }
    const char *before = parts[which].before, *after = parts[which].after;
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

void keys_init(struct keys *keys)
{
    keys->count = 0;
    keys->at = keys->text;
}

void keys_add(struct keys *keys, enum key_name which, const char *name, size_t len)
{
    struct resp_arg *key = &keys->key[keys->count++];
    key->text = keys->at;
    key->len = key_write(keys->at, which, name, len);
    keys->at += key->len;
}

void keys_fill(struct keys *keys, const enum key_name *list, const char *name,
               size_t len)
{
    keys_init(keys);
    for (; *list != KEY_END; list++)
        keys_add(keys, *list, name, len);
}

void keys_add_done(struct keys *keys, const char *name, size_t len,
                   const struct hf_id *id)
{
    static const char done[] = "holdfast_done:";
    struct resp_arg *key = &keys->key[keys->count++];
    char *at = append(keys->at, done, sizeof(done) - 1);
    at = append_name(at, name, len, !has_tag(name, len));
    *at++ = ':';
    hf__hex_encode(id, sizeof(*id), at);
    at += 2 * sizeof(*id);
    *key = (struct resp_arg){ keys->at, (size_t)(at - keys->at) };
    keys->at = at;
}

/* ---- Owners ---------------------------------------------------------------------- */

size_t owner_write(char out[OWNER_SIZE], enum redis_layout layout,
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

bool owner_is(const char *text, size_t len, const struct hf_id *id)
{
    char owner[OWNER_SIZE];
    enum redis_layout layout = len == OWNER_SIZE ? LAYOUT_REDISSON : LAYOUT_SIMPLE;
    return owner_write(owner, layout, id) == len && memcmp(text, owner, len) == 0;
}
