#!/bin/sh
# SPDX-License-Identifier: MIT
#
# leader.sh NAME COMMAND [ARGUMENT...]: started on as many hosts as you like, runs the
# daemon on one of them; the others wait to take its place.
#
#     leader.sh scheduler /usr/local/sbin/schedulerd --foreground
#
# If this host loses the lock (cut off from the store, stopped for too long), holdfast
# ends the daemon before another host can start one, and says so with exit code 78. Then,
# and when the store is away (69), we stand in line again. Any other end is the daemon's
# own, and a matter for whoever started us. The daemon finds its token in HOLDFAST_TOKEN:
# what it writes to should refuse smaller ones.
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
    69 | 78) echo "leader.sh: $name: not the leader any more, standing in line again" >&2 ;;
    *) exit "$code" ;;
    esac
    sleep 1 # pause: a store that is away should not be asked in a busy loop
done
