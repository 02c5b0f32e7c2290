# SPDX-License-Identifier: Apache-2.0
"""`qkscope scatter --basis attention`: strips of attention against NumPy's softmax of the capture's rows."""
import json
import math
import shlex

import numpy as np
import pytest
from attention_rows import attention
from conftest import EXAMPLE, ROOT, head_name, read_rows, write_rows
from figure_files import numbers, panels, svg_texts
from svg_pictures import Picture

MODEL = ROOT / "examples" / "kjv-tiny"
LENGTHS = [60, 1300, 1, 300]  # characters of texts


@pytest.fixture(scope="module")
def captures(qkscope, tmp_path_factory):
    """Every row of two layers before and after RoPE, and a capture of moments."""
    folder = tmp_path_factory.mktemp("strips")
    lines = [json.loads(line)["text"] for line in (MODEL / "passages.jsonl").read_text().splitlines()]
    (folder / "t.jsonl").write_text("".join(json.dumps({"text": line[:size]}) + "\n"
                                            for line, size in zip(lines, LENGTHS, strict=False)))
    common = ["capture", "-m", MODEL / "step-2004", "-t", folder / "t.jsonl", "--layers", "0,3", "-q"]
    qkscope(*common, "--sampler", "all", "--stage", "both", "-o", folder / "all", expect=0)
    qkscope(*common, "--sampler", "all", "--keep", "moments", "-o", folder / "moments", expect=0)
    return folder


def text_of(capture, layer, head, kind, text):
    """Vectors of a text, by position."""
    rows = read_rows(capture, head_name(layer, head, kind))
    own = np.flatnonzero(rows["example_id"] == text)
    own = own[np.argsort(rows["position"][own])]
    assert (rows["position"][own] == np.arange(len(own))).all()
    return rows["vector"][own]


