/* SPDX-License-Identifier: MIT */
/* How replies of redis are spoiled: the table is in redis_spoils.c, the doing in
 * redis_wire.c. */
#ifndef HOSTILE_REDIS_WIRE_H
#define HOSTILE_REDIS_WIRE_H

#include "hostile.h"

enum how {
    AS_NUMBER, /* the text where a number or a word was */
    AS_VALUE,  /* the text as a whole value */
    BEFORE,    /* the text, then the value */
    BULK,      /* text of that many bytes */
    NESTED,    /* that deep */
    DEEP_OPEN, /* headers alone */
    SHORTER,
    EMPTIED,
    LONGER,
    MANY,
    LOST, /* from here on: the reply as a whole */
    TWICE,
    TRICKLED,
    HALF_AND_CLOSE,
    HALF_AND_RESET,
    HALF_AND_SILENCE,
    HALF_CLOSED,
    CLOSED,
    RESET,
    WITHOUT_END,
};

extern const struct spoil redis_spoils[]; /* ended by a NULL name */

#endif
