# SPDX-License-Identifier: Apache-2.0
"""A Hub that breaks off, is busy, lies or attacks while a capture is sent, rivals, and runs that are killed: the branch
has the capture in the end, or what it had before, and messages say why."""
import json
import os
import re
import signal
import subprocess
import threading
import time

import fake_hub_upload
import pytest
from fake_hub import FakeHub
from test_fetch_faults import certificate  # noqa: F401 - a fixture
from test_get import get
from test_put import KEY, NAME, PROGRAM, files_of, on_branch, put, synth, writes


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("put") / "capture", "--rows", 400)


@pytest.fixture(scope="module")
def larger(tmp_path_factory):
    """Files of more than 10,000 bytes."""
    return synth(tmp_path_factory.mktemp("put") / "capture", "--rows", 300, "--dim", 64)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """More files than a commit takes."""
    return synth(tmp_path_factory.mktemp("put") / "capture", "--layers", 43, "--query-heads", 16, "--rows", 1)


def do_silently(handler):
    """What the request asks for; no answer."""
    handler.say = lambda *_arguments, **_more: None
    fake_hub_upload.serve(handler)
    del handler.say


# ---- runs that end in the middle ---------------------------------------------------------------

@pytest.mark.parametrize("origin, path, skip, after", [
    ("hub", "/revision/", 0, False), ("hub", "/repos/create", 0, True), ("hub", "/branch/", 0, True),
    ("hub", "/preupload/", 0, False), ("hub", "/batch", 0, False), ("cdn", "/upload/", 0, False),
    ("cdn", "/upload/", 3, True), ("cdn", "/upload/", 5, True), ("hub", "/batch", 1, False),
    ("hub", "/commit/", 0, False), ("hub", "/commit/", 0, True), ("hub", "/commit/", 1, False),
    ("hub", "/commit/", 1, True)])
def test_killed_and_gone_on_with(hub, tmp_path, capture, many, origin, path, skip, after):
    """kill -9 when a request has come, before or after the Hub has done what it asks for; then the same command. No
    file is sent a second time that the Hub had taken."""
    made = many if path == "/commit/" else capture
    child = None

    def kill(handler):
        if after:
            do_silently(handler)
        child.kill()
        child.wait()
        handler.close_connection = True
    hub.fault(origin, path=path, skip=skip, act=kill)
    child = subprocess.Popen([PROGRAM, "put", made, NAME, "--revision", "a", "-j", "1"], stderr=subprocess.PIPE,
                             env=hub.environment(tmp_path, HF_TOKEN="hf_good"))
    assert child.wait(timeout=60) == -signal.SIGKILL
    child.stderr.close()
    taken = set(hub.blobs)
    before = len(hub.log)
    put(hub, tmp_path, made, NAME, "--revision", "a")
    assert on_branch(hub, "a") == files_of(made)
    again = {r.path.split("/")[2][:64] for r in hub.log[before:] if r.path.startswith("/upload/")}
    assert not again & taken
    assert len(again | taken) == sum(name.endswith(".parquet") for name in files_of(made))
    parents = [header["parentCommit"] for _, header, _ in hub.uploads.commits]
    assert len(parents) == len(set(parents))


def test_interrupted(hub, tmp_path, capture):
    """Ctrl-C: what was sent stays."""
    hub.fault("cdn", path="/upload/", skip=2, delay=5)
    child = subprocess.Popen([PROGRAM, "put", capture, NAME, "-j", "1"], stderr=subprocess.PIPE, text=True,
                             env=hub.environment(tmp_path, HF_TOKEN="hf_good"),
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 30
    while len(hub.requests("cdn")) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=30)[1]
    assert child.returncode == -signal.SIGINT and time.monotonic() - start < 3
    assert "stopped; what was sent stays, the same command goes on" in said and not hub.uploads.commits
    taken = len(hub.blobs)
    assert taken >= 2
    hub.log.clear()
    put(hub, tmp_path, capture, NAME)
    assert len(hub.requests("cdn")) <= 6 - 2 and on_branch(hub) == files_of(capture)


@pytest.mark.parametrize("after", [0, 4000])
def test_connections_that_break(hub, tmp_path, capture, after):
    hub.fault("cdn", path="/upload/", cut_body=after)
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture) and len(hub.uploads.commits) == 1


def test_connections_that_keep_breaking(hub, tmp_path, capture):
    hub.fault("cdn", path="/upload/", times=100, cut_body=500)
    said = put(hub, tmp_path, capture, NAME, "--tries", 2, expect=1)[1]
    assert "tried 2 times" in said and "what was sent stays, the same command goes on" in said
    assert not hub.uploads.commits and "/data.parquet: http://" in said


