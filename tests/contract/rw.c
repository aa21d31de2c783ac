/* SPDX-License-Identifier: MIT */
/*
 * Read and write: many readers or one writer, in the order of their coming, and the way
 * down from write to read.
 */
#include <stdlib.h>

#include "../harness/faults.h"
#include "contract.h"

/* Longer than the names that a client keeps for the next time. */
#define LONG_NAME                                                                      \
    "a/name/that/is/longer/than/the/hundred-and-twenty-eight/bytes/up/to/which/a/"     \
    "client/keeps/what/it/knows/about/a/name/after/the/last/hold/of/it/has/gone"

static hf_hold *want_held(hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    CHECK_RC(hf_acquire(client, &want, 1, NULL, &hold, NULL), 0);
    return hold;
}

static void want_busy(hf_client *client, hf_want want)
{
    hf_hold *hold = NULL;
    CHECK_RC(hf_acquire(client, &want, 1, NULL, &hold, NULL), HF_EBUSY);
}

static hf_op *want_begun(hf_client *client, hf_want want)
{
    hf_op *op = NULL;
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    CHECK_RC(hf_acquire_async(client, &want, 1, &options, NULL, NULL, &op, NULL), 0);
    return op;
}

static hf_hold *op_held(hf_op *op)
{
    hf_hold *hold = NULL;
    CHECK_RC(op_end(op, HF_FOREVER, &hold), 0);
    return hold;
}

/* ---- Readers --------------------------------------------------------------------- */

static void readers_share(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *readers[4];
    for (int i = 0; i < 4; i++)
        readers[i] = want_held(i % 2 ? a : b, hf_read(THING));
    CHECK_EQ(seen(e, a, HF_HOLDER), 4);
    for (int i = 0; i < 4; i++) {
        want_busy(a, hf_write(THING));
        want_busy(b, hf_write(THING));
        let_go(readers[i]);
    }
    let_go(want_held(a, hf_write(THING)));
}

static void writer_waits_for_last_reader(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *none = NULL;
    hf_hold *readers[3];
    for (int i = 0; i < 3; i++)
        readers[i] = want_held(i % 2 ? a : b, hf_read(THING));
    hf_op *writer = want_begun(b, hf_write(THING));
    EVENTUALLY(queued(e, a, 1));
    for (int i = 0; i < 3; i++) {
        CHECK_RC(hf_op_wait(writer, 5, &none, NULL), HF_ETIMEOUT);
        CHECK(!hf_op_done(writer));
        let_go(readers[i]);
    }
    let_go(op_held(writer));
}

static void waiting_writer_blocks_readers(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *reader = want_held(clients[0], hf_read(THING));
    hf_op *writer = want_begun(clients[1], hf_write(THING));
    EVENTUALLY(queued(e, clients[0], 1));
    want_busy(clients[2], hf_read(THING));
    hf_op *late = want_begun(clients[2], hf_read(THING));
    EVENTUALLY(queued(e, clients[0], 2));
    let_go(reader);
    hf_hold *hold = op_held(writer);
    CHECK(!hf_op_done(late));
    let_go(hold);
    let_go(op_held(late));
}

/* The way is free again when the writer has given up. */
static void writer_gives_up(struct env *e)
{
    hf_client *clients[3] = { client_open(e), client_open(e), client_open(e) };
    hf_hold *none = NULL;
    hf_hold *reader = want_held(clients[0], hf_read(THING));
    hf_op *writer = want_begun(clients[1], hf_write(THING));
    EVENTUALLY(queued(e, clients[0], 1));
    hf_op *late = want_begun(clients[2], hf_read(THING));
    EVENTUALLY(queued(e, clients[0], 2));
    hf_op_cancel(writer);
    CHECK_RC(op_end(writer, HF_FOREVER, &none), HF_ECANCELLED);
    let_go(op_held(late));
    let_go(reader);
}

/* All readers behind one writer come in together. */
static void readers_enter_together(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *holds[5];
    hf_op *ops[5];
    hf_hold *writer = want_held(a, hf_write(THING));
    for (int i = 0; i < 5; i++)
        ops[i] = want_begun(i % 2 ? a : b, hf_read(THING));
    let_go(writer);
    for (int i = 0; i < 5; i++)
        holds[i] = op_held(ops[i]);
    for (int i = 0; i < 5; i++)
        CHECK_EQ(hf_hold_state(holds[i]), HF_HELD);
    want_busy(b, hf_write(THING));
    for (int i = 0; i < 5; i++)
        let_go(holds[i]);
}

