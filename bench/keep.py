# SPDX-License-Identifier: Apache-2.0
"""What keeping costs: processor time and peak memory of `qkscope capture` with rows and with moments over
those of the prefill alone, by a random Llama of 100 million parameters (d = 64), all positions kept. The
programs run one after another, round after round; of each the run with the least processor time counts,
since what else the machine does only adds to it. Prints Markdown. The model is made once in BUILD/bench-data; captures lie in --scratch while they are
made."""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from prefill import make_llama
from timed import measured

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "recorder"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from recording import write_tokenizer  # noqa: E402

WAYS = {"moments": ["--keep", "moments"], "moments, no groups": ["--keep", "moments", "--groups", "0"],
        "moments, 8 of each bucket": ["--keep", "moments,reservoir=8"], "rows": ["--keep", "rows"],
        "one row in 1,280": ["--keep", "rows", "--sampler", "uniform", "--base-rate", "0.1"]}


def write_texts(path, tokens, texts):
    """Every byte is a token."""
    letters = bytes(97 + i * 7919 % 26 for i in range(tokens)).decode()
    each = tokens // texts
    path.write_text("".join(json.dumps({"text": letters[i * each:(i + 1) * each]}) + "\n" for i in range(texts)))
    return path


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    parser.add_argument("--scratch", type=Path)
    args = parser.parse_args()
    model = make_llama(args.build / "bench-data" / "llama-100m", 768, 2048, 12, 12, 4, 64, 32000)
    write_tokenizer(model)
    with tempfile.TemporaryDirectory(dir=args.scratch) as scratch:
        bench(args, model, Path(scratch))


def bench(args, model, scratch):
    texts = write_texts(scratch / "texts.jsonl", args.tokens, args.texts)
    alone = [args.build / "bench" / "prefill", "run", model, args.tokens, args.threads, "float32", args.texts]
    figures, sizes = {way: [] for way in ("prefill", *args.ways)}, {}
    for _ in range(args.runs):
        figures["prefill"].append(measured(args.build, alone)[0])
        for way in args.ways:
            out = scratch / "out"
            words = [args.build / "qkscope", "capture", "-m", model, "-t", texts, "-o", out, "--threads", args.threads,
                     "--quiet", "--sampler", "all", *WAYS[way]]
            figures[way].append(measured(args.build, words)[0])
            sizes[way] = size_of(out)
            shutil.rmtree(out)
    processor = subprocess.run(["sh", "-c", "grep -m1 'model name' /proc/cpuinfo | cut -d: -f2"],
                               capture_output=True, text=True).stdout.strip()
    print(f"\nA Llama of 100 million parameters, {args.texts} texts of {args.tokens // args.texts:,} tokens, all "
          f"192 heads and positions, {args.threads} thread{'s' * (args.threads > 1)}, {args.runs} interleaved runs, the least processor time and the median peak of each; {processor}.\n\n"
          "| | processor seconds | over the prefill | peak memory | over the prefill | on disk |\n|---|--:|--:|--:|--:|--:|")
    for way, runs in figures.items():
        spent = min(r["processor_seconds"] for r in runs)
        ratio = spent / min(r["processor_seconds"] for r in figures["prefill"])
        peak = statistics.median(r["peak_mib"] for r in runs)
        more = peak - statistics.median(r["peak_mib"] for r in figures["prefill"])
        cells = [f"{100 * ratio - 100:.1f} %", f"{more:.0f} MiB", f"{sizes[way]:.1f} MiB"] if way in sizes else [""] * 3
        print(f"| {way} | {spent:.2f} | {cells[0]} | {peak:.0f} MiB | {cells[1]} | {cells[2]} |")


if __name__ == "__main__":
    main()