@pytest.mark.parametrize("how, done", [("lost", False), ("lost", True), ("cut", True), ("503", False), ("500", True),
                                       ("no JSON", False), ("truncated JSON", True), ("no commit", True)])
def test_commits_whose_answer_is_lost(hub, tmp_path, capture, how, done):
    """Whether the commit was made is looked up: it is made once."""
    def act(handler):
        if done:
            do_silently(handler)
        if how == "cut":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n{")
        if how in ("lost", "cut"):
            return handler.break_off()
        if how.isdigit():
            return handler.say(int(how))
        bodies = {"no JSON": b"<html>", "truncated JSON": b'{"commitOid": "0123', "no commit": b"{}"}
        return handler.say(200, bodies[how])
    hub.fault(path="/commit/", act=act)
    said = put(hub, tmp_path, capture, NAME)[1]
    # libcurl sends again by itself where a connection that it kept ends without a byte
    assert how == "lost" or "looking whether the commit was made, in 1 s" in said
    assert len(hub.uploads.commits) == 1 and on_branch(hub) == files_of(capture)


def test_commits_that_never_work(hub, tmp_path, capture):
    hub.fault(path="/commit/", times=100, status=503, headers={"X-Error-Message": "we are moving"})
    start = time.monotonic()
    threading.Timer(1.5, lambda: hub.faults[-1].how.update(status=403)).start()
    said = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert "we are moving" in said and "does not let you write there" in said and time.monotonic() - start < 20


# ---- busy servers ------------------------------------------------------------------------------

@pytest.mark.parametrize("origin, path", [("hub", "/repos/create"), ("hub", "/batch"), ("hub", "/commit/"),
                                          ("cdn", "/upload/")])
def test_limits_are_waited_for(hub, tmp_path, capture, origin, path):
    hub.fault(origin, path=path, status=429, headers={"ratelimit": '"api";r=0;t=0'})
    said = put(hub, tmp_path, capture, NAME)[1]
    assert "the limit of requests is reached: waiting 1 s" in said and on_branch(hub) == files_of(capture)


@pytest.mark.parametrize("path, status", [("/preupload/", 503), ("/batch", 502), ("/upload/", 500)])
def test_short_failures_pass(hub, tmp_path, capture, path, status):
    hub.fault("cdn" if path == "/upload/" else "hub", path=path, status=status)
    said = put(hub, tmp_path, capture, NAME)[1]
    assert "trying again in" in said and on_branch(hub) == files_of(capture)


def test_addresses_that_lapse(hub, tmp_path, capture):
    """The store refuses one: another is asked for, a few times."""
    hub.fault("cdn", path="/upload/", skip=1, times=2, status=403, body=b"<Error>ExpiredToken</Error>")
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture)
    hub.fault("cdn", path="/upload/", times=100, status=403)
    said = put(hub, tmp_path, synth(tmp_path / "other", "--seed", 3), NAME, expect=1)[1]
    assert "where the Hub stores files, refuses one (HTTP status 403)" in said


@pytest.mark.parametrize("path, status, message, said", [
    ("/preupload/", 401, "", "the Hub does not accept the token: make one with the right to write"),
    ("/preupload/", 403, "no", "the Hub does not let you write there: no: your token needs the right to write to me"),
    ("/preupload/", 403, "This repository is disabled", "has disabled this dataset"),
    ("/repos/create", 403, "", "making the dataset: the Hub does not let you write there"),
    ("/repos/create", 402, "", "wants to be paid for more room of me"),
    ("/batch", 404, "", "the Hub has no such dataset or branch any more"),
    ("/batch", 413, "", "does not take so much at once"),
    ("/commit/", 409, "busy", "the Hub is busy with another change of it: busy: run the same command again"),
    ("/commit/", 400, "bad YAML", "the Hub refuses it (HTTP status 400): bad YAML"),
    ("/commit/", 412, "", "somebody else has changed branch main meanwhile")])
def test_refusals_name_the_remedy(hub, tmp_path, capture, path, status, message, said):
    hub.fault(path=path, times=100, status=status, headers={"X-Error-Message": message} if message else {})
    text = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert text.splitlines()[-1].startswith(f"qkscope put: {NAME}: ") and said in text


def test_renamed_datasets(hub, tmp_path, capture):
    hub.add("datasets", "me/new", {"README.md": b"x"})
    hub.fault(path="/me/captures/revision", status=307, headers={"Location": "/api/datasets/me/new/revision/main"})
    assert "it is called me/new now: give that name" in put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert not writes(hub)


