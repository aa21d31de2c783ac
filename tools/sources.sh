#!/bin/sh
# SPDX-License-Identifier: MIT
#
# sources.sh [DIRECTORY...]: the C sources and headers of the project, or of the given
# directories, one per line. Files that are not under version control yet count too.
set -eu
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- include src cli examples tests bench
for dir in "$@"; do
    [ ! -d "$dir" ] || find "$dir" -name '*.[ch]' -type f
done | LC_ALL=C sort
