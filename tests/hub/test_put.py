# SPDX-License-Identifier: Apache-2.0
"""`qkscope put` against a server that takes as the Hub does (fake_hub_upload.py): what is sent is the capture, and
nothing else; the real huggingface_hub reads it, and the server takes what that one sends."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import fake_hub_upload
import pytest
from conftest import BUILD, ROOT, check_survived
from fake_hub import FakeHub, cache_tree
from test_get import get, hf

PROGRAM = BUILD / "qkscope"
NAME = "me/captures"
KEY = ("datasets", NAME)


def synth(folder, *options):
    """A small capture: 2 layers of 2 query heads and 1 key head, 6 files of rows."""
    given = {"--layers": 2, "--query-heads": 2, "--q-per-kv-group": 2, "--rows": 40, "--examples": 1, "--dim": 4,
             "--rope-planes": 0} | dict(zip(options[::2], options[1::2], strict=True))
    subprocess.run([PROGRAM, "synth", "-q", "-o", folder, *(str(word) for item in given.items() for word in item)],
                   check=True, timeout=60)
    return pathlib.Path(folder)


def put(hub, home, *arguments, expect=0, timeout=100, token="hf_good", **extra):
    """`qkscope put`; what it prints, and what it says."""
    env = hub.environment(home, **({"HF_TOKEN": token} if token else {}), **extra)
    done = subprocess.run([PROGRAM, "put", *map(str, arguments)], env=env, capture_output=True, text=True,
                          timeout=timeout)
    check_survived(done.returncode, done.stderr)
    assert "hf_good" not in done.stdout + done.stderr and "secret" not in done.stdout + done.stderr
    assert done.returncode == expect, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def files_of(folder):
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def on_branch(hub, revision="main", name=NAME):
    """{path: bytes} of what the server has, .gitattributes left out."""
    repo = hub.repos["datasets", name]
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


# ---- there and back --------------------------------------------------------------------------

@pytest.mark.parametrize("options", [[], ["--layout", "packed"], ["--shards", 3],
                                     ["--layout", "packed", "--shards", 2]])
def test_put_then_get_gives_the_same_bytes(hub, tmp_path, options):
    made = synth(tmp_path / "capture", *options)
    out, said = put(hub, tmp_path / "a", made, NAME, "--revision", "qwen3/8b")
    assert out == f"{hub.url}/datasets/{NAME}/tree/qwen3/8b"
    assert "making the dataset, private" in said and f"sending {len(files_of(made))} files" in said
    path, _ = get(hub, tmp_path / "b", NAME, "--revision", "qwen3/8b", HF_TOKEN="hf_good")
    got = files_of(path)
    assert got.pop(".gitattributes") == (b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"
                                         b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n")
    assert got == files_of(made)
    assert hub.repos[KEY].private and set(hub.repos[KEY].refs) == {"main", "qwen3/8b"}
    sent = hub.repos[KEY].commits[hub.repos[KEY].refs["qwen3/8b"]]
    large = {path for path, file in sent.items() if file.lfs}
    assert large == {path for path in files_of(made) if path.endswith(".parquet")}


@pytest.mark.parametrize("keep, sums", [("moments", "moments"), ("rows,attention", "attention"),
                                        ("moments,attention", "attention")])
def test_capture_of_sums(hub, tmp_path, keep, sums):
    """Moments, sums of attention, and the list of texts."""
    (tmp_path / "text.txt").write_text("In the beginning God created the heaven and the earth. " * 5)
    made = tmp_path / "capture"
    subprocess.run([PROGRAM, "capture", "-q", "--model", ROOT / "examples/kjv-tiny/step-20", "--text",
                    tmp_path / "text.txt", "--keep", keep, "--layers", "0,1", "-o", made], check=True, timeout=60)
    put(hub, tmp_path, made, NAME)
    assert on_branch(hub) == files_of(made)
    assert {f"{sums}/l00.safetensors", f"{sums}/l01.safetensors", "examples.csv"} <= set(on_branch(hub))
    path, _ = get(hub, tmp_path / "b", NAME, HF_TOKEN="hf_good")
    got = files_of(path)
    got.pop(".gitattributes")
    assert got == files_of(made)


def test_sums_that_are_not_there(hub, tmp_path):
    """Of a capture whose attention/ was lost on the way nothing is sent."""
    made = tmp_path / "capture"
    subprocess.run([PROGRAM, "capture", "-q", "--model", ROOT / "examples/kjv-tiny/step-20", "--text", "repeat:20x2:9", "--layers",
                    "0,1", "-o", made], check=True, timeout=60)
    (made / "attention" / "l01.safetensors").unlink()
    _, said = put(hub, tmp_path, made, NAME, expect=1)
    assert "attention/l01.safetensors: not there" in said and not writes(hub)


def test_the_real_client_reads_it(hub, tmp_path, capture):
    put(hub, tmp_path, capture, NAME, "--revision", "a", "--public")
    assert not hub.repos[KEY].private
    path, _ = get(hub, tmp_path / "ours", NAME, "--revision", "a")
    hf(hub, tmp_path / "theirs", "--repo-type", "dataset", NAME, "--revision", "a")
    assert cache_tree(tmp_path / "ours") == cache_tree(tmp_path / "theirs")
    assert files_of(path).items() >= files_of(capture).items()


def hf_upload(hub, home, *arguments):
    pytest.importorskip("huggingface_hub")
    tool = pathlib.Path(sys.executable).with_name("hf")
    if not tool.exists():
        pytest.skip("hf is not installed")
    done = subprocess.run([tool, "upload", NAME, *map(str, arguments), "--repo-type", "dataset"],
                          env=hub.environment(home, HF_TOKEN="hf_good"), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("part_size", [None, 3000])
def test_the_server_takes_what_the_real_client_sends(hub, tmp_path, capture, part_size):
    """So it is a fair judge of ours; and ours sends nothing that the other one has sent."""
    hub.uploads.part_size = part_size
    hf_upload(hub, tmp_path, capture, ".", "--private")
    assert on_branch(hub) == files_of(capture) and hub.repos[KEY].private
    hub.log.clear()
    _, said = put(hub, tmp_path, capture, NAME)
    assert "all 9 files are there" in said and not writes(hub)


def test_the_real_client_finds_nothing_to_send(hub, tmp_path, capture):
    put(hub, tmp_path, capture, NAME)
    hub.log.clear()
    hf_upload(hub, tmp_path, capture, ".")
    assert not hub.requests("cdn") and on_branch(hub) == files_of(capture)


def test_capture_from_the_cache(hub, tmp_path, capture):
    """A snapshot is links."""
    put(hub, tmp_path, capture, NAME)
    path, _ = get(hub, tmp_path, NAME, HF_TOKEN="hf_good")
    put(hub, tmp_path, path, "me/copy")
    assert on_branch(hub, name="me/copy") == files_of(capture)


# ---- what is sent, and what not ----------------------------------------------------------------

def test_nothing_but_the_capture_is_sent(hub, tmp_path, capture):
    made = shutil.copytree(capture, tmp_path / "capture")
    for name in (".hidden", ".partial/run.json", "results/rotation.csv", "notes.txt", "l00h00q/data.parquet.tmp-12-0",
                 "l00h00q/.data.parquet.swp", "l00h00q/notes.md", "README.md.tmp-3-1", ".git/config", "moments.txt",
                 "_saver_state.json", ".env"):
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text("not to be seen")
    put(hub, tmp_path, made, NAME)
    assert on_branch(hub) == files_of(capture)
    assert not any(b"not to be seen" in (request.body or b"") for request in hub.log)


def test_only_what_differs_is_sent(hub, tmp_path, capture):
    made = shutil.copytree(capture, tmp_path / "capture")
    put(hub, tmp_path, made, NAME)
    other = synth(tmp_path / "other", "--seed", 5)
    shutil.copy(other / "l00h01q/data.parquet", made / "l00h01q/data.parquet")
    (made / "README.md").write_text("---\nconfigs: []\n---\n# mine\n")
    hub.log.clear()
    said = json.loads(put(hub, tmp_path, made, NAME, "--json", "--replace-card")[0])
    changed = [file["path"] for file in said["files"] if file["change"] == "changed"]
    assert changed == ["README.md", "l00h01q/data.parquet"] and said["same_files"] == 7
    assert len(hub.requests("cdn")) == 1 and on_branch(hub) == files_of(made)
    assert said["sent_bytes"] == (made / "l00h01q/data.parquet").stat().st_size
    assert said["requests"] == len(hub.requests()) == 7


def edit_on_hub(hub, edit):
    repo = hub.repos[KEY]
    files = repo.commits[repo.refs["main"]]
    files["README.md"] = hub.file(edit(bytes(files["README.md"].data)), False)
    return bytes(files["README.md"].data)


def test_a_card_that_somebody_edited_stays(hub, tmp_path, capture):
    put(hub, tmp_path, capture, NAME)
    edited = edit_on_hub(hub, lambda card: card.replace(b"---\n\n#", b"license: mit\n---\n\n#"))
    other = synth(tmp_path / "other", "--rows", 50, "--layers", 3)
    plan, said = put(hub, tmp_path, other, NAME, "--dry-run")
    assert re.search(r"^kept .* README.md$", plan, re.M) and "--replace-card" in said
    out = json.loads((done := put(hub, tmp_path, other, NAME, "--json"))[0])
    assert [file["change"] for file in out["files"] if file["path"] == "README.md"] == ["kept"]
    assert f"{NAME} at main: its README.md is not the capture's" in done[1]
    assert on_branch(hub) == files_of(other) | {"README.md": edited}
    put(hub, tmp_path, other, NAME, "--replace-card")
    assert on_branch(hub) == files_of(other)


def test_a_card_that_nobody_edited_is_replaced(hub, tmp_path, capture):
    put(hub, tmp_path, capture, NAME)
    other = synth(tmp_path / "other", "--rows", 50, "--layers", 3)
    _, said = put(hub, tmp_path, other, NAME)
    assert "replace-card" not in said and on_branch(hub) == files_of(other)


def test_dry_run_sends_nothing(hub, tmp_path, capture):
    out, _ = put(hub, tmp_path, capture, NAME, "--revision", "a", "--dry-run")
    sizes = {name: len(data) for name, data in files_of(capture).items()}
    listed = re.findall(r"^new +([0-9.]+) MB  (.+)$", out, re.M)
    assert {name: float(size) for size, name in listed} == {n: round(s / 1e6, 3) for n, s in sizes.items()}
    assert out.splitlines()[-1] == (f"9 files, {sum(sizes.values()) / 1e6:.1f} MB, would be sent to {NAME} at a; "
                                    "the dataset would be made, private")
    assert not writes(hub) and not hub.repos
    put(hub, tmp_path, capture, NAME)
    hub.log.clear()
    assert "the branch would be made" in put(hub, tmp_path, capture, NAME, "--revision", "b", "--dry-run")[0]
    said = json.loads(put(hub, tmp_path, capture, NAME, "--dry-run", "--json")[0])
    assert said["dry_run"] and said["same_files"] == 9 and said["commits"] == 0 and said["sent_bytes"] == 0
    assert not writes(hub)


def test_heads_of_another_capture(hub, tmp_path, capture):
    """They stay, and are told; what is nobody's capture stays untold; --delete removes the first."""
    put(hub, tmp_path, synth(tmp_path / "big", "--layers", 3), NAME)
    repo = hub.repos[KEY]
    repo.commits[repo.refs["main"]]["LICENSE"] = hub.file(b"mine", False)
    repo.commits[repo.refs["main"]]["sub/l00h00q/data.parquet"] = hub.file(b"other", True)
    _, said = put(hub, tmp_path, capture, NAME)
    assert "warning: branch main has 3 files of another capture, l02h00k/data.parquet for one" in said
    assert set(on_branch(hub)) > set(files_of(capture))
    out, _ = put(hub, tmp_path, capture, NAME, "--delete", "--dry-run")
    assert re.findall(r"^removed .*  (.+)$", out, re.M) == [f"l02h0{h}/data.parquet" for h in ("0k", "0q", "1q")]
    out, said = put(hub, tmp_path, capture, NAME, "--delete")
    assert "warning" not in said and "main: removing 3 files of another capture, l02h00k/data.parquet for one" in said
    assert out == f"{hub.url}/datasets/{NAME}/tree/main (3 files removed)"
    out, said = put(hub, tmp_path, capture, NAME, "--delete")
    assert "remov" not in out + said
    assert set(on_branch(hub)) == set(files_of(capture)) | {"LICENSE", "sub/l00h00q/data.parquet"}


