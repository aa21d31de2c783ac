/* SPDX-License-Identifier: MIT */
/*
 * Holds that move: ids, adoption by another client or process, detached holds.
 *
 * A detached hold ends with its lease and with nothing else; an adopted one belongs to
 * the adopter, token and all, and its former handle knows that it has lost it.
 */
#include <stdio.h>
#include <string.h>

#include "../harness/faults.h"
#include "contract.h"

#define TTL 30000

static hf_acquire_options adopt_options(uint32_t flags)
{
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    options.ttl_ms = TTL;
    options.flags = flags;
    return options;
}

static void adopt_by_id(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *adopted = NULL;
    uint64_t token = hf_hold_token(hold, 0);
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    CHECK(strlen(id) > 0 && strchr(id, '\n') == NULL && strchr(id, ' ') == NULL);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
    CHECK_EQ(hf_hold_token(adopted, 0), token);
    CHECK_EQ(hf_hold_count(adopted), 1);
    CHECK_EQ(hf_hold_state(adopted), HF_HELD);

    CHECK_RC(hf_hold_verify(hold, NULL), HF_ELOST);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    CHECK_RC(hf_hold_verify(adopted, NULL), 0);
    CHECK_BUSY(e, a, .rival = true, .who = 2);
    let_go(adopted);
    check_free(e);
}

/* An ordinary hold moves as well; then it ends with its new client. */
static void adopt_ordinary_hold(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a);
    hf_hold *adopted = NULL;
    options.ttl_ms = e->form->ttl_ms;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
    client_close(e, a);
    CHECK_RC(hf_hold_verify(adopted, NULL), 0);
    client_close(e, b);
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
    CHECK_RC(hf_release(adopted, NULL), HF_ECLOSED);
    check_free(e);
}

static void adopted_id_is_spent(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *adopted = NULL;
    hf_hold *again = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
    CHECK_RC(hf_adopt(a, id, &options, &again, NULL), HF_ENOENT);
    CHECK_RC(hf_hold_verify(adopted, NULL), 0);
    let_go(adopted);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

static void adopt_of_nothing(struct env *e)
{
    char id[HF_ID_MAX];
    hf_error why = { 0 };
    hf_acquire_options options = adopt_options(0);
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *adopted = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    let_go(hold);
    CHECK_RC(hf_adopt(client, id, &options, &adopted, &why), HF_ENOENT);
    CHECK(why.code == HF_ENOENT && why.text[0]);
    CHECK(adopted == NULL);
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), HF_ERELEASED);
}

static void nonsense_is_no_id(struct env *e)
{
    static const char *const nonsense[] = {
        "", "x", "thing", ":::", "\x01", "00000000000000000000000000000000"
    };
    hf_acquire_options options = adopt_options(0);
    hf_client *client = client_open(e);
    hf_hold *adopted = NULL;
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        hf_error why = { 0 };
        int rc = hf_adopt(client, nonsense[i], &options, &adopted, &why);
        CHECK(rc == HF_EINVAL || rc == HF_ENOENT);
        CHECK(why.code == rc && why.text[0] && adopted == NULL);
    }
}

/* ---- Detached -------------------------------------------------------------------- */

static void detached_outlives_client(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *b = client_open(e);
    hf_client *a = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *adopted = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    client_close(e, a);
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
    CHECK_BUSY(e, b, .rival = true);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
    let_go(adopted);
    check_free(e);
}

/* No caller has its handle, so none can know its id: it goes with the client. */
static void uncollected_goes_with_client(struct env *e)
{
    hf_client *b = client_open(e);
    hf_client *a = client_open(e);
    hf_op *op = begin(e, a, NULL, NULL, .ttl = TTL, .flags = HF_DETACHED,
                      .timeout = HF_FOREVER);
    EVENTUALLY(hf_op_done(op));
    client_close(e, a);
    let_go(held(e, b, .rival = true));
    hf_op_free(op);
}

static void left_hold_ends_with_lease(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    CHECK_RC(hf_hold_leave(hold, NULL), 0);
    CHECK_RC(hf_release(hold, NULL), HF_ERELEASED);
    client_close(e, a);
    clock_advance(TTL / 2);
    CHECK_BUSY(e, b, .rival = true);
    clock_advance(TTL / 2 + 1000);
    let_go(held(e, b, .rival = true));
}

