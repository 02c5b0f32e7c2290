# SPDX-License-Identifier: Apache-2.0
"""What qkscope capture writes: rows, columns, ids, manifest; against NumPy and other readers."""
import json
import shutil

import numpy as np
import pytest
import xxhash

from conftest import head_name, head_names
from recording import (buckets, examples_of, files_of, forward, kept_positions, manifest_of, some_texts,
                       table_of, text_id, write_jsonl, write_model)

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny-llama"
    config, weights = write_model(folder)
    return folder, config, weights


@pytest.fixture(scope="module")
def texts():
    return some_texts(8)


@pytest.fixture(scope="module")
def capture(qkscope, model, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("capture")
    source = write_jsonl(folder / "texts.jsonl", texts)
    qkscope("capture", "--model", model[0], "--text", source, "-o", folder / "c", "--stage", "both",
            "--sampler", "uniform", "--bucket", 16, "--token-strings", expect=0)
    return folder / "c"


def expected_rows(texts, layer, kind, **sampler):
    """(example, position) in the order of the rows."""
    return [(e, int(p)) for e, text in enumerate(texts)
            for p in kept_positions(e, layer, kind, len(text), **sampler)]


def test_rows_are_those_of_the_samplers_rule(capture, model, texts):
    config = model[1]
    for stage in ("post", "pre"):
        assert len(head_names(capture / stage)) == 4 * (4 + 2)
        for layer in range(config["num_hidden_layers"]):
            for kind, heads in (("q", [0, 3]), ("k", [1])):
                for head in heads:
                    t = table_of(capture / stage, head_name(layer, head, kind))
                    rows = list(zip(t["example_id"], t["position"]))
                    assert rows == expected_rows(texts, layer, kind)
                    assert t["bucket"] == [p // 16 for p in t["position"]]
                    assert t["sliding_window"] == [None] * len(rows)
                    assert t["token_str"] == [texts[e][p].replace(" ", "Ġ").replace("\n", "Ċ")
                                              for e, p in rows]


def test_vectors_are_those_of_the_model(capture, model, texts):
    _, config, weights = model
    worst = 0
    tables = {(stage, name): table_of(capture / stage, name) for stage in ("pre", "post") for name in head_names(capture / stage)}
    for e, text in enumerate(texts):
        layers = forward(config, weights, np.frombuffer(text.encode(), np.uint8))
        for layer, stages in enumerate(layers):
            for stage, both in zip(("pre", "post"), stages):
                for kind, expected in zip("qk", both):
                    for head in range(len(expected)):
                        t = tables[stage, head_name(layer, head, kind)]
                        mine = np.array(t["example_id"]) == e
                        wanted = expected[head][np.array(t["position"])[mine]]
                        if len(wanted):
                            worst = max(worst, np.abs(t["vector"][mine] - wanted).max()
                                        / np.abs(expected[head]).max())
    print(f"\nlargest relative deviation: {worst:.1e}")
    assert worst < 1e-5


def test_columns_and_manifest(capture, model, texts):
    schema = pq.read_schema(capture / "post" / "l00h00q" / "data.parquet")
    assert {f.name: str(f.type) for f in schema} == {
        "bucket": "int32", "example_id": "int64", "position": "int32",
        "vector": "list<element: float>", "sliding_window": "int32", "token_str": "string"}
    manifest = manifest_of(capture / "post")
    assert manifest["complete"] is True and manifest["model"] == "tiny-llama"
    assert manifest["q_per_kv_group"] == 2 and manifest["stage"] == "post-rope"
    run = manifest["run"]
    assert run["sampler"] == {"type": "uniform", "base_rate": 1.0, "bucket_size": 16, "max_rows": 0}
    assert run["model"]["architecture"] == "llama" and run["model"]["dtype"] == "float32"
    assert manifest["rope"] == {"type": "default", "theta": 10000.0, "pairing": "half"}
    frequencies = manifest["rope_frequencies"]
    assert sorted(frequencies) == ["0", "1", "2", "3"]
    assert np.allclose(frequencies["3"], 10000.0 ** -(np.arange(4) / 4), rtol=1e-6)
    assert manifest["texts"] == {"count": 8, "windows": 8, "tokens": sum(map(len, texts)), "split": 0,
                                 "truncated": 0, "skipped": 0, "empty": 0, "positions_of": "window"}
    assert [(e["example_id"], e["tokens"]) for e in manifest["examples"]] == [
        (i, len(t)) for i, t in enumerate(texts)]
    assert manifest["examples"][3]["source"].endswith("texts.jsonl:4")
    before = manifest_of(capture / "pre")
    assert before["stage"] == "pre-rope" and "rope_frequencies" not in before
    assert before["rope"]["frequencies"] == frequencies
    assert not (capture / ".partial").exists()


def test_examples_table(capture, texts):
    rows = examples_of(capture / "post")
    assert [list(r.values()) for r in rows] == [
        [str(i), str(capture.parent / "texts.jsonl") + f":{i + 1}", "", str(len(t)), "0", "0", "0", str(i),
         xxhash.xxh3_64_hexdigest(np.frombuffer(t.encode(), np.uint8).astype("<i4").tobytes())]
        for i, t in enumerate(texts)]


@pytest.mark.parametrize("options", [
    ["--sampler", "log_uniform", "--bucket", "5", "--base-rate", "2"], ["--sampler", "all"]])
def test_other_samplers(qkscope, model, texts, tmp_path, options):
    source = write_jsonl(tmp_path / "t.jsonl", texts[:4])
    qkscope("capture", "-m", model[0], "-t", source, "-o", tmp_path / "c", *options, expect=0)
    longest = max(len(t) for t in texts[:4])
    sixteenth = next(2 ** b for b in range(20) if 16 * 2 ** b >= longest)
    sampler = {"sampler": options[1], "rate": 2.0, "bucket": 5 if "--bucket" in options else sixteenth}
    for name in ("l00h00q", "l03h01k"):
        t = table_of(tmp_path / "c", name)
        assert list(zip(t["example_id"], t["position"])) == expected_rows(
            texts[:4], int(name[2]), name[-1], **sampler)
        assert t["bucket"] == buckets(np.array(t["position"]), options[1], sampler["bucket"]).tolist()


def test_known_positions(qkscope, tmp_path):
    """Positions of the contract: uniform, rate 1, buckets of 32, 512 tokens, layer 0; and with a cap
    of three, for which they are not sorted."""
    write_model(tmp_path / "m", num_hidden_layers=1)
    source = write_jsonl(tmp_path / "t.jsonl", ["x" * 512])
    whole = ["-m", tmp_path / "m", "-t", source, "--sampler", "uniform", "--bucket", 32]
    qkscope("capture", *whole, "-o", tmp_path / "a", expect=0)
    assert table_of(tmp_path / "a", "l00h00q")["position"] == [
        4, 36, 47, 70, 82, 91, 131, 142, 183, 252, 274, 295, 305, 308, 334, 347, 348, 354, 393]
    assert table_of(tmp_path / "a", "l00h01k")["position"] == [
        17, 18, 51, 60, 82, 92, 120, 188, 207, 234, 244, 257, 278, 308, 311, 345, 346, 427, 449, 457,
        485]
    qkscope("capture", *whole, "-o", tmp_path / "b", "--heads", "1,3", "--max-rows", 3, expect=0)
    assert head_names(tmp_path / "b") == ["l00h00k", "l00h01k", "l00h01q", "l00h03q"]
    capped, full = (table_of(tmp_path / f, "l00h01q") for f in "ba")
    assert capped["position"] == [4, 305, 348]
    assert table_of(tmp_path / "b", "l00h00k")["position"] == [257, 485, 51]
    where = [full["position"].index(p) for p in capped["position"]]
    assert (capped["vector"] == full["vector"][where]).all()


def test_ids(qkscope, model, tmp_path):
    ids = ["id-a", "", 7, True, 3.0, 0.5, None, -2 ** 63]
    source = write_jsonl(tmp_path / "t.jsonl", ["some text"] * len(ids), ids)
    qkscope("capture", "-m", model[0], "-t", source, "-o", tmp_path / "c", "--sampler", "all",
            "--id-column", "id", "--layers", 0, expect=0)
    expected = [-6453149921550767168, -5426141060434712860, 7, 1, 3, text_id("0.5"), text_id("None"),
                -2 ** 63]
    assert list(dict.fromkeys(table_of(tmp_path / "c", "l00h00q")["example_id"])) == expected
    rows = examples_of(tmp_path / "c")
    assert [int(r["example_id"]) for r in rows] == expected
    assert [r["source_id"] for r in rows][:3] == ["id-a", "", "7"]


def test_every_kind_of_source(qkscope, model, texts, tmp_path):
    """A file, a folder, JSON Lines and Parquet of the same texts keep the same rows."""
    import pyarrow as pa
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    (folder / ".hidden").write_text("no text")
    for i, text in enumerate(texts[:4]):
        (folder / ("more" if i > 1 else ".") / f"{i}.txt").write_text(text)
    shutil.move(folder / "0.txt", tmp_path / "first.txt")
    order = [1, 2, 3]
    pq.write_table(pa.table({"body": [texts[0]] + [texts[i] for i in order], "id": [0, 1, 2, 3]}),
                   tmp_path / "t.parquet", row_group_size=2)
    write_jsonl(tmp_path / "t.jsonl", [texts[0]] + [texts[i] for i in order])
    sources = {"a": [tmp_path / "first.txt", folder], "b": [tmp_path / "t.jsonl"],
               "c": [tmp_path / "t.parquet", "--text-column", "body", "--id-column", "id"]}
    for name, words in sources.items():
        qkscope("capture", "-m", model[0], "-t", *words, "-o", tmp_path / name, "--sampler", "uniform",
                "--bucket", 8, expect=0)
    heads = head_names(tmp_path / "a")
    for name in heads:
        found = [(tmp_path / c / name / "data.parquet").read_bytes() for c in "abc"]
        assert found[0] == found[1] == found[2], name


SAME = [{"id": 7, "text": "In the beginning, \"God\" created ]}"}, {"id": 8, "text": "And the\nearth [\\"}]
ROWS = '7{0}"In the beginning, ""God"" created ]}}"\r\n8{0}"And the\nearth [\\"'


@pytest.mark.cases(9)
@pytest.mark.parametrize("name, content", [
    ("t.json", "".join(json.dumps(text) + "\n" for text in SAME)),
    ("t.json", json.dumps(SAME)), ("t.json", "\ufeff\n" + json.dumps(SAME, indent=2) + " \n"),
    ("t.JSONL", json.dumps(SAME)), ("t.jsonlines", "\ufeff" + "\r\n\r\n".join(map(json.dumps, SAME))),
    ("t.csv", "id,text\n" + ROWS.format(",")), ("t.csv", '\ufeff"id","text"\r\n' + ROWS.format(",") + "\r\n"),
    ("t.tsv", "id\ttext\n" + ROWS.format("\t")), ("t.json", json.dumps([text["text"] for text in SAME]))])
def test_files_of_many_texts(qkscope, model, tmp_path, name, content):
    """JSON Lines by any name, a list of objects or of texts, CSV and TSV: the rows are those of a file for each text."""
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    for i, text in enumerate(SAME):
        (tmp_path / f"{i}.txt").write_text("\ufeff" * i + text["text"], encoding="utf-8", newline="")
    ids = [] if '["' in content else ["--id-column", "id"]
    qkscope("capture", "-m", model[0], "-t", tmp_path / name, "-o", tmp_path / "c", "--sampler", "all", *ids, expect=0)
    qkscope("capture", "-m", model[0], "-t", tmp_path / "0.txt", tmp_path / "1.txt", "-o", tmp_path / "d", "--sampler", "all",
            expect=0)
    found, expected = (table_of(tmp_path / folder, "l00h01q") for folder in "cd")
    assert (found["vector"] == expected["vector"]).all() and found["position"] == expected["position"]
    assert found["example_id"] == [i + (7 if ids else 0) for i in expected["example_id"]]
    if ids:
        assert [row["source_id"] for row in examples_of(tmp_path / "c")] == ["7", "8"]


def test_a_list_longer_than_a_block(qkscope, model, tmp_path):
    """What ends an item is found wherever blocks end."""
    texts = [{"text": "x", "other": ['"', "\\", {"deep": ["}" * n]}, "y" * (262_140 - n)]} for n in range(8)]
    (tmp_path / "t.json").write_text(json.dumps(texts))
    said = qkscope("capture", "-m", model[0], "-t", tmp_path / "t.json", "-o", tmp_path / "c", "--sampler", "all", expect=0).out
    assert "8 texts, 8 tokens" in said


@pytest.mark.parametrize("name, content, column, words", [
    ("t.csv", "id,body\n1,a\n", "text", ["--text-column: ", "t.csv: there is no column 'text'"]),
    ("t.csv", "id,text\n1,a,b\n", "text", ["t.csv: row 2: more than the 2 fields"]),
    ("t.json", '[{"text": "a"}', "text", ["t.json: item 1: the list does not end"]),
    ("t.json", '[{"text": "a"}]\n{"text": "b"}', "text", ["t.json: item 3: text behind the end"]),
    ("t.json", '["a", 1]', "text", ["t.json: item 2: expected a JSON object"]),
    ("t.json", '["a"]', "body", ["t.json: item 1: expected a JSON object"]),
    ("t.json", '[{"id": 1}]', "text", ['t.json: item 1: there is no "text", but "id"', "--text-column"]),
    ("t.json", '{\n  "text": "a"\n}\n', "text", ["t.json: line 1 of JSON Lines (a list ", "named .txt): byte 2: "])])
def test_files_of_many_texts_refused(qkscope, model, tmp_path, name, content, column, words):
    (tmp_path / name).write_text(content)
    said = qkscope("capture", "-m", model[0], "-t", tmp_path / name, "-o", tmp_path / "c", "--text-column", column, expect=1).err
    assert all(word in said for word in words) and said.count(name) == 1, said


def test_half_a_character_in_a_key_that_nobody_asked_for(qkscope, model, tmp_path):
    """It ends no run, and in the text or the id it is told."""
    line = '{"text": "abc", "id": "\\ud83d", "\\udc00": [1]}\n'
    (tmp_path / "t.jsonl").write_text('{"text": "\\ud83d\\ude00", "id": 1}\n' + line)
    qkscope("capture", "-m", model[0], "-t", tmp_path / "t.jsonl", "-o", tmp_path / "c", "--sampler", "all", expect=0)
    assert [row["tokens"] for row in examples_of(tmp_path / "c")] == ["4", "3"]
    for option, column in (("--text-column", "id"), ("--id-column", "id")):
        (tmp_path / "t.jsonl").write_text(line)
        said = qkscope("capture", "-m", model[0], "-t", tmp_path / "t.jsonl", "-o", tmp_path / "d", option, column, expect=1).err
        assert "line 1" in said and "half of a surrogate pair" in said, said


@pytest.mark.cases(3)
@pytest.mark.parametrize("ids, type_, expected", [
    (["a", "17", "", "é"], "string", [text_id(t) for t in ("a", "17", "", "é")]),
    (["a", None, "b", "c"], "string", [text_id("a"), text_id("None"), text_id("b"), text_id("c")]),
    ([5, None, -7, 2 ** 40], "int64", [5, text_id("None"), -7, 2 ** 40]),
    ([1.0, 2.5, -3.0, 1e300], "float64", [1, text_id("2.5"), -3, None]),
    ([0.5, 4.0, -0.25, 8.0], "float32", [text_id("0.5"), 4, text_id("-0.25"), 8]),
    ([True, False, True, True], "bool", [1, 0, 1, 1])])
def test_ids_of_a_table(qkscope, model, texts, tmp_path, ids, type_, expected):
    """Whole numbers are ids themselves; of what else there may be, the hash of how Python writes it."""
    import pyarrow as pa
    pq.write_table(pa.table({"text": texts[:4], "id": pa.array(ids, type_)}), tmp_path / "t.parquet")
    qkscope("capture", "-m", model[0], "-t", tmp_path / "t.parquet", "--id-column", "id", "-o", tmp_path / "c",
            "--sampler", "all", expect=0)
    found = list(dict.fromkeys(table_of(tmp_path / "c", "l00h00q")["example_id"]))
    assert len(found) == len(set(expected)) and {i for i in expected if i is not None} <= set(found)


@pytest.mark.parametrize("options", [["--threads", 4], ["--tokens-at-once", 100000], ["--tokens-at-once", 1]])
def test_threads_and_groups_do_not_matter(qkscope, model, texts, capture, tmp_path, options):
    source = capture.parent / "texts.jsonl"
    qkscope("capture", "--model", model[0], "--text", source, "-o", tmp_path / "c", "--stage", "both",
            "--sampler", "uniform", "--bucket", 16, "--token-strings", *options, expect=0)
    assert files_of(tmp_path / "c") == files_of(capture)


def test_what_is_left_out(qkscope, tmp_path):
    """Windows, layers without attention, kinds, layers, drawn heads."""
    write_model(tmp_path / "m", "ministral")
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(2))
    base = ["capture", "-m", tmp_path / "m", "-t", source, "--sampler", "all"]
    qkscope(*base, "-o", tmp_path / "a", expect=0)
    assert set(table_of(tmp_path / "a", "l00h00q")["sliding_window"]) == {8}
    assert set(table_of(tmp_path / "a", "l01h00k")["sliding_window"]) == {None}
    qkscope(*base, "-o", tmp_path / "b", "--full-attention-only", "--kinds", "q", expect=0)
    assert head_names(tmp_path / "b") == [head_name(i, h, "q") for i in (1, 3) for h in range(4)]
    qkscope(*base, "-o", tmp_path / "c", "--layers", "2", "--heads", "3", expect=0)
    assert head_names(tmp_path / "c") == ["l02h01k", "l02h03q"]
    qkscope(*base, "-o", tmp_path / "e", "--heads", "2:3,0:0-1", expect=0)
    assert head_names(tmp_path / "e") == ["l00h00k", "l00h00q", "l00h01q", "l02h01k", "l02h03q"]
    for heads, words in (("9:0", "9:0: there is no layer 9: the model has 0 to 3"),
                         ("1:2-4", "1:2-4: there is no 4: the model has 0 to 3")):
        assert words in qkscope(*base, "-o", tmp_path / "f", "--heads", heads, expect=1).err
    # Random(9).sample(range(12), 3) is 7 9 5: layers 0, 1 and 2 of four heads
    qkscope(*base, "-o", tmp_path / "d", "--layers", "0-2", "--sample-heads", 3, "--seed", 9, expect=0)
    assert head_names(tmp_path / "d") == ["l01h00k", "l01h01k", "l01h01q", "l01h03q", "l02h00k",
                                          "l02h01q"]
    draw = manifest_of(tmp_path / "d")["head_sampling"]
    assert (draw["selected_query_heads"], draw["selected_key_heads"], draw["candidates"]) == (3, 3, 12)


def test_layers_without_attention(qkscope, tmp_path):
    write_model(tmp_path / "m", "mllama_text_model")
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(2))
    base = ["capture", "-m", tmp_path / "m", "-t", source, "--sampler", "all", "--sample-heads", 8]
    qkscope(*base, "-o", tmp_path / "a", expect=0)
    assert sum(n.endswith("q") for n in head_names(tmp_path / "a")) == 8


