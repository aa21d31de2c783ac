/* SPDX-License-Identifier: MIT */
/*
 * Holders and waiters: one script call for one name; for a prefix SCAN, and then one
 * script call per name. Each call returns a page of rows, and a further call the next
 * page: an inspection blocks neither the server nor the connection, and no reply is
 * larger than the connection accepts.
 *
 * A walk is an inspection under way. For a prefix it scans the whole keyspace in steps.
 * Names are found by holdfast's own INFO keys, and among hashes (a Redisson lock is
 * one). A counter that only Redisson uses looks like any other string, so it is found
 * by its exact name alone. For a hash that is no lock the script returns no rows.
 *
 * Names are reported in order. Several are asked for at once; if one of them has more
 * than a page, the replies behind it come too early: they are dropped, and their names
 * are asked for again after the last page of that one.
 */
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DETAIL_PARTS = 5, ROW_PARTS = 10, PIPELINE = 64, NAMES_BYTES_MAX = 256 << 20 };

struct walk {
    struct hf_list_node link;
    struct hf_request *request;
    hf_error why;
    int rc;
    bool hashes;        /* the second SCAN, over hashes */
    size_t under_way;   /* requests not answered yet */
    size_t next;        /* the next of `names` to ask for */
    uint32_t flight;    /* replies to earlier flights are dropped */
    bool paging;        /* only one name is asked for, until its last page */
    size_t count, room; /* names found; sorted, without duplicates, after SCAN */
    size_t bytes;       /* of the names */
    char **names;
};

static const enum key_name inspect_keys[] = { KEY_NAME,  KEY_INFO,    KEY_QUEUE,
                                              KEY_FAIR,  KEY_PERMITS, KEY_TIMEOUT,
                                              KEY_TOKEN, KEY_END };

/* ---- Surveys --------------------------------------------------------------------- */

static void walk_free(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        hf__free(walk->names[i]);
    hf__free(walk->names);
    hf__list_remove(&walk->link);
    hf__free(walk);
}

void hf__redis_inspect_done(struct redis_session *me)
{
    for (struct hf_list_node *link; (link = hf__list_first(&me->walks));)
        walk_free(HF_CONTAINER(link, struct walk, link));
}

/* Its requests go on, and end without a report. */
void hf__redis_inspect_forget(struct redis_session *me, const void *request)
{
    for (HF_EACH(link, &me->walks)) {
        struct walk *walk = HF_CONTAINER(link, struct walk, link);
        if (walk->request == request)
            walk->request = NULL;
    }
}

static void walk_fail(struct walk *walk, int rc, const hf_error *why)
{
    if (walk->rc != 0)
        return;
    walk->rc = rc;
    walk->why = *why;
}

static void walk_end(struct redis_session *me, struct walk *walk)
{
    struct hf_request *request = walk->request;
    int rc = walk->rc;
    hf_error why = walk->why;
    walk_free(walk);
    if (request)
        me->host->ops->answered(me->host, request, rc, rc ? &why : NULL);
}

/* Each reply is progress, also one without rows: most keys are no locks. */
static void walk_answered(struct redis_session *me, struct walk *walk,
                          const struct resp *nodes)
{
    walk->under_way--;
    if (nodes && walk->request)
        me->host->ops->progress(me->host, walk->request);
}

