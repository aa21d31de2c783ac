/* SPDX-License-Identifier: MIT */
/* What the file and mem stores report about themselves: each fact made up and judged,
 * and both layouts run on a real directory, sound and unsound. */
#include "fake_host.h"
#include "unit.h"

#include "../../src/backends/file/diagnose.h"
#include "../../src/backends/file/file.h"
#include "../../src/base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const struct hf_backend hf__backend_memory;

#define FINDINGS_MAX 16
#define NFS 0x6969
#define TMPFS 0x01021994
#define OVERLAY 0x794c7630
#define EXT4 0xef53

struct findings {
    struct fake_finding all[FINDINGS_MAX];
    size_t count;
};

static struct findings found;

static void note(void *arg, const hf_finding *finding)
{
    struct findings *findings = arg;
    struct fake_finding *copy;

    ck_assert_uint_lt(findings->count, FINDINGS_MAX);
    ck_assert_uint_eq(finding->size, sizeof(*finding));
    copy = &findings->all[findings->count++];
    copy->level = finding->level;
    snprintf(copy->topic, sizeof(copy->topic), "%s", finding->topic);
    snprintf(copy->what, sizeof(copy->what), "%s", finding->what);
    snprintf(copy->fix, sizeof(copy->fix), "%s", finding->fix);
}

/* A directory without a fault. */
static struct dir_facts facts_good(void)
{
    return (struct dir_facts){
        .path = "/srv/locks",
        .shielded = true,
        .fs_type = EXT4,
        .free_bytes = UINT64_C(1) << 30,
        .free_inodes = UINT64_MAX,
        .user = 1000,
        .dir_owner = 1000,
        .dir_mode = S_IFDIR | 0700,
        .file_mode = S_IFREG | 0600,
        .sessions = 1,
        .session_room = 1024,
        .blocks = 1,
        .block_room = 1024,
    };
}

static int worst(const struct findings *findings)
{
    int level = 0;

    for (size_t i = 0; i < findings->count; i++)
        if (findings->all[i].level > level)
            level = findings->all[i].level;
    return level;
}

/* The one finding that is not good, which must be of that level and topic. */
static const struct fake_finding *judged(const struct dir_facts *facts, int level,
                                         const char *topic)
{
    const struct fake_finding *bad = NULL;

    found.count = 0;
    hf__file_facts_judge(facts, note, &found);
    for (size_t i = 0; i < found.count; i++) {
        if (found.all[i].level == HF_GOOD)
            continue;
        ck_assert_msg(!bad, "two findings: %s and %s", bad ? bad->what : "",
                      found.all[i].what);
        bad = &found.all[i];
    }
    ck_assert_ptr_nonnull(bad);
    ck_assert_int_eq(bad->level, level);
    ck_assert_str_eq(bad->topic, topic);
    ck_assert_str_ne(bad->fix, "");
    return bad;
}

static void has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in '%s'", part, text);
}

/* ---- Facts ----------------------------------------------------------------------- */

START_TEST(good_directory_is_good)
{
    struct dir_facts facts = facts_good();

    hf__file_facts_judge(&facts, note, &found);
    ck_assert_uint_ge(found.count, 4);
    ck_assert_int_eq(worst(&found), HF_GOOD);
    for (size_t i = 0; i < found.count; i++)
        ck_assert_str_eq(found.all[i].fix, "");
    has(found.all[0].what, "ext4");
}
END_TEST

START_TEST(file_systems)
{
    struct dir_facts facts = facts_good();

    facts.fs_type = NFS;
    has(judged(&facts, HF_TRAP, "file system")->what, "NFS");
    facts.fs_type = TMPFS;
    has(judged(&facts, HF_REMARK, "file system")->what, "reboot");
    facts.cells = true;
    has(judged(&facts, HF_TRAP, "file system")->what, "there are some");
    facts.cells = false;
    facts.fs_type = OVERLAY;
    has(judged(&facts, HF_REMARK, "file system")->what, "container");
    facts.fs_type = 0x12345;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    has(found.all[0].what, "0x12345");
    ck_assert_int_eq(worst(&found), HF_GOOD);
}
END_TEST

