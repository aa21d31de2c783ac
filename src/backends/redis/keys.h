/* SPDX-License-Identifier: MIT */
/*
 * The names of keys and channels, as Redisson derives them from the name of a lock:
 * `prefix:{name}` or `{name}:suffix`. No braces are added if the name contains a brace;
 * keys that only holdfast uses then get a second colon. docs/backends/redis.md lists
 * all keys.
 */
#ifndef HF_REDIS_KEYS_H
#define HF_REDIS_KEYS_H

#include "../../../include/holdfast/backend.h"
#include "resp.h"

enum { KEYS_MAX = 12, KEY_SIZE = HF_NAME_MAX + 64, OWNER_SIZE = 38 };

/* The keys of one script call, in the order in which the script expects them. */
struct keys {
    size_t count;
    struct resp_arg key[KEYS_MAX];
    char *at;
    char text[KEYS_MAX * KEY_SIZE];
};

enum key_name {
    KEY_NAME,     /* the name itself */
    KEY_TOKEN,    /* redisson_lock_token:{name} */
    KEY_INFO,     /* holdfast_info:{name} */
    KEY_QUEUE,    /* holdfast_queue:{name} */
    KEY_FAIR,     /* redisson_lock_queue:{name} */
    KEY_PATIENCE, /* redisson_lock_timeout:{name} */
    KEY_CHANNEL,  /* redisson_lock__channel:{name} */
    KEY_RW,       /* redisson_rwlock:{name}, a channel */
    KEY_SC,       /* redisson_sc:{name}, a channel */
    KEY_PERMITS,  /* holdfast_permits:{name} */
    KEY_TIMEOUT,  /* {name}:timeout */
    KEY_OPENED,   /* holdfast_opened:{name} */
    KEY_GATE,     /* redisson_countdownlatch__channel__{name}, a channel */
    KEY_END,
};

void hf__redis_keys_init(struct keys *keys);
void hf__redis_keys_add(struct keys *keys, enum key_name which, const char *name,
                        size_t len);
/* All of `list`, which ends with KEY_END. */
void hf__redis_keys_fill(struct keys *keys, const enum key_name *list, const char *name,
                         size_t len);

/* `which` of `name`, written to `out` (KEY_SIZE bytes are enough). */
size_t hf__redis_key_write(char *out, enum key_name which, const char *name,
                           size_t len);

/* The name of which this is the INFO key; false if it is not an INFO key. */
bool hf__redis_key_parse(const char *key, size_t len, struct resp_arg *ret_name);

/* holdfast_done:{name}:<hex of id>: the answer to the change with this id. */
void hf__redis_keys_add_done(struct keys *keys, const char *name, size_t len,
                             const struct hf_id *id);

enum redis_layout { LAYOUT_REDISSON, LAYOUT_SIMPLE };

/* Whether a lock of this kind (0: any kind) may have the name: HF_EINVAL if the name is
 * a key of another name, or shares keys with another name. */
int hf__redis_name_check(enum redis_layout layout, int kind, const char *name,
                         size_t len, hf_error *why);

/* The owner of a ticket: as Redisson writes owners (a UUID, a colon, a thread), or the
 * value of a simple lock, 32 hex digits. Written to `out`, and its length. */
size_t hf__redis_owner_write(char out[OWNER_SIZE], enum redis_layout layout,
                             const struct hf_id *id);
bool hf__redis_owner_is(const char *text, size_t len, const struct hf_id *id);

#endif
