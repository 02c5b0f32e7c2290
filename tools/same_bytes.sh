#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the main jobs with two programs, and compares every table and every vector, byte by byte:
#
#     tools/same_bytes.sh FOLDER PROGRAM OTHER...
#
# OTHER is a program, or an emulator with its words and the program. What they write is left in FOLDER/here and there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
program=$2
shift 2

# Every analysis with what it can add, one thread each.
jobs() {
    capture=$root/examples/kjv-tiny-capture
    "$@" capture -m "$root/examples/kjv-tiny/step-2004" -t "$root/examples/kjv-tiny/passages.jsonl" --max-texts 4 \
        --rows 400 --threads 1 -o capture
    "$@" capture -m "$root/examples/kjv-tiny/step-2004" -t "$root/examples/kjv-tiny/passages.jsonl" --max-texts 2 \
        --rows 400 --dtype bf16 --threads 1 -o capture-bf16
    "$@" pca "$capture" --ci 95 --lda --threads 1 -o pca
    "$@" rotate "$capture" --ci 95 --complement --threads 1 -o rotate
    "$@" plasticity "$capture" --ci 95 --layers 0 --threads 1 -o plasticity
    "$@" plasticity "$capture" --convention published --threads 1 -o published
    "$@" compare capture "$capture" --no-html --no-plasticity --threads 1 -o compare
}

results() {
    out=$1
    shift
    rm -rf "$out"
    mkdir "$out"
    echo "$*"
    (cd "$out" && jobs "$@") >"$out.log" 2>&1 || { cat "$out.log"; exit 1; }
}

results "$folder/here" "$program"
results "$folder/there" "$@"
# what says when and how it was run
diff -r --brief -x manifest.json -x summary.json -x '*.log' "$folder/here" "$folder/there"
echo "the same bytes in $(find "$folder/here" -type f | wc -l) files"
