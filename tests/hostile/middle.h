/* SPDX-License-Identifier: MIT */
/*
 * A man in the middle: a TCP port on the loopback in front of a real server. What the
 * client says is passed on as it is; what the server says goes through the hooks of the
 * wire, which may pass on something else, or nothing.
 */
#ifndef HOSTILE_MIDDLE_H
#define HOSTILE_MIDDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct middle;
struct lane; /* one connection of a client, with one of the server behind it */

/* Hooks of a wire, called on the middle's thread with its lock held. */
struct middle_wire {
    /* The server said this on the lane: how many bytes were dealt with. The rest comes
     * again with what follows it. */
    size_t (*said)(void *arg, struct lane *lane, const char *data, size_t size);
    /* The client said this; NULL if that is of no interest. */
    void (*told)(void *arg, struct lane *lane, const char *data, size_t size);
};

/* `server` is the path of a unix socket, or a port of the loopback as ":2181". */
struct middle *middle_start(const char *server, const struct middle_wire *wire,
                            void *arg);
void middle_stop(struct middle *middle);
int middle_port(const struct middle *middle);

/* Around everything that the hooks use, too. */
void middle_lock(struct middle *middle);
void middle_unlock(struct middle *middle);

/* To the client. Bytes that it does not take within two seconds are lost. False: the
 * client is gone. Under the lock: in a hook, or between middle_lock and unlock. */
bool lane_say(struct lane *lane, const void *data, size_t size);
void lane_trickle(struct lane *lane, const char *data, size_t size); /* byte by byte */

/* The end of the lane, when the hook has returned: in order, or by a reset. Half: the
 * client hears that nothing more will come, and may go on talking to nobody. */
enum lane_end { LANE_CLOSE = 1, LANE_RESET, LANE_HALF };
void lane_end(struct lane *lane, enum lane_end how);

/* The newest lane that is open, NULL if there is none; its number, counted from 1. */
struct lane *middle_newest(struct middle *middle);
unsigned lane_number(const struct lane *lane);

#endif
