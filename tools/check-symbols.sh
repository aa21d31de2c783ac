#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-symbols.sh SHARED STATIC: the HF_API functions of the public headers, the symbol
# map, and what the shared and the static library export must be the same set.
set -eu
shared=$(readlink -f "$1")
static=$(readlink -f "$2")
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

# A declaration may run over several lines: join the text, then cut it at each HF_API.
awk -f tools/strip.awk include/holdfast.h include/holdfast/backend.h |
    sed 's/^[^:]*:[0-9]*://' | grep -v '^ *#' | tr '\n' ' ' | sed 's/HF_API/\n&/g' |
    sed -n 's/^HF_API[^(]*[ *]\(hf_[a-z0-9_]*\)(.*/\1/p' | sort >"$dir/headers"
sed -n 's/^ *\(hf_[a-z0-9_]*\);.*/\1/p' tools/holdfast.map | sort >"$dir/map"
nm -D --defined-only "$shared" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort >"$dir/shared"
nm -g --defined-only "$static" | awk 'NF == 3 { print $3 }' | sort >"$dir/static"

bad=0
compare() {
    comm -23 "$dir/$1" "$dir/$2" >"$dir/extra"
    while read -r name; do
        echo "$3: $name is in the $1 and not in the $2"
        bad=1
    done <"$dir/extra"
}
compare headers map tools/holdfast.map
compare map headers tools/holdfast.map
compare headers shared "$1"
compare shared headers "$1"
compare headers static "$2"
compare static headers "$2"
[ -s "$dir/headers" ] || { echo "include/holdfast.h: no HF_API function found"; bad=1; }

soname=$(readelf -d "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libholdfast.so.0 ] || { echo "$1: SONAME is '$soname'"; bad=1; }
exit $bad
