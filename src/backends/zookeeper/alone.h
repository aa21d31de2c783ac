/* SPDX-License-Identifier: MIT */
/*
 * Who was alone in a folder, and comes back: no listing needed.
 *
 * A folder counts its creates, and the count is the number of the next child. If our
 * node n was its only child, and has gone, and our next one is n + 1, then nobody has
 * come between: it is the only child again, by the answer to its create alone.
 *
 * A folder that was removed and made anew begins to count at 0, though, and may be at
 * n + 1 again by the work of others. That takes n + 3 transactions of theirs: one to
 * remove it, one to make it, n + 1 to fill it. All transactions of an ensemble have one
 * count as well, so it is known that there were fewer. (A tool that would do all this
 * in one multi is the exception that is not covered; no lock does.)
 *
 * What is known of a folder is kept in a table of the session, and the ticket's hint,
 * which core hands on to the next one of the same name, says where.
 */
#ifndef HF_ZOOKEEPER_ALONE_H
#define HF_ZOOKEEPER_ALONE_H

#include <stdbool.h>
#include <stdint.h>

enum { ALONE_SLOTS = 256 };

/* A node that was the only child of its folder. */
struct alone {
    int64_t number; /* behind its name; -1: not known */
    int64_t czxid;
};

struct alone_table {
    uint64_t serial; /* of the last one noted */
    struct {
        uint64_t hint;
        struct alone node;
    } slots[ALONE_SLOTS];
};

/* A hint to find it by: never below ALONE_SLOTS. */
static inline uint64_t alone_note(struct alone_table *table, const struct alone *node)
{
    uint64_t hint = ALONE_SLOTS + table->serial++;
    table->slots[hint % ALONE_SLOTS].hint = hint;
    table->slots[hint % ALONE_SLOTS].node = *node;
    return hint;
}

/* False if others have been noted in its place since. */
static inline bool alone_find(const struct alone_table *table, uint64_t hint,
                              struct alone *ret_node)
{
    if (hint < ALONE_SLOTS || table->slots[hint % ALONE_SLOTS].hint != hint)
        return false;
    *ret_node = table->slots[hint % ALONE_SLOTS].node;
    return true;
}

/* `last` was the only child, and has gone: is `next` the only one now? Two of the
 * transactions in between are the end of `last` and the create of `next`. */
static inline bool alone_again(const struct alone *last, const struct alone *next)
{
    return last->number >= 0 && next->number == last->number + 1 &&
           next->czxid > last->czxid &&
           next->czxid - last->czxid - 2 < last->number + 3;
}

#endif
