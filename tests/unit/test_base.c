/* SPDX-License-Identifier: MIT */
/*
 * Errors, memory, clock, random bytes, fork mark and list. Tests that check a forked
 * child read its answer from a shared page after waitpid(), or over pipes where parent
 * and child alternate.
 */
#include "unit.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/base/clock.h"
#include "../../src/base/error.h"
#include "../../src/base/fork.h"
#include "../../src/base/list.h"
#include "../../src/base/mem.h"
#include "../../src/base/rand.h"

static _Thread_local struct hf_random pool;

static void *shared_page(size_t size)
{
    void *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(page != MAP_FAILED);
    return page;
}

static void wait_for(pid_t child)
{
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* ---- Errors ---------------------------------------------------------------------- */

START_TEST(error_every_code_has_words)
{
    int count = 0;
#define CHECK_WORDS(name, value, sentence)                                             \
    ck_assert_int_eq(name, value);                                                     \
    ck_assert_int_lt(name, 0);                                                         \
    ck_assert_str_eq(hf_error_name(name), #name);                                      \
    ck_assert_str_eq(hf_error_sentence(name), sentence);                               \
    count++;
    HF_ERRORS(CHECK_WORDS)
#undef CHECK_WORDS
    for (int code = -1; code >= -count; code--)
        ck_assert_str_ne(hf_error_name(code), "HF_E?");
    ck_assert_str_eq(hf_error_name(0), "HF_OK");
    ck_assert_str_eq(hf_error_name(-count - 1), "HF_E?");
    ck_assert_str_eq(hf_error_name(INT_MIN), "HF_E?");
    ck_assert(hf_error_sentence(1)[0] != '\0');
}
END_TEST

START_TEST(error_is_filled_in)
{
    hf_error why;

    memset(&why, 0x55, sizeof why);
    ck_assert_int_eq(hf__fail(&why, HF_EBUSY, "%s %d", "lock", 7), HF_EBUSY);
    ck_assert_int_eq(why.code, HF_EBUSY);
    ck_assert_int_eq(why.sys, 0);
    ck_assert_str_eq(why.text, "lock 7");

    ck_assert_int_eq(hf__fail_sys(&why, HF_ESYSTEM, 2, "open %s", "x"), HF_ESYSTEM);
    ck_assert_int_eq(why.sys, 2);
    ck_assert_str_eq(why.text, "open x: No such file or directory");
    hf__fail_sys(&why, HF_ESYSTEM, 99999, "x");
    ck_assert_str_eq(why.text, "x: unknown system error");

    ck_assert_int_eq(hf__fail_code(&why, HF_ENOMEM), HF_ENOMEM);
    ck_assert_str_eq(why.text, "out of memory");
    ck_assert_int_eq(why.sys, 0);
}
END_TEST

START_TEST(error_needs_no_struct)
{
    ck_assert_int_eq(hf__fail(NULL, HF_EBUSY, "%d", 1), HF_EBUSY);
    ck_assert_int_eq(hf__fail_sys(NULL, HF_ESYSTEM, 2, "x"), HF_ESYSTEM);
    ck_assert_int_eq(hf__fail_code(NULL, HF_EURL), HF_EURL);
}
END_TEST

START_TEST(error_text_is_one_line)
{
    hf_error why;
    hf__fail(&why, HF_EURL, "a\nb\tc\033[1m\x7F d\r\n");
    ck_assert_str_eq(why.text, "a?b?c?[1m? d??");
}
END_TEST

/* Wherever the text is cut, no half character is left. */
START_TEST(error_cut_keeps_whole_characters)
{
    static const char *const chars[] = { "\xC3\xA4", "\xE2\x82\xAC",
                                         "\xF0\x9F\x94\x92" };
    char text[400];
    hf_error why;

    for (size_t pad = 0; pad < 4; pad++) {
        for (size_t i = 0; i < 3; i++) {
            size_t width = strlen(chars[i]);
            size_t room = (sizeof why.text - 1 - pad) / width * width + pad;
            memset(text, 'x', pad);
            for (size_t at = pad; at + width < sizeof text; at += width) {
                memcpy(text + at, chars[i], width);
                text[at + width] = '\0';
            }
            hf__fail(&why, HF_EURL, "%s", text);
            ck_assert_uint_eq(strlen(why.text), room);
            ck_assert_mem_eq(why.text, text, room);
        }
    }
    memset(text, 'y', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    hf__fail_sys(&why, HF_EURL, 2, "%s", text);
    ck_assert_uint_eq(strlen(why.text), sizeof why.text - 1);
}
END_TEST

/* ---- Memory ---------------------------------------------------------------------- */

START_TEST(mem_is_zeroed_and_counted)
{
    size_t live = hf__mem_live();
    uint64_t count = hf__mem_count();
    unsigned char *block = hf__alloc(64);

    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(block[i], 0);
    memset(block, 0xAA, 64);
    block = hf__realloc(block, 64, 4096);
    ck_assert_uint_eq(block[63], 0xAA);
    for (int i = 64; i < 4096; i++)
        ck_assert_uint_eq(block[i], 0);
    block = hf__realloc(block, 4096, 10);
    ck_assert_uint_eq(block[9], 0xAA);

    char *copy = hf__copy_text("abcdef", 3);
    ck_assert_str_eq(copy, "abc");
    void *none = hf__alloc(0);
    ck_assert_ptr_nonnull(none);
    void *from_null = hf__realloc(NULL, 0, 5);
    ck_assert_uint_eq(hf__mem_live(), live + 4);
    ck_assert_uint_eq(hf__mem_count(), count + 6);

    hf__free(block);
    hf__free(copy);
    hf__free(none);
    hf__free(from_null);
    hf__free(NULL);
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(mem_nth_fails_once)
{
    size_t live = hf__mem_live();

    for (uint64_t nth = 1; nth <= 5; nth++) {
        hf__mem_fail(nth, 0);
        for (uint64_t i = 1; i <= 8; i++) {
            void *block = hf__alloc(8);
            ck_assert_msg((block == NULL) == (i == nth), "nth %d, i %d", (int)nth,
                          (int)i);
            hf__free(block);
        }
    }
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(mem_sticky_fails_until_off)
{
    size_t live = hf__mem_live();
    char *block = hf__alloc(4);

    memcpy(block, "abc", 4);
    hf__mem_fail(2, 1);
    char *kept = hf__copy_text("x", 1);
    ck_assert_ptr_nonnull(kept);
    ck_assert_ptr_null(hf__alloc(1));
    ck_assert_ptr_null(hf__copy_text("x", 1));
    ck_assert_ptr_null(hf__realloc(block, 4, 400));
    ck_assert_str_eq(block, "abc");
    ck_assert_uint_eq(hf__mem_live(), live + 2);
    hf__mem_fail(0, 0);
    block = hf__realloc(block, 4, 400);
    ck_assert_ptr_nonnull(block);
    hf__free(block);
    hf__free(kept);
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

START_TEST(mem_refuses_what_cannot_be)
{
    size_t live = hf__mem_live();
    ck_assert_ptr_null(hf__copy_text("x", SIZE_MAX));
    ck_assert_uint_eq(hf__mem_live(), live);
}
END_TEST

/* ---- Clock ----------------------------------------------------------------------- */

START_TEST(clock_runs_forward)
{
    int64_t before = hf__now();
    for (int i = 0; i < 1000; i++) {
        int64_t now = hf__now();
        ck_assert_int_ge(now, before);
        before = now;
    }
    int64_t apart = hf__now() - hf__now_coarse();
    ck_assert_int_ge(apart, -50 * HF_NS_PER_MS);
    ck_assert_int_le(apart, HF_NS_PER_S);
}
END_TEST

START_TEST(clock_deadline_saturates)
{
    ck_assert(hf__deadline(5, 0) == 5);
    ck_assert(hf__deadline(5, 3) == 5 + 3 * HF_NS_PER_MS);
    ck_assert(hf__deadline(5, -1) == HF_NEVER);
    ck_assert(hf__deadline(5, INT64_MIN) == HF_NEVER);
    ck_assert(hf__deadline(5, INT64_MAX) == HF_NEVER);
    ck_assert(hf__deadline(5, INT64_MAX / HF_NS_PER_MS) == HF_NEVER - 775807 + 5);
    ck_assert(hf__deadline(900000, INT64_MAX / HF_NS_PER_MS) == HF_NEVER);
}
END_TEST

START_TEST(clock_poll_rounds_up)
{
    ck_assert_int_eq(hf__poll_ms(0, HF_NEVER), -1);
    ck_assert_int_eq(hf__poll_ms(10, 10), 0);
    ck_assert_int_eq(hf__poll_ms(10, 9), 0);
    ck_assert_int_eq(hf__poll_ms(10, INT64_MIN), 0);
    ck_assert_int_eq(hf__poll_ms(10, 11), 1);
    ck_assert_int_eq(hf__poll_ms(0, HF_NS_PER_MS), 1);
    ck_assert_int_eq(hf__poll_ms(0, HF_NS_PER_MS + 1), 2);
    ck_assert_int_eq(hf__poll_ms(0, HF_NEVER - 1), INT_MAX);
    ck_assert_int_eq(hf__poll_ms(INT64_MIN, HF_NEVER - 1), INT_MAX);
}
END_TEST

static int64_t read_number(int fd)
{
    int64_t number;
    ck_assert_int_eq(read(fd, &number, sizeof number), sizeof number);
    return number;
}

/* The child reports its time, waits until the parent has moved it, and reports it
 * again. */
static void clock_child(const char *path, int from, int to)
{
    char go;
    if (hf__clock_shift_open(path) != 0)
        _exit(1);
    for (int i = 0; i < 2; i++) {
        int64_t now = hf__now();
        if (write(to, &now, sizeof now) != sizeof now || read(from, &go, 1) != 1)
            _exit(2);
    }
    _exit(0);
}

START_TEST(clock_shift_is_seen_by_others)
{
    const int64_t hour = 3600 * HF_NS_PER_S;
    char path[] = "/tmp/holdfast-clock-XXXXXX";
    int to[2], from[2];
    close(mkstemp(path));
    ck_assert_int_eq(pipe(to) | pipe(from), 0);
    pid_t child = fork();
    if (child == 0)
        clock_child(path, to[0], from[1]);

    int64_t real = hf__now();
    ck_assert_int_eq(hf__clock_shift_open(path), 0);
    int64_t child_before = read_number(from[0]);
    hf__clock_shift_add(hour);
    ck_assert_int_eq(write(to[1], "g", 1), 1);
    int64_t child_after = read_number(from[0]);
    ck_assert_int_eq(write(to[1], "g", 1), 1);
    wait_for(child);
    unlink(path);

    ck_assert_int_ge(child_after - child_before, hour);
    ck_assert_int_lt(child_after - child_before, 2 * hour);
    ck_assert_int_ge(hf__now() - real, hour);
    ck_assert_int_lt(hf__now() - real, 2 * hour);
    ck_assert_int_ge(hf__now_coarse() - real, hour - HF_NS_PER_S);
    ck_assert_int_eq(hf__poll_ms(0, hour), 5);
    ck_assert_int_eq(hf__poll_ms(0, 2 * HF_NS_PER_MS), 2);
    ck_assert_int_eq(hf__poll_ms(0, HF_NEVER), -1);
}
END_TEST

START_TEST(clock_shift_needs_a_file)
{
    ck_assert_int_lt(hf__clock_shift_open("/nowhere/at/all"), 0);
    int64_t before = hf__now();
    hf__clock_shift_add(3600 * HF_NS_PER_S);
    ck_assert_int_lt(hf__now() - before, 1800 * HF_NS_PER_S);
}
END_TEST

/* ---- Fork mark ------------------------------------------------------------------- */

START_TEST(fork_mark_stays_in_its_process)
{
    uint64_t mark = hf__fork_mark();
    ck_assert(mark != 0);
    ck_assert(hf__fork_mark() == mark);
    ck_assert(!hf__forked(mark));
}
END_TEST

/* marks[0] parent, [1] child, [2] grandchild; each checks the one before it. */
static void mark_generation(volatile uint64_t *marks, int level)
{
    if (!hf__forked(marks[level - 1]))
        _exit(1);
    marks[level] = hf__fork_mark();
    if (hf__forked(marks[level]) || !hf__forked(marks[level - 1]))
        _exit(2);
}

static void mark_child(volatile uint64_t *marks)
{
    int status = 0;
    mark_generation(marks, 1);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        mark_generation(marks, 2);
        _exit(0);
    }
    _exit(waitpid(grandchild, &status, 0) != grandchild || status != 0 ? 3 : 0);
}

START_TEST(fork_mark_differs_in_children)
{
    volatile uint64_t *marks = shared_page(4096);
    marks[0] = hf__fork_mark();
    pid_t child = fork();
    if (child == 0)
        mark_child(marks);
    wait_for(child);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            ck_assert(marks[i] != 0 && marks[i] != marks[j]);
    ck_assert(!hf__forked(marks[0]));
}
END_TEST

static void *mark_thread(void *ret)
{
    *(uint64_t *)ret = hf__fork_mark();
    return NULL;
}

START_TEST(fork_mark_is_one_for_all_threads)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    uint64_t marks[THREADS];

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, mark_thread, &marks[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert(marks[i] == hf__fork_mark());
}
END_TEST

/* ---- Random bytes ---------------------------------------------------------------- */

struct id {
    unsigned char bytes[16];
};

static int id_compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct id));
}

static void assert_unique(struct id *ids, size_t count)
{
    static const struct id zero;
    qsort(ids, count, sizeof *ids, id_compare);
    ck_assert_mem_ne(&ids[0], &zero, sizeof zero);
    for (size_t i = 1; i < count; i++)
        ck_assert_mem_ne(&ids[i - 1], &ids[i], sizeof *ids);
}

START_TEST(random_is_unique_over_children)
{
    enum { CHILDREN = 1000 };
    struct id *ids = shared_page((CHILDREN + 1) * sizeof *ids);

    ck_assert_int_eq(hf__random(&pool, &ids[CHILDREN], sizeof *ids), 0);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(hf__random(&pool, &ids[i], sizeof *ids) != 0);
        wait_for(child);
    }
    assert_unique(ids, CHILDREN + 1);
}
END_TEST

START_TEST(random_is_unique_in_a_process)
{
    enum { COUNT = 10000 };
    struct id *ids = calloc(COUNT, sizeof *ids);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(hf__random(&pool, &ids[i], sizeof *ids), 0);
    assert_unique(ids, COUNT);
    free(ids);
}
END_TEST

static void *random_thread(void *ids)
{
    for (int i = 0; i < 1000; i++)
        if (hf__random(&pool, (struct id *)ids + i, sizeof(struct id)) != 0)
            return ids;
    return NULL;
}

START_TEST(random_is_unique_over_threads)
{
    enum { THREADS = 4, COUNT = 1000 };
    struct id *ids = calloc(THREADS * COUNT, sizeof *ids);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, random_thread, ids + i * COUNT), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    assert_unique(ids, THREADS * COUNT);
    free(ids);
}
END_TEST

