"""Readiness and metrics of all workers together, and which of them Caddy may ask."""

from __future__ import annotations

import http.client
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import Popen

from ... import settings
from ..counts.families import CONTENT_TYPE, Asked, exposition, joined
from ..counts.server_counts import process
from ..live.addresses import METRICS, READY, may_read_metrics
from ..live.allowed_hosts import is_allowed, names, refusal
from .caddy import ALL, PAGES, TARGET
from .workers import Worker, fetch

PLAIN = "text/plain; charset=utf-8"


class Status(ThreadingHTTPServer):
    """The server that Caddy asks, on a loopback port of its own."""

    daemon_threads = True

    def __init__(self, workers: Sequence[Worker]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.workers = workers
        self.front: Popen[bytes] | None = None  # Caddy, once it runs

    def answer(self, path: str, headers: Mapping[str, str]) -> tuple[int, str, str]:
        """Return the status, the text and its type.

        Args:
            path: `READY`, `METRICS`, `PAGES` or `ALL`.
            headers: of the request, names in lower case; those that are empty left out.
        """
        if path in (PAGES, ALL):
            port = headers.get(TARGET.lower(), "").rpartition(":")[2]
            takes = self.take_pages() if path == PAGES else [w for w in self.workers if w.is_up]
            return 200 if port in [str(one.port) for one in takes] else 503, "", PLAIN
        host = headers.get("host", "")
        if not is_allowed(host, names(settings.NAMES.text)):
            return 403, refusal(host), PLAIN
        if path == READY:
            count = sum(worker.is_ready and worker.answers for worker in self.workers)
            text = f"{count} of {len(self.workers)} workers are ready.\n"
            return 200 if count else 503, text, PLAIN
        # Caddy names its peer last, and before it whom a trusted proxy names.
        before, _, peer = headers.get("x-forwarded-for", "").rpartition(",")
        asked = {name: text for name, text in headers.items() if name != "x-forwarded-for"}
        asked |= {"x-forwarded-for": before} if before else {}
        if path == METRICS and may_read_metrics(settings.METRICS.text, peer.strip(), asked):
            return 200, self.metrics(), CONTENT_TYPE
        return 404, "Metrics are not told here.\n", PLAIN

    def take_pages(self) -> list[Worker]:
        """Return the workers for new pages: those that answer, of these those that are ready."""
        able = [worker for worker in self.workers if worker.is_up]
        able = [worker for worker in able if not worker.is_silent] or able
        return [worker for worker in able if worker.is_ready] or able

    def metrics(self) -> str:
        """Return the numbers of all processes, each with the name of its process."""
        able = [worker for worker in self.workers if worker.answers]
        with ThreadPoolExecutor(len(self.workers)) as pool:
            found = list(pool.map(_numbers, able))
        texts = {str(one.number): text for one, text in zip(able, found, strict=True) if text}
        texts["balancer"] = exposition(process())
        texts |= {"caddy": exposition(process(self.front.pid))} if self.front is not None else {}
        return joined(texts) + exposition(self._families())

    def _families(self) -> list[Asked]:
        def of_each(what: Mapping[str, float]) -> dict[tuple[str, ...], float]:
            return {(name,): value for name, value in what.items()}

        every = {str(worker.number): worker for worker in self.workers}
        up = {name: float(one.answers) for name, one in every.items()}
        ready = {name: float(one.is_ready and one.answers) for name, one in every.items()}
        again = {name: float(one.restarts) for name, one in every.items()}
        name = "transformer_viz_worker"
        return [
            Asked(f"{name}_up", "1: it answers.", ("worker",), ask=lambda: of_each(up)),
            Asked(f"{name}_ready", "1: model loaded.", ("worker",), ask=lambda: of_each(ready)),
            Asked(
                f"{name}_restarts", "Starts after an end.", ("worker",), ask=lambda: of_each(again)
            ),
        ]


def _numbers(worker: Worker) -> str:
    try:
        status, body = fetch(worker.port, METRICS)
    except (OSError, http.client.HTTPException):
        return ""
    return body.decode() if status == 200 else ""


class Answer(BaseHTTPRequestHandler):
    """One answer of `Status`."""

    server: Status
    protocol_version = "HTTP/1.1"  # Caddy asks again and again

    def do_GET(self) -> None:
        """Answer a request."""
        headers = {name.lower(): text for name, text in self.headers.items() if text}
        status, text, kind = self.server.answer(self.path.partition("?")[0], headers)
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Write no log."""
