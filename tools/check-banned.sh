#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-banned.sh: fails on calls that have no place in this project.
#
#   everywhere  functions that overrun, keep hidden state, or cannot report an error
#   src         printing, exiting, logging, sleeping; a wall clock outside base/clock.c;
#               memory that does not come from base/mem.h, outside base/mem.c
#   tests       sleeping: wait for the condition instead. A pause that is the subject of
#               the test and not a wait says so on its line: /* pause: why */
set -eu
cd "$(dirname "$0")/.."

sh tools/sources.sh | xargs -r awk -v strings=1 -f tools/strip.awk | awk '
function ban(names, reason,    n, i, name) {
    n = split(names, name, " ")
    for (i = 1; i <= n; i++)
        if (code ~ "(^|[^A-Za-z0-9_.>])" name[i] "[ \t]*\\(") {
            print where ": " name[i] "() is banned: " reason
            bad = 1
        }
}
{
    match($0, /:[0-9]+:/)
    file = substr($0, 1, RSTART - 1)
    where = substr($0, 1, RSTART + RLENGTH - 2)
    code = substr($0, RSTART + RLENGTH)

    ban("strcpy strcat stpcpy strncpy strncat sprintf vsprintf gets alloca",
        "it overruns or cuts silently; use snprintf or memcpy with a length")
    ban("strtok atoi atol atoll atof", "it cannot report an error; parse with strtol")
    ban("system popen rand srand random srandom mktemp tmpnam",
        "hidden state, a shell, or a race")
}
file ~ /^src\// {
    ban("printf fprintf vprintf vfprintf puts fputs putchar perror syslog psignal",
        "the library never prints")
    ban("exit _exit _Exit abort quick_exit", "the library never ends the program")
    ban("time gettimeofday localtime gmtime mktime", "no wall clock; use base/clock.h")
    if (code ~ /CLOCK_REALTIME/ && file != "src/base/clock.c") {
        print where ": CLOCK_REALTIME is banned: no wall clock; use base/clock.h"
        bad = 1
    }
    if (file != "src/base/mem.c")
        ban("malloc calloc realloc free strdup strndup asprintf vasprintf getline " \
            "posix_memalign aligned_alloc", "memory comes from base/mem.h")
}
file ~ /^(src|tests|bench)\// && code !~ / @pause$/ {
    ban("sleep usleep nanosleep clock_nanosleep thrd_sleep",
        "wait for the condition, not for time to pass")
}
END {
    if (NR == 0)
        print "no sources found"
    exit bad || NR == 0
}
'
