# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the original capture tool: what they do, and which words refuse them."""
import json
import os

import pytest

from conftest import head_names
from recording import (examples_of, files_of, manifest_of, some_texts, table_of, text_id, write_jsonl,
                       write_model)

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def sniff_qk(program, qkscope, tmp_path_factory):
    """The program under its other name."""
    link = tmp_path_factory.mktemp("bin") / "sniff-qk"
    os.symlink(program, link)
    return lambda *words, **options: qkscope(*words, executable=link, **options)


@pytest.fixture
def place(tmp_path):
    write_model(tmp_path / "model")
    write_jsonl(tmp_path / "train.jsonl", some_texts(5, 60, 120), [f"id-{i}" for i in range(5)])
    return tmp_path


def settings(place, **changes):
    """The sections of a small file; a value of `changes` replaces a section's keys one by one."""
    sections = {"dataset": {"path": str(place / "train.jsonl")}, "model": {"name": str(place / "model")},
                "tokenizer": {}, "inference": {}, "capture": {}, "output": {"data_root": str(place / "c")}}
    for name, keys in changes.items():
        sections[name] = {**sections.get(name, {}), **keys} if isinstance(keys, dict) else keys
    return sections


def write(place, sections):
    (place / "c.yaml").write_text(json.dumps(sections, indent=1))  # JSON is YAML
    return place / "c.yaml"


def test_a_whole_file(sniff_qk, qkscope, place):
    """Every key of the original, with the same rows as options of the same meaning."""
    path = place / "c.yaml"
    path.write_text(f"""
dataset:
  path: {place}/train.jsonl
  name: null
  split: train
  text_column: text
  id_column: id
  max_samples: 4
  streaming: true
model:
  name: {place}/model
  revision: null
  dtype: bfloat16
  device_map: auto
  trust_remote_code: true
  attn_implementation: sdpa
  config_overrides:
    rope_scaling: {{rope_type: linear, factor: 2.0}}
tokenizer:
  name: {place}/model
  max_length: 100
  padding: longest
  padding_side: right
  trust_remote_code: false
inference:
  batch_size: 2
  autocast_dtype: float16
  debug_logging: false
  distributed: true
  backend: nccl
capture:
  capture_queries: true
  capture_keys: true
  layers: [0, 2]
  heads: [0, 1]
  head_sampling: null
  full_attention_only: false
  sampler: {{type: UNIFORM, base_rate: 2.0}}
  max_rows_per_batch: 0
  min_bucket_size: 8
  capture_pre_rope: false
  capture_token_strings: true
output:
  data_root: {place}/c
  readme_path: README.md
  hf_repo_id: someone/somewhere
  hf_branch: main
  private: true
  write_batch_size: 100
""")
    err = sniff_qk("--config", path, expect=0).err
    for key in ("model.dtype", "device_map", "streaming", "inference.backend", "hf_repo_id",
                "write_batch_size"):
        assert key in err
    assert "nothing is uploaded" in err
    names = ["l00h00k", "l00h00q", "l00h01k", "l00h01q", "l02h00k", "l02h00q", "l02h01k", "l02h01q"]
    assert head_names(place / "c") == names  # the list of heads is for keys, too
    rows = examples_of(place / "c")
    assert [int(r["example_id"]) for r in rows] == [text_id(f"id-{i}") for i in range(4)]
    qkscope("capture", "-m", place / "model", "-t", place / "train.jsonl", "--id-column", "id", "-o",
            place / "d", "--max-texts", 4, "--max-length", 100, "--layers", "0,2", "--sampler", "uniform",
            "--base-rate", 2, "--bucket", 8, "--token-strings", "--long", "cut", expect=0)
    ours, theirs = table_of(place / "c", "l02h01q"), table_of(place / "d", "l02h01q")
    assert ours["position"] == theirs["position"] and ours["token_str"] == theirs["token_str"]
    assert (ours["vector"] != theirs["vector"]).any()  # the override changed the rotation
    manifest = manifest_of(place / "c")
    assert manifest["rope"]["type"] == "linear"
    assert json.loads(manifest["run"]["model"]["overrides"]) == {
        "rope_scaling": {"rope_type": "linear", "factor": 2.0}}


def test_defaults(sniff_qk, place):
    sniff_qk("--config", write(place, settings(place)), expect=0)
    run = manifest_of(place / "c")["run"]
    assert run["sampler"] == {"type": "log_uniform", "base_rate": 1.0, "bucket_size": 128, "max_rows": 0}
    assert run["texts"]["max_length"] == 4096 and run["texts"]["long"] == "cut"
    assert run["selection"]["compat"] is True


