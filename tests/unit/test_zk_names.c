/* SPDX-License-Identifier: MIT */
/*
 * Names of the zookeeper store: paths and back, names of nodes in every layout and of
 * every library that shares them, and who is admitted, by a listing.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/backends/zookeeper/names.h"
#include "../../src/backends/zookeeper/queue.h"

#define MANY 300000

/* ---- Paths ----------------------------------------------------------------------- */

static void check_path(const char *name, size_t len, const char *wanted)
{
    char path[FOLDER_SIZE], back[HF_NAME_MAX + 1];
    size_t back_len, size = hf__zk_folder_write(path, name, len);
    ck_assert_str_eq(path, wanted);
    ck_assert_uint_eq(size, strlen(path));
    ck_assert(hf__zk_folder_read(path, size, back, &back_len));
    ck_assert_uint_eq(back_len, len);
    ck_assert_mem_eq(back, name, len);
}

#define PATH(name, wanted) check_path(name, sizeof(name) - 1, wanted)

START_TEST(paths_known)
{
    PATH("jobs", "/jobs");
    PATH("jobs/nightly", "/jobs/nightly");
    PATH("a b", "/a b");
    PATH("\xc3\xa9\xe2\x82\xac", "/\xc3\xa9\xe2\x82\xac");
    PATH("100%", "/100%25");
    PATH("/", "/%2F");
    PATH("//", "/%2F%2F");
    PATH("/a", "/%2Fa");
    PATH("a/", "/a%2F");
    PATH("a//b", "/a/%2Fb");
    PATH("a///b", "/a/%2F%2Fb");
    PATH(".", "/%2E");
    PATH("..", "/%2E%2E");
    PATH("...", "/...");
    PATH("a/./b", "/a/%2E/b");
    PATH("../../x", "/%2E%2E/%2E%2E/x");
    PATH("zookeeper", "/%7Aookeeper");
    PATH("zookeeper/quota", "/%7Aookeeper/quota");
    PATH("a/zookeeper", "/a/zookeeper");
    PATH("zookeepers", "/zookeepers");
    PATH("\xf0\x9f\x94\x92", "/%F0%9F%94%92"); /* beyond Java's 16 bits */
    PATH("\xee\x80\x80x", "/%EE%80%80x");      /* for private use: refused there */
    PATH("locks", "/locks");
    PATH("a/leases", "/a/leases");
}
END_TEST

START_TEST(flat_paths)
{
    char path[FOLDER_SIZE], back[HF_NAME_MAX + 1];
    size_t len = hf__zk_flat_path_write(path, "a/b//c", 6);
    ck_assert_str_eq(path, "/a%2Fb%2F%2Fc");
    ck_assert(hf__zk_folder_read(path, len, back, &len));
    ck_assert_str_eq(back, "a/b//c");
    hf__zk_flat_path_write(path, "zookeeper", 9);
    ck_assert_str_eq(path, "/%7Aookeeper");
}
END_TEST

/* What looks like a node of a queue is no name's folder. */
START_TEST(paths_are_no_nodes)
{
    PATH("a/x-lock-0000000001", "/a/x-lock-000000000%31");
    PATH("lock--2147483648", "/lock--214748364%38");
    PATH("a/__READ__0000000007", "/a/__READ__000000000%37");
    PATH("a/__WRIT__0000000007", "/a/__WRIT__000000000%37");
    PATH("a/lease-0000000007", "/a/lease-000000000%37");
    PATH("a/b__lock__0000000007", "/a/b__lock__000000000%37");
    PATH("a/b__rlock__0000000007", "/a/b__rlock__000000000%37");
    PATH("a/lock-000000001", "/a/lock-000000001");
    PATH("a/lock-0000000001/b", "/a/lock-000000000%31/b");
}
END_TEST

START_TEST(paths_of_no_name)
{
    static const char *const wrong[] = {
        "/",        "a",        "/a/",     "/a//b", "/%41",   "/a%2fb",
        "/a%2",     "/a%",      "/.",      "/a/..", "/%2E",   "/zookeeper",
        "/a%2Fb/c", "/%7ax",    "/%%",     "/%G0",  "/%7Ax",  "/lock-0000000001",
        "/%latch",  "/%2F/%2F", "/a/%2F/", "",      "/a/%2E",
    };
    char back[HF_NAME_MAX + 1], path[FOLDER_SIZE + 8];
    size_t len;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        bool read = hf__zk_folder_read(wrong[i], strlen(wrong[i]), back, &len);
        bool fine = !strcmp(wrong[i], "/%2E") || !strcmp(wrong[i], "/a/%2E");
        ck_assert_msg(read == fine, "'%s'", wrong[i]);
    }
    memset(path, 'x', sizeof path);
    path[0] = '/';
    ck_assert(hf__zk_folder_read(path, 1 + HF_NAME_MAX, back, &len));
    ck_assert(!hf__zk_folder_read(path, 2 + HF_NAME_MAX, back, &len));
}
END_TEST

