#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on the bundled capture: what is in it, the analyses, the first rows, and the report.
set -eu
cd "$(dirname "$0")/.."
out=results/demo
run() {
    printf '\n$ qkscope %s\n' "$*"
    build/qkscope "$@"
}
run inspect examples/kjv-tiny-capture
run analyze examples/kjv-tiny-capture -o "$out" --lda --complement --ci 95
printf '\nFirst component of each head (qk.csv):\n'
awk -F, 'NR == 1 { printf "%5s %6s %6s %8s %6s %6s\n", $2, $3, $4, "variance", $7, $8 }
         NR > 1 && $5 == 0 && n++ < 8 { printf "%5d %6d %6d %8.3f %6.3f %6.3f\n", $2, $3, $4, $6, $7, $8 }' \
    "$out/qk.csv"
printf '\nBias towards recent keys, with 95 %% intervals over texts (rotated.csv):\n'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; printf "%5s %6s %13s %10s %10s\n", "layer", "q_head", "bias_strength", "from", "to" }
         NR > 1 && n++ < 8 { printf "%5d %6d %13.5f %10.5f %10.5f\n", $2, $3, $at["bias_strength"], $at["bias_strength_lo"], $at["bias_strength_hi"] }' \
    "$out/rotated.csv"
printf '\nPlanes that turn, and the RoPE frequencies of the model (complement.csv):\n'
printf 'layer q_head pair     omega resultant      RoPE\n'
tail -n +2 "$out/complement.csv" | sort -t, -k9,9gr | head -n 8 |
    awk -F, '{ printf "%5d %6d %4d %9.6f %9.3f %9.6f\n", $2, $3, $5, $8, $9, $10 }'
run scatter examples/kjv-tiny-capture -o "$out/figures" --random 4 --collage 2x2 --seed 42 --name pca-06-collage-kjv-tiny-step-2004
run report "$out" --title 'kjv-tiny: position and content'
printf '\nTables in %s\nOpen   %s\n' "$PWD/$out" "$PWD/$out/report.html"
