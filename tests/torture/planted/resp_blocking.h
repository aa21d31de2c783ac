/* SPDX-License-Identifier: MIT */
/* A blocking Redis connection for locks that are wrong on purpose: it survives a server
 * that goes away, and it shares no code with the library. One thread per connection. */
#ifndef TORTURE_RESP_BLOCKING_H
#define TORTURE_RESP_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>

struct resp;

/* What the server said. */
struct reply {
    char type;      /* as on the wire (+ - : $), 'n' for nil, 0: no answer came */
    bool sent;      /* with type 0: the request may have been carried out */
    int64_t number; /* of ':' */
    char text[256]; /* of the others; a longer one is cut */
};

/* Connects when first used, and again after a failure. */
struct resp *resp_open(const char *socket_path);
void resp_close(struct resp *resp);                        /* NULL is fine */
void resp_patience(struct resp *resp, int64_t timeout_ms); /* for one answer; 1 s */

/* One command, split at its blanks; and a script with one key and two arguments. */
struct reply resp_say(struct resp *resp, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct reply resp_eval(struct resp *resp, const char *script, const char *key,
                       const char *arg, int64_t number);

bool reply_ok(const struct reply *reply);  /* +OK */
bool reply_nil(const struct reply *reply); /* nil, an answer */

#endif
