# SPDX-License-Identifier: Apache-2.0
"""`qkscope put` against a server that takes as the Hub does (fake_hub_upload.py): what is sent is the capture, and
nothing else; nothing is lost where a Hub, a rival or a run that is killed comes in between."""
import csv
import io
import json
import pathlib
import re
import shutil
import subprocess

import conftest
import fake_hub_upload
import pytest
from conftest import BUILD, ROOT, check_survived
from fake_hub import FakeHub
from test_get import get

PROGRAM = BUILD / "qkscope"
NAME = "me/captures"
KEY = ("datasets", NAME)


def synth(folder, seed=0, layers=2):
    """A small capture: 2 layers of 2 query heads and 1 key head, 6 files of rows."""
    conftest.synth(folder, seed=seed, layers=layers, query_heads=2, rows=40, examples=1, dim=4, rope_planes=0)
    (folder / "README.md").write_text("---\nconfigs: []\n---\n\n# Query and key vectors\n")
    return folder


def put(hub, home, *arguments, expect=0, token="hf_good"):
    """`qkscope put`; what it prints, and what it says."""
    env = hub.environment(home, HF_TOKEN=token)
    done = subprocess.run([PROGRAM, "put", *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300)
    check_survived(done.returncode, done.stderr)
    assert "hf_good" not in done.stdout + done.stderr and "secret" not in done.stdout + done.stderr
    assert done.returncode == expect, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def files_of(folder):
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on_branch(hub, revision="main"):
    """{path: bytes} of what the server has, .gitattributes left out."""
    repo = hub.repos[KEY]
    files = repo.commits[repo.refs[revision]]
    return {path: bytes(file.data) for path, file in files.items() if path != ".gitattributes"}


def writes(hub):
    return [request for request in hub.log if request.method != "GET"]


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("put") / "capture")


@pytest.fixture
def made(tmp_path, capture):
    return pathlib.Path(shutil.copytree(capture, tmp_path / "capture"))


# ---- there and back --------------------------------------------------------------------------

