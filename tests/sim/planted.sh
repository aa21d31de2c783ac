#!/bin/sh
# SPDX-License-Identifier: MIT
# planted.sh SIM: every planted bug is found within its range of seeds, and its seed
# replays: the same words and the same trace, twice. Speaks TAP.
#
# The ranges of the rarer ones begin not far before a seed that finds them, so that this
# is quick; from 1 on they take several hundred seeds.
sim=$1
mutants="double-grant:lease:1-100 token:lease:1-100 arrival:lease:1-100
keep-ticket:lease:1-100 no-push:lease:1-100 core-arrival:lease:1-100
core-no-word:lease:1-100 core-deaf:lease:1400-1500 late-renewal:lease:100-200
offer-owner:mem:1-100 offer-kept:mem:800-900 offer-lease:mem:1-100"

number=0
bad=0
say() {
    number=$((number + 1))
    echo "$1 $number - $2"
    [ "$1" = ok ] || bad=1
}

for planted in $mutants; do
    mutant=${planted%%:*}
    seeds=${planted##*:}
    store=${planted#*:}
    store=${store%:*}
    found=$("$sim" --store "$store" --mutant "$mutant" --seeds "$seeds" --acquisitions 300)
    status=$?
    seed=$(echo "$found" | sed -n 's/.* seed=\([0-9]*\) .*violation: .*/\1/p')
    what=$(echo "$found" | sed -n 's/.*violation: //p')
    if [ $status -ne 1 ] || [ -z "$seed" ]; then
        say "not ok" "$mutant: not found in seeds $seeds"
        continue
    fi
    once=$("$sim" --store "$store" --mutant "$mutant" --replay "$seed" --acquisitions 300)
    again=$("$sim" --store "$store" --mutant "$mutant" --replay "$seed" --acquisitions 300)
    if [ "$once" = "$again" ] &&
        [ "$(echo "$once" | sed -n 's/.*violation: //p')" = "$what" ]; then
        say ok "$mutant: seed $seed, $what"
    else
        say "not ok" "$mutant: seed $seed does not replay"
    fi
done
echo "1..$number"
exit $bad
