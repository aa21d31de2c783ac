/* SPDX-License-Identifier: MIT */
/*
 * Latches and cells of the zookeeper store on a server inside the test: a change is
 * made once, whatever fault happens on the way (zk_sweep.h), and a client that cannot
 * know says so. Also what other clients have written there, or change at the same
 * moment.
 */
#include "unit.h"

#include "zk_sweep.h"

#include <stdio.h>
#include <string.h>

#define NAME "jobs/nightly"
#define LATCH "/jobs/nightly/hf%latch"
#define GATE "/jobs/nightly/hf%gate"
#define CELL "/jobs/nightly/hf%cell"
#define LEFT "holdfast latch left="

static struct hf_request request;

static int ask(struct fake_host *host, int verb, uint64_t number)
{
    request = fake_request(verb, NAME);
    request.number = number;
    return tree_ask(host, &request, NULL);
}

static int cell_set(struct fake_host *host, const char *value, uint64_t version)
{
    request = fake_request(HF_CELL_SET, NAME);
    request.number = version;
    request.data = value;
    request.data_len = value ? strlen(value) : 0;
    return tree_ask(host, &request, NULL);
}

/* ---- Once ------------------------------------------------------------------------ */

static bool is_known(int rc)
{
    ck_assert(rc == 0 || (sweep_ended && rc == HF_EUNCERTAIN));
    return rc == 0;
}

static uint64_t latch_now(void)
{
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_GET, 0), 0);
    return request.result;
}

/* Down by so many: done once; or, with the outcome unknown, at most once. */
static void count_down(uint64_t by)
{
    uint64_t before = latch_now();
    bool known = is_known(ask(&sweep_a, HF_LATCH_DOWN, by));
    uint64_t result = request.result, after = latch_now();
    if (known)
        ck_assert_uint_eq(result, before - by);
    ck_assert(after == before - by || (!known && after == before));
}

static void latch_counts(void)
{
    bool known = is_known(ask(&sweep_a, HF_LATCH_SET, 5));
    if (known)
        ck_assert_uint_eq(request.result, 5);
    if (!known && latch_now() == 0)
        ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 5), 0);
    ck_assert_uint_eq(latch_now(), 5);
    count_down(1);
    count_down(3);
    if (latch_now() > 0)
        ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 9), 0);
    ck_assert_uint_eq(latch_now(), 0);
}

static void latch_opens(void)
{
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 2), 0);
    count_down(2);
    if (latch_now() > 0)
        ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 2), 0);
}

/* The version is the transaction that wrote it, and the next one is larger. */
static void cell_write(const char *value, uint64_t *version)
{
    uint64_t before = *version;
    bool known = is_known(cell_set(&sweep_a, value, before));
    uint64_t result = request.result;
    const struct tree_node *node = tree_find(CELL);
    if (!known && (!node || (uint64_t)node->mzxid == before)) {
        ck_assert_int_eq(cell_set(&sweep_b, value, before), 0);
        node = tree_find(CELL);
    }
    ck_assert_ptr_nonnull(node);
    *version = (uint64_t)node->mzxid;
    if (known)
        ck_assert_uint_eq(result, *version);
    ck_assert_uint_gt(*version, before);
    ck_assert_uint_eq(node->len, strlen(value));
    ck_assert_int_eq(memcmp(node->data, value, node->len), 0);
}

static void cell_changes(void)
{
    uint64_t version = 0;
    cell_write("one", &version);
    uint64_t stale = version;
    cell_write("the second", &version);
    cell_write("", &version);
    ck_assert_int_eq(cell_set(&sweep_a, "late", stale), HF_ESTALE);
    request = fake_request(HF_CELL_GET, NAME);
    ck_assert_int_eq(tree_ask(&sweep_a, &request, NULL), 0);
    ck_assert_uint_eq(request.result, version);
    ck_assert_uint_eq(sweep_a.cell_len, 0);
    bool known = is_known(cell_set(&sweep_a, NULL, version));
    if (!known && tree_find(CELL))
        ck_assert_int_eq(cell_set(&sweep_b, NULL, version), 0);
    ck_assert_ptr_null(tree_find(CELL));
}

