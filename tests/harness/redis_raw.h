/* SPDX-License-Identifier: MIT */
/* A second opinion on a Redis server: a blocking connection to its unix socket that
 * shares no code with the library. A server that does not answer ends the test. */
#ifndef HARNESS_REDIS_RAW_H
#define HARNESS_REDIS_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw;

struct raw *raw_open(const char *socket_path);
struct raw *raw_open_quietly(const char *socket_path); /* NULL: nobody listens */
void raw_close(struct raw *raw);                       /* NULL is fine */

/*
 * One command. The reply as text, valid until the next call: the values of an array
 * one per line, "(nil)" for nil, and an error with the '-' before it. raw_say() splits
 * what the format makes at its blanks.
 */
const char *raw_call(struct raw *raw, const char *const *args, size_t count);
const char *raw_say(struct raw *raw, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t raw_number(struct raw *raw, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sends without reading the reply; raw_read() reads the next one. So that two commands
 * run one after the other with nothing between them. */
void raw_send(struct raw *raw, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *raw_read(struct raw *raw);

/* Calls `each` with every key of the database (SCAN) until it says false. */
void raw_keys(struct raw *raw, bool (*each)(void *arg, const char *key), void *arg);

/* How many connections the server has besides this one. */
size_t raw_others(struct raw *raw);

#endif
