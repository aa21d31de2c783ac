#!/bin/sh
# SPDX-License-Identifier: MIT
#
# handful.sh [N]: N mutants that are known to be killed (8 if none is given), others with
# each commit; fails if one of them is no longer killed. TAP. Needs build/.
set -eu
cd "$(dirname "$0")/../.."
exec /usr/bin/python3 tools/mutate/mutate.py --handful "${1:-8}"
