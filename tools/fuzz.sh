#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for the given number of seconds, from its committed corpus. What it
# finds is left in build-fuzz/found.
set -eu
seconds=${1:-600}
if [ ! -f build-fuzz/build.ninja ]; then
    CC=clang meson setup build-fuzz -Dtests=false -Dfuzz=true -Db_lundef=false \
        -Db_sanitize=address,undefined -Dc_args=-fsanitize=fuzzer-no-link \
        --buildtype=debugoptimized >/dev/null
fi
ninja -C build-fuzz --quiet
for target in build-fuzz/tests/fuzz/fuzz-*; do
    [ -x "$target" ] && [ ! -d "$target" ] || continue
    name=${target##*/fuzz-}
    mkdir -p "build-fuzz/corpus/$name" build-fuzz/found
    echo "$name: $seconds s"
    "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix=build-fuzz/found/ "build-fuzz/corpus/$name" \
        "tests/fuzz/corpus/$name" 2>"build-fuzz/$name.log" ||
        { tail -n 40 "build-fuzz/$name.log"; exit 1; }
    grep -E 'DONE|stat::' "build-fuzz/$name.log"
done
