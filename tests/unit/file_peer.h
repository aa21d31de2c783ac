/* SPDX-License-Identifier: MIT */
/*
 * For tests of the file store: a scratch directory, sessions in other processes that
 * follow orders, and the state file that all of them share.
 *
 * A peer is a forked process with one session and a few tickets. It runs its loop all
 * the time, as core would; orders come through a socket, and every order has a reply. A
 * peer that dies instead replies PEER_DIED. All functions are static: a test program
 * that includes this uses what it needs.
 */
#ifndef HF_TESTS_FILE_PEER_H
#define HF_TESTS_FILE_PEER_H

#include "fake_host.h"
#include "unit.h"

#include "../../src/backends/file/file.h"
#include "../../src/backends/file/guard.h"
#include "../../src/backends/file/lock_word.h"
#include "../../src/backends/file/region.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNUSED_OK __attribute__((unused))
#define PEER_TICKETS 4
#define PEER_TURN_MS 20

/* ---- The directory --------------------------------------------------------------- */

static char scratch[64];
static char home[80]; /* the store's own directory in it */
static char url[96];

UNUSED_OK static void scratch_make(void)
{
    snprintf(scratch, sizeof(scratch), "/tmp/test-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
    snprintf(home, sizeof(home), "%s/.holdfast", scratch);
    snprintf(url, sizeof(url), "file:%s", scratch);
}

/* How many files there are whose names begin so. */
UNUSED_OK static int scratch_count(const char *prefix)
{
    DIR *dir = opendir(home);
    struct dirent *entry;
    int count = 0;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        count += entry->d_name[0] != '.' &&
                 strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return count;
}

UNUSED_OK static void scratch_remove(void)
{
    DIR *dir = opendir(home);
    struct dirent *entry;

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    ck_assert_int_eq(rmdir(home), 0);
    ck_assert_int_eq(rmdir(scratch), 0);
}

/* ---- The state file -------------------------------------------------------------- */

struct state {
    struct region_head *head;
    struct region_session *sessions;
    uint32_t *buckets;
    struct region_block *blocks;
    size_t size;
};

UNUSED_OK static struct state state_map(void)
{
    char path[96];
    struct stat st;
    struct state state;

    snprintf(path, sizeof(path), "%s/state", home);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    state.size = (size_t)st.st_size;
    char *base = mmap(NULL, state.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(base, MAP_FAILED);
    close(fd);
    state.head = (struct region_head *)(void *)base;
    state.sessions = (struct region_session *)(void *)(base + REGION_HEAD_SIZE);
    state.buckets = (uint32_t *)(void *)(state.sessions + SESSION_COUNT);
    state.blocks = (struct region_block *)(void *)(state.buckets + BUCKET_COUNT);
    return state;
}

UNUSED_OK static void state_unmap(struct state *state)
{
    munmap(state->head, state->size);
}

static void record_check(const struct state *state, const struct region_block *block)
{
    const struct block_record *r = &block->record;
    uint32_t granted = 0, waiting = 0, prev = 0;
    uint64_t seq = 0;
    struct hf_tally tally = { 0 };

    for (uint32_t i = r->first; i; prev = i, i = state->blocks[i].next) {
        const struct region_block *at = &state->blocks[i];
        ck_assert_uint_eq(at->type, BLOCK_ENTRY);
        ck_assert_uint_eq(at->entry.prev, prev);
        ck_assert_ptr_eq(&state->blocks[at->entry.record], block);
        if (at->entry.state == ENTRY_GRANTED) {
            ck_assert_uint_eq(waiting, 0);
            granted++;
            hf__tally_add(&tally, at->entry.kind, at->entry.permits);
            continue;
        }
        ck_assert_uint_eq(at->entry.state, ENTRY_WAITING);
        ck_assert_uint_gt(at->entry.seq, seq);
        seq = at->entry.seq;
        if (waiting++ == 0)
            ck_assert_uint_eq(r->first_waiting, i);
    }
    ck_assert_uint_eq(r->last, prev);
    ck_assert_uint_eq(r->granted, granted);
    ck_assert_uint_eq(r->waiting, waiting);
    ck_assert_uint_eq(r->tally.exclusive, tally.exclusive);
    ck_assert_uint_eq(r->tally.readers, tally.readers);
    ck_assert_uint_eq(r->tally.permits, tally.permits);
    ck_assert(waiting || !r->first_waiting);
    ck_assert(!(block->lock_word & WORD_WAIT) == !waiting);
    ck_assert(!granted || !(block->lock_word & WORD_HELD));
    ck_assert(!granted || (block->lock_word & WORD_SLOW));
    ck_assert(tally.exclusive <= 1 || block->record.family == 5);
    ck_assert(!tally.exclusive || !tally.readers);
}

/* Everything that is derived agrees with the blocks; no process may hold the guard. */
UNUSED_OK static void state_check(const struct state *state)
{
    const struct region_head *head = state->head;
    uint32_t used[BLOCK_IDS + 1] = { 0 }, chained = 0, free_count = 0, listed = 0;
    uint32_t parts = 0;

    ck_assert_uint_le(head->high_water, head->block_count);
    for (uint32_t i = 1; i < head->high_water; i++) {
        const struct region_block *block = &state->blocks[i];
        ck_assert_uint_le(block->type, BLOCK_IDS);
        used[block->type]++;
        ck_assert(block->type == BLOCK_RECORD || (block->lock_word & WORD_SLOW));
        if (block->type == BLOCK_RECORD) {
            record_check(state, block);
            listed += block->record.granted + block->record.waiting;
            parts += block->record.ids != 0;
            for (uint32_t more = block->record.more; more; parts++)
                more = state->blocks[more].next;
        }
    }
    for (uint32_t b = 0; b < BUCKET_COUNT; b++)
        for (uint32_t i = state->buckets[b]; i; i = state->blocks[i].next) {
            ck_assert_uint_eq(state->blocks[i].type, BLOCK_RECORD);
            ck_assert_uint_eq(state->blocks[i].record.hash % BUCKET_COUNT, b);
            chained++;
        }
    for (uint32_t i = head->free_first; i; i = state->blocks[i].next) {
        ck_assert_uint_eq(state->blocks[i].type, BLOCK_FREE);
        free_count++;
    }
    ck_assert_uint_eq(used[BLOCK_RECORD], chained);
    ck_assert_uint_eq(used[BLOCK_ENTRY], listed);
    ck_assert_uint_eq(used[BLOCK_NAME] + used[BLOCK_IDS], parts);
    ck_assert_uint_eq(used[BLOCK_FREE], free_count);
    ck_assert_uint_eq(head->free_count, free_count);
}

/* ---- Peers ----------------------------------------------------------------------- */

enum peer_verb {
    PEER_ATTEMPT,
    PEER_NEXT,
    PEER_WITHDRAW,
    PEER_ASK,
    PEER_FAIL,
    PEER_FORK,
    PEER_EXEC,
    PEER_LEAVE,
};

#define PEER_DIED (-1)

struct peer_order {
    enum peer_verb verb;
    int number; /* of the ticket */
    struct hf_ticket ticket;
    struct hf_request request;
    uint32_t fail_at;
    int fail_signal;
    char name[HF_NAME_MAX + 1];
};

struct peer_reply {
    int what; /* enum fake_what, or PEER_DIED */
    int code;
    uint64_t token;
    uint64_t result;
    int64_t retry_ns;
};

struct peer {
    pid_t pid;
    int fd;
};

static struct peer_reply peer_do_attempt(struct fake_host *host,
                                         struct hf_ticket *ticket,
                                         const struct peer_order *order)
{
    static char names[PEER_TICKETS][HF_NAME_MAX + 1];

    memcpy(names[order->number], order->name, sizeof(names[0]));
    if (ticket->id.word[0] != order->ticket.id.word[0])
        *ticket = order->ticket;
    ticket->name = names[order->number];
    ticket->note = ticket->note ? "noted" : "";
    struct fake_answer answer = fake_try(host, ticket);
    return (struct peer_reply){ (int)answer.what, answer.code, answer.grant.token, 0,
                                answer.retry_ns };
}

static struct peer_reply peer_do(struct fake_host *host, struct hf_ticket *tickets,
                                 struct peer_order *order)
{
    struct hf_ticket *ticket = &tickets[order->number];
    struct peer_reply reply = { 0, 0, 0, 0, 0 };
    struct fake_answer answer;

    switch (order->verb) {
    case PEER_ATTEMPT:
        return peer_do_attempt(host, ticket, order);
    case PEER_NEXT:
        answer = fake_next(host);
        ticket = (struct hf_ticket *)(uintptr_t)answer.about;
        return (struct peer_reply){ (int)answer.what, answer.code, answer.grant.token,
                                    (uint64_t)(ticket - tickets), answer.retry_ns };
    case PEER_WITHDRAW:
        reply.code = (int)fake_withdraw(host, ticket);
        break;
    case PEER_ASK:
        order->request.name = order->name;
        if (order->request.verb == HF_ADOPT) {
            *ticket = order->ticket;
            ticket->name = ticket->note = "";
            order->request.ticket = ticket;
        }
        reply.code = fake_ask(host, &order->request, NULL);
        reply.result = order->request.result;
        break;
    case PEER_FAIL:
        hf__file_fail_signal = order->fail_signal;
        hf__file_failpoint = order->fail_at;
        break;
    case PEER_FORK: /* a child that lives on, with everything that it inherited */
        reply.result = (uint64_t)fork();
        while (reply.result == 0)
            pause();
        break;
    case PEER_EXEC: /* another program, in the same process */
        execl("/bin/sleep", "sleep", "60", (char *)NULL);
        break;
    case PEER_LEAVE:
        fake_close(host);
        break;
    }
    return reply;
}

static void peer_wait(const struct fake_host *host, int fd, bool *ret_order)
{
    struct pollfd polled[FAKE_SLOTS + 1];

    for (size_t i = 0; i < FAKE_SLOTS; i++)
        polled[i] = (struct pollfd){
            .fd = host->watches[i].callback ? host->watches[i].fd : -1,
            .events = POLLIN,
        };
    polled[FAKE_SLOTS] = (struct pollfd){ .fd = fd, .events = POLLIN };
    poll(polled, FAKE_SLOTS + 1, PEER_TURN_MS);
    *ret_order = polled[FAKE_SLOTS].revents != 0;
}

static _Noreturn void peer_main(int fd)
{
    static struct fake_host host;
    static struct hf_ticket tickets[PEER_TICKETS];
    static struct peer_order order;
    struct peer_reply reply = { 0, 0, 0, 0, 0 };
    bool ordered;

    reply.code = fake_open(&host, &hf__backend_file, url, NULL);
    bool open = reply.code == 0;
    while (write(fd, &reply, sizeof(reply)) == sizeof(reply) && open) {
        for (ordered = false; !ordered;) {
            peer_wait(&host, fd, &ordered);
            fake_turn(&host, 0);
        }
        if (read(fd, &order, sizeof(order)) != sizeof(order))
            break;
        reply = peer_do(&host, tickets, &order);
        open = order.verb != PEER_LEAVE;
    }
    _exit(0);
}

static struct peer_reply peer_listen(struct peer *peer)
{
    struct peer_reply reply;

    if (read(peer->fd, &reply, sizeof(reply)) != sizeof(reply))
        return (struct peer_reply){ PEER_DIED, 0, 0, 0, 0 };
    return reply;
}

/* The code of open(). */
UNUSED_OK static int peer_start(struct peer *peer)
{
    int pair[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    peer->pid = fork();
    if (peer->pid == 0) {
        close(pair[0]);
        peer_main(pair[1]);
    }
    close(pair[1]);
    peer->fd = pair[0];
    return peer_listen(peer).code;
}

static void peer_send(struct peer *peer, const struct peer_order *order)
{
    ck_assert_int_eq(send(peer->fd, order, sizeof(*order), MSG_NOSIGNAL),
                     sizeof(*order));
}

static struct peer_reply peer_tell(struct peer *peer, const struct peer_order *order)
{
    peer_send(peer, order);
    return peer_listen(peer);
}

/* The same ticket number with the same ticket is a repeated attempt. A note that is not
 * NULL or "" only keeps the ticket off the fast path. */
UNUSED_OK static struct peer_reply peer_attempt(struct peer *peer, int number,
                                                struct hf_ticket ticket)
{
    static struct peer_order order;

    order =
        (struct peer_order){ .verb = PEER_ATTEMPT, .number = number, .ticket = ticket };
    snprintf(order.name, sizeof(order.name), "%s", ticket.name);
    if (ticket.note && ticket.note[0] == '\0')
        order.ticket.note = NULL;
    return peer_tell(peer, &order);
}

UNUSED_OK static uint64_t peer_takes(struct peer *peer, int number,
                                     struct hf_ticket ticket)
{
    struct peer_reply reply = peer_attempt(peer, number, ticket);
    ck_assert_int_eq(reply.what, FAKE_GRANTED);
    return reply.token;
}

UNUSED_OK static void peer_queues(struct peer *peer, int number,
                                  struct hf_ticket ticket)
{
    struct peer_reply reply = peer_attempt(peer, number, ticket);
    ck_assert_int_eq(reply.what, FAKE_QUEUED);
}

static struct peer_reply peer_order(struct peer *peer, enum peer_verb verb, int number)
{
    static struct peer_order order;

    order = (struct peer_order){ .verb = verb, .number = number };
    return peer_tell(peer, &order);
}

/* Waits for the grant of a queued ticket. */
UNUSED_OK static uint64_t peer_gets(struct peer *peer, int number)
{
    struct peer_reply reply = peer_order(peer, PEER_NEXT, number);
    ck_assert_int_eq(reply.what, FAKE_GRANTED);
    ck_assert_uint_eq(reply.result, (uint64_t)number);
    return reply.token;
}

UNUSED_OK static void peer_drops(struct peer *peer, int number)
{
    ck_assert_int_eq(peer_order(peer, PEER_WITHDRAW, number).code, HF_WITHDRAWN);
}

UNUSED_OK static struct peer_reply peer_ask(struct peer *peer,
                                            struct hf_request request)
{
    static struct peer_order order;

    order = (struct peer_order){ .verb = PEER_ASK, .request = request };
    snprintf(order.name, sizeof(order.name), "%s", request.name);
    return peer_tell(peer, &order);
}

/* Adopts a hold, as ticket `number`. */
UNUSED_OK static struct peer_reply peer_adopt(struct peer *peer, int number,
                                              const struct hf_ticket *old,
                                              uint64_t token)
{
    static struct peer_order order;

    order = (struct peer_order){
        .verb = PEER_ASK,
        .number = number,
        .ticket = fake_ticket("", old->kind),
        .request = fake_request(HF_ADOPT, old->name),
    };
    order.request.other = old->id;
    order.request.number = token;
    snprintf(order.name, sizeof(order.name), "%s", old->name);
    return peer_tell(peer, &order);
}

/* From now on: the n-th step with the guard held sends it a signal. */
UNUSED_OK static void peer_fails(struct peer *peer, uint32_t step, int signal)
{
    static struct peer_order order;

    order = (struct peer_order){ .verb = PEER_FAIL,
                                 .fail_at = step,
                                 .fail_signal = signal };
    ck_assert_int_eq(peer_tell(peer, &order).what, 0);
}

/* The peer is stopped in the middle of an order. */
UNUSED_OK static void peer_stopped(struct peer *peer)
{
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)peer->pid, &info, WSTOPPED), 0);
}

UNUSED_OK static void peer_leaves(struct peer *peer)
{
    ck_assert_int_eq(peer_order(peer, PEER_LEAVE, 0).what, 0);
    waitpid(peer->pid, NULL, 0);
    close(peer->fd);
}

/* Killed; a zombie until peer_bury(). */
UNUSED_OK static void peer_kill(struct peer *peer)
{
    siginfo_t info;
    kill(peer->pid, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)peer->pid, &info, WEXITED | WNOWAIT), 0);
}

UNUSED_OK static void peer_bury(struct peer *peer)
{
    waitpid(peer->pid, NULL, 0);
    close(peer->fd);
}

#endif
