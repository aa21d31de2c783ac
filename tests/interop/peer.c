/* SPDX-License-Identifier: MIT */
/*
 * peer URL: does what the lines on standard input say, one after another, and answers
 * each with one line. The drivers of other libraries in redis/ and zookeeper/ know the
 * same lines, so that either side of a pair can be played by either library.
 *
 *   take KIND NAME WAIT_MS TTL_MS   held TOKEN | busy | timeout | CODE
 *   drop KIND NAME                  dropped | CODE
 *   state KIND NAME                 held | doubtful | lost | none
 *   downgrade rw NAME               downgraded | CODE
 *   latch-set NAME N                set | CODE           latch-down NAME N   left N
 *   latch-wait NAME MS              open | timeout       latch-count NAME    left N
 *   who NAME                        the number of holders and of waiters
 *   watch KIND NAME                 watched | CODE
 *   revoked KIND NAME MS            revoked | timeout (a watched hold was asked for)
 *   revoke KIND NAME                asked | CODE
 *   loop KIND NAME MS FILE SEAT     done ROUNDS WRONG (see table.h)
 *   contest KIND NAME MS FILE SEAT  done ROUNDS WRONG LONGEST (wait, ms): the same,
 *                                   holds for 0.5 ms, and others wait as they do by
 *                                   default
 *
 * KIND is mutex, fenced (the same here), reentrant, fair, read, write, multi (a NAME
 * of two names with a + between), permits:K:LIMIT or expiring:LIMIT. Ends with its
 * input; a wait of -1 has no end, one of 0 tries once. One thread, no state but the
 * holds; what happens to a watched one is told on a thread of the library's.
 */
#include "../../include/holdfast.h"

#include "table.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOLDS 64

struct slot {
    char kind[32];
    char name[256];
    hf_hold *hold;
    sem_t revoked;
};

static hf_client *client;
static struct slot slots[HOLDS];

static int64_t number_of(const char *text)
{
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void answer_code(int rc, const hf_error *why)
{
    if (rc == HF_EBUSY)
        puts("busy");
    else if (rc == HF_ETIMEOUT)
        puts("timeout");
    else
        printf("%s %s\n", hf_error_name(rc), why->text);
}

/* ---- Kinds ------------------------------------------------------------------- */

static hf_want permits_want(const char *kind, const char *name)
{
    const char *limit = strchr(strchr(kind, ':') + 1, ':');

    return hf_permits(name, (uint32_t)number_of(strchr(kind, ':') + 1),
                      (uint32_t)number_of(limit == NULL ? NULL : limit + 1));
}

static hf_want want_of(const char *kind, const char *name)
{
    if (strcmp(kind, "reentrant") == 0)
        return hf_reentrant(name);
    if (strcmp(kind, "fair") == 0)
        return hf_fair(name);
    if (strcmp(kind, "read") == 0)
        return hf_read(name);
    if (strcmp(kind, "write") == 0)
        return hf_write(name);
    if (strncmp(kind, "permits:", 8) == 0)
        return permits_want(kind, name);
    if (strncmp(kind, "expiring:", 9) == 0)
        return hf_expiring(name, (uint32_t)number_of(kind + 9));
    return hf_mutex(name);
}

/* Cuts NAME of a multi-lock in two; a + in other names means nothing. */
static size_t wants_of(const char *kind, char *name, hf_want wants[2])
{
    char *plus = strcmp(kind, "multi") == 0 ? strchr(name, '+') : NULL;

    if (plus != NULL) {
        *plus = 0;
        wants[1] = want_of("mutex", plus + 1);
    }
    wants[0] = want_of(kind, name);
    return plus == NULL ? 1 : 2;
}

static int acquire(const char *kind, const char *name, int64_t wait_ms, int64_t ttl_ms,
                   hf_hold **ret_hold, hf_error *why)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    char copy[256];
    hf_want wants[2];
    size_t count;

    snprintf(copy, sizeof copy, "%s", name);
    count = wants_of(kind, copy, wants);
    options.timeout_ms = wait_ms < 0 ? HF_FOREVER : wait_ms;
    options.ttl_ms = ttl_ms;
    return hf_acquire(client, wants, count, &options, ret_hold, why);
}

