# SPDX-License-Identifier: Apache-2.0
"""How many pages of pure noise claim something, where heads of a layer and neighbouring layers resemble each other:
the table of docs/dev/validation.md.

    PYTHONPATH=tests:tests/report python bench/null_pages.py [--pages 200] [--layers 12,24,48] [--kinds one]

Needs the program of the tests (QKSCOPE_BUILD, default build). A page is one model, two, six of two families, or six
checkpoints."""
import argparse
import collections
import pathlib
import tempfile

from findings_dump import findings_in
from random_studies import write_study

SETTINGS = ((0, 0), (0.4, 0.3), (0.6, 0.6), (0.5, 0.9), (0.66, 0.61))
PHASES = ("Stage 1", "Stage 1", "Stage 2", "Stage 2", "LC 32K", "LC 32K")
KINDS = {"one": {}, "two": {"models": 2}, "models": {"models": 6}, "training": {"models": 6, "phases": PHASES}}
SAYS = {"supported", "opposite", "divided"}


def claims(share, neighbours, pages, first_seed=0, **shape):
    """Of each page the names of the findings that claim something."""
    with tempfile.TemporaryDirectory() as folder:
        folders = [write_study(pathlib.Path(folder) / str(seed), first_seed + seed, of_layers=share,
                               neighbours=neighbours, **shape) for seed in range(pages)]
        return [[name for name, f in page.items() if f.verdict in SAYS] for page in findings_in(*folders)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--layers", default="12,24,48")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    print("| pages | layers |", *(f"{s:g}, {n:g} |" for s, n in SETTINGS))
    print("|---|---|" + "---|" * len(SETTINGS))
    for kind in options.kinds.split(","):
        for layers in map(int, options.layers.split(",")):
            names = collections.Counter()
            cells = []
            for i, (share, neighbours) in enumerate(SETTINGS):
                found = claims(share, neighbours, options.pages, 10000 * (i + 1), layers=layers, **KINDS[kind])
                cells.append(sum(map(bool, found)) / options.pages)
                names.update(name for page in found for name in page)
            print(f"| {kind} | {layers} |", *(f"{100 * c:.1f} % |" for c in cells), names.most_common(3) or "", flush=True)


if __name__ == "__main__":
    main()
