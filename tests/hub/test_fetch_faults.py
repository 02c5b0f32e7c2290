# SPDX-License-Identifier: Apache-2.0
"""A Hub that is slow, breaks off, lies or attacks: what is fetched is right or is not there, and messages say why."""
import gzip
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import time

import pytest
from fake_hub import FakeHub
from test_get import DATASET, NAME, PROGRAM, capture_files, get, noise

BIG = "l00h00q/data.parquet"
HOUR = 3600  # nobody waits for it


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


def add_big(hub, size=1 << 20):
    hub.add("datasets", NAME, {BIG: noise("big", size)})
    return noise("big", size)


def blobs(home):
    folder = pathlib.Path(home) / "hub" / DATASET / "blobs"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def check_blobs(home):
    """What has a final name has the bytes that the name promises; the others end with .incomplete."""
    for name in blobs(home):
        data = (pathlib.Path(home) / "hub" / DATASET / "blobs" / name).read_bytes()
        if not name.endswith(".qkscope.incomplete"):
            assert name in (hashlib.sha256(data).hexdigest(),
                            hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest())


def read(home):
    snapshots = pathlib.Path(home) / "hub" / DATASET / "snapshots"
    return (next(snapshots.iterdir()) / BIG).read_bytes()


# ---- transfers that go wrong -----------------------------------------------------------------

def test_connection_that_breaks_every_64_kib(hub, tmp_path):
    data = add_big(hub, 1 << 19)
    hub.fault("cdn", times=100, cut=65536)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and blobs(tmp_path) == [hashlib.sha256(data).hexdigest()]
    ranges = [r.headers.get("range") for r in hub.requests("cdn")]
    assert ranges == [None] + [f"bytes={i * 65536}-" for i in range(1, 8)]
    assert all(r.headers["if-range"] for r in hub.requests("cdn")[1:])


@pytest.mark.cases(1)
@pytest.mark.parametrize("spoiled", [True, False])
def test_connection_that_breaks_at_once(hub, tmp_path, spoiled):
    """What came before is kept and gone on with, unless it is not what came."""
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", times=2, cut=0)
    said = get(hub, tmp_path, NAME, "--tries", 2, expect=1)[1]
    assert "tried 2 times" in said and "secret" not in said  # of the signed address
    name, = blobs(tmp_path)
    assert name.endswith(".qkscope.incomplete") and not list(tmp_path.rglob("refs/*"))
    assert "not in the cache" in get(hub, tmp_path, NAME, "--offline", expect=1)[1]
    if spoiled:
        (tmp_path / "hub" / DATASET / "blobs" / name).write_bytes(b"?" * 300000)
    before = len(hub.log)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and "bytes=300000-" in [r.headers.get("range") for r in hub.log[before:]]
    assert blobs(tmp_path) == [hashlib.sha256(data).hexdigest()]


@pytest.mark.cases(3)
@pytest.mark.parametrize("path, how, said", [
    ("/blob/", dict(spoil=True), "their hash is not"), ("/blob/", dict(status=200, body=b"x" * 100), "where the Hub lists 1048576"),
    ("README", dict(status=200, body=b"wrong\n"), "their hash is not")])
def test_wrong_bytes_never_get_the_name(hub, tmp_path, path, how, said):
    hub.add("datasets", NAME, {"README.md": b"right\n"} if path == "README" else {BIG: noise("big", 1 << 20)})
    hub.fault("hub" if path == "README" else "cdn", path=path, times=100, **how)
    told = get(hub, tmp_path, NAME, "--tries", 2, expect=1)[1]
    assert said in told and ("README.md: " if path == "README" else f"{BIG}: ") in told
    assert blobs(tmp_path) == [] and len([r for r in hub.log if path in r.path]) >= 2


@pytest.mark.parametrize("answer", [dict(ignore_range=True), dict(status=206, body=b"x" * 100, headers={"Content-Range": "bytes 7-99/1048576"})])
def test_server_without_ranges(hub, tmp_path, answer):
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", **answer)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data


# ---- servers that are busy -------------------------------------------------------------------

def test_limits_are_waited_for(hub, tmp_path):
    hub.add("datasets", NAME, capture_files(layers=1))
    hub.fault("hub", path="/resolve/", times=6, status=429, headers={"ratelimit": '"resolvers";r=0;t=0'})
    assert "org/name: the limit of requests is reached: waiting 1 s" in get(hub, tmp_path, NAME)[1]
    check_blobs(tmp_path)
    hub.add("datasets", NAME, {BIG: b"x"}, revision="b")
    hub.fault("hub", path="/resolve/", times=6, status=429, headers={"Retry-After": "7200"})
    assert "wait 120 minutes" in get(hub, tmp_path, NAME, "--revision", "b", expect=1)[1]


