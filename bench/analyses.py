# SPDX-License-Identifier: Apache-2.0
"""Attention plasticity against a NumPy/SciPy loop, per pair; all analyses in one go against one by
one; memory. Prints Markdown; `make bench` runs it after run.py. Captures are made once in
BUILD/bench-data."""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from timed import timed

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))
from make_capture import make_capture  # noqa: E402


def synth(folder, **options):
    """A capture of made-up heads, made once."""
    if not (folder / "capture.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_capture(folder, **options)
    return folder


def printed_json(command):
    return json.loads(subprocess.run([*map(str, command)], check=True, capture_output=True,
                                     text=True).stdout)


def per_pair(build, work, runs):
    capture = synth(work / "one-head", layers=1, query_heads=1, q_per_kv_group=1, dim=128,
                    examples=500, rows=16, buckets=16, bucket_width=8192, r_q=0.6)
    table = []
    for _ in range(runs):
        loop = printed_json([sys.executable, HERE / "plasticity_loop.py", capture])
        own = printed_json([build / "bench" / "plasticity", capture])
        command = timed(build, [build / "qkscope", "plasticity", capture, "-o", work / "out", "--force",
                                "--threads", "1", "--quiet"])[0]
        table.append([loop["seconds"] / loop["pairs"], own["seconds"] / own["pairs"],
                      command / own["pairs"]])
    loop_ns, own_ns, command_ns = (1e9 * statistics.median(c) for c in zip(*table))
    print(f"\n{runs} interleaved runs, medians; {loop['pairs']:,} pairs sampled by the loop, all "
          f"{own['pairs']:,} here ({own['kernel']} kernel, one thread).\n")
    print("| | ns per pair | ratio |\n|---|---|---|")
    print(f"| NumPy/SciPy loop, `norm.cdf` per pair | {loop_ns:,.0f} | 1 |")
    for name, ns in (("plasticity of the head: query statistics, all tables", own_ns),
                     ("the whole command, from Parquet to CSV", command_ns)):
        print(f"| {name} | {ns:,.1f} | {loop_ns / ns:,.0f} |")


def together(build, work, runs):
    capture = synth(work / "many-heads", layers=8, query_heads=8, q_per_kv_group=2, dim=128,
                    examples=500, rows=16, buckets=16, bucket_width=8192)
    commands = {"pca": ["pca"], "rotate": ["rotate"], "plasticity": ["plasticity"],
                "analyze": ["analyze"], "analyze --ci 95": ["analyze", "--ci", "95"],
                "rotate --complement, 8 of the query heads": ["rotate", "--complement",
                                                              "--layers", "0"]}
    table = []
    for _ in range(runs):
        table.append([timed(build, [build / "qkscope", *command, capture, "-o", work / "out",
                                    "--force", "--quiet"]) for command in commands.values()])
    seconds = [statistics.median(run[i][0] for run in table) for i in range(len(commands))]
    peaks = [max(run[i][1] for run in table) for i in range(len(commands))]
    print("\n64 query heads, 32 key heads, 8,000 rows each, d = 128; "
          f"{runs} interleaved runs, medians.\n\n| command | seconds | peak MiB |\n|---|---|---|")
    for name, second, peak in zip(commands, seconds, peaks):
        print(f"| `{name}` | {second:.3f} | {peak:.1f} |")
    print(f"\n`analyze` takes {seconds[3] / (seconds[0] + seconds[2]):.2f} times `pca` plus "
          "`plasticity`.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    work = args.build / "bench-data"
    work.mkdir(exist_ok=True)
    per_pair(args.build, work, args.runs)
    together(args.build, work, args.runs)


if __name__ == "__main__":
    main()
