# SPDX-License-Identifier: Apache-2.0
"""Every command at the size of published captures: seconds by the clock and peak memory. `qwen3`: the shape of Qwen3-8B,
10,000 rows a head in 1,024 buckets of 131,072 positions; `smollm3`: ten checkpoints of the shape of SmolLM3 (one capture, ten
names) as a study; `moments`: 70B parameters, from moments of 64 shards. Captures are made once in --scratch and stay there: 2.7,
1.3 and 33 GB. `python bench/large.py build --scratch DIR qwen3 smollm3 moments`; --before: another program, in turns."""
import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
from analyses import synth
from timed import measured

ROWS = {"examples": 10, "rows": 1000, "buckets": 1024, "bucket_width": 128}
QWEN3 = {"layers": 36, "query_heads": 32, "q_per_kv_group": 4, "dim": 128, **ROWS}
SMOLLM3 = {"layers": 36, "query_heads": 16, "q_per_kv_group": 4, "dim": 128, **ROWS}
LAYERS, QUERY_HEADS, KEY_HEADS, DIM, SHARDS, TOKENS = 80, 64, 8, 128, 64, 256


def size_of(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return f"{sum(path.stat().st_size for path in files) / 1e9:.2f} GB, {len(files):,} files"


def tell(build, programs, name, words, out=None, keep=False):
    """A line of the table; each program begins with no output."""
    cells = []
    for program in programs:
        if out and not keep:
            shutil.rmtree(out, ignore_errors=True)
        figures, _ = measured(build, [program, *words, *(["-o", out] if out else []), "--quiet"])
        cells += [f"{figures['seconds']:.1f}", f"{figures['processor_seconds']:.1f}", f"{figures['peak_mib']:.0f}"]
    print(f"| {name} |", " | ".join(cells), f"| {size_of(out) if out and out.exists() else ''} |", flush=True)


def header(programs, title):
    print(f"\n{title}\n\n| |" + " s | processor s | peak MiB |" * len(programs) + " output |\n|---|" + "--:|" * 3 * len(programs) + "---|")


def qwen3(build, programs, scratch):
    capture, out = synth(scratch / "qwen3-8b", **QWEN3), scratch / "out"
    header(programs, f"Qwen3-8B: {size_of(capture)}")
    for name, words in {"inspect": ["inspect"], "pca": ["pca"], "rotate": ["rotate"], "rotate --complement": ["rotate", "--complement"],
                        "plasticity": ["plasticity"], "analyze": ["analyze"],
                        "plasticity --buckets capture --layers 0": ["plasticity", "--buckets", "capture", "--layers", "0"],
                        "scatter --random 4": ["scatter", "--random", "4"],
                        "analyze --ci 95 --complement --lda": ["analyze", "--ci", "95", "--complement", "--lda"],
                        "analyze --ci 95": ["analyze", "--ci", "95"]}.items():
        tell(build, programs, f"`{name}`", [words[0], capture, *words[1:]], None if name == "inspect" else out)
    tell(build, programs, "`report` of that", ["report", out, "--force"], scratch / "report")


def smollm3(build, programs, scratch):
    capture = synth(scratch / "smollm3", **SMOLLM3)
    study = scratch / "smollm3.yaml"
    study.write_text("title: SmolLM3\nmodels:\n" + "".join(
        f"  - {{name: step-{i}, phase: pretraining, source: {capture.resolve()}}}\n" for i in range(10)))
    header(programs, f"SmolLM3, ten checkpoints: each {size_of(capture)}")
    tell(build, programs, "`study`", ["study", study], scratch / "study")
    tell(build, programs, "the same again", ["study", study], scratch / "study", keep=True)


def record(folder, shard):
    """Moments of one text by one process, as a device that ran the model would leave them."""
    import qkscope
    rng = np.random.default_rng(shard)
    noise = rng.standard_normal((QUERY_HEADS, TOKENS, DIM)).astype(np.float32)
    drift = np.linspace(-1, 1, TOKENS, dtype=np.float32)[None, :, None] * rng.standard_normal((1, 1, DIM)).astype(np.float32)
    model = qkscope.Model("70b", num_layers=LAYERS, num_q_heads=QUERY_HEADS, num_k_heads=KEY_HEADS, head_dim=DIM)
    with qkscope.Sink(folder, keep="moments", model=model, texts=SHARDS, shard=(shard, SHARDS)) as sink:
        for number in filter(sink.wants, range(SHARDS)):
            with sink.text(number, tokens=TOKENS, example_id=number):
                for layer in range(LAYERS):
                    x = np.roll(noise, layer + 1, axis=2) + drift
                    sink.put(number, layer, "q", x)
                    sink.put(number, layer, "k", x[:KEY_HEADS] * 0.7 - drift)


def moments(build, programs, scratch):
    sys.path.insert(0, str(build / "python"))
    shards = [scratch / "shards" / f"{i:02}" for i in range(SHARDS)]
    for i, folder in enumerate(shards):
        if not folder.exists():
            record(folder, i)
    header(programs, f"70B, moments of {SHARDS} shards: {size_of(scratch / 'shards')}")
    whole, out = scratch / "70b", scratch / "70b-out"
    tell(build, programs, "`merge`", ["merge", *shards], whole)
    for words in (["inspect"], ["pca"], ["rotate"], ["analyze"], ["analyze", "--ci", "95"]):
        tell(build, programs, f"`{' '.join(words)}`", [words[0], whole, *words[1:]], None if words == ["inspect"] else out)
    tell(build, programs, "`report` of that", ["report", out, "--force"], scratch / "70b-report")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("parts", nargs="+", choices=["qwen3", "smollm3", "moments"])
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--before", type=Path)
    args = parser.parse_args()
    programs = [p for p in (args.before, args.build / "qkscope") if p]
    args.scratch.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        globals()[part](args.build, programs, args.scratch)


if __name__ == "__main__":
    main()
