/* SPDX-License-Identifier: MIT */
/*
 * Versioned cells: read, written, removed, with the version that was read, with older
 * ones, and with ones that never were.
 *
 * Each value holds a number that no other has. A version is consumed once, comes with
 * the value that was written under it, and never goes back. While no other write is
 * under way the model knows what the store has, and so what a write must answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/base/text.h"
#include "storm.h"

static int cell_pick(struct rng *rng)
{
    int name = (int)rng_below(rng, world->names_count);
    for (size_t i = 0; i < world->names_count; i++, name++)
        if (world->names[name % (int)world->names_count].family == F_CELL)
            return name % (int)world->names_count;
    return -1;
}

static bool code_is_allowed(int name, int rc, const struct client *client,
                            int64_t began)
{
    const struct name *of = &world->names[name];
    if (rc == HF_ECLOSED)
        return atomic_load(&client->closing);
    if (rc == HF_EMISMATCH)
        return of->mixed;
    if (rc == HF_EINVAL)
        return name_is_refused(world->config.store, of->text, HF_CELL);
    return is_weather(rc, began);
}

static void cell_get(struct client *client, int name)
{
    struct cell *cell = &world->names[name].cell;
    const char *text = world->names[name].text;
    hf_error why;
    void *data = NULL;
    size_t len = 0;
    uint64_t version = 0;
    int64_t began = now_ns();
    model_lock();
    uint64_t begun = cell->begun, floor = cell->version;
    bool known = cell->known && cell->under_way == 0;
    model_unlock();
    int rc = CALL(cell_get, client->handle, text, &data, &len, &version, &why);
    event("cell_get %.30s: %s, version %llu", text, code_name(rc),
          (unsigned long long)version);
    uint64_t hash = rc == 0 ? hf__text_hash(data, len) : 0;
    model_lock();
    bool still = known && cell->begun == begun;
    if (rc == 0 && version < floor)
        violation(11, "%.60s has version %llu; it had %llu before", text,
                  (unsigned long long)version, (unsigned long long)floor);
    if (still && rc == HF_ENOENT && floor != 0)
        violation(11, "%.60s is there, and hf_cell_get does not find it", text);
    for (size_t i = 0; rc == 0 && i < VERSIONS_KEPT; i++)
        if (cell->written[i] == version && cell->hash[i] != hash)
            violation(11, "%.60s version %llu has another value than was written", text,
                      (unsigned long long)version);
    if (rc == 0 && version > cell->version)
        cell->version = version;
    if (rc != 0 && rc != HF_ENOENT && !code_is_allowed(name, rc, client, began))
        violation(13, "hf_cell_get answers %s", code_name(rc));
    model_unlock();
    COUNTED(free);
    hf_free(data);
}

/* ---- Writing --------------------------------------------------------------------- */

struct writing {
    int name;
    uint64_t expected, floor, begun, hash;
    bool alone, removes;
    int64_t began_ns;
};

static void consume(const struct writing *writing, struct cell *cell)
{
    const char *text = world->names[writing->name].text;
    for (size_t i = 0; i < VERSIONS_KEPT; i++)
        if (writing->expected && cell->consumed[i] == writing->expected)
            violation(11, "%.60s version %llu was replaced twice", text,
                      (unsigned long long)writing->expected);
    cell->consumed[cell->consumed_at++ % VERSIONS_KEPT] = writing->expected;
}

static void write_done(const struct writing *writing, struct cell *cell,
                       uint64_t version)
{
    const char *text = world->names[writing->name].text;
    consume(writing, cell);
    if (!writing->removes && version <= writing->floor)
        violation(11, "%.60s was written as version %llu; %llu was before it", text,
                  (unsigned long long)version, (unsigned long long)writing->floor);
    if (writing->removes)
        return;
    uint32_t slot = cell->written_at++ % VERSIONS_KEPT;
    cell->written[slot] = version;
    cell->hash[slot] = writing->hash;
    if (version > cell->version)
        cell->version = version;
}

