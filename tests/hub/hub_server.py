# SPDX-License-Identifier: Apache-2.0
"""A small local server with the routes of the Hugging Face Hub that huggingface_hub asks, for HF_ENDPOINT.

    with HubServer() as hub:
        commit = hub.add("datasets", "org/name", {"l00h00q/data.parquet": b"..."}, revision="main")
        subprocess.run([...], env=hub.environment(home))
"""
import base64
import hashlib
import http.server
import json
import os
import re
import threading
import urllib.parse

TOKEN = "hf_good"
LARGE = (".parquet", ".safetensors", ".gguf")


class File:
    def __init__(self, data, large):
        self.data, self.size = data, len(data)
        self.oid = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        self.sha256 = hashlib.sha256(data).hexdigest() if large else None
        self.etag = self.sha256 or self.oid

    def entry(self, path):
        lfs = {"lfs": {"oid": self.sha256, "size": self.size, "pointerSize": 130}} if self.sha256 else {}
        return {"type": "file", "oid": self.oid, "size": self.size, "path": path} | lfs


class Repo:
    def __init__(self):
        self.refs, self.commits, self.private = {}, {}, False

    def commit(self, files, revision):
        name = hashlib.sha1(repr([revision, len(self.commits), sorted(files)]).encode()).hexdigest()
        self.commits[name], self.refs[revision] = files, name
        return name


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for key, value in {"content-type": "application/json", "content-length": len(body), **headers}.items():
            self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status, code=""):
        self.say(status, {"error": code}, X_Error_Code=code)

    def answer(self):
        hub = self.server.hub
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        with hub.lock:
            hub.log.append((self.command, path))
        for pattern, act in ROUTES:
            if match := re.fullmatch(pattern, path):
                try:
                    return act(self, hub, *match.groups())
                except ConnectionError:
                    self.close_connection = True
                    return None
        return self.refuse(404)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def find(self, kind, name, revision="main"):
        """Repository and commit; None after a refusal."""
        repo = self.server.hub.repos.get((kind, name))
        if repo is None or repo.private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.refuse(401, "RepoNotFound")
        commit = repo.refs.get(revision, revision)
        if commit not in repo.commits:
            return self.refuse(404, "RevisionNotFound")
        return repo, commit


def say_info(handler, hub, kind, name, revision):
    if found := handler.find(kind, name, revision or "main"):
        repo, commit = found
        handler.say(200, {"id": name, "sha": commit, "private": repo.private,
                          "siblings": [{"rfilename": path} for path in repo.commits[commit]]})


def say_refs(handler, hub, kind, name):
    if found := handler.find(kind, name):
        handler.say(200, {"branches": [{"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": commit}
                                       for ref, commit in found[0].refs.items()], "tags": [], "converts": []})


def say_tree(handler, hub, kind, name, revision):
    if found := handler.find(kind, name, revision):
        handler.say(200, [file.entry(path) for path, file in sorted(found[0].commits[found[1]].items())])


