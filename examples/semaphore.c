/* SPDX-License-Identifier: MIT */
/* A weighted semaphore: four GPUs, shared by every process of this host. A job says how
 * many it needs; all users of the name must give the same limit. */
#include <holdfast.h>
#include <stdio.h>

#define GPUS 4

static int fail(const char *what, const hf_error *why)
{
    fprintf(stderr, "semaphore: %s: %s\n", what, why->text);
    return 1;
}

int main(void)
{
    hf_want small = hf_permits("gpu", 1, GPUS), large = hf_permits("gpu", 3, GPUS);
    hf_want wrong = hf_permits("gpu", 1, GPUS + 1);
    hf_acquire_options patient = { .size = sizeof patient, .timeout_ms = 5000 };
    hf_client *client = NULL;
    hf_hold *first = NULL, *second = NULL, *third = NULL;
    hf_error why;
    int rc = 0;

    if (hf_open(NULL, NULL, &client, &why))
        return fail("open", &why);
    if (hf_acquire(client, &large, 1, &patient, &first, &why) ||
        hf_acquire(client, &small, 1, &patient, &second, &why)) {
        rc = fail("acquire", &why);
        goto out;
    }
    printf("3 + 1 of %d are out; one more: %s\n", GPUS,
           hf_error_name(hf_acquire(client, &small, 1, NULL, &third, NULL)));
    printf("another limit: %s\n",
           hf_error_name(hf_acquire(client, &wrong, 1, NULL, &third, NULL)));
    if (hf_release(first, &why)) {
        rc = fail("release", &why);
        goto out;
    }
    if (hf_acquire(client, &large, 1, &patient, &third, &why)) {
        rc = fail("acquire", &why);
        goto out;
    }
    printf("3 came back and were taken again\n");
    if (hf_release(second, &why) || hf_release(third, &why))
        rc = fail("release", &why);
out:
    hf_close(client);
    return rc;
}