@pytest.mark.cases(1)
@pytest.mark.parametrize("path, status", [("/blob/", 403), ("/revision/", 503), ("/tree/", 502), ("/resolve/", 500)])
def test_short_failures_pass(hub, tmp_path, path, status):
    """403 of the second origin: the signature in its address is too old, and the Hub gives another."""
    add_big(hub)
    hub.fault("cdn" if path == "/blob/" else "hub", path=path, times=1, status=status)
    assert f"HTTP status {status}; trying again in 1 s" in get(hub, tmp_path, NAME)[1]


def test_silence(hub, tmp_path):
    data = add_big(hub)
    hub.fault("cdn", piece=65536, pause=HOUR)
    get(hub, tmp_path, NAME, "--timeout", 3)
    assert read(tmp_path) == data and hub.requests("cdn")[1].headers["range"] == "bytes=65536-"


# ---- servers that lie ------------------------------------------------------------------------

def edit_entry(**changes):
    def edit(body):
        entries = json.loads(body)
        entries[-1] |= changes
        return json.dumps(entries).encode()
    return edit


@pytest.mark.cases(5)
@pytest.mark.parametrize("change, said", [
    ({"path": "../../evil"}, "has a part . or .."), ({"path": "/etc/evil"}, "is absolute"), ({"path": "a\x1b[2J"}, "has a control character"),
    ({"path": 7}, "without type or path"), ({"size": -1, "lfs": None}, "no file has"), ({"lfs": {"oid": "../x", "size": 3}}, "is no hash"),
    ({"type": "link"}, "neither file nor directory"), ({"path": "README.md"}, "is listed twice")])
def test_hostile_listing(hub, tmp_path, change, said):
    hub.add("datasets", NAME, {"README.md": b"x", BIG: b"abc"})
    hub.fault("hub", path="/tree/", times=9, edit=edit_entry(**change))
    told = get(hub, tmp_path, NAME, expect=1)[1]
    assert said in told and "\x1b" not in told
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.cases(3)
@pytest.mark.parametrize("path, body, said", [
    ("/tree/", b"[" * 100000, "list of files"), ("/tree/", b"{}", "not a list"), ("/revision/", b"", "the Hub's answer"),
    ("/tree/", b"\n <!DOCTYPE html><html></html>", "answered with a web page, not the Hub"),
    ("/tree/", b"[" + b"{}," * 3_400_000 + b"{}]", "more values than an answer of the Hub may have")])
def test_broken_json(hub, tmp_path, path, body, said):
    add_big(hub)
    hub.fault("hub", path=path, times=9, status=200, body=body)
    assert said in get(hub, tmp_path, NAME, expect=1)[1]


def test_listing_that_does_not_end(hub, tmp_path):
    add_big(hub)
    hub.fault("hub", path="/tree/", times=10 ** 6, status=200, body=b"[ ]",
              headers={"Link": f'<{hub.url}/api/datasets/{NAME}/tree/x?cursor=1>; rel="next"'})
    assert "does not end" in get(hub, tmp_path, NAME, expect=1)[1]
    assert len(hub.requests(path="/tree/")) == 1


def test_next_page_is_of_this_hub(hub, tmp_path):
    """Whatever host a page names, the token goes to the Hub alone."""
    hub.page = 3
    hub.add("datasets", NAME, capture_files(layers=1))
    hub.url, true = hub.cdn_url, hub.url  # addresses of next pages are made of it
    get(hub, tmp_path, NAME, HF_ENDPOINT=true, HF_TOKEN="hf_good")
    assert not any("authorization" in r.headers or "/tree/" in r.path for r in hub.requests("cdn"))


@pytest.mark.cases(3)
@pytest.mark.parametrize("to, said", [
    ("{cdn}/blob/x", "redirected 10 times, and again"), ("file:///etc/passwd", "neither http nor https"),
    ("http://user:word@127.0.0.1/x", "user or password"), ("http://127.0.0.1/" + "x" * 20000, "an address of")])