def test_put_then_get_gives_the_same_bytes(hub, tmp_path):
    """Rows of many heads in a file, sums of attention, and the list of texts."""
    (tmp_path / "text.txt").write_text("In the beginning God created the heaven and the earth. " * 5)
    made = tmp_path / "capture"
    subprocess.run([PROGRAM, "capture", "-q", "--model", ROOT / "examples/kjv-tiny/step-20", "--text", tmp_path / "text.txt",
                    "--keep", "rows,attention", "--layout", "packed", "--layers", "0,1", "-o", made], check=True, timeout=300)
    out, said = put(hub, tmp_path / "a", made, NAME, "--revision", "qwen3/8b")
    assert out == f"{hub.url}/datasets/{NAME}/tree/qwen3/8b"
    assert "making the dataset, private" in said and f"sending {len(files_of(made))} files" in said
    path, _ = get(hub, tmp_path / "b", NAME, "--revision", "qwen3/8b", HF_TOKEN="hf_good")
    got = files_of(path)
    assert got.pop(".gitattributes") == (b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
                                         b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
    assert got == files_of(made) and "attention/l01.safetensors" in got
    assert hub.repos[KEY].private and set(hub.repos[KEY].refs) == {"main", "qwen3/8b"}
    (made / "attention" / "l01.safetensors").unlink()  # lost on the way
    sent = len(writes(hub))
    assert "attention/l01.safetensors: not there" in put(hub, tmp_path, made, NAME, expect=1)[1] and len(writes(hub)) == sent


# ---- what is sent, and what not ----------------------------------------------------------------

def test_nothing_but_the_capture_is_sent(hub, tmp_path, made, capture):
    for name in (".hidden", ".partial/run.json", "results/rotation.csv", "notes.txt", "l00h00q/data.parquet.tmp-qkscope-12-0",
                 "l00h00q/.data.parquet.swp", "l00h00q/notes.md", ".git/config", "_saver_state.json", ".env"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text("not to be seen")
    (tmp_path / "both").mkdir()
    made.rename(tmp_path / "both" / "pre")
    (tmp_path / "both" / "post").symlink_to(capture)
    assert "post, pre" in put(hub, tmp_path, tmp_path / "both", NAME, expect=1)[1] and not hub.log
    put(hub, tmp_path, tmp_path / "both", NAME, "--split", "pre")
    assert on_branch(hub) == files_of(capture)
    assert not any(b"not to be seen" in (request.body or b"") for request in hub.log)


def test_only_what_differs_is_sent(hub, tmp_path, made):
    """And a card that somebody edited stays, unless it is to be replaced."""
    put(hub, tmp_path, made, NAME)
    shutil.copy(synth(tmp_path / "other", seed=5) / "l00h01q/data.parquet", made / "l00h01q/data.parquet")
    edited = (made / "README.md").read_bytes().replace(b"---\n\n#", b"license: mit\n---\n\n#")
    repo = hub.repos[KEY]
    repo.commits[repo.refs["main"]]["README.md"] = hub.file(edited, False)
    hub.log.clear()
    plan, said = put(hub, tmp_path, made, NAME, "--dry-run")
    assert re.search(r"^kept .* README.md$", plan, re.M) and re.search(r"^changed .* l00h01q/data.parquet$", plan, re.M)
    assert "--replace-card" in said and not writes(hub)
    said = json.loads(put(hub, tmp_path, made, NAME, "--json")[0])
    assert {file["path"]: file["change"] for file in said["files"] if file["change"] != "same"} == {
        "README.md": "kept", "l00h01q/data.parquet": "changed"}
    assert len(hub.requests("cdn")) == 1 and said["sent_bytes"] == (made / "l00h01q/data.parquet").stat().st_size
    assert on_branch(hub) == files_of(made) | {"README.md": edited}
    put(hub, tmp_path, made, NAME, "--replace-card")
    assert on_branch(hub) == files_of(made)


def test_heads_of_another_capture(hub, tmp_path, capture):
    """They stay, and are told; what is nobody's capture stays untold; --delete removes the first."""
    put(hub, tmp_path, synth(tmp_path / "big", layers=3), NAME)
    repo = hub.repos[KEY]
    repo.commits[repo.refs["main"]]["sub/l00h00q/data.parquet"] = hub.file(b"other", True)
    assert "main has 3 files of another capture, l02h00k/data.parquet" in put(hub, tmp_path, capture, NAME)[1]
    assert set(on_branch(hub)) > set(files_of(capture))
    out, said = put(hub, tmp_path, capture, NAME, "--delete")
    assert "removing 3 files of another capture" in said and out.endswith("(3 files removed)")
    assert set(on_branch(hub)) == set(files_of(capture)) | {"sub/l00h00q/data.parquet"}


# ---- captures that are refused ----------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("fault, said", [
    ("not finished", "the capture is not finished, says its capture.json"), ("no head", "1 head that capture.json lists is missing, l00h01q"),
    ("cut", "l00h01q/data.parquet"), ("being made", "the capture is not finished"), ("one head", "give the folder that holds all of them")])
def test_captures_that_are_not_whole(hub, tmp_path, made, fault, said):
    folder = made
    if fault == "not finished":
        manifest = json.loads((made / "capture.json").read_text())
        (made / "capture.json").write_text(json.dumps(manifest | {"complete": False}))
    elif fault == "no head":
        shutil.rmtree(made / "l00h01q")
    elif fault == "cut":
        (made / "l00h01q/data.parquet").write_bytes((made / "l00h01q/data.parquet").read_bytes()[:-50])
    elif fault == "one head":
        folder = made / "l00h01q"
    else:
        shutil.rmtree(made)
        (made / ".partial").mkdir(parents=True)
        (made / ".partial" / "run.json").write_text("{}")
    assert said in put(hub, tmp_path, folder, NAME, expect=1)[1] and not hub.log


@pytest.mark.parametrize("how", ["shrinks", "another"])
def test_a_file_that_changes_while_it_is_sent(hub, tmp_path, made, how):
    """Its last bytes are not sent, so nothing has the name of the hash that was told before."""
    path = made / "l01h00q/data.parquet"
    data = path.read_bytes()

    def change(handler):
        path.write_bytes(data[:100] if how == "shrinks" else data[:100] + bytes([data[100] ^ 1]) + data[101:])
        fake_hub_upload.serve(handler)
    hub.fault(path="objects/batch", act=change)
    said = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert f"{path} has changed since this command began" in said and not hub.uploads.commits
    path.write_bytes(data)
    put(hub, tmp_path, made, NAME)
    assert on_branch(hub) == files_of(made)


