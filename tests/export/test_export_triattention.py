# SPDX-License-Identifier: Apache-2.0
"""The files of TriAttention, read by the description of their formats, against NumPy on rows. Each fault that such files were seen
to have is put into what is expected, and has to be noticed."""
import io
import json
import math
import pickletools
import re
import shutil
import struct
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, VERSION, head_name, read_json
from export_oracle import DIM, FREQUENCIES, GROUP, KEYS, LAYERS, QUERIES, TEXTS, make_heads, rows_from, turn, write_capture
from torch_reader import read_torch

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXT = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
GOLDEN = Path(__file__).with_name("triattention_golden.txt")
PAIRS = DIM // 2
THETA = 50.0
OF_THETA = [THETA ** (-p / PAIRS) for p in range(PAIRS)]


def rope(frequencies=(FREQUENCIES, FREQUENCIES), **more):
    return {"type": "default", "pairing": "half", "theta": THETA, **more,
            "frequencies": {str(layer): list(values) for layer, values in enumerate(frequencies) if len(values)}}


@pytest.fixture(scope="module")
def heads():
    return make_heads()


def z_of(rows, count=PAIRS, interleaved=False):
    """Pairs of dimensions as complex numbers, [n][pairs]."""
    if interleaved:
        return rows[:, :2 * count:2] + 1j * rows[:, 1:2 * count:2]
    return rows[:, :count] + 1j * rows[:, count:2 * count]


def expected(heads, count=PAIRS, interleaved=False, first=0, kind="q", change=None):
    """(mean z, mean |z|), [L][heads][pairs]"""
    number = QUERIES if kind == "q" else KEYS
    z = [[z_of(rows_from(heads[head_name(layer, head, kind)], first), count, interleaved) for head in range(number)]
         for layer in range(LAYERS)]
    return (np.array([[of.mean(0) for of in layer] for layer in z]), np.array([[abs(of).mean(0) for of in layer] for layer in z]))


def export(folder, heads, form="triattention", source=None, **told):
    stated = {"rope": rope(), **told}
    qk.export(form, source or write_capture(folder / "in", heads, **stated), folder / "out")
    return folder / "out"


def numbers_of(stats):
    """The same of a file: [L][Hq][pairs] each."""
    parts = [np.array([[stats[f"layer{layer:02d}_head{head:02d}"][part] for head in range(QUERIES)] for layer in range(LAYERS)], float)
             for part in ("q_mean_real", "q_mean_imag", "q_abs_mean")]
    return parts[0] + 1j * parts[1], parts[2]


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and np.abs(a - b).max() <= 1e-6 * np.abs(b).max()


# ---- .pt ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("interleaved", [False, True])
def test_numbers_are_those_of_rows(heads, tmp_path, interleaved, recwarn):
    made = read_torch(export(tmp_path, heads, rope=rope(pairing="interleaved" if interleaved else "half")) / "triattention.pt")
    same(numbers_of(made["stats"]), expected(heads, interleaved=interleaved))
    assert all(part.dtype == np.float32 for head in made["stats"].values() for part in head.values())
    metadata = made["metadata"]
    assert metadata.pop("qkscope") == {"program": f"qkscope {VERSION}", "model": "org/made", "texts": TEXTS, "tokens": 120, "length": 40,
                                       "from_position": 0}
    np.testing.assert_allclose(metadata.pop("inv_freq"), FREQUENCIES, rtol=1e-15)
    assert metadata == {"sampled_heads": [[layer, head] for layer in range(LAYERS) for head in range(QUERIES)], "head_dim": DIM,
                        "rope_style": "interleaved" if interleaved else "half", "rope_type": "default", "rope_theta": THETA,
                        "num_layers": LAYERS, "num_attention_heads": QUERIES, "num_kv_heads": KEYS, "num_traces": TEXTS}
    assert [str(one.message)[:35] for one in recwarn] == ["pairs of dimensions are interleaved"] * interleaved


