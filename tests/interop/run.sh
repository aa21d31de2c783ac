#!/bin/bash
# SPDX-License-Identifier: MIT
#
# run.sh BUILD: takes locks through holdfast (layout=flock) and through flock(1) of
# util-linux on the same path, in every order that matters, and prints what came of it.
# Ends with 0 if everything was as it must be.
set -eu

build=$(cd "${1:-build}" && pwd)
holder=$build/tests/file/interop_holder
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
name=jobs/nightly
path=$dir/jobs%2Fnightly
url="file:$dir?layout=flock"
bad=0

if ! command -v flock >/dev/null; then
    echo "interop: flock(1) is not installed" >&2
    exit 1
fi
if [ ! -x "$holder" ]; then
    echo "interop: $holder is not built (make)" >&2
    exit 1
fi

# row FIRST SECOND EXPECTED SEEN
row() {
    local verdict=ok
    if [ "$3" != "$4" ]; then
        verdict="WRONG, must be $3"
        bad=1
    fi
    printf '%-22s %-28s %-10s %s\n' "$1" "$2" "$4" "$verdict"
}

# Both sides of a pair are coprocesses that say "held" and let go when they read a line.
start_tool() { # [-s|-x]
    coproc FIRST { exec flock "$1" "$path" sh -c 'echo held; read line'; }
}
start_holdfast() { # KIND
    coproc FIRST { exec "$holder" "$url" "$name" "$1" wait; }
}
expect_held() {
    local line
    read -r -t 20 line <&"${FIRST[0]}" || line=silence
    [ "$line" = held ] || { echo "interop: the first one says '$line'" >&2; exit 1; }
}
end_first() {
    local pid=$FIRST_PID
    echo >&"${FIRST[1]}"
    wait "$pid" || bad=1
}

try_tool() { # [-s|-x]
    if flock -n "$1" "$path" true; then echo held; else echo busy; fi
}
try_holdfast() { # KIND
    "$holder" "$url" "$name" "$1" try </dev/null | head -n 1
}

# waits PID: until that process stands in the kernel's queue (a "->" line).
waits() {
    local i
    for i in $(seq 2000); do
        grep -qE -- "-> FLOCK .* $1 " /proc/locks && return 0
        sleep 0.01
    done
    return 1
}

kind_of() { if [ "$1" = -s ]; then echo read; else echo write; fi; }
word_of() { if [ "$1" = -s ]; then echo shared; else echo exclusive; fi; }

echo "holdfast layout=flock beside $(flock --version)"
printf '%-22s %-28s %-10s %s\n' "holds" "comes second" "and is" ""

for first in -s -x; do
    for second in -s -x; do
        must=busy
        [ "$first$second" = -s-s ] && must=held
        start_tool $first
        expect_held
        row "flock $(word_of $first)" "holdfast $(kind_of $second)" $must \
            "$(try_holdfast "$(kind_of $second)")"
        end_first
        start_holdfast "$(kind_of $first)"
        expect_held
        row "holdfast $(kind_of $first)" "flock $(word_of $second)" $must \
            "$(try_tool $second)"
        end_first
    done
done

start_tool -x
expect_held
row "flock exclusive" "holdfast mutex" busy "$(try_holdfast mutex)"
end_first
start_holdfast mutex
expect_held
row "holdfast mutex" "flock exclusive" busy "$(try_tool -x)"
row "holdfast mutex" "flock shared" busy "$(try_tool -s)"
end_first

# Waiting, and being let in.
start_holdfast mutex
expect_held
flock "$path" echo held >"$dir/second" &
second=$!
if waits $second; then seen=waits; else seen="$(cat "$dir/second")"; fi
row "holdfast mutex" "flock exclusive, waiting" waits "$seen"
end_first
wait $second || bad=1
row "(released)" "flock exclusive, waiting" held "$(cat "$dir/second")"

start_tool -x
expect_held
: >"$dir/second"
"$holder" "$url" "$name" mutex wait </dev/null >"$dir/second" &
second=$!
if waits $second; then seen=waits; else seen="$(head -n 1 "$dir/second")"; fi
row "flock exclusive" "holdfast mutex, waiting" waits "$seen"
end_first
wait $second || bad=1
row "(released)" "holdfast mutex, waiting" held "$(head -n 1 "$dir/second")"

# A holder that is killed.
start_holdfast mutex
expect_held
first=$FIRST_PID
{ kill -KILL "$first" && wait "$first"; } 2>/dev/null || true
row "holdfast, killed" "flock exclusive" held "$(try_tool -x)"

if [ $bad -eq 0 ]; then
    echo "interop: all as it must be"
else
    echo "interop: something is wrong"
fi
exit $bad
