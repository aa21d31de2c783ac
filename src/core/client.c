/* SPDX-License-Identifier: MIT */
/*
 * Clients: opened, locked by every call, closed.
 *
 * hf__client_lock turns a handle into a locked client and refuses stale handles,
 * closed clients and forked children; hf__client_unlock acts on what became ready and
 * unlocks. hf__client_close ends every wait, releases what is held, runs the
 * callbacks that are due, and waits for the last thread inside. The memory is recycled,
 * never freed (handle.h).
 */
#include "client.h"

#include "../base/clock.h"
#include "../base/error.h"
#include "../base/fork.h"
#include "../base/mem.h"
#include "../base/rand.h"
#include "../base/url.h"
#include "registry.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- entering and leaving -------------------------------------------------------- */

hf_client *hf__client_lock(const hf_client *handle, int *ret_rc, hf_error *why)
{
    hf_client *client = hf__handle_object(handle, HANDLE_CLIENT);
    uint32_t tag = hf__handle_tag(handle);
    if (!handle) {
        *ret_rc = hf__fail(why, HF_EINVAL, "the client is NULL");
        return NULL;
    }
    if (!client || !hf__handle_live(&client->handle, tag)) {
        *ret_rc = hf__fail_code(why, HF_ECLOSED);
        return NULL;
    }
    if (hf__forked(client->fork_mark)) {
        *ret_rc = hf__fail_code(why, HF_EFORKED);
        return NULL;
    }
    pthread_mutex_lock(&client->lock);
    if (hf__handle_live(&client->handle, tag) && !client->closing)
        return client;
    pthread_mutex_unlock(&client->lock);
    *ret_rc = hf__fail_code(why, HF_ECLOSED);
    return NULL;
}

void hf__client_unlock(hf_client *client)
{
    if (hf__list_first(&client->ready))
        hf__run_ready(client);
    pthread_mutex_unlock(&client->lock);
}

/* ---- opening --------------------------------------------------------------------- */

static int read_options(const hf_options *given, hf_options *ret_options, hf_error *why)
{
    hf_options options = HF_OPTIONS_INIT;
    if (given) {
        if (given->size < sizeof(size_t) + sizeof(char *) ||
            given->size > sizeof(options))
            return hf__fail(why, HF_EINVAL,
                            "options.size is %zu, not the size of "
                            "hf_options",
                            given->size);
        memcpy(&options, given, given->size);
    }
    if (options.driver != HF_DRIVER_THREAD && options.driver != HF_DRIVER_USER)
        return hf__fail(why, HF_EINVAL, "options.driver is not a driver");
    if (options.handoff < HF_OFF || options.handoff > 1000000)
        return hf__fail(why, HF_EINVAL, "options.handoff is not between 0 and 1000000");
    if (options.request_timeout_ms < 0 || options.request_timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "options.request_timeout_ms is out of range");
    if (options.ttl_ms < 0 || options.ttl_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "options.ttl_ms is out of range");
    if (options.close_timeout_ms < 0 || options.close_timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "options.close_timeout_ms is out of range");
    if (options.confirm_timeout_ms < 0 || options.confirm_timeout_ms > HF_TTL_MAX_MS)
        return hf__fail(why, HF_EINVAL, "options.confirm_timeout_ms is out of range");
    *ret_options = options;
    return 0;
}

static int apply_url(hf_client *client, const struct hf_url *url, hf_error *why)
{
    int64_t handoff, ttl_ms;
    int rc = hf__url_number(url, "handoff", 0, 1000000, client->handoff, &handoff, why);
    if (rc == 0)
        rc = hf__url_time(url, "ttl", 1, HF_TTL_MAX_MS, client->ttl_ns / HF_NS_PER_MS,
                          &ttl_ms, why);
    if (rc != 0)
        return rc;
    client->handoff = (uint32_t)handoff;
    client->ttl_ns = ttl_ms * HF_NS_PER_MS;
    return 0;
}

