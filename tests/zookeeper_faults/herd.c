/* SPDX-License-Identifier: MIT */
/*
 * What the server has to do for a lock that no other client wants: three requests for
 * each acquire and release. And long queues. A thousand waiters on one name: a release
 * wakes one of them. Counted by the server, in packets received and sent; for
 * comparison the same with layout=single, where each release wakes them all. Then
 * faults in a queue: waiters that give up, die or are deleted, a reply or an event that
 * is lost.
 */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THING "thing"
#define CLIENTS 50
#define WAITERS 1000
#define HANDOVERS 200

/* From who lets go to who has it: the release and its answer, the end of the node, the
 * listing and its answer. Also counted is a ping now and then. */
#define PACKETS_MAX 5
#define PACKETS_BESIDES 0.1

#define HERD_SESSION_MS 30000 /* no session is to end here */

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

/* Packets for each of `count` hand-overs behind the first ones, in hundredths. All wait
 * when the server has so many watches. */
static int64_t herd_measure(struct herd *herd, const char *more, int64_t watches,
                            int first, int count)
{
    for (size_t i = 0; i < CLIENTS; i++)
        herd->clients[i] = opened(more);
    herd_join(herd, 0);
    EVENTUALLY(atomic_load(&herd->granted) == 1);
    for (size_t i = 0; i < herd->count; i++)
        herd_join(herd, i);
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") >= watches);
    for (int i = 0; i < first; i++)
        hand_over(herd);
    int64_t before = packets();
    for (int i = 0; i < count; i++)
        hand_over(herd);
    int64_t after = packets();
    int64_t looking = packets() - after;
    int64_t each = (after - before - looking) * 100 / count;
    CHECK_EQ(atomic_load(&herd->granted), first + count + 1);
    atomic_store(&herd->ending, true);
    hf_release(atomic_exchange(&herd->hold, NULL), NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        hf_close(herd->clients[i]);
    check_nothing_left();
    return each;
}

/* Create, list and delete, and their answers. */
static void alone_again(void)
{
    enum { TURNS = 100 };
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    hf_client *client = opened("");
    int64_t since = real_ms();
    CHECK_RC(hf_release(locked(client, THING), NULL), 0);
    int64_t before = packets();
    for (int i = 0; i < TURNS; i++)
        CHECK_RC(hf_release(locked(client, THING), NULL), 0);
    int64_t spent = packets() - before;
    CHECK(spent >= 6 * TURNS);
    CHECK(spent < 7 * TURNS);
    hf_close(client);
    check_nothing_left();
    report("alone, again and again", real_ms() - since, "%lld packets for %d turns",
           (long long)spent, TURNS);
}

static void thousand_waiters(void)
{
    struct herd herd = { .count = WAITERS };
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    int64_t since = real_ms();
    int64_t each = herd_measure(&herd, "", WAITERS, 1, HANDOVERS);
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
    int64_t each = herd_measure(&herd, "&layout=single", CLIENTS - 1, 1, 5);
    CHECK(each > CLIENTS * 100);
    report("the same with layout=single", real_ms() - since, "%lld packets each",
           (long long)each / 100);
}

/* ---- Gaps and cuts --------------------------------------------------------------- */

/* One who waits, or holds. */
struct entrant {
    hf_client *client;
    hf_op *op;
    _Atomic(hf_hold *) hold;
};

/* The first ones, enough for a long queue; behind them, those that a case is about. */
#define EARLY 16
#define LATE 6
static struct entrant early[EARLY], late[LATE];

static void entrant_told(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    (void)why;
    if (rc == 0)
        atomic_store(&((struct entrant *)user)->hold, hold);
}

static void entrant_join(struct entrant *entrant, hf_client *client)
{
    hf_want want = hf_mutex(THING);
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    options.ttl_ms = HERD_SESSION_MS;
    atomic_store(&entrant->hold, NULL);
    entrant->client = client;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, entrant_told, entrant,
                              &entrant->op, NULL),
             0);
}

