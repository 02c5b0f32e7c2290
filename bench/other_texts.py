# SPDX-License-Identifier: Apache-2.0
"""Whether the heads of a real model keep their category with other texts, as often as category_probability says: the
table of docs/dev/smollm2.md.

    python bench/other_texts.py PROGRAM WORK CAPTURE CAPTURE...

The captures are of one model and of as many texts each, none of them in two. Each is analysed by itself, and all
but each together, in WORK (on the disk of the captures, whose files are linked there)."""
import argparse
import csv
import itertools
import os
import subprocess
from pathlib import Path

import numpy as np
from scipy.stats import t as student

BINS = ((0.5, 0.8), (0.8, 0.95), (0.95, 1.0001))


def analysed(program, capture, out, *options):
    if not (out / "heads.csv").exists():
        subprocess.run([program, "pca", capture, "-o", out, "--quiet", *options], check=True)
    with open(out / "heads.csv", newline="") as file:
        return {(row["layer"], row["q_head"]): row for row in csv.DictReader(file)}


def joined(captures, folder):
    """The rows of all, as files of the same heads."""
    for number, capture in enumerate(captures):
        for file in capture.glob("l*/*.parquet"):
            to = folder / file.parent.name / f"{number}-{file.name}"
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists():
                os.link(file, to)
    return folder


def share(values, heads):
    """Mean, and its standard error with heads as units."""
    values, mean = np.asarray(values, float), np.mean(values)
    by_head = {}
    for head, value in zip(heads, values, strict=True):
        by_head[head] = by_head.get(head, 0) + value - mean
    return mean, np.sqrt(sum(x * x for x in by_head.values())) / len(values)


def expected(probability, more, groups):
    """Of a head near one threshold: how often another set agrees, whose own error adds `more` times the variance."""
    return student.cdf(student.ppf(probability, groups - 1) / np.sqrt(1 + more), groups - 1)


def row_of(sets, others, low, high):
    """A row of the table: of heads and sets whose probability is in that range, how often the category is found again
    in all other sets together, and in another set."""
    def probability(n, head):
        return float(sets[n][head]["category_probability"] or "nan")
    chosen = [(n, head) for n, head in itertools.product(range(len(sets)), sets[0]) if low <= probability(n, head) < high]
    said = np.array([probability(n, head) for n, head in chosen])
    texts = int(sets[0][chosen[0][1]]["texts"])
    pairs = [(n, m, head) for n, head in chosen for m in range(len(sets)) if m != n]
    together = share([others[n][head]["category"] == sets[n][head]["category"] for n, head in chosen],
                     [head for _, head in chosen])
    another = share([sets[m][head]["category"] == sets[n][head]["category"] for n, m, head in pairs],
                    [head for _, _, head in pairs])
    cells = [f"{np.mean(expected(said, more, texts)):.3f}, {mean:.3f} ± {error:.3f}"
             for more, (mean, error) in ((1 / (len(sets) - 1), together), (1, another))]
    return f"| {low:g} to {min(high, 1):g} | {len(chosen)} | {said.mean():.3f} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("work", type=Path)
    parser.add_argument("captures", type=Path, nargs="+")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    sets, others = [], []
    for number, capture in enumerate(args.captures):
        sets.append(analysed(args.program, capture, args.work / f"set-{number}"))
    heads_of = {kind: len({row[kind] for row in sets[0].values()}) for kind in ("q_head", "k_head")}
    group = heads_of["q_head"] // heads_of["k_head"]
    for number, capture in enumerate(args.captures):
        rest = [one for one in args.captures if one != capture]
        others.append(analysed(args.program, joined(rest, args.work / f"without-{number}"),
                               args.work / f"others-{number}", "--q-per-kv-group", str(group)))
    print("| category_probability | heads and sets | said | the other sets together agree: expected, found | "
          "another set agrees: expected, found |\n|---|--:|--:|--:|--:|")
    for low, high in BINS:
        print(row_of(sets, others, low, high))


if __name__ == "__main__":
    main()