/* `alone`: no other write overlaps, so that the answer is certain. */
static void write_judge(const struct writing *writing, struct cell *cell, int rc)
{
    bool alone = writing->alone && cell->begun == writing->begun;
    const char *text = world->names[writing->name].text;
    if (alone && rc == HF_ESTALE && writing->expected == writing->floor &&
        writing->floor)
        violation(11, "%.60s has version %llu, and a write of it is stale", text,
                  (unsigned long long)writing->expected);
    if (alone && rc == 0 && writing->expected && writing->expected != writing->floor)
        violation(11, "%.60s has version %llu, and was written as if it had %llu", text,
                  (unsigned long long)writing->floor,
                  (unsigned long long)writing->expected);
}

static void write_begin(struct writing *writing, uint64_t choice)
{
    struct cell *cell = &world->names[writing->name].cell;
    model_lock();
    writing->expected = cell->version;
    if (choice == 0)
        writing->expected = 0;
    else if (choice == 1)
        writing->expected = cell->consumed[0];
    else if (choice == 2)
        writing->expected = cell->version + 1000;
    writing->floor = cell->version;
    writing->alone = cell->known && cell->under_way == 0;
    writing->begun = ++cell->begun;
    cell->under_way++;
    writing->began_ns = now_ns();
    model_unlock();
}

/* After a removal, or an answer that was lost, only the next write tells what is. */
static void write_end(const struct writing *writing, struct cell *cell, int rc,
                      uint64_t version)
{
    cell->under_way--;
    if (rc == 0)
        write_done(writing, cell, version);
    write_judge(writing, cell, rc);
    if (rc == 0 && !writing->removes && cell->under_way == 0 &&
        cell->begun == writing->begun)
        cell->known = true;
    else if ((rc == 0 && writing->removes) || (rc != 0 && rc != HF_ESTALE) ||
             cell->under_way > 0)
        cell->known = false;
}

void act_cell(struct rng *rng)
{
    struct client *client = client_pick(rng);
    struct writing writing = { .name = cell_pick(rng) };
    uint64_t choice = rng_below(rng, 10);
    bool reads = rng_chance(rng, 400);
    writing.removes = rng_chance(rng, 150);
    hf_error why;
    char value[64];
    uint64_t version = 0;
    if (!client || writing.name < 0)
        return;
    if (reads) {
        cell_get(client, writing.name);
        return;
    }
    struct cell *cell = &world->names[writing.name].cell;
    int len = snprintf(value, sizeof value, "value %llu",
                       (unsigned long long)atomic_fetch_add(&world->serials, 1));
    writing.hash = hf__text_hash(value, (size_t)len);
    write_begin(&writing, choice);
    int rc = CALL(cell_set, client->handle, world->names[writing.name].text,
                  writing.expected, writing.removes ? NULL : value,
                  writing.removes ? 0 : (size_t)len, &version, &why);
    event("cell_set %.30s at %llu: %s, version %llu", world->names[writing.name].text,
          (unsigned long long)writing.expected, code_name(rc),
          (unsigned long long)version);
    model_lock();
    write_end(&writing, cell, rc, version);
    bool nothing = rc == HF_EINVAL && writing.removes && writing.expected == 0;
    if (rc != 0 && rc != HF_ESTALE && !nothing &&
        !code_is_allowed(writing.name, rc, client, writing.began_ns))
        violation(13, "hf_cell_set answers %s", code_name(rc));
    model_unlock();
}

/* ---- The end of a run ------------------------------------------------------------ */

static void cell_clear(struct client *client, const char *name)
{
    void *data = NULL;
    size_t len;
    uint64_t version;
    for (int tries = 0; tries < 50; tries++) {
        if (hf_cell_get(client->handle, name, &data, &len, &version, NULL) != 0)
            return;
        hf_free(data);
        hf_cell_set(client->handle, name, version, NULL, 0, NULL, NULL);
    }
}

/* Latches opened, cells removed: then nothing may be left. */
void objects_clear(struct client *client)
{
    for (size_t i = 0; i < world->names_count; i++) {
        const struct name *name = &world->names[i];
        if (name->family == F_LATCH && (world->caps & HF_CAP_LATCH))
            hf_latch_count_down(client->handle, name->text, 1000, NULL, NULL);
        if (name->family == F_CELL && (world->caps & HF_CAP_CELL))
            cell_clear(client, name->text);
    }
}
