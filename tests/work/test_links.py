# SPDX-License-Identifier: Apache-2.0
"""A link at the place of a folder that a command makes, writes into or empties, in or beside its output folder:
what it leads to stays as it was, and the link is named."""
import os
import shutil

import pytest
from conftest import EXAMPLE, ROOT

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--max-texts", "4",
           "--layers", "0", "--heads", "0", "--sampler", "all", "-q"]
BOTH = ["--stage", "both"]
LAYER = ["--layers", "0"]
STUDY = "models:\n  - {{name: a, source: {}}}\nanalyses: [pca]\ndata: {{layers: [0], heads: [0]}}\n"
GONE = "b000009.tmp-qkscope-99999999-0"


@pytest.fixture
def outside(tmp_path):
    """A folder full of names that some command would remove."""
    folder = tmp_path / "outside"
    shutil.copytree(EXAMPLE, folder)
    (folder / "post").mkdir()
    (folder / "post" / "capture.json").write_bytes((folder / "capture.json").read_bytes())
    for name in ("thesis.tex", "run.json", "lock", "new/notes", "units/b000000", "units/b000000.tmp-qkscope-1-0", ".report.qkscope-abcdef/a.gp", "a.gp.tmp-qkscope-1-0",
                 "capture.json.tmp-qkscope-1-0", "figures/heatmap_r_q.gp", "heatmap_r_q.gp", "heatmap_r_q.png", GONE,
                 f"{GONE}.d/x", "a/qk.csv", "a/figures/.report.qkscope-abcdef/a.gp", "a/manifest.json", "data.parquet.tmp-qkscope-1-0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    return folder


def all_of(folder):
    return {path.relative_to(folder): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def one_shard(qkscope, out):
    """That of the only block is the first one."""
    qkscope(*CAPTURE, "-o", out, "--shard", "1/2", expect=0)


def whole(qkscope, out):
    qkscope(*CAPTURE, "-o", out, expect=0)


def both(qkscope, out):
    qkscope(*CAPTURE, "-o", out, *BOTH, expect=0)


def results(qkscope, out):
    qkscope("pca", EXAMPLE, "-o", out, *LAYER, "-q", expect=0)


def study(qkscope, out):
    (out.parent / "s.yaml").write_text(STUDY.format(EXAMPLE))
    qkscope("study", out.parent / "s.yaml", "-o", out, "-q", "--no-figures", expect=0)


def compared(qkscope, out):
    qkscope("pca", EXAMPLE, "-o", out.parent / "r", *LAYER, "-q", expect=0)
    qkscope(*COMPARE, "-o", out, "--no-html", cwd=out.parent, expect=0)


def nothing(qkscope, out):
    out.mkdir()
    (out.parent / "s.yaml").write_text(STUDY.format(EXAMPLE))


PCA = ["pca", EXAMPLE, "-q", *LAYER]
COMPARE = ["compare", "r", "r", "-q"]
# What is there, the command, the link, whether the command refuses it.
CASES = [(before, command, link, True) for before, command, links in [
    (nothing, CAPTURE, [".partial"]), (whole, CAPTURE, [".partial"]), (whole, [*CAPTURE, "--force"], [".partial", "post"]),
    (nothing, [*CAPTURE, *BOTH], ["post", "pre", ".partial"]), (both, [*CAPTURE, *BOTH, "--force"], ["post"]),
    (one_shard, [*CAPTURE, "--shard", "0/2"], [".partial", ".partial/units", ".partial/new"]),
    (one_shard, [*CAPTURE, "--force"], [".partial"]), (one_shard, CAPTURE, [".partial", ".partial/units", ".partial/new"]),
    (results, PCA, ["figures"]),
    (results, ["report", "out", "-q"], ["figures"]), (compared, COMPARE, ["figures"]),
    (nothing, ["study", "s.yaml", "-q", "--force"], ["models", "figures"]), (study, ["study", "s.yaml", "-q"], ["figures", "models"]),
    (study, ["study", "s.yaml", "-q"], ["models/a", "models/a/figures"]),
] for link in links] + [
    (whole, [*CAPTURE, "--force"], "l00h00q", False), (whole, [*CAPTURE, "--force"], "moments", False),
    (nothing, CAPTURE, "../.out.partial", False), (whole, CAPTURE, "../.out.partial", False),
    (whole, [*CAPTURE, "--force"], "../.out.partial", False),
    (results, ["report", "out", "-q"], "report.html", True),
    (results, ["report", "out", "-q", "--force"], "report.html", False), (results, PCA, "qk.csv", False)]


def put_link(out, name, target):
    place = out / name
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    place.symlink_to(target)
    return place


@pytest.mark.cases(4)
@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("before, command, link, refused", CASES,
                         ids=[f"{b.__name__} {command[0]} {command[-1]} {link}" for b, command, link, _ in CASES])
def test_what_a_link_leads_to_stays(qkscope, outside, tmp_path, before, command, link, refused):
    out = tmp_path / "at" / "out"
    out.parent.mkdir()
    before(qkscope, out)
    place = put_link(out, link, outside / "thesis.tex" if link.endswith((".csv", ".html")) else outside)
    kept = all_of(outside)
    said = qkscope(*command, "-o", out, cwd=out.parent)
    assert all_of(outside) == kept
    if refused:
        assert said.code == 1 and place.is_symlink()
        assert os.path.normpath(place).removeprefix(f"{tmp_path}/") in said.err.replace("//", "/")
        assert any(why in said.err for why in ("is a link", "is in the way", "is no page of qkscope")), said.err
    else:
        assert said.code == 0, said.err


@pytest.mark.test_all
def test_merge(qkscope, outside, tmp_path):
    qkscope(*CAPTURE, "-o", tmp_path / "part", "--shard", "1/2", expect=0)  # which has none of the blocks
    for link in (".partial", "post"):
        out = tmp_path / link.strip(".")
        out.mkdir()
        put_link(out, link, outside)
        kept = all_of(outside)
        for more in ([], ["--force"]):
            said = qkscope("merge", tmp_path / "part", "-o", out, *more, expect=1)
            assert f"{out}/{link}: is a link" in said.err
        assert all_of(outside) == kept


@pytest.mark.usefixtures("exchange")
def test_the_output_folder_may_be_a_link(qkscope, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for command in (CAPTURE, [*CAPTURE, "--force"]):
        qkscope(*command, "-o", tmp_path / "link", expect=0)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "real" / "capture.json").exists()
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]
    (tmp_path / "nowhere").symlink_to("gone/there")
    assert "nowhere: is a link that leads nowhere" in qkscope(*CAPTURE, "-o", tmp_path / "nowhere", expect=1).err
