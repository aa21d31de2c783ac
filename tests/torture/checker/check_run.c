/* SPDX-License-Identifier: MIT */
/*
 * The checker from beginning to end: what was read is settled, then each lock goes
 * through the checks, one after the other, and gives its memory back. Where there is
 * much to do a second thread takes the second half of the locks.
 */
#include "book.h"

#include <pthread.h>
#include <stdlib.h>

struct check *check_new(const struct check_options *options)
{
    struct check *check = zeroed(1, sizeof *check);
    check->options = *options;
    check->start = NEVER;
    return check;
}

static void lock_done(struct lock *lock)
{
    free(lock->holds);
    free(lock->failures);
    free(lock->moves);
    free(lock->losses);
    free(lock->others);
    lock->holds = NULL;
    lock->failures = NULL;
    lock->moves = NULL;
    lock->losses = NULL;
    lock->others = NULL;
    register_done(&lock->fenced);
    register_done(&lock->plain);
}

void check_free(struct check *check)
{
    if (!check)
        return;
    for (size_t i = 0; i < check->lock_count; i++)
        lock_done(&check->locks[i]);
    for (int id = 0; id < CHECKS; id++)
        for (int i = 0; i < CHECK_EXAMPLES; i++)
            free(check->report.checks[id].examples[i]);
    free(check->locks);
    free(check->processes);
    free(check->threads);
    free(check->windows);
    free(check->heals);
    free(check->stalls);
    free(check);
}

/* A hold that nobody ended was there while its process lived; after that, nobody has
 * it, whatever its lease says, unless it was to outlive the process. */
static void hold_settle(struct check *check, struct hold *hold)
{
    if (hold->belief == NEVER)
        hold->belief = process_of(check, hold->thread)->last;
    if (hold->end > hold->belief && !(hold->flags & HOLD_LEFT))
        hold->end = hold->belief;
    if (hold->result != H_OK || (hold->flags & (HOLD_PIECE | HOLD_ADOPTED)))
        return;
    uint64_t over = hold->over != NEVER ? hold->over : hold->belief;
    if (windows_meet(check, hold->inv, over))
        totals_of(check, hold->kind)->exposed++;
}

static void lock_check(struct check *check, struct lock *lock)
{
    for (size_t i = 0; i < lock->hold_count; i++)
        hold_settle(check, &lock->holds[i]);
    check_moves(check, lock);
    moves_settle(check, lock);
    check_registers(check, lock);
    register_done(&lock->fenced);
    register_done(&lock->plain);

    uint32_t *by_ret = order_by(lock->holds, lock->hold_count, sizeof *lock->holds,
                                offsetof(struct hold, ret), NULL);
    check_exclusion(check, lock, by_ret);
    bool overlap = check_belief(check, lock, by_ret);
    check_releases(check, lock);
    if (overlap)
        check_released(check, lock, by_ret);
    check_order(check, lock, by_ret);
    check_tokens(check, lock, by_ret);
    check_busy(check, lock, by_ret);
    free(by_ret);
    check_waits(check, lock);
    lock_done(lock);
}

static void totals_add(struct check_totals *all, const struct check_totals *part)
{
    all->acquisitions += part->acquisitions;
    all->exposed += part->exposed;
    all->busy += part->busy;
    all->timeout += part->timeout;
    all->unknown += part->unknown;
    all->failed += part->failed;
    all->lost += part->lost;
    all->late += part->late;
    all->stuck += part->stuck;
    all->fenced += part->fenced;
    all->rejected += part->rejected;
    all->lost_fenced += part->lost_fenced;
    all->lost_plain += part->lost_plain;
    all->adoptions += part->adoptions;
    all->left += part->left;
    all->evictions += part->evictions;
    all->downgrades += part->downgrades;
    all->extends += part->extends;
}

/* ---- Two threads ----------------------------------------------------------------- */

#define WORTH_IT 100000 /* holds */

/* Locks [first, last), with a report of its own. */
struct share {
    struct check *check;
    size_t first, last;
};

static void *share_check(void *arg)
{
    struct share *share = arg;
    for (size_t i = share->first; i < share->last; i++)
        if (share->check->locks[i].seen)
            lock_check(share->check, &share->check->locks[i]);
    return NULL;
}

/* Where to cut, so that both have about as many holds. */
static size_t share_middle(const struct check *check)
{
    size_t all = 0, sum = 0, middle = 0;
    for (size_t i = 0; i < check->lock_count; i++)
        all += check->locks[i].hold_count;
    if (all < WORTH_IT)
        return check->lock_count;
    while (middle < check->lock_count && sum < all / 2)
        sum += check->locks[middle++].hold_count;
    return middle;
}

static void finding_merge(struct check_finding *all, struct check_finding *part)
{
    for (uint64_t i = 0; i < CHECK_EXAMPLES && part->examples[i]; i++) {
        if (all->found + i < CHECK_EXAMPLES)
            all->examples[all->found + i] = part->examples[i];
        else
            free(part->examples[i]);
    }
    for (int group = 0; group < GROUPS; group++)
        all->found_by[group] += part->found_by[group];
    all->found += part->found;
    all->examined += part->examined;
    all->applicable |= part->applicable;
}

/* What the checks of a lock may have added, behind what is there: as if one thread had
 * gone through all of them. */
static void report_merge(struct check_report *all, struct check_report *part)
{
    for (int id = 0; id < CHECKS; id++)
        finding_merge(&all->checks[id], &part->checks[id]);
    for (int group = 0; group < GROUPS; group++)
        totals_add(&all->by[group], &part->by[group]);
    if (part->belief_max_ns > all->belief_max_ns)
        all->belief_max_ns = part->belief_max_ns;
    all->suspicions += part->suspicions;
    all->excused += part->excused;
    all->unserved += part->unserved;
    all->doubted += part->doubted;
}

static void locks_check(struct check *check)
{
    struct check *other = zeroed(1, sizeof *other);
    struct share mine = { check, 0, share_middle(check) };
    struct share theirs = { other, mine.last, check->lock_count };
    pthread_t thread;

    *other = *check;
    other->report = (struct check_report){ 0 };
    bool alone = theirs.first == theirs.last ||
                 pthread_create(&thread, NULL, share_check, &theirs) != 0;
    share_check(&mine);
    if (alone)
        share_check(&theirs);
    else
        pthread_join(thread, NULL);
    report_merge(&check->report, &other->report);
    free(other);
}

/* ---- All of it ------------------------------------------------------------------- */

const struct check_report *check_run(struct check *check)
{
    struct check_report *report = &check->report;

    check_thread_end(check);
    windows_settle(check);
    heals_settle(check);
    stalls_settle(check);
    check_notes(check);
    check_threads(check);
    locks_check(check);
    for (int group = 0; group < GROUPS; group++)
        totals_add(&report->all, &report->by[group]);
    for (int id = 0; id < CHECKS; id++)
        if (check_must_hold(&check->options, id))
            report->violations += report->checks[id].found;
    report->duration_ns = check->end > check->start ? check->end - check->start : 0;
    return report;
}