static size_t name_make(uint64_t *random, char *name)
{
    static const char *const pieces[] = {
        "/",
        ".",
        "%",
        "a",
        "zookeeper",
        "lock-",
        "0000000001",
        "2F",
        "__READ__",
        "-",
        "\xc3\xa9",
        "%2F",
        "\xef\xbf\xbf",
        "\xf0\x9f\x94\x92",
        "locks",
    };
    size_t count = 1 + unit_below(random, 12), len = 0;
    for (size_t i = 0; i < count; i++) {
        const char *piece =
            pieces[unit_below(random, sizeof pieces / sizeof pieces[0])];
        memcpy(name + len, piece, strlen(piece));
        len += strlen(piece);
    }
    return len;
}

/* That the way back exists for each shows that no two meet. */
START_TEST(paths_come_back)
{
    uint64_t random = 42;
    char name[HF_NAME_MAX + 1], path[FOLDER_SIZE], back[HF_NAME_MAX + 1];
    size_t back_len;
    for (int i = 0; i < MANY; i++) {
        size_t len = name_make(&random, name),
               size = hf__zk_folder_write(path, name, len);
        UNIT_ASSERT(hf__zk_folder_read(path, size, back, &back_len));
        UNIT_ASSERT(back_len == len && memcmp(back, name, len) == 0);
        UNIT_ASSERT(strstr(path, "//") == NULL && strstr(path, "/./") == NULL);
        UNIT_ASSERT(path[size - 1] != '/' && strstr(path, "/../") == NULL);
    }
    memset(name, '%', HF_NAME_MAX);
    ck_assert_uint_eq(hf__zk_folder_write(path, name, HF_NAME_MAX), FOLDER_SIZE - 1);
    ck_assert(hf__zk_folder_read(path, FOLDER_SIZE - 1, back, &back_len));
}
END_TEST

/* ---- Nodes ----------------------------------------------------------------------- */

#define UUID "208cd45c-14c2-43f8-a408-ea6634a736c5"
#define HEX "208cd45c14c243f8a408ea6634a736c5"

static struct node parsed(enum layout layout, const char *name)
{
    struct node node;
    hf__zk_node_parse(&node, layout, name, strlen(name));
    return node;
}

static void check_node(enum layout layout, const char *name, enum node_form form,
                       bool has_id, const char *number)
{
    struct node node = parsed(layout, name);
    ck_assert_msg(node.form == form, "%s: %d", name, node.form);
    ck_assert_msg(node.has_id == has_id, "%s", name);
    if (form != NODE_OTHER) {
        ck_assert_uint_eq(node.number_len, strlen(number));
        ck_assert_str_eq(node.number, number);
    }
}

START_TEST(nodes_are_recognised)
{
    enum layout c = LAYOUT_CURATOR, k = LAYOUT_KAZOO;
    check_node(c, "_c_" UUID "-lock-0000000042", NODE_LOCK, true, "0000000042");
    check_node(c, "_c_" HEX "-lock-0000000042", NODE_LOCK, true, "0000000042");
    check_node(c, UUID "-lock-0000000042", NODE_LOCK, true, "0000000042");
    check_node(c, "lock-0000000000", NODE_LOCK, false, "0000000000");
    check_node(c, "x-lock-lock-0000000007", NODE_LOCK, false, "0000000007");
    check_node(c, "_c_" UUID "-__READ__0000000001", NODE_READ, true, "0000000001");
    check_node(c, "_c_" UUID "-__WRIT__0000000001", NODE_WRITE, true, "0000000001");
    check_node(c, "_c_" UUID "-lease-0000000001", NODE_LEASE, true, "0000000001");
    check_node(c, "_c_" UUID "-lock--2147483648", NODE_LOCK, true, "-2147483648");
    check_node(c, "lock-00000000001", NODE_OTHER, false, NULL);
    check_node(c, "lock-000000001", NODE_OTHER, false, NULL);
    check_node(c, "lock-file", NODE_OTHER, false, NULL);
    check_node(c, "00-stray", NODE_OTHER, false, NULL);
    check_node(c, "0000000001", NODE_OTHER, false, NULL);
    check_node(c, "", NODE_OTHER, false, NULL);
    check_node(c, "_c_" UUID "-latch-0000000001", NODE_OTHER, true, NULL);
    check_node(c, HEX "__lock__0000000001", NODE_OTHER, true, NULL);
    check_node(k, HEX "__lock__0000000001", NODE_LOCK, true, "0000000001");
    check_node(k, HEX "__rlock__0000000001", NODE_READ, true, "0000000001");
    check_node(k, "_c_" UUID "-lock-0000000042", NODE_OTHER, true, NULL);
    check_node(c, "_c_208cd45c-14c2-43f8-a408-ea6634a736cg-lock-0000000042", NODE_LOCK,
               false, "0000000042");
}
END_TEST