def test_branches_begin_empty(hub, tmp_path, capture):
    put(hub, tmp_path, synth(tmp_path / "big", "--layers", 3), NAME)
    put(hub, tmp_path, capture, NAME, "--revision", "b")
    assert on_branch(hub, "b") == files_of(capture)
    hub.uploads.first_commit = False  # a branch that has no commit until the first one
    put(hub, tmp_path, capture, NAME, "--revision", "c")
    assert on_branch(hub, "c") == files_of(capture)
    assert "parentCommit" not in hub.uploads.commits[-1][1]


def test_titles(hub, tmp_path, capture):
    put(hub, tmp_path, capture, NAME)
    put(hub, tmp_path, capture, NAME, "--revision", "b", "-m", "Größe \"x\"")
    assert [header["summary"] for _, header, _ in hub.uploads.commits] == ["Queries and keys of synth", "Größe \"x\""]


def test_captures_without_a_card(hub, tmp_path, capture):
    made = shutil.copytree(capture, tmp_path / "capture")
    for name in ("README.md", "capture.json", "truth.json"):
        (made / name).unlink()
    _, said = put(hub, tmp_path, made, NAME)
    assert "warning: " in said and "there is no README.md: the page of the dataset will not tell of its heads" in said
    assert on_branch(hub) == files_of(made) and hub.uploads.commits[0][1]["summary"] == "Queries and keys"