def test_reference_activations(qkscope, shared_data, tmp_path):
    """Every row of a text against activations computed in float64."""
    data = shared_data("kjv-tiny")
    tensors = read_safetensors(data / "reference" / "step-2004-a.safetensors")
    (tmp_path / "t.txt").write_bytes(tensors["input_ids"].astype(np.uint8).tobytes())
    qkscope("capture", "-m", data / "step-2004", "-t", tmp_path / "t.txt", "-o", tmp_path / "c",
            "--sampler", "all", "--stage", "both", expect=0)
    worst = 0
    for layer in range(5):
        for kind, heads in (("q", 4), ("k", 2)):
            for stage in ("pre", "post"):
                expected = tensors[f"layers.{layer}.{kind}_{stage}"]
                for head in range(heads):
                    t = table_of(tmp_path / "c" / stage, head_name(layer, head, kind))
                    assert t["position"] == list(range(300))
                    worst = max(worst, np.abs(t["vector"] - expected[head]).max()
                                / np.abs(expected).max())
    print(f"\nlargest relative deviation: {worst:.1e}")
    assert worst < 1e-5


def test_a_given_capture_has_the_same_first_layer(qkscope, shared_data, tmp_path):
    """Its texts are not known, but what a first layer says of a byte at a position does not depend on
    the other bytes: for each row, some byte must give exactly that vector."""
    data = shared_data("kjv-tiny")
    given = table_of(shared_data("kjv-tiny-capture") / "arrow-rs", "l00h02q")
    rows = np.flatnonzero(np.array(given["position"]) < 120)[:60]
    (tmp_path / "t").mkdir()
    for byte in range(1, 127):
        (tmp_path / "t" / f"{byte:03d}").write_bytes(bytes([byte]) * 120)
    qkscope("capture", "-m", data / "step-2004", "-t", tmp_path / "t", "-o", tmp_path / "c",
            "--sampler", "all", "--layers", 0, expect=0)
    ours = table_of(tmp_path / "c", "l00h02q")["vector"].reshape(126, 120, 32)
    for row in rows:
        deviation = np.abs(ours[:, given["position"][row]] - given["vector"][row]).max(axis=1)
        assert deviation.min() < 1e-4 * np.abs(given["vector"]).max()


