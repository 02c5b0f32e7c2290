#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on the bundled capture: what is in it, the analysis, and the first rows.
set -eu
cd "$(dirname "$0")/.."
out=results/demo
run() {
    printf '\n$ qkscope %s\n' "$*"
    build/qkscope "$@"
}
run inspect examples/kjv-tiny-capture
run pca examples/kjv-tiny-capture -o "$out" --lda
printf '\nFirst component of each head (qk.csv):\n'
awk -F, 'NR == 1 || $5 == 0' "$out/qk.csv" | cut -d, -f2-8 | head -n 9 | tr ',' '\t'
printf '\nTables: %s/qk.csv %s/heads.csv\n' "$PWD/$out" "$PWD/$out"
