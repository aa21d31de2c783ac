/* SPDX-License-Identifier: MIT */
/*
 * The rules of a folder's queue, over a listing as the server gave it: in no order.
 *
 * The lowest number says what kind of lock the folder is.
 */
#include "queue.h"

#include <string.h>

static bool is_contender(const struct node *node)
{
    return node->form == NODE_LOCK || node->form == NODE_READ ||
           node->form == NODE_WRITE;
}

static bool name_is(const struct zk_text *name, const char *text, size_t len)
{
    return name->len == len && memcmp(name->at, text, len) == 0;
}

static bool is_family(enum layout layout, enum node_form one, enum node_form other)
{
    return layout == LAYOUT_KAZOO || (one == NODE_LOCK) == (other == NODE_LOCK);
}

struct walk {
    struct node own, lowest, nearest;
    bool any;
};

static void look_at(struct queue_view *view, struct walk *walk, enum layout layout,
                    enum node_form form, const struct hf_id *id,
                    const struct zk_text *name, size_t index)
{
    struct node node;
    hf__zk_node_parse_number(&node, layout, name->at, name->len);
    if (!is_contender(&node))
        return;
    if (!walk->any || hf__zk_node_compare(&node, &walk->lowest) < 0)
        walk->lowest = node;
    walk->any = true;
    if (index == view->own)
        return;
    if (hf__zk_node_is_of(name->at, name->len, id))
        view->extra = index;
    if (view->own != NO_NODE && hf__zk_node_compare(&node, &walk->own) > 0)
        return;
    if (form == NODE_READ && node.form == NODE_READ)
        return;
    view->blockers++;
    if (view->nearest == NO_NODE || hf__zk_node_compare(&node, &walk->nearest) > 0) {
        view->nearest = index;
        walk->nearest = node;
    }
}

void hf__zk_queue_judge(struct queue_view *view, enum layout layout,
                        enum node_form form, const char *own, size_t own_len,
                        const struct hf_id *id, const struct zk_text *names,
                        size_t count)
{
    struct walk walk = { .any = false };
    *view = (struct queue_view){ .own = NO_NODE, .nearest = NO_NODE, .extra = NO_NODE };
    for (size_t i = 0; own && i < count && view->own == NO_NODE; i++)
        if (name_is(&names[i], own, own_len))
            view->own = i;
    if (own)
        hf__zk_node_parse_number(&walk.own, layout, own, own_len);
    for (size_t i = 0; i < count; i++)
        look_at(view, &walk, layout, form, id, &names[i], i);
    view->mismatch = walk.any && !is_family(layout, form, walk.lowest.form);
}

size_t hf__zk_queue_find(enum layout layout, const struct hf_id *id,
                         const struct zk_text *names, size_t count)
{
    struct node node, best;
    size_t found = NO_NODE;
    for (size_t i = 0; i < count; i++) {
        hf__zk_node_parse_number(&node, layout, names[i].at, names[i].len);
        if (!is_contender(&node) || !hf__zk_node_is_of(names[i].at, names[i].len, id))
            continue;
        if (found == NO_NODE || hf__zk_node_compare(&node, &best) < 0) {
            found = i;
            best = node;
        }
    }
    return found;
}
