/* SPDX-License-Identifier: MIT */
/*
 * Names and paths: pure functions, no session.
 *
 * A name is written byte by byte; a '/' inside it stays a '/', so that folders nest as
 * the names do. Encoded are: '%'; a '/' at either end or after another one; the dots of
 * a component "." or ".."; the first letter of "zookeeper" in front, which is the
 * server's own; characters from U+E000 on, of which the server refuses many; and the
 * last digit of a component that looks like a node of a queue. hf__zk_folder_read()
 * decodes and then checks that the decoded name has this path: so the pair is injective
 * by construction. A flat path has all its slashes encoded.
 */
#include "names.h"

#include "../../base/text.h"

#include <string.h>

enum { NUMBER_DIGITS = 10, ID_DIGITS = 32 };

/* ---- Nodes ----------------------------------------------------------------------- */

/* The text right before the number. As in Curator, the last occurrence counts, and what
 * comes before it does not matter. */
struct form_text {
    enum node_form form;
    const char *text;
};

static const struct form_text curator_forms[] = {
    { NODE_LOCK, "lock-" },   { NODE_READ, "__READ__" }, { NODE_WRITE, "__WRIT__" },
    { NODE_LEASE, "lease-" }, { NODE_OTHER, NULL },
};

static const struct form_text kazoo_forms[] = {
    { NODE_LOCK, "__lock__" },
    { NODE_READ, "__rlock__" },
    { NODE_OTHER, NULL },
};

/* Digits at the end of the name, with a minus in front of a number that wrapped. */
static size_t number_length(const char *name, size_t len)
{
    if (len < NUMBER_DIGITS)
        return 0;
    for (size_t i = len - NUMBER_DIGITS; i < len; i++)
        if (name[i] < '0' || name[i] > '9')
            return 0;
    return NUMBER_DIGITS;
}

static bool ends_with(const char *name, size_t len, const char *text)
{
    size_t size = strlen(text);
    return len >= size && memcmp(name + len - size, text, size) == 0;
}

static enum node_form form_before(const struct form_text *forms, const char *name,
                                  size_t len)
{
    for (; forms->text; forms++)
        if (ends_with(name, len, forms->text))
            return forms->form;
    return NODE_OTHER;
}

/* Where the digits of an id would begin. */
static size_t id_start(const char *name, size_t len)
{
    return len >= 3 && memcmp(name, "_c_", 3) == 0 ? 3 : 0;
}

/* 32 hex digits, with or without the dashes of a uuid, from the front of the name. */
static bool id_read(const char *name, size_t len, struct hf_id *id)
{
    char hex[ID_DIGITS];
    size_t count = 0, start = id_start(name, len);
    name += start;
    len -= start;
    for (size_t i = 0; i < len && count < ID_DIGITS; i++) {
        bool dash = name[i] == '-' && (i == 8 || i == 13 || i == 18 || i == 23);
        if (!dash)
            hex[count++] = name[i];
    }
    return count == ID_DIGITS && hf__hex_decode(hex, id, sizeof(*id));
}

bool hf__zk_node_is_of(const char *name, size_t len, const struct hf_id *id)
{
    struct hf_id found;
    unsigned char first;
    size_t start = id_start(name, len);
    if (len < start + 2 || !hf__hex_decode(name + start, &first, 1) ||
        first != *(const unsigned char *)id)
        return false; /* most of them */
    return id_read(name, len, &found) && memcmp(&found, id, sizeof(found)) == 0;
}

void hf__zk_node_parse(struct node *node, enum layout layout, const char *name,
                       size_t len)
{
    hf__zk_node_parse_number(node, layout, name, len);
    node->has_id = id_read(name, len, &node->id);
}

void hf__zk_node_parse_number(struct node *node, enum layout layout, const char *name,
                              size_t len)
{
    const struct form_text *forms =
        layout == LAYOUT_KAZOO ? kazoo_forms : curator_forms;
    size_t digits = number_length(name, len);
    *node = (struct node){ .form = NODE_OTHER };
    if (!digits)
        return;
    node->form = form_before(forms, name, len - digits);
    /* "lock--2147483648" is a number below zero, "x-lock-0000000001" is not. */
    if (node->form == NODE_OTHER && len > digits && name[len - digits - 1] == '-') {
        node->form = form_before(forms, name, len - digits - 1);
        digits += node->form != NODE_OTHER;
    }
    node->number = name + len - digits;
    node->number_len = digits;
}

int hf__zk_node_compare(const struct node *a, const struct node *b)
{
    size_t shorter = a->number_len < b->number_len ? a->number_len : b->number_len;
    int order = memcmp(a->number, b->number, shorter);
    if (order == 0 && a->number_len != b->number_len)
        order = a->number_len < b->number_len ? -1 : 1;
    return order;
}

