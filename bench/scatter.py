# SPDX-License-Identifier: Apache-2.0
"""Scatter collages: seconds and peak memory of whole commands. Prints Markdown; `make bench` runs it. The capture is made once in BUILD/bench-data."""
import argparse
import statistics
from pathlib import Path

from analyses import synth
from timed import timed

COMMANDS = {
    "2x2 panels of 16,000 points": ["--collage"],
    "the same, PNG as well": ["--collage", "--format", "png"],
    "the same in the plane (a, b)": ["--collage", "--basis", "ab"],
    "one head": [],
    "30 pairs of the complement, 4,000 points each": ["--basis", "complement"],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    work = args.build / "bench-data"
    work.mkdir(exist_ok=True)
    capture = synth(work / "scatter", layers=1, query_heads=8, q_per_kv_group=2,
                    dim=128, examples=500, rows=16, buckets=16, bucket_width=8192)
    folder = work / "figures"
    table = {name: [] for name in COMMANDS}
    for _ in range(args.runs):
        for name, options in COMMANDS.items():
            table[name].append(timed(args.build, [args.build / "qkscope", "scatter", capture, "-o",
                                                  folder, "--name", "f", "--quiet", *options]))
    print(f"\nScatter: 8,000 rows of each kind a head, d = 128; {args.runs} interleaved runs, medians.\n")
    print("| | seconds | peak MiB |\n|---|---|---|")
    for name, runs in table.items():
        print(f"| {name} | {statistics.median(r[0] for r in runs):.2f} | "
              f"{max(r[1] for r in runs):.1f} |")


if __name__ == "__main__":
    main()
