/* SPDX-License-Identifier: MIT */
/*
 * The clients of a worker: opened, picked, closed while in use, dispatched.
 *
 * A slot decides how its client is opened; after a close another one takes its place.
 * The records live as long as the process, because holds and ops refer to them.
 */
#include <poll.h>
#include <stdlib.h>

#include "storm.h"

bool slot_is_user_driven(size_t slot)
{
    bool alone = world->config.processes == 1 && world->config.threads == 1;
    return alone || slot == 2;
}

struct client *client_pick(struct rng *rng)
{
    uint64_t slot = rng_below(rng, (uint64_t)world->config.clients);
    pthread_mutex_lock(&self->mutex);
    struct client *client = self->clients[slot];
    pthread_mutex_unlock(&self->mutex);
    return client;
}

static hf_options options_of(size_t slot, const struct rng *rng)
{
    hf_options options = HF_OPTIONS_INIT;
    options.program = "storm";
    options.driver = slot_is_user_driven(slot) ? HF_DRIVER_USER : 0;
    if (slot == 1)
        options.handoff = HF_OFF;
    if (slot == 3)
        options.handoff = 2;
    if (slot == 1 && (world->caps & HF_CAP_LEASE) && rng->state % 2)
        options.ttl_ms = 1500;
    if (world->config.kills && !(world->caps & HF_CAP_CRASH) && world->default_ttl)
        options.ttl_ms = 2000;
    if (world->config.lossy)
        options.request_timeout_ms = 700;
    return options;
}

void slot_open(size_t slot, struct rng *rng)
{
    hf_options options = options_of(slot, rng);
    hf_error why;
    int64_t began = now_ns();
    struct client *client = calloc(1, sizeof *client);
    if (!client)
        trouble("no memory for a client");
    int rc = CALL(open, world->url, &options, &client->handle, &why);
    event("open slot %zu: %s", slot, code_name(rc));
    if (rc != 0 && !is_weather(rc, began))
        violation(13, "hf_open answers %s: %s", code_name(rc), why.text);
    if (rc != 0) {
        free(client);
        return;
    }
    client->serial = 1 + atomic_fetch_add(&world->serials, 1);
    client->user_driven = options.driver == HF_DRIVER_USER;
    client->ttl_ms = options.ttl_ms;
    COUNTED(capabilities);
    if (hf_capabilities(client->handle) != world->caps)
        violation(13, "capabilities differ from one client to the next");
    pthread_mutex_lock(&self->mutex);
    client->next = self->all_clients;
    self->all_clients = client;
    self->clients[slot] = client;
    pthread_mutex_unlock(&self->mutex);
}

void client_dispatch(struct client *client)
{
    hf_error why;
    int fd = CALL(dispatch_fd, client->handle, &why);
    if (fd >= 0) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        bool alone = world->config.processes == 1 && world->config.threads == 1;
        poll(&ready, 1, alone ? 0 : 3);
    }
    int rc = CALL(dispatch, client->handle, &why);
    if ((rc != 0 || fd < 0) && !atomic_load(&client->closing) && rc != HF_ECLOSED)
        violation(13, "hf_dispatch answers %s", code_name(rc));
}

/* ---- Close ----------------------------------------------------------------------- */

/* Under the process's mutex, so that the record stays this op's. */
static bool op_is_open(const struct op *op, const struct client *client,
                       uint32_t *serial)
{
    pthread_mutex_lock(&self->mutex);
    bool open = atomic_load(&op->state) == OP_RUNNING && op->by_callback &&
                op->ask.client == client && (!*serial || op->serial == *serial);
    *serial = op->serial;
    pthread_mutex_unlock(&self->mutex);
    return open;
}

/* Every callback was called before hf_close() returned. One that a dispatch on another
 * thread has begun may not have reached us: hence the patience. */
static void callbacks_check(struct client *client)
{
    for (size_t i = 0; i < OPS_MAX; i++) {
        const struct op *op = &self->ops[i];
        uint32_t serial = 0;
        int tries = 0;
        while (op_is_open(op, client, &serial) && tries++ < 2000)
            poll(NULL, 0, 1); /* pause: between two looks */
        if (tries > 2000)
            violation(9, "hf_close() has returned, and an op was told no end");
    }
}

void slot_renew(size_t slot, struct rng *rng)
{
    pthread_mutex_lock(&self->mutex);
    bool moves = self->slot_moves[slot];
    self->slot_moves[slot] = true;
    pthread_mutex_unlock(&self->mutex);
    if (moves)
        return;
    slot_close(slot);
    slot_open(slot, rng);
    pthread_mutex_lock(&self->mutex);
    self->slot_moves[slot] = false;
    pthread_mutex_unlock(&self->mutex);
}

void slot_close(size_t slot)
{
    pthread_mutex_lock(&self->mutex);
    struct client *client = self->clients[slot];
    self->clients[slot] = NULL;
    pthread_mutex_unlock(&self->mutex);
    if (!client)
        return;
    atomic_store(&client->closing, true);
    model_closing(client, P_CLOSING);
    event("close slot %zu, client %llu", slot, (unsigned long long)client->serial);
    int64_t began = now_ns();
    COUNTED(close);
    hf_close(client->handle);
    if (now_ns() - began > 20000 * NS_PER_MS)
        violation(8, "hf_close took %lld ms",
                  (long long)(now_ns() - began) / NS_PER_MS);
    atomic_store(&client->closed, true);
    model_closing(client, P_CLOSED);
    atomic_fetch_add(&world->closes, 1);
    callbacks_check(client);
    if (hf_capabilities(client->handle) != 0)
        violation(14, "a closed client has capabilities");
}
