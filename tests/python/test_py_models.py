# SPDX-License-Identifier: Apache-2.0
"""What is run over a model: loss and ablate give what the commands give."""
import json

import pytest

from conftest import ROOT

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXT = "repeat:16x2:3"
CHANGES = "remove,window:8:2"
TABLES = ["ablation.csv", "ablation_heads.csv", "ablation_groups.csv", "ablation_positions.csv"]


@pytest.fixture(scope="module")
def command(qkscope, tmp_path_factory):
    """The folder of the command's ablation, and what it said."""
    folder = tmp_path_factory.mktemp("ablation") / "out"
    said = qkscope("ablate", "-m", MODEL, "-t", TEXT, "--what", CHANGES, "-o", folder, "--json", expect=0)
    return folder, json.loads(said.out)


@pytest.fixture(scope="module")
def ablation():
    return qk.ablate(MODEL, TEXT, what=CHANGES, progress=False)


# ---- loss ---------------------------------------------------------------------------------

def test_losses_are_those_of_the_command(qkscope):
    texts = [TEXT, "repeat:1x1:1", "repeat:24x2:1:7"]
    words = [word for text in texts for word in ("-t", text)]
    said = json.loads(qkscope("loss", "-m", MODEL, *words, "--max-length", 40, "--json", expect=0).out)
    losses = qk.loss(MODEL, texts, max_length=40, threads=1, progress=False)
    for name in ("model", "tokens", "loss", "perplexity", "truncated", "skipped", "empty"):
        assert getattr(losses, name) == said[name], name
    assert [vars(one) for one in losses.texts] == said["texts"] and losses.texts[3].loss is None
    assert [one.window for one in losses.texts] == [0, 0, 0, 0, 0, 1]
    assert [vars(one) for one in losses.positions] == said["positions"]
    assert losses.seconds > 0


def test_what_loss_refuses(tmp_path):
    for model, text in ((tmp_path / "nowhere", TEXT), (MODEL, tmp_path / "nowhere")):
        with pytest.raises(qk.NotFoundError, match="nowhere"):
            qk.loss(model, text, progress=False)
    with pytest.raises(qk.DataError, match="none has two tokens"):
        qk.loss(MODEL, "repeat:1x1:1", progress=False)
    for wrong in ({"max_length": 0}, {"text": None}, {"model": None}, {"dtype": "float8"}):
        (name,) = wrong
        with pytest.raises(qk.ArgumentError, match=f"^{name}="):
            qk.loss(**{"model": MODEL, "text": TEXT, **wrong})
    with pytest.raises(TypeError, match=r"loss\(\) got an unexpected keyword argument 'texts'. Did you mean 'text'"):
        qk.loss(MODEL, TEXT, texts=TEXT)
    with pytest.raises(qk.Cancelled):
        qk.loss(MODEL, TEXT, tokens_at_once=32, progress=lambda *_: False)


# ---- ablate -------------------------------------------------------------------------------

def test_tables_are_those_of_the_command(command, ablation):
    folder, said = command
    assert ablation.tables == TABLES
    for name in TABLES:
        assert (ablation.folder / name).read_bytes() == (folder / name).read_bytes(), name
    assert ablation.ablation.column("delta") == [one["delta"] for one in said["effects"]]
    assert ablation.ablation.column("share") == [one["share"] for one in said["effects"]]
    assert (ablation.model, ablation.num_heads, ablation.complete) == ("step-2004", 20, True)
    assert ablation.seconds > 0 and ablation.forecast is None and ablation.check() is ablation
    assert ablation.manifest["command_line"] == f"qkscope.ablate({str(MODEL)!r}, text={TEXT!r}, what={CHANGES!r})"


def test_an_ablation_of_a_folder(command, ablation, tmp_path):
    for folder in (command[0], ablation.save(tmp_path / "saved")):
        read = qk.Results.read(folder)
        assert (read.model, read.num_heads, read.tables) == ("step-2004", 20, TABLES)
        assert read.confidence("ablation") == 95 and read.confidence("ablation_positions") is None
        assert read.ablation.column("delta") == ablation.ablation.column("delta")
    listed = ablation.heads_summary(sort="-remove_loss", columns="layer,q_head,remove_loss", top=3)
    assert listed.column("remove_loss") == sorted(ablation.ablation_heads.column("remove_loss"), reverse=True)[:3]
    assert "ablation-01-remove" in ablation.figures


@pytest.mark.test_all
def test_groups_and_levels(tmp_path):
    results = qk.ablate(MODEL, [TEXT], output=tmp_path / "out", what="remove", groups=["layer", "2:1"], draws=2, ci=90,
                        controls=True, progress=False)
    assert results.folder == tmp_path / "out" and results._owned is None
    assert results.ablation_groups.column("group") == [*(f"layer {i}" for i in range(5)), "2:1"]
    assert results.confidence("ablation_groups") == 90


def test_a_dry_run_says_how_long(tmp_path):
    results = qk.ablate(MODEL, TEXT, output=tmp_path / "out", dry_run=True, progress=False)
    assert results.forecast.texts == 3 and results.forecast.branches == 80 and results.forecast.flops > 1e9
    assert results.forecast.seconds > 0 and not results.complete and results.tables == []
    assert not list(tmp_path.glob("out/*.csv"))
    with pytest.raises(qk.PartialError, match="a dry run makes no tables"):
        results.save(tmp_path / "saved")


def test_shards_of_an_ablation(command, tmp_path):
    parts = [qk.ablate(MODEL, TEXT, what=CHANGES, output=tmp_path / "out", shard=(i, 2), progress=False) for i in (1, 0)]
    assert [part.complete for part in parts] == [False, True]
    with pytest.raises(qk.PartialError, match="of 3 parts of this ablation are there"):
        parts[0].check()
    for name in TABLES:
        assert (tmp_path / "out" / name).read_bytes() == (command[0] / name).read_bytes(), name
    with pytest.raises(TypeError, match="one output folder"):
        qk.ablate(MODEL, TEXT, shard=(0, 2))


def test_what_ablate_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for wrong, text in (({"what": "erase"}, "^what: \"erase\""), ({"draws": -1}, "^draws=-1"), ({"groups": ["where"]}, "groups"),
                        ({"shard": (2, 2), "output": tmp_path / "out"}, r"^shard=\(2, 2\)"), ({"model": 3}, "^model=3"),
                        ({"text": None}, "^text=None"), ({"what": "direction:pc0"}, "capture")):
        with pytest.raises(qk.ArgumentError, match=text):
            qk.ablate(**{"model": MODEL, "text": TEXT, "progress": False, **wrong})
    with pytest.raises(qk.NotFoundError):
        qk.ablate(tmp_path / "nowhere", TEXT, progress=False)
    with pytest.raises(TypeError, match=r"ablate\(\) got an unexpected keyword argument 'whta'. Did you mean 'what'"):
        qk.ablate(MODEL, TEXT, whta="remove")
    with pytest.raises(qk.Cancelled):
        qk.ablate(MODEL, TEXT, threads=1, progress=lambda *_: False)
    assert not list(tmp_path.iterdir())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "ablation.csv").write_text("mine")
    with pytest.raises(qk.ExistsError, match="ablation.csv"):
        qk.ablate(MODEL, TEXT, output=tmp_path / "out", progress=False)
    assert (tmp_path / "out" / "ablation.csv").read_text() == "mine"
