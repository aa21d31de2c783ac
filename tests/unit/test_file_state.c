/* SPDX-License-Identifier: MIT */
/* The queue layout of the file store without core: latches, cells, inspect, and the
 * state file itself: made, renewed, refused, grown, full. */
#include "file_peer.h"

#include "../../src/backends/file/queue.h"
#include "../../src/base/clock.h"
#include "../../src/kit/names.h"

#include <grp.h>
#include <sys/resource.h>

#define MANY 10000
#define HELD 3000

static struct fake_host a, b;
static struct peer p;

static void open_a(void)
{
    scratch_make();
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
}

static void open_both(void)
{
    open_a();
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
}

static void close_a(void)
{
    struct state state = state_map();

    fake_close(&a);
    state_check(&state);
    state_unmap(&state);
    ck_assert_int_eq(scratch_count("w"), 0);
    ck_assert_int_eq(scratch_count("tmp"), 0);
    scratch_remove();
}

static void close_both(void)
{
    fake_close(&b);
    close_a();
}

static uint64_t takes(struct fake_host *host, struct hf_ticket *ticket)
{
    struct fake_answer answer = fake_try(host, ticket);
    ck_assert_msg(answer.what == FAKE_GRANTED, "answer %d: %s", answer.what,
                  answer.why.text);
    return answer.grant.token;
}

/* ---- Latches --------------------------------------------------------------------- */

static struct hf_request latch(int verb, uint64_t number)
{
    struct hf_request request = fake_request(verb, "latch");
    request.number = number;
    return request;
}

static uint64_t latch_left(struct fake_host *host)
{
    struct hf_request get = latch(HF_LATCH_GET, 0);
    ck_assert_int_eq(fake_ask(host, &get, NULL), 0);
    return get.result;
}

START_TEST(a_latch_opens_for_all_who_wait)
{
    struct hf_ticket early = fake_ticket("latch", HF_LATCH);
    struct hf_ticket one = fake_ticket("latch", HF_LATCH);
    struct hf_ticket late = fake_ticket("latch", HF_LATCH);
    struct hf_request set = latch(HF_LATCH_SET, 3), down = latch(HF_LATCH_DOWN, 2);
    struct hf_request last = latch(HF_LATCH_DOWN, 7), again = latch(HF_LATCH_SET, 1);

    open_both();
    ck_assert_int_eq(peer_start(&p), 0);
    takes(&a, &early); /* one that was never set is open */
    ck_assert_int_eq(fake_withdraw(&a, &early), HF_WITHDRAWN);
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    ck_assert_int_eq(fake_ask(&b, &again, NULL), HF_EBUSY);
    ck_assert_int_eq(fake_try(&a, &one).what, FAKE_QUEUED);
    peer_queues(&p, 0, fake_ticket("latch", HF_LATCH));
    ck_assert_int_eq(fake_ask(&b, &down, NULL), 0);
    ck_assert_uint_eq(down.result, 1);
    ck_assert_uint_eq(latch_left(&a), 1);
    ck_assert(fake_quiet(&a));
    ck_assert_int_eq(fake_ask(&b, &last, NULL), 0);
    ck_assert_uint_eq(last.result, 0);
    ck_assert_int_eq(fake_ask(&b, &again, NULL),
                     0); /* does not hold the waiters back */
    fake_expect_grant(&a, &one);
    peer_gets(&p, 0);
    ck_assert_int_eq(fake_withdraw(&a, &one), HF_WITHDRAWN);
    late.flags = HF_TICKET_TRY;
    ck_assert_int_eq(fake_try(&a, &late).what, FAKE_BUSY);
    peer_leaves(&p);
    close_both();
}
END_TEST

START_TEST(a_count_down_counts_once)
{
    struct hf_request set = latch(HF_LATCH_SET, 20), down[2 * IDS_COUNT];

    open_a();
    down[0] = latch(HF_LATCH_DOWN, 1);
    down[0].result = 7;
    ck_assert_int_eq(fake_ask(&a, &down[0], NULL), 0); /* it is open */
    ck_assert_uint_eq(down[0].result, 0);
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    for (int i = 0; i < 2 * IDS_COUNT; i++) {
        down[i] = latch(HF_LATCH_DOWN, 1);
        ck_assert_int_eq(fake_ask(&a, &down[i], NULL), 0);
        if (i > 0)
            ck_assert_int_eq(fake_ask(&a, &down[i - 1], NULL), 0);
        ck_assert_int_eq(fake_ask(&a, &down[i], NULL), 0);
        ck_assert_uint_eq(down[i].result, 19 - (uint64_t)i);
    }
    ck_assert_uint_eq(latch_left(&a), 4);
    close_a();
}
END_TEST

