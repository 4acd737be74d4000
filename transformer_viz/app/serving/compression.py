"""Gzip compression of files that every browser loads: scripts, style sheets, pages.

Streamlit sends its scripts uncompressed, 3 MB for a first page. A class on one Wi-Fi waits for
that. Files are compressed in a thread and cached, so that thirty browsers cost as much as one.
"""

from __future__ import annotations

import gzip
import re
from collections import OrderedDict
from threading import Lock

import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FILES = re.compile(r".*/(?:static|_stcore/bidi-components)/[^?]+")
KINDS = re.compile(r"text/|application/(?:javascript|json|wasm)|image/svg\+xml")
LEAST, MOST = 1_000, 8_000_000  # bytes of a compressible response: least, and most held in memory
KEPT = 16_000_000  # bytes of the cache
LEVEL = 6


class Compressed:
    """ASGI middleware that compresses responses if the browser accepts gzip and it saves bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request; compress the response if it is a page, a script or a style sheet."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_wanted = takes_gzip(headers.get("accept-encoding", "")) and "range" not in headers
        await self.app(scope, receive, _Answer(scope["path"], send).send if is_wanted else send)


def takes_gzip(accepted: str) -> bool:
    """Return True if an Accept-Encoding header has gzip (or *) with a quality above 0."""
    qualities = {}
    for part in accepted.lower().split(","):
        name, _, options = part.partition(";")
        quality = re.fullmatch(r"\s*q\s*=\s*([\d.]+)\s*", options)
        try:
            qualities[name.strip()] = float(quality[1]) if quality else 1.0
        except ValueError:
            return False
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


class _Answer:
    """Response on its way to the browser; held back until its text is complete."""

    def __init__(self, path: str, send: Send) -> None:
        self.path = path
        self.forward = send
        self.begun: Message | None = None
        self.key: tuple[str, str] | None = None
        self.text = bytearray()
        self.is_answered = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not self._is_compressed(message):
                await self.forward(message)
                return
            self.begun = message
            known = CACHE.get(self.key)
            if known is not None:
                await self._finish(known)
        elif self.begun is None:
            await self.forward(message)
        elif not self.is_answered:
            self.text += message.get("body", b"")
            if not message.get("more_body", False):
                text = bytes(self.text)
                await self._finish(await anyio.to_thread.run_sync(CACHE.compress, self.key, text))

    def _is_compressed(self, message: Message) -> bool:
        headers = Headers(raw=message["headers"])
        kind = headers.get("content-type", "")
        is_file = FILES.fullmatch(self.path) is not None and "etag" in headers
        length = headers.get("content-length", "")
        if message["status"] != 200 or "content-encoding" in headers or not KINDS.match(kind):
            return False
        if not length.isdecimal() or not LEAST <= int(length) <= MOST:
            return False
        if is_file:
            self.key = (self.path, headers["etag"])
        return is_file or kind.startswith("text/html")

    async def _finish(self, body: bytes) -> None:
        self.is_answered = True
        assert self.begun is not None
        headers = MutableHeaders(raw=list(self.begun["headers"]))
        headers["content-encoding"] = "gzip"
        headers["content-length"] = str(len(body))
        headers.add_vary_header("Accept-Encoding")
        if "etag" in headers and not headers["etag"].startswith("W/"):
            headers["etag"] = f"W/{headers['etag']}"  # the same text in other bytes
        del headers["accept-ranges"]
        await self.forward({**self.begun, "headers": headers.raw})
        await self.forward({"type": "http.response.body", "body": body})


class _Cache:
    """Compressed files by path and version, with least-recently-used eviction."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.files: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def get(self, key: tuple[str, str] | None) -> bytes | None:
        with self.lock:
            if key is None or key not in self.files:
                return None
            self.files.move_to_end(key)
            return self.files[key]

    def compress(self, key: tuple[str, str] | None, text: bytes) -> bytes:
        """Return the compressed text, cached if it has a key. Two threads may compress the same."""
        made = gzip.compress(text, LEVEL, mtime=0)
        if key is not None:
            with self.lock:
                self.files[key] = made
                while sum(map(len, self.files.values())) > KEPT:
                    self.files.popitem(last=False)
        return made


CACHE = _Cache()