static void ordinary_hold_cannot_be_left(struct env *e)
{
    hf_error why = { 0 };
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client);
    CHECK_RC(hf_hold_leave(hold, &why), HF_EINVAL);
    CHECK(why.code == HF_EINVAL && why.text[0]);
    CHECK_EQ(hf_hold_state(hold), HF_HELD);
    let_go(hold);
}

/* Detached is what the lock was taken as, not what a later entry asks for. */
static void entry_cannot_be_left(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *one = held(e, a, .ttl = TTL);
    hf_hold *two = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    CHECK_RC(hf_hold_leave(two, NULL), HF_EINVAL);
    let_go(one);
    CHECK_BUSY(e, b);
    let_go(two);
    check_free(e);
}

/* A permit that expires has a lease, whoever has it and whether it was asked for. */
static void adopted_permit_expires(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = HF_ACQUIRE_OPTIONS_INIT;
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client), *adopted = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    CHECK_RC(hf_adopt(client, id, &options, &adopted, NULL), 0);
    CHECK(hf_hold_left_ms(adopted) > 0);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    let_go(adopted);
    check_free(e);
}

/* While its client lives a detached hold is renewed like any other. */
static void detached_is_renewed(struct env *e)
{
    hf_client *client = client_open(e);
    hf_hold *hold = held(e, client, .ttl = TTL, .flags = HF_DETACHED);
    for (int i = 0; i < 6; i++) {
        int64_t before = hf_hold_left_ms(hold);
        clock_advance(TTL / 2);
        EVENTUALLY(hf_hold_left_ms(hold) > before - TTL / 4);
    }
    let_go(hold);
    check_free(e);
}

static void waiter_gets_detached(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *other = NULL;
    hf_op *op = begin(e, b, NULL, NULL, .rival = true, .timeout = HF_FOREVER,
                      .ttl = TTL, .flags = HF_DETACHED);
    EVENTUALLY(queued(e, a, 1));
    let_go(hold);
    CHECK_RC(op_end(op, HF_FOREVER, &other), 0);
    let_go(other);
    check_free(e);
}

/* Two holds of one lock, one of them left: the lock stays until its lease is over. */
static void left_by_one_of_two(struct env *e)
{
    char name[200], id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *adopted = NULL;
    memset(name, 'n', sizeof name); /* too long to be kept for the next one */
    name[sizeof name - 1] = '\0';
    hf_hold *one = held(e, a, .name = name, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *two = held(e, a, .name = name, .ttl = TTL, .flags = HF_DETACHED);
    CHECK_RC(hf_hold_id(one, 0, id, sizeof id, NULL), 0);
    CHECK_RC(hf_hold_leave(one, NULL), 0);
    CHECK_EQ(hf_hold_state(two), HF_HELD);
    CHECK_RC(hf_hold_verify(two, NULL), 0);
    CHECK_BUSY(e, b, .name = name);
    let_go(two);
    CHECK_BUSY(e, b, .name = name);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
    let_go(adopted);
    let_go(held(e, a, .name = name, .timeout = HF_FOREVER));
}

/* What an id says is checked: no token but the one that was granted. */
static void damaged_id_of(hf_client *other, hf_hold *hold, uint64_t beyond)
{
    char id[HF_ID_MAX], damaged[HF_ID_MAX + 32];
    hf_acquire_options options = adopt_options(0);
    hf_hold *adopted = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    char *token = strchr(strchr(id, '.') + 1, '.') + 1;
    const char *rest = strchr(token, '.');
    const uint64_t right = hf_hold_token(hold, 0);
    const uint64_t wrong[] = { UINT64_MAX, right + beyond, right - 1, 0 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(damaged, sizeof damaged, "%.*s%llu%s", (int)(token - id), id,
                 (unsigned long long)wrong[i], rest);
        int rc = hf_adopt(other, damaged, &options, &adopted, NULL);
        CHECK(rc == HF_ENOENT || rc == HF_EINVAL);
        CHECK_RC(hf_hold_verify(hold, NULL), 0);
    }
    CHECK_RC(hf_adopt(other, id, &options, &adopted, NULL), 0);
    CHECK_EQ(hf_hold_token(adopted, 0), right);
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
    let_go(adopted);
}

/* A store may keep a hold that asks for nothing in a way of its own; and a client may
 * have a block of numbers for it. */
static void damaged_id_is_refused(struct env *e)
{
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    damaged_id_of(b, held(e, a, .ttl = TTL, .flags = HF_DETACHED), 1);
    damaged_id_of(b, held(e, a), 100000);
}

/* Of another kind, or of more permits, it names no hold; or it is held as it was. */
static void damaged_kind_holds_no_less(struct env *e)
{
    char id[HF_ID_MAX], damaged[HF_ID_MAX + 32];
    hf_acquire_options options = adopt_options(0);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    for (int kind = HF_MUTEX; kind <= HF_EXPIRING; kind++) {
        hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
        hf_hold *adopted = NULL;
        CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
        const char *rest = strchr(id, '.') + 1;
        for (int i = 0; i < 2; i++)
            rest = strchr(rest, '.') + 1; /* kind, permits, limit, name */
        int name = 0, count = (int)(rest - id);
        CHECK_EQ(sscanf(rest, "%*d.%*u.%*u.%n", &name), 0);
        snprintf(damaged, sizeof damaged, "%.*s%d.3.7.%s", count, id, kind,
                 rest + name);
        int rc = hf_adopt(b, damaged, &options, &adopted, NULL);
        CHECK(rc == 0 || rc == HF_ENOENT || rc == HF_EINVAL);
        hf_hold *holder = rc == 0 ? adopted : hold;
        CHECK_RC(hf_hold_verify(holder, NULL), 0);
        CHECK_BUSY(e, a, .rival = true, .who = 2);
        CHECK_RC(hf_hold_verify(holder, NULL), 0);
        if (rc == 0)
            CHECK_RC(hf_release(hold, NULL), HF_ELOST);
        let_go(holder);
        check_free(e);
    }
}

/* The hold moved and no answer came: it is not left to nobody. */
static void unheard_adoption_leaves_nothing(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    hf_hold *adopted = NULL;
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    fault_plan(HF_FAULT_ASK, HF_FAULT_FAIL_AFTER, 1, HF_FAULT_ALWAYS, 0);
    CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), HF_EUNCERTAIN);
    fault_none();
    let_go(held(e, b, .rival = true, .who = 2, .timeout = TTL / 2)); /* long before */
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

