/* SPDX-License-Identifier: MIT */
/*
 * Who holds and who waits: one script call for one name, SCAN and then one call per
 * name for a prefix. A call brings a page of rows, and there is another one for the
 * next page: a look holds neither the server nor the connection up, and a reply is
 * never larger than what the connection reads.
 *
 * A survey is an inspection under way. By prefix it walks the whole keyspace in steps
 * that do not hold the server up. Names are found by holdfast's own side keys, and
 * among hashes (a lock of Redisson's is one); a counter that only Redisson knows cannot
 * be told from any other string, so it is found by its exact name alone. The script has
 * nothing to tell of a hash that is no lock.
 *
 * Names are told in their order. Some are asked for in one flight; if one of them has
 * more than a page, the answers behind it come too early: they are dropped, and these
 * names are asked for again when that one is through.
 */
#include "session.h"

#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { DETAIL_PARTS = 5, ROW_PARTS = 10, PIPELINE = 64, NAMES_BYTES_MAX = 256 << 20 };

struct survey {
    struct hf_link link;
    struct hf_request *request;
    hf_error why;
    int rc;
    bool hashes;        /* the second walk, over hashes */
    size_t under_way;   /* calls not answered yet */
    size_t next;        /* of `names`, to be asked for */
    uint32_t flight;    /* answers to those before are dropped */
    bool paging;        /* one name alone, until its last page */
    size_t count, room; /* names found, sorted and single before they are asked for */
    size_t bytes;       /* of them */
    char **names;
};

static const enum key_name inspect_keys[] = { KEY_NAME,  KEY_INFO,    KEY_QUEUE,
                                              KEY_FAIR,  KEY_PERMITS, KEY_TIMEOUT,
                                              KEY_TOKEN, KEY_END };

/* ---- Surveys --------------------------------------------------------------------- */

static void survey_free(struct survey *survey)
{
    for (size_t i = 0; i < survey->count; i++)
        hf__free(survey->names[i]);
    hf__free(survey->names);
    hf__list_remove(&survey->link);
    hf__free(survey);
}

void hf__redis_inspect_done(struct redis_session *me)
{
    for (struct hf_link *link; (link = hf__list_first(&me->surveys));)
        survey_free(HF_CONTAINER(link, struct survey, link));
}

/* Its calls go on, and end with nobody to tell. */
void hf__redis_inspect_forget(struct redis_session *me, const void *request)
{
    for (HF_EACH(link, &me->surveys)) {
        struct survey *survey = HF_CONTAINER(link, struct survey, link);
        if (survey->request == request)
            survey->request = NULL;
    }
}

static void survey_fail(struct survey *survey, int rc, const hf_error *why)
{
    if (survey->rc != 0)
        return;
    survey->rc = rc;
    survey->why = *why;
}

static void survey_end(struct redis_session *me, struct survey *survey)
{
    struct hf_request *request = survey->request;
    int rc = survey->rc;
    hf_error why = survey->why;
    survey_free(survey);
    if (request)
        me->host->ops->answered(me->host, request, rc, rc ? &why : NULL);
}

/* Each reply is a step, also one with nothing to tell: most keys are no locks. */
static void survey_heard(struct redis_session *me, struct survey *survey,
                         const struct resp *nodes)
{
    survey->under_way--;
    if (nodes && survey->request)
        me->host->ops->progress(me->host, survey->request);
}

