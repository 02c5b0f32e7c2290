# SPDX-License-Identifier: Apache-2.0
"""A Hub that is slow, breaks off, lies or attacks: what is fetched is right or is not there, and messages say why."""
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from fake_hub import FakeHub, cache_tree
from test_get import DATASET, NAME, PROGRAM, capture_files, get, hf, noise

BIG = "l00h00q/data.parquet"


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
    data = add_big(hub)
    hub.fault("cdn", times=100, cut=65536)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and blobs(tmp_path) == [hashlib.sha256(data).hexdigest()]
    ranges = [r.headers.get("range") for r in hub.requests("cdn")]
    assert ranges == [None] + [f"bytes={i * 65536}-" for i in range(1, 16)]
    assert all(r.headers["if-range"] for r in hub.requests("cdn")[1:])
    assert sum(r.sent for r in hub.requests("cdn")) == len(data)


def test_connection_that_breaks_at_once(hub, tmp_path):
    """Time after time without a byte; what came before is kept and gone on with."""
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", times=3, cut=0)
    said = get(hub, tmp_path, NAME, "--tries", 3, expect=1)[1]
    assert "tried 3 times" in said and "trying again in 2 s" in said and "127.0.0.1" in said
    assert "secret" not in said  # of the signed address
    name, = blobs(tmp_path)
    assert name.endswith(".qkscope.incomplete") and not list(tmp_path.rglob("refs/*"))
    assert "not in the cache" in get(hub, tmp_path, NAME, "--offline", expect=1)[1]
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and hub.log[-1].headers["range"] == "bytes=300000-"
    assert blobs(tmp_path) == [hashlib.sha256(data).hexdigest()]


def test_wrong_bytes_never_get_the_name(hub, tmp_path):
    add_big(hub)
    hub.fault("cdn", times=100, spoil=True)
    said = get(hub, tmp_path, NAME, expect=1)[1]
    assert f"{BIG}: " in said and "their hash is not" in said and "tried 3 times" in said
    assert blobs(tmp_path) == []
    assert len(hub.requests("cdn")) == 3
    assert "tried 2 times" in get(hub, tmp_path, NAME, "--tries", 2, expect=1)[1]
    assert len(hub.requests("cdn")) == 5


def test_wrong_bytes_once(hub, tmp_path):
    data = add_big(hub)
    hub.fault("cdn", spoil=True)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data


def test_spoiled_leftover(hub, tmp_path):
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", times=3, cut=0)
    get(hub, tmp_path, NAME, "--tries", 1, expect=1)
    hub.faults.clear()
    leftover, = (tmp_path / "hub" / DATASET / "blobs").iterdir()
    leftover.write_bytes(b"?" * 300000)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and len(blobs(tmp_path)) == 1


def test_server_without_ranges(hub, tmp_path):
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", ignore_range=True)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and [r.status for r in hub.requests("cdn")] == [200, 200]


@pytest.mark.parametrize("headers", [{"Content-Range": "bytes 7-99/1048576"}, {"Content-Range": "nonsense"}])
def test_wrong_range(hub, tmp_path, headers):
    data = add_big(hub)
    hub.fault("cdn", cut=300000)
    hub.fault("cdn", status=206, body=b"x" * 100, headers=headers)
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data


@pytest.mark.parametrize("size", [100, 2 << 20])
def test_wrong_length(hub, tmp_path, size):
    add_big(hub)
    hub.fault("cdn", times=100, status=200, body=b"x" * size)
    said = get(hub, tmp_path, NAME, expect=1)[1]
    assert "where the Hub lists 1048576" in said or "more than the 1048576 bytes" in said
    assert blobs(tmp_path) == []


def test_small_files_are_checked_too(hub, tmp_path):
    hub.add("datasets", NAME, {"README.md": b"right\n"})
    hub.fault("hub", path="README", times=100, status=200, body=b"wrong\n")
    assert "their hash is not" in get(hub, tmp_path, NAME, expect=1)[1]
    assert blobs(tmp_path) == []


# ---- servers that are busy -------------------------------------------------------------------

