/* SPDX-License-Identifier: MIT */
/*
 * What is known to cost locks on a ZooKeeper ensemble, and what to do about it. Under
 * the client's lock.
 *
 * A ping, a read of the list of servers, and a walk over all names (walk.h), read-only.
 * Judged are: how long the session lasts, how far away the server is and how many there
 * are, the numbers of each queue, and children in a folder where they do not belong.
 * Each finding is reported once, with the count and one example.
 */
#include "walk.h"

#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers end at 2147483647: the warning comes 147 million locks before. */
#define NUMBER_HIGH INT64_C(2000000000)
#define SLOW_NS (50 * HF_NS_PER_MS)

enum { EXAMPLE_SIZE = 256 };

struct oddity {
    size_t count;
    char example[EXAMPLE_SIZE];
};

struct diagnosis {
    struct oddity strays;  /* children that Curator would wait for without end */
    struct oddity numbers; /* queues whose numbers are almost used up */
    struct oddity mixed;   /* two kinds of lock in one folder */
    size_t names;
    int servers; /* that vote; 0: a single server; -1: not known */
};

static void report(struct zk_session *me, struct walk *walk, int level,
                   const char *topic, const char *what, const char *fix)
{
    hf_finding finding = { sizeof(finding), level, topic, what, fix };
    me->host->ops->finding(me->host, walk->job.request, &finding);
}

static struct diagnosis *diagnosis_of(struct walk *walk)
{
    return (struct diagnosis *)(void *)walk->victim; /* freed with the walk */
}

/* ---- The walk -------------------------------------------------------------------- */

static void oddity_add(struct oddity *oddity, const struct step *step,
                       const struct zk_text *child)
{
    if (oddity->count++ == 0)
        snprintf(oddity->example, sizeof(oddity->example), "%.180s/%.*s", step->path,
                 (int)(child->len < 64 ? child->len : 64), child->at);
}

/* Curator sorts a child that is no lock by its whole name: does it come before every
 * number? */
static bool comes_first(const struct zk_text *name)
{
    return name->len > 0 && name->at[0] <= '9' && name->at[0] != '%';
}

static int64_t number_of(const struct node *node)
{
    char text[16] = "";
    size_t len = node->number_len < sizeof(text) ? node->number_len : 0;
    memcpy(text, node->number, len);
    return strtoll(text, NULL, 10);
}

static void diagnose_folder(struct zk_session *me, struct walk *walk,
                            const struct step *step, const struct zk_reply *reply)
{
    struct diagnosis *found = diagnosis_of(walk);
    bool mutex = false, rw = false;
    for (size_t i = 0; i < reply->count; i++) {
        struct node node;
        hf__zk_node_parse(&node, me->layout, reply->names[i].at, reply->names[i].len);
        mutex |= node.form == NODE_LOCK;
        rw |= node.form == NODE_READ || node.form == NODE_WRITE;
        if (node.form != NODE_OTHER &&
            (node.number[0] == '-' || number_of(&node) > NUMBER_HIGH))
            oddity_add(&found->numbers, step, &reply->names[i]);
    }
    found->names += mutex || rw;
    if (mutex && rw)
        oddity_add(&found->mixed, step, &reply->names[0]);
    for (size_t i = 0; (mutex || rw) && i < reply->count; i++) {
        struct node node;
        hf__zk_node_parse(&node, me->layout, reply->names[i].at, reply->names[i].len);
        if (node.form == NODE_OTHER && comes_first(&reply->names[i]))
            oddity_add(&found->strays, step, &reply->names[i]);
    }
}

static void diagnose_node(struct zk_session *me, struct walk *walk,
                          const struct step *step, const struct zk_reply *reply)
{
    (void)me;
    (void)walk;
    (void)step;
    (void)reply;
}

/* ---- Judging --------------------------------------------------------------------- */

static void judge_oddity(struct zk_session *me, struct walk *walk,
                         const struct oddity *oddity, const char *topic,
                         const char *are, const char *fix)
{
    char what[EXAMPLE_SIZE + 200];
    if (!oddity->count)
        return;
    snprintf(what, sizeof(what), "%zu %s, as %s", oddity->count, are, oddity->example);
    report(me, walk, HF_TRAP, topic, what, fix);
}

static void judge_names(struct zk_session *me, struct walk *walk)
{
    const struct diagnosis *found = diagnosis_of(walk);
    char what[96];
    judge_oddity(me, walk, &found->strays, "children",
                 "children of lock folders are no locks and sort before them",
                 "Curator waits for them for ever (holdfast does not): delete them, or "
                 "use another name");
    judge_oddity(me, walk, &found->numbers, "numbers",
                 "nodes have numbers near the end of 32 bits",
                 "delete the folder while it is idle: containers do that by "
                 "themselves, a parent made by hand does not");
    judge_oddity(me, walk, &found->mixed, "kinds",
                 "folders hold mutexes and read/write locks at once",
                 "they do not exclude each other in Curator: use two names");
    if (found->strays.count || found->numbers.count || found->mixed.count)
        return;
    snprintf(what, sizeof(what), "%zu queues, all in order", found->names);
    report(me, walk, HF_GOOD, "names", what, "");
}

