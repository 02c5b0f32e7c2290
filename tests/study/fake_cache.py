# SPDX-License-Identifier: Apache-2.0
"""Small captures in a Hugging Face cache, under the names that the published studies use."""
import hashlib
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies"
CONFIGS = ROOT / "configs" / "attention_plasticity"
DATASET = "viktoroo/sniffed-qk"

# query heads, key heads of each layer, as the models' own configurations have them
CROSS_MODEL = {
    "qwen3-0.6b": (16, 8), "qwen3-1.7b": (16, 8), "qwen3-4b": (32, 8), "qwen3-8b": (32, 8),
    "qwen3-14b": (40, 8), "llama3.2-1b": (32, 8), "llama3.2-3b": (24, 8),
    "llama3.2-11b": (32, 8), "ministral3-3b": (32, 8), "ministral3-8b": (32, 8),
    "ministral3-14b": (32, 8), "llama3.1-8b": (32, 8), "mistral-v0.2-7b": (32, 8)}
SMOLLM3 = {name: (16, 4) for name in (
    "S1-40K", "S1-1.2M", "S1-2.4M", "S1-3.4M", "S2-4.2M", "S3-4.7M", "LC1-4K", "LC1-20K",
    "LC2-4K", "LC2-20K")}
MODELS = {**CROSS_MODEL, **SMOLLM3}


def revision_of(name):
    """Branch of the dataset that a model's configuration names."""
    text = (CONFIGS / f"{name}.yaml").read_text()
    return re.search(r"^  revision: (\S+)$", text, re.M).group(1)


def group_of(name):
    queries, keys = MODELS[name]
    return queries // keys


def add_capture(home, name, folder):
    """Puts a capture into the cache below `home` as the revision of a model."""
    repo = home / "hub" / ("datasets--" + DATASET.replace("/", "--"))
    revision = revision_of(name)
    commit = hashlib.sha1(revision.encode()).hexdigest()
    snapshot = repo / "snapshots" / commit
    shutil.copytree(folder, snapshot)
    (snapshot / "capture.json").unlink(missing_ok=True)  # the published ones have none
    (repo / "refs").mkdir(exist_ok=True)
    (repo / "refs" / revision).write_text(commit)
    return snapshot
