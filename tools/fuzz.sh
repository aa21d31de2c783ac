#!/bin/sh
# SPDX-License-Identifier: MIT
#
# fuzz.sh TARGET SECONDS [LIBFUZZER OPTION...]: builds tests/fuzz/fuzz_TARGET.c with
# clang, libFuzzer, ASan and UBSan, and runs it for that long, beginning with the corpus
# of the tests. What it learns stays in build-fuzz/TARGET; what it finds is written to
# build-fuzz/ and ends the run. A finding belongs into tests/fuzz/corpus/TARGET.
set -eu
cd "$(dirname "$0")/.."

[ $# -ge 2 ] || { sed -n '4,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
target=$1 seconds=$2
shift 2
source=tests/fuzz/fuzz_$target.c
seeds=tests/fuzz/corpus/$target
[ -f "$source" ] || { echo "fuzz.sh: no such target: $target" >&2; exit 2; }

dir=${FUZZ_DIR:-build-fuzz}
mkdir -p "$dir/$target"

redis=src/backends/redis
zk=src/backends/zookeeper/wire
case $target in
resp) more=$redis/resp.c ;;
conn) more="$redis/resp.c $(echo $redis/conn*.c) $(echo src/base/*.c)" ;;
zk_decode) more="$zk/jute.c $zk/zk_records.c src/base/mem.c" ;;
zk_session) more="$(echo $zk/*.c) $(echo src/base/*.c)" ;;
*) more= ;;
esac
python3 tools/embed-scripts.py $redis/scripts "$dir/scripts.c" "$dir/scripts.inc"

# shellcheck disable=SC2086
clang -std=gnu11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -I "$dir" "$source" $more -lpthread -o "$dir/fuzz_$target"

exec "$dir/fuzz_$target" -max_total_time="$seconds" -print_final_stats=1 \
    -artifact_prefix="$dir/" "$@" "$dir/$target" "$seeds"
