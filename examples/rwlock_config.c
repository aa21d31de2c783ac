/* SPDX-License-Identifier: MIT */
/* Many readers, one writer. A writer that has finished turns its lock into a read lock
 * without releasing it: no other writer can change the data before this one has read it
 * back, and other readers are admitted at once. */
#include <holdfast.h>
#include <stdio.h>

static int fail(const char *what, const hf_error *why)
{
    fprintf(stderr, "rwlock_config: %s: %s\n", what, why->text);
    return 1;
}

int main(void)
{
    hf_want reading = hf_read("config"), writing = hf_write("config");
    hf_acquire_options patient = { .size = sizeof patient, .timeout_ms = 5000 };
    hf_client *client = NULL;
    hf_hold *writer = NULL, *reader = NULL, *other = NULL;
    hf_error why;
    int rc = 0;

    if (hf_open(NULL, NULL, &client, &why))
        return fail("open", &why);
    if (hf_acquire(client, &writing, 1, &patient, &writer, &why)) {
        rc = fail("write", &why);
        goto out;
    }
    printf("writing; a reader gets: %s\n",
           hf_error_name(hf_acquire(client, &reading, 1, NULL, &reader, NULL)));
    if (hf_hold_downgrade(writer, 0, &why)) {
        rc = fail("downgrade", &why);
        goto out;
    }
    if (hf_acquire(client, &reading, 1, &patient, &reader, &why)) {
        rc = fail("read", &why);
        goto out;
    }
    printf("two readers; a writer gets: %s\n",
           hf_error_name(hf_acquire(client, &writing, 1, NULL, &other, NULL)));
    if (hf_release(writer, &why) || hf_release(reader, &why))
        rc = fail("release", &why);
out:
    hf_close(client); /* releases what is still held */
    return rc;
}