/* Sizes around the buffer's: every byte is written, and none beyond. */
START_TEST(random_fills_any_size)
{
    static const size_t sizes[] = { 0, 1, 7, 16, 4095, 4096, 4097, 10000 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *seen = calloc(1, sizes[i] + 1);
        unsigned char *bytes = calloc(1, sizes[i] + 1);
        for (int round = 0; round < 20; round++) {
            ck_assert_int_eq(hf__random(&pool, bytes, sizes[i]), 0);
            ck_assert_uint_eq(bytes[sizes[i]], 0);
            for (size_t at = 0; at < sizes[i]; at++)
                seen[at] |= bytes[at];
        }
        for (size_t at = 0; at < sizes[i]; at++)
            ck_assert_uint_ne(seen[at], 0);
        free(seen);
        free(bytes);
    }
}
END_TEST

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
    (void)signal;
    alarms++;
}

/* Signals make getrandom(2) return early; no part may stay unwritten. */
START_TEST(random_survives_signals)
{
    enum { SIZE = 1 << 20 };
    static const unsigned char zero[32];
    struct sigaction action = { .sa_handler = count_alarm };
    struct itimerval often = { { 0, 100 }, { 0, 100 } };
    unsigned char *bytes = calloc(1, SIZE);

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    do {
        memset(bytes, 0, SIZE);
        alarms = 0;
        ck_assert_int_eq(hf__random(&pool, bytes, SIZE), 0);
    } while (alarms == 0);
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_REAL, &often, NULL);
    for (size_t at = 0; at < SIZE; at += sizeof zero)
        UNIT_ASSERT(memcmp(bytes + at, zero, sizeof zero) != 0);
    free(bytes);
}
END_TEST

