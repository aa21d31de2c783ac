/* SPDX-License-Identifier: MIT */
/*
 * Checks for settings of a Redis server that can lose locks, with advice. Three
 * pipelined requests: INFO, TIME, and a script that does nothing.
 */
#include "session.h"

#include "../../base/clock.h"
#include "../../base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum part { PART_INFO = 1, PART_TIME = 2, PART_SCRIPT = 3 };

#define CLOCK_SKEW_US INT64_C(500000)
#define EPOCH_MAX_S INT64_C(100000000000) /* a larger time is invalid */

static void report(struct redis_session *me, struct hf_request *request, int level,
                   const char *topic, const char *what, const char *fix)
{
    hf_finding finding = { sizeof(finding), level, topic, what, fix };
    me->host->ops->finding(me->host, request, &finding);
}

/* ---- INFO ------------------------------------------------------------------------ */

/* The value of "key:value\r\n", cut to fit. False if there is no such line. */
static bool field(const struct resp *info, const char *key, char *value, size_t size)
{
    size_t len = strlen(key);
    const char *at = info->text, *end = at + info->len;
    value[0] = '\0';
    while (at < end) {
        const char *stop = memchr(at, '\r', (size_t)(end - at));
        if (!stop)
            stop = end;
        if ((size_t)(stop - at) > len && memcmp(at, key, len) == 0 && at[len] == ':') {
            snprintf(value, size, "%.*s", (int)(stop - at - (ptrdiff_t)len - 1),
                     at + len + 1);
            return true;
        }
        at = stop + 2 < end ? stop + 2 : end;
    }
    return false;
}

static void check_version(struct redis_session *me, struct hf_request *request,
                          const struct resp *info)
{
    char version[32], valkey[32], what[160];
    field(info, "redis_version", version, sizeof(version));
    bool is_valkey = field(info, "valkey_version", valkey, sizeof(valkey));
    snprintf(what, sizeof(what), "%s %s", is_valkey ? "Valkey" : "Redis",
             is_valkey ? valkey : version);
    if (strtol(version, NULL, 10) < 6)
        report(me, request, HF_REMARK, "version", what,
               "Redis 6 or newer lets one connection do for requests and messages");
    else
        report(me, request, HF_GOOD, "version", what, "");
}

static void check_memory(struct redis_session *me, struct hf_request *request,
                         const struct resp *info)
{
    char policy[32], limit[32], what[160];
    field(info, "maxmemory_policy", policy, sizeof(policy));
    field(info, "maxmemory", limit, sizeof(limit));
    snprintf(what, sizeof(what), "maxmemory %s, maxmemory-policy %s", limit, policy);
    bool may_drop = strtoull(limit, NULL, 10) != 0 && strcmp(policy, "noeviction") != 0;
    if (may_drop)
        report(me, request, HF_TRAP, "eviction", what,
               "a lock may be thrown out while it is held: set maxmemory-policy "
               "noeviction, or keep locks on a server of their own");
    else
        report(me, request, HF_GOOD, "eviction", what, "");
}

static void check_persistence(struct redis_session *me, struct hf_request *request,
                              const struct resp *info)
{
    char aof[8];
    field(info, "aof_enabled", aof, sizeof(aof));
    if (aof[0] == '1')
        report(me, request, HF_GOOD, "persistence", "append-only file is on", "");
    else
        report(me, request, HF_TRAP, "persistence",
               "a restart of the server forgets locks that are held",
               "set appendonly yes and appendfsync always, or make whatever is guarded "
               "check the fencing token (it keeps growing over a restart)");
}

