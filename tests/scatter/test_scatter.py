# SPDX-License-Identifier: Apache-2.0
"""`qkscope scatter`: where the points lie, which are drawn, what is written beside them, compared
with NumPy from the definitions alone."""
import re

import numpy as np
import pytest
from conftest import EXAMPLE, head_name, read_csv, read_head, read_rows, write_head
from svg_pictures import Picture

pa = pytest.importorskip("pyarrow")
oracle = pytest.importorskip("scatter_oracle")

MINUS = "\N{MINUS SIGN}"


def random_head(capture, rows, dim, layer=0, position=None, **options):
    """A query and its key at equal positions."""
    rng = np.random.default_rng(rows)
    t = np.arange(rows) if position is None else position
    for kind in "qk":
        write_head(capture, head_name(layer, 0, kind), rng.standard_normal((rows, dim)).astype(np.float32), t, **options)


@pytest.fixture(scope="module")
def captures(shared_data, tmp_path_factory):
    """name -> (capture, query heads per key head, a head of it)"""
    def find(name):
        if name == "real":
            return EXAMPLE, 2, (2, 1)
        if name == "early in training":
            return shared_data("kjv-tiny-steps") / "step-100", 2, (1, 3)
        folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(3)
        for head in ("l01h00q", "l01h01q", "l01h02q", "l01h03q", "l01h00k", "l01h01k"):
            t = np.sort(rng.integers(0, 1024, 480))
            x = rng.standard_normal((480, 16)) * rng.uniform(0.3, 2, 16) + np.outer(t / 300, rng.standard_normal(16))
            write_head(folder, head, x.astype(np.float32), t)
        return folder, 2, (1, 2)
    return find