def test_heads_of_layers_that_are_not_captured(sniff_qk, place):
    """Without self-attention, or left out: the original draws from them, so that fewer heads come out."""
    write_model(place / "crossed", "mllama_text_model")
    sections = settings(place, model={"name": str(place / "crossed")}, tokenizer={"name": str(place / "model")},
                        capture={"head_sampling": {"count": 8, "seed": 0}, "sampler": {"type": "all"}})
    sniff_qk("--config", write(place, sections), expect=0)
    names, draw = head_names(place / "c"), manifest_of(place / "c")["head_sampling"]
    assert draw["candidates"] == 16 and draw["selected_query_heads"] == 8
    assert 0 < sum(name.endswith("q") for name in names) < 8 and {name[:3] for name in names} <= {"l00", "l02"}
    write_model(place / "windowed", "mistral", sliding_window=8)
    sections = settings(place, model={"name": str(place / "windowed")}, tokenizer={"name": str(place / "model")},
                        capture={"full_attention_only": True})
    assert "no heads are left" in sniff_qk("--config", write(place, sections), "-o", place / "d", expect=1).err


def test_pre_rope_and_drawn_heads(sniff_qk, place):
    sections = settings(place, capture={"capture_pre_rope": True, "capture_keys": False,
                                        "head_sampling": {"count": 5, "seed": 3},
                                        "sampler": {"type": "all"}})
    sniff_qk("--config", write(place, sections), expect=0)
    manifest = manifest_of(place / "c")
    assert manifest["stage"] == "pre-rope" and manifest["head_sampling"]["seed"] == 3
    assert len(head_names(place / "c")) == 5


def hub_repo(home, kind, name):
    repo = home / "hub" / f"{kind}--{name.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text("a" * 40)
    snapshot = repo / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    return snapshot


def test_model_and_dataset_in_the_cache(sniff_qk, qkscope, place):
    """Of a dataset, the files of the split; of a model, the name of the Hub."""
    model, data = (hub_repo(place / "hf", kind, f"org/{kind}") for kind in ("models", "datasets"))
    write_model(model)
    (data / "README.md").write_text("not a text")
    (data / "data").mkdir()
    write_jsonl(data / "data" / "train-00000-of-00001.jsonl", some_texts(3))
    write_jsonl(data / "data" / "test-00000-of-00002.jsonl", some_texts(7))  # whose other part is no matter
    sections = settings(place, dataset={"path": "org/datasets"}, model={"name": "org/models"})
    env = {"HF_HOME": place / "hf"}
    sniff_qk("--config", write(place, sections), "--sampler", "all", env=env, expect=0)
    manifest = manifest_of(place / "c")
    assert manifest["model"] == "org/models" and manifest["texts"]["count"] == 3
    assert "org/models" in qkscope("inspect", "org/models", env=env, expect=0).out
    missing = sniff_qk("--config", write(place, settings(place, model={"name": "org/other"})), "-o",
                       place / "d", env=env, expect=1).err
    assert "hf download org/other --repo-type model" in missing


@pytest.mark.cases(11)
@pytest.mark.parametrize("changes, words", [
    ({"dataset": {"colour": "red"}}, ["line", "dataset.colour"]),
    ({"capture": {"sampler": "uniform"}}, ["line", "capture.sampler"]),
    ({"capture": {"sampler": {"type": "cubic"}}}, ["line", "capture.sampler.type", "cubic"]),
    ({"capture": {"head_sampling": 300}}, ["line", "capture.head_sampling"]),
    ({"capture": {"layers": [0, "x"]}}, ["line", "capture.layers"]),
    ({"capture": {"capture_queries": False, "capture_keys": False}}, ["capture_queries"]),
    ({"capture": {"capture_keys": "maybe"}}, ["line", "capture.capture_keys"]),
    ({"model": {"dtype": "int8"}}, ["line", "model.dtype", "int8"]),
    ({"tokenizer": {"max_length": "long"}}, ["line", "tokenizer.max_length"]),
    ({"tokenizer": {"padding_side": "left"}, "inference": {"batch_size": 2}}, ["padding_side"]),
    ({"extra": {}}, ["line", "extra"])])
def test_refused(sniff_qk, place, changes, words):
    path = write(place, settings(place, **changes))
    err = sniff_qk("--config", path, expect=2).err
    for word in ["c.yaml", *words]:
        assert word in err, err
    assert not (place / "c").exists()


def test_missing_sections(sniff_qk, place):
    for section in settings(place):
        sections = settings(place)
        del sections[section]
        assert f"section {section} is missing" in sniff_qk("--config", write(place, sections), expect=2).err


def test_heads_of_keys(sniff_qk, place):
    """With a list of heads the original takes it for keys as well, and there are two of them."""
    path = write(place, settings(place, capture={"heads": [3]}))
    assert "heads of keys" in sniff_qk("--config", path, expect=1).err


def test_aliases_do_not_explode(sniff_qk, place):
    layers = "\n".join(f"    a{i}: &a{i} [{', '.join(f'*a{i - 1}' for _ in range(9))}]"
                       for i in range(1, 20))
    path = write(place, settings(place))
    path.write_text("dataset: {path: x}\nmodel:\n  name: y\n  config_overrides:\n    a0: &a0 [1]\n"
                    + layers + "\ntokenizer:\ninference:\ncapture:\noutput:\n")
    assert "config_overrides" in sniff_qk("--config", path, expect=2).err
