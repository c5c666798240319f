"""A stand-in for the Hugging Face Hub: a server that answers what `huggingface_hub` asks when it lists, downloads and
commits.

Repositories are kept in memory. Large files travel as with Git LFS: a batch request, an upload, a commit that names
their hash.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WRITER, READER = "hf_writerWRITERwriterWRITERwriterWRITER", "hf_readerREADERreaderREADERreaderREADER"
"""Tokens that may write, and only read."""
LARGE = (".onnx", ".safetensors", ".png", ".gif", ".mp4", ".pt")


@dataclass
class Repo:
    """A repository: its commits, oldest first, and its branches."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    titles: list[str] = field(default_factory=list)

    def commit(self, files: dict[str, bytes], branch: str = "main", title: str = "initial commit") -> str:
        """Makes a commit with exactly these files."""
        sha = hashlib.sha1(f"{len(self.commits)} {title}".encode()).hexdigest()
        self.commits[sha] = dict(files)
        self.branches[branch] = sha
        self.titles.append(title)
        return sha

    def at(self, revision: str) -> str | None:
        """The commit of a branch, or of its own hash."""
        return self.branches.get(revision) or (revision if revision in self.commits else None)

    @property
    def files(self) -> dict[str, bytes]:
        """What is on the main branch."""
        return self.commits[self.branches["main"]]


