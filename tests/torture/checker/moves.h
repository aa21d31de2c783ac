/* SPDX-License-Identifier: MIT */
/* Adoptions and evictions beside the holds that they are about: by token. */
#ifndef CHECKER_MOVES_H
#define CHECKER_MOVES_H

#include "book.h"

bool move_did(const struct move *move); /* said "ok" */
bool move_may(const struct move *move); /* did, or may have */
/* Is it the handle that this adoption made? */
bool made_by(const struct hold *hold, const struct move *move);
/* One for each handle: of a downgraded writer, the reading half, which ends last. */
bool is_handle(const struct hold *hold);

/* Moves and holds of one lock in the order of tokens. */
struct group {
    const struct lock *lock;
    uint32_t *moves, *holds;
};

void group_make(struct group *group, const struct lock *lock);
void group_free(struct group *group);

/* Place of the first whose token is not below; what is there, NULL if it has another
 * token. */
size_t move_first(const struct group *group, uint64_t token);
size_t hold_first(const struct group *group, uint64_t token);
struct move *move_at(const struct group *group, size_t i, uint64_t token);
struct hold *hold_at(const struct group *group, size_t i, uint64_t token);

#endif
