# SPDX-License-Identifier: Apache-2.0
"""`qkscope inspect org/name`: footers and headers by ranges, nothing fetched."""
import json
import shutil
import signal
import subprocess
import time

import pytest
from conftest import EXAMPLE, ROOT
from fake_hub import FakeHub
from test_fetch_commands import MODEL, PROGRAM, files_of, run
from test_get import NAME, get


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
    assert footers["examples"] is None and full["examples"] > 0
    for a, b in zip(footers["heads"], full["heads"], strict=True):
        for key in ("name", "files", "bytes", "rows", "dim", "positions", "row_groups", "codec", "encodings", "float64",
                    "created_by"):
            assert a[key] == b[key], (a["name"], key)
        assert a["buckets"] == ends(b["buckets"])


# ---- captures --------------------------------------------------------------------------------

def test_footers_tell_what_rows_tell(hub, tmp_path):
    files = files_of(EXAMPLE)
    commit = hub.add("datasets", NAME, files, revision="v1")
    found, said = inspect(hub, tmp_path, NAME, "--revision", "v1")
    heads = sum(name.endswith(".parquet") for name in files)
    assert found["capture"] == NAME and found["hub"]["commit"] == commit and found["hub"]["footers"]
    assert f"looking into {heads + 1} files on the Hub" in said
    check_same(found, inspect(hub, tmp_path, EXAMPLE)[0])
    # commit, list, capture.json with its redirect on the Hub, and one request a head; of each at most 8 KB
    assert len(hub.requests()) == 4 + heads == found["hub"]["requests"] and len(hub.requests("cdn")) == heads
    assert all(r.method == "GET" and r.headers["range"] for r in hub.requests("cdn"))
    assert found["hub"]["fetched_bytes"] == sum(r.sent for r in hub.requests("cdn")) + len(files["capture.json"])
    assert sum(r.sent for r in hub.requests("cdn")) <= heads * 8192 < found["bytes"]
    assert not (tmp_path / "hub").exists()  # nothing is written


