# SPDX-License-Identifier: Apache-2.0
"""qkscope attention of sums that a capture keeps, which NumPy made and the sink was given."""
import csv
import shutil

import numpy as np
import pytest
from attention_oracle import NUMBERS, Text, expected
from attention_rows import BINS, FAR_BINS, LOGIT, SHIFT, SUMS, bin_of, sums_of_text
from conftest import ROOT
from safetensors import safe_open
from safetensors.numpy import save_file

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
LENGTHS = (20, 26, 31, 18, 40, 24, 35, 22, 70, 33)
LAYERS, HEADS, DIM = 2, 4, 8
KINDS = [["any", "previous", "sink", "uniform"], ["sink", "any", "any", "previous"]]


@pytest.fixture(scope="module")
def texts():
    """[layer][head][text]"""
    rng = np.random.default_rng(11)
    tokens = [rng.integers(0, 12, n) for n in LENGTHS]
    made = [[[Text(rng, n, kind=kind) for n in LENGTHS] for kind in kinds] for kinds in KINDS]
    for layer in made:
        for head in layer:
            for text, own in zip(head, tokens, strict=True):
                text.tokens = own
    return made


def write(folder, texts, keep):
    """A capture with rows of chance beside the sums of these texts."""
    from qkscope._call import call, ffi, lib
    rng = np.random.default_rng(3)
    model = qk.Model("made", LAYERS, HEADS, 2, DIM)
    rows = {(i, kind): rng.normal(size=(4 if kind == "q" else 2, n, DIM)).astype(np.float32)
            for i, n in enumerate(LENGTHS) for kind in "qk"}
    with qk.Sink(folder, model=model, texts=len(LENGTHS), tokens=sum(LENGTHS), keep=keep) as sink:
        for i, n in enumerate(LENGTHS):
            with sink.text(i, tokens=n):
                for layer in range(LAYERS):
                    buckets = bin_of(n - 1) + 1
                    counts = np.bincount([bin_of(t) for t in range(n)])
                    sums = np.ascontiguousarray([sums_of_text(texts[layer][h][i].a, texts[layer][h][i].tokens)
                                                 for h in range(HEADS)])
                    given = ffi.new("qk_sink_attention *", {"text": i, "layer": layer, "num_heads": HEADS, "num_buckets": buckets})
                    given.heads = heads = ffi.new("int[]", list(range(HEADS)))
                    given.bucket_rows = bucket_rows = ffi.new("int64_t[]", counts.tolist())
                    given.sums = ffi.cast("double *", ffi.from_buffer(sums))
                    assert sums.shape == (HEADS, buckets, SUMS) and buckets <= BINS
                    call(lib.qk_sink_put_attention, sink._sink, given)
                    for kind in "qk":
                        sink.put(i, layer, kind, rows[i, kind])
                    del heads, bucket_rows
    return folder


@pytest.fixture(scope="module")
def capture(texts, tmp_path_factory):
    return write(tmp_path_factory.mktemp("kept") / "capture", texts, "rows,attention")


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_numbers_of_kept_sums(qkscope, capture, texts, tmp_path):
    qkscope("attention", capture, "-o", tmp_path / "results", "--ci", "95", "-q", expect=0)
    heads = read(tmp_path / "results" / "attention.csv")
    assert len(heads) == LAYERS * HEADS
    for head in heads:
        own = texts[int(head["layer"])][int(head["q_head"])]
        want = expected(own, max(LENGTHS) - 4)
        for name in NUMBERS:
            if name.endswith("_excess"):
                continue
            found = float(head[name]) if head[name] else np.nan
            if name == "distance_share" and want["far_information"] < 0.05:
                want[name] = np.nan
            # Of texts of several lengths the numbers of keys are not spread evenly up to the most.
            least = 5e-3 if name == "distance_share" else 1e-9
            np.testing.assert_allclose(found, want[name], rtol=least, atol=least, err_msg=name)
        assert float(head["logit_max"]) == pytest.approx(max(np.log(text.a.max()) for text in own) + SHIFT, rel=1e-12)
        assert (int(head["texts"]), int(head["rows"])) == (len(LENGTHS), sum(LENGTHS))
        kind = KINDS[int(head["layer"])][int(head["q_head"])]
        assert {"previous": "previous-token", "any": None}.get(kind, kind) in [*head["names"].split(), None]
    profile = read(tmp_path / "results" / "attention_profile.csv")
    assert {c["row_first"] for c in profile} == {"8", "16", "32", "64"}
    assert all(c["predicted_rotation"] for c in profile)
    assert not any(c["predicted_means"] for c in profile)  # no frequencies


