# SPDX-License-Identifier: Apache-2.0
"""How often 95 % intervals of plasticity hold the truth: heads of a few populations, seen through few texts that differ
among themselves, with all pairs of keys and with those that are drawn by default. The truth is what very many texts of the
population give. Prints the table of docs/dev/validation.md; `width`: how far the widths of the two are apart, root of the mean
square. `python bench/plasticity_intervals.py build/qkscope --heads 100 --texts 10,40`, half an hour beside other work."""
import argparse

import intervals
import numpy as np
from calibration import analysed

NAMES, TOKENS, MANY = ("ap_overall", "ap_drop"), 256, 1500
BUCKETS = ("--buckets", "16")
WAYS = {"all pairs": (*BUCKETS, "--max-pairs", "0"), "drawn": BUCKETS}


def ends(row, name):
    return [float(row[f"{name}_{end}"]) for end in ("lo", "hi")]


def judge(program, kinds, truth, heads, texts, rng):
    """{way: [name][head] whether the interval holds the truth}, {way: [name][head] its width}"""
    made = [[intervals.columns(rng, kind, texts) for kind in kinds] for _ in range(heads)]
    held, width = {}, {}
    for way, options in WAYS.items():
        [table] = analysed(program, {"head_metrics.csv": "plasticity"}, made, "--ci", "95", *options)
        found = np.array([[ends(row, name) for row in table] for name in NAMES])
        held[way] = (found[..., 0] <= truth[:, None]) & (truth[:, None] <= found[..., 1])
        width[way] = found[..., 1] - found[..., 0]
    return held, width


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--heads", type=int, default=150)
    parser.add_argument("--populations", type=int, default=6)
    parser.add_argument("--texts", default="10,16,40")
    parser.add_argument("--drift", default="0.3,0.9")
    args = parser.parse_args()
    intervals.TOKENS = TOKENS
    intervals.AT = (np.arange(TOKENS) - (TOKENS - 1) / 2) / np.sqrt((TOKENS ** 2 - 1) / 12)
    print("| r | texts |", " | ".join(f"{name}, {way}" for name in NAMES for way in WAYS),
          "|", " | ".join(f"width of {name}" for name in NAMES), "|\n|---|--:|" + "--:|" * 6)
    for r in map(float, args.drift.split(",")):
        rng = np.random.default_rng(4)
        held = {texts: {way: [] for way in WAYS} for texts in map(int, args.texts.split(","))}
        off = {texts: [] for texts in held}
        for _ in range(args.populations):
            kinds = intervals.population(rng, r)
            many = [[intervals.columns(rng, kind, MANY) for kind in kinds]]
            [[row]] = analysed(args.program, {"head_metrics.csv": "plasticity"}, many, *WAYS["all pairs"])
            truth = np.array([float(row[name]) for name in NAMES])
            for texts in held:
                told, width = judge(args.program, kinds, truth, args.heads, texts, rng)
                for way in WAYS:
                    held[texts][way].append(told[way])
                off[texts].append(width["drawn"] / width["all pairs"] - 1)
        for texts in held:
            cells = [f"{100 * np.concatenate(held[texts][way], axis=1)[i].mean():.1f} %"
                     for i in range(len(NAMES)) for way in WAYS]
            apart = 100 * np.sqrt((np.concatenate(off[texts], axis=1) ** 2).mean(axis=1))
            print(f"| {r:g} | {texts} |", " | ".join(cells), "|", " | ".join(f"{x:.1f} %" for x in apart), "|", flush=True)


if __name__ == "__main__":
    main()