static void killed_reader_frees_writer(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, 0, 0);
    hf_hold *mine = want_held(client, hf_read(THING));
    hf_op *writer = want_begun(client, hf_write(THING));
    EVENTUALLY(queued(e, client, 1));
    let_go(mine);
    taker_kill(taker);
    let_go(op_held(writer));
}

/* ---- A crowd --------------------------------------------------------------------- */

struct crowd {
    hf_client *clients[3];
    struct guarded readers;
    struct guarded writers;
};

static void crowd_member(void *arg, size_t number)
{
    struct crowd *crowd = arg;
    hf_client *client = crowd->clients[number % 3];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.timeout_ms = HF_FOREVER;
    for (size_t i = 0; i < 20; i++) {
        bool writes = (number + i) % 4 == 0;
        hf_want want = writes ? hf_write(THING) : hf_read(THING);
        hf_hold *hold = NULL;
        CHECK_RC(hf_acquire(client, &want, 1, &options, &hold, NULL), 0);
        if (writes) {
            CHECK_EQ(crowd->readers.inside, 0);
            guarded_visit(&crowd->writers, hf_hold_token(hold, 0));
        } else {
            guarded_enter(&crowd->readers);
            CHECK_EQ(crowd->writers.inside, 0);
            guarded_leave(&crowd->readers);
        }
        let_go(hold);
    }
}

static void readers_and_writers(struct env *e)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    CHECK(crowd != NULL);
    for (size_t i = 0; i < 3; i++)
        crowd->clients[i] = client_open(e);
    threads_run(12, crowd_member, crowd);
    CHECK_EQ(crowd->writers.violations, 0);
    CHECK_EQ(crowd->writers.count, 12 * 20 / 4);
    free(crowd);
}

/* ---- Down ------------------------------------------------------------------------ */

static void downgrade_lets_readers_in(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = want_held(a, hf_write(THING));
    uint64_t token = hf_hold_token(hold, 0);
    hf_op *reader = want_begun(b, hf_read(THING));
    EVENTUALLY(queued(e, a, 1));
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), 0);
    hf_hold *other = op_held(reader);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_EQ(hf_hold_token(hold, 0), token);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    want_busy(b, hf_write(THING));
    let_go(want_held(a, hf_read(THING)));
    let_go(hold);
    want_busy(a, hf_write(THING));
    let_go(other);
    let_go(want_held(b, hf_write(THING)));
}

/* Nobody gets a write lock in between, though one waits at the head of the queue. */
static void downgrade_keeps_exclusion(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *none = NULL;
    hf_hold *hold = want_held(a, hf_write(THING));
    hf_op *writer = want_begun(b, hf_write(THING));
    EVENTUALLY(queued(e, a, 1));
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), 0);
    CHECK_RC(hf_op_wait(writer, 10, &none, NULL), HF_ETIMEOUT);
    CHECK(!hf_op_done(writer));
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    let_go(hold);
    let_go(op_held(writer));
}

static void downgrade_needs_write(struct env *e)
{
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    hf_hold *reader = want_held(client, hf_read(THING));
    CHECK_RC(hf_hold_downgrade(reader, 0, &why), HF_EINVAL);
    CHECK(why.code == HF_EINVAL && why.text[0]);
    CHECK_RC(hf_hold_downgrade(reader, 1, NULL), HF_EINVAL);
    let_go(reader);
    CHECK_RC(hf_hold_downgrade(reader, 0, NULL), HF_ERELEASED);
    hf_hold *writer = want_held(client, hf_write(THING));
    CHECK_RC(hf_hold_downgrade(writer, 0, NULL), 0);
    CHECK_RC(hf_hold_downgrade(writer, 0, NULL), HF_EINVAL);
    let_go(writer);
}

static void downgrade_after_loss(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = want_held(a, hf_write(THING));
    holder_evict(e, b);
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    let_go(want_held(b, hf_write(THING)));
}

/* The waiter in line is of the same client as the holder. */
static void downgrade_with_own_waiters(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = want_held(client, hf_write(THING));
    hf_op *reader = want_begun(client, hf_read(THING));
    hf_op *writer = want_begun(client, hf_write(THING));
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), 0);
    hf_hold *other = op_held(reader);
    CHECK(!hf_op_done(writer));
    let_go(hold);
    let_go(other);
    let_go(op_held(writer));
}