/* ---- Cells ----------------------------------------------------------------------- */

static struct hf_request cell(int verb, uint64_t version, const char *data)
{
    struct hf_request request = fake_request(verb, "cell/\xc3\xa4");
    request.number = version;
    request.data = data;
    request.data_len = data ? strlen(data) : 0;
    return request;
}

static void cell_is(struct fake_host *host, uint64_t version, const char *data)
{
    struct hf_request get = cell(HF_CELL_GET, 0, NULL);
    ck_assert_int_eq(fake_ask(host, &get, NULL), data ? 0 : HF_ENOENT);
    if (data) {
        ck_assert_uint_eq(get.result, version);
        ck_assert_str_eq(host->cell, data);
    }
}

START_TEST(a_cell_is_set_by_who_knows_its_version)
{
    struct hf_request first = cell(HF_CELL_SET, 0, "one"), next, gone;

    open_both();
    cell_is(&a, 0, NULL);
    ck_assert_int_eq(fake_ask(&a, &first, NULL), 0);
    cell_is(&b, first.result, "one");
    next = cell(HF_CELL_SET, 0, "two");
    ck_assert_int_eq(fake_ask(&b, &next, NULL), HF_ESTALE);
    next.number = first.result + 1;
    ck_assert_int_eq(fake_ask(&b, &next, NULL), HF_ESTALE);
    next.number = first.result;
    ck_assert_int_eq(fake_ask(&b, &next, NULL), 0);
    ck_assert_uint_gt(next.result, first.result);
    uint64_t version = next.result;
    ck_assert_int_eq(fake_ask(&b, &next, NULL), 0); /* repeated: takes effect once */
    ck_assert_uint_eq(next.result, version);
    fake_close(&a);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    cell_is(&a, version, "two");
    gone = cell(HF_CELL_SET, version, NULL);
    ck_assert_int_eq(fake_ask(&a, &gone, NULL), 0);
    ck_assert_int_eq(fake_ask(&a, &gone, NULL), 0);
    cell_is(&b, 0, NULL);
    first = cell(HF_CELL_SET, 0, "");
    ck_assert_int_eq(fake_ask(&b, &first, NULL), 0);
    ck_assert_uint_gt(first.result, version); /* a version never comes back */
    cell_is(&a, first.result, "");
    close_both();
}
END_TEST

START_TEST(a_name_is_a_lock_or_a_cell)
{
    struct hf_request set = cell(HF_CELL_SET, 0, "x"), gone;
    struct hf_ticket ticket = fake_ticket(set.name, HF_MUTEX);

    open_both();
    takes(&a, &ticket);
    ck_assert_int_eq(fake_ask(&b, &set, NULL), HF_EMISMATCH);
    ck_assert_int_eq(scratch_count("tmp"), 0);
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    ck_assert_int_eq(fake_ask(&b, &set, NULL), 0);
    ck_assert_int_eq(fake_try(&a, &ticket).code, HF_EMISMATCH);
    fake_close(&a);
    fake_close(&b);
    struct state state = state_map();
    memset(state.head->boot, 0, sizeof(state.head->boot)); /* a reboot */
    state_unmap(&state);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    ck_assert_int_eq(fake_try(&a, &ticket).code, HF_EMISMATCH);
    gone = cell(HF_CELL_SET, set.result, NULL);
    ck_assert_int_eq(fake_ask(&b, &gone, NULL), 0);
    takes(&a, &ticket);
    close_both();
}
END_TEST

START_TEST(a_damaged_cell_is_refused)
{
    struct hf_request set = cell(HF_CELL_SET, 0, "value"),
                      get = cell(HF_CELL_GET, 0, NULL);
    char file[HF_FILE_NAME_SIZE], path[512];

    open_a();
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    ck_assert(hf__name_to_file(set.name, set.name_len, file, sizeof(file)));
    snprintf(path, sizeof(path), "%s/cell.%s", home, file);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pwrite(fd, "V", 1, lseek(fd, 0, SEEK_END) - 5), 1);
    ck_assert_int_eq(fake_ask(&a, &get, NULL), HF_ECORRUPT);
    ck_assert_int_eq(ftruncate(fd, 3), 0);
    ck_assert_int_eq(fake_ask(&a, &get, NULL), HF_ECORRUPT);
    close(fd);
    close_a();
}
END_TEST

/* ---- Inspect --------------------------------------------------------------------- */

