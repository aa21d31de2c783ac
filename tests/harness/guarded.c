/* SPDX-License-Identifier: MIT */
/*
 * The things that locks guard: used by threads of a scenario and, through a file that
 * they all map, by takers.
 *
 * A visit counts with a load and a store, not with an atomic increment (relaxed, so
 * that no compiler and no race detector objects): if two holders are ever inside at
 * once, an increment is lost or somebody is met.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "harness.h"

struct guarded *guarded_map(const char *path)
{
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(struct guarded)) == 0);
    struct guarded *guarded =
        mmap(NULL, sizeof *guarded, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(guarded != MAP_FAILED);
    close(fd);
    return guarded;
}

void guarded_unmap(struct guarded *guarded)
{
    munmap(guarded, sizeof *guarded);
}

void guarded_enter(struct guarded *guarded)
{
    long long inside = 1 + atomic_fetch_add(&guarded->inside, 1);
    long long most = atomic_load(&guarded->most);
    while (inside > most &&
           !atomic_compare_exchange_weak(&guarded->most, &most, inside))
        ;
}

void guarded_leave(struct guarded *guarded)
{
    atomic_fetch_sub(&guarded->inside, 1);
}

void guarded_visit(struct guarded *guarded, uint64_t token)
{
    if (atomic_fetch_add(&guarded->inside, 1) != 0)
        atomic_fetch_add(&guarded->violations, 1);
    if (token <= atomic_load(&guarded->token))
        atomic_fetch_add(&guarded->violations, 1);
    long long count = atomic_load_explicit(&guarded->count, memory_order_relaxed);
    atomic_store(&guarded->token, token);
    atomic_store_explicit(&guarded->count, count + 1, memory_order_relaxed);
    atomic_fetch_sub(&guarded->inside, 1);
}

bool guarded_write(struct guarded *guarded, uint64_t token)
{
    unsigned long long largest = atomic_load(&guarded->token);
    if (token < largest)
        return false;
    atomic_store(&guarded->token, token);
    return true;
}
