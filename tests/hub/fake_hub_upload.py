# SPDX-License-Identifier: Apache-2.0
"""The side of the fake Hub (fake_hub.py) that takes: datasets and branches are made, files go to the second origin by
addresses with a signature, in one piece or in parts, and commits name them, as of the real huggingface_hub."""
import base64
import fnmatch
import hashlib
import json
import re
import urllib.parse

LFS_FROM = 10 << 20  # bytes; a commit itself takes no larger files
ATTRIBUTES = b"*.bin filter=lfs diff=lfs merge=lfs -text\n*.parquet filter=lfs diff=lfs merge=lfs -text\n"


class Uploads:
    """What the server keeps of them, and how it takes them."""

    def __init__(self):
        self.writers = {"hf_good"}
        self.part_size = None  # bytes, of files that are sent in parts; None: all are sent in one piece
        self.parts = {}  # oid -> {number: bytes}
        self.wants_telling = False  # of each file that is stored, before it can be committed
        self.stored = {}  # such files
        self.keep = True  # the bytes that come; else only the hash that they are said to have, for measurements
        self.commits = []  # (revision, header, lines) in their order


class Received:
    """A file whose bytes nobody kept."""

    def __init__(self, sha256, size):
        self.lfs, self.sha256, self.size, self.data = True, sha256, size, None
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()
        self.pointer_size, self.etag = len(pointer), sha256
        self.oid = hashlib.sha1(b"blob %d\0" % len(pointer) + pointer).hexdigest()

    def entry(self, path):
        return {"type": "file", "oid": self.oid, "size": self.size, "path": path,
                "lfs": {"oid": self.sha256, "size": self.size, "pointerSize": self.pointer_size}}


# ---- bodies ----------------------------------------------------------------------------------

def receive(handler):
    """Reads the body; with a fault `cut_body`, so many bytes of it before the connection breaks. Whether there is
    one to answer."""
    size = int(handler.headers.get("Content-Length", 0))
    stop = min(size, handler.how.get("cut_body", size))
    whole, pieces = hashlib.sha256(), []
    keep = handler.server.hub.uploads.keep or not handler.path.startswith("/upload/")
    request = handler.request_
    while request.received < stop:
        piece = handler.rfile.read(min(1 << 20, stop - request.received))
        if not piece:
            handler.close_connection = True
            return False
        request.received += len(piece)
        if keep:
            whole.update(piece)
            pieces.append(piece)
    if "cut_body" in handler.how:
        handler.break_off()
        return False
    request.body, request.sha256 = b"".join(pieces), whole.hexdigest() if keep else None
    return True


# ---- who may ---------------------------------------------------------------------------------

def may_write(handler):
    token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
    hub = handler.server.hub
    if token not in hub.tokens:
        handler.refuse(401, None, "Invalid credentials in Authorization header")
    elif token not in hub.uploads.writers:
        handler.refuse(403, None, "Forbidden: you must use a write token to upload to a repository.")
    else:
        return True
    return False


# ---- the Hub ---------------------------------------------------------------------------------

def serve(handler):
    url = urllib.parse.urlsplit(handler.path)
    if handler.server.origin == "cdn":
        return store(handler, url)
    if url.path == "/api/validate-yaml":
        return handler.say(200, {"errors": [], "warnings": []})
    if url.path == "/api/complete_multipart":
        return complete(handler, dict(urllib.parse.parse_qsl(url.query)))
    if not may_write(handler):
        return None
    if url.path == "/api/repos/create":
        return create(handler)
    if match := re.match(r"^/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/(batch|verify)$", url.path):
        kind = "datasets" if match[1] else "models"
        if handler.find_repo(kind, match[2]) is not None:
            (batch if match[3] == "batch" else verify)(handler, kind, match[2])
        return None
    match = re.match(r"^/api/(datasets|models)/([^/]+/[^/]+)/(branch|preupload|commit)/([^/]+)$", url.path)
    if not match:
        return handler.refuse(404, message="Sorry, we can't find the page you are looking for.")
    kind, name, what, revision = match.groups()
    repo = handler.find_repo(kind, name)
    if repo is not None:
        {"branch": branch, "preupload": preupload, "commit": commit}[what](
            handler, repo, urllib.parse.unquote(revision), name)
    return None


