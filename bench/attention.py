# SPDX-License-Identifier: Apache-2.0
"""What measuring attention adds to a prefill (qk_prefill_settings.attention), in processor time of one thread: runs in
turns without and with it, random weights, so that the largest score of a row moves more often than in trained heads.
SmolLM2-135M's shapes with 3 of its 30 layers at 8,192 tokens, and a Llama of 100 million parameters with 4 of 12 at
4,096. The last layer projects keys alone there; what its queries and their scores cost is told apart, of the model with
all of its layers. Prints Markdown. Models are made once in BUILD/bench-data."""
import argparse
import statistics
from pathlib import Path

from prefill import make_llama, ours

SHAPES = {"SmolLM2-135M": (30, 8192, ("smollm2-3", 576, 1536, 3, 9, 3, 64, 49152)),
          "Llama, 100M": (12, 4096, ("llama-100m-4", 768, 2048, 4, 12, 4, 64, 32000))}


def interleaved(build, model, tokens, names, runs):
    """[[processor seconds of each] of every round]"""
    return [[ours(build, "run", model, tokens, 1, name)["cpu"] for name in names] for _ in range(runs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    print("| | tokens | arithmetic | seconds | measured, too | ratio of neighbours, median | quartiles | last layer, of "
          "all | memory |\n|---|--:|---|--:|--:|--:|---|--:|--:|")
    for title, (layers, tokens, shape) in SHAPES.items():
        model, run_layers = make_llama(args.build / "bench-data" / shape[0], *shape[1:]), shape[3] - 1
        for arithmetic in ("float32", "bf16"):
            names = [arithmetic + more for more in (",inner", ",inner,attention", "", ",attention")]
            rounds = interleaved(args.build, model, tokens, names, args.runs)
            ratios = sorted(b / a for a, b, _, _ in rounds)
            quartiles = statistics.quantiles(ratios, n=4)
            plain, measured = (statistics.median(r[i] for r in rounds) for i in (0, 1))
            # What the last layer adds with attention beyond what it adds without.
            last = statistics.median((d - c) - (b - a) for a, b, c, d in rounds) / (plain / run_layers * (layers - 1))
            memory = [ours(args.build, "run", model, tokens, 1, name)["peak_mib"] for name in names[2:]]
            print(f"| {title} | {tokens:,} | {arithmetic} | {plain:.2f} | {measured:.2f} | "
                  f"{100 * (statistics.median(ratios) - 1):+.1f} % | {100 * (quartiles[0] - 1):+.1f} % to "
                  f"{100 * (quartiles[2] - 1):+.1f} % | {100 * last:+.1f} % | "
                  f"{100 * (memory[1] / memory[0] - 1):+.1f} % |", flush=True)


if __name__ == "__main__":
    main()
