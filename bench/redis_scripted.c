/* SPDX-License-Identifier: MIT */
/*
 * The least a lock can cost that is handed over by a script: see contest_scripted.
 *
 * A bare client and two scripts: one takes the lock or queues, the other lets go of it,
 * if it is its owner's, and hands it to the first in the queue with a message to it. No
 * lease, no number, no record of anybody, nothing for other clients: what it costs on
 * top of a token in a list is what asking a script costs, and being told.
 */
#include "redis_bare.h"

#include <stdlib.h>
#include <string.h>

static const char take_script[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end "
    "redis.call('RPUSH', KEYS[2], ARGV[1]) "
    "return 0";
static const char leave_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "local heir = redis.call('LPOP', KEYS[2]) "
    "if not heir then redis.call('DEL', KEYS[1]) return 1 end "
    "redis.call('SET', KEYS[1], heir) "
    "redis.call('PUBLISH', heir, '1') "
    "return 1";

struct worker {
    struct bare bare;
    char me[32];
    struct request take, leave;
};

/* Loads a script, and makes the request that runs it as `me`. */
static int script_load(struct bare *bare, const char *text, const char *me,
                       struct request *ret_request)
{
    const char *load[] = { "SCRIPT", "LOAD", text, NULL };
    char sha[41] = "";
    const char *run[] = { "EVALSHA", sha, "2", "bench/lock", "bench/queue", me, NULL };

    request_make(ret_request, load);
    if (bare_call(bare, ret_request))
        return -1;
    memcpy(sha, bare->in + bare->from - 42, 40); /* the end of what was just read */
    request_make(ret_request, run);
    return 0;
}

static int scripted_begin(struct contest *contest, int index, void **ret_state)
{
    static const struct request hello = REQUEST("HELLO 3\r\n");
    struct worker *worker = calloc(1, sizeof *worker);
    const char *subscribe[] = { "SUBSCRIBE", worker ? worker->me : NULL, NULL };
    struct request request;

    *ret_state = worker;
    if (!worker)
        return bench_error("worker", NULL);
    snprintf(worker->me, sizeof worker->me, "worker/%d", index);
    request_make(&request, subscribe);
    if (bare_open(&worker->bare, contest->shared, false) ||
        bare_call(&worker->bare, &hello) || bare_call(&worker->bare, &request) ||
        script_load(&worker->bare, take_script, worker->me, &worker->take) ||
        script_load(&worker->bare, leave_script, worker->me, &worker->leave))
        return bench_error("a worker of the scripted lock", NULL);
    return 0;
}

/* The last reply was the number 0: ":0\r\n" stands where reading has stopped. */
static bool was_zero(const struct bare *bare)
{
    return bare->in[bare->from - 3] == '0';
}

static int scripted_enter(void *state)
{
    struct worker *worker = state;

    if (bare_call(&worker->bare, &worker->take))
        return -1;
    return was_zero(&worker->bare) ? bare_reply(&worker->bare) : 0; /* the message */
}

static int scripted_leave(void *state)
{
    struct worker *worker = state;

    return bare_call(&worker->bare, &worker->leave) || was_zero(&worker->bare) ? -1 : 0;
}

static void scripted_end(void *state)
{
    struct worker *worker = state;

    if (worker)
        bare_close(&worker->bare);
    free(worker);
}

const struct contest contest_scripted = {
    .begin = scripted_begin,
    .enter = scripted_enter,
    .leave = scripted_leave,
    .end = scripted_end,
    .processes = true,
};
