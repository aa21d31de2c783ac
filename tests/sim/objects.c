/* SPDX-License-Identifier: MIT */
/*
 * One latch and one cell, used by everybody, and what must hold of them.
 *
 * The latch: after a set that was confirmed it is closed for certain until as many
 * count-downs have been begun as it was set to; a wait that began and ended in between
 * has been let through wrongly. The cell: a version is written over once, and what is
 * read is never older than what was confirmed before the reading began.
 */
#include "sim.h"

#include <string.h>

const char objects_latch[] = "latch";
static const char cell_name[] = "cell";

static struct {
    int64_t closed_since; /* true time; NEVER: may be open */
    uint64_t set_to;      /* of a set that was confirmed */
    uint64_t begun;       /* count-downs, all of them ... */
    uint64_t ended;       /* ... and those of which the end is known */
    uint64_t mark;        /* of `ended`, when that set was asked for */
    uint64_t setting;     /* sets that are under way */
    uint64_t sets;        /* begun */
    uint64_t version;     /* of the cell: the newest that was confirmed */
    uint64_t written_over;
} was;

void objects_reset(void)
{
    memset(&was, 0, sizeof(was));
    was.closed_since = NEVER;
}

void objects_forget(void)
{
    was.closed_since = NEVER;
    was.version = 0;
}

static bool is_open_end(int rc)
{
    return rc == HF_EUNCERTAIN || rc == HF_EUNREACHABLE || rc == HF_ECLOSED;
}

/* ---- latch ----------------------------------------------------------------------- */

/* More count-downs than are known to have come before it may have come after it. */
static bool may_be_open(void)
{
    return was.begun - was.mark >= was.set_to;
}

/* Beside another one nobody can tell which of the two came first. */
static void latch_set(int client, hf_client *handle)
{
    uint32_t to = (uint32_t)dice_between(1, 6);
    uint64_t mark = was.ended, sets = ++was.sets;
    bool alone = was.setting++ == 0;
    int rc = hf_latch_set(handle, objects_latch, to, NULL);
    trace(EVENT_LATCH, client, 0, to, (uint64_t)rc);
    was.setting--;
    if (rc != 0)
        return;
    was.set_to = to;
    was.mark = mark;
    was.closed_since = alone && sets == was.sets && !may_be_open() ? sim_now : NEVER;
}

static void latch_down(int client, hf_client *handle)
{
    uint32_t left, by = (uint32_t)dice_between(1, 2);
    was.begun += by;
    if (may_be_open())
        was.closed_since = NEVER;
    int rc = hf_latch_count_down(handle, objects_latch, by, &left, NULL);
    trace(EVENT_LATCH, client, 1, by, (uint64_t)rc);
    if (!is_open_end(rc))
        was.ended += by;
}

int64_t objects_wait_began(void)
{
    return sim_now;
}

void objects_wait_ended(int64_t began, int rc)
{
    if (rc == 0 && was.closed_since < began)
        violation("a wait for the latch ended while it was closed");
}

/* ---- cell ------------------------------------------------------------------------ */

static void cell_write(int client, hf_client *handle)
{
    uint64_t version = 0, fresh = 0, before = was.version;
    void *data = NULL;
    size_t len;
    int rc = hf_cell_get(handle, cell_name, &data, &len, &version, NULL);
    hf_free(data);
    trace(EVENT_CELL, client, 0, oracle_number(version), (uint64_t)rc);
    if (rc != 0 && rc != HF_ENOENT)
        return;
    if (version < before && was.version >= before)
        violation("the cell went back from version %llu to %llu",
                  (unsigned long long)before, (unsigned long long)version);
    rc = hf_cell_set(handle, cell_name, version, "x", 1, &fresh, NULL);
    trace(EVENT_CELL, client, 1, oracle_number(fresh), (uint64_t)rc);
    if (rc != 0)
        return;
    if (fresh <= version || (version && version == was.written_over))
        violation("version %llu of the cell was written over again",
                  (unsigned long long)version);
    if (was.written_over < version)
        was.written_over = version;
    if (was.version < fresh)
        was.version = fresh;
}

void objects_act(int client, hf_client *handle)
{
    uint64_t what = dice() % 4;
    if (what == 0)
        latch_set(client, handle);
    else if (what < 3)
        latch_down(client, handle);
    else
        cell_write(client, handle);
}

/* Faults are over: open the latch, so that whoever waits for it comes home. */
void objects_heal(int client, hf_client *handle)
{
    was.begun += 100;
    was.closed_since = NEVER;
    int rc = hf_latch_count_down(handle, objects_latch, 100, NULL, NULL);
    trace(EVENT_LATCH, client, 2, 100, (uint64_t)rc);
    if (rc != 0 && !is_open_end(rc)) /* then it is done again */
        violation("the latch cannot be counted down: %s", hf_error_name(rc));
}