static bool survey_add(struct survey *survey, const char *name, size_t len)
{
    survey->bytes += len + sizeof(*survey->names);
    if (survey->bytes > NAMES_BYTES_MAX)
        return false; /* a walk that will not end */
    if (survey->count == survey->room) {
        size_t room = survey->room ? 2 * survey->room : 64;
        char **names = hf__realloc(survey->names, survey->room * sizeof(*names),
                                   room * sizeof(*names));
        if (!names)
            return false;
        survey->names = names;
        survey->room = room;
    }
    survey->names[survey->count] = hf__copy_text(name, len);
    return survey->names[survey->count] && ++survey->count;
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void survey_sort(struct survey *survey)
{
    size_t kept = 0;
    if (survey->count > 1)
        qsort(survey->names, survey->count, sizeof(*survey->names), compare_names);
    for (size_t i = 0; i < survey->count; i++)
        if (kept && strcmp(survey->names[kept - 1], survey->names[i]) == 0)
            hf__free(survey->names[i]);
        else
            survey->names[kept++] = survey->names[i];
    survey->count = kept;
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

/* For the server a reentrant mutex is a mutex; its details know better. */
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

/* kind 0x1f host 0x1f pid 0x1f program 0x1f note; a stranger is its owner alone, shown
 * as the host. */
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

/* What is left of a lease: PTTL says -1 where there is none, and other numbers below 0
 * are of leases that are over. */
static int64_t left_of(int64_t number)
{
    return number == HF_FOREVER ? HF_FOREVER : at_least(number, 0);
}

static void tell_row(struct redis_session *me, struct survey *survey, const char *name,
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
    me->host->ops->entry(me->host, survey->request, &entry);
}

/* ---- Asking for names ------------------------------------------------------------ */

static void survey_step(struct redis_session *me, struct survey *survey);

static void ask_page(struct redis_session *me, struct survey *survey, size_t index,
                     int64_t section, const char *place, size_t place_len);

static const char *name_at(const struct survey *survey, size_t index)
{
    return survey->names ? survey->names[index] : survey->request->name;
}

/* A page: {section, place, {row ...}}. False if it is none. */
static bool page_told(struct redis_session *me, struct survey *survey, size_t index,
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
            tell_row(me, survey, name_at(survey, index), &row);
    survey->paging = section != 0;
    if (survey->paging) {
        survey->flight++;
        survey->next = index + 1;
        ask_page(me, survey, index, section, place->text, place->len);
    }
    return true;
}

static void inspect_reply(void *session, void *subject, uint64_t word,
                          const struct resp *nodes, int64_t sent_ns,
                          const hf_error *gone)
{
    (void)sent_ns;
    struct redis_session *me = session;
    struct survey *survey = subject;
    hf_error why;
    int rc = hf__redis_reply_error(nodes, gone, &why);
    bool early = word >> 32 != survey->flight;
    if (rc == 0 && !early && survey->request && survey->rc == 0 &&
        !page_told(me, survey, (uint32_t)word, nodes))
        rc = hf__fail(&why, HF_ECORRUPT, "the server's answer makes no sense");
    if (rc != 0)
        survey_fail(survey, rc, &why);
    survey_heard(me, survey, nodes);
    survey_step(me, survey);
}

static void ask_page(struct redis_session *me, struct survey *survey, size_t index,
                     int64_t section, const char *place, size_t place_len)
{
    const char *name = name_at(survey, index);
    struct keys keys;
    struct args args;
    hf__redis_keys_fill(&keys, inspect_keys, name, strlen(name));
    hf__redis_args_init(&args);
    hf__redis_args_number(&args, section);
    hf__redis_args_text(&args, place, place_len);
    survey->under_way++;
    hf__redis_conn_eval(me->conn, &hf__redis_script_inspect, keys.key, keys.count,
                        args.arg, args.count, inspect_reply, survey,
                        (uint64_t)survey->flight << 32 | index);
}

/* Keeps some calls under way until all names were asked for. Calls may be answered
 * inside hf__redis_conn_eval() when the connection is down: then the survey has failed, and the caller
 * at the bottom of the stack ends it. */
static void survey_step(struct redis_session *me, struct survey *survey)
{
    survey->under_way++; /* keeps it alive meanwhile */
    while (survey->rc == 0 && survey->request && !survey->paging &&
           survey->next < survey->count && survey->under_way <= PIPELINE) {
        size_t index = survey->next++;
        ask_page(me, survey, index, 1, "0", 1);
    }
    if (--survey->under_way == 0)
        survey_end(me, survey);
}

/* ---- Walking the keys ------------------------------------------------------------ */

static void scan(struct redis_session *me, struct survey *survey,
                 const struct resp_arg *cursor);

/* The name a key found by SCAN stands for; false if it is none that we look for. */
static bool name_of_key(const struct survey *survey, const struct resp *key,
                        struct resp_arg *ret_name)
{
    const char *prefix = survey->request->name;
    size_t plen = strlen(prefix);
    *ret_name = (struct resp_arg){ key->text, key->len };
    if (survey->hashes && (hf__redis_resp_begins(key, "holdfast_") ||
                           hf__redis_resp_begins(key, "redisson_")))
        return false;
    if (!survey->hashes && !hf__redis_key_parse(key->text, key->len, ret_name))
        return false;
    return ret_name->len <= HF_NAME_MAX && ret_name->len >= plen &&
           memcmp(ret_name->text, prefix, plen) == 0;
}

static void keep_names(struct survey *survey, const struct resp *nodes, size_t list)
{
    struct resp_arg name;
    hf_error why;
    for (uint32_t i = (uint32_t)list + 1; i < nodes[list].next; i = nodes[i].next)
        if (nodes[i].type == RESP_TEXT && name_of_key(survey, &nodes[i], &name) &&
            !survey_add(survey, name.text, name.len))
            survey_fail(survey, hf__fail_code(&why, HF_ENOMEM), &why);
}

static void scan_reply(void *session, void *subject, uint64_t word,
                       const struct resp *nodes, int64_t sent_ns, const hf_error *gone)
{
    (void)word;
    (void)sent_ns;
    struct redis_session *me = session;
    struct survey *survey = subject;
    hf_error why;
    static const struct resp_arg start = { "0", 1 };
    int rc = hf__redis_reply_error(nodes, gone, &why);
    survey_heard(me, survey, nodes);
    const struct resp *cursor = rc == 0 ? hf__redis_resp_at(nodes, 0, 0) : NULL;
    const struct resp *found = rc == 0 ? hf__redis_resp_at(nodes, 0, 1) : NULL;
    if (rc == 0 &&
        (!cursor || cursor->type != RESP_TEXT || !found || found->type != RESP_ARRAY))
        rc = hf__fail(&why, HF_ECORRUPT, "the server's answer to SCAN makes no sense");
    if (rc != 0 && !survey->hashes)
        survey_fail(survey, rc, &why);
    if (rc == 0 && survey->request)
        keep_names(survey, nodes, (size_t)(found - nodes));
    if (rc == 0 && survey->request && survey->rc == 0 &&
        !hf__redis_resp_is(cursor, "0")) {
        struct resp_arg next = { cursor->text, cursor->len };
        scan(me, survey, &next);
    } else if (!survey->hashes && survey->request && survey->rc == 0) {
        survey->hashes = true; /* a server without SCAN ... TYPE has had its say */
        scan(me, survey, &start);
    } else {
        survey_sort(survey);
        survey_step(me, survey);
    }
}

/* The prefix as a pattern: what is special in one is quoted. */
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

static void scan(struct redis_session *me, struct survey *survey,
                 const struct resp_arg *cursor)
{
    char pattern[2 * HF_NAME_MAX + 32];
    size_t len = write_pattern(pattern, survey->hashes ? "" : "holdfast_info:*",
                               survey->request->name);
    const struct resp_arg args[] = {
        { "SCAN", 4 },  *cursor,       { "MATCH", 5 }, { pattern, len },
        { "COUNT", 5 }, { "1000", 4 }, { "TYPE", 4 },  { "hash", 4 },
    };
    survey->under_way++;
    hf__redis_conn_send(me->conn, args, survey->hashes ? 8 : 6, scan_reply, survey, 0);
}

void hf__redis_inspect(struct redis_session *me, struct hf_request *request)
{
    static const struct resp_arg start = { "0", 1 };
    struct survey *survey = hf__alloc(sizeof(*survey));
    if (!survey) {
        me->host->ops->answered(me->host, request, HF_ENOMEM, NULL);
        return;
    }
    survey->request = request;
    hf__list_push_back(&me->surveys, &survey->link);
    if (request->prefix)
        scan(me, survey, &start);
    else
        ask_page(me, survey, 0, 1, "0", 1);
}
