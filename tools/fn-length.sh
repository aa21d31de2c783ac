#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fn-length.sh: how long the functions and files of src and cli are. Prints median, p90
# and maximum beside the numbers we aim for, and the longest functions. Fails on a
# function above 80 lines, a file above 600, and a line of more than 88 columns anywhere.
# Counts from the line with the function's name to its closing brace; relies on the
# layout that clang-format gives (both braces of a function in the first column).
set -eu
cd "$(dirname "$0")/.."

bad=0
wide=$(sh tools/sources.sh | LC_ALL=C.UTF-8 xargs -r grep -nHE '^.{89,}' |
    cut -d: -f1,2 | sed 's/$/: more than 88 columns/')
[ -z "$wide" ] || { echo "$wide"; bad=1; }

sh tools/sources.sh src cli | grep '\.c$' | xargs -r awk '
FNR == 1 { begin = 0; inside = 0 }
!inside && /^[A-Za-z_].*\(/ { begin = FNR; name = $0 }
/^\{$/ { inside = begin > 0 }
/^\}$/ && inside {
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    print FNR - begin + 1, FILENAME ":" begin, name
    begin = inside = 0
}' | sort -n | awk '
{ size[NR] = $1; at[NR] = $2; name[NR] = $3 }
$1 > 80 { print $2 ": " $3 " has " $1 " lines, the limit is 80"; bad = 1 }
END {
    if (NR == 0)
        exit
    printf "functions: %d, median %d (aim 12), p90 %d (aim 40), longest %d (limit 80)\n",
        NR, size[int((NR + 1) / 2)], size[int((NR * 9 + 9) / 10)], size[NR]
    for (i = NR; i > NR - 3 && i > 0; i--)
        printf "  %3d %s %s\n", size[i], name[i], at[i]
    exit bad
}' || bad=1

sh tools/sources.sh src cli | xargs -r awk '
{ size[FILENAME] = FNR }
END {
    for (file in size) {
        files++
        if (size[file] > longest)
            longest = size[file]
        if (size[file] > 600) {
            print file ":" size[file] ": the limit is 600 lines"
            bad = 1
        } else if (size[file] > 400) {
            over = over " " file "(" size[file] ")"
        }
    }
    printf "files: %d, longest %d (aim 400, limit 600)%s\n", files, longest,
        over == "" ? "" : ", above the aim:" over
    exit bad
}' || bad=1
exit $bad