START_TEST(modes_and_owner)
{
    struct dir_facts facts = facts_good();

    facts.dir_mode = S_IFDIR | 0777;
    has(judged(&facts, HF_TRAP, "permissions")->fix, "chmod +t '/srv/locks'");
    facts.dir_mode = S_IFDIR | 01777;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_GOOD); /* no other user can delete files */
    facts.flock = true;
    has(judged(&facts, HF_REMARK, "permissions")->what, "all users may make files");
    ck_assert_ptr_null(strstr(judged(&facts, HF_REMARK, "permissions")->fix, "chmod"));
    facts.flock = false;
    facts.dir_mode = S_IFDIR | 02770;
    has(judged(&facts, HF_REMARK, "permissions")->fix, "chmod g-w");
    facts.dir_mode = S_IFDIR | 01770;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_GOOD);

    facts = facts_good();
    facts.file_mode = S_IFREG | 0666;
    has(judged(&facts, HF_TRAP, "permissions")->fix,
        "chmod o-w '/srv/locks/.holdfast/state'");
    facts = facts_good();
    facts.dir_owner = 1001;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_TRAP);
    facts.dir_owner = 0;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_GOOD);
}
END_TEST

START_TEST(space_and_room)
{
    struct dir_facts facts = facts_good();

    facts.free_bytes = 3 << 20;
    has(judged(&facts, HF_REMARK, "space")->what, "3072 KiB");
    facts = facts_good();
    facts.free_inodes = 7;
    has(judged(&facts, HF_REMARK, "space")->what, "7 more files");
    facts = facts_good();
    facts.sessions = 768;
    has(judged(&facts, HF_REMARK, "clients")->what, "768 of 1024");
    facts.sessions = 767;
    facts.blocks = 1000;
    has(judged(&facts, HF_REMARK, "table")->what, "1000 of 1024");
}
END_TEST

START_TEST(namespaces_and_damage)
{
    struct dir_facts facts = facts_good();

    facts.in_other_namespace = 2;
    has(judged(&facts, HF_REMARK, "pid namespaces")->what, "2 clients in another");
    facts = facts_good();
    facts.file_replaced = true;
    judged(&facts, HF_TRAP, "state");
    facts = facts_good();
    facts.tokens_private = true;
    judged(&facts, HF_REMARK, "tokens");
}
END_TEST

/* What a reboot forgets may cost a lock: not only a remark. */
START_TEST(what_a_reboot_forgets)
{
    struct dir_facts facts = facts_good();

    facts.detached = 1;
    has(judged(&facts, HF_TRAP, "reboot")->what, "1 hold was made to outlive its");
    facts.detached = 0;
    facts.latches = 2;
    has(judged(&facts, HF_TRAP, "reboot")->what, "2 latches are counting");
}
END_TEST

START_TEST(cleaners_of_temporary_files)
{
    struct dir_facts facts = facts_good();

    facts.shielded = false;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_GOOD);
    snprintf(facts.path, sizeof(facts.path), "/tmp/locks");
    has(judged(&facts, HF_REMARK, "cleaners")->fix, "x /tmp/locks");
    snprintf(facts.path, sizeof(facts.path), "/var/tmp/locks");
    judged(&facts, HF_REMARK, "cleaners");
    facts.shielded = true;
    found.count = 0;
    hf__file_facts_judge(&facts, note, &found);
    ck_assert_int_eq(worst(&found), HF_GOOD);
}
END_TEST

/* ---- Stores ---------------------------------------------------------------------- */

static char dir[64];
static struct fake_host a, b;

static void open_at(struct fake_host *fake, const char *layout)
{
    char url[128];

    snprintf(url, sizeof(url), "file:%s?layout=%s", dir, layout);
    ck_assert_int_eq(fake_open(fake, &hf__backend_file, url, NULL), 0);
    ck_assert_uint_ne(fake->capabilities & HF_CAP_DIAGNOSE, 0);
}

