#!/bin/sh
# SPDX-License-Identifier: MIT
#
# lint.sh [CHECK...]: runs the checks, all of them or those named, and says of each
# whether it is clean. Goes on after a finding; fails at the end if there was any.
set -eu
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=

jobs=$(nproc)
sources() { sh tools/sources.sh src cli examples | grep '\.c$'; }

format() { sh tools/sources.sh | xargs -r clang-format --dry-run -Werror; }
layers() { sh tools/check-layers.sh; }
banned() { sh tools/check-banned.sh; }
text() { sh tools/check-text.sh; }
lengths() { sh tools/fn-length.sh; }
header() { sh tests/header/run.sh gcc clang g++; }
doc_examples() { sh tools/check-doc-examples.sh; }
gcc_build() { sh tools/build.sh build; }
clang_build() { CC=clang sh tools/build.sh build-clang; }
symbols() {
    sh tools/check-symbols.sh build/src/libholdfast.so build/src/libholdfast.a
}
prefix() {
    sh tools/check-prefix.sh build/src/libhf_inside.a build/src/libhf_shims.a \
        $(find build/src/holdfast-tls.so.p -name '*.o')
}
abi() { sh tools/abi.sh check build; }
man_pages() { sh tools/check-man.sh build; }
install() { sh tools/check-install.sh; }
cppcheck_run() {
    sources | xargs -r cppcheck --quiet --error-exitcode=1 --inline-suppr -j "$jobs" \
        --std=c11 --enable=warning,performance,portability --template=gcc \
        --suppress=missingInclude --suppress=missingIncludeSystem \
        -D_GNU_SOURCE -D__linux__ -D__x86_64__ -I include -I src -I build/src
}
clang_tidy() {
    sources | xargs -r -n 1 -P "$jobs" clang-tidy --quiet -p build-clang
}

check() {
    [ "$wanted" = all ] || case " $wanted " in *" $1 "*) ;; *) return 0 ;; esac
    begin=$(date +%s)
    if "$1" >"$dir/log" 2>&1; then
        # These are worth reading when they are clean, too.
        case $1 in lengths | abi) cat "$dir/log" ;; esac
        echo "lint: $1 clean ($(($(date +%s) - begin)) s)"
    else
        cat "$dir/log"
        echo "lint: $1 FAILED"
        failed="$failed $1"
    fi
}

wanted=${*:-all}
names='format layers banned text lengths header doc_examples gcc_build clang_build
    symbols prefix abi man_pages install cppcheck_run clang_tidy'
for name in "$@"; do
    case " $(echo $names) " in *" $name "*) continue ;; esac
    echo "lint: no such check: $name; there are: $(echo $names)" >&2
    exit 2
done
for name in $names; do
    check "$name"
done

if [ -n "$failed" ]; then
    echo "lint: findings in:$failed"
    exit 1
fi
echo "lint: no findings"
