# SPDX-License-Identifier: Apache-2.0
"""A packed capture (a file a layer and kind) against the same with a file a head: processor time and
seconds of whole commands, interleaved, as ratios. Prints Markdown; `make bench` runs it. The captures
are made once in BUILD/bench-data."""
import argparse
import os
import statistics
from pathlib import Path

from analyses import synth
from timed import measured

COMMANDS = {
    "`pca`, one thread": ["pca", "--threads", "1"],
    "`pca`": ["pca"],
    "`rotate`": ["rotate"],
    "`pca` of one query head": ["pca", "--heads", "20", "--layers", "0", "--threads", "1"],
    "`inspect`": ["inspect"],
}


def megabytes(folder):
    files = [p for p in folder.rglob("*.parquet")]
    return len(files), sum(p.stat().st_size for p in files) / 1e6


def compare(build, heads, packed, runs, work):
    for name, words in COMMANDS.items():
        ratios, seconds = [], []
        for i in range(runs + 1):  # the first one fills the page cache
            pair = {}
            for capture in (heads, packed) if i % 2 else (packed, heads):
                output = [] if words[0] == "inspect" else ["-o", work / "out", "--force"]
                pair[capture] = measured(build, [build / "qkscope", words[0], capture, *words[1:], *output,
                                                 "--quiet"])[0]
            ratios.append([pair[packed][k] / pair[heads][k] for k in ("processor_seconds", "seconds")])
            seconds.append([pair[c]["processor_seconds"] for c in (heads, packed)])
        one, other = (statistics.median(c) for c in zip(*seconds[1:]))
        processor, wall = (statistics.median(c) for c in zip(*ratios[1:]))
        print(f"| {name} | {one:.3f} | {other:.3f} | {processor:.3f} | {wall:.3f} |", flush=True)


CAPTURES = {
    "36 heads of 36,000 rows, d = 128, a row group each":
        ("layout-large", dict(layers=1, query_heads=32, examples=18, rows=2000)),
    "144 heads of 12,000 rows, d = 128, 16 row groups each":
        ("layout-small", dict(layers=2, query_heads=64, examples=12, rows=1000, row_group_rows=750)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    work = args.build / "bench-data"
    work.mkdir(exist_ok=True)
    for title, (name, shape) in CAPTURES.items():
        heads, packed = (synth(work / (name + end), layout=layout, q_per_kv_group=8, dim=128, buckets=16,
                               bucket_width=128, **shape) for end, layout in (("", "heads"), ("-packed", "packed")))
        (n, size), (m, total) = megabytes(heads), megabytes(packed)
        print(f"\n{title}: {n} files of {size:.0f} MB, packed {m} of {total:.0f} MB; {args.runs} interleaved "
              f"runs, medians; {os.cpu_count()} processors.\n")
        print("| command | processor seconds, a file a head | packed | ratio | ratio of seconds |\n|---|---|---|---|---|")
        compare(args.build, heads, packed, args.runs, work)


if __name__ == "__main__":
    main()
