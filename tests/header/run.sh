#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run.sh [COMPILER...]: compiles each public header alone and twice, as pedantic C11 with
# C compilers and as C++17 with C++ compilers, and a small use of its macros and inline
# functions. Without arguments: every one of gcc, clang, g++ and clang++ that is there.
# Speaks TAP. The sources are written by this script, so that nothing else is included.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)

if [ $# -eq 0 ]; then
    for compiler in gcc clang g++ clang++; do
        ! command -v "$compiler" >/dev/null 2>&1 || set -- "$@" "$compiler"
    done
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

for header in holdfast.h holdfast/backend.h; do
    name=$(basename "$header" .h)
    echo "#include <$header>" >"$dir/$name-alone.c"
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$dir/$name-twice.c"
done
cat >"$dir/use.c" <<'END'
#include <holdfast/backend.h>
int use(hf_client *client, hf_hold **hold, hf_error *why);
int use(hf_client *client, hf_hold **hold, hf_error *why)
{
    hf_options options = HF_OPTIONS_INIT;
    hf_acquire_options acquire = HF_ACQUIRE_OPTIONS_INIT;
    hf_want wants[] = { hf_mutex("a"),         hf_reentrant("b"), hf_fair("c"),
                        hf_read("d"),          hf_write("e"),     hf_permits("f", 1, 2),
                        hf_expiring("g", 3),   hf_striped("h", "key", 16) };
    acquire.timeout_ms = options.size > 0 ? HF_FOREVER : 0;
    return hf_acquire(client, wants, sizeof(wants) / sizeof(wants[0]), &acquire, hold,
                      why);
}
END

number=0
failed=0
for compiler in "$@"; do
    case $compiler in
    *++*) flags='-x c++ -std=c++17' ;;
    *) flags='-x c -std=c11 -Wstrict-prototypes -Wmissing-prototypes' ;;
    esac
    for source in "$dir"/*.c; do
        number=$((number + 1))
        what="$(basename "$source" .c) with $compiler"
        # shellcheck disable=SC2086
        if "$compiler" $flags -pedantic -Wall -Wextra -Wshadow -Wpointer-arith \
            -Wwrite-strings -Werror -fsyntax-only -I "$root/include" "$source" \
            >"$dir/log" 2>&1; then
            echo "ok $number - $what"
        else
            echo "not ok $number - $what"
            sed "s|^|# |; s|$root/||" "$dir/log"
            failed=1
        fi
    done
done
echo "1..$number"
exit $failed
