#!/bin/sh
# SPDX-License-Identifier: MIT
#
# run-tests.sh RUN...: builds and runs all tests, once for each RUN:
#   plain  as released, in build/
#   asan   under AddressSanitizer and UndefinedBehaviorSanitizer, in build-asan/;
#          without the tests of the suite `noasan`
#   tsan   under ThreadSanitizer, in build-tsan/; without the suite `notsan`
# A run that fails does not keep the others from running. tools/summary.py then counts
# over all of them and prints the closing line. With HOLDFAST_TEST_RERUN=1, as in .ci/run,
# it runs a program that failed once more, alone, and forgives one of them.
set -eu
cd "$(dirname "$0")/.."

# A report must end the program that it is about, and the tests fork a great deal.
export ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:exitcode=99:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1:exitcode=99:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="exitcode=99:die_after_fork=0:second_deadlock_stack=1:${TSAN_OPTIONS:-}"

# ThreadSanitizer wants its addresses where they always were; some kernels spread them
# wider than it knows. Prints a prefix that helps, if one is needed and there is one.
tsan_wrapper() {
    dir=$(mktemp -d)
    echo 'int main(void) { return 0; }' >"$dir/probe.c"
    ${CC:-cc} -fsanitize=thread -o "$dir/probe" "$dir/probe.c" 2>/dev/null || true
    if ! "$dir/probe" 2>/dev/null && setarch -R "$dir/probe" 2>/dev/null; then
        echo 'setarch -R'
    fi
    rm -rf "$dir"
}

# run DIRECTORY LEFT-OUT-SUITE TIMEOUT-FACTOR WRAPPER [MESON ARGUMENT...]
run() {
    dir=$1 without=$2 factor=$3 wrapper=$4
    shift 4
    # The log is what the summary reads: an old one must not pass for a new one.
    rm -f "$dir/meson-logs/testlog.json"
    sh tools/build.sh "$dir" "$@"
    # Many tests wait for servers most of the time: one more than there are processors.
    set -- --no-rebuild --print-errorlogs --timeout-multiplier "$factor" \
        --num-processes $(($(nproc) + 1))
    [ -z "$without" ] || set -- "$@" --no-suite "$without"
    [ -z "$wrapper" ] || set -- "$@" --wrapper "$wrapper"
    meson test -C "$dir" "$@" || true
    dirs="$dirs|$dir:$without:$wrapper"
}

dirs=
for name in "$@"; do
    case $name in
    plain)
        # shellcheck disable=SC2086
        run build '' 2 '' ${MESON_ARGS:-}
        ;;
    asan)
        run build-asan noasan 4 '' \
            -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
        ;;
    tsan)
        run build-tsan notsan 6 "$(tsan_wrapper)" \
            -Db_sanitize=thread -Db_lundef=false -Doptimization=1
        ;;
    *)
        echo "run-tests: no such run: $name" >&2
        exit 2
        ;;
    esac
done

# A wrapper may have a blank in it.
[ "${HOLDFAST_TEST_RERUN:-}" != 1 ] || dirs="|--rerun$dirs"
IFS='|'
# shellcheck disable=SC2086
set -- $dirs
shift
unset IFS
exec python3 tools/summary.py "$@"