static void judge_session(struct zk_session *me, struct walk *walk)
{
    char what[160];
    long long session = hf__zk_session_ns(me->zk) / HF_NS_PER_MS;
    long long asked = me->session_asked_ns / HF_NS_PER_MS;
    if (session == asked) {
        snprintf(what, sizeof(what), "a session of %lld ms", session);
        report(me, walk, HF_GOOD, "session", what, "");
        return;
    }
    snprintf(what, sizeof(what), "a session of %lld ms, though %lld were asked for",
             session, asked);
    report(me, walk, HF_REMARK, "session", what,
           session < asked
               ? "leases end that much sooner in an outage: raise the server's "
                 "maxSessionTimeout, or ask for less (session=)"
               : "a killed holder's lock stays taken that much longer: lower the "
                 "server's minSessionTimeout, or ask for more (session=)");
}

static void judge_servers(struct zk_session *me, struct walk *walk)
{
    int servers = diagnosis_of(walk)->servers;
    char what[96];
    if (servers < 0)
        return;
    snprintf(what, sizeof(what), "an ensemble of %d servers", servers);
    if (servers == 0)
        report(
            me, walk, HF_REMARK, "servers", "one server, without an ensemble",
            "while it is down no client gets a lock, and a lost disk is the end of all "
            "tokens: run three");
    else if (servers % 2 == 0)
        report(me, walk, HF_REMARK, "servers", what,
               "an even number can lose no more servers than one less could: run an "
               "odd number");
    else
        report(me, walk, HF_GOOD, "servers", what, "");
}

static void judge_distance(struct zk_session *me, struct walk *walk)
{
    char what[160];
    int64_t took = (int64_t)walk->found;
    snprintf(what, sizeof(what), "the server answers within %lld us",
             (long long)(took / 1000));
    if (took > SLOW_NS || took > hf__zk_session_ns(me->zk) / 20)
        report(me, walk, HF_REMARK, "distance", what,
               "a session that lasts a few round trips only is lost easily: raise "
               "session=, or find out why the server is slow (disk, pauses)");
    else
        report(me, walk, HF_GOOD, "distance", what, "");
}

static void diagnose_end(struct zk_session *me, struct walk *walk)
{
    judge_session(me, walk);
    judge_servers(me, walk);
    judge_distance(me, walk);
    judge_names(me, walk);
    hf__zk_job_end(me, &walk->job, 0, NULL);
}

static void ping_done(const struct zk_answer *answer)
{
    struct zk_session *me = answer->session;
    struct walk *walk = answer->subject;
    walk->found = (uint64_t)(me->host->ops->now(me->host) - answer->sent_ns);
    hf__zk_walk_reply(answer);
}

/* Lines such as "server.1=host:2888:3888:participant;0.0.0.0:2181". */
static int count_servers(const struct zk_text *config)
{
    static const char server[] = "server.", observer[] = ":observer";
    const char *at = config->at, *end = config->at + config->len;
    int count = 0;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t len = (size_t)((stop ? stop : end) - at);
        count += len > sizeof(server) - 1 &&
                 memcmp(at, server, sizeof(server) - 1) == 0 &&
                 !memmem(at, len, observer, sizeof(observer) - 1);
        at += len + 1;
    }
    return count;
}

static void config_done(const struct zk_answer *answer)
{
    struct walk *walk = answer->subject;
    const struct zk_reply *reply = answer->reply, fine = { .error = ZK_OK };
    struct zk_answer judged = *answer;
    if (reply && reply->error == ZK_OK)
        diagnosis_of(walk)->servers = count_servers(&reply->data);
    judged.reply = reply ? &fine : NULL;
    hf__zk_walk_reply(&judged);
}

void hf__zk_diagnose(struct zk_session *me, struct hf_request *request)
{
    struct walk *walk =
        hf__zk_walk_begin(me, request, true, diagnose_node, diagnose_end);
    hf_error why;
    if (!walk)
        return;
    walk->victim = hf__alloc(sizeof(struct diagnosis));
    if (!walk->victim) {
        hf__fail_code(&why, HF_ENOMEM);
        hf__zk_job_end(me, &walk->job, HF_ENOMEM, &why);
        return;
    }
    diagnosis_of(walk)->servers = -1;
    walk->folder_listed = diagnose_folder;
    hf__zk_walk_expect(me, walk, hf__zk_ping(me->zk, ping_done, walk, 0));
    hf__zk_walk_expect(me, walk, hf__zk_get_config(me->zk, config_done, walk, 0));
    hf__zk_walk_continue(me, walk);
}
