"""A small Hub on 127.0.0.1 that the real client speaks with: information, files, ranges, faults.

It answers as the Hub does where the client looks: ``/api/models/ID/revision/REV``, ``/ID/resolve/
REV/FILE`` with its headers, and weights by a redirect to another address, in parts where asked.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

HOSTS = ("127.0.0.1", "localhost")
POLL = 0.02  # seconds that the end of a server may take
LARGE = (".safetensors", ".bin", ".gguf", ".onnx", ".h5", ".msgpack", ".pt")
INFO = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/revision/([^/]+))?")
RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


@dataclass
class Repo:
    """A repository: the files of each commit, and where branches and tags stand."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    token: str = ""  # without it there is nothing of that name

    def commit(self, files: dict[str, bytes], *names: str) -> str:
        """A new commit, at which branches and tags stand from now on."""
        seed = repr(sorted((name, hashlib.sha1(b).hexdigest()) for name, b in files.items()))
        commit = hashlib.sha1(seed.encode()).hexdigest()
        self.commits[commit] = files
        self.refs |= dict.fromkeys(names or ("main",), commit)
        return commit


class Hub:
    """The server's repositories, what it was asked, and how it is to fail."""

    def __init__(self) -> None:
        self.models: dict[str, Repo] = {}
        self.datasets: set[str] = set()
        self.asked: list[tuple[str, str, str]] = []  # method, path, range
        self.break_after: list[int] = []  # for each next transfer of weights: bytes, then silence
        self.pace: float = 0.0  # seconds before each 64 kB of weights
        self.spoil: Callable[[bytes], bytes] | None = None  # what is sent in the place of weights
        self.ranges = True
        self.status = 0  # of every answer
        self.garbage = False
        self.delay = 0.0
        self.url = ""
        self.other = ""  # the same server by another name: weights come from elsewhere

    def add(self, name: str, source: Path | dict[str, bytes], **words: object) -> Repo:
        """A repository of one commit with the files of a folder."""
        if isinstance(source, Path):
            paths = [path for path in sorted(source.rglob("*")) if path.is_file()]
            source = {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}
        repo = self.models[name] = Repo(**words)  # type: ignore[arg-type]
        repo.commit(source)
        return repo

    def weights_asked(self) -> list[str]:
        """The ranges of each transfer of weights, in order; empty for a whole file."""
        return [part for method, path, part in self.asked if method == "GET" and "/cdn/" in path]

    def calls(self, part: str = "") -> int:
        """How many requests had this in their path."""
        return sum(part in path for _, path, _ in self.asked)