static void name_program(hf_client *client, const char *program)
{
    if (!program || !program[0])
        program = program_invocation_short_name;
    size_t len = strnlen(program, sizeof(client->program) - 1);
    while (len > 0 && ((unsigned char)program[len] & 0xc0) == 0x80)
        len--; /* never cut inside a character */
    memcpy(client->program, program, len);
    client->program[len] = '\0';
}

static void init_lists(hf_client *client)
{
    hf__list_init(&client->claims);
    hf__list_init(&client->ready);
    hf__list_init(&client->renewals);
    hf__list_init(&client->ops);
    hf__list_init(&client->idle);
    hf__list_init(&client->calls);
    hf__list_init(&client->alerts);
    hf__list_init(&client->sleepers);
}

static hf_client *client_new(const hf_options *options)
{
    hf_client *client =
        hf__handle_new(HANDLE_CLIENT, sizeof(*client), offsetof(hf_client, store));
    if (!client)
        return NULL;
    if (!client->lock_made)
        pthread_mutex_init(&client->lock, NULL);
    client->lock_made = true;
    uint64_t mark = hf__fork_mark();
    if (client->fork_mark != mark)
        client->fork_mark = mark; /* stale handles read it, from any thread */
    client->user_driver = options->driver == HF_DRIVER_USER;
    client->request_ns = HF_DEFAULT_REQUEST_MS * HF_NS_PER_MS;
    if (options->request_timeout_ms)
        client->request_ns = options->request_timeout_ms * HF_NS_PER_MS;
    client->close_ns = HF_DEFAULT_CLOSE_MS * HF_NS_PER_MS;
    if (options->close_timeout_ms)
        client->close_ns = options->close_timeout_ms * HF_NS_PER_MS;
    client->confirm_ns = options->confirm_timeout_ms * HF_NS_PER_MS;
    client->handoff = HF_DEFAULT_HANDOFF;
    if (options->handoff)
        client->handoff = options->handoff == HF_OFF ? 0 : (uint32_t)options->handoff;
    client->ttl_ns = options->ttl_ms * HF_NS_PER_MS;
    client->host.ops = &hf__host_ops;
    client->host.program = client->program;
    client->host.request_ns = client->request_ns;
    client->outer_fd = client->done_fd = -1;
    client->renew_timer.callback = hf__renew_due;
    client->renew_timer.arg = client;
    pthread_cond_init(&client->emptied, NULL);
    name_program(client, options->program);
    init_lists(client);
    hf__loop_init(&client->loop);
    return client;
}

static void free_pools(hf_client *client)
{
    hf__claim_free_idle(client);
    for (struct handle *hold; (hold = client->free_holds);) {
        client->free_holds = hold->next;
        hf__handle_recycle(hold);
    }
    client->free_holds_count = 0;
}

/* Its handle is closed, so no caller can lock it. A forked child leaves `emptied`
 * alone: destroying it would wait for the threads of the parent. */
static void client_free(hf_client *client)
{
    free_pools(client);
    hf__free(client->names);
    hf__free(client->session);
    hf__loop_done(&client->loop);
    if (client->outer_fd >= 0)
        close(client->outer_fd);
    if (client->done_fd >= 0)
        close(client->done_fd);
    if (!hf__forked(client->fork_mark))
        pthread_cond_destroy(&client->emptied);
    hf__handle_recycle(client);
}

/* The store ends its session by then, too. */
static void close_begins(hf_client *client)
{
    client->host.close_by_ns = hf__now() + client->close_ns;
}

static int open_session(hf_client *client, const struct hf_url *url, hf_error *why)
{
    const struct hf_backend *store = client->store;
    client->session = hf__alloc(store->session_size ? store->session_size : 1);
    int rc = client->session ? hf__loop_reserve(&client->loop) : HF_ENOMEM;
    if (rc != 0)
        return hf__fail_code(why, rc);
    pthread_mutex_lock(&client->lock);
    rc = store->open(client->session, &client->host, url, &client->caps, why);
    close_begins(client);
    if (rc != 0)
        store->close(client->session, false);
    pthread_mutex_unlock(&client->lock);
    if (rc != 0)
        return rc;
    if (!client->ttl_ns && (client->caps & HF_CAP_LEASE))
        client->ttl_ns = store->default_ttl_ns;
    if (!(client->caps & HF_CAP_HANDOFF) || !store->pass)
        client->handoff = 0;
    return 0;
}

