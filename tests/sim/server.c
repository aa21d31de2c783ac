/* SPDX-License-Identifier: MIT */
/*
 * The lease server, as the scripts on Redis behave: tickets in a queue per name, leases
 * by the server's own clock, tokens drawn in the granting step (the stored number and
 * one, or its clock in microseconds, whichever is larger), the next in line granted and
 * told by whoever lets go. Nothing happens by itself: a lease that is over is noticed
 * by the next one who asks about that name.
 *
 * Requests may come again, under the same id, and are done once.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/kit/admit.h"

enum { DONE_MAX = 32 };

#define LOOK_AGAIN_NS (30 * SECOND)
#define PATIENCE_NS (90 * SECOND)
#define LATCH_MEMORY_NS (60 * SECOND)

struct ticket {
    struct ticket *next;
    struct hf_id id;
    int client;
    int32_t kind;
    uint32_t permits, limit, reserve, span;
    bool held;
    uint64_t token;
    int64_t ttl_ns, end_ns; /* a waiter's: its patience */
};

struct done {
    struct hf_id id;
    uint64_t result;
    int32_t rc;
};

/* What lies under a name; latches and cells have names of their own. */
struct row {
    struct ticket *first;
    uint64_t token;
    uint64_t number; /* what is left of a latch, or the version of a cell */
    struct done done[DONE_MAX];
    uint32_t done_next;
};

enum { ROW_LATCH = NAMES_MAX, ROW_CELL, ROWS };

struct node_clock server_node;
static struct row rows[ROWS];
static struct ticket *spare;

int64_t server_clock(void)
{
    return clock_read(&server_node, sim_now);
}

