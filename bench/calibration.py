# SPDX-License-Identifier: Apache-2.0
"""How often a category is the true one, by its probability: heads whose truth is known
(tests/pca/clustered_texts.py), seen through few texts and analysed by the program. Prints the table of
docs/intervals.md. `python bench/calibration.py build/qkscope`, minutes."""
import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "pca")]
import clustered_texts  # noqa: E402
from conftest import head_name, write_rows  # noqa: E402


def table_of(program, kind, heads, texts, seed):
    rng, truth = np.random.default_rng(seed), []
    with tempfile.TemporaryDirectory() as folder:
        capture, out = Path(folder) / "c", Path(folder) / "out"
        for head, (category, q, k) in enumerate(clustered_texts.heads(rng, kind, heads, texts)):
            truth.append(category)
            for name, x in ("q", q), ("k", k):
                write_rows(capture, head_name(0, head, name), clustered_texts.columns(x, texts))
        subprocess.run([program, "pca", capture, "-o", out, "--q-per-kv-group", "1", "--quiet"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(out / "heads.csv", newline="") as file:
            return list(csv.DictReader(file)), truth


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--heads", type=int, default=400)
    args = parser.parse_args()
    print("| heads | texts | 0.5 to 0.8: said, right | 0.8 to 0.95: said, right | from 0.95: said, right |")
    print("|---|--:|--:|--:|--:|")
    for kind in clustered_texts.KINDS:
        for texts in (10, 40):
            cells = [f"{said:.3f}, {right:.3f} ± {np.sqrt(right * (1 - right) / heads):.3f} of {heads}"
                     for heads, said, right in clustered_texts.judge(
                         *table_of(args.program, kind, args.heads, texts, 30))]
            print(f"| {kind} | {texts} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