@pytest.mark.parametrize("path", ["examples.csv", "l01h00q/data.parquet", "l01h00q"])
def test_a_link_out_of_the_capture_is_not_sent(hub, tmp_path, made, path):
    outside = tmp_path / "capture.old"  # its name begins with that of the capture
    if (made / path).exists():
        shutil.move(made / path, outside)
    else:
        outside.write_text("hf_MYSECRET")
    (made / path).symlink_to(outside)
    said = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert "which is not in the capture" in said and str(outside) in said and not writes(hub)
    (made / path).unlink()
    (made / path).symlink_to("gone")
    assert path.split("/")[0] in put(hub, tmp_path, made, NAME, expect=1)[1] and not writes(hub)


def test_links_within_the_capture_are_sent_as_files(hub, tmp_path, made):
    (made / "l01h00q/data.parquet").rename(made / "rows")
    (made / "l01h00q/data.parquet").symlink_to("../rows")
    (tmp_path / "link").symlink_to(made)  # the capture itself may be one
    put(hub, tmp_path, tmp_path / "link", NAME)
    wanted = files_of(made)
    wanted.pop("rows")
    assert on_branch(hub) == wanted


SOURCES = ["/home/me/texts/a.txt#0", "texts/b.txt#1", '/data/with "quotes", and commas/c.txt', "/", "/plain", "/a/folder/"]
SHORT = ["a.txt#0", "texts/b.txt#1", "c.txt", "/", "/plain", "folder/"]
CARD = """---
configs:
- config_name: l00h00q
---

# Query and key vectors: /home/me/a model/small

- `source_dataset`: `/home/me/my texts/a.jsonl`, `texts/b.jsonl`, `/data/c.jsonl` and 3 more
See https://example.org/a/b, (/srv/x/y.txt) or path=/home/me/z.csv; /home/me/texts/.
"""
CARD_SHORT = (CARD.replace("/home/me/a model/", "").replace("/home/me/my texts/", "").replace("/data/", "").replace("/srv/x/", "")
              .replace("/home/me/z", "z").replace("/home/me/texts/.", "."))


def test_absolute_paths_are_told_or_hidden(hub, tmp_path, made):
    manifest = json.loads((made / "capture.json").read_text()) | {
        "examples": [{"example_id": i, "source": source} for i, source in enumerate(SOURCES)], "/a/key/stays": 1}
    (made / "capture.json").write_text(json.dumps(manifest, indent=2))
    with open(made / "examples.csv", "w", newline="") as file:
        csv.writer(file).writerows([["example_id", "source"], *enumerate(SOURCES)])
    (made / "README.md").write_text(CARD)
    before = files_of(made)
    said = put(hub, tmp_path, made, NAME, "--dry-run")[1]
    assert "README.md, capture.json, examples.csv tell paths of this machine" in said and "--hide-paths" in said
    said = put(hub, tmp_path, made, NAME, "--hide-paths")[1]
    assert "paths of this machine" not in said and files_of(made) == before
    there = on_branch(hub)
    sent = json.loads(there["capture.json"])
    assert [e["source"] for e in sent.pop("examples")] == SHORT and manifest.pop("examples") and sent == manifest
    rows = list(csv.reader(io.StringIO(there["examples.csv"].decode(), newline="")))
    assert rows[0] == ["example_id", "source"] and [row[1] for row in rows[1:]] == SHORT
    assert there["README.md"].decode() == CARD_SHORT
    for text in ('"/a/b', ',"/a/b\\', "/a/b/"):  # that end too early
        for name in ("truth.json", "examples.csv", "README.md"):
            (made / name).write_text(text)
        put(hub, tmp_path, made, NAME, "--hide-paths", "--replace-card")
        assert b"/a" not in on_branch(hub)["examples.csv"]


# ---- who sends ---------------------------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("arguments, status, said", [
    (["{}", NAME, "--offline"], 1, "nothing may be sent"), (["{}", "a/b/c"], 2, "not the name of a Hub dataset"),
    (["{}", NAME, "--revision", "../x"], 2, "not a revision"),
    (["{}", NAME, "--revision", "0" * 40], 2, "a commit, where a branch is needed"), (["{}"], 2, "and where to?")])
