#!/bin/sh
# SPDX-License-Identifier: MIT
# replay.sh SIM LAST: seeds 1 to LAST of every store, twice, and in one run or alone: the
# same trace. Speaks TAP.
sim=$1
last=$2

number=0
bad=0
same() {
    number=$((number + 1))
    if [ -n "$2" ] && [ "$2" = "$3" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1"
        bad=1
    fi
}

# Everything but the speed of this machine.
figures() {
    "$sim" --acquisitions 300 "$@" | sed 's/ rate=[0-9]*\/s//'
}

for store in mem fault lease; do
    same "$store: two runs of seeds 1-$last agree" \
        "$(figures --store $store --seeds "1-$last")" \
        "$(figures --store $store --seeds "1-$last")"
    same "$store: seed $last tells the same story twice" \
        "$(figures --store $store --replay "$last" --verbose)" \
        "$(figures --store $store --replay "$last" --verbose)"
done
echo "1..$number"
exit $bad