class Hub:
    """What the server keeps, and how it is to misbehave."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.break_once: set[str] = set()
        """Paths of files whose next download breaks off."""
        self.damaged: set[str] = set()
        """Paths of files that come with other bytes."""
        self.slow = 0.0
        """Seconds that a download stands still in its middle."""
        self.over = threading.Event()
        self.status: int | None = None
        """Status that every request gets."""
        self.url = ""

    def add(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repo:
        """Adds a repository as another tool would have made it."""
        repo = self.repos[name] = Repo(private)
        repo.commit({".gitattributes": b"*.onnx filter=lfs\n", **files})
        return repo


@contextmanager
def serving() -> Iterator[Hub]:
    """Serves a Hub on a port of this machine."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # an answer in one piece
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Stays silent."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def _answer(self, method: str) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).replace("/api/spaces/", "/api/models/spaces/")
        self.query = parse_qs(parts.query)
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append(f"{method} {path}")
        if self.hub.status is not None:
            return self._send(self.hub.status, {"error": "made to fail"})
        self.token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        if self.token not in (None, WRITER, READER):
            return self._refuse(401, "Invalid credentials in Authorization header")
        for pattern, verb, answer in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match and verb == ("GET" if method == "HEAD" else method):
                return answer(self, **match.groupdict())
        return self._refuse(404, f"no such page: {path}")

    # what a route answers

    def create(self) -> None:
        if not self._may_write():
            return None
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'ann'}/{asked['name'].rpartition('/')[2]}"
        if asked.get("type") == "space":
            assert asked["sdk"] == "static"
            name = f"spaces/{name}"
        if name in self.hub.repos:
            return self._send(409, {"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"})
        self.hub.add(name, {}, private=bool(asked.get("private")) or asked.get("visibility") == "private")
        return self._send(200, {"url": f"{self.hub.url}/{name}", "name": name, "id": name})

    def info(self, repo: str, revision: str = "main") -> None:
        found = self._at(repo, revision)
        if found is not None:
            there, sha = found
            names = [{"rfilename": path} for path in there.commits[sha]]
            self._send(
                200,
                {
                    "id": repo,
                    "modelId": repo,
                    "sha": sha,
                    "private": there.private,
                    "tags": [],
                    "downloads": 0,
                    "siblings": names,
                },
            )

    def tree(self, repo: str, revision: str) -> None:
        found = self._at(repo, revision)
        if found is None:
            return
        there, sha = found
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "a_folder", "oid": "0" * 40, "size": 0}]
        for path, content in there.commits[sha].items():
            entry = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
            if path.endswith(LARGE):
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            entries.append(entry)
        self._send(200, entries)

    def branch(self, repo: str, revision: str) -> None:
        found = self._at(repo, "main")
        if found is not None and self._may_write():
            there, sha = found
            there.branches.setdefault(revision, sha)
            self._send(200, {})

    def validate(self) -> None:
        self._send(200, {"errors": [], "warnings": []})

    def preupload(self, repo: str, revision: str) -> None:
        found = self._at(repo, revision)
        if found is None or not self._may_write():
            return
        there, sha = found
        files = []
        for file in json.loads(self.body)["files"]:
            before = there.commits[sha].get(file["path"])
            large = file["path"].endswith(LARGE)
            oid = None if before is None else hashlib.sha256(before).hexdigest() if large else _blob(before)
            files.append(
                {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False, "oid": oid}
            )
        self._send(200, {"files": files, "commitOid": sha})

    def batch(self, repo: str) -> None:
        if self._at(repo, "main") is None or not self._may_write():
            return
        objects = []
        for one in json.loads(self.body)["objects"]:
            entry: dict[str, Any] = {"oid": one["oid"], "size": one["size"]}
            if one["oid"] not in self.hub.objects:
                entry["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{one['oid']}", "header": {}}}
            objects.append(entry)
        self._send(200, {"transfer": "basic", "objects": objects})

    def upload(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.hub.objects[oid] = self.body
        self._send(200, {})

    def commit(self, repo: str, revision: str) -> None:
        found = self._at(repo, revision)
        if found is None or not self._may_write():
            return
        there, sha = found
        lines = [json.loads(line) for line in self.body.splitlines()]
        head = lines[0]["value"]
        if head.get("parentCommit") not in (None, sha):
            self._refuse(412, "A commit has happened since.")
            return
        files = dict(there.commits[sha])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        oid = there.commit(files, revision, head["summary"])
        self._send(200, {"success": True, "commitOid": oid, "commitUrl": f"{self.hub.url}/{repo}/commit/{oid}"})

    def resolve(self, repo: str, revision: str, path: str) -> None:
        found = self._at(repo, revision)
        if found is None:
            return
        there, sha = found
        content = there.commits[sha].get(path)
        if content is None:
            self._refuse(404, "Entry not found", "EntryNotFound", sha)
            return
        etag = hashlib.sha256(content).hexdigest() if path.endswith(LARGE) else _blob(content)
        if path in self.hub.damaged:
            content = content[:-1] + bytes((content[-1] ^ 1,))
        broken = self.command == "GET" and path in self.hub.break_once
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Repo-Commit", sha)
        self.end_headers()
        if self.command == "GET":
            middle = len(content) // 2
            self.wfile.write(content[:middle])
            if self.hub.slow:
                self.wfile.flush()
                self.hub.over.wait(self.hub.slow)
            self.wfile.write(b"" if broken else content[middle:])
        if broken:
            self.hub.break_once.discard(path)
            self.close_connection = True

    # parts of them

    def _at(self, repo: str, revision: str) -> tuple[Repo, str] | None:
        there = self.hub.repos.get(repo)
        if there is None or (there.private and self.token is None):
            self._refuse(404 if self.token else 401, "Repository not found", "RepoNotFound")
            return None
        sha = there.at(unquote(revision))
        if sha is None:
            self._refuse(404, f"Invalid rev id: {revision}", "RevisionNotFound")
            return None
        return there, sha

    def _may_write(self) -> bool:
        if self.token == WRITER:
            return True
        self._refuse(403 if self.token else 401, f"You don't have the rights to write with token {self.token}")
        return False

    def _refuse(self, status: int, message: str, code: str | None = None, sha: str | None = None) -> None:
        headers = {"X-Error-Message": message, "X-Error-Code": code, "X-Repo-Commit": sha}
        self._send(status, {"error": message}, {key: value for key, value in headers.items() if value})

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


_REPO, _REVISION = r"(?P<repo>(?:spaces/)?[^/]+/[^/]+)", r"(?P<revision>.+)"
_ROUTES = [
    (r"/api/repos/create", "POST", _Handler.create),
    (r"/api/validate-yaml", "POST", _Handler.validate),
    (rf"/api/models/{_REPO}", "GET", _Handler.info),
    (rf"/api/models/{_REPO}/revision/{_REVISION}", "GET", _Handler.info),
    (rf"/api/models/{_REPO}/tree/{_REVISION}", "GET", _Handler.tree),
    (rf"/api/models/{_REPO}/branch/{_REVISION}", "POST", _Handler.branch),
    (rf"/api/models/{_REPO}/preupload/{_REVISION}", "POST", _Handler.preupload),
    (rf"/api/models/{_REPO}/commit/{_REVISION}", "POST", _Handler.commit),
    (rf"/{_REPO}\.git/info/lfs/objects/batch", "POST", _Handler.batch),
    (r"/lfs/(?P<oid>\w+)", "PUT", _Handler.upload),
    (rf"/{_REPO}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", "GET", _Handler.resolve),
]

if __name__ == "__main__":  # for trying the commands by hand
    with serving() as served:
        print(served.url, flush=True)
        threading.Event().wait()
