#!/bin/sh
# SPDX-License-Identifier: MIT
# check-output.sh BENCH JSON STORES: runs BENCH --quick and looks at its form, never at
# its speed: every row comes, once, parses, and is in the JSON file too. Speaks TAP.
set -u
bench=$1
json=$2

rows='file uncontended_pair
file client_cpu_pair
file uncontended_pair_flock
mem uncontended_pair
file contended_8proc
file contended_8proc_slowest_share
file contended_8proc_max_wait_ms
file contended_8proc_max_over_median
file contended_8proc_fair
file contended_8proc_fair_slowest_share
file contended_8proc_fair_max_wait_ms
file contended_8proc_fair_max_over_median
mem contended_8thr
mem contended_8thr_over_raw_pairs
file contended_8thr
file contended_8thr_over_raw_pairs
mem waiters_1000
mem waiters_1000_bytes
mem waiters_1000_threads
mem waiters_1000_idle_cpu_us
file waiters_1000
file waiters_1000_bytes
file waiters_1000_threads
file waiters_1000_idle_cpu_us
mem held_100k_bytes
mem held_100k_renew_cpu_percent
file held_100k_bytes
file held_100k_renew_cpu_percent
file cli_run'

# Without a server, or without the store in the build, these are left out.
redis_rows='redis uncontended_pair
redis client_cpu_pair
redis uncontended_pair_cores
redis uncontended_pair_unix
redis contended_8proc
redis contended_8proc_requests
redis contended_8proc_slowest_share
redis contended_8proc_max_over_median
redis contended_8proc_cores
redis contended_8proc_cores_requests
redis contended_8proc_cores_slowest_share
redis contended_8proc_cores_max_over_median
redis contended_8proc_fair
redis contended_8proc_fair_requests
redis contended_8proc_fair_slowest_share
redis contended_8proc_fair_max_over_median
redis contended_8proc_scripted_limit
redis contended_8proc_of_scripted
redis contended_8proc_cores_scripted_limit
redis contended_8proc_cores_of_scripted
redis contended_8thr_over_raw_pairs
redis threads_64
redis threads_64_redis_benchmark
redis threads_64_cores
redis threads_64_cores_redis_benchmark
redis waiters_1000
redis waiters_1000_bytes
redis waiters_1000_threads
redis waiters_1000_idle_cpu_us
redis waiters_1000_idle_requests
redis waiters_1000_no_handoff
redis waiters_1000_no_handoff_idle_requests
redis held_100k_bytes
redis held_100k_renew_cpu_percent
redis held_100k_renew_requests'
zookeeper_rows='zookeeper uncontended_pair
zookeeper client_cpu_pair
zookeeper uncontended_pair_cores
zookeeper contended_8proc
zookeeper contended_8proc_requests
zookeeper contended_8proc_slowest_share
zookeeper contended_8proc_max_over_median
zookeeper contended_8proc_cores
zookeeper contended_8proc_cores_requests
zookeeper contended_8proc_cores_slowest_share
zookeeper contended_8proc_cores_max_over_median
zookeeper waiters_1000
zookeeper waiters_1000_bytes
zookeeper waiters_1000_threads
zookeeper waiters_1000_idle_cpu_us
zookeeper waiters_1000_packets
zookeeper waiters_1000_idle_packets
zookeeper waiters_1000_single
zookeeper waiters_1000_single_packets'
case " ${3-} " in
*' redis '*)
    if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
        rows=$rows'
'$redis_rows
    fi
    ;;
esac

servers=0
case " ${3-} " in
*' zookeeper '*)
    if command -v java >/dev/null && [ -e /usr/share/java/zookeeper.jar ]; then
        servers=1
        rows=$rows'
'$zookeeper_rows
    fi
    ;;
esac

number='[0-9]+(\.[0-9]+)?'
figures=" ours=$number raw=(-|$number) ratio=(-|$number)"
tail="$figures target=(-|[<>]=$number) (ok|short)\$"
tests=0
failed=0

check() { # check WHAT STATUS
    tests=$((tests + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $tests - $1"
    else
        echo "not ok $tests - $1"
        failed=1
    fi
}

out=$("$bench" --quick --json "$json")
check 'bench --quick succeeds' $?

while read -r store measure; do
    lines=$(printf '%s\n' "$out" | grep -cE "^bench: $store $measure$tail")
    kept=$(grep -c "\"store\": \"$store\", \"measure\": \"$measure\", " "$json")
    [ "$lines" -eq 1 ] && [ "$kept" -eq 1 ]
    check "$store $measure" $?
done <<END
$rows
END

[ "$(printf '%s\n' "$out" | grep -c '^# zookeeper: server ')" -eq $servers ]
check 'how the server runs is said' $?
[ "$(printf '%s\n' "$out" | grep -vc '^# ')" -eq "$(printf '%s\n' "$rows" | wc -l)" ]
check 'nothing else is printed' $?

if command -v python3 >/dev/null; then
    python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$json"
    check 'the JSON file parses' $?
fi
echo "1..$tests"
exit $failed
