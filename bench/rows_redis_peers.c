/* SPDX-License-Identifier: MIT */
#include "redis_bare.h"

void rows_redis_peers(struct bench *bench)
{
    (void)bench;
}