static bool walk_add_name(struct walk *walk, const char *name, size_t len)
{
    walk->bytes += len + sizeof(*walk->names);
    if (walk->bytes > NAMES_BYTES_MAX)
        return false; /* more names than can be sorted here */
    if (walk->count == walk->room) {
        size_t room = walk->room ? 2 * walk->room : 64;
        char **names = hf__realloc(walk->names, walk->room * sizeof(*names),
                                   room * sizeof(*names));
        if (!names)
            return false;
        walk->names = names;
        walk->room = room;
    }
    walk->names[walk->count] = hf__copy_text(name, len);
    return walk->names[walk->count] && ++walk->count;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void walk_sort(struct walk *walk)
{
    size_t kept = 0;
    if (walk->count > 1)
        qsort(walk->names, walk->count, sizeof(*walk->names), compare_names);
    for (size_t i = 0; i < walk->count; i++)
        if (kept && strcmp(walk->names[kept - 1], walk->names[i]) == 0)
            hf__free(walk->names[i]);
        else
            walk->names[kept++] = walk->names[i];
    walk->count = kept;
}

/* ---- Rows ------------------------------------------------------------------------ */

struct row {
    int64_t number[ROW_PARTS];
    char letters[2]; /* role, kind */
    char text[DETAIL_PARTS][HF_NAME_MAX];
};

static int kind_of(char letter)
{
    static const char letters[] = "m-frwpelc";
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? (int)(found - letters) + HF_MUTEX : HF_MUTEX;
}

/* To the scripts a reentrant mutex is a mutex; the details have its kind. */
static int row_kind(const struct row *row)
{
    int kind = kind_of(row->letters[1]);
    return kind == HF_MUTEX && row->text[0][0] == '0' + HF_REENTRANT ? HF_REENTRANT
                                                                     : kind;
}

static char letter_at(const struct resp *nodes, size_t row, size_t index)
{
    const struct resp *value = hf__redis_resp_at(nodes, row, index);
    return value && value->type == RESP_TEXT && value->len ? *value->text : '\0';
}

/* kind 0x1f host 0x1f pid 0x1f program 0x1f note; a foreign client has only its owner,
 * which is shown as the host. */
static void split_details(const struct resp *details, struct row *row)
{
    if (details->type != RESP_TEXT || details->len == 0)
        return;
    const char *at = details->text, *end = at + details->len;
    size_t first = memchr(at, '\x1f', details->len) ? 0 : 1;
    for (size_t i = first; i < DETAIL_PARTS; i++) {
        const char *stop =
            i + 1 < DETAIL_PARTS ? memchr(at, '\x1f', (size_t)(end - at)) : NULL;
        size_t len = (size_t)((stop ? stop : end) - at);
        len = len < HF_NAME_MAX ? len : HF_NAME_MAX - 1;
        memcpy(row->text[i], at, len);
        at = stop ? stop + 1 : end;
    }
}

static bool read_row(const struct resp *nodes, size_t index, struct row *row)
{
    memset(row, 0, sizeof(*row));
    if (nodes[index].type != RESP_ARRAY || nodes[index].len < ROW_PARTS)
        return false;
    row->letters[0] = letter_at(nodes, index, 0);
    row->letters[1] = letter_at(nodes, index, 1);
    for (size_t i = 3; i < ROW_PARTS - 1; i++)
        hf__redis_resp_number(hf__redis_resp_at(nodes, index, i), &row->number[i]);
    split_details(hf__redis_resp_at(nodes, index, ROW_PARTS - 1), row);
    return true;
}

static int64_t at_least(int64_t number, int64_t least)
{
    return number > least ? number : least;
}

static uint32_t small(int64_t number)
{
    if (number < 0)
        return 0;
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

/* What is left of a lease: PTTL is -1 if there is none; any other negative number is a
 * lease that is over. */
static int64_t left_of(int64_t number)
{
    return number == HF_FOREVER ? HF_FOREVER : at_least(number, 0);
}

static void row_report(struct redis_session *me, struct walk *walk, const char *name,
                       const struct row *row)
{
    int kind = row_kind(row);
    bool counted = kind == HF_PERMITS || kind == HF_EXPIRING;
    hf_entry entry = {
        .size = sizeof(entry),
        .name = name,
        .host = row->text[1],
        .program = row->text[3],
        .note = row->text[4],
        .kind = kind,
        .role = row->letters[0] == 'h'   ? HF_HOLDER
                : row->letters[0] == 'w' ? HF_WAITER
                                         : HF_OBJECT,
        .token = (uint64_t)at_least(row->number[3], 0),
        .permits = small(row->number[4]),
        .limit = counted ? small(row->number[5]) : 1,
        .place = small(row->number[6]),
        .pid = at_least(strtoll(row->text[2], NULL, 10), 0),
        .since_ms = at_least(row->number[7], -1),
        .left_ms = left_of(row->number[8]),
    };
    me->host->ops->entry(me->host, walk->request, &entry);
}

/* ---- Asking for names ------------------------------------------------------------ */

static void walk_next(struct redis_session *me, struct walk *walk);

static void ask_page(struct redis_session *me, struct walk *walk, size_t index,
                     int64_t section, const char *place, size_t place_len);

static const char *name_at(const struct walk *walk, size_t index)
{
    return walk->names ? walk->names[index] : walk->request->name;
}

/* Reports a page: {section, place, {row ...}}. False if the reply is no page. */
static bool page_report(struct redis_session *me, struct walk *walk, size_t index,
                        const struct resp *nodes)
{
    int64_t section;
    struct row row;
    const struct resp *place = hf__redis_resp_at(nodes, 0, 1),
                      *rows = hf__redis_resp_at(nodes, 0, 2);
    if (!place || place->type != RESP_TEXT || !rows || rows->type != RESP_ARRAY ||
        !hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 0), &section))
        return false;
    uint32_t first = (uint32_t)(rows - nodes);
    for (uint32_t i = first + 1; i < rows->next; i = nodes[i].next)
        if (read_row(nodes, i, &row))
            row_report(me, walk, name_at(walk, index), &row);
    walk->paging = section != 0;
    if (walk->paging) {
        walk->flight++;
        walk->next = index + 1;
        ask_page(me, walk, index, section, place->text, place->len);
    }
    return true;
}