/* ---- List ------------------------------------------------------------------------ */

struct node {
    int value;
    struct hf_list_node link;
};

static int list_sum_in_order(const struct hf_list_node *list)
{
    int digits = 0;
    for (HF_EACH(link, list))
        digits = digits * 10 + HF_CONTAINER(link, struct node, link)->value;
    return digits;
}

START_TEST(list_links_and_unlinks)
{
    struct hf_list_node list;
    struct node nodes[4] = { { 1, { 0 } }, { 2, { 0 } }, { 3, { 0 } }, { 4, { 0 } } };

    hf__list_init(&list);
    ck_assert(hf__list_empty(&list));
    ck_assert_ptr_null(hf__list_first(&list));
    hf__list_push_back(&list, &nodes[1].link);
    hf__list_push_back(&list, &nodes[3].link);
    hf__list_push_front(&list, &nodes[0].link);
    hf__list_insert_before(&nodes[3].link, &nodes[2].link);
    ck_assert_int_eq(list_sum_in_order(&list), 1234);
    ck_assert(hf__list_first(&list) == &nodes[0].link);

    hf__list_remove(&nodes[1].link);
    hf__list_remove(&nodes[1].link);
    ck_assert(!hf__list_linked(&nodes[1].link));
    ck_assert_int_eq(list_sum_in_order(&list), 134);
    for (HF_EACH_SAFE(link, &list))
        hf__list_remove(link);
    ck_assert(hf__list_empty(&list));
}
END_TEST

UNIT_MAIN("base", error_every_code_has_words, error_is_filled_in, error_needs_no_struct,
          error_text_is_one_line, error_cut_keeps_whole_characters,
          mem_is_zeroed_and_counted, mem_nth_fails_once, mem_sticky_fails_until_off,
          mem_refuses_what_cannot_be, clock_runs_forward, clock_deadline_saturates,
          clock_poll_rounds_up, clock_shift_is_seen_by_others, clock_shift_needs_a_file,
          fork_mark_stays_in_its_process, fork_mark_differs_in_children,
          fork_mark_is_one_for_all_threads, random_is_unique_over_children,
          random_is_unique_in_a_process, random_is_unique_over_threads,
          random_fills_any_size, random_survives_signals, list_links_and_unlinks)