def test_a_dataset_that_the_token_may_not_see(hub, tmp_path, capture):
    hub.fault(path="/repos/create", status=409)
    said = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert "the dataset is there, and your token may not see it" in said


# ---- rivals ------------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [400, 403, 413])
def test_what_the_hub_says_in_a_body(hub, tmp_path, capture, status):
    put(hub, tmp_path, capture, NAME)
    hub.fault(path="/preupload/", times=9, status=status,
              body=json.dumps({"error": " Too\x1b[31m many\nheads\x9b of \u00e4ll: " + "x" * 400}).encode())
    other = synth(tmp_path / "other", "--seed", 5)
    said = put(hub, tmp_path, other, NAME, expect=1)[1]
    found = re.search(r"Too \[31m many heads of \u00e4ll: x+", said)
    assert found and 290 <= len(found[0].encode()) <= 300 and "\x1b" not in said


def test_a_change_by_somebody_else_is_not_lost(hub, tmp_path, capture):
    put(hub, tmp_path, synth(tmp_path / "other", "--seed", 9), NAME)

    def change(handler):
        hub.add("datasets", NAME, {"README.md": b"a rival's"})
        fake_hub_upload.serve(handler)
    hub.fault(path="/preupload/", act=change)
    said = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert "somebody else has changed branch main meanwhile" in said and "run the same command again" in said
    assert on_branch(hub) == {"README.md": b"a rival's"}
    put(hub, tmp_path, capture, NAME)
    assert on_branch(hub) == files_of(capture) | {"README.md": b"a rival's"}


def test_two_at_once(hub, tmp_path, capture):
    """The same capture: both say that they are done, or one that the other was quicker; then all is there."""
    hub.fault(path="/batch", times=4, delay=0.2)
    env = hub.environment(tmp_path, HF_TOKEN="hf_good")
    pair = [subprocess.Popen([PROGRAM, "put", capture, NAME, "--revision", "a"], env=env, stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, text=True) for _ in range(2)]
    said = [child.communicate(timeout=60)[1] for child in pair]
    assert any(child.returncode == 0 for child in pair), said
    assert all(child.returncode == 0 or "somebody else" in text for child, text in zip(pair, said, strict=True)), said
    assert on_branch(hub, "a") == files_of(capture) and len(hub.uploads.commits) == 1


# ---- hostile servers ---------------------------------------------------------------------------

def edit_json(change):
    def edit(body):
        root = json.loads(body)
        return json.dumps(change(root) or root).encode()
    return edit


def href(address):
    return edit_json(lambda root: root["objects"][0]["actions"]["upload"].update(href=address))


def header(**members):
    return edit_json(lambda root: root["objects"][0]["actions"]["upload"].update(header=members))


@pytest.mark.parametrize("path, edit, said", [
    ("/preupload/", lambda body: body + b" " * (33 << 20), "an answer of more than 32 MB"),
    ("/preupload/", lambda body: body[:-9], "the Hub's answer"),
    ("/preupload/", lambda _: b"[]", "does not say how to send"),
    ("/preupload/", edit_json(lambda root: root["files"].pop()), "does not say how to send"),
    ("/preupload/", edit_json(lambda root: root["files"][3].update(uploadMode="xet")), "does not say how to send"),
    ("/preupload/", edit_json(lambda root: root["files"][3].update(shouldIgnore=True)), "the .gitignore of the branch"),
    ("/batch", lambda body: body + b" " * (33 << 20), "an answer of more than 32 MB"),
    ("/batch", lambda _: b"{}", "is not about the 6 files"),
    ("/batch", lambda _: b'"objects"', "is not about the 6 files"),
    ("/batch", edit_json(lambda root: root["objects"].pop()), "is not about the 6 files"),
    ("/batch", edit_json(lambda root: root["objects"][2].update(oid="0" * 64)), "leaves out a file"),
    ("/batch", edit_json(lambda root: root["objects"].__setitem__(2, root["objects"][1])), "has two of one file"),
    ("/batch", edit_json(lambda root: root["objects"][2].update(size=1)), "or another size"),
    ("/batch", edit_json(lambda root: root["objects"][2].update(oid=7)), "leaves out a file"),
    ("/batch", edit_json(lambda root: root["objects"][0].update(actions={})), "has no address to send to"),
    ("/batch", edit_json(lambda root: root["objects"][0].update(actions="x")), "has no address to send to"),
    ("/batch", edit_json(lambda root: root["objects"][0].update(error={"code": 422, "message": "too\x1b[31m big"})),
     "the Hub does not store it: too?[31m big (code 422)"),
    ("/batch", href("file:///etc/passwd"), "neither http nor https"),
    ("/batch", href("ftp://127.0.0.1/x"), "neither http nor https"),
    ("/batch", href("/upload/x"), "neither http nor https"),
    ("/batch", href("http://me:secret@127.0.0.1/x"), "a user or password"),
    ("/batch", href("http://127.0.0.1/a b"), "space or control character"),
    ("/batch", href("http://127.0.0.1/a\r\nHost: x"), "space or control character"),
    ("/batch", href("http://127.0.0.1/" + "a" * 20000), "has no address to send to"),
    ("/batch", href(None), "has no address to send to"),
    ("/batch", header(chunk_size="0"), "wants parts of no size that will do"),
    ("/batch", header(chunk_size="-5"), "wants parts of no size that will do"),
    ("/batch", header(chunk_size="many"), "wants parts of no size that will do"),
    ("/batch", header(chunk_size="1"), "wants parts of no size that will do"),
    ("/batch", header(chunk_size=5000), "has no address for a part"),
    ("/batch", header(chunk_size=1 << 40, **{"1": "http://127.0.0.1/", "2": "http://127.0.0.1/"}),
     "parts that are none"),
    ("/batch", header(chunk_size=1 << 40, **{"0": "http://127.0.0.1/"}), "parts that are none"),
    ("/batch", header(chunk_size=1 << 40, **{"1": "file:///etc/passwd"}), "neither http nor https"),
    ("/tree/", lambda _: b"{}", "the Hub's list of files: not a list of files"),
    ("/revision/", lambda _: b'{"sha": "../../x"}', "names no commit")])
