#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of docs/gallery.md anew, from the bundled capture, made-up captures and, where
# ../shared (or QKSCOPE_SHARED) is there, steps of a training: tools/make_gallery.sh [PROGRAM]
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "${1:-build/qkscope}")
out=results/gallery
pictures=docs/gallery
example=examples/kjv-tiny-capture
QKSCOPE_SHARED=$(realpath -m "${QKSCOPE_SHARED:-../shared}")
export QKSCOPE_SHARED

run() {
    printf '$ qkscope %s\n' "$*"
    "$program" "$@" --quiet
}

made_up() {
    name=$1
    shift
    run synth -o "$out/captures/$name" --model-name "$name" --layers 10 --dim 32 --examples 3 \
        --rows 400 --buckets 12 "$@"
}

# take FOLDER NAME...: vector graphics of figures into the gallery, without the name of a model.
take() {
    folder=$1
    shift
    for name; do
        cp "$folder/$name.svg" "$pictures/${name%-kjv-tiny}.svg"
    done
}

# Many points are a smaller file as a picture, at nominal size and with 256 colours.
take_points() {
    for name; do
        (cd "$out/scatter" && gnuplot -d -e scale=1 "$name.gp")
        "${PYTHON:-python3}" - "$out/scatter/$name.png" "$pictures/$name.png" <<'END'
import shutil
import sys
try:
    from PIL import Image
except ImportError:
    sys.stderr.write("without Pillow the picture stays large\n")
    shutil.copy(*sys.argv[1:])
else:
    Image.open(sys.argv[1]).convert("RGB").quantize(256, dither=0).save(sys.argv[2], optimize=True)
END
    done
}

rm -rf "$out"
mkdir -p "$out" "$pictures"

made_up drifting-s --seed 11
made_up drifting-m --seed 12
made_up drifting-l --seed 13
made_up quiet-s --seed 14 --r-k 0.25 --separation 2
made_up quiet-m --seed 15 --r-q 0.5 --r-k 0.3 --separation 3
run study tools/gallery/models.yaml -o "$out/models"
take "$out/models/figures" pca-01-pc-roles pca-02-rq-rk-scatter pca-03-layer-heatmap-rq \
    pca-04-layer-heatmap-rk pca-05-explained-variance rotation-02-drift-correlation \
    rotation-03-variance-shares rotation-04-bias-histograms rotation-05-slope-ratio \
    rotation-06-layer-heatmaps rotation-07-bias-vs-separation plasticity-06-by-model

run analyze "$example" -o "$out/example"
run report "$out/example" --title kjv-tiny
for name in plasticity-01-distance-heatmap plasticity-02-profiles plasticity-03-component-weights; do
    cp "$out/example/figures/$name"-*.svg "$pictures/$name.svg"
done

run capture -m examples/kjv-tiny/step-2004 -t examples/kjv-tiny/passages.jsonl --stage both \
    -o "$out/captures/stages"
run compare-stages "$out/captures/stages" -o "$out/stages"
run report "$out/stages" --title kjv-tiny
for name in stages-01-rotary-pairs stages-02-score-by-distance stages-03-categories; do
    cp "$out/stages/figures/$name"-*.svg "$pictures/$name.svg"
done

run scatter "$example" -o "$out/scatter" --random --collage --seed 42 --name scatter-pca
run scatter "$example" -o "$out/scatter" --basis ab --random --collage --seed 42 --name scatter-ab
run scatter "$example" -o "$out/scatter" --basis complement --heads 0:3 --name scatter-complement
run scatter "$example" -o "$out/scatter" --heads 2:1 --example-id 0 --name scatter-one-text
take_points scatter-pca scatter-ab scatter-complement scatter-one-text

if [ -d "$QKSCOPE_SHARED/data/kjv-tiny-steps" ]; then
    run study tools/gallery/training.yaml -o "$out/training"
    take "$out/training/figures" pca-07-position-signal pca-08-taxonomy pca-09-pc0-variance \
        pca-10-checkpoint-heatmap-rq pca-11-checkpoint-heatmap-rk pca-12-phase-portraits \
        rotation-09-training-metrics rotation-10-bias-decomposition plasticity-04-trajectory
else
    echo "no $QKSCOPE_SHARED/data/kjv-tiny-steps: figures of training stay as they are"
fi
if [ -f "$QKSCOPE_SHARED/data/published/scores.csv" ]; then
    run report "$out/example" -o "$out/scores" --title 'Published models' \
        --scores "$QKSCOPE_SHARED/data/published/scores.csv"
    take "$out/scores/figures" plasticity-05-score
else
    echo "no $QKSCOPE_SHARED/data/published: the figure of scores stays as it is"
fi
du -sh "$pictures"
