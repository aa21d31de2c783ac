#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-prefix.sh FILE...: every external symbol that the archives or objects define
# starts with hf__, or is a public function of tools/holdfast.map. A program that links
# the library statically, or that has the same name in another library, depends on it.
set -eu
map=$(dirname "$0")/holdfast.map
[ $# -gt 0 ] || { echo "usage: check-prefix.sh FILE..."; exit 2; }

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C

# gcc-nm also reads objects that hold nothing but the compiler's own form (-flto).
nm=${NM:-$(command -v gcc-nm || echo nm)}

sed -n 's/^ *\(hf_[a-z0-9_]*\);.*/\1/p' "$map" | sort >"$dir/public"
[ -s "$dir/public" ] || { echo "$map: no public function found"; exit 1; }

bad=0
for file; do
    # -A names the member on each line, in a thin archive the object itself.
    if ! "$nm" -A -g --defined-only "$file" >"$dir/nm" 2>"$dir/errors" ||
        grep -q 'plugin needed' "$dir/errors"; then
        cat "$dir/errors"
        echo "$file: $nm cannot read it"
        bad=1
        continue
    fi
    awk 'NF >= 3 && $NF !~ /^__gnu_lto_/ {
        member = $0
        sub(/: *[0-9a-f]* [A-Za-z] [^ ]*$/, "", member)
        sub(/:[0-9a-f]*$/, "", member)
        sub(/.*[\/:]/, "", member)
        print $NF, member
    }' "$dir/nm" | sort -u >"$dir/symbols"
    [ -s "$dir/symbols" ] || { echo "$file: no external symbol found"; bad=1; }
    awk -v file="$file" 'NR == FNR { public[$1] = 1; next }
        $1 !~ /^hf__/ && !($1 in public) {
            print file ": " $2 ": " $1 " does not start with hf__"
        }' "$dir/public" "$dir/symbols" >"$dir/findings"
    if [ -s "$dir/findings" ]; then
        cat "$dir/findings"
        bad=1
    fi
done
exit $bad
