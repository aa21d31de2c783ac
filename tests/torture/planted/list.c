/* SPDX-License-Identifier: MIT */
/* The locks that are wrong on purpose, for worker-planted (../drivers.c). `redlock`
 * and `zookeeper-looks-first` are right: the other side of a comparison. */
#include "planted.h"

extern const struct driver *const planted_drivers[];

extern const struct driver driver_setnx_forever, driver_setnx_expire,
    driver_get_then_set, driver_del_blind, driver_del_checked, driver_no_validity,
    driver_validity_from_reply, driver_seconds, driver_getset, driver_owner_pid,
    driver_no_fence, driver_counter_token, driver_redlock, driver_redlock_restart,
    driver_semaphore_leak, driver_semaphore_expiring, driver_semaphore_look,
    driver_rw_counters, driver_fair_dead, driver_watchdog_blind, driver_watchdog_late,
    driver_release_resent, driver_busy_remembered, driver_timeout_orphan,
    driver_pidfile, driver_flock_unlink, driver_zk_repeats, driver_zk_looks,
    driver_zk_unheard, driver_evict_whoever, driver_adopt_keeps, driver_leave_drops,
    driver_extend_nothing, driver_downgrade_lets_go;

const struct driver *const planted_drivers[] = {
    &driver_setnx_forever,
    &driver_setnx_expire,
    &driver_get_then_set,
    &driver_del_blind,
    &driver_del_checked,
    &driver_no_validity,
    &driver_validity_from_reply,
    &driver_seconds,
    &driver_getset,
    &driver_owner_pid,
    &driver_no_fence,
    &driver_counter_token,
    &driver_redlock,
    &driver_redlock_restart,
    &driver_semaphore_leak,
    &driver_semaphore_expiring,
    &driver_semaphore_look,
    &driver_rw_counters,
    &driver_fair_dead,
    &driver_watchdog_blind,
    &driver_watchdog_late,
    &driver_release_resent,
    &driver_busy_remembered,
    &driver_timeout_orphan,
    &driver_pidfile,
    &driver_flock_unlink,
    &driver_zk_repeats,
    &driver_zk_looks,
    &driver_zk_unheard,
    &driver_evict_whoever,
    &driver_adopt_keeps,
    &driver_leave_drops,
    &driver_extend_nothing,
    &driver_downgrade_lets_go,
    NULL,
};
