/* SPDX-License-Identifier: MIT */
/*
 * Beginnings and ends: a client closed with all it has and opened again, a fork, and
 * what is called inside callbacks.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "storm.h"

/* Seconds; SIGALRM ends a child that hangs. ASan's allocator has locks that a child may
 * find taken, by a thread that it does not have: that is not our doing. */
#ifdef __SANITIZE_ADDRESS__
#define CHILD_PATIENCE 10
#define CHILD_MAY_HANG true
#else
#define CHILD_PATIENCE 60
#define CHILD_MAY_HANG false
#endif

void act_close(struct rng *rng)
{
    size_t slot = (size_t)rng_below(rng, (uint64_t)world->config.clients);
    slot_renew(slot, rng);
}

/* ---- Fork ------------------------------------------------------------------------ */

static bool is_refused(int rc)
{
    return rc == HF_EFORKED || rc == HF_ERELEASED || rc == HF_ECLOSED;
}

static void child_check(int rc, const char *what)
{
    if (!is_refused(rc))
        violation(14, "%s in a forked child answers %s", what, code_name(rc));
}

/* The parent may have been releasing the hold or closing the client when we came. */
static int child_run(struct client *client, const struct held *held)
{
    hf_error why;
    hf_hold *hold = NULL;
    hf_report *report = NULL;
    alarm(CHILD_PATIENCE);
    child_check(hf_lock(client->handle, "x", 0, &hold, &why), "hf_lock");
    child_check(hf_inspect(client->handle, "x", false, &report, &why), "hf_inspect");
    child_check(hf_evict(client->handle, "x", 1, &why), "hf_evict");
    if (held->handle) {
        child_check(hf_hold_verify(held->handle, &why), "hf_hold_verify");
        if (hf_hold_state(held->handle) != HF_LOST)
            violation(14, "a hold says %d in a forked child",
                      (int)hf_hold_state(held->handle));
        child_check(hf_release(held->handle, &why), "hf_release");
    }
    hf_close(client->handle);
    hf_client *own = NULL;
    bool local = world->config.store[0] == 'm' || world->config.store[0] == 'f';
    if (local && !world->config.lossy) {
        int rc = hf_open(world->url, NULL, &own, &why);
        if (rc != 0)
            violation(14, "hf_open in a forked child answers %s", code_name(rc));
        hf_close(own);
    }
    return 0;
}

void act_fork(struct rng *rng)
{
    struct client *client = client_pick(rng);
    struct held held = { .handle = NULL };
    int status = 0;
    held_peek(rng, &held);
    if (!client)
        return;
    event("fork");
    pid_t pid = fork();
    if (pid < 0)
        trouble("cannot fork");
    if (pid == 0)
        _exit(child_run(client, &held));
    while (waitpid(pid, &status, 0) < 0)
        ;
    atomic_fetch_add(&world->forks, 1);
    bool hung = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    if (status != 0 && !(hung && CHILD_MAY_HANG))
        violation(14, "a forked child ended with %#x", (unsigned)status);
}

/* ---- Inside a callback ----------------------------------------------------------- */

void callback_plays(struct client *client, uint64_t plan)
{
    hf_error why;
    hf_hold *hold = NULL;
    struct rng rng = { plan };
    if (rng_chance(&rng, 100)) {
        int rc = CALL(lock, client->handle, "x", 0, &hold, &why);
        if (rc != HF_ECALLBACK && rc != HF_ECLOSED)
            violation(9, "hf_lock inside a callback answers %s", code_name(rc));
    }
    if (rng_chance(&rng, 30)) {
        COUNTED(close);
        hf_close(client->handle); /* does nothing here */
    }
    if (rng_chance(&rng, 100) && !atomic_load(&client->closing))
        act_acquire_async(&rng);
    struct held held;
    if (rng_chance(&rng, 100) && held_take(&rng, &held))
        release_async(&held);
}
