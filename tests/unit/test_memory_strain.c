/* SPDX-License-Identifier: MIT */
/*
 * The mem store alone, under load: many names, no memory, random steps compared with a
 * model of queues, and two threads that compete for one lock.
 */
#include "memory_space.h"

#include <stdio.h>

#include "../../src/kit/admit.h"

static char many_text[1000][HF_NAME_MAX + 1];
static struct hf_ticket many[1000];

START_TEST(many_names_of_all_lengths)
{
    const size_t count = sizeof many / sizeof many[0];

    space_open();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < count; i++) {
            snprintf(many_text[i], sizeof many_text[i], "%0*zu", (int)(1 + i), i);
            many[i] = fake_ticket(many_text[i], HF_MUTEX);
            grant(a, &many[i]);
        }
        for (size_t i = 0; i < count; i++) {
            struct hf_ticket tries = fake_ticket(many_text[i], HF_MUTEX);
            tries.flags = HF_TICKET_TRY;
            ck_assert_int_eq(fake_try(b, &tries).what, FAKE_BUSY);
        }
        for (size_t i = 0; i < count; i++)
            leave(a, &many[i]);
    }
    space_close();
}
END_TEST

START_TEST(names_may_share_a_hash)
{
    struct hf_ticket first = fake_ticket("first", HF_MUTEX);
    struct hf_ticket other = fake_ticket("other", HF_MUTEX);

    space_open();
    other.name_hash = first.name_hash;
    grant(a, &first);
    grant(b, &other);
    leave(a, &first);
    leave(b, &other);
    space_close();
}
END_TEST

START_TEST(without_memory_nothing_is_left_behind)
{
    char long_name[200];
    uint64_t version = 0;

    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    space_open();
    for (uint64_t nth = 2; nth >= 1; nth--) {
        struct hf_ticket ticket = fake_ticket(long_name, HF_MUTEX);
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(fake_try(a, &ticket).code, HF_ENOMEM);
        hf__mem_fail(0, 0);
        ck_assert_int_eq(fake_withdraw(a, &ticket), HF_GONE);
        grant(b, &ticket);
        leave(b, &ticket);
    }
    for (uint64_t nth = 1; nth <= 2; nth++) {
        hf__mem_fail(nth, 0);
        ck_assert_int_eq(cell_set(a, &version, "A"), HF_ENOMEM);
        hf__mem_fail(0, 0);
    }
    ck_assert_int_eq(cell_set(a, &version, "A"), 0);
    hf__mem_fail(1, 0);
    ck_assert_int_eq(ask(a, HF_INSPECT, "cell", 0), HF_ENOMEM);
    hf__mem_fail(0, 0);
    space_close();
}
END_TEST

/* The model: one array of tickets in order of arrival per name, and the admission rule
 * walked from the front. */
#define TICKETS 24
#define NAMES 4
#define STEPS 20000

static struct {
    struct hf_ticket ticket;
    int host;
    int name; /* -1: idle */
    bool held;
    uint64_t token;
} players[TICKETS];
static int queues[NAMES][TICKETS], queue_len[NAMES];
static uint64_t last_token[NAMES]; /* the largest of a grant that ended */

static void model_remove(int player)
{
    int name = players[player].name, *line = queues[name], at = 0;

    while (line[at] != player)
        at++;
    memmove(&line[at], &line[at + 1],
            (size_t)(queue_len[name] - at - 1) * sizeof line[0]);
    queue_len[name]--;
    uint64_t last = players[player].token + players[player].ticket.reserve - 1;
    if (players[player].held && last > last_token[name])
        last_token[name] = last;
    players[player].name = -1;
    players[player].held = false;
}

static bool model_in(int name, int player)
{
    struct hf_tally ahead = { 0 };

    for (int i = 0; queues[name][i] != player; i++) {
        const struct hf_ticket *other = &players[queues[name][i]].ticket;
        hf__tally_add(&ahead, other->kind, other->permits);
    }
    return hf__admit(&ahead, players[player].ticket.kind,
                     players[player].ticket.permits,
                     players[player].ticket.limit) == HF_IN;
}

static void player_granted(int player, uint64_t token)
{
    int name = players[player].name;

    ck_assert_int_ge(name, 0);
    ck_assert(!players[player].held);
    ck_assert_uint_gt(token, last_token[name]);
    players[player].held = true;
    players[player].token = token;
}

/* Tickets that fit are admitted, and tokens grow along the queue. */
static void player_check(int name, int player, int before)
{
    ck_assert_int_eq(players[player].held, model_in(name, player));
    if (before >= 0 && players[player].held)
        ck_assert_uint_ge(players[player].token,
                          players[before].token + players[before].ticket.reserve);
}