START_TEST(latches_count_once)
{
    sweep("", latch_counts);
    sweep("", latch_opens);
}
END_TEST

START_TEST(cells_change_once)
{
    sweep("", cell_changes);
}
END_TEST

/* ---- Waiting --------------------------------------------------------------------- */

static struct hf_ticket wait;

/* Who waits can be seen, and is let in when the latch opens, not before. */
static void waits(void)
{
    wait = fake_ticket(NAME, HF_LATCH);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 2), 0);
    tree_queue(&sweep_a, &wait);
    tree_rest();
    ck_assert(sweep_ended || tree_count("hf%wait-") == 1);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 1), 0);
    tree_rest();
    while (sweep_a.count)
        ck_assert_int_ne(tree_next(&sweep_a, &wait).what, FAKE_GRANTED);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 1), 0);
    tree_granted(&sweep_a, &wait);
    ck_assert_int_eq(tree_take(&sweep_a, &wait).what, FAKE_GRANTED); /* asked again */
}

static void gives_up(void)
{
    wait = fake_ticket(NAME, HF_LATCH);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 2), 0);
    tree_queue(&sweep_a, &wait);
    tree_leave(&sweep_a, &wait);
    tree_rest();
    ck_assert_uint_eq(tree_count("hf%wait-"), 0);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 2), 0);
}

/* Set again in the same moment: who waited for the former one has seen it open. */
static void set_again(void)
{
    wait = fake_ticket(NAME, HF_LATCH);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 1), 0);
    tree_queue(&sweep_a, &wait);
    tree_rest();
    sweep_a.count = 0;
    int64_t before = tree_find(GATE)->czxid;
    tree_delete(GATE);
    tree_put(GATE, "");
    ck_assert_int_gt(tree_find(GATE)->czxid, before);
    tree_granted(&sweep_a, &wait);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 1), 0);
}

static void tries(void)
{
    wait = fake_ticket(NAME, HF_LATCH);
    wait.flags = HF_TICKET_TRY;
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_SET, 1), 0);
    ck_assert_int_eq(tree_take(&sweep_a, &wait).what, FAKE_BUSY);
    ck_assert_uint_eq(tree_count("hf%wait-"), 0);
    ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 1), 0);
    ck_assert_int_eq(tree_take(&sweep_a, &wait).what, FAKE_GRANTED);
}

/* No gate, and folders that semaphores left: the latch is open. */
static void waits_beside_empty_folders(void)
{
    tree_put("/jobs/nightly/leases/other", "")->container = true;
    wait = fake_ticket(NAME, HF_LATCH);
    tree_take(&sweep_a, &wait);
    struct hf_ticket *gone = malloc(sizeof *gone);
    *gone = fake_ticket(NAME, HF_LATCH);
    fake_attempt(&sweep_a, gone);
    tree_turn();
    tree_turn();
    fake_forget(&sweep_a, gone);
    free(gone);
    sweep_a.count = 0;
}

START_TEST(waiters_beside_other_kinds)
{
    sweep("", waits_beside_empty_folders);
}
END_TEST

START_TEST(waiters_of_a_latch)
{
    sweep("", waits);
    sweep("", gives_up);
    sweep("", tries);
    sweep("", set_again);
}
END_TEST

/* ---- One client ------------------------------------------------------------------ */

#define a sweep_a

static void begin(void)
{
    tree_begin();
    tree_open(&a, "");
    tree_open(&sweep_b, "");
}

static void end(void)
{
    tree_close(&a);
    tree_close(&sweep_b);
    tree_end();
}

static void refused(int verb, int code, const char *part)
{
    hf_error why = { 0 };
    request = fake_request(verb, NAME);
    request.number = 1;
    request.data = "x";
    request.data_len = 1;
    ck_assert_int_eq(tree_ask(&a, &request, &why), code);
    ck_assert_msg(strstr(why.text, part), "%s", why.text);
}

