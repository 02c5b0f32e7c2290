# SPDX-License-Identifier: Apache-2.0
"""A small server that answers as the Hugging Face Hub does, for tests: revisions, branches, trees in pages,
files with redirects to a second origin, ranges, ETags, a log of every request, and faults on demand.
tests/hub/test_get.py has the real huggingface_hub download from it.

    with FakeHub() as hub:
        hub.add("datasets", "org/name", {"l00h00q/data.parquet": b"..."}, revision="main")
        hub.fault(origin="cdn", path=r"^/", times=3, cut=65536)
        subprocess.run([...], env={**os.environ, "HF_ENDPOINT": hub.url})
        assert not any("authorization" in r.headers for r in hub.log if r.origin == "cdn")
"""
import hashlib
import http.server
import json
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse

import fake_hub_upload

LFS_ENDINGS = (".parquet", ".safetensors", ".gguf", ".bin")


class File:
    """Bytes of a file, from memory or from a path, with the names that git and LFS give them."""

    def __init__(self, data, lfs):
        self.path = None if isinstance(data, bytes) else os.fspath(data)
        self.data = data if self.path is None else None
        self.size = len(data) if self.path is None else os.path.getsize(self.path)
        self.lfs, self.sha256 = lfs, None
        git = hashlib.sha1()
        if lfs:
            sha = hashlib.sha256()
            for piece in self.pieces(0, self.size):
                sha.update(piece)
            self.sha256 = sha.hexdigest()
            pointer = (f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n"
                       f"size {self.size}\n").encode()
            git.update(b"blob %d\0" % len(pointer) + pointer)
            self.pointer_size = len(pointer)
        else:
            git.update(b"blob %d\0" % self.size)
            for piece in self.pieces(0, self.size):
                git.update(piece)
        self.oid = git.hexdigest()

    @property
    def etag(self):
        return self.sha256 if self.lfs else self.oid

    def pieces(self, start, end):
        if self.data is not None:
            yield memoryview(self.data)[start:end]
            return
        with open(self.path, "rb") as file:
            file.seek(start)
            while start < end:
                piece = file.read(min(1 << 20, end - start))
                start += len(piece)
                yield piece

    def entry(self, path):
        entry = {"type": "file", "oid": self.oid, "size": self.size, "path": path}
        if self.lfs:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": self.pointer_size}
        return entry


class Repo:
    def __init__(self):
        self.refs = {}  # name of a branch or tag -> commit
        self.tags = set()
        self.commits = {}  # commit -> {path: File}
        self.private = self.disabled = False
        self.gated = None  # a token that may read it


class Request:
    def __init__(self, origin, method, path, headers):
        self.origin, self.method, self.path, self.headers = origin, method, path, headers
        self.status, self.sent = None, 0
        self.received, self.body = 0, None

    def __repr__(self):
        return f"{self.origin} {self.method} {self.path} {self.status}"


