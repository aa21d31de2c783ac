/* SPDX-License-Identifier: MIT */
/*
 * The registers: see register.h.
 *
 * Called by worker threads of all processes at once, on shared memory. The fenced
 * register changes by one compare-and-swap of 16 bytes, token and value together, so
 * that there is no moment between the check of a token and the write under it.
 * (__sync: gcc makes a library call of the __atomic form, which may take a lock.)
 */
#include "register.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 word;

_Static_assert(sizeof(struct fenced) == sizeof(word), "swapped as one");

/* ---- The file -------------------------------------------------------------------- */

static void *file_map(const char *path, size_t size)
{
    void *memory = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    if (ftruncate(fd, (off_t)size) == 0)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

struct resource *resources_map(const char *path, size_t count)
{
    return file_map(path, count * sizeof(struct resource));
}

void resources_unmap(struct resource *resources, size_t count)
{
    if (resources)
        munmap(resources, count * sizeof *resources);
}

uint64_t *words_map(const char *path, size_t count)
{
    return file_map(path, count * sizeof(uint64_t));
}

void words_unmap(uint64_t *words, size_t count)
{
    if (words)
        munmap(words, count * sizeof *words);
}

/* ---- The fenced register --------------------------------------------------------- */

static word pack(struct fenced fenced)
{
    word packed;
    memcpy(&packed, &fenced, sizeof packed);
    return packed;
}

static bool swap(struct fenced *fenced, struct fenced from, struct fenced to)
{
    return __sync_bool_compare_and_swap((word *)(void *)fenced, pack(from), pack(to));
}

/* Halves of two moments are harmless: no swap from such a pair succeeds. Only refusing
 * for good needs care, and tokens never fall, so that one half is enough for it. */
static struct fenced look(const struct fenced *fenced)
{
    struct fenced seen;
    seen.token = __atomic_load_n(&fenced->token, __ATOMIC_SEQ_CST);
    seen.value = __atomic_load_n(&fenced->value, __ATOMIC_SEQ_CST);
    return seen;
}

bool fenced_read(struct fenced *fenced, uint64_t token, uint64_t *ret_value)
{
    for (;;) {
        struct fenced seen = look(fenced);
        struct fenced mine = { .token = token, .value = seen.value };
        if (token < seen.token)
            return false;
        if (swap(fenced, seen, mine)) {
            *ret_value = seen.value;
            return true;
        }
    }
}

bool fenced_write(struct fenced *fenced, uint64_t token, uint64_t value)
{
    for (;;) {
        struct fenced seen = look(fenced);
        struct fenced mine = { .token = token, .value = value };
        if (token != seen.token)
            return false;
        if (swap(fenced, seen, mine))
            return true;
    }
}

/* ---- The plain register ---------------------------------------------------------- */

uint64_t plain_read(const struct resource *resource)
{
    return __atomic_load_n(&resource->plain, __ATOMIC_SEQ_CST);
}

void plain_write(struct resource *resource, uint64_t value)
{
    __atomic_store_n(&resource->plain, value, __ATOMIC_SEQ_CST);
}

/* ---- The board ------------------------------------------------------------------- */

struct notice *board_map(const char *path, size_t count)
{
    return file_map(path, count * sizeof(struct notice));
}

void board_unmap(struct notice *board, size_t count)
{
    if (board)
        munmap(board, count * sizeof *board);
}

#define NOTICE_WORDS (sizeof(struct notice) / sizeof(uint64_t))

/* FNV-1a over all words but the first. */
static uint64_t notice_sum(const struct notice *notice)
{
    uint64_t words[NOTICE_WORDS], sum = UINT64_C(0xcbf29ce484222325);
    memcpy(words, notice, sizeof words);
    for (size_t i = 1; i < NOTICE_WORDS; i++)
        sum = (sum ^ words[i]) * UINT64_C(0x100000001b3);
    return sum ? sum : 1;
}

void notice_post(struct notice *place, struct notice *notice)
{
    uint64_t words[NOTICE_WORDS], *to = (uint64_t *)(void *)place;
    notice->sum = notice_sum(notice);
    memcpy(words, notice, sizeof words);
    __atomic_store_n(&place->sum, 0, __ATOMIC_SEQ_CST);
    for (size_t i = 1; i < NOTICE_WORDS; i++)
        __atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&place->sum, notice->sum, __ATOMIC_SEQ_CST);
}

bool notice_take(struct notice *place, struct notice *ret_notice, bool copy)
{
    uint64_t words[NOTICE_WORDS], *from = (uint64_t *)(void *)place;
    words[0] = __atomic_load_n(&place->sum, __ATOMIC_SEQ_CST);
    if (!words[0])
        return false;
    for (size_t i = 1; i < NOTICE_WORDS; i++)
        words[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
    memcpy(ret_notice, words, sizeof words);
    if (notice_sum(ret_notice) != words[0])
        return false;
    return copy || __atomic_compare_exchange_n(&place->sum, &words[0], 0, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
