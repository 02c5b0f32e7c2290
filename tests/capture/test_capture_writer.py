# SPDX-License-Identifier: Apache-2.0
"""A capture as other programs see it: columns, manifest, and the card's configurations."""
import json

import pytest

from conftest import VERSION

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
np = pytest.importorskip("numpy")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = {"bucket": "int32", "example_id": "int64", "position": "int32",
           "vector": "list<element: float>", "sliding_window": "int32"}


NAMES = ["l00h00q", "l00h00k", "l00h01q", "l00h01k", "l00h02q", "l00h03q"]


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("capture") / "c"
    rng = np.random.default_rng(0)
    qk.write_capture(folder, {name: rng.normal(size=(600, 16)).astype(np.float32) for name in NAMES}, model="made up",
                     q_per_kv_group=2, source="a test", rope_frequencies=[1, 0.5])
    return folder


def front_matter(folder):
    text = (folder / "README.md").read_text()
    assert text.startswith("---\n")
    return text[4:].split("\n---\n")[0]


def test_layout_and_manifest(capture):
    manifest = json.loads((capture / "capture.json").read_text())
    assert list(manifest) == ["format", "format_version", "tool", "model", "q_per_kv_group",
                              "source", "complete", "heads", "rope", "rope_frequencies"]
    assert manifest["format"] == "qkscope-capture" and manifest["format_version"] == 1
    assert manifest["tool"] == f"qkscope {VERSION}" and manifest["model"] == "made up"
    assert manifest["q_per_kv_group"] == 2 and manifest["complete"] is True
    assert manifest["heads"] == [{"name": n, "rows": 600, "dim": 16} for n in NAMES]
    assert sorted(p.name for p in capture.iterdir()) == sorted(
        NAMES + ["README.md", "capture.json"])
    for name in NAMES:
        rows = sum(pq.read_metadata(f).num_rows for f in (capture / name).iterdir())
        assert rows == 600


def test_columns(capture):
    plain = capture / "l00h00q" / "data.parquet"
    assert {f.name: str(f.type) for f in pq.read_schema(plain)} == COLUMNS
    assert pq.read_table(plain)["sliding_window"].null_count == 600


@pytest.mark.test_all
def test_card(capture):
    pytest.importorskip("yaml.loader")  # yaml alone may be the folder tests/yaml
    import yaml
    card = yaml.safe_load(front_matter(capture))
    assert [c["config_name"] for c in card["configs"]] == NAMES
    for config in card["configs"]:
        assert config["data_files"] == [
            {"split": "train", "path": f"{config['config_name']}/data.parquet"}]
    text = (capture / "README.md").read_text()
    assert "# Query and key vectors: made up" in text
    assert "| l00h01k | 600 | 16 |" in text


@pytest.mark.test_all
def test_datasets_loads_it(capture, tmp_path):
    datasets = pytest.importorskip("datasets")
    names = datasets.get_dataset_config_names(str(capture))
    assert set(names) == set(NAMES)
    loaded = datasets.load_dataset(str(capture), "l00h01k", split="train",
                                   cache_dir=str(tmp_path))
    files = sorted((capture / "l00h01k").iterdir())
    wanted = [row for f in files for row in pq.read_table(f).to_pylist()]
    assert loaded.to_list() == wanted
