/* SPDX-License-Identifier: MIT */
/*
 * The mark of this process.
 *
 * One page holds one number. The kernel zeroes the page in every child, however it was
 * made, so a mark taken in the parent does not match there; the child's first call of
 * hf__fork_mark() finds the zero and draws a number of its own. Kernels before 4.14
 * cannot wipe: there a pthread_atfork handler writes the zero.
 *
 * Called from any thread. The page is made once and stays until the process ends; the
 * number goes from 0 to its value by one compare-exchange and then never changes.
 */
#include "fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"

const volatile uint64_t *hf__fork_page;

static pthread_once_t page_once = PTHREAD_ONCE_INIT;
static uint64_t *page;
static uint64_t page_unmapped; /* used if no page can be mapped */

static void child_wipe(void)
{
    __atomic_store_n(page, 0, __ATOMIC_RELAXED);
}

static void page_make(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    page = memory == MAP_FAILED ? &page_unmapped : memory;
    if (page == &page_unmapped || madvise(page, size, MADV_WIPEONFORK) != 0)
        pthread_atfork(NULL, NULL, child_wipe);
    hf__fork_page = page;
}

static uint64_t number_draw(void)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (uint64_t)hf__now() ^ (uint64_t)getpid() << 40;
    return number ? number : 1;
}

uint64_t hf__fork_mark(void)
{
    pthread_once(&page_once, page_make);
    uint64_t mark = __atomic_load_n(page, __ATOMIC_RELAXED);
    if (__builtin_expect(mark == 0, 0)) {
        uint64_t drawn = number_draw();
        if (__atomic_compare_exchange_n(page, &mark, drawn, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            mark = drawn;
    }
    return mark;
}
