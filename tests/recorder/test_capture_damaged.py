# SPDX-License-Identifier: Apache-2.0
"""Models and captures that are damaged or lack a part: the run says which, and what to do."""
import json
import pathlib
import re
import shutil

import pytest

from recording import manifest_of, some_texts, write_jsonl, write_model


def spoil(folder, tensor, begin=0, count=64):
    """Bytes of a tensor that are all ones: numbers that are none."""
    path = next(folder.glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    name = next(n for n in header if n.endswith(tensor))
    at = 8 + size + header[name]["data_offsets"][0] + begin
    data[at:at + count] = b"\xff" * count
    path.write_bytes(data)


@pytest.mark.parametrize("tensor, head", [
    ("layers.1.self_attn.q_proj.weight", "layer 1, query head 0"),
    ("layers.1.self_attn.k_proj.weight", "layer 1, key head 0"),
    ("layers.0.mlp.down_proj.weight", "layer 1, ")])
def test_weights_that_are_not_numbers(qkscope, tmp_path, tensor, head):
    model, texts = tmp_path / "m", write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    write_model(model)
    words = ["capture", "-m", model, "-t", texts, "-o", tmp_path / "c", "--sampler", "all"]
    good = (model / "model.safetensors").read_bytes()
    spoil(model, tensor)
    says = qkscope(*words, expect=1).err
    assert head in says and "not finite" in says and "damaged" in says, says
    assert not (tmp_path / "c").exists()
    (model / "model.safetensors").write_bytes(good)
    qkscope(*words)


def test_only_heads_that_are_kept_are_looked_at(qkscope, tmp_path):
    """The last row of the last query head's weights: the head is named, and the others are good."""
    model, texts = tmp_path / "m", write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    config, weights = write_model(model)
    heads, last = config["num_attention_heads"], config["num_hidden_layers"] - 1
    name = f"layers.{last}.self_attn.q_proj.weight"
    size = next(w.size for n, w in weights.items() if n.endswith(name))
    path = next(model.glob("*.safetensors"))
    header = json.loads(path.read_bytes()[8:8 + int.from_bytes(path.read_bytes()[:8], "little")])
    begin, end = next(v["data_offsets"] for n, v in header.items() if n.endswith(name))
    width = (end - begin) // size
    spoil(model, name, begin=end - begin - width, count=width)
    words = ["capture", "-m", model, "-t", texts, "--sampler", "all", "-o"]
    assert f"layer {last}, query head {heads - 1}:" in qkscope(*words, tmp_path / "c", expect=1).err
    qkscope(*words, tmp_path / "d", "--heads", f"0-{heads - 2}")


# ---- captures that lack a part -------------------------------------------------------------------

@pytest.fixture(scope="module")
def whole(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_model(folder / "m")
    texts = write_jsonl(folder / "t.jsonl", some_texts(6))
    qkscope("capture", "-m", folder / "m", "-t", texts, "-o", folder / "c", "--sampler", "all", "--layers", "0,1")
    return folder / "c"


@pytest.fixture
def capture(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "c"))


def remove_folder(capture):
    shutil.rmtree(capture / "l01h01q")


def remove_file(capture):
    (capture / "l01h01q" / "data.parquet").unlink()


@pytest.mark.parametrize("damage", [remove_folder, remove_file])
def test_a_listed_head_that_is_not_there(qkscope, capture, tmp_path, damage):
    damage(capture)
    count = len(manifest_of(capture)["heads"])
    said = f"warning: {capture}: 1 of the {count} heads that capture.json lists are not there: l01h01q"
    outcome = qkscope("pca", capture, "-o", tmp_path / "out", expect=3)
    assert said in outcome.err
    assert re.search(r"l01h01q: .*l01h01q/data\.parquet: not there", outcome.err), outcome.err
    outcome = qkscope("pca", capture, "-o", tmp_path / "left", "--allow-missing", expect=0)
    assert said in outcome.err and "l01h01q: " not in outcome.err
    qkscope("pca", capture, "-o", tmp_path / "others", "--heads", "0", expect=0)
    outcome = qkscope("inspect", capture, expect=3)
    assert said in outcome.err and outcome.err.count("l01h01q") == 1
    assert json.loads(qkscope("inspect", capture, "--json", expect=3).out)["num_heads"] == count


def test_a_missing_key_head(qkscope, capture, tmp_path):
    shutil.rmtree(capture / "l01h00k")
    err = qkscope("pca", capture, "-o", tmp_path / "o", expect=3).err
    assert "l01h00q: its key head l01h00k is not in the capture" in err
    qkscope("pca", capture, "-o", tmp_path / "p", "--allow-missing", expect=0)


def test_a_head_of_another_length(qkscope, capture, tmp_path):
    """A file of another capture, or a shard that is not there."""
    pq = pytest.importorskip("pyarrow.parquet")
    path = capture / "l01h01q" / "data.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, len(table) - 1), path)
    says = f"{len(table) - 1} rows, but capture.json lists {len(table)} of this head"
    assert says in qkscope("pca", capture, "-o", tmp_path / "o", expect=3).err
    assert says in qkscope("inspect", capture, expect=3).err
    (capture / "capture.json").unlink()
    qkscope("pca", capture, "-o", tmp_path / "p", "--q-per-kv-group", "2", expect=0)


def test_without_a_list_nothing_is_missing(qkscope, capture, tmp_path):
    shutil.rmtree(capture / "l01h01q")
    manifest = manifest_of(capture)
    for heads in ([], None, 7, [3, {}, {"name": 5}, {"name": "x"}, {"rows": 1}]):
        (capture / "capture.json").write_text(json.dumps({**manifest, "heads": heads}))
        assert qkscope("inspect", capture, expect=0).err == ""