@pytest.mark.cases(1)
@pytest.mark.parametrize("keep", ["moments,attention", "rows,moments,attention"])
def test_the_same_beside_moments(qkscope, capture, texts, tmp_path, keep):
    """Whatever else is kept."""
    other = write(tmp_path / "capture", texts, keep)
    tables = []
    for source in (capture, other):
        qkscope("attention", source, "-o", tmp_path / source.parent.name, "-q", expect=0)
        tables.append(read(tmp_path / source.parent.name / "attention.csv"))
    for rows in zip(*tables, strict=True):
        for column in rows[0]:
            if not column.startswith("rotation_"):  # of moments that were summed in another order
                assert rows[0][column] == rows[1][column], column


@pytest.mark.parametrize("folder, keep", [("attention", "rows,attention"), ("moments", "moments")])
def test_sums_of_another_capture(qkscope, tmp_path, folder, keep):
    """The same texts and heads, of the model at another step: they fit, and are not these."""
    model = ROOT / "examples" / "kjv-tiny"
    for step in ("20", "2004"):
        qkscope("capture", "-m", model / f"step-{step}", "-t", "repeat:20x2:9:1", "--layers", "0", "--keep", keep, "-o",
                tmp_path / step, "-q", expect=0)
    qkscope("analyze", tmp_path / "20", "-o", tmp_path / "before", "-q", expect=0)
    shutil.copy(tmp_path / "2004" / folder / "l00.safetensors", tmp_path / "20" / folder)
    said = qkscope("analyze", tmp_path / "20", "-o", tmp_path / "out")
    assert said.code != 0 and f"{folder}/l00.safetensors: these sums are of another capture" in said.err


def test_what_is_damaged(qkscope, capture, tmp_path):
    """A file that is not there, of another layer, or cut off: its heads have no numbers, and the file is named."""
    for name in ("absent", "other", "cut"):
        shutil.copytree(capture, tmp_path / name)
        file = tmp_path / name / "attention" / "l01.safetensors"
        if name == "other":
            shutil.copy(file.with_name("l00.safetensors"), file)
        elif name == "cut":
            file.write_bytes(file.read_bytes()[:-9])
        else:
            file.unlink()
        said = qkscope("attention", tmp_path / name, "-o", tmp_path / f"{name}-out")
        assert said.code != 0
        assert "attention/l01.safetensors" in said.err
        assert len(read(tmp_path / f"{name}-out" / "attention.csv")) == HEADS


def test_sums_of_older_programs(qkscope, capture, tmp_path):
    """Files of 102 sums, those of squares, of rows with tokens, of keys in bins and of the largest weight among them: the same numbers."""
    old = shutil.copytree(capture, tmp_path / "old")
    for file in (old / "attention").iterdir():
        with safe_open(file, "np") as opened:
            facts = {name: value for name, value in opened.metadata().items() if name != "xxh3_128"}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}
        for name in ("q.mean", "q.bucket_mean"):
            arrays[name] = np.insert(arrays[name], [7, *[8] * 2, FAR_BINS, *[LOGIT] * 33], 0.5, axis=-1)
            assert arrays[name].shape[-1] == 102
        save_file(arrays, file, facts)
    for name in ("capture", "old"):
        source = capture if name == "capture" else old
        qkscope("attention", source, "-o", tmp_path / f"{name}-out", "--ci", "95", "-q", expect=0)
    for table in ("attention.csv", "attention_profile.csv"):
        assert (tmp_path / "old-out" / table).read_bytes() == (tmp_path / "capture-out" / table).read_bytes()
