/* SPDX-License-Identifier: MIT */
/*
 * Other processes: exclusion between them, and every way in which one can end.
 *
 * The other side is the taker program. Who waits in this process waits once in a
 * blocking call and once through a callback, because the two sleep in different places.
 */
#include <stdio.h>

#include "contract.h"

static void processes_exclude(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    CHECK_BUSY(e, client, .rival = true);
    taker_say(taker, "release");
    taker_expect(taker, "done");

    hf_hold *hold = held(e, client, .rival = true);
    taker_say(taker, "take %s " THING " 0 %lld 0", e->form->name,
              (long long)e->form->ttl_ms);
    CHECK_TEXT(taker_expect(taker, "failed"), "HF_EBUSY");
    let_go(hold);
}

static void process_release_wakes(struct env *e)
{
    struct contender waiter;
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    contend(&waiter, e, client, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, client, 1));
    taker_say(taker, "release");
    taker_expect(taker, "done");
    CHECK_RC(contender_join(&waiter), 0);

    taker_begin(e, taker, THING, HF_FOREVER, 0, 0);
    EVENTUALLY(queued(e, client, 1));
    let_go(waiter.hold);
    taker_expect(taker, "held");
    CHECK_BUSY(e, client, .rival = true);
}

/* ---- The end of a holder --------------------------------------------------------- */

typedef void taker_end(struct taker *taker);

static void end_by_exit(struct taker *taker)
{
    taker_say(taker, "exit");
    taker_gone(taker);
}

static void end_by_close(struct taker *taker)
{
    taker_say(taker, "close");
    taker_expect(taker, "closed");
}

/* Two waiters, one after the other: each sees one holder end. */
static void holder_ends(struct env *e, taker_end *end)
{
    struct taker *takers[2];
    struct contender waiter;
    struct told told = { 0 };
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    takers[0] = taker_start(e, NULL);
    takers[1] = taker_start(e, NULL);

    taker_take(e, takers[0], THING, 0, 0, 0);
    contend(&waiter, e, a, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, b, 1));
    end(takers[0]);
    CHECK_RC(contender_join(&waiter), 0);
    let_go(waiter.hold);

    taker_take(e, takers[1], THING, 0, 0, 0);
    begin(e, b, told_hold, &told, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, a, 1));
    end(takers[1]);
    EVENTUALLY(atomic_load(&told.ended) == 1);
    CHECK_RC(told.rc, 0);
    let_go(told.hold);
}

static void holder_exits(struct env *e)
{
    holder_ends(e, end_by_exit);
}

static void holder_closes(struct env *e)
{
    holder_ends(e, end_by_close);
}

static void holder_is_killed(struct env *e)
{
    holder_ends(e, taker_kill);
}

/* Nobody waits when it happens: who comes later finds the lock free. */
static void holder_is_killed_unseen(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    CHECK_BUSY(e, client, .rival = true);
    taker_kill(taker);
    hf_hold *hold = held(e, client, .rival = true, .timeout = PATIENCE_MS);
    let_go(hold);
}

/* It sleeps in the middle of its work; without a lease the lock is still its own. */
static void stopped_holder_keeps(struct env *e)
{
    hf_hold *hold = NULL;
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    taker_stop(taker);
    CHECK_BUSY(e, client, .rival = true);
    CHECK_RC(take(e, client, &hold, .rival = true, .timeout = 20), HF_ETIMEOUT);
    taker_continue(taker);
    taker_say(taker, "release");
    taker_expect(taker, "done");
    let_go(held(e, client, .rival = true));
}

/* ---- The end of a waiter --------------------------------------------------------- */

static void waiter_is_killed(struct env *e)
{
    struct taker *takers[3];
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .rival = true);
    for (size_t i = 0; i < 3; i++) {
        takers[i] = taker_start(e, NULL);
        taker_begin(e, takers[i], THING, HF_FOREVER, 0, 0);
        EVENTUALLY(queued(e, client, i + 1));
    }
    taker_kill(takers[0]);
    taker_kill(takers[1]);
    let_go(hold);
    taker_expect(takers[2], "held");
    taker_say(takers[2], "release");
    taker_expect(takers[2], "done");
    let_go(held(e, client, .rival = true, .timeout = PATIENCE_MS));
}

/* The first waiter and the holder die together; the second waiter is served. */
static void holder_and_waiter_are_killed(struct env *e)
{
    struct taker *takers[2];
    struct contender waiter;
    hf_client *client = client_open(e);
    takers[0] = taker_start(e, NULL);
    takers[1] = taker_start(e, NULL);
    taker_take(e, takers[0], THING, 0, 0, 0);
    taker_begin(e, takers[1], THING, HF_FOREVER, 0, 0);
    if (e->form->code == HF_READ)
        taker_expect(takers[1], "held");
    else
        EVENTUALLY(queued(e, client, 1));
    size_t before = seen(e, client, HF_WAITER);
    contend(&waiter, e, client, .rival = true, .timeout = HF_FOREVER);
    EVENTUALLY(queued(e, client, before + 1));
    taker_kill(takers[1]);
    taker_kill(takers[0]);
    CHECK_RC(contender_join(&waiter), 0);
    let_go(waiter.hold);
}

/* ---- A crowd of processes -------------------------------------------------------- */

#define CROWD 8
#define ROUNDS 40

static void eight_processes(struct env *e)
{
    struct taker *takers[CROWD];
    char path[256];
    snprintf(path, sizeof path, "%s/guarded", e->scratch);
    struct guarded *guarded = guarded_map(path);
    ballast_ensure(e, THING);
    for (size_t i = 0; i < CROWD; i++)
        takers[i] = taker_start(e, NULL);
    for (size_t i = 0; i < CROWD; i++)
        taker_say(takers[i], "work %s " THING " %d %s", e->form->name, ROUNDS, path);
    for (size_t i = 0; i < CROWD; i++)
        taker_expect(takers[i], "worked");
    CHECK_EQ(guarded->violations, 0);
    CHECK_EQ(guarded->count, CROWD * ROUNDS);
    guarded_unmap(guarded);
}

const struct scenario scenarios_process[] = {
    { "processes-exclude", LOCKS, HF_CAP_PROCESSES, 0, processes_exclude },
    { "process-release-wakes", LOCKS, HF_CAP_PROCESSES | HF_CAP_INSPECT, 0,
      process_release_wakes },
    { "holder-exits", LOCKS, HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0,
      holder_exits },
    { "holder-closes", LOCKS, HF_CAP_PROCESSES | HF_CAP_INSPECT, 0, holder_closes },
    { "holder-is-killed", LOCKS, HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0,
      holder_is_killed },
    { "holder-is-killed-unseen", LOCKS, HF_CAP_PROCESSES | HF_CAP_CRASH, 0,
      holder_is_killed_unseen },
    { "stopped-holder-keeps", LOCKS, HF_CAP_PROCESSES, 0, stopped_holder_keeps },
    { "waiter-is-killed", LOCKS, HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0,
      waiter_is_killed },
    { "holder-and-waiter-are-killed", LOCKS,
      HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0,
      holder_and_waiter_are_killed },
    { "eight-processes", EXCLUSIVE, HF_CAP_PROCESSES, 0, eight_processes },
    { NULL, 0, 0, 0, NULL },
};