def test_limits_are_waited_for(hub, tmp_path):
    hub.add("datasets", NAME, capture_files(layers=1))
    hub.fault("hub", path="/resolve/", times=6, status=429, headers={"ratelimit": '"resolvers";r=0;t=0'})
    start = time.monotonic()
    said = get(hub, tmp_path, NAME)[1]
    assert "org/name: the limit of requests is reached: waiting 1 s" in said
    assert 1 <= time.monotonic() - start < 30
    check_blobs(tmp_path)


def test_storm_of_limits(hub, tmp_path):
    """A window of 12 requests a second: those beyond it are refused, and all transfers wait for the next one."""
    hub.add("datasets", NAME, {f"l00h{head:02}q/data.parquet": noise(head, 3000) for head in range(28)})
    hub.quota, hub.window = 12, 1
    said = get(hub, tmp_path, NAME, "--jobs", "8")[1]
    refused = [r for r in hub.requests() if r.status == 429]
    assert 1 <= said.count("the limit of requests is reached") <= 4
    assert len(refused) <= 8 * said.count("the limit of requests is reached")
    assert len(blobs(tmp_path)) == 28
    check_blobs(tmp_path)


def test_limit_that_is_hours_away(hub, tmp_path):
    hub.add("datasets", NAME, capture_files(layers=1))
    hub.fault("hub", path="/resolve/", times=6, status=429, headers={"Retry-After": "7200"})
    assert "wait 120 minutes, then go on with the same command" in get(hub, tmp_path, NAME, expect=1)[1]


@pytest.mark.parametrize("path, status", [("/revision/", 503), ("/tree/", 502), ("/resolve/", 500), ("/blob/", 403)])
def test_short_failures_pass(hub, tmp_path, path, status):
    """403 of the second origin: the signature in its address is too old, and the Hub gives another."""
    add_big(hub)
    hub.fault("cdn" if path == "/blob/" else "hub", path=path, times=1, status=status)
    said = get(hub, tmp_path, NAME)[1]
    assert f"HTTP status {status}; trying again in 1 s" in said


def test_silence(hub, tmp_path):
    data = add_big(hub)
    hub.fault("cdn", piece=65536, pause=5)
    start = time.monotonic()
    get(hub, tmp_path, NAME, HF_HUB_DOWNLOAD_TIMEOUT=1)
    assert read(tmp_path) == data and time.monotonic() - start < 5
    assert hub.requests("cdn")[1].headers["range"] == "bytes=65536-"
    hub.repos.clear()
    hub.add("datasets", NAME, {BIG: noise("other", 10)})
    hub.fault("hub", path="/tree/", delay=5)
    assert "nothing came for 1 s; trying again in 1 s" in get(hub, tmp_path, NAME, "--timeout", 1)[1]


def test_slow_is_not_silent(hub, tmp_path):
    """As long as bytes come, nothing is given up."""
    data = add_big(hub, 200000)
    hub.fault("cdn", piece=50000, pause=0.7)
    said = get(hub, tmp_path, NAME, "--timeout", "2")[1]
    assert read(tmp_path) == data and "again" not in said and len(hub.requests("cdn")) == 1


# ---- servers that lie ------------------------------------------------------------------------

def edit_entry(**changes):
    def edit(body):
        entries = json.loads(body)
        entries[-1] |= changes
        return json.dumps(entries).encode()
    return edit


@pytest.mark.parametrize("change, said", [
    ({"path": "../../evil"}, "has a part . or .."), ({"path": "/etc/evil"}, "is absolute"),
    ({"path": "a/./b"}, "has a part . or .."), ({"path": "a//b"}, "has an empty part"), ({"path": ""}, "is empty"),
    ({"path": "a\x1b[2J"}, "has a control character"), ({"path": "a\nb"}, "has a control character"),
    ({"path": "x" * 300}, "too long"), ({"path": "a\\b"}, "has a backslash"), ({"path": 7}, "without type or path"),
    ({"size": 1 << 60, "lfs": None}, "no file has"), ({"size": -1, "lfs": None}, "no file has"),
    ({"size": "many", "lfs": None}, "no number of bytes"),
    ({"oid": "../../../x"}, "is no hash"), ({"lfs": {"oid": "../x", "size": 3}}, "is no hash"),
    ({"type": "link"}, "neither file nor directory"), ({"path": "README.md"}, "is listed twice")])
