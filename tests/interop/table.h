/* SPDX-License-Identifier: MIT */
/*
 * The witness of a contention: one file that all contenders write while they hold the
 * lock, with no lock of its own. 20 digits of a counter, a blank, 20 digits of the last
 * fencing token, a newline, then one digit per seat.
 *
 * Who is let in sits down (writes its weight on its seat), then adds up all seats: more
 * than the lock allows means that somebody is in who must not be. The last one to sit
 * down sees all others, so no overlap that began after sitting down goes unseen. Those
 * who are alone also count the counter up and check that tokens grow. Seats are
 * cleared before the release.
 */
#ifndef HF_INTEROP_TABLE_H
#define HF_INTEROP_TABLE_H

#include <stdint.h>

struct table {
    int fd;
    int seat;
    int weight;
    int room; /* sum of weights that may sit at once */
    long wrong;
};

/* The weight of KIND: 9 of 9 for those who are alone, 1 of 9 for readers, K of LIMIT
 * for permits. 0, or -23 if the file cannot be opened. */
int table_open(struct table *table, const char *kind, const char *path, int seat);
void table_sit(struct table *table, uint64_t token);
void table_rise(struct table *table);
void table_done(struct table *table);

#endif
