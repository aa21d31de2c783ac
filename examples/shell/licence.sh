#!/bin/sh
# SPDX-License-Identifier: MIT
#
# licence.sh PRODUCT COMMAND [ARGUMENT...]: waits for one of the seats that we have paid
# for, instead of letting the licence server turn the command away.
#
#     SEATS=5 licence.sh solver /opt/solver/bin/solve model.lp
#
# The seats are a semaphore. A command that is killed, or a host that dies, gives its
# seat back. Everybody must name the same number of seats: another one is refused.
set -u

product=$1
shift
full=99 # a code that the command does not use itself
holdfast run --permits "1/${SEATS:-5}" --wait "${PATIENCE:-10m}" -E "$full" \
    --note "${USER:-$(id -un)}" "licences/$product" -- "$@"
code=$?
if [ "$code" -eq "$full" ]; then
    echo "no seat of $product is free; they are taken by:" >&2
    holdfast show "licences/$product" >&2
fi
exit "$code"
