/* SPDX-License-Identifier: MIT */
/*
 * The locks that a worker knows: see driver.h.
 *
 * The program `worker` has the right ones. `worker-planted` is made of the same sources
 * with TORTURE_PLANTED and adds those that are wrong on purpose, from its own list.
 */
#include "driver.h"

#include <string.h>

extern const struct driver driver_holdfast;
extern const struct driver driver_peer;
#ifdef TORTURE_PLANTED
extern const struct driver *const planted_drivers[];
#endif

const struct driver *const drivers[] = { &driver_holdfast, &driver_peer, NULL };

static const struct driver *list_find(const struct driver *const *list,
                                      const char *name)
{
    for (; *list; list++)
        if (strcmp((*list)->name, name) == 0)
            return *list;
    return NULL;
}

const struct driver *driver_find(const char *name)
{
    const struct driver *found = list_find(drivers, name);
#ifdef TORTURE_PLANTED
    if (!found)
        found = list_find(planted_drivers, name);
#endif
    return found;
}