def test_redirects_to_nowhere_good(hub, tmp_path, to, said):
    add_big(hub)
    hub.fault("hub", path="/resolve/", times=100, status=302, headers={"Location": to.format(cdn=hub.cdn_url)})
    hub.fault("cdn", times=100, status=302, headers={"Location": f"{hub.url}/datasets/{NAME}/resolve/y"})
    told = get(hub, tmp_path, NAME, expect=1, HF_TOKEN="hf_good")[1]
    assert said in told and "word" not in told.replace("password", "")
    assert not any("authorization" in r.headers for r in hub.requests("cdn"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Of 127.0.0.1, signed by itself, with its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key", "-out", folder / "cert"],
                   check=True, capture_output=True)
    (folder / "both").write_bytes((folder / "key").read_bytes() + (folder / "cert").read_bytes())
    return folder / "both"


def test_https(certificate, tmp_path):
    """A certificate that nobody vouches for is refused at once; from https nothing leads to http."""
    with FakeHub(certificate=certificate) as hub:
        hub.add("datasets", NAME, {"README.md": b"x"})
        said = get(hub, tmp_path, NAME, expect=1)[1]
        assert "certificate" in said.lower() and "tried" not in said and not hub.log
        get(hub, tmp_path, NAME, SSL_CERT_FILE=certificate, HF_TOKEN="hf_good")
        assert hub.log and all(r.headers["authorization"] == "Bearer hf_good" for r in hub.log)
        add_big(hub)
        said = get(hub, tmp_path, NAME, expect=1, SSL_CERT_FILE=certificate)[1]
        assert f"redirects to {hub.cdn_url}, which is not encrypted: refused" in said and not hub.requests("cdn")


@pytest.mark.cases(3)
@pytest.mark.parametrize("origin, path, answer, said", [
    ("cdn", "/blob/", dict(status=200, body=b"x", headers={"X-Long": "x" * 1000000}), "headers"),
    ("hub", "/tree/", dict(status=200, body=gzip.compress(bytes(10 << 20)), headers={"Content-Encoding": "gzip"}), "compressed"),
    ("hub", "/revision/", dict(status=404, body=b"x" * (3 << 20)), "an endless answer with status 404")])
def test_answers_that_would_take_much(hub, tmp_path, origin, path, answer, said):
    add_big(hub)
    hub.fault(origin, path=path, times=9, **answer)
    assert said in get(hub, tmp_path, NAME, expect=1)[1] and blobs(tmp_path) == []


def test_existing_links_do_not_lead_out(hub, tmp_path):
    """A blob of another size is fetched anew; a snapshot's link is replaced, what it leads to is not written."""
    data = add_big(hub)
    link = pathlib.Path(get(hub, tmp_path, NAME)[0]) / BIG
    (tmp_path / "victim").write_bytes(b"mine")
    link.unlink()
    link.symlink_to(tmp_path / "victim")
    (tmp_path / "hub" / DATASET / "blobs" / hashlib.sha256(data).hexdigest()).write_bytes(b"short")
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and (tmp_path / "victim").read_bytes() == b"mine"


def test_space_is_looked_at_first(hub, tmp_path):
    hub.add("datasets", NAME, {f"l{layer:02}h00q/data.parquet": b"x%d" % layer for layer in range(99)})
    size = 49 * 10 ** 9

    def huge(body):
        entries = json.loads(body)
        for entry in entries:
            if entry["type"] == "file":
                entry["lfs"]["size"] = size
        return json.dumps(entries).encode()
    hub.fault("hub", path="/tree/", times=9, edit=huge)
    free = os.statvfs(tmp_path)
    if free.f_bavail * free.f_frsize > 99 * size:
        pytest.skip("a disk of terabytes")
    assert "make room, or choose another folder with HF_HUB_CACHE" in get(hub, tmp_path, NAME, expect=1)[1]
    assert not hub.requests("cdn")


# ---- processes that end, and rivals ----------------------------------------------------------

@pytest.mark.test_all
def test_killed_and_gone_on_with(hub, tmp_path):
    """By kill -9 in the middle of a file, time after time; then two at once finish. No byte under a final name is ever
    wrong, nor is anything left."""
    files = {f"l00h{head:02}q/data.parquet": noise(head, 200000) for head in range(16)}
    hub.add("datasets", NAME, files)
    children = queue.Queue()

    def kill(handler):
        handler.how = {"cut": 120000}
        handler.serve_blob()
        children.get().kill()
    for turn in range(6):
        hub.fault("cdn", skip=turn, act=kill)
        child = subprocess.Popen([PROGRAM, "get", NAME, "-j", "1"], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        children.put(child)
        assert child.wait(timeout=300) == -signal.SIGKILL
        check_blobs(tmp_path)
    rivals = [subprocess.Popen([PROGRAM, "get", NAME], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [rival.wait(timeout=300) for rival in rivals] == [0, 0]
    check_blobs(tmp_path)
    assert blobs(tmp_path) == sorted(hashlib.sha256(data).hexdigest() for data in files.values())


def test_small_files_that_were_being_written(hub, tmp_path):
    """What killed downloads left beside refs goes, but not what may be another machine's at work."""
    hub.add("datasets", NAME, {"a.bin": b"x"})
    refs = tmp_path / "hub" / DATASET / "refs"
    refs.mkdir(parents=True)
    for name in ("main.tmp-qkscope-7-0", "main.tmp-qkscope-7-1"):
        (refs / name).write_bytes(b"")
    os.utime(refs / "main.tmp-qkscope-7-0", (1, 1))
    get(hub, tmp_path, NAME)
    assert {path.name for path in refs.iterdir()} == {"main", "main.tmp-qkscope-7-1"}


def test_interrupted(hub, tmp_path):
    """Ctrl-C: at once, and what came is gone on with."""
    data = add_big(hub)
    hub.fault("cdn", piece=500000, pause=HOUR)
    child = subprocess.Popen([PROGRAM, "get", NAME], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not any(path.stat().st_size for path in tmp_path.rglob("*.qkscope.incomplete")):
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=300)[1]
    assert child.returncode == -signal.SIGINT and "the same command goes on" in said
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and hub.requests("cdn")[-1].headers["range"].startswith("bytes=")
