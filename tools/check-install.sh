#!/bin/sh
# SPDX-License-Identifier: MIT
#
# check-install.sh: runs `make install` into a temporary directory, in build-install/, and
# builds a program against what is there, in the ways that users do: pkg-config with the
# shared and with the static library, and CMake. The headers must be those of include/, and
# no test, example or benchmark may have been compiled.
set -eu
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "check-install: $*"
    [ ! -s "$dir/log" ] || cat "$dir/log"
    exit 1
}

make -s install DESTDIR="$dir/root" >"$dir/log" 2>&1 || fail "make install"

# What is compiled: the objects of the library, of its TLS module and of the command.
sed -n 's|.*"output": "\(.*\)/[^/]*".*|\1|p' build-install/compile_commands.json |
    sort | uniq -c >"$dir/units"
grep -q libhf_inside "$dir/units" || fail "no compile units found"
while read -r count place; do
    case $place in
    src/libhf_inside.a.p | src/holdfast-tls.so.p | cli/holdfast.p) ;;
    *) fail "make install compiles $count files for $place, which is not installed" ;;
    esac
done <"$dir/units"

pc=$(find "$dir/root" -name holdfast.pc)
[ -n "$pc" ] || fail "no holdfast.pc"
prefix=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --variable=prefix holdfast)
root=$dir/root$prefix
lib=$(dirname "$(dirname "$pc")")

for header in holdfast.h holdfast/backend.h; do
    cmp -s "include/$header" "$root/include/$header" || fail "$header is not installed"
done
for example in examples/shell/*; do
    installed=$root/share/doc/holdfast/examples/${example##*/}
    cmp -s "$example" "$installed" || fail "$example is not installed"
    [ ! -x "$example" ] || [ -x "$installed" ] || fail "$example cannot be run"
done

cat >"$dir/program.c" <<'END'
#include <holdfast.h>
#include <holdfast/backend.h>
#include <stdio.h>
int main(void)
{
    return puts(hf_version()) < 0 || hf_backend_register(NULL, NULL) != HF_EINVAL;
}
END
pkg() {
    PKG_CONFIG_PATH=$lib/pkgconfig pkg-config --define-variable=prefix="$root" "$@" \
        holdfast
}
version=$(pkg --modversion)

# shellcheck disable=SC2046
cc -o "$dir/shared" "$dir/program.c" $(pkg --cflags --libs) >"$dir/log" 2>&1 ||
    fail "a program against the shared library"
[ "$(LD_LIBRARY_PATH=$lib "$dir/shared")" = "$version" ] || fail "the shared library"

# shellcheck disable=SC2046
cc -o "$dir/static" "$dir/program.c" $(pkg --cflags) "$lib/libholdfast.a" -pthread \
    >"$dir/log" 2>&1 || fail "a program against the static library"
[ "$("$dir/static")" = "$version" ] || fail "the static library"

cat >"$dir/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.16)
project(program C)
find_package(holdfast ${version%.*} REQUIRED)
add_executable(by_shared program.c)
target_link_libraries(by_shared PRIVATE holdfast::holdfast)
add_executable(by_static program.c)
target_link_libraries(by_static PRIVATE holdfast::static)
END
{ cmake -S "$dir" -B "$dir/cmake" -DCMAKE_PREFIX_PATH="$root" -G Ninja &&
    ninja -C "$dir/cmake"; } >"$dir/log" 2>&1 || fail "a program built with CMake"
[ "$("$dir/cmake/by_shared")" = "$version" ] || fail "CMake, shared"
[ "$("$dir/cmake/by_static")" = "$version" ] || fail "CMake, static"