def weights_of(capture, layer, head, text, key_head=None, scale=None, window=0):
    q = text_of(capture, layer, head, "q", text)
    k = text_of(capture, layer, head // 2 if key_head is None else key_head, "k", text)
    return attention(q, k, scale or 1 / math.sqrt(q.shape[1]), window)


def strips(qkscope, capture, out, *options):
    """Of each panel the columns key, row, weight."""
    qkscope("scatter", capture, "--basis", "attention", "-o", out, "--name", "f", *options, "-q", expect=0)
    return [numbers(panel, "x", "y", "value") for panel in panels(out / "f")]


def check(panel, a):
    """The last row and others at equal steps, and of each column its largest key."""
    n = len(a)
    width = next(w for w in (1, 2, 4, 8) if math.ceil(n / w) <= 400)
    key, row, weight = panel.T
    rows = sorted(set(row.astype(int)))
    step = n // min(n, 12)
    assert rows == [n - 1 - step * i for i in reversed(range(min(n, 12)))]
    for i in rows:
        own = row == i
        most = np.array([a[i, c:c + width].max() for c in range(0, i + 1, width)])
        expected = most[most > 0]  # where some key is seen
        assert np.allclose(weight[own], expected, rtol=1e-5, atol=1e-300)
        assert np.allclose(weight[own], a[i, key[own].astype(int)], rtol=1e-5, atol=1e-300)


@pytest.mark.cases(1)
@pytest.mark.parametrize("text", [1, 0, 2, 3])
def test_weights_are_those_of_numpy(qkscope, captures, tmp_path, text):
    capture = captures / "all" / "post"
    heads = [(0, 3), (3, 0), (0, 0), (3, 2)]
    panels_ = strips(qkscope, capture, tmp_path, "--heads", ",".join(f"{x}:{h}" for x, h in heads), "--collage",
                    "--example-id", text)
    for head, panel in zip(heads, panels_, strict=True):
        check(panel, weights_of(capture, *head, text))
    if text == 2:
        assert panels_[0].tolist() == [[0, 0, 1]]
    if text == 1:  # the keys are those of key head 1, not 0
        with pytest.raises(AssertionError):
            check(panels_[0], weights_of(capture, 0, 3, text, key_head=0))


def test_the_longest_text_unless_one_is_named(qkscope, captures, tmp_path):
    capture = captures / "all" / "post"
    [panel] = strips(qkscope, capture, tmp_path, "--heads", "0:3")
    a = weights_of(capture, 0, 3, 1)
    assert len(a) > 400
    check(panel, a)
    texts = svg_texts(tmp_path / "f.svg")
    assert any("Rows of attention of text 1; largest weight of every" in t for t in texts), texts
    assert {"Layer 0, Head 3", "Weight (≤ 0.001 to 1)", "Key position", "Query position", str(len(a) - 1)} <= set(texts)
    note = (tmp_path / "f.md").read_text()
    assert "the largest of their weights" in note and "does not tell" in note
    before = (tmp_path / "f.csv").read_bytes()
    [command] = [line.strip() for line in note.splitlines() if line.startswith("    qkscope scatter")]
    qkscope(*shlex.split(command)[1:], cwd=tmp_path, expect=0)
    assert (tmp_path / "f.csv").read_bytes() == before


def test_colours_are_logarithmic(qkscope, captures, tmp_path):
    [panel] = strips(qkscope, captures / "all" / "post", tmp_path, "--heads", "0:3")
    picture = Picture(tmp_path / "f")
    boxes = [box["fill"] for box in picture.shapes("rect")[1:] if box["fill"] != "#d8dee4"]
    color = dict(zip(panel[:, 2], boxes[-128 - len(panel):]))
    assert not picture.shapes("image"), "strips as an image have no rectangles to look at"
    assert {c for w, c in color.items() if w <= 0.001} == {"#440154"}
    middle = [int(c[3:5], 16) for w, c in color.items() if 0.028 < w < 0.035]  # half of the way: green of viridis
    assert middle and all(abs(green - 145) < 6 for green in middle)
    assert abs(int(boxes[-64][3:5], 16) - 145) < 6, "so has the bar"
    assert {"0.001", "0.01", "0.1", "1"} <= set(svg_texts(tmp_path / "f"))


# ---- captures made by hand -----------------------------------------------------------------------

def made(folder, n=30, dim=8, texts=(5,), keep=None, order=None, window=None, facts=None):
    """One head; keep: of each kind which rows, in that order. Returns weights of a scale."""
    rng = np.random.default_rng(4)
    vectors = {kind: 2 * rng.standard_normal((n * len(texts), dim)).astype(np.float32) for kind in "qk"}
    columns = {"position": np.tile(np.arange(n), len(texts)), "example_id": np.repeat(texts, n)}
    for kind, x in vectors.items():
        rows = np.asarray((keep or {}).get(kind, np.arange(len(x))))
        write_rows(folder, head_name(0, 0, kind), {"vector": x[rows], "sliding_window": [window] * len(rows),
                                                   **{name: c[rows] for name, c in columns.items()}}, repeats=True)
    if facts:
        (folder / "capture.json").write_text(json.dumps(facts))
    return lambda scale: attention(vectors["q"][:n], vectors["k"][:n], scale, window or 0)


def refused(qkscope, capture, out, *options):
    done = qkscope("scatter", capture, "--basis", "attention", "-o", out / "o", *options, expect=1)
    assert not (out / "o").exists()
    return done.err


@pytest.mark.parametrize("facts, options, scale", [
    (None, [], 8 ** -0.5), ({"attention_scale": 0.05}, [], 0.05), ({"attention_scale": 0.05}, ["--attention-scale", 0.6], 0.6)])
def test_scale(qkscope, tmp_path, facts, options, scale):
    weights = made(tmp_path / "c", facts=facts)
    [panel] = strips(qkscope, tmp_path / "c", tmp_path, *options)
    check(panel, weights(scale))


def test_a_window_hides_keys(qkscope, tmp_path):
    """Whatever the order of the rows is."""
    rng = np.random.default_rng(1)
    weights = made(tmp_path / "c", window=6, keep={kind: rng.permutation(30) for kind in "qk"})
    [panel] = strips(qkscope, tmp_path / "c", tmp_path)
    check(panel, weights(8 ** -0.5))
    assert (panel[:, 1] - panel[:, 0] < 6).all()


@pytest.mark.parametrize("key", [0, 17, 28])
def test_a_missing_key_is_refused(qkscope, tmp_path, key):
    """Queries are needed where strips are."""
    made(tmp_path / "c", keep={"k": [i for i in range(30) if i != key], "q": list(range(7, 30, 2))})
    said = refused(qkscope, tmp_path / "c", tmp_path)
    assert "l00h00k" in said and "of text 5 some before position 29 are missing: capture with --sampler all" in said


def test_texts_of_one_id_are_refused(qkscope, tmp_path):
    made(tmp_path / "c", texts=(5, 5))
    assert "text 5 has position 0 2 times; 30 of the head's 60 rows" in refused(qkscope, tmp_path / "c", tmp_path)
    said = refused(qkscope, tmp_path / "c", tmp_path, "--allow-repeats")
    assert "text 5 has position 0 twice: several texts have that id" in said


# ---- what is refused -------------------------------------------------------------------------------

def test_samples_moments_and_rows_before_rope_are_refused(qkscope, captures, tmp_path):
    assert "capture with --sampler all" in refused(qkscope, EXAMPLE, tmp_path)
    for capture in ("moments", "all/pre"):
        said = refused(qkscope, captures / capture, tmp_path)
        assert "attention needs every row of a text, after RoPE: capture with --sampler all" in said, said


def test_a_text_that_is_not_there(qkscope, captures, tmp_path):
    said = refused(qkscope, captures / "all" / "post", tmp_path, "--example-id", 9)
    assert "no text with example_id 9; there are 0, 1, 2, 3" in said


@pytest.mark.parametrize("options", [
    ["--kind", "q"], ["--pc-x", 2], ["--centred"], ["--max-points", 10], ["--max-samples", 5], ["--from-position", 1]])
def test_options_of_points_are_usage_errors(qkscope, captures, tmp_path, options):
    done = qkscope("scatter", captures / "all" / "post", "--basis", "attention", "-o", tmp_path / "o", *options, expect=2)
    assert options[0] in done.err or options[0] == "--kind" and "one kind alone" in done.err
    assert not (tmp_path / "o").exists()
