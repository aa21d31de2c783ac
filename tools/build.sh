#!/bin/sh
# SPDX-License-Identifier: MIT
#
# build.sh DIRECTORY [MESON ARGUMENT...]: sets the build directory up if it is new, then
# builds. Warnings are errors, unless an argument says otherwise (-Dwerror=false); a build
# without this script has Meson's default, in which they are not. With TARGETS in the
# environment only these are built. Quiet if all goes well; the whole log if not.
set -eu

dir=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

if [ ! -f "$dir/build.ninja" ]; then
    if ! meson setup "$dir" -Dwerror=true "$@" >"$log" 2>&1; then
        cat "$log" >&2
        exit 1
    fi
fi
# shellcheck disable=SC2086
if ! ninja -C "$dir" ${TARGETS:-} >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
echo "$dir: built"
