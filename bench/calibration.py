# SPDX-License-Identifier: Apache-2.0
"""How often a category is the true one, by its probability, and how often intervals along a leave out 0: heads
whose truth is known (tests/pca/clustered_texts.py), seen through few texts and analysed by the program. Prints
two tables of docs/intervals.md. `python bench/calibration.py build/qkscope`, minutes."""
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


ALONG = ("r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength")


def analysed(program, tables, heads, *options):
    """Rows of tables, each named with the command that makes it. heads: (queries, keys) of each, in a layer."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        capture, out = Path(folder) / "c", Path(folder) / "out"
        for head, kinds in enumerate(heads):
            for name, columns in zip("qk", kinds):
                write_rows(capture, head_name(0, head, name), columns)
        for table, command in tables.items():
            subprocess.run([program, command, capture, "-o", out, "--q-per-kv-group", "1", "--quiet", *options],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(out / table, newline="") as file:
                found.append(list(csv.DictReader(file)))
    return found


def categories(program, kind, heads, texts, seed):
    """(table, true categories)"""
    truth, made = [], []
    for category, *kinds in clustered_texts.heads(np.random.default_rng(seed), kind, heads, texts):
        truth.append(category)
        made.append([clustered_texts.columns(x, texts) for x in kinds])
    [table] = analysed(program, {"heads.csv": "pca"}, made)
    return table, truth


def drifting(rng, drift, texts, tokens=256, d=32, autocorrelation=0.98):
    """Queries and keys of one head, whose rows are like their neighbours', with a line over position of this
    size in a random direction, and means apart."""
    at, scale = (np.arange(tokens) - tokens / 2) / tokens, np.exp(-2 * np.arange(d) / d)
    apart, kinds = 1.5 * rng.standard_normal(d) / np.sqrt(d), []
    for sign in (1, -1):
        noise = rng.standard_normal((texts, tokens, d))
        for i in range(1, tokens):
            noise[:, i] = autocorrelation * noise[:, i - 1] + np.sqrt(1 - autocorrelation ** 2) * noise[:, i]
        x = scale * (noise + 0.5 * rng.standard_normal((texts, 1, d))) + sign * apart
        x += at[None, :, None] * drift * rng.standard_normal(d) / np.sqrt(d)
        kinds.append({"vector": x.reshape(-1, d).astype(np.float32), "position": np.tile(np.arange(tokens), texts),
                      "example_id": np.repeat(np.arange(texts), tokens)})
    return kinds


def excluded(program, drift, heads, texts, seed):
    """Of intervals along a, the share that leave out 0."""
    rng = np.random.default_rng(seed)
    [rows] = analysed(program, {"rotated.csv": "rotate"}, (drifting(rng, drift, texts) for _ in range(heads)),
                      "--ci", "95")
    return [np.mean([not float(row[f"{name}_lo"]) <= 0 <= float(row[f"{name}_hi"]) for row in rows])
            for name in ALONG]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--heads", type=int, default=400)
    parser.add_argument("--texts", default="4,10,40", help="of the first table")
    args = parser.parse_args()
    print("| heads | texts | 0.5 to 0.8: said, right | 0.8 to 0.95: said, right | from 0.95: said, right |")
    print("|---|--:|--:|--:|--:|")
    for kind in clustered_texts.KINDS:
        for texts in map(int, args.texts.split(",")):
            table, truth = categories(args.program, kind, args.heads, texts, 30)
            if not any(row["category_probability"] for row in table):
                print(f"| {kind} | {texts} | not told | not told | not told |")
                continue
            cells = [f"{said:.3f}, {right:.3f} ± {np.sqrt(right * (1 - right) / heads):.3f} of {heads}"
                     for heads, said, right in clustered_texts.judge(table, truth)]
            print(f"| {kind} | {texts} | {' | '.join(cells)} |", flush=True)
    print("\n| drift | texts |", " | ".join(ALONG), "|\n|---|--:|--:|--:|--:|--:|--:|")
    for drift in (0, 0.5, 2):
        for texts in (10, 40):
            shares = excluded(args.program, drift, args.heads // 2, texts, 3)
            print(f"| {drift} | {texts} |", " | ".join(f"{100 * s:.1f} %" for s in shares), "|", flush=True)


if __name__ == "__main__":
    main()
