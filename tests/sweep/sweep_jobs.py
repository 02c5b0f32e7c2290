# SPDX-License-Identifier: Apache-2.0
"""The commands that write, a row each. A new one is a new row."""
import subprocess
import sys

from conftest import ROOT, environment
from sweeping import Job

sys.path.append(str(ROOT / "tests" / "recorder"))
from recording import some_texts, write_jsonl, write_model  # noqa: E402

ONE = ("--threads", "1", "--quiet")
CAPTURE = ("capture", "-m", "{in}/model", "-t", "{in}/t.jsonl", "--sampler", "all", "--layers", "1", "--heads", "0", *ONE, "-o", "{out}")
SUMS = ("capture", "-m", "{in}/model", "-t", "{in}/t.jsonl", "--keep", "moments,reservoir=2", "--stage", "both", "--layers", "1", *ONE,
        "-o", "{out}")
ANALYZE = ("analyze", "{in}/capture", "--layers", "0", *ONE, "-o", "{out}")
PCA = ("pca", "{in}/capture", "--layers", "0", *ONE, "-o", "{out}")
STUDY = ("study", "{in}/study.yaml", "--threads", "1", "--quiet", "--format", "svg", "-o", "{out}")
TABLES = (*STUDY, "--no-figures")
OTHER = ("--bucket", "7")

JOBS = [
    Job("capture", CAPTURE, old=(*CAPTURE, *OTHER), at_once=True),
    Job("capture-sums", SUMS, old=(*SUMS, *OTHER), at_once=True),
    Job("merge", ("merge", "{in}/part-0", "{in}/part-1", "{in}/part-2", *ONE, "-o", "{out}"), old=(*CAPTURE, *OTHER), at_once=True),
    Job("merge-tables", ("merge", "{in}/layer-0", "{in}/layer-1", *ONE, "--force", "-o", "{out}"), old=PCA),
    Job("analyze", ANALYZE, old=(*ANALYZE, "--components", "2")),
    Job("rotate", ("rotate", "{in}/capture", "--layers", "0", *ONE, "-o", "{out}"), before=(PCA,)),
    Job("report", ("report", "{out}", *ONE, "--format", "svg"), before=(PCA,), page="report.html", sample=2),
    Job("study", STUDY, old=(*STUDY, "--theme", "dark"), sample=1),
    Job("study-tables", TABLES, old=("study", "{in}/old.yaml", *TABLES[2:]), sample=4),
]


def write_inputs(program, folder):
    """What the jobs read: a model, texts, captures, shards in folders of their own, a study."""
    def run(*words):
        subprocess.run([program, *map(str, words)], check=True, env=environment(), cwd=folder, timeout=900)

    write_model(folder / "model")
    few = write_jsonl(folder / "few.jsonl", some_texts(2))
    write_jsonl(folder / "t.jsonl", some_texts(3))
    many = write_jsonl(folder / "many.jsonl", some_texts(90, 200, 300))
    capture = ["capture", "-m", folder / "model", "--sampler", "all", "--layers", "1", "--heads", "0", *ONE]
    for i in range(3):
        run(*capture, "-t", many, "--shard", f"{i}/3", "-o", folder / f"part-{i}")
    run("capture", "-m", folder / "model", "-t", few, "--sampler", "all", "--layers", "0,1", "--heads", "0,1", *ONE, "-o", folder / "capture")
    for layer in (0, 1):
        run("pca", "capture", "--layers", layer, *ONE, "-o", folder / f"layer-{layer}")
    for name, layer in (("study", 0), ("old", 1)):
        (folder / f"{name}.yaml").write_text(f"models:\n  - {{name: one, source: capture}}\nanalyses: [pca]\ndata: {{layers: {layer}}}\n")
