# SPDX-License-Identifier: Apache-2.0
"""`make bench`: qkscope against the Python pipeline on the same files, interleaved, then how far
we are from what this machine allows, then peak memory. Prints Markdown; docs/dev/performance.md
holds a copy with the machine it ran on. The capture (about 300 MB) is made once in
BUILD/bench-data."""
import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import capture_files
from timed import timed

HERE = Path(__file__).resolve().parent


def largest_difference(ours, theirs):
    keys = ["layer", "q_head", "pc"]
    both = pd.read_csv(ours).merge(pd.read_csv(theirs), on=keys, suffixes=("", "_py"))
    assert len(both) > 0
    sign = np.sign(both.r_q * both.r_q_py)
    return max((both.r_q - sign * both.r_q_py).abs().max(),
               (both.explained_variance - both.explained_variance_py).abs().max())


VARIANTS = {
    "as scripts run it": [],
    "one BLAS thread a process": ["--one-blas-thread"],
    "the same, in float64": ["--one-blas-thread", "--float64"],
}


def pipeline(build, capture, out, solver, options):
    """Seconds of the whole command, and without its imports."""
    whole, _, printed = timed(build, [sys.executable, HERE / "python_pipeline.py", capture, out,
                                      "--solver", solver, *options])
    return whole, float(printed)


def best_solver(build, capture, out, options):
    """The solver that scikit-learn is fastest with here."""
    seconds = {solver: pipeline(build, capture, out, solver, options)[1]
               for solver in ("covariance_eigh", "full", "randomized")}
    return min(seconds, key=seconds.get)


def compare(build, capture, work, runs):
    ours, theirs = work / "ours", work / "python.csv"
    print(f"{runs} interleaved runs each, medians of whole commands; ratio of medians to qkscope.\n")
    print("| | solver | seconds | ratio | imports not counted | ratio |\n|---|---|---|---|---|---|")
    for name, options in VARIANTS.items():
        solver = best_solver(build, capture, theirs, options)
        table = []
        for _ in range(runs):
            python = pipeline(build, capture, theirs, solver, options)
            own = timed(build, [build / "qkscope", "pca", capture, "-o", ours, "--quiet"])[0]
            table.append((*python, own))
        whole, inner, own = (statistics.median(column) for column in zip(*table))
        print(f"| Python pipeline, {name} | {solver} | {whole:.2f} | {whole / own:.1f} | "
              f"{inner:.2f} | {inner / own:.1f} |\n| qkscope beside it | | {own:.3f} | 1 | | |",
              flush=True)
        print(f"|   largest difference in r_q and explained variance | | "
              f"{largest_difference(ours / 'qk.csv', theirs):.1e} | | | |")
    manifest = json.loads((ours / "manifest.json").read_text())
    print("\nseconds by stage: " +
          ", ".join(f"{stage} {value:.3f}" for stage, value in manifest["runs"][-1]["seconds"].items()))


def limits(build, capture):
    out = json.loads(subprocess.run([build / "bench" / "limits", capture], check=True,
                                    capture_output=True, text=True).stdout)
    print("\n| one thread | this machine's limit | qkscope | share |\n|---|---|---|---|")
    copy, read = out["decompress_and_copy_gbps"], out["read_gbps"]
    print(f"| page bytes decoded, GB/s (limit: zstd-decompress and copy) | {copy:.2f} | "
          f"{read:.2f} | {read / copy:.0%} |")
    dsyrk, own = out["dsyrk_gflops"], out["moments_gflops"]
    print(f"| moments at {out['rows']} x {out['dim']}, GFLOP/s (OpenBLAS dsyrk, {out['kernel']} "
          f"kernel here) | {dsyrk:.1f} | {own:.1f} | {own / dsyrk:.0%} |")
    print("\nGram kernels by themselves, GFLOP/s: " +
          ", ".join(f"{name} {value:.1f}" for name, value in out["gram_gflops"].items()))
    print("\n| 10 leading eigenpairs, head dimension | LAPACK, ms | qkscope, ms | ratio |\n"
          "|---|---|---|---|")
    for dim, (own, lapack) in out["eigen_ms"].items():
        print(f"| {dim} | {lapack:.3f} | {own:.3f} | {lapack / own:.2f} |")


def memory(build, work):
    print("\n| rows per head | peak memory, MiB (2 threads) |\n|---|---|")
    for rows in (8_000, 800_000):
        capture = work / f"rows-{rows}"
        for name in ("l00h00q", "l00h00k"):
            path = capture / name / "data.parquet"
            if not path.exists():
                capture_files.write_head(path, rows, 128, rows, big_table=True)
        peak = timed(build, [build / "qkscope", "pca", capture, "-o", work / "memory", "--force",
                      "--threads", "2", "--quiet"])[1]
        print(f"| {rows:,} | {peak:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    work = args.build / "bench-data"
    capture = work / "capture"
    if not (capture / "complete").exists():
        subprocess.run([sys.executable, HERE / "capture_files.py", capture], check=True)
        (capture / "complete").touch()
    compare(args.build, capture, work, args.runs)
    limits(args.build, capture)
    memory(args.build, work)


if __name__ == "__main__":
    main()