def test_calls_that_send_nothing(hub, tmp_path, capture, arguments, status, said):
    assert said in put(hub, tmp_path, *(word.format(capture) for word in arguments), expect=status)[1] and not hub.log


def test_a_token_that_may_not_write(hub, tmp_path, capture):
    hub.tokens.add("hf_read")
    said = put(hub, tmp_path, capture, NAME, token="hf_read", expect=1)[1]
    assert "the Hub does not let you write there" in said and "hf_read" not in said and not hub.repos


def test_parts_and_the_token(hub, tmp_path, capture):
    """A file in parts, of which one breaks; no token goes where files lie."""
    hub.uploads.part_size, hub.uploads.wants_telling = 1000, True
    hub.fault("cdn", path="/part/[0-9a-f]*/2", cut_body=500)
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture)
    assert {r.headers.get("authorization") for r in hub.requests("cdn")} == {None}
    assert {r.headers.get("authorization") for r in hub.requests("hub")} == {"Bearer hf_good"}
    assert len(hub.requests(path="/verify")) == 6 and len(hub.requests(path="/complete")) == 6
    sizes = [len(data) for name, data in files_of(capture).items() if name.endswith(".parquet")]
    assert len(hub.requests("cdn")) == sum(-(-size // 1000) for size in sizes) + 1


# ---- faults ------------------------------------------------------------------------------------

def do_silently(handler):
    """What the request asks for; no answer."""
    handler.say = lambda *_arguments, **_more: None
    fake_hub_upload.serve(handler)
    del handler.say


@pytest.mark.cases(1)
@pytest.mark.parametrize("done", [True, False])
def test_commits_whose_answer_is_lost(hub, tmp_path, capture, done):
    """Whether the commit was made is looked up: it is made once."""
    def act(handler):
        if done:
            do_silently(handler)
        handler.say(200, b'{"commitOid": "0123')
    hub.fault(path="/commit/", act=act)
    assert "looking whether the commit was made" in put(hub, tmp_path, capture, NAME)[1]
    assert len(hub.uploads.commits) == 1 and on_branch(hub) == files_of(capture)


def test_a_change_by_somebody_else_is_not_lost(hub, tmp_path, capture):
    put(hub, tmp_path, synth(tmp_path / "other", seed=9), NAME)

    def change(handler):
        hub.add("datasets", NAME, {"README.md": b"a rival's"})
        fake_hub_upload.serve(handler)
    hub.fault(path="/preupload/", act=change)
    assert "somebody else has changed branch main meanwhile" in put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert on_branch(hub) == {"README.md": b"a rival's"}
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture) | {"README.md": b"a rival's"}


@pytest.mark.cases(1)
@pytest.mark.parametrize("path, status", [("/upload/", 403), ("/preupload/", 503)])
def test_short_failures_pass(hub, tmp_path, capture, path, status):
    """403 of the store: an address has lapsed, and another one is asked for."""
    hub.fault("cdn" if path == "/upload/" else "hub", path=path, status=status)
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture)


def edit_json(change):
    def edit(body):
        root = json.loads(body)
        return json.dumps(change(root) or root).encode()
    return edit


@pytest.mark.cases(4)
@pytest.mark.parametrize("path, how, said", [
    ("/preupload/", dict(edit=lambda _: b"[]"), "does not say how to send"),
    ("/batch", dict(edit=edit_json(lambda root: root["objects"][2].update(oid="0" * 64))), "leaves out a file"),
    ("/batch", dict(edit=edit_json(lambda root: root["objects"][0]["actions"]["upload"].update(href="file:///etc/passwd"))),
     "neither http nor https"),
    ("/commit/", dict(status=302, headers={"Location": "http://127.0.0.1:1/"}), "redirects what is sent (HTTP status 302): refused"),
    ("/commit/", dict(status=409, headers={"X-Error-Message": "busy"}), "the Hub is busy with another change of it: busy"),
    ("/tree/", dict(skip=1, edit=lambda _: b"[]"), "the Hub took all, and its list has something else under")])
def test_hostile_answers(hub, tmp_path, capture, path, how, said):
    hub.add("datasets", NAME, {"README.md": b"x"})
    hub.fault(path=path, times=100, **how)
    text = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert said in text and text.splitlines()[-1].startswith(f"qkscope put: {NAME}: ")
    assert path == "/tree/" or on_branch(hub) == {"README.md": b"x"}
