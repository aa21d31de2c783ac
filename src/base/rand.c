/* SPDX-License-Identifier: MIT */
/*
 * Random bytes through a buffer per thread, so that an id costs no system call.
 *
 * Called from any thread, not from signal handlers. The buffer remembers the mark of
 * the process that filled it; a forked child has another mark and fills its own before
 * the first byte. Bytes are wiped as they are served, so no two callers get the same
 * ones and none can be read from memory later.
 */
#include "rand.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include "fork.h"

#define POOL_SIZE 4096

struct pool {
    uint64_t mark;
    size_t left; /* unserved bytes, at the end of `bytes` */
    unsigned char bytes[POOL_SIZE];
};

static _Thread_local struct pool pool;

static int kernel_random(unsigned char *buffer, size_t size)
{
    while (size > 0) {
        ssize_t got = getrandom(buffer, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        buffer += got;
        size -= (size_t)got;
    }
    return 0;
}

static int pool_fill(struct pool *p, uint64_t mark)
{
    p->left = 0;
    int rc = kernel_random(p->bytes, sizeof p->bytes);
    if (rc)
        return rc;
    p->mark = mark;
    p->left = sizeof p->bytes;
    return 0;
}

int hf__random(void *buffer, size_t size)
{
    struct pool *p = &pool;
    uint64_t mark = hf__fork_mark();

    if (size > sizeof p->bytes)
        return kernel_random(buffer, size);
    if (p->mark != mark || p->left < size) {
        int rc = pool_fill(p, mark);
        if (rc)
            return rc;
    }
    unsigned char *from = p->bytes + sizeof p->bytes - p->left;
    memcpy(buffer, from, size);
    explicit_bzero(from, size);
    p->left -= size;
    return 0;
}