/* Names in a reply have no end but their length. */
START_TEST(nodes_end_with_their_length)
{
    static const char name[] = "_c_" UUID "-lock-0000000042";
    struct node node;
    for (size_t len = 0; len < sizeof(name) - 1; len++) {
        char *copy = malloc(len + 1);
        memcpy(copy, name, len);
        hf__zk_node_parse(&node, LAYOUT_CURATOR, copy, len);
        ck_assert_int_eq(node.form, NODE_OTHER);
        free(copy);
        hf__zk_node_parse(&node, LAYOUT_CURATOR, name, len);
        ck_assert_int_eq(node.has_id, len >= 3 + strlen(UUID));
    }
}
END_TEST

START_TEST(nodes_are_written)
{
    struct node node = parsed(LAYOUT_CURATOR, "_c_" UUID "-lock-0000000042");
    char name[NODE_SIZE];
    static const struct {
        enum layout layout;
        enum node_form form;
        const char *wanted;
    } forms[] = {
        { LAYOUT_CURATOR, NODE_LOCK, "_c_" UUID "-lock-" },
        { LAYOUT_CURATOR, NODE_READ, "_c_" UUID "-__READ__" },
        { LAYOUT_CURATOR, NODE_WRITE, "_c_" UUID "-__WRIT__" },
        { LAYOUT_CURATOR, NODE_LEASE, "_c_" UUID "-lease-" },
        { LAYOUT_KAZOO, NODE_LOCK, HEX "__lock__" },
        { LAYOUT_KAZOO, NODE_READ, HEX "__rlock__" },
        { LAYOUT_KAZOO, NODE_WRITE, HEX "__lock__" },
        { LAYOUT_KAZOO, NODE_LEASE, "" },
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t len =
            hf__zk_node_name_write(name, forms[i].layout, forms[i].form, &node.id);
        ck_assert_str_eq(name, forms[i].wanted);
        ck_assert_uint_eq(len, strlen(name));
    }
}
END_TEST

/* As Java compares texts, which is what Curator sorts by. */
START_TEST(numbers_are_compared_as_texts)
{
    struct node one = parsed(LAYOUT_CURATOR, "lock-0000000001");
    struct node two = parsed(LAYOUT_CURATOR, "_c_" UUID "-__WRIT__0000000002");
    struct node last = parsed(LAYOUT_CURATOR, "lock-2147483647");
    struct node wrapped = parsed(LAYOUT_CURATOR, "lock--2147483648");
    struct node again = parsed(LAYOUT_CURATOR, "_c_" UUID "-__READ__0000000002");
    ck_assert_int_lt(hf__zk_node_compare(&one, &two), 0);
    ck_assert_int_gt(hf__zk_node_compare(&two, &one), 0);
    ck_assert_int_lt(hf__zk_node_compare(&two, &last), 0);
    ck_assert_int_lt(hf__zk_node_compare(&wrapped, &one), 0);
    ck_assert_int_eq(hf__zk_node_compare(&two, &again), 0);
}
END_TEST

/* ---- Queues ---------------------------------------------------------------------- */

enum { QUEUE_MAX = 8 };

static struct queue_view judged(enum layout layout, enum node_form form, size_t own,
                                const char *const *names)
{
    struct zk_text texts[QUEUE_MAX];
    struct queue_view view;
    struct node node = { .form = NODE_OTHER };
    size_t count = 0;
    for (; names[count]; count++)
        texts[count] = (struct zk_text){ names[count], strlen(names[count]) };
    if (own != NO_NODE)
        node = parsed(layout, names[own]);
    hf__zk_queue_judge(&view, layout, form, own == NO_NODE ? NULL : names[own],
                       own == NO_NODE ? 0 : strlen(names[own]), &node.id, texts, count);
    return view;
}

#define JUDGE(form, own, ...)                                                          \
    judged(LAYOUT_CURATOR, form, own, (const char *const[]){ __VA_ARGS__, NULL })

static void check_view(struct queue_view view, size_t blockers, size_t nearest,
                       bool mismatch)
{
    ck_assert_uint_eq(view.blockers, blockers);
    ck_assert_uint_eq(view.nearest, nearest);
    ck_assert_int_eq(view.mismatch, mismatch);
}

