/* SPDX-License-Identifier: MIT */
/*
 * K9: what was granted is released once, by its holder, and is still there until then.
 *
 *   - A thread that ended in order has released all that it was granted.
 *   - Nothing is released that was not granted; permits are within their limit, and the
 *     limit is one (noted while reading).
 *   - A release that says that all was well vouches for the whole of the hold. If
 *     somebody else was in meanwhile, the release should have said that it was late.
 */
#include "book.h"

void check_notes(struct check *check)
{
    struct check_finding *k9 = &check->report.checks[K9_CONSERVATION];
    uint64_t kept =
        check->note_count < CHECK_EXAMPLES ? check->note_count : CHECK_EXAMPLES;
    for (uint64_t i = 0; i < kept; i++) {
        const struct note *note = &check->notes[i];
        finding(check, K9_CONSERVATION, G_NONE, "lock %u: %s at %.6f, hold %u: %s",
                note->event.lock, say_thread(check, note->thread).text,
                say_time(check, note->event.t_ns), note->event.hold, note->what);
    }
    k9->found = check->note_count;
    for (int group = 0; group < GROUPS; group++)
        k9->found_by[group] = check->note_by[group];
}

static void released_found(struct check *check, const struct lock *lock,
                           struct hold *hold, const struct hold *other,
                           uint64_t overlap)
{
    if (hold->flags & HOLD_CONFLICT)
        return;
    finding(check, K9_CONSERVATION, group_of(hold->kind),
            "lock %u: %s | inside %s, whose release at %.6f said ok | for %.6f s",
            lock->number, say_hold(check, hold).text, say_hold(check, other).text,
            say_time(check, other->belief), (double)overlap / 1e9);
}

void check_releases(struct check *check, struct lock *lock)
{
    struct check_finding *k9 = &check->report.checks[K9_CONSERVATION];
    for (size_t i = 0; i < lock->hold_count; i++) {
        const struct hold *hold = &lock->holds[i];
        if (hold->result != H_OK || (hold->flags & HOLD_PIECE))
            continue;
        k9->examined++;
        if (!hold->release && !(hold->flags & (HOLD_LEAVING | HOLD_LEFT)) &&
            check->threads[hold->thread].ended)
            finding(check, K9_CONSERVATION, group_of(hold->kind),
                    "lock %u: never released, though the thread ended in order: %s",
                    lock->number, say_hold(check, hold).text);
    }
    k9->applicable = k9->examined > 0 || k9->found > 0;
}

void check_released(struct check *check, struct lock *lock, const uint32_t *by_ret)
{
    sweep(check, lock, by_ret, COVER_RELEASED, released_found);
}
