#!/bin/sh
# SPDX-License-Identifier: MIT
# planted.sh SIM: every planted bug is found within its range of seeds, and its seed
# replays: the same words and the same trace, twice. Speaks TAP.
#
# The ranges of the rarer ones begin not far before a seed that finds them, so that this
# is quick; from 1 on they take up to two thousand seeds.
sim=$1
mutants="double-grant:1-100 token:1-100 arrival:1-100 keep-ticket:1-100 no-push:1-100
core-arrival:1-100 core-no-word:250-350 core-deaf:1900-2000 late-renewal:900-1000"

number=0
bad=0
say() {
    number=$((number + 1))
    echo "$1 $number - $2"
    [ "$1" = ok ] || bad=1
}

for pair in $mutants; do
    mutant=${pair%:*}
    seeds=${pair#*:}
    found=$("$sim" --store lease --mutant "$mutant" --seeds "$seeds" --acquisitions 300)
    status=$?
    seed=$(echo "$found" | sed -n 's/.* seed=\([0-9]*\) .*violation: .*/\1/p')
    what=$(echo "$found" | sed -n 's/.*violation: //p')
    if [ $status -ne 1 ] || [ -z "$seed" ]; then
        say "not ok" "$mutant: not found in seeds $seeds"
        continue
    fi
    once=$("$sim" --store lease --mutant "$mutant" --replay "$seed" --acquisitions 300)
    again=$("$sim" --store lease --mutant "$mutant" --replay "$seed" --acquisitions 300)
    if [ "$once" = "$again" ] &&
        [ "$(echo "$once" | sed -n 's/.*violation: //p')" = "$what" ]; then
        say ok "$mutant: seed $seed, $what"
    else
        say "not ok" "$mutant: seed $seed does not replay"
    fi
done
echo "1..$number"
exit $bad