static void entrant_leave(struct entrant *entrant, int wanted)
{
    CHECK_RC(hf_release(atomic_exchange(&entrant->hold, NULL), NULL), wanted);
    hf_op_free(entrant->op);
}

static void early_join(hf_client *client)
{
    for (int i = 0; i < EARLY; i++)
        entrant_join(&early[i], client);
    EVENTUALLY(contenders(THING) == EARLY);
}

static struct entrant *early_holder(void)
{
    for (int i = 0; i < EARLY; i++)
        if (atomic_load(&early[i].hold))
            return &early[i];
    return NULL;
}

/* One after the other, in whatever order they came. */
static void early_leave(void)
{
    struct entrant *holder = NULL;
    for (int i = 0; i < EARLY; i++) {
        EVENTUALLY((holder = early_holder()));
        for (int k = 0; k < LATE; k++)
            CHECK(!atomic_load(&late[k].hold));
        entrant_leave(holder, 0);
    }
}

static void late_join(int number, hf_client *client)
{
    entrant_join(&late[number], client);
    EVENTUALLY(contenders(THING) == EARLY + number + 1);
}

/* It has the name, and none of the others has. */
static void check_served(int number)
{
    EVENTUALLY(atomic_load(&late[number].hold));
    CHECK_EQ(hf_hold_state(atomic_load(&late[number].hold)), HF_HELD);
    for (int i = 0; i < LATE; i++)
        CHECK(i == number || !atomic_load(&late[i].hold));
}

struct nodes {
    char names[EARLY + LATE][128];
    int count;
};

static bool name_kept(void *arg, const char *name)
{
    struct nodes *nodes = arg;
    snprintf(nodes->names[nodes->count++], sizeof nodes->names[0], "%s", name);
    return nodes->count < EARLY + LATE;
}

static int by_number(const void *one, const void *other)
{
    const char *a = one, *b = other;
    return strcmp(a + strlen(a) - 10, b + strlen(b) - 10);
}

/* The node behind so many others, and its owner. */
static int64_t node_behind(struct zkraw *raw, int others, char path[200])
{
    struct nodes nodes = { .count = 0 };
    struct zkraw_stat stat;
    zkraw_children(raw, "/" THING, name_kept, &nodes);
    CHECK(nodes.count > others);
    qsort(nodes.names, (size_t)nodes.count, sizeof nodes.names[0], by_number);
    snprintf(path, 200, "/" THING "/%s", nodes.names[others]);
    CHECK_EQ(zkraw_exists(raw, path, &stat), 0);
    return stat.owner;
}

/* Number 1 gives up, 2 loses its session and comes again behind all others, the node of
 * 4 is deleted by hand, which it sees when it looks: then it comes again, too. */
static void gaps_make(void)
{
    char path[200];
    struct zkraw *raw = zkraw_open(world.zoo.node[0].port, 10000);
    int64_t session = node_behind(raw, EARLY + 2, path);
    node_behind(raw, EARLY + 4, path);
    CHECK_EQ(zkraw_delete(raw, path), 0);
    hf_op_cancel(late[1].op);
    EVENTUALLY(zkraw_children(raw, "/" THING, NULL, NULL) == EARLY + LATE - 2);
    zkraw_expire(world.zoo.node[0].port, session);
    EVENTUALLY(zkraw_children(raw, "/" THING, NULL, NULL) == EARLY + LATE - 2 &&
               node_behind(raw, EARLY + LATE - 3, path) != session &&
               zkraw_exists(raw, path, NULL) == 0);
    zkraw_close(raw);
}

static void gaps(void)
{
    hf_client *clients[LATE];
    world_start(1);
    hf_client *first = opened("");
    early_join(first);
    for (int i = 0; i < LATE; i++)
        late_join(i, clients[i] = opened(""));
    gaps_make();
    int64_t since = real_ms();
    early_leave();
    const int order[] = { 0, 3, 5, 2, 4 }; /* 2 came again first, then 4 */
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        check_served(order[i]);
        entrant_leave(&late[order[i]], 0);
    }
    hf_op_free(late[1].op);
    for (int i = 0; i < LATE; i++)
        hf_close(clients[i]);
    hf_close(first);
    check_nothing_left();
    report("long queue: some quit, die, are deleted", real_ms() - since,
           "in turn; deleted: at the end of the queue");
}

