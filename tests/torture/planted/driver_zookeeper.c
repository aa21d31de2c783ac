/* SPDX-License-Identifier: MIT */
/*
 * Mistakes with ZooKeeper's queue of ephemeral sequential nodes.
 *
 * `zookeeper-create-repeated`: the connection broke before the create was answered, so
 * the create is sent again. The first one had been carried out. Both nodes belong to
 * one session, which lives; the client knows the second, and waits behind the first:
 * for itself. Curator's CURATOR-45 and its protection mode, and kazoo's search for its
 * own prefix, are about this.
 *
 * `zookeeper-looks-first` is the same lock with the remedy: the node's name begins with
 * 128 random bits, and who repeats looks for them first. It is the correct one beside.
 *
 * `zookeeper-expiry-unheard`: a holder that believes until it releases. Its session
 * ends while it is stopped, its node goes, the next one is let in; it goes on with its
 * work, and takes "no such session" at the end for "released already".
 *
 * Breaks by: one lost answer; a pause beyond the session.
 */
#include "keeper_blocking.h"
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/planted"
#define PATH_BYTES 256
#define DIGITS 10 /* of a sequential node */
#define ATTEMPTS 50

struct queuer {
    struct keeper *keeper;
    bool looks_first;
    bool unheard; /* does not want to know of its session's end */
    char folder[PATH_BYTES / 2];
    char node[PATH_BYTES];
};

static struct queuer *queuer_of(const struct planted *self)
{
    return self->extra;
}

/* ---- The queue ------------------------------------------------------------------- */

struct look {
    const char *mine;  /* the digits of my node; "": not known */
    const char *owner; /* what my node begins with */
    char found[128];   /* the node that does */
    bool ahead;        /* somebody is */
};

static const char *digits_of(const char *name)
{
    size_t len = strlen(name);
    return len < DIGITS ? name : name + len - DIGITS;
}

static void look_at(void *arg, const char *name)
{
    struct look *look = arg;
    if (strncmp(name, look->owner, strlen(look->owner)) == 0)
        snprintf(look->found, sizeof look->found, "%s", name);
    look->ahead |= strcmp(digits_of(name), look->mine) < 0;
}

static int queue_look(struct planted *self, const char *mine, struct look *ret_look)
{
    struct queuer *queuer = queuer_of(self);
    int rc = KEEPER_SILENT;
    for (int i = 0; i < ATTEMPTS && (rc == KEEPER_SILENT || rc == KEEPER_UNSENT); i++) {
        *ret_look = (struct look){ .mine = mine, .owner = self->owner };
        rc = keeper_children(queuer->keeper, queuer->folder, look_at, ret_look);
    }
    return rc;
}

static void folders_make(struct planted *self)
{
    struct queuer *queuer = queuer_of(self);
    keeper_create(queuer->keeper, FOLDER, KEEPER_PERSISTENT, NULL, 0);
    keeper_create(queuer->keeper, queuer->folder, KEEPER_PERSISTENT, NULL, 0);
}

/* Was it carried out after all? */
static bool found_again(struct planted *self)
{
    struct queuer *queuer = queuer_of(self);
    struct look look;
    if (!queuer->looks_first || queue_look(self, "", &look) != KEEPER_OK ||
        !*look.found)
        return false;
    snprintf(queuer->node, sizeof queuer->node, "%s/%.127s", queuer->folder,
             look.found);
    return true;
}

static bool queue_enter(struct planted *self)
{
    struct queuer *queuer = queuer_of(self);
    char path[PATH_BYTES];
    snprintf(queuer->folder, sizeof queuer->folder, FOLDER "/%.90s", self->key);
    snprintf(path, sizeof path, "%s/%s-lock-", queuer->folder, self->owner);
    for (int i = 0; i < ATTEMPTS; i++) {
        int rc = keeper_create(queuer->keeper, path, KEEPER_EPHEMERAL_SEQUENTIAL,
                               queuer->node, sizeof queuer->node);
        if (rc == KEEPER_OK || (rc == KEEPER_SILENT && found_again(self)))
            return true;
        if (rc == KEEPER_NO_NODE)
            folders_make(self);
    }
    return false;
}

/* H_OK, H_LATE if it had gone, H_UNKNOWN. Repeated without harm: the name is mine. */
static enum history_result queue_leave(struct planted *self)
{
    struct queuer *queuer = queuer_of(self);
    int rc = KEEPER_UNSENT;
    bool asked = false;
    for (int i = 0; i < ATTEMPTS && (rc == KEEPER_SILENT || rc == KEEPER_UNSENT); i++) {
        asked |= rc == KEEPER_SILENT;
        rc = keeper_delete(queuer->keeper, queuer->node);
    }
    if (rc == KEEPER_OK || queuer->unheard || (rc == KEEPER_NO_NODE && asked))
        return H_OK;
    return rc == KEEPER_NO_NODE || rc == KEEPER_OVER ? H_LATE : H_UNKNOWN;
}

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    struct queuer *queuer = queuer_of(self);
    struct look look;
    (void)want;
    if (!self->queued && !(self->queued = queue_enter(self)))
        return H_FAILED;
    if (queue_look(self, digits_of(queuer->node), &look) != KEEPER_OK)
        return H_FAILED;
    return look.ahead ? H_BUSY : H_OK;
}

/* ---- The drivers ----------------------------------------------------------------- */

static enum history_result acquire(void *arg, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    struct planted *self = arg;
    enum history_result result = planted_poll(self, want, attempt, ret_grant);
    if (result == H_OK || !self->queued)
        return result;
    return queue_leave(self) == H_UNKNOWN ? H_UNKNOWN : result;
}

static enum history_result release(void *arg)
{
    return queue_leave(arg);
}

static void queuer_close(void *arg)
{
    struct planted *self = arg;
    if (self->extra)
        keeper_close(queuer_of(self)->keeper);
    free(self->extra);
    planted_close(self);
}

static void *queuer_open(const struct driver_settings *settings,
                         const struct queuer *how)
{
    struct planted *self = planted_open(settings);
    struct queuer *queuer = calloc(1, sizeof *queuer);
    if (!self || !queuer)
        abort();
    *queuer = *how;
    queuer->keeper = keeper_open(self->place, self->ttl_ms);
    self->extra = queuer;
    return self;
}

static void *repeats_open(const struct driver_settings *settings)
{
    return queuer_open(settings, &(struct queuer){ .looks_first = false });
}

static void *looks_open(const struct driver_settings *settings)
{
    return queuer_open(settings, &(struct queuer){ .looks_first = true });
}

static void *unheard_open(const struct driver_settings *settings)
{
    return queuer_open(settings,
                       &(struct queuer){ .looks_first = true, .unheard = true });
}

#define QUEUE_DRIVER(name_, open_)                                                     \
    {                                                                                  \
        .name = name_, .kinds = ONLY_MUTEX, .open = open_, .close = queuer_close,      \
        .acquire = acquire, .release = release, .still_held = planted_still_held,      \
    }

extern const struct driver driver_zk_repeats, driver_zk_looks, driver_zk_unheard;
const struct driver driver_zk_repeats =
    QUEUE_DRIVER("zookeeper-create-repeated", repeats_open);
const struct driver driver_zk_looks = QUEUE_DRIVER("zookeeper-looks-first", looks_open);
const struct driver driver_zk_unheard =
    QUEUE_DRIVER("zookeeper-expiry-unheard", unheard_open);
