/* SPDX-License-Identifier: MIT */
/* Checks of a scenario. A scenario is a process: the first check that fails says where
 * and why on standard output and ends it, from whatever thread it runs on. */
#ifndef HARNESS_CHECK_H
#define HARNESS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#define CHECK(condition)                                                               \
    ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, "%s", #condition))

/* An HF_E... code or 0, named in the message. */
#define CHECK_RC(call, code) check_rc(__FILE__, __LINE__, #call, (call), (code))

#define CHECK_EQ(left, right)                                                          \
    check_equal(__FILE__, __LINE__, #left " == " #right, (int64_t)(left),              \
                (int64_t)(right))

#define CHECK_TEXT(left, right)                                                        \
    check_text(__FILE__, __LINE__, #left " == " #right, (left), (right))

/* Waits for a condition that another thread or process brings about; fails the scenario
 * when patience ends. The only way in which a scenario waits for something to have
 * happened, besides calls that wait by themselves. */
#define EVENTUALLY(condition)                                                          \
    for (struct patience patience_ = { 0 }; !(condition);                              \
         patience_try(&patience_, __FILE__, __LINE__, #condition))

struct patience {
    int64_t since_ms;
};

_Noreturn void check_failed(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void check_rc(const char *file, int line, const char *call, int rc, int code);
void check_equal(const char *file, int line, const char *text, int64_t left,
                 int64_t right);
void check_text(const char *file, int line, const char *text, const char *left,
                const char *right);
void patience_try(struct patience *patience, const char *file, int line,
                  const char *condition);

/* Real milliseconds, whatever the virtual clock says; for limits and stop watches. */
int64_t real_ms(void);

/* How long a scenario waits for anything before it calls it a hang. */
#define PATIENCE_MS 60000

#endif
