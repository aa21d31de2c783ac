/* SPDX-License-Identifier: MIT */
/* Leader election: the holder of the lock is the leader, and a watch reports the end of
 * that. Both candidates are in one program, so that it can be tried alone; they could
 * as well be two programs. beta asks alpha to step down (hf_revoke), and alpha does. */
#include <holdfast.h>
#include <semaphore.h>
#include <stdio.h>

static sem_t step_down;

/* On a thread of the library: wake the program's own thread, and return. */
static void on_event(void *user, hf_hold *hold, enum hf_event event,
                     const hf_error *why)
{
    (void)hold;
    (void)why;
    printf("%s: %s\n", (const char *)user,
           event == HF_EVENT_REVOKED ? "another candidate asks for leadership"
           : event == HF_EVENT_LOST  ? "not leader any more"
                                     : "leadership is in doubt");
    if (event != HF_EVENT_DOUBTFUL)
        sem_post(&step_down);
}

static int campaign(const char *name, hf_client **client, hf_hold **hold,
                    int64_t wait_ms, hf_error *why)
{
    hf_options options = { .size = sizeof options, .program = name };
    hf_acquire_options patient = {
        .size = sizeof patient, .timeout_ms = wait_ms, .ttl_ms = 30000, .note = name
    };
    hf_want want = hf_fair("leader");
    int rc = hf_open(NULL, &options, client, why);

    if (rc == 0)
        rc = hf_acquire(*client, &want, 1, &patient, hold, why);
    if (rc == 0)
        rc = hf_hold_watch(*hold, on_event, (void *)(uintptr_t)name, why);
    if (rc == 0)
        printf("%s leads, term %llu\n", name,
               (unsigned long long)hf_hold_token(*hold, 0));
    return rc;
}

int main(void)
{
    hf_client *alpha = NULL, *beta = NULL;
    hf_hold *term = NULL, *next = NULL;
    hf_error why;
    int rc;

    if (sem_init(&step_down, 0, 0))
        return 1;
    rc = campaign("alpha", &alpha, &term, 5000, &why);
    if (rc == 0)
        rc = hf_open(NULL, NULL, &beta, &why);
    if (rc == 0)
        rc = hf_revoke(beta, "leader", 0, &why);
    if (rc == 0) {
        while (sem_wait(&step_down)) {
        }
        rc = hf_release(term, &why);
    }
    hf_close(beta);
    beta = NULL;
    if (rc == 0)
        rc = campaign("beta", &beta, &next, 5000, &why);
    if (rc == 0)
        rc = hf_release(next, &why);
    if (rc)
        fprintf(stderr, "leader: %s\n", why.text);
    hf_close(beta);
    hf_close(alpha);
    return rc != 0;
}