START_TEST(mutexes_stand_in_line)
{
    check_view(JUDGE(NODE_LOCK, 0, "a-lock-0000000005"), 0, NO_NODE, false);
    check_view(JUDGE(NODE_LOCK, 0, "a-lock-0000000005", "b-lock-0000000009"), 0,
               NO_NODE, false);
    check_view(JUDGE(NODE_LOCK, 1, "a-lock-0000000005", "b-lock-0000000009"), 1, 0,
               false);
    check_view(JUDGE(NODE_LOCK, 0, "d-lock-0000000009", "b-lock-0000000003",
                     "c-lock-0000000007", "00-stray", "locks"),
               2, 2, false);
    check_view(JUDGE(NODE_LOCK, 0, "d-lock-0000000009", "b-lock--2147483648"), 1, 1,
               false);
    check_view(JUDGE(NODE_LOCK, NO_NODE, "d-lock-0000000009"), 1, 0, false);
}
END_TEST

START_TEST(readers_mind_writers)
{
    check_view(JUDGE(NODE_READ, 1, "a-__READ__0000000001", "b-__READ__0000000002"), 0,
               NO_NODE, false);
    check_view(JUDGE(NODE_READ, 2, "a-__WRIT__0000000001", "b-__READ__0000000002",
                     "c-__READ__0000000003"),
               1, 0, false);
    check_view(JUDGE(NODE_READ, 2, "a-__WRIT__0000000001", "b-__WRIT__0000000002",
                     "c-__READ__0000000003"),
               2, 1, false);
    check_view(JUDGE(NODE_WRITE, 1, "a-__READ__0000000001", "b-__WRIT__0000000002"), 1,
               0, false);
    check_view(JUDGE(NODE_WRITE, 1, "a-__WRIT__0000000001", "b-__WRIT__0000000002"), 1,
               0, false);
    /* A writer may become a reader of the same number. */
    check_view(JUDGE(NODE_WRITE, 1, "a-__READ__0000000002", "b-__WRIT__0000000002"), 1,
               0, false);
}
END_TEST

/* The first node decides the kind of the folder; no other kind is admitted with it. */
START_TEST(kinds_that_meet)
{
    check_view(JUDGE(NODE_LOCK, 1, "a-__READ__0000000001", "b-lock-0000000002"), 1, 0,
               true);
    check_view(JUDGE(NODE_LOCK, 0, "a-lock-0000000001", "b-__READ__0000000002"), 0,
               NO_NODE, false);
    check_view(JUDGE(NODE_LOCK, 2, "a-lock-0000000001", "b-__READ__0000000002",
                     "c-lock-0000000003"),
               2, 1, false);
    check_view(JUDGE(NODE_READ, 1, "a-lock-0000000001", "b-__READ__0000000002"), 1, 0,
               true);
    check_view(JUDGE(NODE_READ, NO_NODE, "a-lock-0000000001"), 1, 0, true);
}
END_TEST

START_TEST(own_nodes_are_found)
{
    struct queue_view view = JUDGE(NODE_LOCK, 1, "_c_" UUID "-lock-0000000001",
                                   "_c_" UUID "-lock-0000000002");
    ck_assert_uint_eq(view.own, 1);
    ck_assert_uint_eq(view.extra, 0);
    ck_assert_uint_eq(view.blockers, 1);
    view = JUDGE(NODE_LOCK, 0, "_c_" UUID "-lock-0000000001", "x-lock-0000000002");
    ck_assert_uint_eq(view.extra, NO_NODE);
    view = JUDGE(NODE_LOCK, 1, "_c_" UUID "-lock-0000000001-lock-0000000003",
                 "_c_" UUID "-lock-0000000001");
    ck_assert_uint_eq(view.own, 1); /* and not one that begins with it */

    struct zk_text names[] = { { "_c_" UUID "-lock-0000000009", 55 },
                               { "_c_" UUID "-lock-0000000002", 55 },
                               { "lock-0000000001", 15 } };
    struct node node = parsed(LAYOUT_CURATOR, "_c_" UUID "-lock-0000000002");
    ck_assert_uint_eq(hf__zk_queue_find(LAYOUT_CURATOR, &node.id, names, 3), 1);
    ck_assert_uint_eq(hf__zk_queue_find(LAYOUT_CURATOR, &node.id, names + 2, 1),
                      NO_NODE);
    node.id.word[0]++;
    ck_assert_uint_eq(hf__zk_queue_find(LAYOUT_CURATOR, &node.id, names, 3), NO_NODE);
}
END_TEST

UNIT_MAIN("zk_names", paths_known, flat_paths, paths_are_no_nodes, paths_of_no_name,
          paths_come_back, nodes_are_recognised, nodes_end_with_their_length,
          nodes_are_written, numbers_are_compared_as_texts, mutexes_stand_in_line,
          readers_mind_writers, kinds_that_meet, own_nodes_are_found)