def test_public_datasets_are_told(hub, tmp_path, capture):
    hub.add("datasets", NAME, {"README.md": b"x"})
    _, said = put(hub, tmp_path, capture, NAME)
    assert f"{NAME} is public: what is sent, everybody can read" in said
    _, said = put(hub, tmp_path, capture, "me/other", "--public")
    assert "making the dataset, public" in said and "everybody" not in said and "stays private" not in said
    put(hub, tmp_path, capture, "me/hidden")
    _, said = put(hub, tmp_path, capture, "me/hidden", "--public")
    assert "warning: me/hidden is there already and stays private: --public is for new datasets" in said


def test_sub_folders(hub, tmp_path):
    for name in ("pre", "post"):
        synth(tmp_path / "both" / name, "--model-name", name)
    said = put(hub, tmp_path, tmp_path / "both", NAME, expect=1)[1]
    assert "pre" in said and "post" in said and not hub.log
    put(hub, tmp_path, tmp_path / "both", NAME, "--split", "pre")
    assert on_branch(hub) == files_of(tmp_path / "both" / "pre")


# ---- captures that are refused ----------------------------------------------------------------

@pytest.mark.parametrize("fault, said", [
    ("not finished", "the capture is not finished, says its capture.json: run the command that began it again"),
    ("no head", "1 head that capture.json lists is missing, l00h01q"),
    ("cut", "l00h01q/data.parquet"),
    ("no capture", "an unfinished capture, not a capture"),
    ("being made", "the capture is not finished"),
    ("nothing", "no such folder"),
    ("one head", "give the folder that holds all of them")])
