# SPDX-License-Identifier: Apache-2.0
"""What `qkscope put` tells of this machine: links that lead out of the capture, and absolute paths in its texts."""
import csv
import io
import json
import os
import pathlib
import shutil

import pytest
from test_get import get
from test_put import NAME, capture, files_of, hub, on_branch, put, synth, writes  # noqa: F401


@pytest.fixture
def made(tmp_path, capture):  # noqa: F811
    return pathlib.Path(shutil.copytree(capture, tmp_path / "capture"))


# ---- links ---------------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["examples.csv", "truth.json", "README.md", "capture.json", "l01h00q/data.parquet"])
@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_link_out_of_the_capture_is_not_sent(hub, tmp_path, made, path, options):  # noqa: F811
    outside = tmp_path / "outside"
    if (made / path).exists():
        shutil.move(made / path, outside)
    else:
        outside.write_text("hf_MYSECRET")
    (made / path).symlink_to(outside)
    said = put(hub, tmp_path, made, NAME, *options, expect=1)[1]
    assert f"{path}: a link to {outside}, which is not in the capture: nothing is sent" in said and "a copy" in said
    assert not writes(hub)


def test_a_folder_that_is_a_link_out_of_the_capture(hub, tmp_path, made):  # noqa: F811
    shutil.move(made / "l01h00q", tmp_path / "elsewhere")
    (made / "l01h00q").symlink_to(tmp_path / "elsewhere")
    assert "elsewhere/data.parquet, which is not in the capture" in put(hub, tmp_path, made, NAME, expect=1)[1]


def test_a_folder_beside_the_capture_is_not_in_it(hub, tmp_path, made):  # noqa: F811
    """Its name begins with that of the capture."""
    beside = tmp_path / "capture.old"
    beside.mkdir()
    (beside / "examples.csv").write_text("a\n")
    (made / "examples.csv").symlink_to("../capture.old/examples.csv")
    assert "not in the capture" in put(hub, tmp_path, made, NAME, expect=1)[1]


def test_links_within_the_capture_are_sent_as_files(hub, tmp_path, made):  # noqa: F811
    (made / "l01h00q/data.parquet").rename(made / "rows")
    (made / "l01h00q/data.parquet").symlink_to("../rows")
    (tmp_path / "link").symlink_to(made)  # the capture itself may be one
    put(hub, tmp_path, tmp_path / "link", NAME)
    wanted = files_of(made)
    wanted.pop("rows")
    assert on_branch(hub) == wanted


@pytest.mark.parametrize("path", ["examples.csv", "truth.json", "README.md", "capture.json", "l01h00q/data.parquet"])
def test_a_link_that_leads_to_nothing(hub, tmp_path, made, path):  # noqa: F811
    """It is a file of the capture that is lost: not one to be passed over."""
    (made / path).unlink(missing_ok=True)
    (made / path).symlink_to("gone")
    said = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert path in said or path.split("/")[0] in said, said
    assert "/" in path or f"{path}: a link that leads to nothing: nothing is sent" in said, said
    assert not writes(hub)


def test_a_capture_in_the_cache_of_the_hub(hub, tmp_path, made):  # noqa: F811
    put(hub, tmp_path, made, NAME)
    there = pathlib.Path(get(hub, tmp_path, NAME, HF_TOKEN="hf_good")[0])
    assert (there / "capture.json").is_symlink()
    put(hub, tmp_path, there, "me/again")
    assert on_branch(hub, name="me/again") == files_of(made)
    outside = tmp_path / "outside"
    outside.write_text("hf_MYSECRET")
    (there / "examples.csv").symlink_to(outside)
    assert "not in the capture" in put(hub, tmp_path, there, "me/third", expect=1)[1]
    blob = (there / "truth.json").resolve()  # a blob may be a link, too: into the store that repositories share
    blob.unlink()
    blob.symlink_to(outside)
    (there / "examples.csv").unlink()
    assert "not in the capture" in put(hub, tmp_path, there, "me/third", expect=1)[1]


# ---- paths in texts ------------------------------------------------------------------------

SOURCES = ["/home/me/texts/a.txt#0", "texts/b.txt#1", '/data/with "quotes", and commas/c.txt', "/", "/plain", "/a/folder/"]
SHORT = ["a.txt#0", "texts/b.txt#1", "c.txt", "/", "/plain", "folder/"]


def tell_sources(made):
    """As a run over files that were given by absolute paths leaves it."""
    manifest = json.loads((made / "capture.json").read_text())
    manifest |= {"examples": [{"example_id": i, "source": source} for i, source in enumerate(SOURCES)],
                 "/a/key/stays": 1, "tab\t\\": "x/y"}
    (made / "capture.json").write_text(json.dumps(manifest, indent=2))
    with open(made / "examples.csv", "w", newline="") as file:
        csv.writer(file).writerows([["example_id", "source"], *enumerate(SOURCES)])
    return manifest


