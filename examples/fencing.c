/* SPDX-License-Identifier: MIT */
/* Why every hold has a token: a holder that was stopped for longer than its lease does
 * not know that it has lost the lock. The resource finds out, because it remembers the
 * largest token it has seen and refuses smaller ones. */
#include <holdfast.h>
#include <stdbool.h>
#include <stdio.h>

/* The guarded resource. A real one is on another machine, and checks the token inside
 * its own write. */
static struct {
    uint64_t largest_token;
    const char *value;
} storage = { 0, "nothing" };

static bool storage_write(uint64_t token, const char *value)
{
    bool fresh = token >= storage.largest_token;

    if (fresh) {
        storage.largest_token = token;
        storage.value = value;
    }
    printf("write \"%s\" with token %llu: %s\n", value, (unsigned long long)token,
           fresh ? "done" : "refused, an old token");
    return fresh;
}

int main(void)
{
    /* A lease of 100 ms that is not renewed: as if the holder were stopped. */
    hf_acquire_options hasty = {
        .size = sizeof hasty, .timeout_ms = 5000, .ttl_ms = 100, .flags = HF_FIXED
    };
    hf_want want = hf_mutex("report");
    hf_client *client = NULL;
    hf_hold *sleeper = NULL, *next = NULL;
    hf_error why;
    bool good = false;

    if (hf_open(NULL, NULL, &client, &why) ||
        hf_acquire(client, &want, 1, &hasty, &sleeper, &why))
        goto failed;
    /* The sleeper does nothing. The next holder waits until the lease is over. */
    if (hf_lock(client, "report", 5000, &next, &why))
        goto failed;
    good = storage_write(hf_hold_token(next, 0), "of the new holder");
    if (hf_release(next, &why))
        goto failed;
    /* The sleeper continues. It could ask hf_hold_state() first; here it does not. */
    good = !storage_write(hf_hold_token(sleeper, 0), "of the sleeper") && good;
    printf("and its release says: %s\n", hf_error_name(hf_release(sleeper, NULL)));
    printf("the storage holds \"%s\"\n", storage.value);
    hf_close(client);
    return good ? 0 : 1;

failed:
    fprintf(stderr, "fencing: %s\n", why.text);
    hf_close(client);
    return 1;
}