static void inspect_reply(void *session, void *subject, uint64_t word,
                          const struct resp *nodes, int64_t sent_ns,
                          const hf_error *no_reply)
{
    (void)sent_ns;
    struct redis_session *me = session;
    struct walk *walk = subject;
    hf_error why;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    bool early = word >> 32 != walk->flight;
    if (rc == 0 && !early && walk->request && walk->rc == 0 &&
        !page_report(me, walk, (uint32_t)word, nodes))
        rc = hf__fail(&why, HF_ECORRUPT, "the server sent an invalid reply");
    if (rc != 0)
        walk_fail(walk, rc, &why);
    walk_answered(me, walk, nodes);
    walk_next(me, walk);
}

static void ask_page(struct redis_session *me, struct walk *walk, size_t index,
                     int64_t section, const char *place, size_t place_len)
{
    const char *name = name_at(walk, index);
    struct keys keys;
    struct args args;
    hf__redis_keys_fill(&keys, inspect_keys, name, strlen(name));
    hf__redis_args_init(&args);
    hf__redis_args_number(&args, section);
    hf__redis_args_text(&args, place, place_len);
    walk->under_way++;
    hf__redis_conn_eval(me->conn, &hf__redis_script_inspect, keys.key, keys.count,
                        args.arg, args.count, inspect_reply, walk,
                        (uint64_t)walk->flight << 32 | index);
}

/* Keeps some requests under way until all names were asked for. While the connection is
 * down, requests are answered inside hf__redis_conn_eval(): then the walk has failed,
 * and the outermost caller ends it. */
static void walk_next(struct redis_session *me, struct walk *walk)
{
    walk->under_way++; /* so that no reply ends the walk meanwhile */
    while (walk->rc == 0 && walk->request && !walk->paging &&
           walk->next < walk->count && walk->under_way <= PIPELINE) {
        size_t index = walk->next++;
        ask_page(me, walk, index, 1, "0", 1);
    }
    if (--walk->under_way == 0)
        walk_end(me, walk);
}

/* ---- Walking the keys ------------------------------------------------------------ */

static void scan(struct redis_session *me, struct walk *walk,
                 const struct resp_arg *cursor);

