# SPDX-License-Identifier: Apache-2.0
"""qkscope.push: which files are a capture's own, and what huggingface_hub sends of them to a local server."""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import EXAMPLE
from hub_server import TOKEN, HubServer

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
NAME = "me/captures"
OWN = {p.relative_to(EXAMPLE).as_posix() for p in EXAMPLE.rglob("*") if p.is_file()}


@pytest.fixture
def made(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "capture")
    return tmp_path / "capture"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server, and a process that asks it: huggingface_hub reads its environment when it is imported."""
    pytest.importorskip("huggingface_hub")
    with HubServer() as server:
        server.home = tmp_path / "home"
        yield server


def command(hub, *words, **extra):
    return {"args": [sys.executable, "-c", "import sys; from qkscope.push import main; sys.exit(main())", *map(str, words)],
            "env": hub.environment(hub.home, **{"HF_TOKEN": TOKEN, "PYTHONPATH": os.pathsep.join(sys.path), **extra})}


def send(hub, *words, expect=0, **extra):
    done = subprocess.run(**command(hub, *words, **extra), capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stderr
    assert TOKEN not in done.stdout + done.stderr
    return done.stdout, done.stderr


def on_branch(hub, revision="main"):
    repo = hub.repos["datasets", NAME]
    return {path: file.data for path, file in repo.commits[repo.refs[revision]].items() if path != ".gitattributes"}


# ---- without a server ------------------------------------------------------------------------

def test_nothing_but_the_capture(made):
    for name in (".hidden", "results/rotation.csv", "notes.txt", "l00h00q/data.parquet.tmp-qkscope-12-0", "l00h00q/.data.parquet",
                 "l00h00q/notes.md", ".git/config", ".env", "sub/l00h00q/data.parquet.txt"):
        (made / name).parent.mkdir(exist_ok=True, parents=True)
        (made / name).write_text("not to be seen")
    plan = qk.push(made, NAME, revision="v1", dry_run=True)
    assert set(plan.files) == OWN and plan.address is None and (plan.name, plan.revision) == (NAME, "v1")
    assert plan.bytes == sum((EXAMPLE / name).stat().st_size for name in OWN)


@pytest.mark.cases(4)
@pytest.mark.parametrize("fault, said", [
    ("not finished", "capture.json says that this capture was not finished"), ("no head", "1 heads that capture.json lists are missing"),
    ("cut", "l00h01q/data.parquet"), ("being made", "an unfinished capture; the command that began it"), ("a link", "is not followed"),
    ("a link to a folder", "is not followed"), ("nowhere", "no such folder")])
def test_captures_that_are_refused(made, tmp_path, fault, said):
    head = made / "l00h01q" / "data.parquet"
    if fault == "not finished":
        manifest = json.loads((made / "capture.json").read_text())
        (made / "capture.json").write_text(json.dumps(manifest | {"complete": False}))
    elif fault == "no head":
        manifest = json.loads((made / "capture.json").read_text())
        names = [{"name": path.name, "rows": 1, "dim": 32} for path in made.glob("l*")]
        (made / "capture.json").write_text(json.dumps(manifest | {"heads": names}))
        shutil.rmtree(head.parent)
    elif fault == "cut":
        head.write_bytes(head.read_bytes()[:-50])
    elif fault == "being made":
        (made / ".partial").mkdir()
    elif fault == "nowhere":
        made = tmp_path / "gone"
    else:
        moved = head if fault == "a link" else head.parent
        shutil.move(moved, tmp_path / "outside")
        moved.symlink_to(tmp_path / "outside")
    with pytest.raises((qk.DataError, qk.NotFoundError), match=said):
        qk.push(made, NAME, dry_run=True)


@pytest.mark.parametrize("name, text, sent", [
    ("capture.json", '{"a": "/home/me/x.txt", "/b/c": ["/d e/f/", "/g", "h/i/j", "https://k/l"], "m": "/n/a\\"b/o"}',
     '{"a": "x.txt", "/b/c": ["/d e/f/", "/g", "h/i/j", "https://k/l"], "m": "o"}'),
    ("examples.csv", 'id,text\n1,/home/me/a.txt\n2,"/b c/d,e/f g.txt"\n3,g/h\n4,/i\n', 'id,text\n1,a.txt\n2,"f g.txt"\n3,g/h\n4,/i\n'),
    ("README.md", "of `/home/me/m` and /a/b/c.txt, see https://x/y/z or (q/r)\n- source: /d/e\n",
     "of `m` and c.txt, see https://x/y/z or (q/r)\n- source: e\n")])
def test_absolute_paths_become_names(tmp_path, name, text, sent):
    from qkscope import push
    folders = sys.modules["qkscope.push"]._FOLDERS
    assert callable(push)
    assert folders["." + name.split(".")[1]].sub("", text) == sent


# ---- with huggingface_hub --------------------------------------------------------------------

@pytest.mark.test_all
def test_there_and_back(hub, made, tmp_path):
    """A private dataset is made, and a branch that holds the capture alone; a card that is there stays."""
    manifest = json.loads((made / "capture.json").read_text())
    (made / "capture.json").write_text(json.dumps(manifest | {"model": "/home/me/model"}))
    out, _ = send(hub, made, NAME, "--revision", "qwen3/8b")
    repo = hub.repos["datasets", NAME]
    assert repo.private and out.startswith(f"{hub.url}/datasets/{NAME}/commit/") and set(repo.refs) == {"main", "qwen3/8b"}
    there, own = on_branch(hub, "qwen3/8b"), {name: (made / name).read_bytes() for name in OWN}
    assert json.loads(there.pop("capture.json"))["model"] == "model" and on_branch(hub) == {}
    own.pop("capture.json")
    assert there == own
    stored = dict(hub.stored)
    (made / "README.md").write_text("another card")
    send(hub, made, NAME, "--revision", "qwen3/8b")
    assert on_branch(hub, "qwen3/8b")["README.md"] == own["README.md"] and hub.stored == stored
    send(hub, made, NAME, "--revision", "qwen3/8b", "--replace-card")
    assert on_branch(hub, "qwen3/8b")["README.md"] == b"another card"


@pytest.mark.test_all
def test_heads_of_another_capture(hub, made):
    send(hub, made, NAME, "--public")
    assert not hub.repos["datasets", NAME].private
    repo = hub.repos["datasets", NAME]
    repo.commits[repo.refs["main"]]["l77h00q/data.parquet"] = next(iter(hub.stored.values()))
    repo.commits[repo.refs["main"]]["notes.txt"] = next(iter(hub.stored.values()))
    assert "main has 1 files of another capture, l77h00q/data.parquet" in send(hub, made, NAME)[1]
    send(hub, made, NAME, "--delete")
    assert set(on_branch(hub)) == OWN | {"notes.txt"}


@pytest.mark.test_all
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_gone_on_with(hub, made, tmp_path, number):
    """Nothing of a run that was stopped is on the branch, and the next one sends what the store has not yet; a branch that
    it left begun has nothing of main."""
    hub.add("datasets", NAME, {"README.md": b"the card of main", "l77h00q/data.parquet": b"another capture"})
    stopped = hashlib.sha256((made / "l02h01q" / "data.parquet").read_bytes()).hexdigest()
    hub.stalls = stopped
    process = subprocess.Popen(**command(hub, made, NAME, "--revision", "v1", TMPDIR=tmp_path), stderr=subprocess.PIPE, text=True)
    while not (hub.stored and ("PUT", f"/upload/{stopped}") in hub.log):
        assert process.poll() is None
        hub.end.wait(0.02)
    process.send_signal(number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == -number, said
    assert number == signal.SIGKILL or "stopped; what was sent stays, the same command goes on" in said
    assert on_branch(hub, "v1") == on_branch(hub)
    stored, hub.stalls = set(hub.stored), None
    begun = len(hub.log)
    assert "another capture" not in send(hub, made, NAME, "--revision", "v1")[1]
    sent = {path.removeprefix("/upload/") for method, path in hub.log[begun:] if method == "PUT"}
    assert stopped in sent and not sent & stored
    assert on_branch(hub, "v1") == {name: (made / name).read_bytes() for name in OWN}


@pytest.mark.test_all
def test_what_cannot_be_sent(hub, made):
    """A dry run and an error ask nothing, and what huggingface_hub refuses is said."""
    assert set(send(hub, made, NAME, "--dry-run")[0].split()) == OWN
    (made / "capture.json").write_text(json.dumps(json.loads((made / "capture.json").read_text()) | {"complete": False}))
    assert "not finished" in send(hub, made, NAME, expect=1)[1] and not hub.log
    shutil.copy(EXAMPLE / "capture.json", made / "capture.json")
    assert "401" in send(hub, made, NAME, expect=1, HF_TOKEN="hf_wrong")[1]
    assert "offline" in send(hub, made, NAME, expect=1, HF_HUB_OFFLINE="1")[1].lower()
