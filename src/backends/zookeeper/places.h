/* SPDX-License-Identifier: MIT */
/* What places.c (coming and going) and turns.c (whose turn it is) share. */
#ifndef HF_ZOOKEEPER_PLACES_H
#define HF_ZOOKEEPER_PLACES_H

#include "session.h"

#include <string.h>

static inline const char *node_name(const struct place *place)
{
    return place->path + place->folder_len + 1;
}

static inline void begin_turn(struct place *place, enum place_state state)
{
    place->state = state;
    place->turn++;
    place->flying = true;
}

/* False for an answer of a former turn. */
static inline bool still_due(struct place *place, uint64_t word)
{
    place->calls--;
    return (uint32_t)word == place->turn;
}

/* Nothing of the place is on the server, or under way. */
static inline void place_idle(struct place *place)
{
    place->state = PLACE_IDLE;
    place->turn++;
    place->flying = false;
}

static inline void join(const struct place *place, char *path, const char *name,
                        size_t len)
{
    memmove(path, place->path, place->folder_len);
    path[place->folder_len] = '/';
    memcpy(path + place->folder_len + 1, name, len);
    path[place->folder_len + 1 + len] = '\0';
}

/* The folder's path needs a NUL of its own while that of the node goes on behind it. */
static inline const char *folder_open(struct place *place)
{
    place->path[place->folder_len] = '\0';
    return place->path;
}

static inline void folder_shut(struct place *place)
{
    place->path[place->folder_len] = '/';
}

/* Something of ours is or may be on the server, and we are stuck; see place_up(). */
void place_pause(struct zk_session *me, struct place *place, const hf_error *why);

/* It is our turn: tells the user, so this comes last. */
void place_in(struct zk_session *me, struct place *place, int64_t since_ns);

zk_done place_listed; /* the answer to a listing: in, or whom to wait for */

#endif