void hf__zk_uuid_write(char out[UUID_SIZE], const struct hf_id *id)
{
    static const unsigned char parts[] = { 8, 4, 4, 4, 12 };
    char hex[ID_DIGITS];
    const char *from = hex;
    hf__hex_encode(id, sizeof(*id), hex);
    for (size_t i = 0; i < sizeof(parts); i++) {
        memcpy(out, from, parts[i]);
        from += parts[i];
        out += parts[i];
        if (i + 1 < sizeof(parts))
            *out++ = '-';
    }
}

static const char *form_text(enum layout layout, enum node_form form)
{
    const struct form_text *forms =
        layout == LAYOUT_KAZOO ? kazoo_forms : curator_forms;
    if (layout == LAYOUT_KAZOO && form == NODE_WRITE)
        form = NODE_LOCK;
    for (; forms->text; forms++)
        if (forms->form == form)
            return forms->text;
    return NULL;
}

size_t hf__zk_node_name_write(char out[NODE_SIZE], enum layout layout,
                              enum node_form form, const struct hf_id *id)
{
    const char *text = form_text(layout, form);
    char *at = out;
    if (text && layout == LAYOUT_KAZOO) {
        hf__hex_encode(id, sizeof(*id), at);
        at += ID_DIGITS;
    } else if (text) {
        memcpy(at, "_c_", 3);
        hf__zk_uuid_write(at + 3, id);
        at[3 + UUID_SIZE] = '-';
        at += 3 + UUID_SIZE + 1;
    }
    if (text) {
        memcpy(at, text, strlen(text));
        at += strlen(text);
    }
    *at = '\0';
    return (size_t)(at - out);
}

/* ---- Paths ----------------------------------------------------------------------- */

static char *encode_byte(char *at, unsigned char byte)
{
    static const char digits[] = "0123456789ABCDEF";
    *at++ = '%';
    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

/* Which bytes of a component must be encoded, besides '%' and high characters. */
struct component {
    const char *text;
    size_t len;
    bool dots, first, last; /* all of it; its first byte; its last byte */
};

static void component_judge(struct component *part, const char *name, size_t left,
                            bool front)
{
    struct node node;
    part->text = name;
    part->len = 0;
    while (part->len < left && name[part->len] != '/')
        part->len++;
    part->dots = (part->len == 1 && name[0] == '.') ||
                 (part->len == 2 && name[0] == '.' && name[1] == '.');
    part->first = front && part->len == 9 && memcmp(name, "zookeeper", 9) == 0;
    hf__zk_node_parse_number(&node, LAYOUT_CURATOR, name, part->len);
    part->last = node.form != NODE_OTHER;
    hf__zk_node_parse_number(&node, LAYOUT_KAZOO, name, part->len);
    part->last |= node.form != NODE_OTHER;
}

static char *component_write(const struct component *part, char *at)
{
    bool high = false;
    for (size_t i = 0; i < part->len; i++) {
        unsigned char byte = (unsigned char)part->text[i];
        if ((byte & 0xc0) != 0x80)
            high = byte >= 0xee;
        if (byte == '%' || high || part->dots || (part->first && i == 0) ||
            (part->last && i + 1 == part->len))
            at = encode_byte(at, byte);
        else
            *at++ = (char)byte;
    }
    return at;
}

static size_t path_write(char out[FOLDER_SIZE], const char *name, size_t len, bool flat)
{
    char *at = out;
    *at++ = '/';
    for (size_t i = 0; i < len;) {
        struct component part;
        if (name[i] == '/') {
            if (flat || i == 0 || i + 1 == len || name[i - 1] == '/')
                at = encode_byte(at, '/');
            else
                *at++ = '/';
            i++;
            continue;
        }
        component_judge(&part, name + i, len - i, i == 0);
        at = component_write(&part, at);
        i += part.len;
    }
    *at = '\0';
    return (size_t)(at - out);
}

size_t hf__zk_folder_write(char out[FOLDER_SIZE], const char *name, size_t len)
{
    return path_write(out, name, len, false);
}

size_t hf__zk_flat_path_write(char out[FOLDER_SIZE], const char *name, size_t len)
{
    return path_write(out, name, len, true);
}

static bool decode_byte(const char *path, size_t left, char *ret_byte)
{
    return left >= 3 && hf__hex_decode(path + 1, ret_byte, 1);
}

static bool is_path_of(const char *path, size_t path_len, const char *name, size_t len,
                       bool flat)
{
    char again[FOLDER_SIZE];
    return path_write(again, name, len, flat) == path_len &&
           memcmp(again, path, path_len) == 0;
}

bool hf__zk_folder_read(const char *path, size_t len, char out[HF_NAME_MAX + 1],
                        size_t *ret_len)
{
    size_t size = 0;
    if (len < 2 || path[0] != '/')
        return false;
    for (size_t i = 1; i < len; i++) {
        if (size == HF_NAME_MAX)
            return false;
        out[size] = path[i];
        if (path[i] == '%' && !decode_byte(path + i, len - i, &out[size]))
            return false;
        i += path[i] == '%' ? 2 : 0;
        size++;
    }
    out[size] = '\0';
    *ret_len = size;
    return is_path_of(path, len, out, size, false) ||
           is_path_of(path, len, out, size, true);
}
