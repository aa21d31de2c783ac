#!/bin/sh
# SPDX-License-Identifier: MIT
#
# rolling-deploy.sh RELEASE COMMAND [ARGUMENT...]: started on all hosts at once, runs the
# command on two of them at a time ($SLOTS), and on no further host once it has failed
# on one.
#
#     holdfast latch set deploy/r42 12              here, before: twelve hosts take part
#     rolling-deploy.sh r42 /srv/app/upgrade r42    on each host
#     holdfast latch wait deploy/r42 --wait 30m     here: until all of them are done
#
# The semaphore limits how many hosts run it, the cell says stop, the latch says done.
# If a host dies in the middle, its permit becomes free, but the latch stays closed: the
# wait times out, and `holdfast latch show` says how many hosts are missing.
set -eu

release=$1
if [ "${HOLDFAST_NAME:-}" != deploy/slots ]; then
    exec holdfast run --permits "1/${SLOTS:-2}" --wait 1h \
        --note "$release on $(uname -n)" deploy/slots -- "$0" "$@"
fi
shift

if who=$(holdfast cell get "deploy/$release/stopped" 2>/dev/null); then
    echo "$release was stopped: it failed on $who" >&2
    exit 1
fi
if "$@"; then
    holdfast latch down "deploy/$release" >/dev/null
else
    code=$?
    holdfast cell set --create "deploy/$release/stopped" "$(uname -n)" >/dev/null || true
    exit "$code"
fi