/* ---- Holds by kind and name; the last one taken is found first ----------------- */

static struct slot *slot_free(void)
{
    for (int i = 0; i < HOLDS; i++)
        if (slots[i].hold == NULL)
            return &slots[i];
    return NULL;
}

static struct slot *slot_find(const char *kind, const char *name)
{
    for (int i = HOLDS - 1; i >= 0; i--)
        if (slots[i].hold != NULL && strcmp(slots[i].name, name) == 0 &&
            strcmp(slots[i].kind, kind) == 0)
            return &slots[i];
    return NULL;
}

static void do_take(char **word)
{
    struct slot *slot = slot_free();
    hf_error why;
    int rc;

    if (slot == NULL) {
        puts("full");
        return;
    }
    rc = acquire(word[1], word[2], number_of(word[3]), number_of(word[4]), &slot->hold,
                 &why);
    if (rc != 0) {
        slot->hold = NULL;
        answer_code(rc, &why);
        return;
    }
    snprintf(slot->kind, sizeof slot->kind, "%s", word[1]);
    snprintf(slot->name, sizeof slot->name, "%s", word[2]);
    printf("held %llu\n", (unsigned long long)hf_hold_token(slot->hold, 0));
}

static void do_drop(char **word)
{
    struct slot *slot = slot_find(word[1], word[2]);
    hf_error why;
    int rc;

    if (slot == NULL) {
        puts("none");
        return;
    }
    rc = hf_release(slot->hold, &why);
    slot->hold = NULL;
    if (rc == 0)
        puts("dropped");
    else
        answer_code(rc, &why);
}

static void do_state(char **word)
{
    static const char *const names[] = { "none", "held", "doubtful", "lost" };
    struct slot *slot = slot_find(word[1], word[2]);

    puts(names[slot == NULL ? 0 : hf_hold_state(slot->hold)]);
}

static void do_downgrade(char **word)
{
    struct slot *slot = slot_find("write", word[2]);
    hf_error why;
    int rc;

    if (slot == NULL) {
        puts("none");
        return;
    }
    rc = hf_hold_downgrade(slot->hold, 0, &why);
    if (rc != 0) {
        answer_code(rc, &why);
        return;
    }
    snprintf(slot->kind, sizeof slot->kind, "read");
    puts("downgraded");
}

/* ---- Revocation ------------------------------------------------------------------ */

static void revoked(void *user, hf_hold *hold, enum hf_event event, const hf_error *why)
{
    struct slot *slot = user;

    (void)hold;
    (void)why;
    if (event == HF_EVENT_REVOKED)
        sem_post(&slot->revoked);
}

static void do_watch(char **word)
{
    struct slot *slot = slot_find(word[1], word[2]);
    hf_error why;
    int rc;

    if (slot == NULL) {
        puts("none");
        return;
    }
    sem_init(&slot->revoked, 0, 0);
    rc = hf_hold_watch(slot->hold, revoked, slot, &why);
    if (rc == 0)
        puts("watched");
    else
        answer_code(rc, &why);
}