def add_commit(hub, repo, revision, files, about):
    seed = json.dumps([about, len(repo.commits), sorted((p, f.oid) for p, f in files.items())])
    oid = hashlib.sha1(seed.encode()).hexdigest()
    repo.commits[oid] = files
    repo.refs[revision] = oid
    return oid


def create(handler):
    hub, body = handler.server.hub, json.loads(handler.request_.body)
    name, key = f"{body['organization']}/{body['name']}", body.get("type", "model") + "s"
    if (key, name) in hub.repos:
        return handler.say(409, {"error": "You already created this dataset repo", "url": f"{hub.url}/{key}/{name}"})
    repo = hub.new_repo(key, name)
    repo.private = body.get("visibility", "private" if body.get("private") else "public") != "public"
    add_commit(hub, repo, "main", {".gitattributes": hub.file(ATTRIBUTES, False)}, "initial commit")
    return handler.say(200, {"url": f"{hub.url}/{key}/{name}", "name": name})


def branch(handler, repo, revision, _name):
    body = json.loads(handler.request_.body or b"{}")
    if revision in repo.refs:
        return handler.refuse(409, None, "Reference already exists")
    if not body.get("emptyBranch"):
        repo.refs[revision] = repo.refs[body.get("startingPoint", "main")]
    else:
        add_commit(handler.server.hub, repo, revision, {}, revision)
    return handler.say(200, b"", kind="text/plain")


def preupload(handler, repo, revision, _name):
    body = json.loads(handler.request_.body)
    there = repo.commits.get(repo.refs.get(revision), {})
    if len(body["files"]) > 256:
        return handler.refuse(400, None, "too many files")

    def lines(name, given):
        text = body.get(given) or (there[name].data.decode() if name in there else "")
        return [line.split()[0] for line in text.splitlines() if line.strip()]
    large, ignored = lines(".gitattributes", "gitAttributes"), lines(".gitignore", "gitIgnore")

    def mode(file):
        name, sample = file["path"].rsplit("/", 1)[-1], base64.b64decode(file["sample"])
        assert len(sample) == min(512, file["size"])
        return "lfs" if (file["size"] > LFS_FROM or b"\0" in sample or
                         any(fnmatch.fnmatch(name, pattern) for pattern in large)) else "regular"
    return handler.say(200, {"files": [
        {"path": f["path"], "uploadMode": mode(f),
         "shouldIgnore": any(fnmatch.fnmatch(f["path"], pattern) for pattern in ignored),
         "oid": there[f["path"]].oid if f["path"] in there else None} for f in body["files"]]})


