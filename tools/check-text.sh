#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-text.sh: what no file of the project may hold: a path of one machine, the host
# of a package registry, the hash of a commit, trailing blanks, tabs in C. And what
# each source must begin with: its licence. Links between the documents must lead somewhere.
set -eu
cd "$(dirname "$0")/.."

bad=0
files=$(find . -type d \( -name .git -o -name 'build*' \) -prune -o -type f -print |
    sed 's|^\./||' | LC_ALL=C sort)

# no MESSAGE PATTERN FILE...: complains of each line that matches. The patterns have a
# bracket in them, so that they do not find themselves.
no() {
    message=$1 pattern=$2
    shift 2
    found=$(grep -nHIE -- "$pattern" "$@" /dev/null | cut -d: -f1,2 || true)
    [ -n "$found" ] || return 0
    echo "$found" | sed "s/\$/: $message/"
    bad=1
}

# shellcheck disable=SC2086
{
    no "a path of one machine" \
        '(^|[^A-Za-z0-9_.])/(wor[k]|roo[t]|hom[e]/[a-z]+|User[s]|tm[p]/hf)/' $files
    no "the host of a package registry" \
        '(de[b]|securit[y])\.debian\.org|pyp[i]\.org|pythonhoste[d]\.org|npmj[s]\.|crate[s]\.io|docke[r]\.io|ghc[r]\.io|artifactor[y]|proxy\.golan[g]\.org|rubygem[s]\.org' \
        $files
    no "looks like the hash of a commit" '(^|[^0-9a-f])[0-9a-f]{40}([^0-9a-f]|$)' $files
    no "blanks at the end of the line" '[[:blank:]]$' $files
}

for file in $files; do
    case $file in
    *.c | *.h) first='/* SPDX-License-Identifier: MIT */' ;;
    *.sh | *.py | *.awk | *meson.build | *meson_options.txt | Makefile | .ci/run)
        first='# SPDX-License-Identifier: MIT'
        ;;
    *) continue ;;
    esac
    if ! head -n 2 "$file" | grep -qxF "$first"; then
        echo "$file:1: the first line must be '$first'"
        bad=1
    fi
    case $file in
    *.c | *.h)
        if tab=$(grep -nm1 "$(printf '\t')" "$file"); then
            echo "$file:${tab%%:*}: a tab; indent with spaces"
            bad=1
        fi
        ;;
    *.sh | .ci/run) bash -n "$file" || bad=1 ;;
    esac
    [ -z "$(tail -c 1 "$file")" ] || { echo "$file: no newline at the end"; bad=1; }
done

for page in $(echo "$files" | grep '\.md$'); do
    for link in $(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//'); do
        case $link in
        *://*) continue ;;
        esac
        if [ ! -e "$(dirname "$page")/$link" ]; then
            echo "$page:$(grep -nF -m1 "]($link" "$page" | cut -d: -f1): no such file: $link"
            bad=1
        fi
    done
done
exit $bad
