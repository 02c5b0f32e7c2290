# SPDX-License-Identifier: Apache-2.0
"""qkscope.hf.ablate beside `qkscope ablate`, which runs the same models by itself. hf_ablate.py makes what is read here."""
import csv
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from hf_environment import hf_run, once

pytestmark = pytest.mark.test_all

SAVED, TINY = ROOT / "tests" / "data" / "saved", ROOT / "examples" / "kjv-tiny"
# Grouped key heads in all; windows in mistral and gemma3; norms of heads; pairs side by side, half of them, in glm4; queries
# scaled by position in ministral3; layers without RoPE in smollm3.
MODELS = [*(SAVED / name for name in ("llama", "mistral", "gemma3_text", "glm4", "ministral3", "smollm3")), TINY / "step-2004"]
WHAT = "remove,freeze,freeze:fast,freeze:2-40,profile,window:5,window:3:2,no-sink,uniform"
LENGTHS, MOST = (45, 60, 33), 64
PASSAGES = [json.loads(line)["text"] for line in (TINY / "passages.jsonl").read_text().splitlines()]
TEXTS = [PASSAGES[i][:n] for i, n in enumerate(LENGTHS)]


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    def make(folder):
        (folder / "jobs.json").write_text(json.dumps({"texts": TEXTS, "what": WHAT.replace("fast", "fast,freeze+first"),
                                                      "max_length": MOST}))
        hf_run(Path(__file__).with_name("hf_ablate.py"), folder, *MODELS)
    return once(tmp_path_factory, "hf_ablate", make)


def rows_of(ran, name, model):
    return {(row["layer"], row["q_head"], row["what"]): row for row in json.loads((ran / "rows.json").read_text())[name][str(model)]}


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_engine(ran, qkscope, model, tmp_path):
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    qkscope("ablate", "-m", model, "-t", tmp_path / "texts.jsonl", "--max-length", MOST, "-w", WHAT, "-q", "-o", tmp_path / "out",
            expect=0)
    with open(tmp_path / "out" / "ablation.csv", newline="") as file:
        engine = {(int(row["layer"]), int(row["q_head"]), row["what"]): row for row in csv.DictReader(file)}
    for name in ("eager", "sdpa"):
        own = rows_of(ran, name, model)
        assert own.keys() == {key for key in engine if key[2] not in ("freeze:fast+first", "freeze:2-40+first")}
        off = []
        for key, row in own.items():
            loss = float(engine[key]["loss"])
            assert row["loss"] == pytest.approx(loss, rel=1e-5)
            off.append([abs(row[column] - float(engine[key][column])) / loss for column in ("delta", "drift")])
            assert max(off[-1]) < 1e-5, (name, key, row["delta"], engine[key]["delta"])
            assert row["changed_texts"] == int(engine[key]["changed_texts"]), (name, key)
            # Some tokens change so little that rounding shows it on one side alone.
            assert row["changed"] == pytest.approx(float(engine[key]["changed"]), abs=0.05), (name, key)
        size = np.median([abs(float(engine[key]["drift"])) / loss for key in own])
        print(f"{name}: {len(off)} changes; delta off by {np.max(off, 0)[0]:.1e} of the loss, drift by {np.max(off, 0)[1]:.1e}; "
              f"median drift {size:.1e}")


def test_texts(ran):
    """A row over texts is that of its texts, token by token."""
    for row in rows_of(ran, "sdpa", TINY / "step-2004").values():
        tokens = [text["tokens"] for text in row["texts"]]
        assert [text["text"] for text in row["texts"]] == [0, 1, 2] and tokens == [n - 1 for n in LENGTHS]
        assert row["tokens"] == sum(tokens)
        for name in ("loss", "delta", "drift", "changed"):
            assert row[name] == pytest.approx(np.average([text[name] for text in row["texts"]], weights=tokens), rel=1e-12)


@pytest.mark.parametrize("name, words", [
    ("bidirectional", ["'bert'", "later keys"]), ("encoder-decoder", ["'t5'", "encoder-decoder"]),
    ("own attention", ["'bloom'", "computes attention by itself"]), ("no logits", ["LlamaModel", "AutoModelForCausalLM"]),
    ("word", ["'melt'", "remove"]), ("band", ["'freeze:9-x'"]), ("heads", ["7:*", "0, 1"]), ("one text", ["two or more"]),
    ("training", ["model.eval()"])])
def test_refused(ran, name, words):
    said = json.loads((ran / "checks.json").read_text())[name]
    assert said.startswith(("ArgumentError", "DataError")) and all(word in said for word in words), said


def test_chosen_heads(ran):
    found = json.loads((ran / "checks.json").read_text())["one head"]
    assert found == [[layer, head, what, 93, 3] for layer, head in ((0, 3), (1, 2)) for what in ("remove", "no-sink")]


def test_nothing_changed(ran):
    """In types that the engine does not run, too, whatever attention function they have: exactly 0."""
    for kind, (largest, smallest) in json.loads((ran / "checks.json").read_text())["nothing"].items():
        assert largest == 0 and smallest > 1e-6, kind


def test_positions(ran):
    """A head by itself without rotation is the model with all tokens in one place."""
    for kind, (loss, frozen, wanted) in json.loads((ran / "checks.json").read_text())["positions"].items():
        assert frozen == pytest.approx(wanted, rel=1e-6) and abs(frozen - loss) > 2e-5 * loss, kind
