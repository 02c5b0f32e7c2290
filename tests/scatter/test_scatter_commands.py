# SPDX-License-Identifier: Apache-2.0
"""`qkscope scatter` and its aliases as commands: published command lines, heads chosen, pictures and
their names, drawing again, odd paths, hostile text, threads, errors."""
import json
import os
import random
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest
from conftest import EXAMPLE, environment, head_name, head_names, read_head, write_head
from figure_files import WHOLE, fake_converter, needs_rsvg

pytest.importorskip("pyarrow")
oracle = pytest.importorskip("scatter_oracle")


@pytest.fixture
def alias(program, qkscope, tmp_path):
    """alias("pca-visualize", ...): the program under that name, in tmp_path."""
    def run(name, *arguments, **options):
        link = tmp_path / "bin" / name
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(program)
        options.setdefault("cwd", tmp_path)
        return qkscope(*arguments, executable=link, **options)
    return run


@pytest.fixture
def config(tmp_path):
    (tmp_path / "F").write_text(f"data:\n  dataset_name: {EXAMPLE}\noutput:\n  results_dir: res\n")
    return tmp_path / "F"


def query_heads(capture=EXAMPLE):
    """(layer, head) of the query heads, in order."""
    names = [n for n in head_names(capture) if n.endswith("q")]
    return sorted((int(n[1:3]), int(n[4:6])) for n in names)


def drawn(qkscope, *arguments):
    return json.loads(qkscope("scatter", *arguments, "--json", expect=0).out)


def heads_of(outcome):
    return [(h["layer"], h["head"]) for h in outcome["heads"]]


def small_capture(folder, rows, dim, layer=0):
    rng = np.random.default_rng(0)
    for kind in "qk":
        write_head(folder, head_name(layer, 0, kind), rng.standard_normal((rows, dim)).astype(np.float32), np.arange(rows))


def names_in(folder):
    return sorted(p.name for p in folder.iterdir())


# ---- published command lines -------------------------------------------------------------------

@pytest.mark.cases(3)
@pytest.mark.parametrize("name, options, basis, panels", [
    ("pca-visualize", ["--collage"], "pca", 4), ("rotate-visualize", ["--collage"], "ab", 4),
    ("rotate-visualize", ["--basis", "complement"], "complement", 15),
])
def test_published(alias, config, tmp_path, name, options, basis, panels):
    alias(name, "--config", "F", "--random", *options, "--seed", 42, expect=0)
    heads = sorted(random.Random(42).sample(query_heads(), 4 if "--collage" in options else 1))
    figure = f"scatter-{basis}-" + "-".join(f"l{l:02}h{h:02}" for l, h in heads)
    assert names_in(tmp_path / "res") == [f"{figure}.csv", f"{figure}.md", f"{figure}.svg"]
    assert len(oracle.drawn_points(tmp_path / "res", figure)) == panels


