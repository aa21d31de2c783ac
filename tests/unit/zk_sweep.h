/* SPDX-License-Identifier: MIT */
/*
 * A scene of two clients, run once for each request of the first one, to which one
 * fault happens (zk_tree.h): its connection ends before the server has carried it out,
 * or after; the session ends with it; the server has just removed every empty folder;
 * an allocation fails. After each round nothing may be left on the server and no memory
 * in the process, and a hold may have been lost only with its session.
 */
#ifndef HF_TESTS_ZK_SWEEP_H
#define HF_TESTS_ZK_SWEEP_H

#include "zk_tree.h"

extern struct fake_host sweep_a, sweep_b;
extern bool sweep_ended; /* the fault of this round ends the session */
extern bool sweep_short; /* the fault of this round is an allocation that fails */

void sweep(const char *options, void (*scene)(void));
/* Without a fault the first client sends these requests: a letter for each, as
 * tree.asked_by_first has them. */
void sweep_asks(const char *options, void (*scene)(void), const char *letters);

/* The lock is got. */
void sweep_hold(struct fake_host *host, struct hf_ticket *ticket);
/* It is given back; of the first client it may have gone with the session. */
void sweep_leave(struct fake_host *host, struct hf_ticket *ticket);

/* One for each client. */
extern struct hf_ticket sweep_one, sweep_two;
void sweep_tickets(int kind, uint32_t permits, uint32_t limit);

/* Scenes with these tickets. */
void sweep_take_and_leave(void);
void sweep_wait_and_take(void);
void sweep_try_and_fail(void);
void sweep_wait_and_give_up(void);
void sweep_forget(void);

#endif