struct adoption {
    hf_client *client;
    const char *id;
};

static void *adopt_and_be_closed(void *arg)
{
    const struct adoption *adoption = arg;
    hf_acquire_options options = adopt_options(HF_DETACHED);
    hf_hold *adopted = NULL;
    CHECK_RC(hf_adopt(adoption->client, adoption->id, &options, &adopted, NULL),
             HF_ECLOSED);
    return NULL;
}

/* The same, and the client is closed meanwhile: no client has what it detached. */
static void closed_adoption_leaves_nothing(struct env *e)
{
    char id[HF_ID_MAX];
    pthread_t thread;
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    struct adoption adoption = { b, id };
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    fault_lose(HF_FAULT_ASK, 1, HF_FAULT_ALWAYS);
    CHECK_EQ(pthread_create(&thread, NULL, adopt_and_be_closed, &adoption), 0);
    EVENTUALLY(hf_hold_verify(hold, NULL) == HF_ELOST); /* it has moved */
    client_close(e, b);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    fault_none();
    let_go(held(e, a, .rival = true, .who = 2, .timeout = TTL / 2));
    CHECK_RC(hf_release(hold, NULL), HF_ELOST);
}

/* A client is closed while another one takes its hold over. */
static void *close_run(void *client)
{
    hf_close(client);
    return NULL;
}

