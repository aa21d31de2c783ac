#!/bin/sh
# SPDX-License-Identifier: MIT
#
# interop.sh [flock|redis|zookeeper]...: takes locks through holdfast and through other
# libraries and tools at the same time and checks that they exclude each other: flock(1)
# of util-linux on files; Redisson, redis-py, redsync and node-redlock on a private Redis
# server; Curator and kazoo on a private ZooKeeper server.
# Needs a finished build in build/ and the packages of setup.sh's group `interop`. What
# it fetches is kept in build/interop (or $INTEROP_CACHE). $INTEROP_SECONDS is the length
# of the longest contention, 60 unless told.
set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- flock redis zookeeper
bad=0
for part in "$@"; do
    case $part in
    flock)
        echo "interop: holdfast beside flock(1) of util-linux"
        bash tests/interop/run.sh build || bad=1
        ;;
    redis)
        echo "interop: holdfast beside Redisson, redis-py, redsync and node-redlock"
        python3 -B tests/interop/redis/run.py build "${INTEROP_CACHE:-build/interop}" ||
            bad=1
        ;;
    zookeeper)
        echo "interop: holdfast beside Curator and kazoo"
        python3 -B tests/interop/zookeeper/run.py build \
            "${INTEROP_CACHE:-build/interop}" || bad=1
        ;;
    *)
        echo "interop: no such part: $part" >&2
        exit 2
        ;;
    esac
done
exit $bad
