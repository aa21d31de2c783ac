/* SPDX-License-Identifier: MIT */
/*
 * test_lockcheck [--count N] [--seed S]: the checker, checked.
 *
 * First stories planted by hand, right and wrong ones for each check. Then N random
 * ones (100,000 unless told), each judged by the checker and, without its code, by a
 * search over all orders (K1, K2) and by all pairs (K3, K4, K7, K10, K12). Where they
 * disagree, the story is printed with its seed.
 */
#include "test_lockcheck.h"

#include "naive.h"
#include "random_story.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct check_options small = { .bound_ns = 100,
                                            .grace_ns = 10,
                                            .strict_plain = true };

/* ---- Planted --------------------------------------------------------------------- */

static bool planted_right(const struct planted *planted, const struct story *story)
{
    const struct check_report *report;
    struct check *check = story_check(story, small, &report);
    bool right = true;

    for (enum check_id id = 0; id < CHECKS; id++) {
        uint64_t want = id == planted->id ? planted->found : 0;
        if (id == K2_BELIEF || report->checks[id].found == want)
            continue;
        right = false;
        printf("# %s found %" PRIu64 ", not %" PRIu64 "; first: %s\n", check_name(id),
               report->checks[id].found, want,
               report->checks[id].examples[0] ? report->checks[id].examples[0] : "");
    }
    if (!right)
        story_print(stdout, story);
    check_free(check);
    return right;
}

static void planted_run(struct tap *tap, const struct planted *planted)
{
    struct story *story = malloc(sizeof *story);
    for (; planted->name; planted++) {
        char name[128];
        memset(story, 0, sizeof *story);
        planted->tell(story);
        snprintf(name, sizeof name, "%s %s: %s", check_name(planted->id),
                 planted->found ? "red" : "green", planted->name);
        tap_ok(tap, planted_right(planted, story), name);
    }
    free(story);
}

/* What is counted without being judged: belief, exposure, faults, suspicion. */
static void counts_run(struct tap *tap)
{
    struct story *story = calloc(1, sizeof *story);
    const struct check_report *report;

    story_thread(story, 1, 0);
    uint32_t hold = story_take(story, H_FAIR, 10, UINT64_C(9000000000), 2, NEVER);
    story_give(story, hold, UINT64_C(9000000010), UINT64_C(9000000020), H_OK);
    story_end(story, UINT64_C(9000000020));
    story_thread(story, 2, 0);
    hold = story_take(story, H_FAIR, UINT64_C(3000000000), UINT64_C(4000000000), 1,
                      UINT64_C(5000000000));
    story_note(story, H_LOST, UINT64_C(9000000007), hold, 0);
    story_give(story, hold, UINT64_C(9000000008), UINT64_C(9000000009), H_LATE);
    story_end(story, UINT64_C(9000000020));
    story_thread(story, 90, 0);
    for (uint8_t i = 0; i < 4; i++)
        story_add(story, (struct history_event){ .t_ns = UINT64_C(9000000009) + i,
                                                 .op = H_FAULT,
                                                 .phase = i % 2 ? H_RETURN : H_INVOKE,
                                                 .value = i / 2,
                                                 .kind = 7 });
    struct check *check = story_check(story, small, &report);
    tap_ok(tap, report->violations == 0, "what is informative is no violation");
    tap_ok(tap, report->checks[K2_BELIEF].found == 1, "K2 red: belief overlaps");
    tap_ok(tap, report->belief_max_ns == 7, "K2: for how long");
    tap_ok(tap, report->suspicions == 1, "K7: overtaken, by the times of asking");
    tap_ok(tap, report->faults == 2 && report->faults_by[7] == 2, "faults by kind");
    tap_ok(tap, report->all.acquisitions == 2 && report->all.exposed == 2,
           "exposed to a fault");
    tap_ok(tap, report->by[G_FAIR].lost == 1 && report->by[G_FAIR].late == 1,
           "lost and late, by kind");
    check_free(check);
    free(story);
}

static void unsound_run(struct tap *tap)
{
    struct story *story = calloc(1, sizeof *story);
    struct check_options options = small;
    const struct check_report *report;

    options.unsound = true;
    for (uint32_t i = 1; i <= 2; i++) {
        story_thread(story, i, 0);
        uint32_t hold = story_take(story, H_MUTEX, 10, 12, i, NEVER);
        story_give(story, hold, 20, 22, H_OK);
        story_end(story, 22);
    }
    struct check *check = story_check(story, options, &report);
    tap_ok(tap, report->violations == 0 && report->checks[K1_EXCLUSION].found == 1,
           "--unsound: K1 is reported and not held against the lock");
    check_free(check);
    story->threads[1].events[1].token = 1;
    check = story_check(story, options, &report);
    tap_ok(tap, report->violations == 1, "--unsound: K3 still is");
    check_free(check);
    free(story);
}