static const int verbs[] = { HF_LATCH_SET, HF_LATCH_GET, HF_LATCH_DOWN, HF_CELL_SET,
                             HF_CELL_GET };

/* What is there as something else is neither read nor touched. */
START_TEST(names_of_other_kinds)
{
    static const char *const nodes[] = { "/x-lock-0000000001",
                                         "/leases/x-lease-0000000001",
                                         "/locks/x-lock-0000000001",
                                         "/hf%expiring/leases/x-lease-0000000001" };
    for (size_t i = 0; i < 4; i++) {
        char path[96];
        begin();
        snprintf(path, sizeof path, "/jobs/nightly%s", nodes[i]);
        if (i == 2) /* the queue of a semaphore whose leases are gone again */
            tree_put("/jobs/nightly/leases", "");
        tree_put(path, "");
        wait = fake_ticket(NAME, HF_LATCH);
        ck_assert_int_eq(tree_take(&a, &wait).code, HF_EMISMATCH);
        for (size_t k = 0; k < sizeof verbs / sizeof verbs[0]; k++)
            refused(verbs[k], HF_EMISMATCH,
                    i == 0 ? "in use as a mutex" : "in use as a semaphore");
        ck_assert_uint_eq(tree_count("hf%latch") + tree_count("hf%cell"), 0);
        end();
    }
}
END_TEST

START_TEST(a_latch_is_no_cell)
{
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 1), 0);
    refused(HF_CELL_SET, HF_EMISMATCH, "in use as a latch, not as a cell");
    refused(HF_CELL_GET, HF_EMISMATCH, "in use as a latch, not as a cell");
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0);
    ck_assert_int_eq(cell_set(&a, "x", 0), 0);
    refused(HF_LATCH_SET, HF_EMISMATCH, "in use as a cell, not as a latch");
    end();
}
END_TEST

/* Folders of semaphores that are empty do not matter. */
START_TEST(empty_folders_are_of_no_kind)
{
    begin();
    tree_put("/jobs/nightly/leases", "");
    tree_put("/jobs/nightly/locks", "");
    tree_put("/jobs/nightly/hf%expiring/leases", "")->container = true;
    tree_put("/jobs/nightly/hf%expiring/locks/not-ours", "");
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 2), 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_GET, 0), 0);
    ck_assert_uint_eq(request.result, 2);
    end();
}
END_TEST

START_TEST(a_latch_that_counts_is_not_set)
{
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 3), 0);
    refused(HF_LATCH_SET, HF_EBUSY, "3 left");
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 2), 0);
    refused(HF_LATCH_SET, HF_EBUSY, "1 left");
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 9), 0);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0); /* open already */
    ck_assert_uint_eq(request.result, 0);
    refused(HF_CELL_GET, HF_ENOENT, "no such cell");
    end();
}
END_TEST

static void corrupt(const char *data)
{
    tree_set(LATCH, data);
    for (size_t i = 0; i < 3; i++)
        refused(verbs[i], HF_ECORRUPT, "");
}

START_TEST(a_latch_that_others_wrote)
{
    char longer[80];
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 3), 0);
    corrupt("");
    corrupt(LEFT);
    corrupt("Holdfast latch left=3");
    memset(longer, '0', sizeof longer);
    memcpy(longer, LEFT, strlen(LEFT));
    longer[64] = '\0';
    corrupt(longer);
    longer[63] = '\0';
    longer[62] = '7';
    tree_set(LATCH, longer);
    ck_assert_int_eq(ask(&a, HF_LATCH_GET, 0), 0);
    ck_assert_uint_eq(request.result, 7);
    end();
}
END_TEST

/* Transactions are counted from one on. */
START_TEST(a_cell_of_no_transaction)
{
    begin();
    tree_put(CELL, "x")->mzxid = 0;
    refused(HF_CELL_GET, HF_ECORRUPT, "");
    end();
}
END_TEST