def test_absolute_paths_are_told(hub, tmp_path, made):  # noqa: F811
    tell_sources(made)
    for options in (["--dry-run"], []):
        said = put(hub, tmp_path, made, NAME, *options)[1]
        assert "capture.json, examples.csv tell paths of this machine, /home/me/texts/a.txt#0 for one" in said
        assert "--hide-paths" in said
    assert on_branch(hub) == files_of(made)


def test_absolute_paths_are_hidden(hub, tmp_path, made):  # noqa: F811
    manifest = tell_sources(made)
    before = files_of(made)
    said = put(hub, tmp_path, made, NAME, "--hide-paths")[1]
    assert "paths of this machine" not in said and files_of(made) == before
    there = on_branch(hub)
    sent = json.loads(there["capture.json"])
    assert [e["source"] for e in sent.pop("examples")] == SHORT
    manifest.pop("examples")
    assert sent == manifest
    rows = list(csv.reader(io.StringIO(there["examples.csv"].decode(), newline="")))
    assert rows[0] == ["example_id", "source"] and [row[0] for row in rows[1:]] == [*"012345"]
    assert [row[1] for row in rows[1:]] == SHORT
    assert b"/home" not in b"".join(there.values()) and b"/data/with" not in b"".join(there.values())
    put(hub, tmp_path, made, NAME, "--hide-paths")
    assert len(hub.uploads.commits) == 1  # the same bytes, by the same hashes
    fetched = pathlib.Path(get(hub, tmp_path, NAME, HF_TOKEN="hf_good")[0])
    assert files_of(fetched).keys() >= {"capture.json", "examples.csv"}


CARD = """---
configs:
- config_name: l00h00q
  data_files:
  - split: train
    path: l00h00q/data.parquet
---

# Query and key vectors: /home/me/a model/small

- model: /home/me/a model/small
- source: /opt/my tools/capture
- written by: qkscope 0.2
- `source_dataset`: `/home/me/my texts/a.jsonl`, `texts/b.jsonl`, `/data/c.jsonl` and 3 more
- `text_column`: `text/or` of /
See https://example.org/a/b, (/srv/x/y.txt) or path=/home/me/z.csv; /home/me/texts/.
"""
CARD_SHORT = (CARD.replace("/home/me/a model/", "").replace("/opt/my tools/", "").replace("/home/me/my texts/", "")
              .replace("/data/", "").replace("/srv/x/", "").replace("/home/me/z", "z").replace("/home/me/texts/.", "."))


def test_absolute_paths_of_the_card(hub, tmp_path, made):  # noqa: F811
    (made / "README.md").write_text(CARD)
    said = put(hub, tmp_path, made, NAME, "--dry-run")[1]
    assert "README.md tells paths of this machine, /home/me/a model/small for one" in said
    tell_sources(made)
    said = put(hub, tmp_path, made, NAME, "--dry-run")[1]
    assert "README.md, capture.json, examples.csv tell paths of this machine" in said
    assert "paths of this machine" not in put(hub, tmp_path, made, NAME, "--hide-paths")[1]
    assert on_branch(hub)["README.md"].decode() == CARD_SHORT
    assert (made / "README.md").read_text() == CARD


@pytest.mark.parametrize("end", ["/", "/a", "`/a/b", "- model: /a/b", "(/a/b", ":/", ":"])
def test_cards_that_end_too_early(hub, tmp_path, made, end):  # noqa: F811
    for text in (end, "x\n" + end):
        (made / "README.md").write_text(text)
        put(hub, tmp_path, made, NAME, "--hide-paths", "--replace-card")
        assert on_branch(hub)["README.md"].decode() == text.replace("/a/b", "b")


def test_the_title_of_a_commit_has_no_path(hub, tmp_path, made):  # noqa: F811
    manifest = json.loads((made / "capture.json").read_text())
    (made / "capture.json").write_text(json.dumps(manifest | {"model": "/home/me/models/small"}))
    put(hub, tmp_path, made, NAME, "--hide-paths")
    assert not any(b"/home/me" in json.dumps(commit, default=str).encode() for commit in hub.uploads.commits)


def test_texts_that_end_too_early(hub, tmp_path, made):  # noqa: F811
    """Neither is read as what it claims to be, nor beyond its end."""
    for text in ('"', '"/a/b', '"/a/b\\', ',"', '"/a/b/', '/', '"/a/b"",' '\n/a/b', '"a" :"/x/y', ""):
        (made / "truth.json").write_text(text)
        (made / "examples.csv").write_text(text)
        put(hub, tmp_path, made, NAME, "--hide-paths")
        assert b"/a" not in on_branch(hub)["examples.csv"]


def test_a_real_capture_says_no_more_than_its_texts(hub, tmp_path):  # noqa: F811
    made = synth(tmp_path / "capture")
    assert "paths of this machine" not in put(hub, tmp_path, made, NAME)[1]
    assert os.listdir(made)