static void check_role(struct redis_session *me, struct hf_request *request,
                       const struct resp *info)
{
    char role[16], replicas[16], cluster[8];
    field(info, "role", role, sizeof(role));
    field(info, "connected_slaves", replicas, sizeof(replicas));
    field(info, "cluster_enabled", cluster, sizeof(cluster));
    if (strcmp(role, "master") != 0)
        report(me, request, HF_TRAP, "role",
               "this server is a replica: it takes no locks",
               "give the address of the primary");
    else if (strtol(replicas, NULL, 10) > 0)
        report(me, request, HF_REMARK, "role",
               "replicas follow asynchronously: a failover may forget a lock",
               "make whatever is guarded check the fencing token");
    else
        report(me, request, HF_GOOD, "role", "primary without replicas", "");
    if (cluster[0] == '1')
        report(me, request, HF_TRAP, "cluster", "the server is part of a cluster",
               "use a single server for now: names of other nodes are refused");
}

/* ---- TIME and scripts ------------------------------------------------------------ */

static void check_clock(struct redis_session *me, struct hf_request *request,
                        const struct resp *nodes)
{
    int64_t seconds = 0, micros = 0;
    char what[160];
    if (!hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 0), &seconds) ||
        !hf__redis_resp_number(hf__redis_resp_at(nodes, 0, 1), &micros) ||
        seconds < 0 || seconds > EPOCH_MAX_S || micros < 0 || micros >= 1000000)
        return;
    int64_t apart = seconds * 1000000 + micros - (int64_t)hf__wall_us();
    int64_t size = apart < 0 ? -apart : apart;
    snprintf(what, sizeof(what), "the server's clock is %lld ms %s ours",
             (long long)(size / 1000), apart < 0 ? "behind" : "ahead of");
    if (size > CLOCK_SKEW_US)
        report(
            me, request, HF_REMARK, "clock", what,
            "holdfast does not compare clocks, but Redisson's fair locks and expiring "
            "permits do: run NTP on both");
    else
        report(me, request, HF_GOOD, "clock", what, "");
}

static void check_scripts(struct redis_session *me, struct hf_request *request, int rc)
{
    if (rc == 0)
        report(me, request, HF_GOOD, "scripts", "EVAL is allowed", "");
    else
        report(me, request, HF_TRAP, "scripts", "this user may not run scripts",
               "grant +eval +evalsha, or use ?layout=simple&script=off");
}

/* ---- The requests ---------------------------------------------------------------- */

static void diagnose_reply(void *session, void *subject, uint64_t part,
                           const struct resp *nodes, int64_t sent_ns,
                           const hf_error *no_reply)
{
    (void)sent_ns;
    struct redis_session *me = session;
    struct hf_request *request = subject;
    hf_error why;
    int rc = hf__redis_reply_error(nodes, no_reply, &why);
    if (!nodes) {
        /* All three fail together; the last one answers. */
        if (part == PART_SCRIPT)
            me->host->ops->answered(me->host, request, rc, &why);
        return;
    }
    me->host->ops->progress(me->host, request);
    if (part == PART_INFO && nodes[0].type == RESP_TEXT) {
        check_version(me, request, nodes);
        check_memory(me, request, nodes);
        check_persistence(me, request, nodes);
        check_role(me, request, nodes);
    } else if (part == PART_INFO) {
        report(me, request, HF_REMARK, "info", "this user may not read INFO",
               "grant +info to let holdfast examine the server");
    } else if (part == PART_TIME && rc == 0) {
        check_clock(me, request, nodes);
    } else if (part == PART_SCRIPT) {
        check_scripts(me, request, rc);
        me->host->ops->answered(me->host, request, 0, NULL);
    }
}

void hf__redis_diagnose(struct redis_session *me, struct hf_request *request)
{
    static const struct resp_arg info[] = { { "INFO", 4 } };
    static const struct resp_arg clock[] = { { "TIME", 4 } };
    static const struct resp_arg script[] = { { "EVAL", 4 },
                                              { "return 1", 8 },
                                              { "0", 1 } };
    hf__redis_conn_send(me->conn, info, 1, diagnose_reply, request, PART_INFO);
    hf__redis_conn_send(me->conn, clock, 1, diagnose_reply, request, PART_TIME);
    hf__redis_conn_send(me->conn, script, 3, diagnose_reply, request, PART_SCRIPT);
}
