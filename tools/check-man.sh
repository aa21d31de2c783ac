#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-man.sh BUILD: every exported function has a page in section 3 that names it, and no
# page, of the library or of the command, has markup that mandoc or man complain of.
set -eu
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/man3"
python3 tools/gen-man.py 0 "$dir/man3" include/holdfast.h include/holdfast/backend.h

bad=0
complain() {
    echo "$*"
    bad=1
}
for name in $(sed -n 's/^ *\(hf_[a-z0-9_]*\);.*/\1/p' tools/holdfast.map); do
    page=$dir/man3/$name.3
    if [ ! -f "$page" ]; then
        complain "include: no manual page for $name()"
        continue
    fi
    page=$dir/$(sed -n '1s/^\.so //p' "$page" | grep . || echo "man3/$name.3")
    sed -n '/^\.SH NAME/{n;p;}' "$page" | grep -qw "$name" ||
        complain "$(basename "$page"): does not name $name"
    sed -n '/^\.SH SYNOPSIS/,/^\.SH DESC/p' "$page" | grep -q "$name(" ||
        complain "$(basename "$page"): no prototype of $name"
done

# The date of a page is missing on purpose: the same sources make the same pages.
count=0
for page in "$dir"/man3/*.3 "$build"/man/*.[17]; do
    grep -q '^\.so ' "$page" && continue
    count=$((count + 1))
    { mandoc -Tlint -W warning "$page" | grep -v 'missing date'
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null
    } | sed 's|^mandoc: ||; s|^.*/man|man|' >"$dir/log" || true
    if [ -s "$dir/log" ]; then
        cat "$dir/log"
        bad=1
    fi
done
[ "$count" -gt 35 ] || complain "only $count pages found"
exit $bad