static const struct fake_entry *entry_find(const struct fake_host *host,
                                           const char *name, int role)
{
    for (size_t i = 0; i < host->entry_count; i++)
        if (strcmp(host->entries[i].name, name) == 0 &&
            host->entries[i].entry.role == role)
            return &host->entries[i];
    ck_abort_msg("no entry");
}

START_TEST(everybody_is_seen)
{
    struct hf_ticket quick = fake_ticket("job/quick", HF_MUTEX);
    struct hf_ticket slow = fake_permits("job/slow", HF_PERMITS, 2, 5);
    struct hf_request all = fake_request(HF_INSPECT, "job/");
    struct hf_request set = fake_request(HF_LATCH_SET, "job/latch");
    struct hf_request cell_set = fake_request(HF_CELL_SET, "job/cell");
    struct hf_request one = fake_request(HF_INSPECT, "other");
    struct hf_ticket other = fake_ticket("other", HF_WRITE);
    uint64_t token;

    open_a();
    ck_assert_int_eq(peer_start(&p), 0);
    token = takes(&a, &quick);
    slow.note = "why";
    slow.ttl_ns = 10 * HF_NS_PER_S;
    takes(&a, &slow);
    takes(&a, &other);
    peer_queues(&p, 0, fake_ticket("job/quick", HF_FAIR));
    peer_queues(&p, 1, fake_ticket("job/quick", HF_FAIR));
    set.number = 4;
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    cell_set.data = "v";
    cell_set.data_len = 1;
    ck_assert_int_eq(fake_ask(&a, &cell_set, NULL), 0);
    all.prefix = true;
    ck_assert_int_eq(fake_ask(&a, &all, NULL), 0);
    ck_assert_uint_eq(a.entry_count, 6);
    const struct fake_entry *seen = entry_find(&a, "job/quick", HF_HOLDER);
    ck_assert_uint_eq(seen->entry.token, token);
    ck_assert_int_eq(seen->entry.kind, HF_MUTEX);
    ck_assert_int_eq(seen->entry.pid, getpid());
    ck_assert_str_eq(seen->program, "fake");
    ck_assert_int_eq(seen->entry.left_ms, HF_FOREVER);
    seen = entry_find(&a, "job/quick", HF_WAITER);
    ck_assert_int_eq(seen->entry.pid, p.pid);
    ck_assert_uint_eq(seen->entry.place, 0);
    ck_assert_uint_eq((seen + 1)->entry.place, 1);
    seen = entry_find(&a, "job/slow", HF_HOLDER);
    ck_assert_uint_eq(seen->entry.permits, 2);
    ck_assert_uint_eq(seen->entry.limit, 5);
    ck_assert_str_eq(seen->note, "why");
    ck_assert_int_gt(seen->entry.left_ms, 5000);
    ck_assert_uint_eq(entry_find(&a, "job/latch", HF_OBJECT)->entry.permits, 4);
    ck_assert_uint_eq(entry_find(&a, "job/cell", HF_OBJECT)->entry.token,
                      cell_set.result);
    ck_assert_int_eq(fake_ask(&a, &one, NULL), 0);
    ck_assert_uint_eq(a.entry_count, 1);
    peer_leaves(&p);
    close_a();
}
END_TEST

/* ---- The state file -------------------------------------------------------------- */

START_TEST(numbers_go_to_disk_before_they_are_used)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX);
    struct state state;
    uint64_t token, ceiling;

    open_a();
    takes(&a, &ticket);
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    state = state_map();
    ceiling = state.head->durable_ceiling;
    ck_assert_uint_eq(ceiling, state.head->ceiling);
    state.head->next_token = ceiling - 5;
    ticket.reserve = 10;
    token = takes(&a, &ticket);
    ck_assert_uint_eq(token, ceiling - 5);
    ck_assert_uint_ge(state.head->durable_ceiling, token + 10);
    ck_assert_uint_eq(state.head->durable_ceiling, state.head->ceiling);
    state_unmap(&state);
    close_a();
}
END_TEST