/* The node of the waiter right behind the holder is deleted by hand. When the holder
 * leaves, the waiter is told so, but the next one behind it has the lock by then. */
static void next_deleted(void)
{
    char path[200];
    hf_client *clients[3];
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    for (int i = 0; i < 3; i++) {
        entrant_join(&late[i], clients[i] = opened(""));
        EVENTUALLY(contenders(THING) == i + 1);
        EVENTUALLY(i > 0 || atomic_load(&late[0].hold));
        EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") == i);
    }
    struct zkraw *raw = zkraw_open(world.zoo.node[0].port, 10000);
    node_behind(raw, 1, path);
    CHECK_EQ(zkraw_delete(raw, path), 0);
    zkraw_close(raw);
    int64_t since = real_ms();
    entrant_leave(&late[0], 0);
    EVENTUALLY(contenders(THING) == 2); /* the waiter has come again */
    check_served(2);
    entrant_leave(&late[2], 0);
    check_served(1);
    entrant_leave(&late[1], 0);
    for (int i = 0; i < 3; i++)
        hf_close(clients[i]);
    check_nothing_left();
    report("the next one's node is deleted", real_ms() - since,
           "the one behind it; deleted: at the end");
}

/* One hands over to another one, and the replies to one of the two are cut; or with -1
 * nothing is, and the bytes of reply are counted. */
static int64_t handed_over(bool cut_next, int64_t bytes)
{
    hf_client *first = opened(""), *a = cut_next ? opened("") : opened_through("");
    hf_client *b = cut_next ? opened_through("") : opened("");
    early_join(first);
    late_join(0, a);
    late_join(1, b);
    /* Each but the first one watches the one before it. */
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") == EARLY + 1);
    early_leave();
    check_served(0);
    proxy_mode(world.proxy, bytes < 0 ? PROXY_PASS : PROXY_CUT, bytes);
    entrant_leave(&late[0], 0);
    check_served(1);
    int64_t said = (int64_t)proxy_count(world.proxy).said;
    CHECK_EQ(contenders(THING), 1);
    entrant_leave(&late[1], 0);
    EVENTUALLY(contenders(THING) <= 0);
    EVENTUALLY(zookeeper_number(&world.zoo, 0, "watch_count") == 0);
    hf_close(first);
    hf_close(a);
    hf_close(b);
    return said;
}

static void hand_over_cut(bool cut_next, const char *fault)
{
    int64_t longest = 0;
    world_start(1);
    world.session_ms = HERD_SESSION_MS;
    hf_close(opened_through("")); /* so that there is a proxy */
    int64_t whole = handed_over(cut_next, -1);
    CHECK(whole > 16);
    for (int64_t bytes = 0; bytes <= whole; bytes += bytes < 24 ? 1 : 7) {
        int64_t since = real_ms();
        handed_over(cut_next, bytes);
        longest = real_ms() - since > longest ? real_ms() - since : longest;
    }
    check_nothing_left();
    report(fault, longest, "0, and the next one has it");
}

static void release_cut(void)
{
    hand_over_cut(false, "reply to a hand-over cut after n bytes");
}

static void event_cut(void)
{
    hand_over_cut(true, "event of a hand-over cut after n bytes");
}

const struct fault_case herd_cases[] = {
    { "alone-again", alone_again },
    { "thousand-waiters", thousand_waiters },
    { "thousand-waiters-on-one-node", thousand_waiters_on_one_node },
    { "long-queue-gaps", gaps },
    { "next-one-deleted", next_deleted },
    { "long-queue-reply-cut", release_cut },
    { "long-queue-event-cut", event_cut },
    { NULL, NULL },
};