def after_rope(heads):
    turned = {name: {**of, "vector": turn(of["vector"].astype(float), of["position"][:, None] * np.array(FREQUENCIES), False)}
              for name, of in heads.items()}
    return expected(turned)


FAULTS = {
    "pairs read the other way": lambda heads: expected(heads, interleaved=True),
    "conjugated": lambda heads: (expected(heads)[0].conj(), expected(heads)[1]),
    "mean after RoPE": after_rope,
    "next query head": lambda heads: tuple(np.roll(one, 1, axis=1) for one in expected(heads)),
    "layers the other way round": lambda heads: tuple(one[::-1] for one in expected(heads)),
    "attention factor applied": lambda heads: tuple(1.1386 * one for one in expected(heads)),
    "key heads for query heads": lambda heads: tuple(one.repeat(GROUP, 1) for one in expected(heads, kind="k")),
    "mean of the query heads of a key head": lambda heads: tuple(
        one.reshape(LAYERS, KEYS, GROUP, PAIRS).mean(2).repeat(GROUP, 1) for one in expected(heads)),
    "lengths of the mean in place of mean lengths": lambda heads: (expected(heads)[0], abs(expected(heads)[0])),
    "one length for all pairs": lambda heads: (expected(heads)[0], expected(heads)[1].mean(2, keepdims=True).repeat(PAIRS, 2)),
    "first positions left out": lambda heads: expected(heads, first=4),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(heads, tmp_path, fault):
    """With RoPE that multiplies by a factor, too."""
    made = read_torch(export(tmp_path, heads, rope=rope(type="yarn", attention_factor=1.1386)) / "triattention.pt")
    same(numbers_of(made["stats"]), expected(heads))
    with pytest.raises(AssertionError):
        same(numbers_of(made["stats"]), FAULTS[fault](heads))


def test_frequencies_are_the_models(tmp_path, qkscope):
    """Theta missing, or another one, is found by the frequencies, and not by how well scores are predicted."""
    told = read_json(MODEL / "config.json")
    (tmp_path / "model").mkdir()
    for file in MODEL.iterdir():
        (tmp_path / "model" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**told, "rope_theta": 1e6}))
    qkscope("capture", "-m", tmp_path / "model", "-t", TEXT, "--max-texts", 1, "--max-length", 32, "--long", "cut", "--stage", "pre", "--sampler", "all", "-o",
            tmp_path / "in", expect=0)
    qk.export("triattention", tmp_path / "in", tmp_path / "out")
    metadata = read_torch(tmp_path / "out" / "triattention.pt")["metadata"]
    of = {theta: theta ** (-np.arange(16) / 16) for theta in (1e4, 1e6)}
    assert metadata["rope_theta"] == 1e6
    np.testing.assert_allclose(metadata["inv_freq"], of[1e6], rtol=1e-6)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(metadata["inv_freq"], of[1e4], rtol=1e-6)
    made_from = metadata["qkscope"]
    assert made_from["model"] == "model" and made_from["texts"] == 1 and made_from["tokens"] == 32
    run = read_json(tmp_path / "in" / "capture.json")["run"]
    assert made_from["model_fingerprint"] == run["model"]["fingerprint"] and made_from["texts_xxh3_128"] == run["texts"]["xxh3_128"]


