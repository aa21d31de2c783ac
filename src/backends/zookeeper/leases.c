/* SPDX-License-Identifier: MIT */
/*
 * How a semaphore is laid out on the server: see leases.h. No session, no requests.
 */
#include "leases.h"

#include "../../base/mem.h"
#include "../../base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hf__zk_lease_folders_write(struct lease_folders *folders, enum layout layout,
                                int32_t kind, const char *name, size_t len)
{
    char path[FOLDER_SIZE];
    size_t room = hf__zk_folder_write(path, name, len) + 32;
    const char *under = kind == HF_EXPIRING ? FOLDER_EXPIRING : "";
    folders->name = hf__alloc(4 * room);
    if (!folders->name)
        return false;
    folders->base = folders->name + room;
    folders->locks = folders->base + room;
    folders->leases = folders->locks + room;
    snprintf(folders->name, room, "%s", path);
    snprintf(folders->base, room, "%s%s", path, under);
    if (layout == LAYOUT_KAZOO) {
        snprintf(folders->locks, room, "%s%s-__lock__", path, under);
        snprintf(folders->leases, room, "%s%s", path, under);
    } else {
        snprintf(folders->locks, room, "%s%s" FOLDER_LOCKS, path, under);
        snprintf(folders->leases, room, "%s%s" FOLDER_LEASES, path, under);
    }
    return true;
}

uint32_t hf__zk_lease_node_count(uint32_t permits)
{
    return permits <= LEASE_NODES ? permits : 1;
}

/* ---- Names ----------------------------------------------------------------------- */

static void kazoo_name(char out[NODE_SIZE], const struct hf_id *id, uint32_t permits,
                       uint32_t index)
{
    char hex[2 * sizeof(*id) + 1] = "";
    hf__hex_encode(id, sizeof(*id), hex);
    if (permits > LEASE_NODES)
        snprintf(out, NODE_SIZE, "%s-x%u", hex, permits);
    else if (index > 0)
        snprintf(out, NODE_SIZE, "%s-%u", hex, index);
    else
        snprintf(out, NODE_SIZE, "%s", hex);
}

void hf__zk_lease_name_write(char out[NODE_SIZE], enum layout layout,
                             const struct hf_id *id, uint32_t permits, uint32_t index)
{
    char uuid[UUID_SIZE], heavy[16] = "";
    if (layout == LAYOUT_KAZOO) {
        kazoo_name(out, id, permits, index);
        return;
    }
    hf__zk_uuid_write(uuid, id);
    if (permits > LEASE_NODES)
        snprintf(heavy, sizeof(heavy), "-x%u", permits);
    snprintf(out, NODE_SIZE, "_c_%.*s%s-lease-", UUID_SIZE, uuid, heavy);
}

/* The number behind "-x" at the end of the id; 1 if there is none. */
static uint32_t weight_behind(const struct zk_text *name, size_t at)
{
    char digits[12] = "";
    if (name->len < at + 3 || name->at[at] != '-' || name->at[at + 1] != 'x')
        return 1;
    for (size_t i = 0; i + 1 < sizeof(digits) && at + 2 + i < name->len; i++) {
        char c = name->at[at + 2 + i];
        if (c < '0' || c > '9')
            break;
        digits[i] = c;
    }
    uint64_t number = strtoull(digits, NULL, 10);
    return number > 0 && number <= UINT32_MAX ? (uint32_t)number : 1;
}

/* Curator counts every child of the folder of leases, so holdfast does too. In kazoo's
 * layout there may be folders of longer names among them. */
uint32_t hf__zk_lease_weight(enum layout layout, const struct zk_text *name)
{
    struct node node;
    hf__zk_node_parse(&node, layout, name->at, name->len);
    if (layout != LAYOUT_KAZOO)
        return node.has_id ? weight_behind(name, 3 + UUID_SIZE) : 1;
    return node.has_id && node.form == NODE_OTHER ? weight_behind(name, 32) : 0;
}

/* ---- The limit ------------------------------------------------------------------- */

static const char *limit_words(enum layout layout, int32_t kind)
{
    if (layout == LAYOUT_KAZOO)
        return "";
    return kind == HF_EXPIRING ? "holdfast expiring limit=" : "holdfast permits limit=";
}

enum limit_state hf__zk_limit_read(enum layout layout, int32_t kind,
                                   const struct zk_text *data, uint32_t *ret_limit)
{
    char text[LIMIT_SIZE];
    uint64_t number;
    const char *words = limit_words(layout, kind);
    size_t skip = strlen(words);
    if (data->len == 0)
        return LIMIT_NONE;
    if (data->len >= sizeof(text) || data->len <= skip ||
        memcmp(data->at, words, skip) != 0)
        return LIMIT_FOREIGN;
    memcpy(text, data->at, data->len);
    text[data->len] = '\0';
    if (!hf__text_number(text + skip, UINT32_MAX, &number))
        return LIMIT_FOREIGN;
    *ret_limit = (uint32_t)number;
    return LIMIT_THERE;
}

size_t hf__zk_limit_write(char out[LIMIT_SIZE], enum layout layout, int32_t kind,
                          uint32_t limit)
{
    return (size_t)snprintf(out, LIMIT_SIZE, "%s%u", limit_words(layout, kind), limit);
}