static void do_revoked(char **word)
{
    struct slot *slot = slot_find(word[1], word[2]);
    struct timespec end;

    if (slot == NULL) {
        puts("none");
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(number_of(word[3]) / 1000);
    puts(sem_clockwait(&slot->revoked, CLOCK_MONOTONIC, &end) == 0 ? "revoked"
                                                                   : "timeout");
}

static void do_revoke(char **word)
{
    hf_error why;
    int rc = hf_revoke(client, word[2], 0, &why);

    if (rc == 0)
        puts("asked");
    else
        answer_code(rc, &why);
}

/* ---- Latch, inspection ----------------------------------------------------------- */

static void do_latch(char **word)
{
    uint32_t left = 0;
    hf_error why;
    int rc;

    if (strcmp(word[0], "latch-set") == 0)
        rc = hf_latch_set(client, word[1], (uint32_t)number_of(word[2]), &why);
    else if (strcmp(word[0], "latch-down") == 0)
        rc = hf_latch_count_down(client, word[1], (uint32_t)number_of(word[2]), &left,
                                 &why);
    else if (strcmp(word[0], "latch-wait") == 0)
        rc = hf_latch_wait(client, word[1], number_of(word[2]), &why);
    else
        rc = hf_latch_count(client, word[1], &left, &why);
    if (rc != 0)
        answer_code(rc, &why);
    else if (strcmp(word[0], "latch-set") == 0)
        puts("set");
    else if (strcmp(word[0], "latch-wait") == 0)
        puts("open");
    else
        printf("left %u\n", left);
}

static void do_who(char **word)
{
    hf_report *report;
    hf_error why;
    int holders = 0, waiters = 0, rc;

    rc = hf_inspect(client, word[1], false, &report, &why);
    if (rc != 0) {
        answer_code(rc, &why);
        return;
    }
    for (size_t i = 0; i < hf_report_count(report); i++) {
        holders += hf_report_entry(report, i)->role == HF_HOLDER;
        waiters += hf_report_entry(report, i)->role == HF_WAITER;
    }
    hf_report_free(report);
    printf("holders %d waiters %d\n", holders, waiters);
}

/* ---- Contention ------------------------------------------------------------------ */

#define CONTEST_HOLD_US 500

static void do_loop(char **word)
{
    bool contest = strcmp(word[0], "contest") == 0;
    int64_t longest = 0;
    int64_t end = now_ms() + number_of(word[3]);
    struct table table;
    long rounds = 0;
    hf_error why = { 0, 0, "the table cannot be opened" };
    int rc = table_open(&table, word[1], word[4], (int)number_of(word[5]));

    while (rc == 0 && now_ms() < end) {
        hf_hold *hold;
        int64_t since = now_ms();

        rc = acquire(word[1], word[2], 60000, 0, &hold, &why);
        if (rc != 0)
            break;
        longest = now_ms() - since > longest ? now_ms() - since : longest;
        table_sit(&table, hf_hold_token(hold, 0));
        if (contest)
            usleep(CONTEST_HOLD_US); /* pause: what is done under the lock */
        table_rise(&table);
        rounds++;
        rc = hf_release(hold, &why);
        if (strcmp(word[1], "read") == 0)
            usleep(1000); /* pause: readers without end keep all writers out */
    }
    if (rc != 0)
        answer_code(rc, &why);
    else
        printf("done %ld %ld %lld\n", rounds, table.wrong, (long long)longest);
    table_done(&table);
}

/* ---- Lines ----------------------------------------------------------------------- */

static const struct verb {
    const char *name;
    int words;
    void (*run)(char **word);
} verbs[] = {
    { "take", 5, do_take },        { "drop", 3, do_drop },
    { "state", 3, do_state },      { "downgrade", 3, do_downgrade },
    { "latch-set", 3, do_latch },  { "latch-down", 3, do_latch },
    { "latch-wait", 3, do_latch }, { "latch-count", 2, do_latch },
    { "who", 2, do_who },          { "loop", 6, do_loop },
    { "watch", 3, do_watch },      { "revoked", 4, do_revoked },
    { "revoke", 3, do_revoke },    { "contest", 6, do_loop },
};

static int words_of(char *line, char **word, int room)
{
    char *rest = line;
    int count = 0;

    line[strcspn(line, "\n")] = 0;
    while (count < room && (word[count] = strsep(&rest, " ")) != NULL)
        count++;
    return count;
}

static void obey(char *line)
{
    char *word[8];
    int count = words_of(line, word, 8);

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verbs[i].name, word[0]) == 0 && verbs[i].words == count) {
            verbs[i].run(word);
            return;
        }
    }
    puts("what?");
}

int main(int argc, char **argv)
{
    char line[1024];
    hf_error why;
    hf_options options = HF_OPTIONS_INIT;

    if (argc != 2) {
        fprintf(stderr, "usage: %s URL\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    options.confirm_timeout_ms = 15000; /* a slow server is no row's subject */
    if (hf_open(argv[1], &options, &client, &why) != 0) {
        printf("%s %s\n", hf_error_name(why.code), why.text);
        return 2;
    }
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL)
        obey(line);
    hf_close(client);
    return 0;
}