/* The name of a key found by SCAN; false if it is not one that the walk looks for. */
static bool name_of_key(const struct walk *walk, const struct resp *key,
                        struct resp_arg *ret_name)
{
    const char *prefix = walk->request->name;
    size_t plen = strlen(prefix);
    *ret_name = (struct resp_arg){ key->text, key->len };
    if (walk->hashes && (hf__redis_resp_begins(key, "holdfast_") ||
                         hf__redis_resp_begins(key, "redisson_")))
        return false;
    if (!walk->hashes && !hf__redis_key_parse(key->text, key->len, ret_name))
        return false;
    return ret_name->len <= HF_NAME_MAX && ret_name->len >= plen &&
           memcmp(ret_name->text, prefix, plen) == 0;
}

static void keep_names(struct walk *walk, const struct resp *nodes, size_t list)
{
    struct resp_arg name;
    hf_error why;
    for (uint32_t i = (uint32_t)list + 1; i < nodes[list].next; i = nodes[i].next)
        if (nodes[i].type == RESP_TEXT && name_of_key(walk, &nodes[i], &name) &&
            !walk_add_name(walk, name.text, name.len))
            walk_fail(walk, hf__fail_code(&why, HF_ENOMEM), &why);
}

static void scan_reply(void *session, void *subject, uint64_t word,
                       const struct resp *nodes, int64_t sent_ns,
                       const hf_error *no_reply)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct walk *walk = subject;
    hf_error why;
    static const struct resp_arg start = { "0", 1 };
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    walk_answered(me, walk, nodes);
    const struct resp *cursor = rc == 0 ? hf__redis_resp_at(nodes, 0, 0) : NULL;
    const struct resp *found = rc == 0 ? hf__redis_resp_at(nodes, 0, 1) : NULL;
    if (rc == 0 &&
        (!cursor || cursor->type != RESP_TEXT || !found || found->type != RESP_ARRAY))
        rc = hf__fail(&why, HF_ECORRUPT, "the server sent an invalid reply to SCAN");
    if (rc != 0 && !walk->hashes)
        walk_fail(walk, rc, &why);
    if (rc == 0 && walk->request)
        keep_names(walk, nodes, (size_t)(found - nodes));
    if (rc == 0 && walk->request && walk->rc == 0 && !hf__redis_resp_is(cursor, "0")) {
        struct resp_arg next = { cursor->text, cursor->len };
        scan(me, walk, &next);
    } else if (!walk->hashes && walk->request && walk->rc == 0) {
        walk->hashes = true; /* an error is ignored: SCAN ... TYPE needs Redis 6 */
        scan(me, walk, &start);
    } else {
        walk_sort(walk);
        walk_next(me, walk);
    }
}

/* The prefix as a pattern, with special characters quoted. */
static size_t write_pattern(char *out, const char *before, const char *prefix)
{
    char *at = out;
    for (; *before; before++)
        *at++ = *before;
    for (; *prefix; prefix++) {
        if (strchr("*?[]^\\", *prefix))
            *at++ = '\\';
        *at++ = *prefix;
    }
    *at++ = '*';
    return (size_t)(at - out);
}

static void scan(struct redis_session *me, struct walk *walk,
                 const struct resp_arg *cursor)
{
    char pattern[2 * HF_NAME_MAX + 32];
    size_t len = write_pattern(pattern, walk->hashes ? "" : "holdfast_info:*",
                               walk->request->name);
    const struct resp_arg args[] = {
        { "SCAN", 4 },  *cursor,       { "MATCH", 5 }, { pattern, len },
        { "COUNT", 5 }, { "1000", 4 }, { "TYPE", 4 },  { "hash", 4 },
    };
    walk->under_way++;
    hf__redis_conn_send(me->conn, args, walk->hashes ? 8 : 6, scan_reply, walk, 0);
}

void hf__redis_inspect(struct redis_session *me, struct hf_request *request)
{
    static const struct resp_arg start = { "0", 1 };
    struct walk *walk = hf__alloc(sizeof(*walk));
    if (!walk) {
        me->host->ops->answered(me->host, request, HF_ENOMEM, NULL);
        return;
    }
    walk->request = request;
    hf__list_push_back(&me->walks, &walk->link);
    if (request->prefix)
        scan(me, walk, &start);
    else
        ask_page(me, walk, 0, 1, "0", 1);
}