def say_file(handler, hub, kind, name, revision, path):
    found = handler.find(kind.strip("/") or "models", name, revision)
    if not found:
        return None
    repo, commit = found
    file = repo.commits[commit].get(path)
    if file is None:
        return handler.say(404, b"", X_Repo_Commit=commit, X_Error_Code="EntryNotFound")
    head = {"X_Repo_Commit": commit, "ETag": f'"{file.etag}"', "Accept_Ranges": "bytes"}
    if handler.command == "HEAD":
        return handler.say(200, file.data, **head)
    if path == hub.stalls:  # half of it, until the client is gone
        handler.send_response(200)
        for key, value in {"Content_Length": file.size, **head}.items():
            handler.send_header(key.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(file.data[:file.size // 2])
        handler.wfile.flush()
        hub.end.wait(60)
        handler.close_connection = True
        return None
    return handler.say(200, file.data, **head)


# ---- what is sent ----------------------------------------------------------------------------

def create(handler, hub):
    body = json.loads(handler.body)
    key = body.get("type", "model") + "s", f"{body['organization']}/{body['name']}"
    if handler.headers.get("Authorization") != f"Bearer {TOKEN}":
        return handler.refuse(401)
    if key in hub.repos:
        return handler.say(409, {"error": "You already created this repo", "url": f"{hub.url}/{key[0]}/{key[1]}"})
    repo = hub.repos[key] = Repo()
    repo.private = body.get("visibility", "private" if body.get("private") else "public") == "private"
    repo.commit({".gitattributes": File(b"*.parquet filter=lfs\n", False)}, "main")
    return handler.say(200, {"url": f"{hub.url}/{key[0]}/{key[1]}", "name": key[1]})


def make_branch(handler, hub, kind, name, branch):
    if found := handler.find(kind, name):
        found[0].refs[branch] = found[0].refs["main"]
        handler.say(200)


def preupload(handler, hub, kind, name, revision):
    handler.say(200, {"files": [{"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(LARGE) else "regular",
                                 "shouldIgnore": False, "oid": None} for f in json.loads(handler.body)["files"]]})


def batch(handler, hub, kind, name):
    handler.say(200, {"transfer": "basic", "objects": [
        {"oid": o["oid"], "size": o["size"], "authenticated": True} | (
            {} if o["oid"] in hub.stored else {"actions": {"upload": {"href": f"{hub.url}/upload/{o['oid']}"}}})
        for o in json.loads(handler.body)["objects"]]})


def upload(handler, hub, oid):
    file = File(handler.body, True)
    if oid == hub.stalls or file.sha256 != oid:  # of a client that was killed, the first part
        hub.end.wait(60 if oid == hub.stalls else 0)
        handler.close_connection = True
    else:
        hub.stored[oid] = file
        handler.say(200)


def commit(handler, hub, kind, name, revision):
    repo, parent = handler.find(kind, name, revision)
    files = dict(repo.commits[parent])
    for line in map(json.loads, handler.body.splitlines()):
        value = line["value"]
        if line["key"] == "lfsFile":
            files[value["path"]] = hub.stored[value["oid"]]
        elif line["key"] == "file":
            files[value["path"]] = File(base64.b64decode(value["content"]), False)
        elif line["key"] == "deletedFile":
            del files[value["path"]]
    oid = repo.commit(files, revision)
    handler.say(200, {"success": True, "commitOid": oid, "commitUrl": f"{hub.url}/datasets/{name}/commit/{oid}"})


REPO = r"/api/(datasets|models)/([^/]+/[^/]+)"
ROUTES = [(REPO + r"(?:/revision/(.+))?", say_info), (REPO + "/refs", say_refs), (REPO + "/tree/(.+)", say_tree),
          (r"/(datasets/|)([^/]+/[^/]+)/resolve/([^/]+)/(.+)", say_file), ("/api/repos/create", create),
          (REPO + "/branch/(.+)", make_branch), (REPO + "/preupload/(.+)", preupload), (REPO + "/commit/(.+)", commit),
          (r"/(datasets)/([^/]+/[^/]+)\.git/info/lfs/objects/batch", batch), (r"/upload/([0-9a-f]{64})", upload),
          ("/api/validate-yaml", lambda handler, hub: handler.say(200, {"errors": [], "warnings": []}))]


class HubServer:
    def __init__(self):
        self.repos, self.stored, self.log, self.lock = {}, {}, [], threading.Lock()
        self.stalls, self.end = None, threading.Event()  # path of a file of which only a part comes, or SHA-256 of one that is not taken

    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.hub, self.server.daemon_threads = self, True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.end.set()
        self.server.shutdown()
        self.server.server_close()

    def add(self, kind, name, files, revision="main"):
        """A commit of files {path: bytes}; the revision points at it. Its name is returned."""
        repo = self.repos.setdefault((kind, name), Repo())
        return repo.commit({path: File(data, path.endswith(LARGE)) for path, data in files.items()}, revision)

    def sent(self):
        """Paths of files whose bytes were asked for."""
        with self.lock:
            return sorted(path.split("/resolve/")[1].split("/", 1)[1] for method, path in self.log
                          if method == "GET" and "/resolve/" in path)

    def environment(self, home, **extra):
        """This server, a cache of its own, no token, no proxy; hf of this Python before others."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING")) and "proxy" not in k.lower()}
        return env | {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1",
                      "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"} | extra
