/* SPDX-License-Identifier: MIT */
/* The witness file of table.h. Every read and write goes straight to the file. */
#include "table.h"

#include "../../include/holdfast.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD 42
#define SEATS 16

static void weigh(struct table *table, const char *kind)
{
    table->weight = table->room = 9;
    if (strcmp(kind, "read") == 0)
        table->weight = 1;
    if (strncmp(kind, "permits:", 8) == 0)
        sscanf(kind, "permits:%d:%d", &table->weight, &table->room);
    if (sscanf(kind, "expiring:%d", &table->room) == 1)
        table->weight = 1;
}

int table_open(struct table *table, const char *kind, const char *path, int seat)
{
    memset(table, 0, sizeof *table);
    table->seat = seat;
    weigh(table, kind);
    table->fd = open(path, O_RDWR | O_CLOEXEC);
    return table->fd < 0 ? HF_ESYSTEM : 0;
}

static void seat_write(struct table *table, int weight)
{
    char digit = (char)('0' + weight);

    if (pwrite(table->fd, &digit, 1, HEAD + table->seat) != 1)
        table->wrong++;
}

static int seats_sum(struct table *table)
{
    char seats[SEATS];
    ssize_t got = pread(table->fd, seats, SEATS, HEAD);
    int sum = 0;

    for (ssize_t i = 0; i < got; i++)
        sum += seats[i] - '0';
    return sum;
}

static void head_write(struct table *table, uint64_t token)
{
    char head[HEAD + 1] = "";
    unsigned long long count, last;

    if (pread(table->fd, head, HEAD, 0) != HEAD)
        table->wrong++;
    count = strtoull(head, NULL, 10);
    last = strtoull(head + 21, NULL, 10);
    if (token <= last)
        table->wrong++;
    snprintf(head, sizeof head, "%020llu %020llu\n", count + 1,
             (unsigned long long)token);
    if (pwrite(table->fd, head, HEAD, 0) != HEAD)
        table->wrong++;
}

void table_sit(struct table *table, uint64_t token)
{
    seat_write(table, table->weight);
    if (seats_sum(table) > table->room)
        table->wrong++;
    if (table->weight == table->room)
        head_write(table, token);
}

void table_rise(struct table *table)
{
    if (seats_sum(table) > table->room)
        table->wrong++;
    seat_write(table, 0);
}

void table_done(struct table *table)
{
    if (table->fd >= 0)
        close(table->fd);
}