static int draw_first_id(hf_client *client, hf_error *why)
{
    struct hf_random pool = { .left = 0 };
    if (hf__random(&pool, &client->next_id, sizeof(client->next_id)) != 0)
        return hf__fail(why, HF_ESYSTEM, "the kernel gives no random bytes");
    return 0;
}

static int check_lease(const hf_client *client, hf_error *why)
{
    if (client->ttl_ns && !(client->caps & HF_CAP_LEASE))
        return hf__fail(why, HF_EUNSUPPORTED, "the %s store has no leases here",
                        client->store->name);
    return 0;
}

static const char *default_url(void)
{
    const char *url = secure_getenv("HOLDFAST_URL");
    return url && url[0] ? url : "file:";
}

int hf__client_open(const char *text, const hf_options *given, hf_client **ret_client,
                    hf_error *why)
{
    hf_options options = HF_OPTIONS_INIT;
    struct hf_url url;
    void *memory = NULL;
    hf_client *client = NULL;
    int rc = read_options(given, &options, why);
    if (rc != 0)
        return rc;
    rc = hf__url_parse(text ? text : default_url(), &url, &memory, why);
    if (rc != 0)
        return rc;
    const struct hf_backend *store = hf__registry_find(&url, why);
    if (!store) {
        rc = why && why->code ? why->code : HF_EURL;
        goto out;
    }
    client = client_new(&options);
    if (!client) {
        rc = hf__fail_code(why, HF_ENOMEM);
        goto out;
    }
    client->store = store;
    rc = apply_url(client, &url, why);
    if (rc == 0)
        rc = draw_first_id(client, why);
    if (rc == 0)
        rc = open_session(client, &url, why);
    if (rc == 0 && (rc = check_lease(client, why)) != 0)
        store->close(client->session, false);
    if (rc == 0) {
        *ret_client = hf__handle_wrap(&client->handle);
    } else {
        hf__handle_close(&client->handle);
        client_free(client);
    }
out:
    hf__free(memory);
    return rc;
}

/* ---- closing --------------------------------------------------------------------- */

static void end_ops(hf_client *client)
{
    for (struct hf_list_node *link; (link = hf__list_first(&client->ops));) {
        struct hf_op *op = HF_CONTAINER(link, struct hf_op, all);
        if ((op->kind == OP_ACQUIRE || op->kind == OP_LATCH) && !op->undoing)
            hf__acquire_undo(op, HF_ECLOSED);
        if (op->kind == OP_REQUEST && !op->finished)
            client->store->forget(client->session,
                                  &HF_CONTAINER(op, struct request_call, op)->request);
        if (!op->finished) /* withdrawals are waited for below */
            hf__op_finish(op, hf__fail_code(&op->why, HF_ECLOSED));
    }
}

static void part_from_holds(struct claim *claim)
{
    for (struct hf_list_node *link; (link = hf__list_first(&claim->parts));) {
        struct hold_part *part = HF_CONTAINER(link, struct hold_part, link);
        hf__list_remove(link);
        part->claim = NULL;
        atomic_store(&part->hold->lost, true);
        if (part->hold->watch)
            hf__list_remove(&part->hold->watch->link);
    }
    claim->holders = 0;
}

/* A detached hold outlives its client, if a caller knows of it. */
static bool needs_withdrawing(const struct claim *claim)
{
    bool held = claim->state == CLAIM_HELD || claim->state == CLAIM_LOST;
    bool known = false;
    for (HF_EACH(link, &claim->parts))
        known |= HF_CONTAINER(link, struct hold_part, link)->hold->handed_out;
    return held && !(known && claim->ticket.flags & HF_TICKET_DETACHED);
}

