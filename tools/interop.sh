#!/bin/sh
# SPDX-License-Identifier: MIT
#
# interop.sh: runs tests/interop/run.sh, which takes locks through holdfast and through
# other tools at the same time (flock(1) of util-linux) and checks that they exclude
# each other. Needs a finished build in build/.
set -eu
cd "$(dirname "$0")/.."

script=tests/interop/run.sh
if [ ! -f "$script" ]; then
    echo "interop: $script is not there, nothing to run"
    exit 0
fi
echo "interop: $script (holdfast beside flock(1) of util-linux)"
exec bash "$script" build