def test_published_example(alias, config, tmp_path):
    alias("pca-visualize", "--config", "F", "--heads", "0:0", "--kind", "q", "--example-id",
          0, "--output", "scatter.png", env=fake_converter(tmp_path / "fake", WHOLE), expect=0)
    assert {"scatter.png", "scatter.svg", "scatter.csv"} <= set(names_in(tmp_path))
    assert not (tmp_path / "res").exists()
    [points] = oracle.drawn_points(tmp_path, "scatter", ("query",))
    assert not points[:, 3].any()


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", ["q", "k", "q,k"])
def test_pca_visualize_is_about_zero(alias, tmp_path, kind):
    """Points as scikit-learn's PCA.transform has them, lines through zero, r of the components."""
    (tmp_path / "F").write_text(f"data: {{dataset_name: {EXAMPLE}}}\npca: {{n_components: 5}}\n")
    q, k = read_head(EXAMPLE, "l02h01q"), read_head(EXAMPLE, "l02h00k")
    if kind == "k":
        q = read_head(EXAMPLE, "l02h01k")
    options = [] if kind == "q,k" else ["--kind", kind]
    alias("pca-visualize", "--config", "F", "--heads", "2:1", "--max-points", 0, "--pc-x", 2,
          "--pc-y", 7, "--output", "one.svg", *options, expect=0)
    [points] = oracle.drawn_points(tmp_path, "one")
    k = k if kind == "q,k" else None
    axes = oracle.pca_axes(q, k, 8)
    expected = oracle.projections(q, k, axes[2][0], axes[7][0])
    expected[:, :2] -= expected[:, :2].mean(axis=0)
    expected[:, 3] = 1 if kind == "k" else expected[:, 3]
    oracle.match(points, expected)
    text = oracle.text_of(tmp_path, "one").replace("\N{MINUS SIGN}", "-")
    said = dict.fromkeys(re.findall(r"PC(\d+)\s+var\s+([0-9.]+)%\s+r.*?= ([+-][0-9.]+)", text))
    assert [int(s[0]) for s in said] == ([2, 7] if kind == "q,k" else [0, 1, 2, 3, 4, 7])
    for pc, share, r in said:
        assert float(share) == pytest.approx(100 * axes[int(pc)][1], abs=0.051)
        assert float(r) == pytest.approx(axes[int(pc)][2], abs=0.00051)
    zero = [text for text in oracle.text_of(tmp_path, "one").splitlines() if text == "0"]
    assert len(zero) == (4 if kind == "q,k" else 3), "on both axes, and where bars of positions begin"


def test_scatter_is_not_centred(qkscope, tmp_path):
    """Its points add up to scores, unless asked."""
    both = []
    for options in ([], ["--centred"]):
        drawn(qkscope, EXAMPLE, "-o", tmp_path, "--name", "f", "--heads", "2:1", "--max-points", 0, *options)
        both.append(oracle.drawn_points(tmp_path, "f")[0][:, :2].mean(axis=0))
    assert np.abs(both[0]).max() > 0.1 and np.abs(both[1]).max() < 1e-4


def test_options_override_the_config(qkscope, config, tmp_path):
    """An alias as a command, with a capture and a folder that the file has others of."""
    small_capture(tmp_path / "other", 80, 8)
    out = json.loads(qkscope("rotate-visualize", "other", "--config", "F", "-o", "here", "--json", cwd=tmp_path,
                             expect=0).out)
    assert (out["basis"], out["output"], out["points"]) == ("ab", "here", 160)


# ---- which heads --------------------------------------------------------------------------------

@pytest.mark.cases(5)
@pytest.mark.parametrize("count, seed, layers", [
    (1, 0, None), (4, 42, None), (7, -3, None), (20, 2**40, None), (3, 5, (1, 3, 4))])
def test_random_heads_are_those_of_python(qkscope, tmp_path, count, seed, layers):
    outcome = drawn(qkscope, EXAMPLE, "-o", tmp_path, f"--random={count}", "--seed", seed, "--max-points", 10, "--collage", "5x4",
                    *(["--layers", "1,3-4"] if layers else []))
    heads = [h for h in query_heads() if layers is None or h[0] in layers]
    assert heads_of(outcome) == sorted(random.Random(seed).sample(heads, count))


def test_the_value_of_random_and_collage_may_be_left_out(qkscope, tmp_path):
    few = ["-o", tmp_path, "--max-points", 10]
    assert len(drawn(qkscope, "--random", EXAMPLE, *few)["heads"]) == 1
    assert len(drawn(qkscope, "--random", "2", EXAMPLE, *few)["heads"]) == 2
    assert len(drawn(qkscope, "--collage", "--random", EXAMPLE, *few)["heads"]) == 4
    assert len(drawn(qkscope, "--random", "--collage", "3x2", EXAMPLE, *few)["heads"]) == 6
    assert len(drawn(qkscope, "--collage=1x5", EXAMPLE, *few)["heads"]) == 5
    outcome = drawn(qkscope, "--random", "5", "--collage", EXAMPLE, *few)
    assert len(outcome["heads"]) == 5 and len(outcome["figures"]) == 2


def test_more_heads_than_there_are(qkscope, tmp_path):
    done = qkscope("scatter", EXAMPLE, "-o", tmp_path, "--random", 30, "--collage", "5x5",
                   "--max-points", 10, expect=0)
    assert "30 heads were asked for, there are 20" in done.err


