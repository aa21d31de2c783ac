/* SPDX-License-Identifier: MIT */
/*
 * Random bytes through a pool, so that an id needs no system call.
 *
 * Each filling takes a new 256-bit key from the kernel and stretches it with ChaCha8,
 * four blocks side by side: a 128-bit id then costs a few nanoseconds, the kernel's own
 * bytes fifty. The key is wiped at once.
 *
 * Not for signal handlers. The pool has the mark of the process that filled it; a
 * forked child has another mark and fills its own before the first byte. Bytes are
 * wiped as they are returned, so no two callers get the same bytes and none can be read
 * from memory later.
 */
#include "rand.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

typedef uint32_t lanes __attribute__((vector_size(16)));

enum { ROUNDS = 8, WORDS = 16, KEY_WORDS = 8 };

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

static inline lanes rotate(lanes x, int bits)
{
    return x << bits | x >> (32 - bits);
}

static inline void quarter(lanes *a, lanes *b, lanes *c, lanes *d)
{
    *a += *b;
    *d = rotate(*d ^ *a, 16);
    *c += *d;
    *b = rotate(*b ^ *c, 12);
    *a += *b;
    *d = rotate(*d ^ *a, 8);
    *c += *d;
    *b = rotate(*b ^ *c, 7);
}

/* Four ChaCha blocks, counters counter .. counter + 3, one per lane. The lanes are left
 * side by side: the order of random words does not matter. */
static void four_blocks(const uint32_t *key, uint32_t counter, lanes *out)
{
    static const uint32_t sigma[4] = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
    lanes start[WORDS], x[WORDS];
    for (int i = 0; i < 4; i++)
        start[i] = (lanes){ sigma[i], sigma[i], sigma[i], sigma[i] };
    for (int i = 0; i < KEY_WORDS; i++)
        start[4 + i] = (lanes){ key[i], key[i], key[i], key[i] };
    start[12] = (lanes){ counter, counter + 1, counter + 2, counter + 3 };
    start[13] = start[14] = start[15] = (lanes){ 0, 0, 0, 0 };
    memcpy(x, start, sizeof x);
    for (int i = 0; i < ROUNDS; i += 2) {
        for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + j], &x[8 + j], &x[12 + j]);
        for (int j = 0; j < 4; j++)
            quarter(&x[j], &x[4 + (j + 1) % 4], &x[8 + (j + 2) % 4],
                    &x[12 + (j + 3) % 4]);
    }
    for (int i = 0; i < WORDS; i++)
        out[i] = x[i] + start[i];
}

static int pool_fill(struct hf_random *p, uint64_t mark)
{
    uint32_t key[KEY_WORDS];
    lanes blocks[WORDS];
    p->left = 0;
    int rc = kernel_random((unsigned char *)key, sizeof key);
    if (rc)
        return rc;
    for (size_t at = 0; at < sizeof p->bytes; at += sizeof blocks) {
        four_blocks(key, (uint32_t)(at / 64), blocks);
        memcpy(p->bytes + at, blocks, sizeof blocks);
    }
    explicit_bzero(key, sizeof key);
    explicit_bzero(blocks, sizeof blocks);
    p->mark = mark;
    p->left = sizeof p->bytes;
    return 0;
}

int hf__random_slow(struct hf_random *pool, void *buffer, size_t size)
{
    if (size >= sizeof pool->bytes)
        return kernel_random(buffer, size);
    int rc = pool_fill(pool, hf__fork_mark());
    return rc ? rc : hf__random(pool, buffer, size);
}
