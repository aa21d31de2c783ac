/* SPDX-License-Identifier: MIT */
/* The shortest program: acquire a lock, work, release it. All processes that open the
 * same store share the lock; without a URL, all processes of this user on this host. */
#include <holdfast.h>
#include <stdio.h>

int main(void)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_error why;

    if (hf_open(NULL, NULL, &client, &why))
        goto failed;
    if (hf_lock(client, "jobs/nightly", 5000, &hold, &why)) /* wait 5 s */
        goto failed;
    printf("working with token %llu\n", (unsigned long long)hf_hold_token(hold, 0));
    if (hf_release(hold, &why)) /* HF_ELOST: another holder may have worked, too */
        goto failed;
    hf_close(client);
    return 0;

failed:
    fprintf(stderr, "lock: %s\n", why.text);
    hf_close(client);
    return 1;
}
