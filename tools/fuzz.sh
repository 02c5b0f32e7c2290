#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs each fuzz target for the given number of seconds, from its committed corpus, as many at a time as there are
# processors. What they find is left in build-fuzz/found.
set -eu
if [ "${2:-}" ]; then # one target
    name=${2##*/fuzz-}
    mkdir -p "build-fuzz/corpus/$name"
    if "$2" -max_total_time="$1" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix=build-fuzz/found/ \
        "build-fuzz/corpus/$name" "tests/fuzz/corpus/$name" 2>"build-fuzz/$name.log"; then
        echo "$name: $(grep DONE "build-fuzz/$name.log")"
        exit
    fi
    echo "$name: failed"
    tail -n 40 "build-fuzz/$name.log"
    exit 1
fi
seconds=${1:-600}
if [ ! -f build-fuzz/build.ninja ]; then
    CC=clang meson setup build-fuzz -Dtests=false -Dfuzz=true -Db_lundef=false \
        -Db_sanitize=address,undefined -Dc_args=-fsanitize=fuzzer-no-link \
        --buildtype=debugoptimized >/dev/null
fi
ninja -C build-fuzz --quiet
mkdir -p build-fuzz/found
find build-fuzz/tests/fuzz -maxdepth 1 -type f -name 'fuzz-*' -perm -u+x | sort | xargs -P "$(nproc)" -n 1 "$0" "$seconds"
