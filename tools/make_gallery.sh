#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of docs/dev/pictures.md anew, all from real models: what `make demo-real` and `make demo`
# capture, which it runs where they have not been. tools/make_gallery.sh
# The figure of scores needs the published ones, in ../shared (or QKSCOPE_SHARED).
set -eu
cd "$(dirname "$0")/.."
program=$(realpath "${QKSCOPE_BUILD:-build}")/qkscope
out=results/gallery
pictures=docs/gallery
real=results/real
QKSCOPE_SHARED=$(realpath -m "${QKSCOPE_SHARED:-../shared}")

run() {
    printf '$ qkscope %s\n' "$*"
    "$program" "$@" --quiet
}

# take FOLDER NAME...: vector graphics of figures into the gallery, without the name of a model.
take() {
    folder=$1
    shift
    for name; do
        picture=${name%-smollm2-135m-instruct}
        cp "$folder/$name.svg" "$pictures/${picture%-kjv-tiny}.svg"
    done
}

# Many points are a smaller file as a picture, at nominal size and with 128 colours.
take_points() {
    for name; do
        rsvg-convert -o "$out/scatter/$name.png" "$out/scatter/$name.svg"
        "${PYTHON:-python3}" - "$out/scatter/$name.png" "$pictures/$name.png" <<'END'
import shutil
import sys
try:
    from PIL import Image
except ImportError:
    sys.stderr.write("without Pillow the picture stays large\n")
    shutil.copy(*sys.argv[1:])
else:
    # the usual choice of colours has none for the few cells of sharp keys
    method = Image.Quantize.FASTOCTREE if "attention" in sys.argv[1] else None
    Image.open(sys.argv[1]).convert("RGB").quantize(128, method=method, dither=0).save(sys.argv[2], optimize=True)
END
    done
}

rm -rf "$out"
mkdir -p "$out" "$pictures"

tools/real_model.sh
take "$real/post/figures" map-01-r-q map-07-layer-curves pca-01-pc-roles pca-05-explained-variance \
    pca-14-lengths-smollm2-135m-instruct \
    plasticity-01-distance-heatmap-smollm2-135m-instruct plasticity-02-profiles-smollm2-135m-instruct \
    plasticity-03-component-weights-smollm2-135m-instruct \
    stages-02-score-by-distance-smollm2-135m-instruct stages-03-categories-smollm2-135m-instruct
run scatter "$real/capture/post" -o "$out/scatter" --random --collage --seed 42 --name scatter-pca
run scatter "$real/capture/post" -o "$out/scatter" --basis ab --random --collage --seed 42 --name scatter-ab
run scatter "$real/capture/post" -o "$out/scatter" --basis complement --random 1 --seed 42 --max-points 1000 --name scatter-complement
run scatter examples/kjv-tiny-capture -o "$out/scatter" --heads 2:1 --example-id 0 --name scatter-one-text
run capture --model examples/kjv-tiny/step-2004 --text examples/kjv-tiny/passages.jsonl --sampler all \
    -o "$out/every-row"
run scatter "$out/every-row" -o "$out/scatter" --basis attention --heads 0:3,0:0 --collage 2x2 --name scatter-attention
take_points scatter-pca scatter-ab scatter-complement scatter-one-text scatter-attention

run capture --model examples/kjv-tiny/step-2004 --text examples/kjv-tiny/passages.jsonl --id-column id \
    --stage both -o "$out/kjv-tiny"
run analyze "$out/kjv-tiny/post" -o "$out/post" --model-name kjv-tiny --ci 95 --lda
run analyze "$out/kjv-tiny/pre" -o "$out/pre" --model-name 'kjv-tiny before RoPE' --ci 95 --lda
run compare-stages "$out/kjv-tiny" -o "$out/post" --model-name kjv-tiny
run ablate --model examples/kjv-tiny/step-2004 --text examples/kjv-tiny/passages.jsonl --max-texts 12 \
    --no-controls --model-name kjv-tiny -o "$out/post/ablation"
tail -n 12 examples/kjv-tiny/passages.jsonl >"$out/other-texts.jsonl"
run ablate --model examples/kjv-tiny/step-2004 --text "$out/other-texts.jsonl" --what remove \
    --groups 'top 1,2,4,8,16 by -remove_loss' --groups 'top 1,2,4,8,16 by remove_loss' --results "$out/post" \
    --model-name kjv-tiny -o "$out/groups"
run report "$out/groups"
take "$out/groups/figures" ablation-05-groups
run report "$out/post"
take "$out/post/figures" ablation-01-remove ablation-02-two-sides ablation-03-r-q ablation-04-layer-curves \
    stages-01-rotary-pairs-kjv-tiny attention-03-self attention-05-induction attention-06-information \
    attention-07-r-q attention-08-r-k attention-09-plasticity attention-10-slopes attention-11-profiles-kjv-tiny \
    attention-12-profiles-by-depth-kjv-tiny attention-13-layer-curves # rotary pairs of SmolLM2 have 0.9 MB
run capture --model examples/kjv-tiny/step-20 --text examples/kjv-tiny/passages.jsonl --id-column id \
    -o "$out/step-20"
run analyze "$out/step-20" -o "$out/of-step-20" --ci 95
run compare "$out/of-step-20" "$out/post" -o "$out/changes"
take "$out/changes/figures" compare-01-heads compare-02-map
mkdir "$out/models"
cp tools/gallery/models.csv "$out/models"
for table in qk heads rotated head_metrics head_profile head_distance head_component_weights; do
    awk 'FNR > 1 || NR == 1' "$real/post/$table.csv" "$real/pre/$table.csv" "$out/post/$table.csv" \
        "$out/pre/$table.csv" >"$out/models/$table.csv"
done
run report "$out/models" --title 'Two models before and after RoPE'
take "$out/models/figures" pca-02-rq-rk-scatter pca-03-layer-heatmap-rq pca-04-layer-heatmap-rk \
    rotation-02-drift-correlation rotation-03-variance-shares rotation-04-bias-histograms \
    rotation-05-slope-ratio rotation-06-layer-heatmaps rotation-07-bias-vs-separation \
    plasticity-06-by-model

[ -f results/demo/study/report.html ] || tools/demo.sh
take results/demo/study/figures map-02-r-k map-03-bias map-04-plane-variance map-05-plasticity map-06-category pca-07-position-signal pca-08-taxonomy pca-09-pc0-variance \
    pca-12-phase-portraits \
    rotation-09-training-metrics rotation-10-bias-decomposition plasticity-04-trajectory \
    attention-01-distance-share attention-02-sink attention-04-previous attention-14-layer-heatmaps

if [ -f "$QKSCOPE_SHARED/data/published/scores.csv" ]; then
    mkdir -p "$out/scores"
    cp "$QKSCOPE_SHARED/data/published/scores.csv" "$out/scores"
    run report "$out/scores" --title 'Published models'
    take "$out/scores/figures" plasticity-05-score
else
    echo "no $QKSCOPE_SHARED/data/published: the figure of scores stays as it is"
fi
du -sh "$pictures"
