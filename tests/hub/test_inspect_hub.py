# SPDX-License-Identifier: Apache-2.0
"""`qkscope inspect org/name`: footers and headers by ranges, nothing fetched."""
import json

import pytest
from conftest import EXAMPLE
from fake_hub import FakeHub
from test_fetch_commands import MODEL, files_of, run
from test_get import NAME


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


def inspect(hub, home, *words, expect=0, **extra):
    out, said = run(hub, home, "inspect", *words, "--json", expect=expect, **extra)
    return (json.loads(out) if out else None), said


def ends(values):
    return {"min": min(values), "max": max(values)} if values else None


def check_same(footers, full):
    """What footers tell is what reading the rows tells."""
    for key in ("model", "group", "num_heads", "num_layers", "files", "bytes", "rows", "dim", "positions", "packed",
                "texts", "complete"):
        assert footers[key] == full[key], key
    assert footers["buckets"] == ends(full["buckets"]) and footers["windows"] == ends(full["windows"])
    for a, b in zip(footers["heads"], full["heads"], strict=True):
        for key in ("name", "files", "bytes", "rows", "dim", "positions", "codec", "float64"):
            assert a[key] == b[key], (a["name"], key)


def test_footers_tell_what_rows_tell(hub, tmp_path):
    files = files_of(EXAMPLE)
    commit = hub.add("datasets", NAME, files, revision="v1")
    found, said = inspect(hub, tmp_path, NAME, "--revision", "v1", HF_TOKEN="hf_good")
    heads = sum(name.endswith(".parquet") for name in files)
    assert found["capture"] == NAME and found["hub"]["commit"] == commit and found["hub"]["footers"]
    check_same(found, inspect(hub, tmp_path, EXAMPLE)[0])
    # commit, list, capture.json with its redirect on the Hub, and one request a head; of each at most 8 KB
    assert len(hub.requests()) == 4 + heads == found["hub"]["requests"] and len(hub.requests("cdn")) == heads
    assert all(r.headers["range"] and "authorization" not in r.headers for r in hub.requests("cdn"))
    assert found["hub"]["fetched_bytes"] == sum(r.sent for r in hub.requests("cdn")) + len(files["capture.json"])
    assert sum(r.sent for r in hub.requests("cdn")) <= heads * 8192 < found["bytes"]
    assert not (tmp_path / "hub").exists()  # nothing is written


def test_model(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL) | {"pytorch_model.bin": b"x" * 100000})
    found, full = inspect(hub, tmp_path, NAME)[0], inspect(hub, tmp_path, MODEL)[0]
    assert found.pop("fingerprint") is None and full.pop("fingerprint")
    assert found | {"model": ""} == full | {"model": ""}
    assert {r.path.split("/")[-1] for r in hub.requests(path="/resolve/")} == {"config.json", "model.safetensors"}
    assert len(hub.requests("cdn")) == 1 and sum(r.sent for r in hub.requests("cdn")) <= 65536
    assert not (tmp_path / "hub").exists()
    assert "nor is there a model of this name" in inspect(hub, tmp_path, "org/other", expect=1)[1]
