/* SPDX-License-Identifier: MIT */
/* holdfast inside a poll(2) loop of the program: one descriptor, no thread, callbacks
 * on the thread that calls hf_dispatch(). Here a timer of the same loop releases the
 * first hold, and then a waiter gets the lock. */
#include <holdfast.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool done;

static void granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    (void)user;
    if (rc == 0) {
        printf("granted with token %llu\n", (unsigned long long)hf_hold_token(hold, 0));
        rc = hf_release_async(hold, NULL, NULL, NULL);
    }
    if (rc)
        fprintf(stderr, "poll_loop: %s\n", why ? why->text : hf_error_sentence(rc));
    done = true;
}

static int tick(int timer, hf_hold **first, hf_error *why)
{
    uint64_t expirations;
    int rc;

    if (read(timer, &expirations, sizeof expirations) < 0)
        return 0;
    printf("tick: the first holder releases\n");
    rc = hf_release(*first, why);
    *first = NULL;
    return rc;
}

int main(void)
{
    const struct itimerspec once = { .it_value = { .tv_nsec = 50000000 } };
    hf_options options = { .size = sizeof options, .driver = HF_DRIVER_USER };
    hf_acquire_options patient = { .size = sizeof patient, .timeout_ms = 5000 };
    hf_want want = hf_mutex("printer");
    struct pollfd fds[2] = { { .fd = -1, .events = POLLIN },
                             { .fd = -1, .events = POLLIN } };
    hf_client *client = NULL;
    hf_hold *first = NULL;
    hf_error why;
    int rc = hf_open(NULL, &options, &client, &why);

    if (rc == 0)
        rc = hf_lock(client, "printer", 0, &first, &why);
    if (rc == 0)
        rc = hf_acquire_async(client, &want, 1, &patient, granted, NULL, NULL, &why);
    if (rc == 0)
        rc = fds[0].fd = hf_dispatch_fd(client, &why);
    fds[1].fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fds[1].fd < 0 || timerfd_settime(fds[1].fd, 0, &once, NULL))
        return perror("timerfd"), 1;
    while (rc >= 0 && !done && poll(fds, 2, -1) >= 0) {
        if (fds[1].revents)
            rc = tick(fds[1].fd, &first, &why);
        if (rc >= 0 && fds[0].revents)
            rc = hf_dispatch(client, &why);
    }
    if (rc < 0)
        fprintf(stderr, "poll_loop: %s\n", why.text);
    close(fds[1].fd);
    hf_close(client); /* finishes the release, if that is still under way */
    return rc < 0;
}