def test_heads_in_the_order_given(qkscope, tmp_path):
    outcome = drawn(qkscope, EXAMPLE, "-o", tmp_path, "--heads", "4:3,0:1,2:2", "--collage", "2x2")
    assert heads_of(outcome) == [(4, 3), (0, 1), (2, 2)]
    assert outcome["figures"] == ["scatter-pca-l04h03-l00h01-l02h02"]
    assert outcome["points"] == sum(map(len, oracle.drawn_points(tmp_path, *outcome["figures"])))


def test_a_figure_for_each_head_and_pages(qkscope, tmp_path):
    few = ["--max-points", 10, "--name", "f"]
    assert drawn(qkscope, EXAMPLE, "-o", tmp_path, "--heads", "4:3,0:1", *few)["figures"] == [
        "f-l04h03", "f-l00h01"]
    assert drawn(qkscope, EXAMPLE, "-o", tmp_path, "--random", 5, "--collage", *few)["figures"] == [
        "f-1", "f-2"]
    assert drawn(qkscope, EXAMPLE, "-o", tmp_path, "--heads", "4:3", *few)["figures"] == ["f"]


# ---- files --------------------------------------------------------------------------------------

@needs_rsvg
@pytest.mark.test_all
@pytest.mark.parametrize("basis, theme", [("pca", "paper"), ("ab", "screen"), ("complement", "dark")])
def test_every_format_and_theme(qkscope, tmp_path, basis, theme):
    qkscope("scatter", EXAMPLE, "-o", tmp_path, "--heads", "2:1", "--basis", basis, "--theme", theme,
            "--format", "png,svg,pdf", "--name", "f", "--title", "A title", expect=0)
    assert names_in(tmp_path) == ["f.csv", "f.md", "f.pdf", "f.png", "f.svg"]
    width, height = re.search(r'viewBox="0 0 (\d+) (\d+)"', (tmp_path / "f.svg").read_text()).groups()
    assert struct.unpack(">2I", (tmp_path / "f.png").read_bytes()[16:24]) == (2 * int(width), 2 * int(height))
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    text = oracle.text_of(tmp_path).splitlines()
    assert {"A title", "Q position", "K position", "1,024", "512", "0"} <= set(text)


@pytest.mark.cases(4)
@pytest.mark.parametrize("output, names", [
    ("a.svg", ["a.csv", "a.md", "a.svg"]),
    ("b.PDF", ["b.csv", "b.md", "b.pdf", "b.svg"]),
    ("c.tar.png", ["c.tar.csv", "c.tar.md", "c.tar.png", "c.tar.svg"]),
    ("d.gif/", [f"scatter-pca-l00h00.{e}" for e in ("csv", "md", "svg")]),
])
def test_output_names_a_picture_or_a_folder(qkscope, tmp_path, output, names):
    (tmp_path / "in").mkdir()
    qkscope("scatter", EXAMPLE, "-o", f"in/{output}", "--max-points", 10, cwd=tmp_path,
            env=fake_converter(tmp_path / "fake", WHOLE), expect=0)
    assert names_in(tmp_path / "in" / output if output.endswith("/") else tmp_path / "in") == names


def test_pictures_and_folders_of_one_name(qkscope, tmp_path):
    (tmp_path / "x.svg").mkdir()
    for output in ("x.svg", "f.svg"):
        drawn(qkscope, EXAMPLE, "-o", tmp_path / output, "--max-points", 10)
    assert len(names_in(tmp_path / "x.svg")) == 3
    assert names_in(tmp_path) == ["f.csv", "f.md", "f.svg", "x.svg"]


@pytest.mark.parametrize("name", ["it's $(touch x)", 'q"uote\nline %s{x}\\', "-o ünï☃"])
def test_odd_paths(qkscope, tmp_path, name):
    capture = tmp_path / f"{name} capture"
    capture.symlink_to(EXAMPLE)
    qkscope("scatter", capture, f"--output=./{name}", "--max-points", 10, "--name", "f",
            cwd=tmp_path, expect=0)
    assert names_in(tmp_path / name) == ["f.csv", "f.md", "f.svg"]
    assert names_in(tmp_path) == sorted([name, capture.name])