def test_hostile_listing(hub, tmp_path, change, said):
    hub.add("datasets", NAME, {"README.md": b"x", BIG: b"abc"})
    hub.fault("hub", path="/tree/", times=9, edit=edit_entry(**change))
    told = get(hub, tmp_path, NAME, expect=1)[1]
    assert said in told and "\x1b" not in told
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


@pytest.mark.parametrize("body, said", [
    (b'[{"type": "file", "path": "a', "list of files"), (b"[" * 100000, "list of files"), (b"{}", "not a list"),
    (b"\xff\xfe[]", "list of files"), (b"", "list of files")])
def test_broken_json(hub, tmp_path, body, said):
    add_big(hub)
    hub.fault("hub", path="/tree/", times=9, status=200, body=body)
    assert said in get(hub, tmp_path, NAME, expect=1)[1]
    hub.faults.clear()
    hub.fault("hub", path="/revision/", times=9, status=200, body=body)
    assert "the Hub's answer" in get(hub, tmp_path, NAME, expect=1)[1]


def test_a_page_of_nothing_but_small_values(hub, tmp_path):
    """10 MB of them would take 750 MB of memory, and a second more for each MB in which nobody can stop it."""
    add_big(hub)
    for path in ("/tree/", "/revision/"):
        hub.fault("hub", path=path, times=9, status=200, body=b"[" + b"{}," * 3_400_000 + b"{}]")
        assert ("more values than an answer of the Hub may have: they would take over 128 MB of memory"
                in get(hub, tmp_path, NAME, expect=1)[1])
        hub.faults.clear()


@pytest.mark.parametrize("body", [b"[]", b"[ ]", b"\n[\n]\n"])
def test_listing_that_does_not_end(hub, tmp_path, body):
    add_big(hub)
    hub.fault("hub", path="/tree/", times=10 ** 6, status=200, body=body,
              headers={"Link": f'<{hub.url}/api/datasets/{NAME}/tree/x?cursor=1>; rel="next"'})
    assert "does not end" in get(hub, tmp_path, NAME, expect=1)[1]
    assert len(hub.requests(path="/tree/")) == 1
    assert len(hub.log) < 10


def test_next_page_is_of_this_hub(hub, tmp_path):
    """Whatever host a page names, the token goes to the Hub alone."""
    hub.page = 3
    files = capture_files(layers=1)
    hub.add("datasets", NAME, files)
    elsewhere = hub.cdn_url

    class Page(FakeHub):
        pass
    hub.url, true = elsewhere, hub.url  # addresses of next pages are made of it
    environment = {"HF_ENDPOINT": true, "HF_TOKEN": "hf_good"}
    get(hub, tmp_path, NAME, **environment)
    assert not any("authorization" in r.headers or "/tree/" in r.path for r in hub.requests("cdn"))


@pytest.mark.parametrize("where", ["self", "two"])
def test_redirects_without_end(hub, tmp_path, where):
    add_big(hub)
    to = {"self": f"/datasets/{NAME}/resolve/x", "two": f"{hub.cdn_url}/blob/x"}[where]
    hub.fault("hub", path="/resolve/", times=100, status=302, headers={"Location": to})
    hub.fault("cdn", times=100, status=302, headers={"Location": f"{hub.url}/datasets/{NAME}/resolve/y"})
    assert "redirected 10 times, and again" in get(hub, tmp_path, NAME, expect=1, HF_TOKEN="hf_good")[1]
    assert not any("authorization" in r.headers for r in hub.requests("cdn"))


@pytest.mark.parametrize("to, said", [
    ("file:///etc/passwd", "neither http nor https"), ("ftp://127.0.0.1/x", "neither http nor https"),
    ("http://user:word@127.0.0.1/x", "user or password"), ("http://[::bad/x", "no address"),
    ("http://127.0.0.1/" + "x" * 20000, "an address of")])