/* A downgrade that is to be asked for again, and a release in another thread first. On
 * a busy machine it may be asked for often enough before, and then has its answer. */
static void *downgrade_in_vain(void *hold)
{
    int rc = hf_hold_downgrade(hold, 0, NULL);
    CHECK(rc == 0 || rc == HF_ELOST || rc == HF_ERELEASED || rc == HF_EUNREACHABLE);
    return NULL;
}

static void downgrade_beside_release(struct env *e)
{
    hf_client *client = client_open(e);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        hf_hold *hold = want_held(client, hf_write(LONG_NAME));
        fault_plan(HF_FAULT_ASK, HF_FAULT_FAIL_BEFORE, 1, 2, 0);
        CHECK_EQ(pthread_create(&thread, NULL, downgrade_in_vain, hold), 0);
        EVENTUALLY(hf__fault_calls(HF_FAULT_ASK) >= 1);
        let_go(hold);
        /* What the client released it does not ask the store about any more. */
        uint64_t calls = hf__fault_calls(HF_FAULT_ASK);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(hf__fault_calls(HF_FAULT_ASK), calls);
        fault_none();
    }
    let_go(want_held(client, hf_write(LONG_NAME)));
}

/* The writer had to wait behind others before it had the lock, and its hold is watched:
 * on a store where the downgrade replaces the writer's entry, the end of that entry is
 * no loss. */
static void downgrade_after_waiting(struct env *e)
{
    struct told told = { 0 };
    hf_client *clients[4];
    hf_hold *hold = NULL;
    hf_op *writers[3];
    for (int i = 0; i < 4; i++)
        clients[i] = client_open(e);
    hold = want_held(clients[0], hf_write(THING));
    for (int i = 0; i < 3; i++) {
        writers[i] = want_begun(clients[i + 1], hf_write(THING));
        EVENTUALLY(queued(e, clients[0], i + 1));
    }
    for (int i = 0; i < 3; i++) {
        let_go(hold);
        hold = op_held(writers[i]);
    }
    uint64_t token = hf_hold_token(hold, 0);
    CHECK_RC(hf_hold_watch(hold, told_event, &told, NULL), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), 0); /* the watch is in the store by now */
    CHECK_RC(hf_hold_downgrade(hold, 0, NULL), 0);
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    CHECK_EQ(hf_hold_token(hold, 0), token);
    let_go(want_held(clients[0], hf_read(THING)));
    want_busy(clients[0], hf_write(THING));
    CHECK_RC(hf_hold_verify(hold, NULL), 0);
    CHECK_EQ(told.lost, 0);
    let_go(hold);
    let_go(want_held(clients[0], hf_write(THING)));
}

#define DOWN (HF_CAP_DOWNGRADE | HF_CAP_INSPECT)

const struct scenario scenarios_rw[] = {
    { "readers-share", READ, HF_CAP_INSPECT, 0, readers_share },
    { "writer-waits-for-last-reader", WRITE, HF_CAP_INSPECT, 0,
      writer_waits_for_last_reader },
    { "waiting-writer-blocks-readers", READ, HF_CAP_INSPECT, 0,
      waiting_writer_blocks_readers },
    { "writer-gives-up", READ, HF_CAP_INSPECT, 0, writer_gives_up },
    { "readers-enter-together", READ, 0, 0, readers_enter_together },
    { "killed-reader-frees-writer", READ,
      HF_CAP_PROCESSES | HF_CAP_CRASH | HF_CAP_INSPECT, 0, killed_reader_frees_writer },
    { "readers-and-writers", READ | WRITE, 0, 0, readers_and_writers },
    { "downgrade-lets-readers-in", WRITE, DOWN, 0, downgrade_lets_readers_in },
    { "downgrade-keeps-exclusion", WRITE, DOWN, 0, downgrade_keeps_exclusion },
    { "downgrade-needs-write", WRITE, DOWN, 0, downgrade_needs_write },
    { "downgrade-after-loss", WRITE, DOWN | HF_CAP_EVICT, 0, downgrade_after_loss },
    { "downgrade-with-own-waiters", WRITE, DOWN, 0, downgrade_with_own_waiters },
    { "downgrade-beside-release", WRITE, DOWN | NEED_FAULT, 0,
      downgrade_beside_release },
    { "downgrade-after-waiting", WRITE, DOWN, 0, downgrade_after_waiting },
    { NULL, 0, 0, 0, NULL },
};
