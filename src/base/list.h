/* SPDX-License-Identifier: MIT */
/* Circular doubly linked list, embedded in what it links. A zeroed link is in no list;
 * removing it is harmless, and so is removing twice. */
#ifndef HF_BASE_LIST_H
#define HF_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct hf_link {
    struct hf_link *prev, *next;
};

#define HF_CONTAINER(pointer, type, member)                                            \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* clang-format off */
/* for (HF_EACH(link, &list)): the body must not remove `link`. */
#define HF_EACH(link, list)                                                            \
    struct hf_link *link = (list)->next; link != (list); link = link->next

/* The same, and the body may remove (or free) `link`, but not the one after it. */
#define HF_EACH_SAFE(link, list)                                                       \
    struct hf_link *link = (list)->next, *link##_next = link->next; link != (list);    \
    link = link##_next, link##_next = link->next
/* clang-format on */

static inline void hf__list_init(struct hf_link *list)
{
    list->prev = list->next = list;
}

static inline bool hf__list_empty(const struct hf_link *list)
{
    return list->next == list;
}

static inline bool hf__linked(const struct hf_link *link)
{
    return link->next != NULL;
}

static inline void hf__list_insert_before(struct hf_link *at, struct hf_link *link)
{
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

static inline void hf__list_push_back(struct hf_link *list, struct hf_link *link)
{
    hf__list_insert_before(list, link);
}

static inline void hf__list_push_front(struct hf_link *list, struct hf_link *link)
{
    hf__list_insert_before(list->next, link);
}

static inline void hf__list_remove(struct hf_link *link)
{
    if (!link->next)
        return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/* First element, or NULL. */
static inline struct hf_link *hf__list_first(const struct hf_link *list)
{
    return list->next == list ? NULL : list->next;
}

#endif
