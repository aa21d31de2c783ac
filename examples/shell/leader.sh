#!/bin/sh
# SPDX-License-Identifier: MIT
#
# leader.sh NAME COMMAND [ARGUMENT...]: started on any number of hosts, runs the daemon
# on one of them; the others wait to replace it.
#
#     leader.sh scheduler /usr/local/sbin/schedulerd --foreground
#
# If this host loses the lock (cut off from the store, stopped for too long), holdfast
# ends the daemon before another host can start one, and returns exit code 78. Then, and
# if the store cannot be reached (69), the script waits for the lock again. Any other
# exit code is the daemon's own, and the script returns it. The daemon finds its token
# in HOLDFAST_TOKEN: the resource that it writes to should refuse smaller tokens.
set -u

name=$1
shift
pid=
trap '[ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' TERM INT HUP

while :; do
    holdfast run --wait forever --ttl 15s --note "on $(uname -n)" "leader/$name" -- "$@" &
    pid=$!
    # A trap ends a wait early; the daemon may need a moment to end.
    while :; do
        wait "$pid"
        code=$?
        kill -0 "$pid" 2>/dev/null || break
    done
    case $code in
    69 | 78) echo "leader.sh: $name: not the leader any more, waiting for the lock again" >&2 ;;
    *) exit "$code" ;;
    esac
    sleep 1 # pause: do not ask a store that cannot be reached in a busy loop
done
