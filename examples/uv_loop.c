/* SPDX-License-Identifier: MIT */
/* holdfast inside libuv: a uv_poll on hf_dispatch_fd() drives everything, timers and
 * renewals included. A libuv timer releases the first hold; then a waiter gets the
 * lock.
 */
#include <holdfast.h>
#include <stdio.h>
#include <uv.h>

struct app {
    hf_client *client;
    hf_hold *first;
    uv_loop_t *loop;
    int rc;
    hf_error why;
};

/* Keeps the first failure and ends the loop. */
static int check(struct app *app, int rc, const hf_error *why)
{
    if (rc < 0) {
        app->rc = rc;
        fprintf(stderr, "uv_loop: %s\n", why->text);
        uv_stop(app->loop);
    }
    return rc;
}

static void ready(uv_poll_t *poll, int status, int events)
{
    struct app *app = poll->data;

    (void)status;
    (void)events;
    check(app, hf_dispatch(app->client, &app->why), &app->why);
}

static void granted(void *user, int rc, hf_hold *hold, const hf_error *why)
{
    struct app *app = user;

    if (check(app, rc, why))
        return;
    printf("granted with token %llu\n", (unsigned long long)hf_hold_token(hold, 0));
    check(app, hf_release_async(hold, NULL, NULL, &app->why), &app->why);
    uv_stop(app->loop);
}

static void tick(uv_timer_t *timer)
{
    struct app *app = timer->data;

    printf("tick: the first holder releases\n");
    check(app, hf_release_async(app->first, NULL, NULL, &app->why), &app->why);
}

static void run(struct app *app, int fd)
{
    uv_poll_t poll = { .data = app };
    uv_timer_t timer = { .data = app };

    if (uv_poll_init(app->loop, &poll, fd) || uv_timer_init(app->loop, &timer))
        return;
    uv_poll_start(&poll, UV_READABLE, ready);
    uv_timer_start(&timer, tick, 50, 0);
    uv_run(app->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&poll, NULL); /* before hf_close() closes its descriptor */
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(app->loop, UV_RUN_DEFAULT);
}

int main(void)
{
    hf_options options = { .size = sizeof options, .driver = HF_DRIVER_USER };
    hf_acquire_options patient = { .size = sizeof patient, .timeout_ms = 5000 };
    hf_want want = hf_mutex("printer");
    struct app app = { .loop = uv_default_loop() };
    hf_error *why = &app.why;
    int fd;

    if (check(&app, hf_open(NULL, &options, &app.client, why), why) == 0 &&
        check(&app, hf_lock(app.client, "printer", 0, &app.first, why), why) == 0 &&
        check(
            &app,
            hf_acquire_async(app.client, &want, 1, &patient, granted, &app, NULL, why),
            why) == 0 &&
        check(&app, fd = hf_dispatch_fd(app.client, why), why) >= 0)
        run(&app, fd);
    hf_close(app.client);
    uv_loop_close(app.loop);
    return app.rc != 0;
}
