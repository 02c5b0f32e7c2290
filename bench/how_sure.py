# SPDX-License-Identifier: Apache-2.0
"""The picture of docs/how-sure.md: two heads whose truth is known, each seen through twenty sets of ten texts.
`python bench/how_sure.py build/qkscope docs/how-sure.svg`, seconds."""
import argparse
from pathlib import Path

import numpy as np
from calibration import analysed, clustered_texts

SETS, TEXTS, OF_SLOPES, SCALE = 20, 10, 0.08, np.array([3, 1.5, 1.2, 1, 0.8, 0.5])
COLORS = {"position-dominated": "#0072b2", "mixed": "#98a1ab"}
# Of the drawing, in pixels.
WIDTH, TOP, STEP, PANEL = 860, 70, 17, 270
FROM, TO = 0.4, 1.0


def head(r_q):
    """Correlations of queries and keys with position in each direction; the first has most of the variance."""
    return np.array([[r_q, 0, 0, 0, 0, 0], [0.88, 0, 0, 0, 0, 0]])


def seen(program, r, seed):
    """Of each set of texts: category, its probability, r_q and the interval about it."""
    rng = np.random.default_rng(seed)
    heads = [[clustered_texts.columns(clustered_texts.rows(rng, one, SCALE, TEXTS, OF_SLOPES), TEXTS) for one in r]
             for _ in range(SETS)]
    table, components = analysed(program, {"heads.csv": "pca", "qk.csv": "pca"}, heads, "--ci", "95")
    first = [row for row in components if row["pc"] == "0"]
    return [(row["category"], float(row["category_probability"]),
             *(float(pc[name]) for name in ("r_q_cv", "r_q_lo", "r_q_hi"))) for row, pc in zip(table, first, strict=True)]


def text(x, y, words, anchor="middle", color="#1f2328", size=13, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" font-size="{size}"{more}>{words}</text>'


def line(x1, y1, x2, y2, color, width=1, more=""):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
            f'stroke-width="{width}"{more}/>')


def panel(left, title, true, sets):
    bottom = TOP + STEP * SETS

    def at(r):
        return left + (min(max(r, FROM), TO) - FROM) / (TO - FROM) * PANEL
    held = sum(low <= true <= high for _, _, _, low, high in sets)
    certain = sum(probability >= 0.95 for _, probability, *_ in sets)
    parts = [text(left, 20, title, "start", size=15, more=' font-weight="bold"'),
             text(left, 38, f"{held} of {SETS} intervals hold the truth; certain in {certain} of {SETS}", "start", "#59636e"),
             line(at(0.7), TOP - 8, at(0.7), bottom, "#1f2328", 1, ' stroke-dasharray="4 3"'),
             text(at(0.7) - 4, TOP - 12, "threshold", "end", size=12),
             line(at(true), TOP - 8, at(true), bottom, "#cb181d", 1.5),
             text(at(true) + 4, TOP - 12, "truth", "start", "#cb181d", 12),
             text(left + PANEL + 12, TOP - 12, "probability", "start", size=12)]
    for i, (category, probability, r_q, low, high) in enumerate(sets):
        y, color = TOP + STEP * (i + 0.5), COLORS[category]
        parts += [line(at(low), y, at(high), y, color, 2), f'<circle cx="{at(r_q):.1f}" cy="{y:.1f}" r="4" fill="{color}"/>',
                  text(left + PANEL + 12, y + 4, f"{probability:.2f}", "start",
                       "#1f2328" if probability >= 0.95 else "#59636e", 12)]
    parts.append(line(left, bottom, left + PANEL, bottom, "#59636e"))
    for r in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1):
        parts += [line(at(r), bottom, at(r), bottom + 4, "#59636e"), text(at(r), bottom + 18, f"{r:g}", size=12)]
    parts.append(text(left + PANEL / 2, bottom + 38, "r_q with its 95 % interval; a line is a set of ten texts", size=12))
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    height = TOP + STEP * SETS + 80
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif">', "<title>Two heads, each seen through twenty sets of ten texts</title>",
             f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>']
    for seed, (left, title, r_q) in enumerate(((60, "A head near a threshold", 0.73), (480, "A head far from it", 0.87))):
        parts += panel(left, title, r_q, seen(args.program, head(r_q), seed))
    for left, (category, color) in zip((60, 250), COLORS.items()):
        parts += [f'<circle cx="{left + 6}" cy="{height - 18}" r="5" fill="{color}"/>',
                  text(left + 18, height - 14, category, "start")]
    args.picture.write_text("\n".join([*parts, "</svg>", ""]))


if __name__ == "__main__":
    main()