static bool same_id(const struct hf_id *a, const struct hf_id *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

int name_index(const char *name)
{
    if (name[0] == 'n')
        return name[1] - '0';
    return name[0] == 'l' ? ROW_LATCH : ROW_CELL;
}

/* ---- tickets --------------------------------------------------------------------- */

static struct ticket **ticket_find(struct row *row, const struct hf_id *id)
{
    struct ticket **at = &row->first;
    while (*at && !same_id(&(*at)->id, id))
        at = &(*at)->next;
    return at;
}

static void ticket_remove(struct ticket **at)
{
    struct ticket *ticket = *at;
    *at = ticket->next;
    ticket->next = spare;
    spare = ticket;
}

static struct ticket *ticket_add(struct row *row, const struct msg *msg)
{
    struct ticket **at = &row->first, *ticket = spare;
    if (ticket)
        spare = ticket->next;
    else
        ticket = malloc(sizeof(*ticket));
    if (!ticket)
        abort();
    while (*at)
        at = &(*at)->next;
    *ticket = (struct ticket){
        .id = msg->items[0].id,
        .client = msg->client,
        .kind = msg->items[0].kind,
        .permits = msg->permits,
        .limit = msg->limit,
        .reserve = msg->reserve,
    };
    *at = ticket;
    return ticket;
}

static void expire(struct row *row)
{
    int64_t now = server_clock();
    for (struct ticket **at = &row->first; *at;) {
        if ((*at)->end_ns > now) {
            at = &(*at)->next;
            continue;
        }
        trace(EVENT_EXPIRE, (*at)->client, (int)(row - rows), (*at)->token, 0);
        ticket_remove(at);
    }
}

static void draw_token(struct row *row, struct ticket *ticket)
{
    uint64_t clock = (uint64_t)(server_clock() / 1000);
    uint64_t token = row->token + 1 > clock ? row->token + 1 : clock;
    if (mutant == MUTANT_TOKEN && row->token && dice_chance(20))
        token = row->token;
    ticket->token = token;
    ticket->span = ticket->reserve < 16 ? ticket->reserve : 16;
    row->token = token + ticket->span - 1;
}

static void push(const struct ticket *ticket, int kind)
{
    struct msg *msg = msg_new(kind, ticket->client);
    msg->items[0].id = ticket->id;
    msg->token = ticket->token;
    msg->span = ticket->span;
    msg->ttl_ns = ticket->ttl_ns;
    msg->server_ns = server_clock();
    net_send(msg, false);
}

static void grant(struct row *row, struct ticket *ticket)
{
    ticket->held = true;
    if (ticket->kind == HF_LATCH) {
        ticket->end_ns = server_clock() + LATCH_MEMORY_NS;
        ticket->token = ticket->span = 1;
    } else {
        draw_token(row, ticket);
        ticket->end_ns = server_clock() + ticket->ttl_ns;
    }
    trace(EVENT_ADMIT, ticket->client, (int)(row - rows), ticket->token,
          (uint64_t)ticket->end_ns);
}

static bool is_in(const struct row *row, const struct hf_tally *ahead,
                  const struct ticket *ticket)
{
    if (ticket->kind == HF_LATCH)
        return row->number == 0;
    if (mutant == MUTANT_DOUBLE_GRANT && dice_chance(5))
        return true;
    return hf__admit(ahead, ticket->kind, ticket->permits, ticket->limit) == HF_IN;
}

/* Lets in whoever is in by now; `asker` gets a reply and needs no message. */
static void admit(struct row *row, const struct ticket *asker)
{
    struct hf_tally ahead = { 0 };
    for (struct ticket *ticket = row->first; ticket; ticket = ticket->next) {
        if (!ticket->held && is_in(row, &ahead, ticket)) {
            grant(row, ticket);
            if (ticket != asker && mutant != MUTANT_NO_PUSH)
                push(ticket, MSG_GRANT);
        }
        if (ticket->kind != HF_LATCH)
            hf__tally_add(&ahead, ticket->kind, ticket->permits);
    }
}

/* ---- requests -------------------------------------------------------------------- */

static int64_t least_left(const struct row *row)
{
    int64_t left = LOOK_AGAIN_NS, now = server_clock();
    if (mutant == MUTANT_NO_PUSH)
        return 0;
    for (const struct ticket *ticket = row->first; ticket; ticket = ticket->next)
        if (ticket->held && ticket->end_ns - now < left)
            left = ticket->end_ns - now;
    return left + MS;
}

/* The request becomes its reply. */
static void receive_attempt(struct msg *msg)
{
    struct row *row = &rows[msg->items[0].name];
    expire(row);
    struct ticket **at = ticket_find(row, &msg->items[0].id), *ticket = *at;
    bool fresh = !ticket;
    if (fresh)
        ticket = ticket_add(row, msg);
    ticket->ttl_ns = msg->ttl_ns;
    if (!ticket->held)
        ticket->end_ns = server_clock() + PATIENCE_NS;
    else if (ticket->kind != HF_LATCH)
        ticket->end_ns = server_clock() + ticket->ttl_ns;
    admit(row, ticket);
    msg->server_ns = server_clock();
    if (ticket->held) {
        msg->answer = ANSWER_GRANTED;
        msg->token = ticket->token;
        msg->span = ticket->span;
    } else if (msg->flags & HF_TICKET_TRY) {
        msg->answer = ANSWER_BUSY;
        ticket_remove(ticket_find(row, &msg->items[0].id));
    } else {
        msg->answer = ANSWER_QUEUED;
        msg->left_ns = least_left(row);
    }
}

static void receive_withdraw(struct msg *msg)
{
    struct row *row = &rows[msg->items[0].name];
    expire(row);
    struct ticket **at = ticket_find(row, &msg->items[0].id);
    msg->answer = *at ? HF_WITHDRAWN : HF_GONE;
    if (*at && !(mutant == MUTANT_KEEP_TICKET && dice_chance(20)))
        ticket_remove(at);
    admit(row, NULL);
}

/* Its client goes by another number by now. */
static void hear_token(struct ticket *ticket, uint64_t token)
{
    if (token <= ticket->token || token >= ticket->token + ticket->span)
        return;
    ticket->span -= (uint32_t)(token - ticket->token);
    ticket->token = token;
}

static void receive_renew(struct msg *msg)
{
    for (uint32_t i = 0; i < msg->count; i++) {
        struct item *item = &msg->items[i];
        struct row *row = &rows[item->name];
        expire(row);
        struct ticket *ticket = *ticket_find(row, &item->id);
        bool held = ticket && ticket->held;
        if (held)
            hear_token(ticket, item->token);
        if (held && msg->mode == HF_RENEW) {
            ticket->ttl_ns = item->ttl_ns;
            ticket->end_ns = server_clock() + item->ttl_ns;
        }
        item->answer = msg->mode == HF_RENEW ? HF_RENEWED : HF_STILL_HELD;
        if (!held)
            item->answer = HF_RENEWAL_LOST;
    }
}

static struct ticket **holder_find(struct row *row, uint64_t token)
{
    struct ticket **at = &row->first;
    while (*at && !((*at)->held && token >= (*at)->token &&
                    token < (*at)->token + (*at)->span))
        at = &(*at)->next;
    return at;
}

static void take_away(struct row *row, struct ticket **at, bool tell)
{
    if (tell)
        push(*at, MSG_LOST);
    ticket_remove(at);
    admit(row, NULL);
}

static void ask_which(const struct ticket *ticket, const struct msg *wish)
{
    struct msg *msg = msg_new(MSG_WHICH, ticket->client);
    msg->items[0].id = ticket->id;
    msg->token = ticket->token;
    msg->number = wish->number;
    msg->call_id = wish->call_id;
    net_send(msg, false);
}

/* mode: y and x are answers of the holder's client, f: none came in time. */
static int evict(struct row *row, const struct msg *msg)
{
    expire(row);
    struct ticket **at = holder_find(row, msg->number);
    if (msg->mode == 'x' || !*at)
        return HF_ENOENT;
    bool named = (*at)->token == msg->number;
    if (msg->mode == 'y' || (*at)->span == 1 || (msg->mode == 'f' && named)) {
        take_away(row, at, msg->mode != 'y');
        return 0;
    }
    bool there = net.conns[(*at)->client].up;
    if (there)
        ask_which(*at, msg);
    if (there || !named)
        return ANSWER_ASKED;
    take_away(row, at, true);
    return 0;
}

/* Moved under one number of its block; asked again, it has a fresh lease. */
static int adopt(struct row *row, struct msg *msg)
{
    expire(row);
    struct ticket *ticket = *ticket_find(row, &msg->items[0].id);
    if (!ticket || !ticket->held) {
        ticket = *ticket_find(row, &msg->other);
        if (!ticket || !ticket->held || msg->number < ticket->token ||
            msg->number >= ticket->token + ticket->span)
            return HF_ENOENT;
        push(ticket, MSG_LOST);
        ticket->id = msg->items[0].id;
        ticket->client = msg->client;
    }
    ticket->token = msg->number;
    ticket->span = 1;
    ticket->ttl_ns = msg->items[0].ttl_ns;
    ticket->end_ns = server_clock() + ticket->ttl_ns;
    msg->token = ticket->token;
    msg->ttl_ns = ticket->ttl_ns;
    return 0;
}

static int downgrade(struct row *row, const struct msg *msg)
{
    expire(row);
    struct ticket *ticket = *ticket_find(row, &msg->items[0].id);
    if (!ticket || !ticket->held)
        return HF_ELOST;
    ticket->kind = HF_READ;
    admit(row, NULL);
    return 0;
}

static int do_ask(struct row *row, struct msg *msg, uint64_t *result)
{
    uint64_t clock = (uint64_t)(server_clock() / 1000);
    switch (msg->verb) {
    case HF_LATCH_SET:
        if (row->number)
            return HF_EBUSY;
        row->number = msg->number;
        return 0;
    case HF_LATCH_DOWN:
        row->number -= msg->number < row->number ? msg->number : row->number;
        *result = row->number;
        admit(row, NULL);
        return 0;
    case HF_CELL_SET:
        if (row->number != msg->number)
            return HF_ESTALE;
        row->token = row->token + 1 > clock ? row->token + 1 : clock;
        *result = row->number = row->token;
        return 0;
    case HF_EVICT:
        return evict(row, msg);
    case HF_ADOPT:
        return adopt(row, msg);
    case HF_DOWNGRADE:
        return downgrade(row, msg);
    default:
        *result = row->number;
        return msg->verb == HF_CELL_GET && !row->number ? HF_ENOENT : 0;
    }
}

static void receive_ask(struct msg *msg)
{
    struct row *row = &rows[msg->items[0].name];
    bool again = msg->verb == HF_ADOPT; /* is looked at each time */
    for (uint32_t i = 0; i < DONE_MAX && !again; i++) {
        if (!same_id(&row->done[i].id, &msg->call_id))
            continue;
        msg->answer = row->done[i].rc;
        msg->number = row->done[i].result;
        return;
    }
    uint64_t result = 0;
    msg->answer = do_ask(row, msg, &result);
    msg->number = result;
    if (msg->answer == 0 || (msg->verb == HF_EVICT && msg->mode == 'x'))
        row->done[row->done_next++ % DONE_MAX] =
            (struct done){ msg->call_id, result, msg->answer };
}

void server_receive(struct msg *msg)
{
    if (msg->kind == MSG_ATTEMPT)
        receive_attempt(msg);
    else if (msg->kind == MSG_WITHDRAW)
        receive_withdraw(msg);
    else if (msg->kind == MSG_RENEW)
        receive_renew(msg);
    else
        receive_ask(msg);
    bool there = msg->epoch == net.conns[msg->client].epoch;
    if (there)
        net_send(msg, false);
    else
        msg_free(msg);
}

/* ---- the whole ------------------------------------------------------------------- */

static void rows_empty(void)
{
    for (int i = 0; i < ROWS; i++)
        while (rows[i].first)
            ticket_remove(&rows[i].first);
}

void server_forget(void)
{
    rows_empty();
    memset(rows, 0, sizeof(rows));
}

void server_reset(void)
{
    server_forget();
    for (struct ticket *next; spare; spare = next) {
        next = spare->next;
        free(spare);
    }
}

size_t server_tickets(char *text, size_t size)
{
    size_t found = 0;
    for (int i = 0; i < ROWS; i++) {
        expire(&rows[i]);
        for (struct ticket *at = rows[i].first; at; at = at->next) {
            if (at->kind == HF_LATCH && at->held)
                continue;
            found++;
            snprintf(text, size, "name %d, client %d, kind %d, %s, id %08x", i,
                     at->client, at->kind, at->held ? "held" : "queued",
                     (unsigned)at->id.word[0]);
        }
    }
    return found;
}

/* Takes a held ticket away, whichever chance says; its numbers. */
bool server_evict_any(uint64_t *ret_first, uint64_t *ret_last, int *ret_name)
{
    int from = (int)(dice() % NAMES_MAX);
    for (int i = 0; i < NAMES_MAX; i++) {
        struct row *row = &rows[(from + i) % NAMES_MAX];
        if (!row->first || !row->first->held)
            continue;
        *ret_first = row->first->token;
        *ret_last = row->first->token + row->first->span - 1;
        *ret_name = (from + i) % NAMES_MAX;
        take_away(row, &row->first, true);
        return true;
    }
    return false;
}