static void await_claims(hf_client *client, struct hf_op *op)
{
    hf__list_push_back(&client->ops, &op->all);
    if (--op->pending != 0 && hf__loop_ensure(&client->loop, NULL) == 0) {
        hf__op_timer(op, client->host.close_by_ns);
        hf__op_await(op, HF_NEVER);
    }
    hf__op_finish(op, 0);
}

/* Withdraws what is held and waits for the store to confirm, up to the close
 * timeout. */
static void end_claims(hf_client *client)
{
    struct hf_op op;
    hf__op_init(&op, client, OP_RELEASE);
    op.pending = 1;
    op.reserved = hf__loop_reserve(&client->loop) == 0;
    for (HF_EACH_SAFE(link, &client->claims)) {
        struct claim *claim = HF_CONTAINER(link, struct claim, all);
        bool leaves = needs_withdrawing(claim);
        part_from_holds(claim);
        if (leaves) {
            hf__claim_withdraw(claim, &op);
            if (claim->state == CLAIM_WITHDRAWN) {
                claim->withdraw_op = NULL;
                op.pending--;
                hf__claim_withdrawn(claim);
            }
        } else if (claim->state == CLAIM_WITHDRAWING) {
            claim->withdraw_op = &op;
            op.pending++;
        }
    }
    await_claims(client, &op);
}

/* Claims that the calls under way gave up since: adoptions without an answer. */
static void end_late_claims(hf_client *client)
{
    struct hf_op op;
    hf__op_init(&op, client, OP_RELEASE);
    op.pending = 1;
    op.reserved = hf__loop_reserve(&client->loop) == 0;
    for (HF_EACH(link, &client->claims)) {
        struct claim *claim = HF_CONTAINER(link, struct claim, all);
        if (claim->state != CLAIM_WITHDRAWING || claim->withdraw_op)
            continue;
        claim->withdraw_op = &op;
        op.pending++;
    }
    await_claims(client, &op);
}

static void free_claims(hf_client *client)
{
    for (struct hf_list_node *link; (link = hf__list_first(&client->claims));)
        hf__claim_free(HF_CONTAINER(link, struct claim, all));
}

/* In a forked child: memory and descriptors only, and nothing if a thread of the parent
 * was inside at the moment of the fork. */
static void close_forked(hf_client *client)
{
    if (pthread_mutex_trylock(&client->lock) != 0)
        return;
    client->closing = true;
    client->loop.sleeping = client->loop.use_timer_fd = false; /* the parent's */
    client->store->close(client->session, true);
    hf__list_init(&client->ops);
    for (HF_EACH(link, &client->claims))
        part_from_holds(HF_CONTAINER(link, struct claim, all));
    free_claims(client);
    hf__handle_close(&client->handle); /* from now on no op finds it open */
    pthread_mutex_unlock(&client->lock);
    client_free(client);
}

void hf__client_close(hf_client *handle)
{
    hf_client *client = hf__handle_object(handle, HANDLE_CLIENT);
    if (!client || !hf__handle_live(&client->handle, hf__handle_tag(handle)) ||
        hf__in_callback(client))
        return;
    if (hf__forked(client->fork_mark)) {
        close_forked(client);
        return;
    }
    int rc;
    if (!hf__client_lock(handle, &rc, NULL))
        return;
    client->closing = true;
    close_begins(client);
    end_ops(client);
    hf__run_ready(client);
    end_claims(client);
    hf__run_ready(client);
    while (client->inside > 0)
        pthread_cond_wait(&client->emptied, &client->lock);
    end_late_claims(client);
    hf__run_ready(client);
    hf__stop_thread(client);
    hf__run_calls(client);
    client->store->close(client->session, false);
    free_claims(client);
    hf__handle_close(&client->handle); /* from now on no op finds it open */
    pthread_mutex_unlock(&client->lock);
    client_free(client);
}