static void dir_make(void)
{
    snprintf(dir, sizeof(dir), "/tmp/test-diagnose-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void dir_empty(const char *path)
{
    DIR *stream = opendir(path);
    struct dirent *entry;

    while (stream && (entry = readdir(stream)))
        unlinkat(dirfd(stream), entry->d_name, 0);
    if (stream)
        closedir(stream);
}

static void dir_remove(void)
{
    char home[96];

    snprintf(home, sizeof(home), "%s/.holdfast", dir);
    dir_empty(home);
    rmdir(home);
    dir_empty(dir);
    ck_assert_int_eq(rmdir(dir), 0);
    ck_assert_uint_eq(hf__mem_live(), 0);
}

/* The finding of a topic with at least that level, or NULL. */
static const struct fake_finding *ask(struct fake_host *fake, const char *topic)
{
    struct hf_request request = fake_request(HF_DIAGNOSE, "");

    ck_assert_int_eq(fake_ask(fake, &request, NULL), 0);
    ck_assert_uint_gt(fake->finding_count, 0);
    for (size_t i = 0; i < fake->finding_count; i++)
        if (strcmp(fake->findings[i].topic, topic) == 0)
            return &fake->findings[i];
    return NULL;
}

START_TEST(queue_layout_examines_itself)
{
    char state[128], moved[128];

    dir_make();
    open_at(&a, "queue");
    ck_assert_int_eq(ask(&a, "permissions")->level, HF_GOOD);
    has(ask(&a, "clients")->what, "1 of 1024");
    open_at(&b, "queue");
    has(ask(&a, "clients")->what, "2 of 1024");
    fake_close(&b);
    ck_assert_ptr_null(ask(&a, "cleaners"));

    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_eq(ask(&a, "permissions")->level, HF_TRAP);
    has(ask(&a, "permissions")->fix, dir);
    ck_assert_int_eq(chmod(dir, 0700), 0);

    snprintf(state, sizeof(state), "%s/.holdfast/state", dir);
    snprintf(moved, sizeof(moved), "%s/moved", dir);
    ck_assert_ptr_null(ask(&a, "state"));
    ck_assert_int_eq(rename(state, moved), 0);
    ck_assert_int_eq(ask(&a, "state")->level, HF_TRAP);
    ck_assert_int_eq(rename(moved, state), 0);
    ck_assert_ptr_null(ask(&a, "state"));
    fake_close(&a);
    dir_remove();
}
END_TEST

START_TEST(table_fills_and_empties)
{
    struct hf_ticket ticket = fake_ticket("somebody", HF_READ);
    unsigned before = 0, after = 0;

    dir_make();
    open_at(&a, "queue");
    ck_assert_int_eq(sscanf(ask(&a, "table")->what, "%u of", &before), 1);
    ck_assert_int_eq(fake_try(&a, &ticket).what, FAKE_GRANTED);
    ck_assert_int_eq(sscanf(ask(&a, "table")->what, "%u of", &after), 1);
    ck_assert_uint_eq(after, before + 2); /* the name and its holder */
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    fake_close(&a);
    dir_remove();
}
END_TEST

START_TEST(what_a_reboot_forgets_is_seen)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX);
    struct hf_request set = fake_request(HF_LATCH_SET, "latch"),
                      down = fake_request(HF_LATCH_DOWN, "latch");

    dir_make();
    open_at(&a, "queue");
    ck_assert_ptr_null(ask(&a, "reboot"));
    ticket.flags = HF_TICKET_DETACHED;
    ticket.ttl_ns = 60 * INT64_C(1000000000);
    ck_assert_int_eq(fake_try(&a, &ticket).what, FAKE_GRANTED);
    has(ask(&a, "reboot")->what, "1 hold");
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    ck_assert_ptr_null(ask(&a, "reboot"));
    set.number = down.number = 1;
    ck_assert_int_eq(fake_ask(&a, &set, NULL), 0);
    has(ask(&a, "reboot")->what, "1 latch is");
    ck_assert_int_eq(fake_ask(&a, &down, NULL), 0);
    ck_assert_ptr_null(ask(&a, "reboot"));
    fake_close(&a);
    dir_remove();
}
END_TEST

