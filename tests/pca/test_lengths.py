# SPDX-License-Identifier: Apache-2.0
"""Categories are of a length: how long texts are is said wherever categories are, and --lengths gives categories at others,
from the same rows. By NumPy, and beside captures whose texts end there."""
import collections
import json

import numpy as np
import pytest
from conftest import ROOT, capture_table, last_run, read_csv, write_rows, write_table
from figure_files import told

import pca_oracle

pytest.importorskip("pyarrow")

DIM = 8
TEXTS = (40, 64, 64, 100, 120, 128, 128, 90, 77)  # tokens


def made_rows(seed, cut=10**6, shuffle=True, texts=TEXTS):
    """Rows that turn slowly about a constant, so that the category depends on the length."""
    rng = np.random.default_rng(seed)
    position = np.concatenate([np.arange(n) for n in texts])
    example = np.repeat(np.arange(len(texts)) * 1000 + 7, texts)
    base = np.random.default_rng(5).normal(size=(2, DIM))
    turn = 0.012 * position[:, None]
    vector = (rng.normal(size=(len(position), DIM)) + (np.cos(turn) * base[0] + np.sin(turn) * base[1])).astype("f4")
    order = rng.permutation(len(position)) if shuffle else np.arange(len(position))
    order = order[position[order] < cut]
    return {"vector": vector[order], "position": position[order], "example_id": example[order],
            "bucket": position[order] // 32}


def write_capture(root, **options):
    for seed, name in enumerate(("l00h00q", "l00h01q", "l00h00k")):
        write_rows(root, name, made_rows(seed, **options))
    return root


def test_lengths_are_those_of_texts_that_end_there(qkscope, tmp_path):
    """Given in any order, twice, and beyond the longest text."""
    capture = write_capture(tmp_path / "capture")
    qkscope("pca", capture, "-o", tmp_path / "all", "--lengths", "1000,32,64,128,32", expect=0)
    rows = collections.defaultdict(list)
    for row in read_csv(tmp_path / "all" / "lengths.csv"):
        rows[int(row["length"])].append(row)
    assert list(rows) == [32, 64, 128, 1000] and all(len(heads) == 2 for heads in rows.values())
    categories = []
    for length, heads in rows.items():
        cut = write_capture(tmp_path / f"cut-{length}", cut=length)
        qkscope("pca", cut, "-o", tmp_path / f"out-{length}", expect=0)
        for head, own in zip(heads, read_csv(tmp_path / f"out-{length}" / "heads.csv")):
            q, k = made_rows(int(head["q_head"]), cut=length), made_rows(2, cut=length)
            row = pca_oracle.Combined(q["vector"], q["position"], k["vector"], k["position"], components=1).rows[0]
            for column in ("r_q", "r_k"):
                assert head[column] == pytest.approx(row[column], rel=1e-9)
                assert head[column] == pytest.approx(own[column], rel=1e-9)
            assert head["ev0"] == pytest.approx(row["explained_variance"], rel=1e-9)
            assert (head["n_q"], head["n_k"]) == (len(q["position"]), len(k["position"]))
            assert head["category"] == own["category"] == pca_oracle.category(row["r_q"], row["r_k"])
            categories.append(head["category"])
    assert categories == ["content-focused"] * 2 + ["mixed"] * 2 + ["position-dominated"] * 4
    assert last_run(tmp_path / "all")["settings"]["pca"]["lengths"] == "1000,32,64,128,32"


def test_too_few_rows_have_no_category(qkscope, tmp_path):
    capture = write_capture(tmp_path / "capture")
    qkscope("pca", capture, "-o", tmp_path / "out", "--lengths", "4,64", "--from-position", 4, expect=0)
    rows = read_csv(tmp_path / "out" / "lengths.csv")
    assert [(row["category"], row["r_q"], row["n_q"]) for row in rows if row["length"] == 4] == [("", None, 0)] * 2
    assert all(row["category"] and row["n_q"] > 100 for row in rows if row["length"] == 64)


@pytest.mark.parametrize("lengths", ["", "0", "256,", "a", "1,-2", "99999999999999999999", ",".join(map(str, range(1, 40)))])
def test_what_is_no_list_of_lengths(qkscope, tmp_path, lengths):
    run = qkscope("pca", write_capture(tmp_path / "capture"), "-o", tmp_path / "out", "--lengths", lengths)
    assert run.code != 0 and "such as 256,1024,4096" in run.err
    assert not (tmp_path / "out" / "lengths.csv").exists()


def test_figure(qkscope, tmp_path):
    """Shares of the categories at each length."""
    capture = write_capture(tmp_path / "capture")
    qkscope("pca", capture, "-o", tmp_path / "out", "--lengths", "32,64,128", "--model-name", "m", expect=0)
    qkscope("report", tmp_path / "out", "--figure", "pca-14-lengths", "--no-html", expect=0)
    drawn = told(tmp_path / "out" / "figures" / "pca-14-lengths-m")
    shown = {(row["x"], row["series"]): row["y"] for row in drawn}
    names = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
    rows = read_csv(tmp_path / "out" / "lengths.csv")
    assert shown == {(length, name): np.mean([row["category"] == name for row in rows if row["length"] == length])
                     for length in (32, 64, 128) for name in names}


# ---- what is said of the length ---------------------------------------------------------------

KEYS = ("text_tokens", "text_tokens_least", "text_tokens_most", "position_least", "position_mean", "position_most")


def test_length_is_said_everywhere(qkscope, tmp_path):
    """Rows in any order: the last of each text tells its length."""
    capture, out = write_capture(tmp_path / "capture"), tmp_path / "out"
    words = "texts of 90 tokens (40 to 128), positions 0 to 127"
    mean = np.mean(made_rows(0)["position"])
    assert words in qkscope("analyze", capture, "-o", out, expect=0).out
    assert last_run(out)["lengths"] == dict(zip(KEYS, (90, 40, 128, 0, pytest.approx(mean), 127)))
    said = json.loads(qkscope("pca", capture, "-o", out, "--json", "--force", expect=0).out)
    assert [said["lengths"][key] for key in KEYS[:3]] == [90, 40, 128]
    for form in ("table", "latex"):
        assert words in qkscope("heads", out, "--format", form, expect=0).out
    assert words in json.loads(qkscope("heads", out, "--json", expect=0).out)["lengths"]


def test_page_says_the_length(qkscope, tmp_path):
    qkscope("pca", write_capture(tmp_path / "capture"), "-o", tmp_path / "out", expect=0)
    qkscope("report", tmp_path / "out", "--no-points", "--alone", expect=0)
    assert "texts of 90 tokens (40 to 128), positions 0 to 127" in (tmp_path / "out" / "report.html").read_text()


def test_table_of_texts_knows_more_than_rows(qkscope, tmp_path):
    """Rows are a sample; an empty text has none."""
    capture = write_capture(tmp_path / "capture")
    (capture / "examples.csv").write_text("example_id,source,tokens\n1,a,200\n2,b,300\n3,c,0\n4,d,400\n")
    qkscope("pca", capture, "-o", tmp_path / "out", expect=0)
    lengths = last_run(tmp_path / "out")["lengths"]
    assert [lengths[key] for key in KEYS[:3]] == [300, 200, 400] and lengths["position_most"] == 127
    (capture / "examples.csv").write_text("tokens\nmany\n")
    qkscope("pca", capture, "-o", tmp_path / "out", "--force", expect=0)
    assert last_run(tmp_path / "out")["lengths"]["text_tokens"] == 90


def test_moments_in_place_of_rows(qkscope, tmp_path):
    """The table of texts knows their lengths; without it the longest text is known. Other lengths need rows."""
    passages = (ROOT / "examples/kjv-tiny/passages.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "texts.jsonl").write_text("".join(passages[:3]))
    capture, out = tmp_path / "capture", tmp_path / "out"
    qkscope("capture", "-m", ROOT / "examples/kjv-tiny/step-20", "-t", tmp_path / "texts.jsonl", "--layers", 0, "--keep",
            "moments", "--max-length", 200, "--long", "cut", "-o", capture, expect=0)
    run = qkscope("pca", capture, "-o", out, "--lengths", 64, expect=0)
    assert "categories at other lengths need all rows and are left out" in run.err and not (out / "lengths.csv").exists()
    assert [last_run(out)["lengths"][key] for key in KEYS] == [200, 200, 200, 0, 99.5, 199]
    (capture / "examples.csv").unlink()
    assert "texts of up to 200 tokens, positions 0 to 199" in qkscope("pca", capture, "-o", out, "--force", expect=0).out


def test_rows_that_tell_no_texts(qkscope, tmp_path):
    for name in ("l00h00q", "l00h00k"):
        rows = made_rows(1)
        table = capture_table(rows["vector"], rows["position"]).drop_columns(["example_id"])
        write_table(tmp_path / "capture", name, table)
    assert "texts of up to 128 tokens" in qkscope("pca", tmp_path / "capture", "-o", tmp_path / "out", expect=0).out
    assert last_run(tmp_path / "out")["lengths"]["text_tokens"] is None
