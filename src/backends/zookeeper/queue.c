/* SPDX-License-Identifier: MIT */
/*
 * The rules of a folder's queue, applied to a listing, which has no order.
 *
 * The lowest number decides which kind of lock the folder serves.
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

struct scan {
    struct node own, lowest, nearest;
    bool any;
};

static void look_at(struct queue_view *view, struct scan *scan, enum layout layout,
                    enum node_form form, const struct hf_id *id,
                    const struct zk_text *name, size_t index)
{
    struct node node;
    hf__zk_node_parse_number(&node, layout, name->at, name->len);
    if (!is_contender(&node))
        return;
    if (!scan->any || hf__zk_node_compare(&node, &scan->lowest) < 0)
        scan->lowest = node;
    scan->any = true;
    if (index == view->own)
        return;
    if (hf__zk_node_is_of(name->at, name->len, id))
        view->extra = index;
    if (view->own != NO_NODE && hf__zk_node_compare(&node, &scan->own) > 0)
        return;
    if (form == NODE_READ && node.form == NODE_READ)
        return;
    view->blockers++;
    if (view->nearest == NO_NODE || hf__zk_node_compare(&node, &scan->nearest) > 0) {
        view->nearest = index;
        scan->nearest = node;
    }
}

void hf__zk_queue_judge(struct queue_view *view, enum layout layout,
                        enum node_form form, const char *own, size_t own_len,
                        const struct hf_id *id, const struct zk_text *names,
                        size_t count)
{
    struct scan scan = { .any = false };
    *view = (struct queue_view){ .own = NO_NODE, .nearest = NO_NODE, .extra = NO_NODE };
    for (size_t i = 0; own && i < count && view->own == NO_NODE; i++)
        if (name_is(&names[i], own, own_len))
            view->own = i;
    if (own)
        hf__zk_node_parse_number(&scan.own, layout, own, own_len);
    for (size_t i = 0; i < count; i++)
        look_at(view, &scan, layout, form, id, &names[i], i);
    view->mismatch = scan.any && !is_family(layout, form, scan.lowest.form);
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
