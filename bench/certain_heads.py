# SPDX-License-Identifier: Apache-2.0
"""Certain heads of results with --ci 95 whose interval of r_q or of r_k holds a threshold, and those whose category changes
with it. `python bench/certain_heads.py RESULTS...`, the counts of docs/dev/smollm2.md."""
import csv
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "pca"))
from clustered_texts import CATEGORIES, classify  # noqa: E402

CERTAIN, THRESHOLDS = 0.95, (-0.7, -0.3, 0.3, 0.7)


def rows(file):
    with open(file, newline="") as text:
        return list(csv.DictReader(text))


def changes(r_q, r_k, q_ends, k_ends):
    """Whether another category begins within the interval of one number, the other being what it is."""
    own, steps = classify(r_q, r_k), [i / 1000 for i in range(1001)]

    def within(ends):
        return [ends[0] + step * (ends[1] - ends[0]) for step in steps]
    return any(classify(q, r_k) != own for q in within(q_ends)) or any(classify(r_q, k) != own for k in within(k_ends))


def main():
    for folder in map(Path, sys.argv[1:]):
        first = {(row["layer"], row["q_head"]): row for row in rows(folder / "qk.csv") if row["pc"] == "0"}
        heads = [row for row in rows(folder / "heads.csv") if row["category_probability"]]
        certain = [row for row in heads if float(row["category_probability"]) >= CERTAIN]
        holding, changing = [], []
        for row in certain:
            pc0 = first[row["layer"], row["q_head"]]
            q_ends, k_ends = ([float(pc0[f"{name}_{end}"]) for end in ("lo", "hi")] for name in ("r_q", "r_k"))
            if any(low <= at <= high for at in THRESHOLDS for low, high in (q_ends, k_ends)):
                holding.append(row)
            r_q, r_k = float(pc0["r_q"]), float(pc0["r_k"])
            assert CATEGORIES[classify(r_q, r_k)] == row["category"]
            if changes(r_q, r_k, q_ends, k_ends):
                changing.append((row, r_q, q_ends, r_k, k_ends))
        print(f"{folder}: {len(heads)} heads with a probability, {len(certain)} certain; an interval holds a threshold in "
              f"{len(holding)}, and another category in {len(changing)}")
        for row, r_q, q_ends, r_k, k_ends in changing:
            print(f"  layer {row['layer']} head {row['q_head']}: {row['category']} {float(row['category_probability']):.4f}; "
                  f"r_q {r_q:.3f} ({q_ends[0]:.3f} to {q_ends[1]:.3f}), r_k {r_k:.3f} ({k_ends[0]:.3f} to {k_ends[1]:.3f})")


if __name__ == "__main__":
    main()