@contextmanager
def serving(hub: Hub) -> Iterator[str]:
    """The address of a server of this Hub."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            _answer(hub, self)

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True).start()
    hub.url, hub.other = (f"http://{host}:{server.server_port}" for host in HOSTS)
    try:
        yield hub.url
    finally:
        server.shutdown()
        server.server_close()


def _answer(hub: Hub, to: BaseHTTPRequestHandler) -> None:
    address = urlsplit(to.path)
    path = unquote(address.path)
    if path.startswith("/cdn/") and "Authorization" in to.headers:
        return _send(to, 400, b"a token went to a stranger")
    hub.asked.append((to.command, path, to.headers.get("Range", "")))
    time.sleep(hub.delay)
    if hub.status:
        return _send(to, hub.status, b"out of order")
    if hub.garbage:
        return _send(to, 200, b"<html>Please sign in to the hotel</html>")
    if match := INFO.fullmatch(address.path):
        kind, name, revision = (part and unquote(part) for part in match.groups())
        if kind == "datasets":
            body = json.dumps({"id": name, "sha": "0" * 40, "siblings": []}).encode()
            return (
                _send(to, 200, body) if name in hub.datasets else _refuse(to, 404, "RepoNotFound")
            )
        return _info(hub, to, name, revision or "main", "blobs" in parse_qs(address.query))
    if path.startswith("/cdn/"):
        return _weights(hub, to, path.removeprefix("/cdn/"))
    if match := RESOLVE.fullmatch(address.path):
        return _resolve(hub, to, *map(unquote, match.groups()))
    return _refuse(to, 404, "")


def _found(
    hub: Hub, to: BaseHTTPRequestHandler, name: str, revision: str
) -> tuple[Repo, str] | None:
    repo = hub.models.get(name)
    token = to.headers.get("Authorization", "").removeprefix("Bearer ")
    if repo is None or (repo.token and token != repo.token):
        _refuse(to, 401, "" if not token else "RepoNotFound")
        return None
    commit = revision if revision in repo.commits else repo.refs.get(revision)
    if commit is None:
        _refuse(to, 404, "RevisionNotFound")
        return None
    return repo, commit


def _info(hub: Hub, to: BaseHTTPRequestHandler, name: str, revision: str, sizes: bool) -> None:
    found = _found(hub, to, name, revision)
    if found is None:
        return
    repo, commit = found
    siblings: list[dict[str, object]] = []
    for file, content in repo.commits[commit].items():
        one: dict[str, object] = {"rfilename": file}
        if sizes:
            one |= {"size": len(content), "blobId": _git(content)}
            if file.endswith(LARGE):
                sha = hashlib.sha256(content).hexdigest()
                one["lfs"] = {"sha256": sha, "size": len(content), "pointerSize": 134}
        siblings.append(one)
    words = {"_id": "1", "id": name, "sha": commit, "private": bool(repo.token), "tags": []}
    gated = "manual" if repo.gated else False
    body = words | {"siblings": siblings, "gated": gated, "downloads": 1, "likes": 1}
    _send(to, 200, json.dumps(body).encode())


def _resolve(hub: Hub, to: BaseHTTPRequestHandler, name: str, revision: str, file: str) -> None:
    found = _found(hub, to, name, revision)
    if found is None:
        return
    repo, commit = found
    if repo.gated:
        return _refuse(to, 403, "GatedRepo")
    content = repo.commits[commit].get(file)
    if content is None:
        return _refuse(to, 404, "EntryNotFound")
    if not file.endswith(LARGE):
        headers = {"ETag": f'"{_git(content)}"', "X-Repo-Commit": commit}
        return _send(to, 200, content, headers)
    sha = hashlib.sha256(content).hexdigest()
    headers = {"X-Linked-Etag": f'"{sha}"', "X-Linked-Size": str(len(content))}
    headers |= {"X-Repo-Commit": commit, "Location": f"{hub.other}/cdn/{sha}"}
    _send(to, 302, b"", headers)


def _weights(hub: Hub, to: BaseHTTPRequestHandler, sha: str) -> None:
    every = (b for repo in hub.models.values() for f in repo.commits.values() for b in f.values())
    content = next(b for b in every if hashlib.sha256(b).hexdigest() == sha)
    if hub.spoil is not None:
        content = hub.spoil(content)
    match = re.fullmatch(r"bytes=(\d+)-", to.headers.get("Range", ""))
    start = int(match.group(1)) if match and hub.ranges else 0
    if start >= len(content) > 0 and match:
        return _send(to, 416, b"")
    rest = content[start:]
    to.send_response(206 if start else 200)
    to.send_header("Content-Length", str(len(rest)))
    to.send_header("ETag", f'"{sha}"')
    if start:
        to.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    to.end_headers()
    if to.command == "HEAD":
        return
    most = hub.break_after.pop(0) if hub.break_after else len(rest)
    for at in range(0, min(most, len(rest)), 2**16):
        time.sleep(hub.pace)
        try:
            to.wfile.write(rest[at : min(at + 2**16, most)])
            to.wfile.flush()
        except OSError:  # the client has gone
            break
    if most < len(rest):
        to.close_connection = True


def _refuse(to: BaseHTTPRequestHandler, status: int, code: str) -> None:
    _send(to, status, b'{"error": "no"}', {"X-Error-Code": code} if code else {})


def _send(
    to: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    to.send_response(status)
    to.send_header("Content-Length", str(len(body)))
    for name, value in (headers or {}).items():
        to.send_header(name, value)
    to.end_headers()
    if to.command != "HEAD":
        to.wfile.write(body)


def _git(content: bytes) -> str:
    """What git calls these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
