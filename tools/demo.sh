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
awk -F, 'NR == 1 { printf "%5s %6s %6s %8s %6s %6s\n", $2, $3, $4, "variance", $7, $8 }
         NR > 1 && $5 == 0 && n++ < 8 { printf "%5d %6d %6d %8.3f %6.3f %6.3f\n", $2, $3, $4, $6, $7, $8 }' \
    "$out/qk.csv"
printf '\nTables: %s/qk.csv %s/heads.csv\n' "$PWD/$out" "$PWD/$out"