/* ---- In the same moment ---------------------------------------------------------- */

static void count_behind_its_back(void)
{
    tree_set(LATCH, LEFT "4");
}

static void open_behind_its_back(void)
{
    tree_delete(LATCH);
    tree_delete(GATE);
}

static void gone_behind_its_back(void)
{
    open_behind_its_back();
    tree_reap();
}

static void set_behind_its_back(void)
{
    tree_put(LATCH, LEFT "6");
    tree_put(GATE, "");
}

/* The fourth request is the change: a sync, a look, and for a latch that is not there a
 * listing go before it. */
static void behind(unsigned nth, void (*call)(void))
{
    tree.call = call;
    tree_spoil(nth, TREE_CALL);
}

START_TEST(another_client_was_quicker)
{
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 5), 0);
    behind(3, count_behind_its_back);
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0);
    ck_assert_uint_eq(request.result, 3);
    behind(3, open_behind_its_back);
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0);
    ck_assert_uint_eq(request.result, 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 5), 0);
    tree_rest(); /* the marker goes */
    behind(3, gone_behind_its_back);
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0);
    ck_assert_uint_eq(request.result, 0);
    tree_rest();
    tree_put("/jobs/nightly/other", ""); /* so that the folder is there */
    behind(4, set_behind_its_back);
    refused(HF_LATCH_SET, HF_EBUSY, "6 left");
    tree_rest();
    ck_assert_uint_eq(tree_count("hf%done-"), 0);
    end();
}
END_TEST

/* Whoever has no right to change it is told, and nothing is left half done. */
START_TEST(a_change_that_is_not_allowed)
{
    begin();
    tree_put("/jobs/nightly/other", "");
    tree.error = ZK_NOAUTH;
    for (unsigned nth = 2; nth <= 4; nth++) {
        tree_spoil(nth, TREE_ERROR);
        refused(HF_LATCH_SET, HF_EREFUSED, "no permission");
    }
    tree_spoil(0, TREE_FINE);
    tree_rest();
    ck_assert_uint_eq(tree_left(), 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 5), 0);
    end();
}
END_TEST

/* A folder that can never be made is not tried for ever. */
START_TEST(a_folder_that_goes_again_and_again)
{
    begin();
    tree.deny = ZK_OPCODE_CONTAINER;
    tree.deny_path = "nightly";
    tree.error = ZK_NONODE;
    refused(HF_LATCH_SET, HF_EREFUSED, "");
    tree.error = ZK_NOAUTH;
    refused(HF_LATCH_SET, HF_EREFUSED, "no permission");
    tree.deny = 0;
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 5), 0);
    end();
}
END_TEST

/* ---- Markers --------------------------------------------------------------------- */

/* The same request asked again is the same change, long after it was answered, and also
 * if the latch is another one by then. */
START_TEST(a_request_is_carried_out_once)
{
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 5), 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 2), 0);
    struct hf_request again = request;
    again.result = 0;
    ck_assert_int_eq(tree_ask(&a, &again, NULL), 0);
    ck_assert_uint_eq(again.result, 3);
    for (int i = 0; i < 3; i++) { /* others in between */
        ck_assert_int_eq(ask(&a, HF_LATCH_DOWN, 1), 0);
        again.result = 0;
        ck_assert_int_eq(tree_ask(&a, &again, NULL), 0);
        ck_assert_uint_eq(again.result, 3);
    }
    ck_assert_ptr_null(tree_find(LATCH));
    end();
}
END_TEST