class Fault:
    """What goes wrong where a request matches, `times` times. `act` (a function of the handler) answers by
    itself; the other names change what the server says or how it says it."""

    def __init__(self, origin, path, times, skip, **how):
        self.origin, self.path, self.times, self.skip, self.how = origin, re.compile(path), times, skip, how

    def take(self, request):
        if self.origin != request.origin or not self.path.search(request.path) or self.times == 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def log_message(self, *args):
        pass

    # ---- one request

    def do_GET(self):
        self.answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def answer(self):
        hub, origin = self.server.hub, self.server.origin
        self.request_ = Request(origin, self.command, self.path,
                                {k.lower(): v for k, v in self.headers.items()})
        with hub.lock:
            hub.log.append(self.request_)
            fault = next((f for f in hub.faults if f.take(self.request_)), None)
        self.how = fault.how if fault else {}
        time.sleep(self.how.get("delay", 0))
        taking = self.command in ("POST", "PUT")
        if taking and not fake_hub_upload.receive(self):
            return
        if "act" in self.how:
            self.how["act"](self)
        elif "status" in self.how:
            self.say(self.how["status"], self.how.get("body", b"{}"), self.how.get("headers", {}))
        elif taking:
            fake_hub_upload.serve(self)
        elif origin == "cdn":
            self.serve_blob()
        else:
            self.serve_hub()

    def say(self, status, body=b"", headers=None, kind="application/json"):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        body = self.how.get("edit", lambda b: b)(body)
        self.request_.status = status
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for key, value in {**(headers or {}), **self.how.get("add", {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code=None, message=None):
        headers = {}
        if code:
            headers["X-Error-Code"] = code
        if message:
            headers["X-Error-Message"] = message
        self.say(status, {"error": message or code or "error"}, headers)

    # ---- the Hub

    def serve_hub(self):
        hub = self.server.hub
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        match = (re.match(r"^/api/(datasets|models)/([^/]+/[^/]+)(?:/(revision|tree|refs)(?:/([^/]+))?)?$", url.path))
        if match:
            kind, name, what, revision = match.groups()
            found = self.find_repo(kind, name)
            if found is None:
                return
            revision = urllib.parse.unquote(revision) if revision else "main"
            if what == "refs":
                self.say_refs(found)
            elif (commit := self.find_commit(found, revision)) is not None:
                if what == "tree":
                    self.say_tree(found, commit, url, query)
                else:
                    self.say(200, {"id": name, "sha": commit, "private": found.private, "siblings": [
                        {"rfilename": path} for path in found.commits[commit]]})
            return
        match = (re.match(r"^/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)$", url.path) or
                 re.match(r"^/api/resolve-cache/(datasets/)?([^/]+/[^/]+)/([^/]+)/(.+)$", url.path))
        if not match:
            return self.refuse(404, message="Sorry, we can't find the page you are looking for.")
        prefix, name, revision, path = match.groups()
        found = self.find_repo("datasets" if prefix else "models", name)
        if found is None:
            return
        commit = self.find_commit(found, urllib.parse.unquote(revision))
        if commit is None:
            return
        file = found.commits[commit].get(urllib.parse.unquote(path))
        if file is None:
            return self.say(404, b"Entry not found", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit,
                                                      "X-Error-Message": "Entry not found"}, "text/plain")
        head = {"X-Repo-Commit": commit, "ETag": f'"{file.etag}"', "Accept-Ranges": "bytes"}
        if file.lfs:
            head |= {"X-Linked-Size": str(file.size), "X-Linked-Etag": f'"{file.etag}"',
                     "Location": f"{hub.cdn_url}/blob/{file.etag}?signature=secret-{file.etag[:8]}"}
            self.say(302, b"Found", head, "text/plain")
        elif "/resolve/" in url.path:
            to = f"/api/resolve-cache/{prefix or ''}{name}/{commit}/{path}?download=true"
            self.say(307, b"Temporary Redirect", head | {"Location": to}, "text/plain")
        else:
            self.serve_file(file, head)

    def find_repo(self, kind, name):
        found = self.server.hub.repos.get((kind, name))
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.server.hub.tokens:
            self.refuse(401, None, "Invalid credentials in Authorization header")
        elif found is None or (found.private and not token):
            self.refuse(401 if not token else 404, "RepoNotFound", "Repository not found")
        elif found.disabled:
            self.refuse(403, None, "Access to this resource is disabled.")
        elif found.gated and token != found.gated and "/api/" not in self.path.replace("/tree/", "/"):
            self.refuse(401 if not token else 403, "GatedRepo", f"Access to {kind} {name} is restricted.")
        else:
            return found
        return None

    def find_commit(self, repo, revision):
        commit = repo.refs.get(revision, revision)
        commit = next((c for c in repo.commits if len(commit) >= 7 and c.startswith(commit)), None)
        if commit is None:
            self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def say_refs(self, repo):
        def refs(folder, names):
            return [{"name": n, "ref": f"refs/{folder}/{n}", "targetCommit": repo.refs[n]} for n in names]
        plain = [n for n in repo.refs if not n.startswith("refs/")]
        self.say(200, {"branches": refs("heads", [n for n in plain if n not in repo.tags]),
                       "tags": refs("tags", sorted(repo.tags)), "converts": []})

    def say_tree(self, repo, commit, url, query):
        files = repo.commits[commit]
        folders = {path[:i] for path in files for i, c in enumerate(path) if c == "/"}
        names = sorted(files.keys() | folders)
        size, start = self.server.hub.page, int(query.get("cursor", 0))
        entries = [files[n].entry(n) if n in files else {"type": "directory", "path": n, "size": 0, "oid": "0" * 40}
                   for n in names[start:start + size]]
        headers = {}
        if start + size < len(names):
            following = urllib.parse.urlencode(query | {"cursor": start + size})
            headers["Link"] = f'<{self.server.hub.url}{url.path}?{following}>; rel="next"'
        self.say(200, entries, headers)

    # ---- the second origin, and bytes

    def serve_blob(self):
        match = re.match(r"^/blob/([0-9a-f]+)\?signature=secret-", self.path)
        file = self.server.hub.blobs.get(match.group(1)) if match else None
        if file is None:
            return self.say(403, b"<Error>AccessDenied</Error>", kind="application/xml")
        self.serve_file(file, {"ETag": f'"{file.etag}"', "Accept-Ranges": "bytes"})

    def serve_file(self, file, headers):
        start, end, status = 0, file.size, 200
        match = re.match(r"bytes=(\d+)-(\d*)$", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range")
        if match and condition in (None, headers["ETag"]) and not self.how.get("ignore_range"):
            start, end = int(match[1]), min(int(match[2]) + 1 if match[2] else file.size, file.size)
            if start >= file.size:
                return self.say(416, b"", {"Content-Range": f"bytes */{file.size}"})
            status = 206
            headers = headers | {"Content-Range": f"bytes {start}-{end - 1}/{file.size}"}
        self.request_.status = status
        self.send_response(status)
        for key, value in {"Content-Length": str(end - start), **headers, **self.how.get("add", {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        self.send_bytes(file, start, end)

    def send_bytes(self, file, start, end):
        """All of it; with a fault `cut`, only so many bytes before the connection breaks; with `pause`, that many
        seconds between pieces of `piece` bytes; with `spoil`, one bit is another."""
        cut = self.how.get("cut")
        stop = end if cut is None else min(end, start + cut)
        if not self.how and file.path and end > start:  # as fast as it goes
            self.wfile.flush()
            with open(file.path, "rb") as source:
                while start < end:
                    sent = os.sendfile(self.connection.fileno(), source.fileno(), start, end - start)
                    start += sent
                    self.request_.sent += sent
            return
        spoil, piece_size = self.how.get("spoil"), self.how.get("piece", 1 << 20)
        for piece in file.pieces(start, stop):
            piece = bytearray(piece)
            if spoil and piece:
                piece[len(piece) // 2] ^= 1
            for i in range(0, len(piece), piece_size):
                self.wfile.write(piece[i:i + piece_size])
                self.wfile.flush()
                self.request_.sent += len(piece[i:i + piece_size])
                time.sleep(self.how.get("pause", 0))
        if stop < end:
            self.break_off()

    def break_off(self):
        """The connection ends in the middle of what was promised."""
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass  # clients are killed, and say nothing


class FakeHub:
    def __init__(self, page=1000, certificate=None):
        """certificate: file with one and its key; the Hub, not the second origin, speaks https then."""
        self.certificate = certificate
        self.page = page
        self.repos, self.blobs, self.tokens = {}, {}, {"hf_good"}
        self.log, self.faults, self.lock = [], [], threading.Lock()
        self.servers = []
        self.uploads = fake_hub_upload.Uploads()

    def __enter__(self):
        for origin in ("hub", "cdn"):
            server = Server(("127.0.0.1", 0), Handler)
            server.hub, server.origin = self, origin
            if self.certificate and origin == "hub":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            self.servers.append(server)
        self.url, self.cdn_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)
        if self.certificate:
            self.url = self.url.replace("http:", "https:")
        return self

    def __exit__(self, *exception):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, kind, name, files, revision="main", tag=False):
        """A commit of files {path: bytes or a path on disk}; a revision points at it. Its name is returned."""
        repo = self.new_repo(kind, name)
        made = {path: File(data, path.endswith(LFS_ENDINGS)) for path, data in files.items()}
        seed = json.dumps([kind, name, sorted((p, f.oid) for p, f in made.items())])
        commit = hashlib.sha1(seed.encode()).hexdigest()
        repo.commits[commit] = made
        repo.refs[revision] = commit
        if tag:
            repo.tags.add(revision)
        self.blobs.update({f.sha256: f for f in made.values() if f.lfs})
        return commit

    def new_repo(self, kind, name):
        return self.repos.setdefault((kind, name), Repo())

    @staticmethod
    def file(data, lfs):
        return File(data, lfs)

    def fault(self, origin="hub", path=r"^/", times=1, skip=0, **how):
        self.faults.append(Fault(origin, path, times, skip, **how))

    def requests(self, origin="hub", path=""):
        return [r for r in self.log if r.origin == origin and re.search(path, r.path)]

    def environment(self, cache, **extra):
        """What a client's environment says: this server, a cache of its own, no token, no proxy."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("HF_") and "proxy" not in k.lower() and not k.startswith("HUGGING")}
        return env | {"HF_ENDPOINT": self.url, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1",
                      "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1",
                      "HF_HUB_DISABLE_PROGRESS_BARS": "1"} | {k: str(v) for k, v in extra.items()}


def cache_tree(cache):
    """What lies in a cache: {path: ("link", target) | ("file", bytes, mode) | ("folder",)}, locks left out. Lists of
    files have no mode: nobody but their owner may read those of huggingface_hub, which follows from how it writes
    them."""
    tree = {}
    for folder, folders, files in os.walk(cache):
        for name in folders + files:
            path = os.path.join(folder, name)
            short = os.path.relpath(path, cache)
            if ".locks" in short.split(os.sep):
                continue
            if os.path.islink(path):
                tree[short] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                tree[short] = ("folder",)
            else:
                with open(path, "rb") as file:
                    listed = os.path.basename(folder) == "trees"
                    tree[short] = ("file", file.read(), None if listed else oct(os.stat(path).st_mode))
    return tree