static void model_compare(void)
{
    for (int i = 0; i < HOSTS; i++) {
        while (!fake_quiet(&hosts[i])) {
            struct fake_answer answer = fake_next(&hosts[i]);
            int player = 0;
            ck_assert_int_eq(answer.what, FAKE_GRANTED);
            while (answer.about != &players[player].ticket)
                player++;
            player_granted(player, answer.grant.token);
        }
    }
    for (int name = 0; name < NAMES; name++)
        for (int i = 0; i < queue_len[name]; i++)
            player_check(name, queues[name][i], i ? queues[name][i - 1] : -1);
}

static void player_join(int player, uint64_t *random)
{
    static const char *const texts[NAMES] = { "mutex", "rw", "permits", "expiring" };
    int name = (int)unit_below(random, NAMES), n = (int)unit_below(random, 3);
    int kinds[NAMES] = { HF_MUTEX + n, n ? HF_READ : HF_WRITE, HF_PERMITS,
                         HF_EXPIRING };
    uint32_t limit = name < 2 ? 1 : 3;

    players[player].ticket = fake_permits(
        texts[name], kinds[name], name == 2 ? 1 + unit_below(random, 3) : 1, limit);
    players[player].ticket.flags = unit_below(random, 4) ? 0 : HF_TICKET_TRY;
    players[player].ticket.reserve = 1 + unit_below(random, 4);
    players[player].host = (int)unit_below(random, HOSTS);
    players[player].name = name;
    queues[name][queue_len[name]++] = player;

    struct fake_answer answer =
        fake_try(&hosts[players[player].host], &players[player].ticket);
    bool in = model_in(name, player);
    bool tries = players[player].ticket.flags & HF_TICKET_TRY;
    ck_assert_int_eq(answer.what, in ? FAKE_GRANTED : tries ? FAKE_BUSY : FAKE_QUEUED);
    if (in)
        player_granted(player, answer.grant.token);
    else if (tries)
        model_remove(player);
}

static void player_move(int player, uint64_t *random)
{
    struct hf_ticket *ticket = &players[player].ticket;
    struct fake_host *host = &hosts[players[player].host];
    uint32_t dice = unit_below(random, 8);

    if (dice == 0 && players[player].held) {
        ck_assert_int_eq(ask(a, HF_EVICT, ticket->name, players[player].token), 0);
        model_remove(player);
        ck_assert_int_eq(fake_withdraw(host, ticket), HF_GONE);
    } else if (dice == 1 && players[player].held && ticket->kind == HF_WRITE) {
        ck_assert_int_eq(downgrade(host, ticket), 0);
        ticket->kind = HF_READ;
    } else if (dice == 2) {
        ck_assert_int_eq(fake_try(host, ticket).what,
                         players[player].held ? FAKE_GRANTED : FAKE_QUEUED);
    } else {
        leave(host, ticket);
        model_remove(player);
    }
}

START_TEST(the_store_does_what_the_model_does)
{
    uint64_t random = 0x5eed;

    space_open();
    for (int i = 0; i < TICKETS; i++)
        players[i].name = -1;
    for (int step = 0; step < STEPS; step++) {
        int player = (int)unit_below(&random, TICKETS);
        if (players[player].name < 0)
            player_join(player, &random);
        else
            player_move(player, &random);
        model_compare();
    }
    space_close();
}
END_TEST

#define ROUNDS 2000

static long guarded;

static void *fight(void *arg)
{
    struct fake_host *own = calloc(1, sizeof(*own));

    (void)arg;
    fake_open(own, &hf__backend_memory, "mem:test", NULL);
    for (int i = 0; i < ROUNDS; i++) {
        struct hf_ticket ticket = fake_ticket("n", HF_MUTEX);
        struct fake_answer answer = fake_try(own, &ticket);
        if (answer.what == FAKE_QUEUED)
            fake_expect_grant(own, &ticket);
        guarded++;
        leave(own, &ticket);
    }
    fake_close(own);
    free(own);
    return NULL;
}

START_TEST(threads_exclude_each_other)
{
    pthread_t other;

    guarded = 0;
    ck_assert_int_eq(pthread_create(&other, NULL, fight, NULL), 0);
    fight(NULL);
    pthread_join(other, NULL);
    ck_assert_int_eq(guarded, 2 * ROUNDS);
}
END_TEST

UNIT_MAIN("memory_strain", many_names_of_all_lengths, names_may_share_a_hash,
          without_memory_nothing_is_left_behind, the_store_does_what_the_model_does,
          threads_exclude_each_other)
