/* SPDX-License-Identifier: MIT */
/*
 * A thousand waiters on one name: a release wakes one of them. Counted by the server,
 * in packets that it got and sent; and beside it the same with layout=single, where
 * each release wakes them all.
 */
#include "cases.h"

#include <stdlib.h>

#define THING "thing"
#define CLIENTS 50
#define WAITERS 1000
#define HANDOVERS 200

/* From who lets go to who has it: the release, the event, a look and its answer. Also
 * counted are the answer to the release, and now and then a ping. */
#define PACKETS_MAX 4
#define PACKETS_BESIDES 1.25

#define HERD_SESSION_MS 30000 /* nobody is to be lost here */

struct herd {
    hf_client *clients[CLIENTS];
    size_t count;
    atomic_int granted;
    atomic_bool ending;
    _Atomic(hf_hold *) hold; /* of the last one */
};

static void herd_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct herd *herd = user;
    (void)why;
    if (rc != 0 || atomic_load(&herd->ending))
        return; /* closed while it waited, or soon */
    CHECK(atomic_exchange(&herd->hold, hold) == NULL);
    atomic_fetch_add(&herd->granted, 1);
}

static void herd_join(struct herd *herd, size_t number)
{
    hf_want want = hf_mutex(THING);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = HERD_SESSION_MS;
    CHECK_RC(hf_acquire_async(herd->clients[number % CLIENTS], &want, 1, &options,
                              herd_told, herd, NULL, NULL),
             0);
}

static int64_t packets(void)
{
    return zookeeper_number(&world.zoo, 0, "packets_received") +
           zookeeper_number(&world.zoo, 0, "packets_sent");
}

/* One lets go, and one other has it. */
static void hand_over(struct herd *herd)
{
    int before = atomic_load(&herd->granted);
    hf_hold *hold = atomic_exchange(&herd->hold, NULL);
    CHECK_RC(hf_release(hold, NULL), 0);
    EVENTUALLY(atomic_load(&herd->granted) == before + 1);
}

/* Packets for each of `count` hand-overs, in hundredths. All wait when the server has
 * so many watches. */
static int64_t herd_measure(struct herd *herd, const char *more, int64_t watches,
                            int count)
{
    for (size_t i = 0; i < CLIENTS; i++)
        herd->clients[i] = opened(more);
    herd_join(herd, 0);
    EVENTUALLY(atomic_load(&herd->granted) == 1);
    for (size_t i = 0; i < herd->count; i++)
        herd_join(herd, i);
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") >= watches);
    hand_over(herd); /* the first one pays for looks of the beginning */
    int64_t before = packets();
    for (int i = 0; i < count; i++)
        hand_over(herd);
    int64_t each = (packets() - before) * 100 / count;
    CHECK_EQ(atomic_load(&herd->granted), count + 2);
    atomic_store(&herd->ending, true);
    hf_release(atomic_exchange(&herd->hold, NULL), NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        hf_close(herd->clients[i]);
    check_nothing_left();
    return each;
}

static void thousand_waiters(void)
{
    struct herd herd = { .count = WAITERS };
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    int64_t since = real_ms();
    int64_t each = herd_measure(&herd, "", WAITERS, HANDOVERS);
    if ((double)each / 100 > PACKETS_MAX + PACKETS_BESIDES)
        check_failed(__FILE__, __LINE__, "a hand-over costs %d packets (all: %.2f)",
                     PACKETS_MAX, (double)each / 100);
    report("1,000 waiters, a release", real_ms() - since,
           "%lld.%02lld packets, all in all", (long long)each / 100,
           (long long)each % 100);
}

/* One node, which every client watches. */
static void thousand_waiters_on_one_node(void)
{
    struct herd herd = { .count = WAITERS };
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    int64_t since = real_ms();
    int64_t each = herd_measure(&herd, "&layout=single", CLIENTS - 1, 5);
    CHECK(each > CLIENTS * 100);
    report("the same with layout=single", real_ms() - since, "%lld packets each",
           (long long)each / 100);
}

const struct fault_case herd_cases[] = {
    { "thousand-waiters", thousand_waiters },
    { "thousand-waiters-on-one-node", thousand_waiters_on_one_node },
    { NULL, NULL },
};