def read_safetensors(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    types = {"F32": np.float32, "I64": np.int64}
    return {name: np.frombuffer(raw[8 + size:][slice(*entry["data_offsets"])],
                                types[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in json.loads(raw[8:8 + size]).items() if name != "__metadata__"}


# ---- the card -------------------------------------------------------------------------------------

def test_card_names_the_dataset(qkscope, tmp_path):
    write_model(tmp_path / "m")
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "en-train.jsonl", some_texts(3), ["a", "b", "c"])
    write_jsonl(tmp_path / "data" / "en-test.jsonl", some_texts(2), ["d", "e"])
    config = tmp_path / "s.yaml"
    config.write_text(f"""
dataset: {{path: {tmp_path}/data, name: en, split: test, text_column: text, id_column: id}}
model: {{name: {tmp_path}/m}}
tokenizer: {{}}
capture: {{sampler: {{type: all}}}}
inference: {{}}
output: {{data_root: {tmp_path}/c}}
""")
    qkscope("capture", "--config", config, "--full-attention-only", "--max-length", "100", "--quiet", expect=0)
    card = (tmp_path / "c" / "README.md").read_text()
    for line in (f"`source_dataset`: `{tmp_path}/data`", "`dataset_name`: `en`", "`dataset_split`: `test`",
                 "`text_column`: `text`", "`id_column`: `id`", "`attention_scope`: `full_only`"):
        assert f"- {line}\n" in card
    assert "- texts: 2 in 2 windows, " in card


@pytest.mark.parametrize("dtype, name", [("f16-sim", "float16"), ("bf16-sim", "bfloat16"), ("bf16", "bfloat16")])
def test_arithmetic(qkscope, tmp_path, dtype, name):
    write_model(tmp_path / "m")
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    for output, words in (("c", ["--dtype", dtype]), ("exact", [])):
        qkscope("capture", "-m", tmp_path / "m", "-t", texts, "-o", tmp_path / output, "--sampler", "all", *words,
                expect=0)
    assert manifest_of(tmp_path / "c")["run"]["arithmetic"] == dtype
    assert f"rounded where a {name} run rounds" in (tmp_path / "c" / "README.md").read_text()
    rows, exact = (table_of(tmp_path / c, "l00h00q")["vector"] for c in ("c", "exact"))
    bits = np.ascontiguousarray(rows).view(np.uint32)
    held = (rows == rows.astype(np.float16)) if name == "float16" else (bits & 0xffff) == 0
    assert held.all() and 0 < abs(rows - exact).max() < 0.05 * abs(exact).max()