@pytest.mark.parametrize("options", [["--collage"], ["--basis", "complement", "--random", 2]])
def test_threads_do_not_change_a_byte(qkscope, tmp_path, options):
    for threads in (1, 4):
        drawn(qkscope, EXAMPLE, "-o", tmp_path / str(threads), *options, "--max-points", 100, "--threads", threads)
    names = names_in(tmp_path / "1")
    assert names == names_in(tmp_path / "4")
    assert all((tmp_path / "1" / name).read_bytes() == (tmp_path / "4" / name).read_bytes() for name in names)


@pytest.mark.parametrize("title", [
    "'; system \"touch x\"; ' \"; system(\"touch x\")", "`touch x` $(touch x) =cmd() %s 100%",
    'a"><script>alert(1)</script> @format',
    "{/*50 big}_x^y@z&{w}~a{b} back\\slash \\n", "two\nlines ünï☃ \N{RIGHT-TO-LEFT OVERRIDE}", "x" * 500])
def test_hostile_titles_are_text(qkscope, tmp_path, title):
    qkscope("scatter", EXAMPLE, "-o", tmp_path, "--title", title, "--max-points", 5,
            "--name", "f", cwd=tmp_path, expect=0)
    assert names_in(tmp_path) == ["f.csv", "f.md", "f.svg"]
    shown, wanted = "".join(oracle.text_of(tmp_path).split()), "".join(title.split())
    assert wanted[:200] in shown


# ---- errors -------------------------------------------------------------------------------------

WRONG_HEADS = [
    (["--heads", "9:0"], "there is no query head 9:0; 5 layers have some, the last is 4"),
    (["--heads", "0:7"], "no query head 0:7; of 4 in layers that it names, the numbers go from 0 to 3"),
]
WRONG = [
    (["--heads", "1:99999"], "expected heads as LAYER:HEAD"),
    (["--layer", "1"], "--layer has left: use --heads LAYER:HEAD"),
    (["--heads", "1:1", "--random"], "Give --heads or --random"),
    (["--random", "0"], "expected a number of heads"),
    (["--collage", "0x2"], "expected rows and columns"),
    (["--basis", "svd"], "expected pca, ab, complement or attention"),
    (["--qk"], "--qk has left: use the command without --kind"),
    (["--kind", "q", "--basis", "ab"], "one kind alone has a PCA only"),
    (["--pc-x", "1"], "components 1 and 1: expected two different ones"),
    (["-o", "d/f.JPEG"], "ends in .png, .svg or .pdf"),
    (["--name", "a/b"], "not a name for a figure"),
    (["--heads", "1:1,1:1"], "two figures would be called scatter-pca-l01h01"),
]


@pytest.mark.cases(30)
@pytest.mark.parametrize("options, message", WRONG_HEADS + WRONG)
def test_wrong_options(qkscope, tmp_path, options, message):
    done = qkscope("scatter", EXAMPLE, "-o", tmp_path / "o", *options, expect=1 if (options, message) in WRONG_HEADS else 2)
    assert message in done.err and not (tmp_path / "o").exists()


def test_what_is_missing(qkscope, tmp_path):
    assert "which capture?" in qkscope("scatter", "-o", tmp_path, expect=2).err
    assert "where to?" in qkscope("scatter", EXAMPLE, expect=2).err
    assert "leave out --name" in qkscope("scatter", EXAMPLE, "-o", tmp_path / "f.svg", "--name", "g", expect=2).err


def test_without_rsvg_convert(qkscope, tmp_path):
    done = qkscope("scatter", EXAMPLE, "-o", tmp_path / "o", "--max-points", 5, "--format", "pdf", env={"PATH": str(tmp_path)}, expect=1)
    assert "rsvg-convert" in done.err and "librsvg2-bin" in done.err
    assert names_in(tmp_path / "o") == []