START_TEST(a_reboot_empties_the_table_and_tokens_grow)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX),
                     next = fake_ticket("x", HF_FAIR);
    struct state state;
    uint64_t token, ceiling;

    open_a();
    ck_assert_int_eq(peer_start(&p), 0);
    token = takes(&a, &ticket);
    peer_queues(&p, 0, fake_ticket("x", HF_MUTEX));
    peer_kill(&p);
    peer_bury(&p);
    ck_assert_int_eq(scratch_count("w"), 1);
    state = state_map();
    state.head->free_first = 5; /* blocks that were freed */
    state.head->free_count = 1;
    ceiling = state.head->durable_ceiling;
    memset(state.head->boot, 7, sizeof(state.head->boot));
    memset(&state.head->guard, 0xff, sizeof(state.head->guard)); /* whatever it was */
    state_unmap(&state);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    ck_assert_int_eq(scratch_count("w"), 0);
    ck_assert_uint_ge(takes(&b, &next), ceiling);
    ck_assert_uint_gt(ceiling, token);
    state = state_map();
    ck_assert_uint_eq(state.head->free_first + state.head->free_count, 0);
    state_check(&state);
    state_unmap(&state);
    fake_close(&b);
    a.store->close(a.session, true); /* its state file was removed; free what it has */
    scratch_remove();
}
END_TEST

static void refused(int code, const char *part)
{
    hf_error why;
    ck_assert_int_eq(fake_open_why(&a, &hf__backend_file, url, NULL, &why), code);
    ck_assert_msg(strstr(why.text, part), "%s", why.text);
    ck_assert_msg(strstr(why.text, "remove .holdfast/state"), "%s", why.text);
}

START_TEST(a_state_file_that_is_none_is_refused)
{
    struct state state;
    char path[96];

    open_a();
    fake_close(&a);
    state = state_map();
    state.head->version++;
    refused(HF_ECORRUPT, "layout 3.");
    state.head->version--;
    state.head->abi ^= 1;
    refused(HF_ECORRUPT, "C library");
    state.head->abi ^= 1;
    state.head->block_count *= 2;
    refused(HF_ECORRUPT, "cut short");
    state.head->block_count /= 2;
    state.head->magic ^= 1;
    refused(HF_ECORRUPT, "no state file");
    state.head->magic = 0; /* no mark: not a state file */
    refused(HF_ECORRUPT, "no state file");
    state.head->magic = REGION_MAKING; /* never finished: made anew */
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    ck_assert_uint_eq(state.head->magic, REGION_MAGIC);
    fake_close(&a);
    state_unmap(&state);
    snprintf(path, sizeof(path), "%s/state", home);
    ck_assert_int_eq(truncate(path, 100), 0);
    refused(HF_ECORRUPT, "cut short");
    scratch_remove();
}
END_TEST

START_TEST(idle_names_are_given_up_before_the_file_grows)
{
    struct state state;
    char name[32];

    open_both();
    state = state_map();
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "name-%d", i);
        struct hf_ticket ticket = fake_ticket(name, HF_MUTEX);
        takes(&a, &ticket);
        ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
        struct hf_ticket first = fake_ticket("name-0", HF_MUTEX);
        takes(&b, &first); /* remembers a record that is freed now and then */
        ck_assert_int_eq(fake_withdraw(&b, &first), HF_WITHDRAWN);
    }
    ck_assert_uint_eq(state.head->block_count, BLOCKS_FIRST);
    state_unmap(&state);
    close_both();
}
END_TEST

START_TEST(the_file_grows_under_everybodys_feet)
{
    static struct hf_ticket tickets[HELD];
    static char names[HELD][96];
    struct hf_ticket ticket;

    open_both();
    ck_assert_int_eq(peer_start(&p), 0);
    for (int i = 0; i < HELD; i++) {
        snprintf(names[i], sizeof(names[i]), "a name that needs two blocks, %050d", i);
        tickets[i] = fake_ticket(names[i], i % 2 ? HF_MUTEX : HF_READ);
        takes(&a, &tickets[i]);
    }
    for (int i = 0; i < HELD; i += 100) {
        ticket = fake_ticket(names[i], i % 2 ? HF_MUTEX : HF_WRITE);
        ticket.flags = HF_TICKET_TRY;
        ck_assert_int_eq(fake_try(&b, &ticket).what, FAKE_BUSY);
        ck_assert_int_eq(peer_attempt(&p, 0, ticket).what, FAKE_BUSY);
    }
    struct state state = state_map();
    ck_assert_uint_gt(state.head->block_count, HELD);
    state_check(&state);
    state_unmap(&state);
    peer_queues(&p, 0, fake_ticket(names[HELD - 1], HF_MUTEX));
    for (int i = 0; i < HELD; i++)
        ck_assert_int_eq(fake_withdraw(&a, &tickets[i]), HF_WITHDRAWN);
    peer_gets(&p, 0);
    peer_leaves(&p);
    close_both();
}
END_TEST

static void size_limit(rlim_t size)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* check writes a file of its own, which the limit is for as well: it must stay
 * small. */
