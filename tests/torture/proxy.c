/* SPDX-License-Identifier: MIT */
/*
 * proxy: the bad network of tests/harness/tcp_proxy.c as a program of its own.
 *
 * proxy SERVER prints the port that it listens on and then obeys its standard input, a
 * line each: pass, swallow, cut BYTES, delay MS, trickle, hole, refuse. It ends with
 * its input.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../harness/tcp_proxy.h"

static const struct {
    const char *word;
    enum proxy_mode mode;
} modes[] = {
    { "pass", PROXY_PASS },     { "swallow", PROXY_SWALLOW }, { "cut", PROXY_CUT },
    { "delay", PROXY_DELAY },   { "trickle", PROXY_TRICKLE }, { "hole", PROXY_HOLE },
    { "refuse", PROXY_REFUSE },
};

static void obey(struct tcp_proxy *proxy, const char *line)
{
    char word[16] = "";
    long number = 0;
    sscanf(line, "%15s %ld", word, &number);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(word, modes[i].word) == 0)
            proxy_mode(proxy, modes[i].mode, number);
}

int main(int argc, char **argv)
{
    char line[64];
    if (argc != 2) {
        fprintf(stderr, "usage: proxy SERVER\n");
        return 2;
    }
    struct tcp_proxy *proxy = proxy_start(argv[1]);
    printf("%d\n", proxy_port(proxy));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin))
        obey(proxy, line);
    proxy_stop(proxy);
    return 0;
}