def test_redirects_to_nowhere_good(hub, tmp_path, to, said):
    add_big(hub)
    hub.fault("hub", path="/resolve/", times=100, status=302, headers={"Location": to})
    told = get(hub, tmp_path, NAME, expect=1)[1]
    assert said in told and "word" not in told.replace("password", "")


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
        assert f"redirects to {hub.cdn_url}, which is not encrypted: refused" in said
        assert not hub.requests("cdn") and not blobs(tmp_path)[1:]


def test_headers_of_a_megabyte(hub, tmp_path):
    add_big(hub)
    for headers in ({"X-Long": "x" * 1000000}, {f"X-{i}": "y" * 60000 for i in range(15)}):
        hub.faults.clear()
        hub.fault("cdn", times=9, status=200, body=b"x", headers=headers)
        assert "headers" in get(hub, tmp_path, NAME, expect=1)[1]
    assert blobs(tmp_path) == []


def test_compressed_bytes_are_refused(hub, tmp_path):
    """Ten kilobytes that would unpack to ten megabytes, though plain bytes were asked for."""
    import gzip
    add_big(hub)
    for origin, path in (("cdn", "/blob/"), ("hub", "/tree/")):
        hub.fault(origin, path=path, times=9, status=200, body=gzip.compress(bytes(10 << 20)),
                  headers={"Content-Encoding": "gzip"})
        assert "compressed" in get(hub, tmp_path, NAME, expect=1)[1]
    assert all(r.headers["accept-encoding"] == "identity" for r in hub.log)


def test_endless_error_page(hub, tmp_path):
    add_big(hub)
    hub.fault("hub", path="/revision/", times=9, status=404, body=b"x" * (3 << 20))
    assert "an endless answer with status 404" in get(hub, tmp_path, NAME, expect=1)[1]


def test_existing_links_do_not_lead_out(hub, tmp_path):
    """A blob of another size is fetched anew; a snapshot's link is replaced, what it leads to is not written."""
    data = add_big(hub)
    path = get(hub, tmp_path, NAME)[0]
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    link = pathlib.Path(path) / BIG
    link.unlink()
    link.symlink_to(tmp_path / "gone")
    (tmp_path / "hub" / DATASET / "blobs" / hashlib.sha256(data).hexdigest()).write_bytes(b"short")
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and victim.read_bytes() == b"mine" and not (tmp_path / "gone").exists()


# ---- the disk --------------------------------------------------------------------------------

def test_space_is_looked_at_first(hub, tmp_path):
    files = {f"l{layer:02}h00q/data.parquet": b"x%d" % layer for layer in range(99)}
    hub.add("datasets", NAME, files)

    def huge(body):
        entries = json.loads(body)
        for entry in entries:
            if entry["type"] == "file":
                entry["lfs"]["size"] = 49 * 10 ** 12 // 1000
        return json.dumps(entries * 1).encode()
    hub.fault("hub", path="/tree/", times=9, edit=huge)
    free = os.statvfs(tmp_path)
    if free.f_bavail * free.f_frsize > 99 * 49 * 10 ** 9:
        pytest.skip("a disk of terabytes")
    said = get(hub, tmp_path, NAME, expect=1)[1]
    assert "make room, or choose another folder with HF_HUB_CACHE" in said
    assert not hub.requests("cdn")


def test_files_above_50_gb(hub, tmp_path):
    add_big(hub)
    hub.fault("hub", path="/tree/", edit=edit_entry(lfs={"oid": "a" * 64, "size": 51 * 10 ** 9}))
    assert "fetch it with hf download" in get(hub, tmp_path, NAME, expect=1)[1]