@pytest.mark.test_all
def test_another_model_or_the_same_texts(tmp_path, qkscope):
    """Are told, as the shapes are the same; texts of the file are refused."""
    shutil.copytree(MODEL, tmp_path / "theta")
    told = read_json(MODEL / "config.json")
    (tmp_path / "theta" / "config.json").write_text(json.dumps({**told, "rope_theta": 500.0}))
    texts = TEXT.read_text().splitlines(keepends=True)
    for name, model, begin, end in (("in", MODEL, 0, 2), ("new", MODEL, 2, 4), ("half", MODEL, 1, 3), ("other", MODEL.parent / "step-100", 2, 4)):
        (tmp_path / f"{name}.jsonl").write_text("".join(texts[begin:end]))
        qkscope("capture", "-m", model, "-t", tmp_path / f"{name}.jsonl", "--max-length", 140, "--long", "cut", "--stage", "pre", "--sampler", "all", "-o",
                tmp_path / name, expect=0)
    for given, said in (({"model": MODEL}, None), ({"held_out": tmp_path / "new"}, None),
                        ({"model": tmp_path / "theta"}, "in is of a model with rope.theta 10000, and .*/theta has 500: the file follows"),
                        ({"model": MODEL.parent / "step-100"}, "in is of step-2004 .fingerprint .*, and .*/step-100 has other weights"),
                        ({"held_out": tmp_path / "other"}, "other is of step-100 with other weights or settings than step-2004 of")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            qk.export("triattention", tmp_path / "in", tmp_path / "out", force=True, **given)
        assert [bool(re.search(said or "$.", str(one.message))) for one in seen] == ([True] if said else []), seen
    for name, message in (("in", "in is what the file is made of"), ("half", "1 of its 2 texts is in .*: give held-out rows of other texts")):
        with pytest.raises(qk.DataError, match=message):
            qk.export("triattention", tmp_path / "in", tmp_path / "no", held_out=tmp_path / name)


@pytest.mark.parametrize("layers, queries", [(101, 1), (1, 101)])
def test_names_have_two_digits_or_more(tmp_path, layers, queries):
    """Of layer 100 and head 100 three: readers write them with {:02d}."""
    rows = {"vector": np.arange(8, dtype=np.float32).reshape(4, 2), "position": np.arange(4), "example_id": np.zeros(4, int), "bucket": np.zeros(4, int)}
    names = [head_name(layer, head, kind) for layer in range(layers) for kind, count in (("q", queries), ("k", 1)) for head in range(count)]
    made = read_torch(export(tmp_path, dict.fromkeys(names, rows), num_layers=layers, q_per_kv_group=queries,
                             rope=rope([[1.0]] * layers)) / "triattention.pt")
    assert list(made["stats"])[-1] == ("layer100_head00" if layers > 1 else "layer00_head100")
    assert list(made["stats"])[9] == ("layer09_head00" if layers > 1 else "layer00_head09")
    assert len(made["stats"]) == 101


def test_sums_have_room(tmp_path):
    """Of 100,000 rows with a mean of 1 and a deviation of 1,000: against exact sums."""
    count, rng = 100_000, np.random.default_rng(5)
    x = (1 + 1e3 * rng.standard_normal((count, 2))).astype(np.float32)
    rows = {"vector": x, "position": np.arange(count), "example_id": np.zeros(count, int), "bucket": np.zeros(count, int)}
    made = read_torch(export(tmp_path, {"l00h00q": rows, "l00h00k": {**rows, "vector": x[::-1]}}, num_layers=1, q_per_kv_group=1,
                             rope=rope([[1.0]])) / "triattention.pt")["stats"]["layer00_head00"]
    exact = [math.fsum(column.tolist()) / count for column in (x[:, 0], x[:, 1], np.hypot(*x.astype(float).T))]
    found = [float(made[part][0]) for part in ("q_mean_real", "q_mean_imag", "q_abs_mean")]
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_alternating_queries_have_a_length(tmp_path):
    """Of +1 and -1 in turn the mean is 0, and the mean length 1."""
    rows = {"vector": np.array([[1, 0], [-1, 0]] * 8, np.float32), "position": np.arange(16), "example_id": np.zeros(16, int), "bucket": np.zeros(16, int)}
    made = read_torch(export(tmp_path, {"l00h00q": rows, "l00h00k": rows}, num_layers=1, q_per_kv_group=1,
                             rope=rope([[1.0]])) / "triattention.pt")["stats"]["layer00_head00"]
    assert [float(made[part][0]) for part in ("q_mean_real", "q_mean_imag", "q_abs_mean")] == [0, 0, 1]


# ---- its bytes ---------------------------------------------------------------------------------

def describe_golden(folder):
    """A file of two layers, as text: what its pickle does, its numbers, where they lie."""
    rows = {f"l{layer:02d}h00{kind}": {"vector": np.array([[1, 2], [3 + layer, -2]], np.float32), "position": np.arange(2),
                                       "example_id": np.zeros(2, int), "bucket": np.zeros(2, int)} for layer in (0, 1) for kind in "qk"}
    path = export(folder, rows, q_per_kv_group=1, rope=rope([[1.0], [1.0]])) / "triattention.pt"
    with zipfile.ZipFile(path) as file:
        program, numbers = (file.read(f"triattention/{entry}") for entry in ("data.pkl", "data/0"))
        places = [f"{info.header_offset} {info.file_size} {info.date_time} {info.create_system} {info.extra} {info.filename}" for info in file.infolist()]
    steps = io.StringIO()
    pickletools.dis(program.replace(f"qkscope {VERSION}".encode(), b"qkscope 0.0.0"), steps)
    return "\n".join([steps.getvalue(), "numbers " + " ".join(map(str, np.frombuffer(numbers, "<f4").tolist())), *places,
                      f"{path.stat().st_size} bytes", ""])


def test_the_bytes_of_two_layers(tmp_path):
    """Written anew by: python tests/export/test_export_triattention.py"""
    assert describe_golden(tmp_path) == GOLDEN.read_text()


# ---- TRIA --------------------------------------------------------------------------------------

def read_tria(path):
    content = path.read_bytes()
    magic, version, layers, queries, keys, dim, count, theta, scale = struct.unpack_from("<7I2f", content)
    assert (magic, version, scale) == (0x54524941, 2, 1) and content[36:64] == bytes(28)
    assert len(content) == 64 + 4 * layers + 16 * layers * queries * count and dim == 2 * count
    numbers = np.frombuffer(content, "<f4", offset=64 + 4 * layers).reshape(layers, queries, 4, count).astype(float)
    assert np.frombuffer(content, "<f4", layers, 64).tolist() == [1] * layers
    return {"keys": keys, "dim": dim, "theta": theta, "z": numbers[:, :, 0] + 1j * numbers[:, :, 1], "length": numbers[:, :, 2],
            "resultant": numbers[:, :, 3]}


@pytest.mark.parametrize("pairs", [PAIRS, 3])
def test_tria_has_the_same_numbers(heads, tmp_path, pairs):
    """Also where RoPE turns the first dimensions alone."""
    frequencies = [THETA ** (-p / pairs) for p in range(pairs)]
    out = export(tmp_path, heads, "triattention-ggml", rope=rope([frequencies] * LAYERS, attention_factor=1.5))
    made = read_tria(out / "triattention.bin")
    mean, length = expected(heads, pairs)
    same((made["z"], made["length"], made["resultant"]), (mean, length, abs(mean) / length))
    assert (made["keys"], made["dim"], made["theta"]) == (KEYS, 2 * pairs, THETA)
    assert read_json(out / "triattention-made-from.json")["model"] == "org/made"


def test_the_bytes_of_tria(tmp_path):
    rows = {f"l00h00{kind}": {"vector": np.array([[3, 4], [3, 4]], np.float32), "position": np.arange(2), "example_id": np.zeros(2, int),
                              "bucket": np.zeros(2, int)} for kind in "qk"}
    out = export(tmp_path, rows, "triattention-ggml", num_layers=1, q_per_kv_group=1, rope=rope([[1.0]], theta=1e4))
    assert (out / "triattention.bin").read_bytes() == (
        b"AIRT" + struct.pack("<6I2f28x", 2, 1, 1, 1, 2, 1, 1e4, 1) + struct.pack("<f", 1) + struct.pack("<4f", 3, 4, 5, 1))


# ---- what the formats cannot say ---------------------------------------------------------------

REFUSED = {
    "triattention": [
        ({"rope": rope([FREQUENCIES, FREQUENCIES[::-1]])}, "layer 1 turns by other frequencies than layer 0"),
        ({"rope": rope([FREQUENCIES, []])}, "layer 1 has no RoPE"),
        ({"rope": rope([FREQUENCIES[:3]] * 2)}, "turns 6 of 8 dimensions.*triattention-ggml has room"),
        ({"rope": rope(first_dimension=4)}, r"from 4 on.*\(MLA\)"),
        ({"rope": {"type": "default"}}, "no rope.frequencies"),
        ({"stage": "post-rope"}, "--stage pre"),
    ],
    "triattention-ggml": [
        ({"rope": rope([OF_THETA, FREQUENCIES])}, "layer 1 turns by other frequencies than layer 0"),
        ({"rope": rope([OF_THETA] * 2, pairing="interleaved")}, "interleaved"),
        ({"rope": rope([[*OF_THETA[:3], OF_THETA[3] / 8]] * 2, type="llama3")}, "not those of theta 50 alone .*llama3"),
        ({"rope": rope([[*OF_THETA[:3], 0.0]] * 2)}, "not those of theta"),
        ({"rope": rope([OF_THETA] * 2, theta=None)}, "no rope.theta"),
        ({"rope": rope([OF_THETA] * 2, type="dynamic")}, ".dynamic. depend on the length of a text"),
    ],
}


@pytest.mark.parametrize("form, told, message", [(form, *case) for form, cases in REFUSED.items() for case in cases])
@pytest.mark.cases(4)
def test_what_is_refused_leaves_nothing(heads, tmp_path, form, told, message):
    with pytest.raises(qk.Error, match=message):
        export(tmp_path, heads, form, **told)
    assert not (tmp_path / "out").exists()


def test_some_layers_are_not_enough(heads, tmp_path):
    """A reader would count those that there are."""
    with pytest.raises(qk.NotFoundError, match="the first is l01h00q"):
        export(tmp_path, {name: rows for name, rows in heads.items() if name.startswith("l00")}, num_layers=LAYERS)
    assert not (tmp_path / "out").exists()


def test_what_readers_pass_over_is_told(heads, tmp_path):
    for name, told, message in (("short", rope(type="longrope"), "those of short ones"),
                                ("still", rope([[*FREQUENCIES[:3], 0.0]] * 2, type="proportional"), "some pairs do not turn")):
        with pytest.warns(qk.QkscopeWarning, match=message):
            export(tmp_path / name, heads, rope=told)


# ---- moments -----------------------------------------------------------------------------------

def test_moments_give_what_rows_give(qkscope, tmp_path):
    found = {}
    for keep in ("rows", "moments", "moments of shards"):
        words = ("capture", "-m", MODEL, "-t", TEXT, "--max-texts", 2, "--max-length", 64, "--long", "cut", "--stage", "pre", "--sampler", "all",
                 "--keep", keep.removesuffix(" of shards"), "-o", tmp_path / keep)
        for shard in (["--shard", "0/2"], ["--shard", "1/2"]) if "shards" in keep else ([],):
            qkscope(*words, *shard, expect=0)
        qk.export("triattention", tmp_path / keep, tmp_path / f"{keep}-out")
        found[keep] = read_torch(tmp_path / f"{keep}-out" / "triattention.pt")
    assert found["rows"]["metadata"].pop("qkscope")["tokens"] == found["moments"]["metadata"].pop("qkscope")["tokens"] == 128
    assert found["rows"]["metadata"] == found["moments"]["metadata"]
    for name, head in found["rows"]["stats"].items():
        for part, values in head.items():
            assert np.abs(found["moments"]["stats"][name][part] - values).max() <= 1.2e-7 * np.abs(values).max()  # a digit of float32
    whole, shards = (tmp_path / f"{keep}-out" / "triattention.pt" for keep in ("moments", "moments of shards"))
    assert whole.read_bytes() == shards.read_bytes()


if __name__ == "__main__":
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text(describe_golden(Path(folder)))