static void close_beside_adoption(struct env *e)
{
    hf_acquire_options options = adopt_options(0);
    hf_client *b = client_open(e);
    for (int i = 0; i < 20; i++) {
        char id[HF_ID_MAX];
        pthread_t thread;
        hf_client *a = NULL;
        hf_hold *adopted = NULL;
        CHECK_RC(hf_open(e->url, NULL, &a, NULL), 0);
        hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
        CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
        CHECK_EQ(pthread_create(&thread, NULL, close_run, a), 0);
        CHECK_RC(hf_adopt(b, id, &options, &adopted, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
        let_go(adopted);
    }
}

/* ---- Between processes ----------------------------------------------------------- */

static void adopt_in_another_process(struct env *e)
{
    char id[HF_ID_MAX];
    hf_client *a = client_open(e);
    hf_client *b = client_open(e);
    hf_hold *hold = held(e, a, .ttl = TTL, .flags = HF_DETACHED);
    char token[32];
    snprintf(token, sizeof token, "%llu", (unsigned long long)hf_hold_token(hold, 0));
    CHECK_RC(hf_hold_id(hold, 0, id, sizeof id, NULL), 0);
    struct taker *taker = taker_start(e, NULL);
    taker_say(taker, "adopt %s %d 0", id, TTL);
    CHECK_TEXT(taker_expect(taker, "held"), token);
    client_close(e, a);
    CHECK_RC(hf_release(hold, NULL), HF_ECLOSED);
    CHECK_BUSY(e, b, .rival = true);
    taker_say(taker, "verify");
    taker_expect(taker, "done");
    taker_say(taker, "release");
    taker_expect(taker, "done");
    let_go(held(e, b, .rival = true));
}

static void detached_outlives_process(struct env *e)
{
    hf_client *client = client_open(e);
    struct taker *taker = taker_start(e, NULL);
    taker_take(e, taker, THING, 0, TTL, HF_DETACHED);
    taker_kill(taker);
    clock_advance(TTL / 2);
    CHECK_BUSY(e, client, .rival = true);
    clock_advance(TTL / 2 + 1000);
    let_go(held(e, client, .rival = true, .timeout = HF_FOREVER));
}

/* Taken by a process that is gone, adopted by one that knows the id. */
static void adopt_from_the_dead(struct env *e)
{
    char id[HF_ID_MAX];
    hf_acquire_options options = adopt_options(0);
    hf_client *client = client_open(e);
    hf_hold *adopted = NULL;
    struct taker *taker = taker_start(e, NULL);
    uint64_t token = taker_take(e, taker, THING, 0, TTL, HF_DETACHED);
    taker_say(taker, "id");
    snprintf(id, sizeof id, "%s", taker_expect(taker, "id"));
    taker_kill(taker);
    CHECK_RC(hf_adopt(client, id, &options, &adopted, NULL), 0);
    CHECK_EQ(hf_hold_token(adopted, 0), token);
    CHECK_BUSY(e, client, .rival = true, .who = 2);
    let_go(adopted);
    check_free(e);
}

#define DETACH (HF_CAP_DETACH | HF_CAP_LEASE)
#define PROCESS (DETACH | HF_CAP_PROCESSES)

const struct scenario scenarios_adopt[] = {
    { "adopt-by-id", SINGLES, DETACH, 0, adopt_by_id },
    { "adopt-ordinary-hold", SINGLES, DETACH, 0, adopt_ordinary_hold },
    { "adopted-id-is-spent", SINGLES, DETACH, 0, adopted_id_is_spent },
    { "adopt-of-nothing", SINGLES, DETACH, 0, adopt_of_nothing },
    { "nonsense-is-no-id", MUTEX, DETACH, 0, nonsense_is_no_id },
    { "detached-outlives-client", SINGLES, DETACH, 0, detached_outlives_client },
    { "uncollected-goes-with-client", LOCKS, DETACH, 0, uncollected_goes_with_client },
    { "left-hold-ends-with-lease", LOCKS, DETACH, CLOCK, left_hold_ends_with_lease },
    { "ordinary-hold-cannot-be-left", LOCKS, DETACH, 0, ordinary_hold_cannot_be_left },
    { "entry-cannot-be-left", REENTRANT, DETACH, 0, entry_cannot_be_left },
    { "adopted-permit-expires", EXPIRING, DETACH, 0, adopted_permit_expires },
    { "detached-is-renewed", LOCKS, DETACH, CLOCK, detached_is_renewed },
    { "waiter-gets-detached", LOCKS, DETACH | HF_CAP_INSPECT, 0, waiter_gets_detached },
    { "left-by-one-of-two", REENTRANT, DETACH, 0, left_by_one_of_two },
    { "damaged-id-is-refused", SINGLES, DETACH, 0, damaged_id_is_refused },
    { "damaged-kind-holds-no-less", SINGLES, DETACH, 0, damaged_kind_holds_no_less },
    { "unheard-adoption-leaves-nothing", SINGLES, DETACH | NEED_FAULT, 0,
      unheard_adoption_leaves_nothing },
    { "closed-adoption-leaves-nothing", SINGLES, DETACH | NEED_FAULT, 0,
      closed_adoption_leaves_nothing },
    { "close-beside-adoption", SINGLES, DETACH, 0, close_beside_adoption },
    { "adopt-in-another-process", SINGLES, PROCESS, 0, adopt_in_another_process },
    { "detached-outlives-process", LOCKS, PROCESS, CLOCK, detached_outlives_process },
    { "adopt-from-the-dead", SINGLES, PROCESS, 0, adopt_from_the_dead },
    { NULL, 0, 0, 0, NULL },
};
