# SPDX-License-Identifier: Apache-2.0
"""Makes the small results in tests/data/figures/ that golden figures are drawn from:
`python3 make_figure_tables.py build/qkscope`. They are committed, so that a picture changes only
when figures do: three models, one of them the bundled capture, and four checkpoints."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "kjv-tiny-capture"
TABLES = ["qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv",
          "head_distance.csv", "head_component_weights.csv", "models.csv", "scores.csv"]
SIZE = ["--layers=5", "--query-heads=4", "--dim=16", "--examples=2", "--rows=120", "--buckets=8"]
SETTINGS = """\
data: {layers: "0,2,4", heads: "0,3"}
pca: {n_components: 4}
"""
CROSS = """
  - {name: kjv-tiny, family: Tiny, source: example}
  - {name: made-up, family: Made up, source: a}
  - {name: "a_b^c {d} <e>", label: "a_b^c {d} <e>", family: "it's 100 %", source: b}
scores: scores.csv
"""
TRAINING = """
  - {name: step-10, phase: Warm-up, source: a}
  - {name: step-200, phase: Main, source: b}
  - {name: step-800, phase: Main, source: c}
  - {name: step-900, phase: Decay, source: d}
"""
STUDIES = {
    "cross": ("Three models", CROSS, {"a": ["--seed=3"], "b": ["--seed=8", "--r-k=0.2"]}),
    "training": ("Four checkpoints", TRAINING,
                 {"a": ["--r-q=0.2", "--r-k=0.1", "--separation=1"],
                  "b": ["--r-q=0.6", "--r-k=0.4", "--separation=2"],
                  "c": ["--r-q=0.8", "--r-k=0.75", "--separation=4"],
                  "d": ["--r-q=0.85", "--r-k=0.8", "--separation=5"]}),
}
SCORES = "model,family,Score\nkjv-tiny,Tiny,41.5\nmade-up,Made up,62\n\"a_b^c {d} <e>\",it's 100 %,55.25\n"


def make(program, name, folder):
    title, models, captures = STUDIES[name]
    for capture, options in captures.items():
        subprocess.run([program, "synth", "-o", folder / capture, *SIZE, *options, "--quiet"],
                       check=True)
    (folder / "example").symlink_to(EXAMPLE)
    (folder / "scores.csv").write_text(SCORES)
    (folder / "study.yaml").write_text(f"title: {title}\n{SETTINGS}models:{models}")
    subprocess.run([program, "study", "study.yaml", "-o", "out", "--no-figures", "--quiet"],
                   check=True, cwd=folder)
    target = HERE / "figures" / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for table in TABLES:
        if (folder / "out" / table).exists():
            (target / table).write_text(shorter((folder / "out" / table).read_text()))


def shorter(text):
    """Seven digits of every number are more than a picture shows."""
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.7g}", text)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    for name in STUDIES:
        with tempfile.TemporaryDirectory() as folder:
            make(program, name, pathlib.Path(folder))


if __name__ == "__main__":
    main()