def batch(handler, kind, name):
    hub, body = handler.server.hub, json.loads(handler.request_.body)
    assert body["operation"] == "upload" and "basic" in body["transfers"] and body["hash_algo"] == "sha256"
    assert handler.headers["Content-Type"] == handler.headers["Accept"] == "application/vnd.git-lfs+json"
    objects, up = [], hub.uploads
    for wanted in body["objects"]:
        oid, size = wanted["oid"], wanted["size"]
        if oid in hub.blobs:
            objects.append({"oid": oid, "size": size})
            continue
        secret = f"signature=secret-{oid[:8]}"
        upload = {"href": f"{hub.cdn_url}/upload/{oid}?{secret}"}
        if up.part_size:
            count = -(-size // up.part_size)
            upload = {"href": f"{hub.url}/api/complete_multipart?oid={oid}&{secret}",
                      "header": {"chunk_size": str(up.part_size)} | {
                          f"{i:05}": f"{hub.cdn_url}/part/{oid}/{i}?{secret}" for i in range(1, count + 1)}}
        prefix = "datasets/" if kind == "datasets" else ""
        verified = {"href": f"{hub.url}/{prefix}{name}.git/info/lfs/objects/verify"}
        objects.append({"oid": oid, "size": size, "authenticated": True,
                        "actions": {"upload": upload, "verify": verified}})
    handler.say(200, {"transfer": "multipart" if up.part_size else "basic", "objects": objects})


def verify(handler, _kind, _name):
    hub, body = handler.server.hub, json.loads(handler.request_.body)
    if body["oid"] in hub.uploads.stored:
        hub.blobs[body["oid"]] = hub.uploads.stored[body["oid"]]
    file = hub.blobs.get(body["oid"])
    if file is None or file.size != body["size"]:
        return handler.refuse(404, None, "no such object")
    return handler.say(200, b"")


def commit(handler, repo, revision, name):
    hub = handler.server.hub
    assert handler.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in handler.request_.body.splitlines()]
    header, lines = lines[0]["value"], lines[1:]
    with hub.lock:
        parent = repo.refs.get(revision)
        if parent is None:
            return handler.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if header.get("parentCommit", parent) != parent:
            return handler.refuse(412, None, "A commit has happened since. Please refresh and try again.")
        files = dict(repo.commits.get(parent, {}))
        for line in lines:
            key, value = line["key"], line["value"]
            path = value["path"]
            if key == "lfsFile":
                found = hub.blobs.get(value["oid"])
                if found is None or found.size != value["size"] or value["algo"] != "sha256":
                    return handler.refuse(400, None, f"Your push was rejected: the LFS object of {path} is missing")
                files[path] = found
            elif key == "file":
                data = base64.b64decode(value["content"], validate=True)
                if len(data) > LFS_FROM:
                    return handler.refuse(400, None, f"{path} is too large to be committed")
                files[path] = hub.file(data, False)
            elif key == "deletedFile":
                del files[path]
            else:
                return handler.refuse(400, None, f"what is {key}?")
        oid = add_commit(hub, repo, revision, files, header)
        hub.uploads.commits.append((revision, header, lines))
    return handler.say(200, {"success": True, "commitOid": oid, "hookOutput": "", "pullRequestUrl": None,
                             "commitUrl": f"{hub.url}/datasets/{name}/commit/{oid}"})


# ---- the store -------------------------------------------------------------------------------

def keep_blob(hub, oid, data, sha256, size):
    """Bytes of another hash lie there and are not the file's."""
    if not hub.uploads.keep:
        hub.blobs[oid] = Received(oid, size)
    elif oid == sha256:
        (hub.uploads.stored if hub.uploads.wants_telling else hub.blobs)[oid] = hub.file(data, True)


def store(handler, url):
    hub, request = handler.server.hub, handler.request_
    match = re.match(r"^/(upload|part)/([0-9a-f]{64})(?:/(\d+))?$", url.path)
    if (not match or handler.command != "PUT" or url.query != f"signature=secret-{match[2][:8]}" or
            "Authorization" in handler.headers):
        return handler.say(403, b"<Error>AccessDenied</Error>", kind="application/xml")
    if match[1] == "upload":
        keep_blob(hub, match[2], request.body, request.sha256, request.received)
        return handler.say(200, b"")
    with hub.lock:
        hub.uploads.parts.setdefault(match[2], {})[int(match[3])] = request.body
    return handler.say(200, b"", {"ETag": f'"{hashlib.md5(request.body).hexdigest()}"'})


def complete(handler, query):
    hub, body = handler.server.hub, json.loads(handler.request_.body)
    parts = hub.uploads.parts.get(body["oid"], {})
    told = {part["partNumber"]: part["etag"] for part in body["parts"]}
    if (query != {"oid": body["oid"], "signature": f"secret-{body['oid'][:8]}"} or
            told != {i: f'"{hashlib.md5(data).hexdigest()}"' for i, data in parts.items()}):
        return handler.refuse(400, None, "these are not the parts")
    data = b"".join(parts[i] for i in sorted(parts))
    keep_blob(hub, body["oid"], data, hashlib.sha256(data).hexdigest(), len(data))
    return handler.say(200, {"success": True})
