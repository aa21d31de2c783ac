#!/bin/sh
# SPDX-License-Identifier: MIT
#
# cron-many-hosts.sh JOB COMMAND [ARGUMENT...]: the same crontab on many hosts, and one
# run a day.
#
#     PATH=/usr/local/bin:/usr/bin:/bin
#     HOLDFAST_URL=redis://db1
#     15 3 * * *  cron-many-hosts.sh report /usr/local/bin/report --all
#
# The lock keeps two hosts from running the job at the same time. It cannot keep a host
# whose clock is late from running a short job again after it has ended. So a cell has
# the day of the last successful run, and the script reads it under the lock. Hosts wait
# for each other, two hours at most: if the job fails or its host dies, the next one runs
# the job. HOLDFAST_URL names a store that all hosts can reach.
set -eu

job=$1
if [ "${HOLDFAST_NAME:-}" != "cron/$job" ]; then
    exec holdfast run --wait 2h -E 0 --note "cron on $(uname -n)" "cron/$job" -- "$0" "$@"
fi
shift

# Exit code 1 is no such cell: the job has never run.
today=$(date +%F)
last=$(holdfast cell get "cron/$job/last" 2>/dev/null || [ $? -eq 1 ])
[ "$last" != "$today" ] || exit 0

"$@"
holdfast cell set "cron/$job/last" "$today" >/dev/null
