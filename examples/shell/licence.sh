#!/bin/sh
# SPDX-License-Identifier: MIT
#
# licence.sh PRODUCT COMMAND [ARGUMENT...]: waits for one of the paid seats, so that the
# licence server does not refuse the command.
#
#     SEATS=5 licence.sh solver /opt/solver/bin/solve model.lp
#
# The seats are a semaphore. If a command is killed, or a host dies, its seat becomes
# free again. All callers must give the same number of seats: another one is refused.
set -u

product=$1
shift
full=99 # an exit code that the command does not use
holdfast run --permits "1/${SEATS:-5}" --wait "${PATIENCE:-10m}" -E "$full" \
    --note "${USER:-$(id -un)}" "licences/$product" -- "$@"
code=$?
if [ "$code" -eq "$full" ]; then
    echo "no seat of $product is free; they are taken by:" >&2
    holdfast show "licences/$product" >&2
fi
exit "$code"
