#!/bin/sh
# SPDX-License-Identifier: MIT
#
# abi.sh check BUILD    compares the library in BUILD with abi/, the interface of the last
#                       release: fails if a program that was built against that one might
#                       not work with this one. What was added passes, and is named.
# abi.sh update BUILD   writes abi/ anew: for a release, after an addition, and for a change
#                       that is meant, such as a new field at the end of a struct that
#                       begins with `size`. Look at the difference before you commit it.
#
# abi/libholdfast-VERSION.abi has the functions and their types (abidw of libabigail),
# abi/constants.txt the values of enumerators and macros, of which the library itself has
# no record. What neither has: inline functions, and what a function does.
set -eu
[ $# -eq 2 ] || { echo 'usage: abi.sh check|update BUILD' >&2; exit 2; }
what=$1
lib=$(readlink -f "$2/src/libholdfast.so")
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

# The constants: enumerators and the macros that are integers, with their values.
for header in include/holdfast.h include/holdfast/backend.h; do
    echo "#include \"$header\"" >>"$dir/all.h"
done
gcc -E -P -I. "$dir/all.h" | tr '\n' ' ' | grep -oE 'enum [a-z_]+ *\{[^}]*\}' |
    grep -oE '\bHF_[A-Z_]+' >"$dir/names"
gcc -E -dM -I. "$dir/all.h" | awk '/^#define HF_[A-Z_]+ / && !/HF_API|_INIT |HF_VERSION/ \
    { print $2 }' >>"$dir/names"
{
    printf '#include "all.h"\n#include <stdio.h>\nint main(void)\n{\n'
    sort -u "$dir/names" |
        sed 's/.*/    printf("%s %lld\\n", "&", (long long)(&));/'
    printf '    return 0;\n}\n'
} >"$dir/constants.c"
gcc -Wall -Werror -I. -I"$dir" -o "$dir/constants" "$dir/constants.c"
"$dir/constants" >"$dir/constants.txt"

# The functions and the types of the public headers.
abidw --headers-dir include --drop-private-types --exported-interfaces-only \
    --no-architecture --no-corpus-path --no-comp-dir-path --no-show-locs \
    --no-elf-needed --no-parameter-names --out-file "$dir/new.abi" "$lib"
grep -q hf_acquire_options "$dir/new.abi" || { echo "abi: no types in $lib"; exit 1; }

if [ "$what" = update ]; then
    version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" meson.build)
    rm -f abi/libholdfast-*.abi
    cp "$dir/new.abi" "abi/libholdfast-$version.abi"
    cp "$dir/constants.txt" abi/constants.txt
    exit 0
fi

bad=0
added=0
for line in $(comm -23 abi/constants.txt "$dir/constants.txt" | tr ' ' '='); do
    echo "abi: $line has another value, or is gone"
    bad=1
done
cut -d' ' -f1 abi/constants.txt >"$dir/old"
for name in $(cut -d' ' -f1 "$dir/constants.txt" | comm -13 "$dir/old" -); do
    echo "abi: $name is new"
    added=1
done

old=$(ls abi/libholdfast-*.abi)
compare() {
    abidiff "$@" "$old" "$dir/new.abi"
}
if ! compare --no-added-syms >"$dir/diff" 2>&1; then
    echo "abi: not compatible with $old:"
    cat "$dir/diff"
    bad=1
elif ! compare >"$dir/diff" 2>&1; then
    grep -E "^ *\[A\]" "$dir/diff" || cat "$dir/diff"
    added=1
fi
[ "$bad" -eq 0 ] || echo 'abi: if that is meant, see tools/abi.sh'
[ "$added" -eq 0 ] || echo 'abi: additions; keep them with tools/abi.sh update BUILD'
exit $bad