def rows_of(capture, group, head):
    q = read_head(capture, head_name(*head, "q"))
    return q, read_head(capture, head_name(head[0], head[1] // group, "k"))


def scatter(qkscope, capture, out, *options, head=None):
    """The points of each panel of a figure f."""
    if head:
        options = ("--heads", f"{head[0]}:{head[1]}", *options)
    qkscope("scatter", capture, "-o", out, "--name", "f", *options, expect=0)
    return oracle.drawn_points(out, "f")


def number(value):
    return f"{MINUS if value < 0 else '+'}{abs(value):.3f}"


# ---- where ------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["real", "early in training", "synth"])
def test_points_of_the_combined_pca(qkscope, captures, tmp_path, name):
    capture, group, head = captures(name)
    q, k = rows_of(capture, group, head)
    axes = oracle.pca_axes(q, k, 3)
    for x, y in ((0, 1), (2, 0)):
        [points] = scatter(qkscope, capture, tmp_path, "--max-points", 0, "--pc-x", x, "--pc-y",
                           y, head=head)
        expected = oracle.projections(q, k, axes[x][0], axes[y][0])
        assert len(points) == len(expected)
        oracle.match(points, expected)
        text = oracle.text_of(tmp_path)
        for pc in (x, y):
            _, share, r_q, r_k = axes[pc]
            line = re.search(rf"^PC{pc} var.*$", text, re.M).group()
            assert f"{100 * share:.1f}%" in line
            assert line.replace(" ", "").endswith(f"rQ={number(r_q)}rK={number(r_k)}"), line
        assert f"Layer {head[0]}, Head {head[1]}" in text
        assert f"PC{x}" in text.splitlines() and f"PC{y}" in text.splitlines()


@pytest.mark.parametrize("name", ["real", "synth"])
def test_points_of_the_rotation_plane(qkscope, captures, tmp_path, name):
    capture, group, head = captures(name)
    q, k = rows_of(capture, group, head)
    a, b, _, _ = oracle.plane_axes(q, k)
    [points] = scatter(qkscope, capture, tmp_path, "--max-points", 0, "--basis", "ab", head=head)
    oracle.match(points, oracle.projections(q, k, a, b))
    assert len(points) == len(q[0]) + len(k[0])
    text = oracle.text_of(tmp_path)
    position_r = abs(oracle.correlation(np.concatenate([q[0], k[0]]) @ a,
                                        np.concatenate([q[1], k[1]])))
    assert re.search(rf"^L{head[0]} H{head[1]} — ω = [0-9.e-]+, position r = {position_r:.3f}$",
                     text, re.M), text
    assert "a (position axis)" in text and "b (separation axis)" in text


def test_the_title_has_the_omega_of_the_table(qkscope, tmp_path):
    qkscope("rotate", EXAMPLE, "-o", tmp_path, "--layers", 2, expect=0)
    [row] = [r for r in read_csv(tmp_path / "rotated.csv") if r["q_head"] == 1]
    scatter(qkscope, EXAMPLE, tmp_path, "--basis", "ab", head=(2, 1))
    assert f"ω = {row['omega']:.2g}, " in oracle.text_of(tmp_path)


@pytest.mark.parametrize("name", ["real", "synth"])
def test_points_of_the_complement(qkscope, captures, tmp_path, name):
    capture, group, head = captures(name)
    q, k = rows_of(capture, group, head)
    dim = q[0].shape[1]
    _, _, axes, shares = oracle.plane_axes(q, k, dim - 2)
    panels = scatter(qkscope, capture, tmp_path, "--max-points", 200, "--basis", "complement", head=head)
    assert len(panels) == min(30, (dim - 2) // 2)
    text = oracle.text_of(tmp_path)
    assert re.search(rf"^L{head[0]} H{head[1]} — complement \(d {MINUS} 2 = {dim - 2}\), ω = ", text,
                     re.M)
    for i, points in enumerate(panels):
        oracle.match(points, oracle.projections(q, k, axes[2 * i], axes[2 * i + 1]))
        assert f"Pair {2 * i + 1}–{2 * i + 2} ({100 * shares[i]:.1f}%)" in text


@pytest.mark.parametrize("kind", ["q", "k"])
def test_points_of_one_kind(qkscope, captures, tmp_path, kind):
    capture, _, _ = captures("synth")
    rows = read_head(capture, head_name(1, 1, kind))
    axes = oracle.pca_axes(rows, None, 2)
    [points] = scatter(qkscope, capture, tmp_path, "--max-points", 0, "--kind", kind, head=(1, 1))
    expected = oracle.projections(rows, None, axes[0][0], axes[1][0])
    expected[:, 3] = kind == "k"
    oracle.match(points, expected)
    assert len(points) == len(expected)
    text = oracle.text_of(tmp_path)
    assert f"r = {number(axes[0][2])}" in text
    assert ("Q position" in text, "K position" in text) == (kind == "q", kind == "k")
    assert ("Head 1" if kind == "q" else "Key head 1") in text


def test_float64_rows_far_from_zero(qkscope, tmp_path):
    rng = np.random.default_rng(5)
    t = np.arange(300) * 5 + 999_000
    q = (rng.standard_normal((300, 6)) + 1e4 + t[:, None] * 1e-3, t)
    k = (rng.standard_normal((300, 6)) - 1e4, t)
    for kind, (x, position) in (("q", q), ("k", k)):
        write_head(tmp_path / "c", head_name(0, 0, kind), x, position)
    [points] = scatter(qkscope, tmp_path / "c", tmp_path, "--max-points", 0)
    axes = oracle.pca_axes(q, k, 2)
    expected = oracle.projections(q, k, axes[0][0], axes[1][0])
    order, wanted = np.argsort(points[:, 0]), np.argsort(expected[:, 0])
    assert np.allclose(points[order, 0], expected[wanted, 0], rtol=1e-5)


# ---- which ------------------------------------------------------------------------------------

@pytest.mark.parametrize("most", [1, 7, 100, 899])
def test_rows_are_thinned_evenly(qkscope, captures, tmp_path, most):
    """One row out of each of `most` equal stretches of the file."""
    capture, group, head = captures("real")
    q, k = rows_of(capture, group, head)
    axes = oracle.pca_axes(q, k, 2)
    [points] = scatter(qkscope, capture, tmp_path, "--max-points", most, head=head)
    index = oracle.match(points, oracle.projections(q, k, axes[0][0], axes[1][0]))
    for first, rows in ((0, len(q[0])), (len(q[0]), len(k[0]))):
        picked = np.sort(index[(index >= first) & (index < first + rows)]) - first
        assert len(picked) == min(most, rows)
        length, longer = divmod(rows, most)
        ends = np.cumsum([length + (i < longer) for i in range(min(most, rows))])
        assert np.all(picked < ends) and np.all(picked >= np.concatenate([[0], ends[:-1]]))


def test_thinning_does_not_share_the_rhythm_of_the_file(qkscope, tmp_path):
    """Half of the rows of a file whose rows alternate between two halves of the context."""
    random_head(tmp_path / "c", 4000, 8, position=np.where(np.arange(4000) % 2 == 0, 10, 1000))
    [points] = scatter(qkscope, tmp_path / "c", tmp_path, "--max-points", 2000)
    assert 0.45 < np.mean(points[:, 2] > 500) < 0.55


def test_queries_and_keys_are_mixed(qkscope, captures, tmp_path):
    capture, _, head = captures("real")
    [points] = scatter(qkscope, capture, tmp_path, head=head)
    keys, middle = points[:, 3], len(points) // 2
    assert abs(keys[:middle].mean() - keys[middle:].mean()) < 0.1
    assert np.sum(keys[1:] != keys[:-1]) > len(points) / 3


@pytest.mark.test_all
def test_defaults_thin_to_8000_and_2000(qkscope, tmp_path):
    random_head(tmp_path / "c", 9000, 8)
    for options, panels, count in (([], 1, 8000), (["--basis", "complement"], 3, 2000)):
        drawn = scatter(qkscope, tmp_path / "c", tmp_path, *options)
        assert [[np.sum(points[:, 3] == kind) for kind in (0, 1)] for points in drawn] == panels * [[count, count]]


def test_only_the_first_rows(qkscope, captures, tmp_path):
    capture, group, head = captures("real")
    q, k = ((x[:100], t[:100]) for x, t in rows_of(capture, group, head))
    axes = oracle.pca_axes(q, k, 2)
    [points] = scatter(qkscope, capture, tmp_path, "--max-samples", 100, head=head)
    oracle.match(points, oracle.projections(q, k, axes[0][0], axes[1][0]))
    assert len(points) == 200


# ---- one text ---------------------------------------------------------------------------------

@pytest.mark.parametrize("basis", ["pca", "ab"])
def test_one_text_stands_out(qkscope, tmp_path, basis):
    rows = {kind: read_rows(EXAMPLE, head_name(2, head, kind)) for kind, head in (("q", 2), ("k", 1))}
    scatter(qkscope, EXAMPLE, tmp_path, "--example-id", 7, "--max-points", 50, "--basis", basis,
            head=(2, 2))
    others = ("query of another text", "key of another text")
    [queries], [keys], [rest] = (oracle.drawn_points(tmp_path, "f", series) for series in (("query",), ("key",), others))
    for drawn, kind in ((queries, "q"), (keys, "k")):
        of_text = rows[kind]["position"][rows[kind]["example_id"] == 7]
        assert sorted(drawn[:, 2]) == sorted(of_text)
        assert np.all(drawn[:, 3] == (kind == "k"))
    assert 80 < len(rest) <= 100
    text = oracle.text_of(tmp_path)
    assert "Text 7: ● queries, ▲ keys; other texts grey" in text
    assert "position" in text.splitlines() and "Q position" not in text


def test_a_text_that_is_not_there(qkscope, tmp_path):
    done = qkscope("scatter", EXAMPLE, "-o", tmp_path / "o", "--example-id", 60, expect=1)
    assert "no text with example_id 60; there are 0, 1, 2, 3, 4, 5, ... 59 (60 texts)" in done.err
    assert not (tmp_path / "o").exists()


# ---- colours ----------------------------------------------------------------------------------

def bars_of(folder, name="f"):
    """Labels of tics by the name of their colour bar, which follows them in the drawing."""
    picture, found, tics = Picture(folder / name), {}, []
    for text in picture.texts:
        if text.turn and text.text.endswith("position") and text.x > picture.width / 2:
            found[text.text], tics = tics, []
        elif text.anchor == "start" and text.x > 0.7 * picture.width and text.turn == 0:
            tics = [*tics, text.text]
    return found


def test_bars_have_round_ends_and_tics(qkscope, tmp_path):
    scatter(qkscope, EXAMPLE, tmp_path, "--collage", "2x2")
    tics = ["0", "256", "512", "768", "1,024"]
    assert bars_of(tmp_path) == {"Q position": tics, "K position": tics}


@pytest.mark.cases(7)
@pytest.mark.parametrize("positions, tics", [
    ([5] * 20, ["5"]),
    ([3, 4], ["3", "4"]),
    (range(0, 131071, 999), ["0", "32,768", "65,536", "98,304", "131,072"]),
    (range(700, 1900, 7), ["768", "1,024", "1,280", "1,536", "1,792"]),
    ([10**15 + i for i in range(100)], None),
    ([-7, -2, 3], ["-6", "-4", "-2", "0", "2"]),
    ([-2**62, 2**62], None),
])
def test_bars_of_odd_positions(qkscope, tmp_path, positions, tics):
    t = np.array([positions[i % len(positions)] for i in range(200)], np.int64)
    random_head(tmp_path / "c", 200, 8, position=t, position_type=pa.int64())
    scatter(qkscope, tmp_path / "c", tmp_path)
    assert all(found and tics in (None, found) for found in bars_of(tmp_path).values()) and len(bars_of(tmp_path)) == 2


def test_late_stands_out_on_any_page(qkscope, tmp_path):
    def luminance(color):
        return sum(w * int(color[i:i + 2], 16) for w, i in ((0.2, 1), (0.7, 3), (0.1, 5)))

    for theme in ("paper", "screen", "dark"):
        scatter(qkscope, EXAMPLE, tmp_path, "--theme", theme)
        ground, *boxes = Picture(tmp_path / "f").shapes("rect")
        knots = [luminance(box["fill"]) for box in boxes if 16 < float(box["width"]) < 22 and float(box["height"]) > 2 and box["fill"] != "none"]
        assert len(knots) == 128
        for ramp in (knots[:64], knots[64:]):
            contrast = [abs(k - luminance(ground["fill"])) for k in ramp]
            assert all(b >= a - 3 for a, b in zip(contrast, contrast[1:])) and contrast[0] > 35, (theme, contrast)
