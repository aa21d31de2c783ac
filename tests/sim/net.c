/* SPDX-License-Identifier: MIT */
/*
 * The network between each client and the lease server.
 *
 * A connection carries messages in order, each way by itself; connections overtake each
 * other. Messages wait in one heap by the time they arrive. One that arrives at a side
 * that is blocked (a partition, a server that is stopped) waits there and goes on when
 * the block ends. A connection that is cut loses what is on its way to the client; what
 * is on its way to the server may still get there.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct net net;
static struct msg **heap;
static size_t heap_used, heap_size;
static struct msg *spare;
static uint64_t sequence;

/* ---- messages -------------------------------------------------------------------- */

struct msg *msg_new(int kind, int client)
{
    struct msg *msg = spare;
    if (msg)
        spare = msg->next;
    else
        msg = malloc(sizeof(*msg));
    if (!msg)
        abort();
    memset(msg, 0, offsetof(struct msg, items[1]));
    msg->kind = kind;
    msg->client = client;
    return msg;
}

void msg_free(struct msg *msg)
{
    msg->next = spare;
    spare = msg;
}

/* ---- the heap -------------------------------------------------------------------- */

static bool before(const struct msg *a, const struct msg *b)
{
    return a->at < b->at || (a->at == b->at && a->sequence < b->sequence);
}

static void heap_push(struct msg *msg)
{
    if (heap_used == heap_size) {
        heap_size = heap_size ? 2 * heap_size : 64;
        heap = realloc(heap, heap_size * sizeof(struct msg *));
        if (!heap)
            abort();
    }
    size_t at = heap_used++;
    for (; at > 0 && before(msg, heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = msg;
}

static struct msg *heap_pop(void)
{
    struct msg *first = heap[0], *last = heap[--heap_used];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < heap_used; at = child) {
        if (child + 1 < heap_used && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return first;
}

/* ---- sides ----------------------------------------------------------------------- */

void net_send(struct msg *msg, bool to_server)
{
    struct net_conn *conn = &net.conns[msg->client];
    struct net_side *side = &conn->side[to_server];
    msg->to_server = to_server;
    msg->epoch = conn->epoch;
    msg->sequence = ++sequence;
    trace(to_server ? EVENT_SEND : EVENT_REPLY, msg->client, msg->kind, msg->call,
          to_server ? (uint32_t)msg->items[0].id.word[0] : (uint64_t)msg->answer);
    if (!conn->up || dice_chance(net.loss)) {
        msg_free(msg);
        return;
    }
    int64_t delay = dice_spread(net.delay_ns);
    msg->at = sim_now + net.delay_ns / 2 +
              (delay < 8 * net.delay_ns ? delay : 8 * net.delay_ns);
    if (msg->at < side->last_at)
        msg->at = side->last_at;
    side->last_at = msg->at;
    heap_push(msg);
}

static bool is_blocked(const struct msg *msg)
{
    return net.conns[msg->client].side[msg->to_server].blocked ||
           (msg->to_server && net.server_paused);
}

static void deliver(struct msg *msg)
{
    const struct net_conn *conn = &net.conns[msg->client];
    if (msg->to_server) {
        /* Of a connection that is cut: it was on its way already, with luck. Once the
         * client is back the server has read to the end of the old one. */
        bool luck = !conn->up && msg->epoch + 1 == conn->epoch && msg->sequence & 1;
        bool arrives = net.server_up && (msg->epoch == conn->epoch || luck);
        if (arrives) {
            trace(EVENT_ARRIVE, msg->client, msg->kind, msg->call, msg->sequence);
            server_receive(msg);
        } else {
            msg_free(msg);
        }
    } else if (msg->epoch + (msg->kind == MSG_EOF) == conn->epoch) {
        session_receive(msg->client, msg);
    } else {
        msg_free(msg);
    }
}

int64_t net_next(void)
{
    return heap_used ? heap[0]->at : NEVER;
}

void net_step(void)
{
    struct msg *msg = heap_pop();
    if (!is_blocked(msg)) {
        deliver(msg);
        return;
    }
    struct net_side *side = &net.conns[msg->client].side[msg->to_server];
    msg->next = NULL;
    *side->stalled_end = msg;
    side->stalled_end = &msg->next;
}

static void side_flow(struct net_side *side)
{
    struct msg *next;
    for (struct msg *msg = side->stalled; msg; msg = next) {
        next = msg->next;
        msg->at = sim_now;
        heap_push(msg);
    }
    side->stalled = NULL;
    side->stalled_end = &side->stalled;
}

void net_block(int client, int which, bool blocked)
{
    struct net_side *side = &net.conns[client].side[which];
    side->blocked = blocked;
    if (!blocked && !(which == 1 && net.server_paused))
        side_flow(side);
}

void net_pause_server(bool paused)
{
    net.server_paused = paused;
    for (int i = 0; !paused && i < CLIENTS_MAX; i++)
        if (!net.conns[i].side[1].blocked)
            side_flow(&net.conns[i].side[1]);
}

/* The client's end hears of it after `notice_ns`; until then it speaks to nobody. */
void net_cut(int client, int64_t notice_ns)
{
    struct net_conn *conn = &net.conns[client];
    if (!conn->up)
        return;
    struct msg *msg = msg_new(MSG_EOF, client);
    msg->epoch = conn->epoch++;
    msg->sequence = ++sequence;
    msg->at = sim_now + notice_ns;
    heap_push(msg);
    conn->up = false;
}

void net_reset(void)
{
    memset(&net, 0, sizeof(net));
    net.server_up = true;
    net.delay_ns = set.delay_ns;
    sequence = 0;
    for (int i = 0; i < CLIENTS_MAX; i++)
        for (int side = 0; side < 2; side++)
            net.conns[i].side[side].stalled_end = &net.conns[i].side[side].stalled;
}

void net_done(void)
{
    net_pause_server(false);
    for (int i = 0; i < CLIENTS_MAX; i++)
        for (int side = 0; side < 2; side++)
            net_block(i, side, false);
    while (heap_used)
        msg_free(heap_pop());
    for (struct msg *next; spare; spare = next) {
        next = spare->next;
        free(spare);
    }
    free(heap);
    heap = NULL;
    heap_size = 0;
}
