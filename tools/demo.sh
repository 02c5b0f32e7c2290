#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job on a real model: capture its queries and keys at four steps of its training, analyse them,
# draw all figures and write the report.
set -eu
cd "$(dirname "$0")/.."
out=results/demo
run() {
    printf '\n$ qkscope %s\n' "$*"
    build/qkscope "$@"
}
run inspect examples/kjv-tiny/step-2004
for step in 20 100 700 2004; do
    run capture --model "examples/kjv-tiny/step-$step" --text examples/kjv-tiny/passages.jsonl \
        --id-column id --sampler uniform --base-rate 4 --bucket 64 -o "$out/captures/step-$step"
done
run analyze "$out/captures/step-2004" -o "$out/step-2004" --force --lda --complement --ci 95
printf '\nBias towards recent keys, with 95 %% intervals over texts (rotated.csv):\n'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; printf "%5s %6s %13s %10s %10s\n", "layer", "q_head", "bias_strength", "from", "to" }
         NR > 1 && n++ < 8 { printf "%5d %6d %13.5f %10.5f %10.5f\n", $2, $3, $at["bias_strength"], $at["bias_strength_lo"], $at["bias_strength_hi"] }' \
    "$out/step-2004/rotated.csv"
printf '\nPlanes that turn, at which of the RoPE frequencies of the model, and how well (complement.csv):\n'
printf 'layer q_head pair     omega resultant\n'
tail -n +2 "$out/step-2004/complement.csv" | sort -t, -k9,9gr | head -n 8 |
    awk -F, '{ printf "%5d %6d %4d %9.6f %9.3f\n", $2, $3, $5, $8, $9 }'
run study examples/kjv-tiny/training.yaml -o "$out/study"
printf '\nOpen %s\n' "$PWD/$out/study/report.html"