def test_captures_that_are_not_whole(hub, tmp_path, capture, fault, said):
    made = shutil.copytree(capture, tmp_path / "capture")
    manifest = json.loads((made / "capture.json").read_text())
    if fault == "not finished":
        (made / "capture.json").write_text(json.dumps(manifest | {"complete": False}))
    elif fault == "no head":
        shutil.rmtree(made / "l00h01q")
    elif fault == "cut":
        data = (made / "l00h01q/data.parquet").read_bytes()
        (made / "l00h01q/data.parquet").write_bytes(data[:-50])
    elif fault == "one head":
        made = made / "l00h01q"
    else:
        shutil.rmtree(made)
        if fault != "nothing":
            (made / ".partial").mkdir(parents=True)
        if fault == "being made":
            (made / ".partial" / "run.json").write_text("{}")
    text = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert said in text and not hub.log


def test_a_file_that_changes_while_it_is_sent(hub, tmp_path, capture):
    """Of the same size, after its hash was told: its last bytes are not sent, so nothing has the name of the hash."""
    made = shutil.copytree(capture, tmp_path / "capture")
    path = made / "l01h00q/data.parquet"
    data = bytearray(path.read_bytes())

    def change(handler):
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        fake_hub_upload.serve(handler)
    hub.fault(path="objects/batch", act=change)
    said = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert f"{path} has changed since this command began" in said
    assert "l01h00q/data.parquet" not in on_branch(hub) and not hub.uploads.commits
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    put(hub, tmp_path, made, NAME)
    assert on_branch(hub) == files_of(made)


@pytest.mark.parametrize("name", ["l01h00q/data.parquet", "README.md"])
def test_a_file_that_shrinks(hub, tmp_path, capture, name):
    made = shutil.copytree(capture, tmp_path / "capture")

    def change(handler):
        os.truncate(made / name, 100)
        fake_hub_upload.serve(handler)
    hub.fault(path="objects/batch", act=change)
    said = put(hub, tmp_path, made, NAME, expect=1)[1]
    assert f"{made / name} has changed since this command began" in said and not hub.uploads.commits


# ---- who sends ---------------------------------------------------------------------------------

