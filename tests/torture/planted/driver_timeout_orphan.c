/* SPDX-License-Identifier: MIT */
/*
 * Mistake: "timed out" although the request may have been granted.
 *
 * The answer did not come in time, so the caller is told that it has no lock, and that
 * is the end of it. The server has done what it was asked. Jepsen's etcd tests carry a
 * remark that a lock request that timed out may complete later and hold the lock;
 * Curator's protection mode and CURATOR-45 are about the same thing on ZooKeeper.
 *
 * Breaks by: one slow answer. The lock is held by nobody, for a whole lease.
 */
#include "planted.h"

#define PATIENCE_MS 20

static enum history_result attempt(struct planted *self, const struct driver_want *want)
{
    resp_patience(self->redis, PATIENCE_MS);
    enum history_result result = planted_take(self, want);
    resp_patience(self->redis, 1000);
    return result == H_UNKNOWN ? H_TIMEOUT : result;
}

static enum history_result acquire(void *self, const struct driver_want *want,
                                   struct driver_grant *ret_grant)
{
    return planted_poll(self, want, attempt, ret_grant);
}

extern const struct driver driver_timeout_orphan;
const struct driver driver_timeout_orphan =
    PLANTED_DRIVER("timeout-leaves-a-lock", ONLY_MUTEX, acquire, planted_drop);
