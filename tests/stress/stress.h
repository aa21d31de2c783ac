/* SPDX-License-Identifier: MIT */
/* What the stress programs share: TAP, options, random numbers, a private directory,
 * and a watchdog that turns a hang into a failure with a name. */
#ifndef STRESS_H
#define STRESS_H

#include <holdfast.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stress_options {
    int seconds;
    int rounds;
    int processes;
    int threads;
    bool no_lock; /* the positive control: the checks have to find something */
};

/* --seconds N --rounds N --processes N --threads N --no-lock; what is not given keeps
 * its value. Leaves with code 2 on anything else. */
void stress_options(int argc, char **argv, struct stress_options *options);

/* One line of TAP each; tap_ok returns `good`. Any thread may call them. */
bool tap_ok(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void tap_bail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int tap_done(void); /* prints the plan; the program's exit code */

/* Bails out, naming the program's last note, if the program still runs by then. 0 ends
 * it. */
void watchdog(int seconds);

/* A private directory, removed with all it holds. */
void scratch_make(char *path, size_t size);
void scratch_remove(const char *path);

int64_t real_ms(void);

/* xorshift: the state is the caller's and must not be 0. */
uint32_t random_below(uint64_t *state, uint32_t limit);
void spin(uint32_t turns);

/* Opens or bails out. */
hf_client *open_or_bail(const char *url, const hf_options *options);
/* Entries of all names, or -1. */
int entries_seen(hf_client *client);

#endif