START_TEST(flock_layout_examines_itself)
{
    struct hf_request request = fake_request(HF_INSPECT, "");

    dir_make();
    open_at(&a, "flock");
    ck_assert_int_eq(ask(&a, "cleaners")->level, HF_REMARK);
    has(ask(&a, "cleaners")->fix, dir);
    ck_assert_ptr_null(ask(&a, "clients"));
    ck_assert_ptr_null(ask(&a, "tokens"));
    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_eq(ask(&a, "permissions")->level, HF_TRAP);
    ck_assert_int_eq(fake_ask(&a, &request, NULL), HF_EUNSUPPORTED);
    fake_close(&a);
    dir_remove();
}
END_TEST

static int dir_count(void)
{
    DIR *stream = opendir(dir);
    int count = 0;

    ck_assert_ptr_nonnull(stream);
    while (readdir(stream))
        count++;
    closedir(stream);
    return count - 2; /* . and .. */
}

/* A client that only diagnoses leaves no files; nor does it remove files that other
 * clients use. */
START_TEST(a_visit_leaves_nothing_behind)
{
    struct hf_ticket ticket = fake_ticket("x", HF_MUTEX);
    char home[96];

    dir_make();
    open_at(&a, "flock");
    ck_assert_ptr_null(ask(&a, "tokens"));
    fake_close(&a);
    ck_assert_int_eq(dir_count(), 0);
    open_at(&a, "queue");
    ask(&a, "clients");
    fake_close(&a);
    ck_assert_int_eq(dir_count(), 0);

    open_at(&a, "queue"); /* another client opened meanwhile, and stays */
    ask(&a, "clients");
    open_at(&b, "queue");
    fake_close(&a);
    ck_assert_int_eq(dir_count(), 1);
    open_at(&a, "queue");
    has(ask(&b, "clients")->what, "2 of 1024");
    fake_close(&b);
    fake_close(&a);

    snprintf(home, sizeof(home), "%s/.holdfast", dir);
    dir_empty(home);
    rmdir(home);
    open_at(&a, "queue"); /* tokens were given out: the counter has to stay */
    ask(&a, "clients");
    ck_assert_int_eq(fake_try(&a, &ticket).what, FAKE_GRANTED);
    ck_assert_int_eq(fake_withdraw(&a, &ticket), HF_WITHDRAWN);
    fake_close(&a);
    ck_assert_int_eq(dir_count(), 1);
    dir_empty(home);

    open_at(&a, "queue"); /* the directory was there before */
    ask(&a, "clients");
    fake_close(&a);
    ck_assert_int_eq(dir_count(), 1);
    ck_assert_int_eq(rmdir(home), 0);
    dir_remove();
}
END_TEST

START_TEST(mem_is_good)
{
    ck_assert_int_eq(fake_open(&a, &hf__backend_memory, "mem:", NULL), 0);
    ck_assert_int_eq(ask(&a, "reach")->level, HF_GOOD);
    ck_assert_uint_eq(a.finding_count, 1);
    has(a.findings[0].what, "threads of this process only");
    fake_close(&a);
    ck_assert_uint_eq(hf__mem_live(), 0);
}
END_TEST

UNIT_MAIN("diagnose", good_directory_is_good, file_systems, modes_and_owner,
          space_and_room, namespaces_and_damage, what_a_reboot_forgets,
          cleaners_of_temporary_files, queue_layout_examines_itself,
          table_fills_and_empties, what_a_reboot_forgets_is_seen,
          flock_layout_examines_itself, a_visit_leaves_nothing_behind, mem_is_good)