def test_hostile_answers(hub, tmp_path, larger, path, edit, said):
    hub.add("datasets", NAME, {"README.md": b"x"})
    hub.fault(path=path, times=100, edit=edit)
    text = put(hub, tmp_path, larger, NAME, expect=1)[1]
    assert said in text and text.splitlines()[-1].startswith(f"qkscope put: {NAME}: ")
    assert len(hub.uploads.commits) == 0 and on_branch(hub) == {"README.md": b"x"}


@pytest.mark.parametrize("origin, path", [("cdn", "/upload/"), ("hub", "/commit/"), ("hub", "/preupload/"),
                                          ("hub", "/repos/create")])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_of_what_is_sent(hub, tmp_path, capture, origin, path, status):
    """Neither bytes nor token go where a redirect leads."""
    with FakeHub() as other:
        hub.fault(origin, path=path, times=100, status=status, headers={"Location": other.url + "/api/x"})
        said = put(hub, tmp_path, capture, NAME, expect=1)[1]
        assert f"redirects what is sent (HTTP status {status}): refused" in said and not other.log
    assert not hub.uploads.commits


def test_a_store_without_encryption(certificate, tmp_path, capture):  # noqa: F811
    """The fake store speaks http; the Hub here does not."""
    with FakeHub(certificate=certificate) as hub:
        said = put(hub, tmp_path, capture, NAME, expect=1, SSL_CERT_FILE=certificate)[1]
        assert f"sends to {hub.cdn_url}, which is not encrypted: refused" in said and not hub.requests("cdn")


def test_a_store_without_etags(hub, tmp_path, capture):
    hub.uploads.part_size = 3000
    hub.fault("cdn", path="/part/", times=100, status=200, body=b"")
    assert "no ETag for a part of a file" in put(hub, tmp_path, capture, NAME, expect=1)[1]


def test_a_store_that_answers_too_early(hub, tmp_path, capture):
    """It says that all is well, and has not kept it."""
    hub.fault("cdn", path="/upload/", times=100, status=200, body=b"")
    said = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert "l00h00k/data.parquet: its store took it, and the Hub does not find it there" in said
    assert not hub.uploads.commits


def test_lists_that_do_not_have_what_was_sent(hub, tmp_path, capture):
    hub.add("datasets", NAME, {"README.md": b"x"})
    hub.fault(path="/tree/", skip=1, times=100, edit=lambda _: b"[]")
    said = put(hub, tmp_path, capture, NAME, expect=1)[1]
    assert "the Hub took all, and its list has something else under" in said


def test_get_of_half_a_branch(hub, tmp_path, many):
    """What tells of the heads comes first: a reader sees that some are missing."""
    hub.fault(path="/commit/", skip=1, times=100, status=403)
    put(hub, tmp_path, many, NAME, "--public", expect=1)
    assert len(hub.uploads.commits) == 1
    path, _ = get(hub, tmp_path, NAME)
    done = subprocess.run([PROGRAM, "inspect", path], capture_output=True, text=True, timeout=60, env=os.environ)
    assert "35 of 1032 heads cannot be read" in done.stdout + done.stderr
