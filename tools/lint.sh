#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# lint.sh BUILD [COMMIT | recent]: clang-format and cppcheck of the whole tree, and clang-tidy of all of
# src/, of what differs from COMMIT, or, for `recent`, of what changed of late (tests/changed.py): at
# most 40 files. A clone without history has a few files looked at that stand for
# the rest.
set -eu
build=$1
since=${2:-}
most=40

tracked() { git ls-files -- "$@"; }

changed() { git diff --name-only --diff-filter=d "$1" -- 'src/*.c'; }

case $since in
'') files=$(tracked 'src/*.c') ;;
recent)
    since=$(python3 tests/changed.py)
    if [ -n "$since" ]; then
        files=$(changed "$since")
    else
        files=$(tracked 'src/base/*.c' 'src/stats/pca*.c' 'src/parquet/reader.c' 'src/analysis/analysis.c')
    fi
    count=$(echo "$files" | grep -c . || true)
    if [ "$count" -gt $most ]; then
        echo "clang-tidy looks at $most of $count files; make lint at all"
        files=$(echo "$files" | awk -v n="$count" -v m=$most 'int(NR * m / n) != int((NR - 1) * m / n)')
    fi ;;
*) files=$(changed "$since") ;;
esac

# shellcheck disable=SC2046,SC2086 # names in the tree are words
{
    clang-format --dry-run --Werror $(tracked '*.c' '*.h')
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability -j"$(nproc)" \
        --inline-suppr --suppress=missingIncludeSystem -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 -D__CPPCHECK__=1 \
        -Iinclude -Isrc src
    [ -n "$files" ] || exit 0
    run-clang-tidy -quiet -p "$build" $files >"$build/tidy.log" 2>&1 || { cat "$build/tidy.log"; exit 1; }
}
