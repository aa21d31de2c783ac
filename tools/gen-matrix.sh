#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes tests/contract/matrix.inc from what the scenarios say of themselves.
#
#   tools/gen-matrix.sh BUILD/tests/contract/contract [FILE]
#
# Run it after adding a scenario, a form or a store; `contract --check-matrix`, which is
# one of the tests, fails until that was done.
set -eu

contract=${1:?usage: gen-matrix.sh CONTRACT [FILE]}
file=${2:-$(dirname "$0")/../tests/contract/matrix.inc}
temporary=$file.new
trap 'rm -f "$temporary"' EXIT

{
    echo '/* SPDX-License-Identifier: MIT */'
    echo '/* Made by tools/gen-matrix.sh: do not edit. Store, form, scenario; a line MISSING'
    echo ' * names the capability that the store lacks for it. */'
    "$contract" --cells | awk '
        $4 == "-" { printf "RUNS(\"%s\", \"%s\", \"%s\")\n", $1, $2, $3; next }
        { printf "MISSING(\"%s\", \"%s\", \"%s\", \"%s\")\n", $1, $2, $3, $4 }'
} >"$temporary"
mv "$temporary" "$file"