def test_as_text(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    out = run(hub, tmp_path, "inspect", NAME, "--heads", TMPDIR=tmp_path)[0]
    assert "commit      " in out and "0 of " in out and "examples    not counted" in out and "from 0 to " in out
    assert not list(tmp_path.iterdir())  # the outline is gone


def test_packed_and_several_captures(hub, tmp_path):
    run(hub, tmp_path, "repack", EXAMPLE, "-o", tmp_path / "packed", "--layout", "packed")
    shutil.copytree(tmp_path / "packed", tmp_path / "two" / "a")
    shutil.copytree(EXAMPLE, tmp_path / "two" / "b")
    hub.add("datasets", "org/packed", files_of(tmp_path / "packed"))
    hub.add("datasets", "org/two", files_of(tmp_path / "two"))
    check_same(inspect(hub, tmp_path, "org/packed")[0], inspect(hub, tmp_path, tmp_path / "packed")[0])
    said = inspect(hub, tmp_path, "org/two", expect=1)[1]
    assert "org/two holds several captures: a, b" in said and not hub.requests(path="two/resolve/")
    check_same(inspect(hub, tmp_path, "org/two", "--split", "b")[0], inspect(hub, tmp_path, EXAMPLE)[0])
    assert not hub.requests(path="two/resolve/.*/a/")


def test_moments_by_capture_json(hub, tmp_path):
    texts = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
    run(hub, tmp_path, "capture", "--model", MODEL, texts, "-o", tmp_path / "c", "--keep", "moments", "--max-texts", "6",
        "--layers", "0-1")
    hub.add("datasets", NAME, files_of(tmp_path / "c"))
    found, full = inspect(hub, tmp_path, NAME)[0], inspect(hub, tmp_path, tmp_path / "c")[0]
    for key in ("num_heads", "rows", "group", "kept", "complete"):
        assert found[key] == full[key], key
    assert found["positions"] is None and not hub.requests("cdn")


def test_what_is_cached_is_read_there(hub, tmp_path):
    files = files_of(EXAMPLE)
    hub.add("datasets", NAME, files)
    get(hub, tmp_path, NAME, "--layers", "0")
    hub.log.clear()
    found = inspect(hub, tmp_path, NAME)[0]
    cached = sum(name.startswith("l00") for name in files) + 1  # capture.json
    assert found["hub"]["cached_files"] == cached and found["hub"]["footers"]
    assert len(hub.requests()) == len(hub.requests("cdn")) == len([f for f in files if f.endswith(".parquet")]) - cached + 1
    full = inspect(hub, tmp_path, EXAMPLE)[0]
    check_same(found, full)
    get(hub, tmp_path, NAME)
    hub.log.clear()
    found = inspect(hub, tmp_path, NAME)[0]  # rows are read, and nobody is asked
    assert not hub.log and found["hub"] | {"commit": ""} == {"commit": "", "footers": False, "requests": 0,
        "fetched_bytes": 0, "files": found["hub"]["files"], "cached_files": found["hub"]["files"]}
    assert found["buckets"] == full["buckets"] and found["examples"] == full["examples"]


def test_offline(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    said = inspect(hub, tmp_path, NAME, "--offline", expect=1)[1]
    assert "not in the cache" in said and "qkscope get org/name" in said and "qkscope get --model org/name" in said
    get(hub, tmp_path, NAME, "--layers", "0")
    hub.log.clear()
    found, said = inspect(hub, tmp_path, NAME, "--offline")
    assert not hub.log and "files are not in the cache" in said and found["examples"] > 0


def test_long_footers(hub, tmp_path):
    """A second request brings what the first guess was short of; after that the guess is longer."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    folder = tmp_path / "c"
    for head in range(9):
        (folder / f"l00h{head:02}q").mkdir(parents=True)
        table = pa.table({"vector": pa.array([[1.0, 2.0]] * 400, pa.list_(pa.float32())),
                          "position": pa.array(range(400), pa.int64())})
        pq.write_table(table, folder / f"l00h{head:02}q" / "data.parquet", row_group_size=2)
    hub.add("datasets", NAME, files_of(folder))
    found = inspect(hub, tmp_path, NAME, "--jobs", "1")[0]
    assert found["rows"] == 3600 and found["positions"] == [0, 399] and found["dim"] == 2
    assert len(hub.requests("cdn")) == 9 + 1


def test_statistics_that_are_missing(hub, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    (tmp_path / "c" / "l00h00q").mkdir(parents=True)
    table = pa.table({"vector": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32())),
                      "position": pa.array(range(4), pa.int64()), "bucket": pa.array([1, 2, 3, 4], pa.int32()),
                      "sliding_window": pa.array([None, 5, 6, None], pa.int32())})
    pq.write_table(table, tmp_path / "c" / "l00h00q" / "data.parquet", write_statistics=["bucket", "sliding_window"])
    hub.add("datasets", NAME, files_of(tmp_path / "c"))
    found = inspect(hub, tmp_path, NAME)[0]
    assert found["positions"] is None and found["buckets"] == {"min": 1, "max": 4}
    assert found["windows"] == {"min": 0, "max": 6}
    assert "positions" not in run(hub, tmp_path, "inspect", NAME)[0]


@pytest.mark.parametrize("how, said", [
    (dict(ignore_range=True), "gives no parts of files"), (dict(add={"Content-Range": "bytes 1-2/3"}), "another range"),
    (dict(cut=100), "transfer closed")])
def test_servers_that_do_other_things(hub, tmp_path, how, said):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    hub.fault("cdn", times=1000, **how)
    _, text = inspect(hub, tmp_path, NAME, expect=1, HF_HUB_DOWNLOAD_TIMEOUT="2") if "cut" not in how else (None, said)
    assert said in text
    hub.faults.clear()
    hub.fault("cdn", times=2, cut=100)  # which passes
    if "cut" in how:
        inspect(hub, tmp_path, NAME)


def test_files_that_are_no_parquet(hub, tmp_path):
    files = files_of(EXAMPLE)
    name = next(name for name in files if name.endswith(".parquet"))
    hub.add("datasets", NAME, files | {name: b"x" * 50000})
    found, said = inspect(hub, tmp_path, NAME, expect=3)
    assert found["num_failed"] == 1 and f"{NAME}/{name}: " in said and "outline" not in said


@pytest.mark.parametrize("size, said", [(0, "l00h00q"), (3, "l00h00q"), (12, "l00h00q"), (80 << 20, "more than 64 MB")])
def test_files_of_odd_sizes(hub, tmp_path, size, said):
    """Of 80 MB, 70 claim to be the footer."""
    end = ((70 << 20).to_bytes(4, "little") + b"PAR1")[-size:] if size else b""
    with open(tmp_path / "odd", "wb") as file:
        file.truncate(size - len(end))
        file.seek(0, 2)
        file.write(end)
    files = {name: data for name, data in files_of(EXAMPLE).items() if name.startswith("l00")}
    hub.add("datasets", NAME, files | {"l00h00q/data.parquet": tmp_path / "odd"})
    found, text = inspect(hub, tmp_path, NAME, expect=1 if size > 1000 else 3)
    assert said in text and (found is None if size > 1000 else found["num_failed"] == 1), text
    assert sum(r.sent for r in hub.requests("cdn")) < 100000


def test_interrupted(hub, tmp_path):
    """Ctrl-C: at once, and nothing is left."""
    hub.add("datasets", NAME, files_of(EXAMPLE))
    hub.fault("cdn", times=99, delay=30)
    process = subprocess.Popen([PROGRAM, "inspect", NAME], env=hub.environment(tmp_path, TMPDIR=tmp_path),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not hub.requests("cdn") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [p.name[:16] for p in tmp_path.iterdir()] == ["qkscope-outline."]
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=10)[1]
    assert process.returncode == -signal.SIGINT and "stopped" in said and not list(tmp_path.iterdir())


def test_the_token_stays_with_the_hub(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    hub.repos["datasets", NAME].private = True
    inspect(hub, tmp_path, NAME, HF_TOKEN="hf_good")
    assert all(r.headers["authorization"] == "Bearer hf_good" for r in hub.requests())
    assert not any("authorization" in r.headers for r in hub.requests("cdn"))


# ---- models ----------------------------------------------------------------------------------

@pytest.mark.parametrize("option", [[], ["--model"]])
def test_model(hub, tmp_path, option):
    files = files_of(MODEL) | {"pytorch_model.bin": b"x" * 100000}
    hub.add("models", NAME, files)
    found, said = inspect(hub, tmp_path, NAME, *option)
    full = inspect(hub, tmp_path, MODEL)[0]
    assert found.pop("fingerprint") is None and full.pop("fingerprint")
    assert found | {"model": ""} == full | {"model": ""}
    assert {r.path.split("/")[-1] for r in hub.requests(path="/resolve/")} == {"config.json", "model.safetensors"}
    assert len(hub.requests("cdn")) == 1 and sum(r.sent for r in hub.requests("cdn")) <= 65536
    assert not (tmp_path / "hub").exists()
    out = run(hub, tmp_path, "inspect", NAME, "--length", "10", *option)[0]
    assert "on the Hub" in out and "fingerprint" not in out


def read_safetensors(path):
    """Header and bytes of each tensor; NumPy has no bfloat16."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry, data[8 + size:][slice(*entry["data_offsets"])]) for name, entry in header.items()}


def write_safetensors(tensors, **metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (entry, piece) in tensors.items():
        header[name] = entry | {"data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def test_model_in_shards(hub, tmp_path):
    tensors = read_safetensors(MODEL / "model.safetensors")
    names = sorted(tensors)
    place = {name: f"model-0000{i % 2 + 1}-of-00002.safetensors" for i, name in enumerate(names)}
    shards = {shard: write_safetensors({n: tensors[n] for n in names if place[n] == shard}, long="x" * 80000)
              for shard in set(place.values())}
    hub.add("models", NAME, {"config.json": (MODEL / "config.json").read_bytes(), **shards,
                             "model.safetensors.index.json": json.dumps({"weight_map": place}).encode()})
    found = inspect(hub, tmp_path, NAME)[0]
    assert found["parameters"] == inspect(hub, tmp_path, MODEL)[0]["parameters"]
    assert len(hub.requests("cdn")) == 4  # the headers are longer than the first guess


def test_names_of_nothing(hub, tmp_path):
    said = inspect(hub, tmp_path, NAME, expect=1)[1]
    assert "no dataset of this name" in said and len(hub.requests()) == 2
    assert said.rstrip().endswith("; nor is there a model of this name") and "--model" not in said
    hub.add("models", NAME, files_of(MODEL))
    hub.repos["models", NAME].gated = "hf_other"
    said = inspect(hub, tmp_path, NAME, expect=1)[1]
    assert "the model is gated: ask for access on its page" in said and "no dataset" not in said
    del hub.repos["models", NAME]
    hub.add("models", NAME, {"m.gguf": b"x" * 100})
    said = inspect(hub, tmp_path, NAME, expect=1)[1]
    assert "GGUF" in said and "qkscope get --model org/name" in said