def test_output_that_cannot_be_written(qkscope, tmp_path):
    (tmp_path / "file").write_text("")
    done = qkscope("scatter", EXAMPLE, "-o", tmp_path / "file", "--max-points", 5, expect=1)
    assert str(tmp_path / "file") in done.err
    done = qkscope("scatter", EXAMPLE, "-o", "/proc/none", "--max-points", 5, expect=1)
    assert "/proc/none" in done.err


@pytest.mark.cases(5)
@pytest.mark.parametrize("rows, dim, basis, message", [
    (2, 8, "ab", "no drift with position, or fewer than 3 rows"),
    (50, 1, "ab", "there is no axis b"),
    (50, 3, "complement", "there is no complement to draw"),
    (50, 1, "pca", "there is no PC1: 1 dimensions"),
    (1, 8, "pca", "at least 2 of each are needed"),
])
def test_heads_without_such_axes(qkscope, tmp_path, rows, dim, basis, message):
    small_capture(tmp_path / "c", rows, dim, layer=3)
    done = qkscope("scatter", tmp_path / "c", "-o", tmp_path / "o", "--basis", basis)
    assert done.code in (1, 2) and "l03h00q" in done.err and message in done.err
    assert not (tmp_path / "o").exists()


def test_a_query_head_without_its_keys(qkscope, tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "l02h01k")
    done = qkscope("scatter", tmp_path / "c", "-o", tmp_path / "o", "--heads", "2:3", expect=1)
    assert "l02h03q: its key head l02h01k is not in the capture" in done.err
    drawn(qkscope, tmp_path / "c", "-o", tmp_path / "o", "--heads", "2:3", "--kind", "q")


def test_a_damaged_file_is_named(qkscope, tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "c")
    (tmp_path / "c" / "l01h00k" / "data.parquet").write_bytes(b"PAR1 nothing")
    done = qkscope("scatter", tmp_path / "c", "-o", tmp_path / "o", "--heads", "0:0,1:1,1:0",
                   "--collage", expect=1)
    assert "l01h01q: " in done.err and "l01h00k/data.parquet" in done.err
    assert not (tmp_path / "o").exists()


# ---- what a killed run leaves -------------------------------------------------------------------

def leave(folder, name):
    """A hidden folder as a run leaves it that was killed while it drew."""
    staging = folder / name
    staging.mkdir(parents=True)
    (staging / "half.png").write_bytes(b"x")
    return staging


def test_what_a_killed_run_left_is_removed(qkscope, tmp_path):
    out = tmp_path / "out"
    left = leave(out, ".scatter-pca-l00h00.qkscope-a1B2c3")
    kept = [leave(out, ".scatter-pca-l00h01.qkscope-a1B2c3"), leave(out, ".scatter-pca-l00h00.backup"),
            leave(out, ".scatter-pca-l00h00.qkscope-longer-ending")]
    drawn(qkscope, EXAMPLE, "-o", out, "--heads", "0:0")
    assert not left.exists() and (out / "scatter-pca-l00h00.svg").exists()
    assert all((folder / "half.png").exists() for folder in kept)


def test_runs_at_once_in_one_folder(program, tmp_path):
    out = tmp_path / "out"
    leave(out, ".scatter-pca-l00h02.qkscope-a1B2c3")
    runs = [subprocess.Popen([program, "scatter", EXAMPLE, "-o", out, "--heads", f"0:{h}"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
            for h in range(4)]
    for run in runs:
        _, err = run.communicate(timeout=900)
        assert run.returncode == 0, err
    assert sorted(p.name for p in out.glob("*.svg")) == [f"scatter-pca-l00h{h:02}.svg"
                                                         for h in range(4)]


def test_a_figure_does_not_replace_a_table(qkscope, tmp_path):
    """NAME.csv of a figure called as a table is."""
    table = tmp_path / "heads.csv"
    table.write_text("model,layer\nm,0\n")
    said = qkscope("scatter", EXAMPLE, "--heads", "0:0", "-o", tmp_path / "heads.svg", expect=1)
    assert f"{table} is there and is not of a figure" in said.err and table.read_text() == "model,layer\nm,0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["heads.csv"]
    for _ in range(2):
        qkscope("scatter", EXAMPLE, "--heads", "0:0", "-o", tmp_path / "other.svg", expect=0)
