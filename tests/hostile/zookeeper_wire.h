/* SPDX-License-Identifier: MIT */
/* How replies of zookeeper are spoiled: the table is in zookeeper_spoils.c, the doing
 * in zookeeper_wire.c. */
#ifndef HOSTILE_ZOOKEEPER_WIRE_H
#define HOSTILE_ZOOKEEPER_WIRE_H

#include "hostile.h"

enum how {
    AS_NUMBER, /* into a field of four or eight bytes */
    AS_DIGITS, /* ten characters */
    AS_LENGTH, /* of the frame */
    CUT,       /* so many bytes less, with the right length */
    GROWN,     /* so many more */
    NAMES,     /* a list of so many children */
    LOST,      /* from here on: the reply as a whole */
    TWICE,
    TRICKLED,
    HALF_AND_CLOSE,
    HALF_AND_RESET,
    HALF_AND_SILENCE,
    HALF_CLOSED,
    CLOSED,
    RESET,
    EVENT_BEFORE,
    REPLY_BEFORE,
    ZEROS_BEFORE,
};

extern const struct spoil zookeeper_spoils[]; /* ended by a NULL name */

#endif
