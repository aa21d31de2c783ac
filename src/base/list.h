/* SPDX-License-Identifier: MIT */
/* A circular doubly linked list, embedded in its elements. A zeroed node is in no list;
 * to remove it is harmless, and so is to remove it twice. */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hf_list_node {
    struct hf_list_node *prev, *next;
};

#define HF_CONTAINER(pointer, type, member)                                            \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* clang-format off */
/* for (HF_EACH(node, &list)): the body must not remove `node`. */
#define HF_EACH(node, list)                                                            \
    struct hf_list_node *node = (list)->next; node != (list); node = node->next

/* The same, and the body may remove (or free) `node`, but not the one after it. */
#define HF_EACH_SAFE(node, list)                                                       \
    struct hf_list_node *node = (list)->next, *node##_next = node->next;               \
    node != (list);                                                                    \
    node = node##_next, node##_next = node->next
/* clang-format on */

static inline void hf__list_init(struct hf_list_node *list)
{
    list->prev = list->next = list;
}

static inline bool hf__list_empty(const struct hf_list_node *list)
{
    return list->next == list;
}

static inline bool hf__list_linked(const struct hf_list_node *node)
{
    return node->next != NULL;
}

static inline void hf__list_insert_before(struct hf_list_node *at,
                                          struct hf_list_node *node)
{
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}

static inline void hf__list_push_back(struct hf_list_node *list,
                                      struct hf_list_node *node)
{
    hf__list_insert_before(list, node);
}

static inline void hf__list_push_front(struct hf_list_node *list,
                                       struct hf_list_node *node)
{
    hf__list_insert_before(list->next, node);
}

static inline void hf__list_remove(struct hf_list_node *node)
{
    if (!node->next)
        return;
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->prev = node->next = NULL;
}

/* First element, or NULL. */
static inline struct hf_list_node *hf__list_first(const struct hf_list_node *list)
{
    return list->next == list ? NULL : list->next;
}

#endif