/* Of two requests under way each finds its own marker. */
START_TEST(two_changes_that_get_no_answer)
{
    struct hf_request one, two;
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 9), 0);
    tree_rest();
    one = fake_request(HF_LATCH_DOWN, NAME);
    one.number = 1;
    tree_spoil(3, TREE_CUT_AFTER);
    ck_assert_int_eq(tree_ask_once(&a, &one, NULL), HF_EUNCERTAIN);
    tree_rest();
    two = fake_request(HF_LATCH_DOWN, NAME);
    two.number = 3;
    tree_spoil(3, TREE_CUT_AFTER);
    ck_assert_int_eq(tree_ask_once(&a, &two, NULL), HF_EUNCERTAIN);
    tree_rest();
    ck_assert_uint_eq(tree_count("hf%done-"), 2);
    ck_assert_int_eq(tree_ask(&a, &one, NULL), 0);
    ck_assert_uint_eq(one.result, 8);
    ck_assert_int_eq(tree_ask(&a, &two, NULL), 0);
    ck_assert_uint_eq(two.result, 5);
    tree_rest();
    ck_assert_uint_eq(tree_count("hf%done-"), 0);
    ck_assert_int_eq(ask(&a, HF_LATCH_GET, 0), 0);
    ck_assert_uint_eq(request.result, 5);
    end();
}
END_TEST

/* A marker that core does not ask for is deleted after many later ones. */
START_TEST(old_markers_go)
{
    begin();
    ck_assert_int_eq(ask(&a, HF_LATCH_SET, 1000), 0);
    tree_rest();
    for (int i = 0; i < 70; i++) {
        request = fake_request(HF_LATCH_DOWN, NAME);
        request.number = 1;
        tree_spoil(3, i < 10 ? TREE_CUT_AFTER : TREE_FINE);
        tree_ask_once(&a, &request, NULL);
        tree_sleep(i < 10 ? 3000 : 20); /* until it is connected again */
        ck_assert_uint_le(tree_count("hf%done-"), 10);
    }
    ck_assert_uint_lt(tree_count("hf%done-"), 10);
    ck_assert_int_eq(ask(&a, HF_LATCH_GET, 0), 0);
    ck_assert_uint_eq(request.result, 930);
    end();
}
END_TEST

/* Forgotten while it is under way: its marker goes nevertheless. */
START_TEST(a_request_that_is_forgotten)
{
    begin();
    for (int turns = 0; turns < 16; turns++) {
        if (turns == 8) /* from here on there is more to look at */
            tree_put("/jobs/nightly/leases", "");
        struct hf_request *gone = malloc(sizeof *gone);
        *gone = fake_request(HF_LATCH_SET, NAME);
        gone->number = 3;
        a.calls++;
        a.store->ask(a.session, gone);
        a.calls--;
        for (int i = 0; i < turns % 8; i++)
            tree_turn();
        fake_forget(&a, gone);
        free(gone);
        a.count = 0;
        tree_rest();
        ck_assert_uint_eq(tree_count("hf%done-"), 0);
        ck_assert_int_eq(ask(&sweep_b, HF_LATCH_DOWN, 3), 0);
    }
    end();
}
END_TEST

/* What each scene asks of the server when nothing goes wrong. */
START_TEST(requests_of_each_scene)
{
    sweep_asks("", latch_counts, "SGLMFFSGMDSGMDSGMD");
    sweep_asks("", latch_opens, "SGMD");
    sweep_asks("", cell_changes, "SGLMFFSGMDSGMDSGMDSGSGSGMD");
    sweep_asks("", waits_beside_empty_folders, "SGLLLLLSGLLLLL");
    sweep_asks("", waits, "SGCGD");
    sweep_asks("", gives_up, "SGCUD");
    sweep_asks("", tries, "SGUSGL");
    sweep_asks("", set_again, "SGCGUD");
}
END_TEST

UNIT_MAIN("zk_changes", requests_of_each_scene, latches_count_once, cells_change_once,
          waiters_of_a_latch, waiters_beside_other_kinds, a_cell_of_no_transaction,
          names_of_other_kinds, a_latch_is_no_cell, empty_folders_are_of_no_kind,
          a_latch_that_counts_is_not_set, a_latch_that_others_wrote,
          another_client_was_quicker, a_change_that_is_not_allowed,
          a_folder_that_goes_again_and_again, a_request_is_carried_out_once,
          two_changes_that_get_no_answer, old_markers_go, a_request_that_is_forgotten)
