/* SPDX-License-Identifier: MIT */
/*
 * Faults inside a worker: told on its standard input, one command a line, obeyed by the
 * main thread (worker_control.c) and by whoever looks at `control`.
 *
 *   memory on|off            every allocation of the library fails
 *   memory next N            the N-th from now does, once
 *   signals on|off           a storm of signals over all threads, without SA_RESTART
 *   cancel on|off            acquires are begun and cancelled
 *   reopen                   clients are closed and opened anew
 *   fork MS                  a child that lives that long and does nothing
 *   shim OP WHAT LAST MS     OP attempt|withdraw|renew|event, WHAT lose|before|after|
 *                            delay, for calls 1 to LAST (0: all); late by MS
 *   shim off
 *   silent on|off            the shim lets nothing through
 *   failpoint N kill|stop    dies or stops at the N-th step inside file:'s guard
 *
 * `shim` and `silent` matter to stores behind the fault shim ("fault+mem:") alone.
 */
#ifndef TORTURE_CONTROL_H
#define TORTURE_CONTROL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct control {
    atomic_bool stop;    /* finish the hold and end */
    atomic_bool cancel;  /* acquires are cancelled */
    atomic_uint reopen;  /* grows: clients are to be opened anew */
    atomic_bool signals; /* a storm is on */
    atomic_uint broken;  /* things that should not have been, told on stderr */
};
extern struct control control;

/* Reads and obeys commands until `stop`, or until a file of that path exists. */
void control_run(const char *stop_path, const pthread_t *threads, size_t count);

/* ---- driver_holdfast.c, for the worker ------------------------------------------- */

/* Opens as many clients and takes as many holds as there will be, and gives all up
 * again: the library keeps such memory for the next ones. False if that failed. */
struct driver_settings;
bool holdfast_warm(const struct driver_settings *settings, size_t sharing,
                   size_t count);
/* In a forked child: is the client refused as it should be? */
bool holdfast_is_refused(void);
/* How many holders and waiters a fresh client sees; -1 if it cannot look. */
long holdfast_entries(const char *url);

#endif