@pytest.mark.parametrize("arguments, environment, status, said", [
    (["{}", NAME, "--offline"], {}, 1, "nothing may be sent (--offline or HF_HUB_OFFLINE)"),
    (["{}", NAME], {"HF_HUB_OFFLINE": "1"}, 1, "nothing may be sent"),
    (["{}", "captures"], {}, 2, "org/name"),
    (["{}", "a/b/c"], {}, 2, "not the name of a Hub dataset"),
    (["{}", NAME, "--revision", "../x"], {}, 2, "not a revision"),
    (["{}", NAME, "--revision", ""], {}, 2, "not a revision"),
    (["{}", NAME, "--revision", "0" * 40], {}, 2, "a commit, where a branch is needed"),
    (["{}"], {}, 2, "and where to?")])
def test_calls_that_send_nothing(hub, tmp_path, capture, arguments, environment, status, said):
    text = put(hub, tmp_path, *(word.format(capture) for word in arguments), expect=status, **environment)[1]
    assert said in text and not hub.log


@pytest.mark.parametrize("token, said", [
    (None, "sending needs a token with the right to write: make one on {}/settings/tokens, then hf auth login"),
    ("hf_wrong", "the Hub does not accept the token"),
    ("hf_read", "the Hub does not let you write there: Forbidden: you must use a write token to upload to a "
                "repository.: your token needs the right to write to me ({}/settings/tokens)")])
def test_tokens(hub, tmp_path, capture, token, said):
    hub.tokens.add("hf_read")
    text = put(hub, tmp_path, capture, NAME, token=token, expect=1)[1]
    assert said.format(hub.url) in text and (not token or token not in text)
    assert not hub.repos and len(hub.log) <= 2


def test_the_token_stays_with_the_hub(hub, tmp_path, capture):
    hub.uploads.part_size = 3000
    hub.uploads.wants_telling = True
    put(hub, tmp_path, capture, NAME)
    assert {r.headers.get("authorization") for r in hub.requests("cdn")} == {None}
    assert {r.headers.get("authorization") for r in hub.requests("hub")} == {"Bearer hf_good"}
    assert len(hub.requests(path="/verify")) == 6 and len(hub.requests(path="/complete")) == 6
    assert on_branch(hub) == files_of(capture)


# ---- many files, and large ones ----------------------------------------------------------------

def test_six_thousand_files(hub, tmp_path):
    made = synth(tmp_path / "capture", "--layers", 40, "--query-heads", 100, "--rows", 1)
    put(hub, tmp_path, made, NAME)
    assert on_branch(hub) == files_of(made)
    sizes = [len(lines) for _, _, lines in hub.uploads.commits]
    assert max(sizes) == 1000 and sum(sizes) == 6003
    assert len(hub.requests("cdn")) == 6000 and len(hub.requests("hub")) < 100
    first = [line["value"]["path"] for line in hub.uploads.commits[0][2]][:3]
    assert first == ["README.md", "capture.json", "truth.json"]  # a reader sees what is still to come
    assert hub.uploads.commits[6][1]["summary"] == "Queries and keys of synth (part 7)"


@pytest.mark.parametrize("limit", [60, 30])
def test_commits_that_are_too_large(hub, tmp_path, limit):
    made = synth(tmp_path / "capture", "--layers", 10, "--query-heads", 8)
    hub.uploads.most_files = limit
    said = put(hub, tmp_path, made, NAME, expect=0 if limit == 60 else 1)[1]
    if limit == 60:
        assert on_branch(hub) == files_of(made) and len(hub.uploads.commits) == 3
    else:
        assert "does not take so much at once" in said


def test_equal_files_are_sent_once(hub, tmp_path, capture):
    made = shutil.copytree(capture, tmp_path / "capture")
    shutil.copy(made / "l00h00q/data.parquet", made / "l00h01q/data.parquet")
    put(hub, tmp_path, made, NAME)
    assert len(hub.requests("cdn")) == 5 and on_branch(hub) == files_of(made)


@pytest.mark.parametrize("cut", [False, True])
def test_parts(hub, tmp_path, capture, cut):
    hub.uploads.part_size = 1000
    if cut:
        hub.fault("cdn", path="/part/[0-9a-f]*/2", times=1, cut_body=500)
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture)
    sizes = [len(data) for name, data in files_of(capture).items() if name.endswith(".parquet")]
    assert len(hub.requests("cdn")) == sum(-(-size // 1000) for size in sizes) + cut