START_TEST(a_full_disk_is_an_answer)
{
    static struct hf_ticket tickets[HELD];
    static char names[HELD][16];
    struct fake_answer answer = { .what = FAKE_GRANTED };
    int count = 0;

    scratch_make();
    size_limit(100000);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), HF_EFULL);
    size_limit(400000);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, url, NULL), 0);
    for (; count < HELD && answer.what == FAKE_GRANTED; count++) {
        snprintf(names[count], sizeof(names[0]), "n%d", count);
        tickets[count] = fake_ticket(names[count], HF_MUTEX);
        answer = fake_try(&a, &tickets[count]);
    }
    size_limit(RLIM_INFINITY);
    ck_assert_int_eq(answer.what, FAKE_FAILED);
    ck_assert_int_eq(answer.code, HF_EFULL);
    ck_assert_int_gt(count, 1000);
    size_limit(400000);
    struct hf_ticket latch = fake_ticket("latch", HF_LATCH);
    takes(&a, &latch); /* one that is not there is open, and needs no room */
    ck_assert_int_eq(fake_withdraw(&a, &tickets[0]), HF_WITHDRAWN);
    takes(&a, &tickets[--count]); /* the idle record makes room */
    size_limit(RLIM_INFINITY);
    close_a();
}
END_TEST

/* A directory that root made belongs to root and is accepted for every user that may
 * use it: no mode= is needed for that. Only root can test this. */
START_TEST(what_belongs_to_root)
{
    enum { SOMEBODY = 12345 };
    char shared[128];
    int status = -1;

    if (geteuid() != 0)
        return;
    scratch_make();
    ck_assert_int_eq(chown(scratch, 0, SOMEBODY), 0);
    ck_assert_int_eq(chmod(scratch, 0770), 0);
    snprintf(shared, sizeof(shared), "%s?mode=0660", url);
    ck_assert_int_eq(fake_open(&a, &hf__backend_file, shared, NULL), 0);
    pid_t child = fork();
    if (child == 0) {
        hf_error why = { 0 };
        if (setgroups(0, NULL) != 0 || setgid(SOMEBODY) != 0 || setuid(SOMEBODY) != 0)
            _exit(9);
        int rc = fake_open_why(&b, &hf__backend_file, url, NULL, &why);
        if (rc == 0)
            fake_close(&b);
        _exit(rc == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    close_a();
}
END_TEST

/* An open latch has no entry about which anything could be reported. */
START_TEST(interest_in_an_open_latch)
{
    struct hf_ticket ticket = fake_ticket("latch", HF_LATCH);
    struct hf_request set = latch(HF_LATCH_SET, 1), down = latch(HF_LATCH_DOWN, 1);

    open_a();
    takes(&a, &ticket);
    fake_interest(&a, &ticket);
    ck_assert(fake_quiet(&a));
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    ck_assert_int_eq(fake_ask(&a, &down, NULL), 0);
    ck_assert(fake_quiet(&a));
    close_a();
}
END_TEST

/* All other sessions have their byte locked, by this process. */
START_TEST(sessions_run_out)
{
    struct flock lock = { .l_type = F_WRLCK, .l_start = 1, .l_len = SESSION_COUNT - 1 };
    struct state state;
    char path[96];

    open_a();
    state = state_map();
    for (int i = 1; i < SESSION_COUNT; i++)
        state.sessions[i].state = SESSION_USED;
    snprintf(path, sizeof(path), "%s/live", home);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), HF_EFULL);
    close(fd); /* now they are dead, and cleaned up after */
    ck_assert_int_eq(fake_open(&b, &hf__backend_file, url, NULL), 0);
    for (int i = 2; i < SESSION_COUNT; i++)
        ck_assert_uint_eq(state.sessions[i].state, SESSION_FREE);
    state_unmap(&state);
    close_both();
}
END_TEST

UNIT_MAIN("file_state", a_latch_opens_for_all_who_wait, a_count_down_counts_once,
          a_cell_is_set_by_who_knows_its_version, a_name_is_a_lock_or_a_cell,
          a_damaged_cell_is_refused, everybody_is_seen,
          numbers_go_to_disk_before_they_are_used,
          a_reboot_empties_the_table_and_tokens_grow,
          a_state_file_that_is_none_is_refused,
          idle_names_are_given_up_before_the_file_grows,
          the_file_grows_under_everybodys_feet, a_full_disk_is_an_answer,
          what_belongs_to_root, interest_in_an_open_latch, sessions_run_out)