def test_disk_that_fills_up(hub, tmp_path):
    """A limit on the size of files stands for a full disk: writing fails in the middle."""
    data = add_big(hub)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500000, 500000))
    done = subprocess.run([PROGRAM, "get", NAME], env=hub.environment(tmp_path), preexec_fn=limit,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "cannot write: File too large" in done.stderr
    name, = blobs(tmp_path)
    assert name.endswith(".qkscope.incomplete") and not list(tmp_path.rglob("refs/*"))
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and len(blobs(tmp_path)) == 1
    assert hub.requests("cdn")[-1].headers["range"].startswith("bytes=")


# ---- processes that end, and rivals ----------------------------------------------------------

def test_killed_again_and_again(hub, tmp_path):
    """30 downloads end by kill -9 at any time, each going on with what the ones before have left; then two at once
    finish. No byte under a final name is ever wrong, nor is anything left."""
    files = {f"l00h{head:02}q/data.parquet": noise(head, 400000) for head in range(24)}
    hub.add("datasets", NAME, files)
    hub.fault("cdn", times=10 ** 6, piece=20000, pause=0.004)
    draw = random.Random(5)
    environment = hub.environment(tmp_path)
    for turn in range(30):
        asked = len(hub.requests("cdn"))
        child = subprocess.Popen([PROGRAM, "get", NAME], env=environment, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        while turn % 2 and child.poll() is None and len(hub.requests("cdn")) == asked:
            time.sleep(0.001)  # every other time bytes are on their way, on a slow machine as well
        time.sleep(draw.uniform(0.01, 0.08))
        child.kill()
        child.wait()
        check_blobs(tmp_path)
    assert any(r.headers.get("range") for r in hub.requests("cdn"))
    rivals = [subprocess.Popen([PROGRAM, "get", NAME], env=environment, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [rival.wait(timeout=100) for rival in rivals] == [0, 0]
    check_blobs(tmp_path)
    assert blobs(tmp_path) == sorted(hashlib.sha256(data).hexdigest() for data in files.values())
    hub.faults.clear()
    for small in tmp_path.rglob("*.tmp-*"):  # goes after a minute: the next test
        small.unlink()
    hf(hub, tmp_path / "theirs", "--repo-type", "dataset", NAME)
    ours = {name: entry for name, entry in cache_tree(tmp_path).items() if not name.startswith("theirs")}
    assert ours == cache_tree(tmp_path / "theirs")


def test_small_files_that_were_being_written(hub, tmp_path):
    """What killed downloads left beside tag, ref and list goes, but not what may be another machine's at work."""
    hub.add("datasets", NAME, {"a.bin": noise(1, 2000)})
    dead, alive = [], []
    for file in ("CACHEDIR.TAG", f"{DATASET}/refs/main"):
        path = tmp_path / "hub" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        for number, found in enumerate((dead, alive)):
            found.append(path.with_name(f"{path.name}.tmp-7-{number}"))
            found[-1].write_bytes(b"")
    other = tmp_path / "hub" / "notes.tmp-7-0"
    other.write_bytes(b"of somebody")
    for path in (*dead, other):
        os.utime(path, (1, 1))
    get(hub, tmp_path, NAME)
    assert [path.exists() for path in (*dead, *alive, other)] == [False, False, True, True, True]


def test_rivals_do_not_fetch_twice(hub, tmp_path):
    """Where locks work, two processes share the files among them."""
    files = {f"l00h{head:02}q/data.parquet": noise(head, 300000) for head in range(16)}
    hub.add("datasets", NAME, files)
    hub.fault("cdn", times=10 ** 6, piece=30000, pause=0.005)
    rivals = [subprocess.Popen([PROGRAM, "get", NAME], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [rival.wait(timeout=100) for rival in rivals] == [0, 0], [r.stderr.read() for r in rivals]
    check_blobs(tmp_path)
    assert len(blobs(tmp_path)) == 16
    for rival in rivals:
        rival.stderr.close()


def test_interrupted(hub, tmp_path):
    """Ctrl-C: at once, and what came is gone on with."""
    data = add_big(hub, 4 << 20)
    hub.fault("cdn", piece=65536, pause=0.05)
    child = subprocess.Popen([PROGRAM, "get", NAME], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    while not hub.requests("cdn") or hub.requests("cdn")[0].sent < 500000:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    said = child.communicate(timeout=10)[1]
    assert child.returncode == -signal.SIGINT and "stopped; what was fetched stays in the cache, and the same command goes on" in said
    assert [name for name in blobs(tmp_path) if name.endswith(".qkscope.incomplete")]
    get(hub, tmp_path, NAME)
    assert read(tmp_path) == data and hub.requests("cdn")[-1].headers["range"].startswith("bytes=")
