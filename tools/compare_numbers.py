# SPDX-License-Identifier: Apache-2.0
"""Whether two builds of qkscope say the same of the same tables: `heads --json`, a study of five checkpoints, two comparisons, and
both of a made study of 11 models; all texts, and all numbers to a relative difference of 1e-12.

    python tools/compare_numbers.py OLD NEW --steps FOLDER_OF_CAPTURES [--work DIR] [--heads 1000]"""
import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))

from made_tables import write_cross_model  # noqa: E402

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
TIMES = re.compile(r'"(seconds|command_line|bytes|xxh3_128|date)":.*|"(open|heads|tables)": \d+\.\d{6,}|\b[0-9.]+ s\b|computed +[0-9.]+')


def run(binary, words, cwd):
    done = subprocess.run([binary, *map(str, words)], cwd=cwd, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1", "QKSCOPE_OFFLINE": "1"})
    return f"{done.returncode}\n{done.stdout}\n{done.stderr}"


def same(a, b, tolerance=1e-12):
    """Lines that differ, in texts or by more than the tolerance in numbers."""
    differ = []
    left, right = TIMES.sub("", a).splitlines(), TIMES.sub("", b).splitlines()
    if len(left) != len(right):
        differ.append((f"{len(left)} lines", f"{len(right)} lines"))
    for x, y in zip(left, right):
        if x == y:
            continue
        words = NUMBER.sub("#", x) == NUMBER.sub("#", y)
        numbers = zip(map(float, NUMBER.findall(x)), map(float, NUMBER.findall(y)))
        if not words or not all(math.isclose(p, q, rel_tol=tolerance, abs_tol=1e-15) for p, q in numbers):
            differ.append((x, y))
    return differ


def files(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*"))
            if path.suffix in (".csv", ".json") and not path.name.startswith(".")}


def captured(binary, cases, work):
    """What a build says and writes, by name."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    said = {}
    for name, words in cases:
        out = work / name
        said[name] = run(binary, [str(word).replace("@", str(out)) for word in words], work)
        if out.is_dir():
            said |= {f"{name}/{file}": text for file, text in files(out).items()}
    return said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--steps", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/compare-numbers"))
    parser.add_argument("--heads", type=int, default=1000)
    args = parser.parse_args()
    work, old = args.work.resolve(), args.old.resolve()
    work.mkdir(parents=True, exist_ok=True)
    cross = work / f"cross-{args.heads}"
    if not (cross / "models.csv").exists():
        write_cross_model(cross, args.heads)
    steps = sorted((path for path in args.steps.iterdir() if path.is_dir()), key=lambda path: int(path.name.split("-")[1]))
    for path in (steps[0], steps[-1]):
        if not (work / path.name / "manifest.json").exists():
            print(run(old, ["analyze", path, "-o", work / path.name, "--ci", "95", "--quiet"], work))
    models = "".join(f"  - name: {p.name}\n    label: {p.name}\n    family: kjv\n    phase: train\n    source: {p}\n" for p in steps)
    (work / "study.yaml").write_text(f"title: steps\nanalysis:\n  ci: 95\nmodels:\n{models}")
    (work / "families.yaml").write_text((work / "study.yaml").read_text().replace("    phase: train\n", ""))
    a, b = work / steps[0].name, work / steps[-1].name
    names = [row["model"] for row in csv.DictReader((cross / "models.csv").open())]
    cases = [("heads", ["heads", b, "--json"]), ("heads-table", ["heads", b, "--sort", "-r_q"]),
             ("heads-two", ["heads", a, b, "--json"]), ("heads-cross", ["heads", cross, "--json"]),
             ("study", ["study", work / "study.yaml", "-o", "@", "--no-figures"]),
             ("study-json", ["study", work / "families.yaml", "-o", "@", "--no-figures", "--json"]),
             ("compare", ["compare", a, b, "-o", "@", "--no-html"]),
             ("compare-json", ["compare", a, b, "-o", "@", "--no-html", "--json"]),
             ("compare-cross", ["compare", f"{cross}:{names[0]}", f"{cross}:{names[1]}", "-o", "@", "--no-html"]),
             ("compare-page", ["compare", b, a, "-o", "@"])]
    before, after = captured(old, cases, work / "run"), captured(args.new.resolve(), cases, work / "run")
    (work / "before.json").write_text(json.dumps(before, indent=1))
    (work / "after.json").write_text(json.dumps(after, indent=1))
    bad = sorted(set(before) ^ set(after))
    for name in bad:
        print(f"{name}: only {'before' if name in before else 'after'}")
    for name in sorted(set(before) & set(after)):
        differ = same(before[name], after[name])
        bad += [name] * bool(differ)
        for x, y in differ[:3]:
            print(f"{name}:\n  - {x[:300]}\n  + {y[:300]}")
    print(f"{len(before)} texts and files of {len(cases)} commands: {'the same' if not bad else f'{len(bad)} differ'}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
