/* SPDX-License-Identifier: MIT */
/*
 * probe URL: does what it is told on standard input, one call a line, and says how long
 * the call took. deadlines.py tells it.
 *
 *     wait NAME MS    answer CODE ELAPSED
 *     hold NAME       answer CODE ELAPSED; the hold is kept
 *     release         answer CODE ELAPSED
 *     close           answer 0 ELAPSED, and the end
 */
#include <holdfast.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void say_answer(int rc, long long began)
{
    printf("answer %s %lld\n", rc ? hf_error_name(rc) : "0", now_ms() - began);
}

int main(int argc, char **argv)
{
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    hf_options options = HF_OPTIONS_INIT;
    hf_error why = { 0 };
    char line[256], name[200];
    long long ms;

    setvbuf(stdout, NULL, _IOLBF, 0);
    options.request_timeout_ms = 1000;
    if (argc != 2 || hf_open(argv[1], &options, &client, &why) != 0) {
        printf("failed %s\n", why.text);
        return 1;
    }
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        long long began = now_ms();
        if (sscanf(line, "wait %199s %lld", name, &ms) == 2) {
            int rc = hf_lock(client, name, ms, &hold, NULL);
            say_answer(rc, began);
        } else if (sscanf(line, "hold %199s", name) == 1) {
            int rc = hf_lock(client, name, 10000, &hold, NULL);
            say_answer(rc, began);
        } else if (strcmp(line, "release\n") == 0) {
            int rc = hf_release(hold, NULL);
            hold = NULL;
            say_answer(rc, began);
        } else if (strcmp(line, "close\n") == 0) {
            hf_close(client);
            say_answer(0, began);
            return 0;
        }
    }
    return 0;
}