/* ---- Random ---------------------------------------------------------------------- */

struct tally {
    uint64_t stories, disagreements;
    uint64_t red[CHECKS], judged[CHECKS];
};

static void compare(struct tally *tally, const struct story *story, uint64_t seed,
                    enum check_id id, uint64_t got, uint64_t want)
{
    tally->judged[id]++;
    tally->red[id] += want != 0;
    if (got == want)
        return;
    if (tally->disagreements++ >= 3)
        return;
    printf("# seed %" PRIu64 ": %s says %" PRIu64 ", by hand it is %" PRIu64 "\n", seed,
           check_name(id), got, want);
    story_print(stdout, story);
}

static void random_one(struct tally *tally, struct story *story, uint64_t seed)
{
    struct facts facts;
    const struct check_report *report;

    random_story(story, seed);
    facts_read(&facts, story);
    struct check *check = story_check(story, small, &report);
    const struct check_finding *found = report->checks;
    tally->stories++;
    compare(tally, story, seed, K1_EXCLUSION, found[K1_EXCLUSION].found != 0,
            !brute_linearizable(&facts));
    compare(tally, story, seed, K3_TOKENS, found[K3_TOKENS].found,
            naive_tokens(&facts));
    compare(tally, story, seed, K4_FENCED, found[K4_FENCED].found, naive_fenced(story));
    compare(tally, story, seed, K7_ORDER, found[K7_ORDER].found, naive_order(&facts));
    compare(tally, story, seed, K10_BUSY, found[K10_BUSY].found,
            naive_busy(story, &facts, &small));
    compare(tally, story, seed, K12_MOVES, found[K12_MOVES].found, naive_moves(&facts));
    /* Belief is what would be certain if every promise were for ever. */
    facts_believe(&facts);
    compare(tally, story, seed, K2_BELIEF, found[K2_BELIEF].found != 0,
            !brute_linearizable(&facts));
    check_free(check);
}

static void random_run(struct tap *tap, uint64_t count, uint64_t seed)
{
    static const enum check_id judged[] = { K1_EXCLUSION, K2_BELIEF, K3_TOKENS,
                                            K4_FENCED,    K7_ORDER,  K10_BUSY,
                                            K12_MOVES };
    struct story *story = calloc(1, sizeof *story);
    struct tally tally = { 0 };
    char name[128];

    for (uint64_t i = 0; i < count; i++)
        random_one(&tally, story, seed + i);
    free(story);
    snprintf(name, sizeof name, "%" PRIu64 " random stories, %" PRIu64 " disagreements",
             tally.stories, tally.disagreements);
    tap_ok(tap, tally.disagreements == 0, name);
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++) {
        enum check_id id = judged[i];
        printf("# %-3s of %" PRIu64 " judged, %" PRIu64 " are red\n", check_name(id),
               tally.judged[id], tally.red[id]);
        /* A comparison that is all of one colour compares nothing. */
        snprintf(name, sizeof name, "%s is red in some and green in some",
                 check_name(id));
        tap_ok(tap,
               tally.red[id] > count / 100 &&
                   tally.judged[id] - tally.red[id] > count / 100,
               name);
    }
}

/* Whatever is read, the checker survives it, and does not call it well. */
static void nonsense_run(struct tap *tap, uint64_t seed)
{
    struct story *story = calloc(1, sizeof *story);
    uint64_t red = 0;

    for (uint64_t i = 0; i < 5000; i++) {
        const struct check_report *report;
        random_nonsense(story, seed + i);
        struct check *check = story_check(story, small, &report);
        red += report->violations != 0;
        check_free(check);
    }
    tap_ok(tap, red > 4500, "nonsense is survived and not called well");
    free(story);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "count", required_argument, NULL, 'c' },
        { "seed", required_argument, NULL, 's' },
        { 0 },
    };
    struct tap tap = { 0 };
    uint64_t count = 100000, seed = 1;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == '?')
            return 2;
        *(option == 'c' ? &count : &seed) = strtoull(optarg, NULL, 10);
    }
    planted_run(&tap, planted_safety);
    planted_run(&tap, planted_progress);
    planted_run(&tap, planted_moves);
    planted_run(&tap, planted_leases);
    counts_run(&tap);
    unsound_run(&tap);
    nonsense_run(&tap, seed);
    random_run(&tap, count, seed);
    return tap_done(&tap);
}
