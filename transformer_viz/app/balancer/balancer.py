"""Sticky-session reverse proxy: all requests of a session go to one worker.

New sessions go to the least loaded worker. A cookie holds the number of the worker and nothing
else. Without cookies (a page framed by another site) the client's address decides. When a worker
has ended, its users continue on another one: their links contain the whole state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256

import h11

from ... import settings
from ..counts.families import CONTENT_TYPE, Asked, exposition, joined
from ..counts.server_counts import process
from ..live.addresses import METRICS, READY, may_read_metrics
from ..live.allowed_hosts import is_allowed, names, refusal
from .lines import OWN, PATIENCE, Header, Line, connect, exchange, fetch
from .workers import Worker

COOKIE = "transformer_viz_worker"
IDLE = 75.0  # seconds for a complete request head, before the connection is closed
COMING = 20.0  # seconds that a request waits for a worker if none is up
FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto")
#: Seconds for the first byte of a response: pages and websocket handshakes need no model.
PAGE, SOCKET = 5.0, 15.0
LATE = "The app does not answer now; try again in a few seconds.\n"
STARTING = "The app is starting; try again in a few seconds.\n"
SCRAPE = 5.0  # seconds for the metrics of one worker


@dataclass
class Balancer:
    """Reverse proxy of the workers at one port.

    Args:
        workers: Workers in the order of their numbers.
        trusted: Addresses of proxies whose forwarding headers are trusted, besides loopback.
    """

    workers: Sequence[Worker]
    trusted: frozenset[str] = frozenset()
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    open_lines: set[asyncio.Task[None]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a browser, from its first request to its last."""
        task = asyncio.current_task()
        assert task is not None
        self.open_lines.add(task)
        browser = Line(reader, writer, to_worker=False)
        name = writer.get_extra_info("peername")
        peer = str(name[0]) if name else ""
        try:
            while await self._next(browser, peer):
                pass
        except h11.RemoteProtocolError as error:
            with suppress(OSError, h11.LocalProtocolError):
                await answer(browser, error.error_status_hint, "This is no request.\n")
        except (OSError, TimeoutError, h11.LocalProtocolError, asyncio.CancelledError):
            pass  # either side is gone, or the server ends
        finally:
            browser.close()
            self.open_lines.discard(task)

    async def _next(self, browser: Line, peer: str) -> bool:
        """Answer the next request; return True if another one may follow."""
        async with asyncio.timeout(IDLE):
            request = await browser.event()
        if not isinstance(request, h11.Request):
            return False
        path = request.target.split(b"?")[0].decode("ascii", "replace")
        if request.method == b"GET" and path in (METRICS, READY):
            return await self._about(browser, request, path, peer)
        asked = self.passed_on(request, peer)
        for _ in self.workers:
            chosen = await self._chosen(request, peer)
            if chosen is None:
                break
            worker, cookie = chosen
            try:
                line = await connect(worker.port)
            except OSError:
                worker.is_up = worker.is_ready = False  # it has just ended
                continue
            worker.visitors += upgrades(request)
            is_new = is_page(request) or upgrades(request)
            patience = SOCKET if upgrades(request) else PAGE if is_new else PATIENCE
            try:
                return await exchange(browser, line, asked, cookie, patience)
            except TimeoutError:
                if not is_new:
                    await answer(browser, 503, LATE, retry=5)
                    return False
                worker.is_silent = True  # until it answers again
            except h11.RemoteProtocolError:  # the worker closed the connection
                return False
            finally:
                worker.visitors -= upgrades(request)
                line.close()
        await answer(browser, 503, STARTING, retry=2)
        return False

    def passed_on(self, request: h11.Request, peer: str) -> h11.Request:
        """Return the request for a worker: one per connection, with the client's address."""
        believed = self._believes(peer)
        left = OWN if not upgrades(request) else OWN - {b"connection"}
        kept = [
            (name, value)
            for name, value in request.headers
            if name not in left and (believed or name not in FORWARDED)
        ]
        before = [value for name, value in kept if name == b"x-forwarded-for"]
        kept = [one for one in kept if one[0] != b"x-forwarded-for"]
        kept.append((b"x-forwarded-for", b", ".join([*before, peer.encode()])))
        if not upgrades(request):
            kept.append((b"connection", b"close"))
        return h11.Request(method=request.method, target=request.target, headers=kept)

    async def _chosen(self, request: h11.Request, peer: str) -> tuple[Worker, list[Header]] | None:
        """Return the worker of a request, and a cookie if it is new; wait if none is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COMING):
                while not any(worker.is_up for worker in self.workers):
                    self.changed.clear()
                    await self.changed.wait()
        return self.choose(request, peer)

    def choose(self, request: h11.Request, peer: str) -> tuple[Worker, list[Header]] | None:
        """Return the worker of a request, and the cookie to set if it is new; None if none is up.

        A page, and the websocket of a session whose worker has ended, go to the least loaded
        worker. Other requests follow the cookie, or else the client's address. An unresponsive
        worker receives no page and no websocket if there is another one.
        """
        able = [worker for worker in self.workers if worker.is_up]
        if not able:
            return None
        said = cookie_of(request)
        own = next((worker for worker in able if str(worker.number) == said), None)
        able = [worker for worker in able if not worker.is_silent] or able
        is_new = is_page(request) or upgrades(request)
        if own is not None and (own in able or not is_new):
            return own, []
        if is_page(request) or (said and upgrades(request)):
            worker = min(able, key=lambda one: (not one.is_ready, one.visitors, one.given))
            worker.given += 1
            kept = f"{COOKIE}={worker.number}; Path=/; HttpOnly; SameSite=Lax"
            return worker, [(b"set-cookie", kept.encode())]
        address = header(request, b"x-forwarded-for") if self._believes(peer) else b""
        return max(able, key=lambda one: rank(address or peer.encode(), one.number)), []

    def _believes(self, peer: str) -> bool:
        return peer in self.trusted or "*" in self.trusted or settings.is_loopback(peer)

    async def _about(self, browser: Line, request: h11.Request, path: str, peer: str) -> bool:
        """Answer a monitoring request, for all workers together."""
        host = header(request, b"host").decode("latin-1")
        told = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        if not is_allowed(host, names(settings.NAMES.text)):
            await answer(browser, 403, refusal(host))
        elif path == READY:
            count = sum(worker.is_ready and worker.answers for worker in self.workers)
            words = f"{count} of {len(self.workers)} workers are ready.\n"
            await answer(browser, 200 if count else 503, words)
        elif may_read_metrics(settings.METRICS.text, peer, told):
            await answer(browser, 200, await self.metrics(), kind=CONTENT_TYPE)
        else:
            await answer(browser, 404, "Metrics are not told here.\n")
        return False

    async def metrics(self) -> str:
        """Return the metrics of all workers, labelled with their number, and of this process."""
        able = [worker for worker in self.workers if worker.answers]
        found = await asyncio.gather(*(self._numbers(worker) for worker in able))
        texts = {str(one.number): text for one, text in zip(able, found, strict=True) if text}
        texts["balancer"] = exposition(process())
        return joined(texts) + exposition(self._families())

    async def _numbers(self, worker: Worker) -> str:
        with suppress(OSError, TimeoutError, h11.RemoteProtocolError):
            status, body = await asyncio.wait_for(fetch(worker.port, METRICS), SCRAPE)
            if status == 200:
                return body.decode()
        return ""

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


def upgrades(request: h11.Request) -> bool:
    """Return True if a request asks for a websocket."""
    return header(request, b"upgrade").lower() == b"websocket"


def is_page(request: h11.Request) -> bool:
    """Return True if a browser opens a page; requests for its resources do not accept HTML."""
    return b"text/html" in header(request, b"accept")


def header(request: h11.Request, name: bytes) -> bytes:
    """Return the first value of a header; empty if it is missing."""
    return next((bytes(value) for known, value in request.headers if known == name), b"")


def cookie_of(request: h11.Request) -> str:
    """Return the worker number in the cookie; empty without one."""
    said = b";".join(value for name, value in request.headers if name == b"cookie")
    pairs = (one.strip().partition("=") for one in said.decode("latin-1").split(";"))
    return next((value for name, _, value in pairs if name == COOKIE), "")


def rank(address: bytes, number: int) -> bytes:
    """Return the preference of an address for a worker; the end of one moves no other client."""
    return sha256(b"%d %s" % (number, address)).digest()


async def answer(
    browser: Line, status: int, words: str, kind: str = "text/plain; charset=utf-8", retry: int = 0
) -> None:
    """Send a response of the balancer, after which the connection ends."""
    body = words.encode()
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "close"),
        *([("Retry-After", str(retry))] if retry else []),
    ]
    await browser.send(h11.Response(status_code=status, headers=headers))
    await browser.send(h11.Data(data=body))
    await browser.send(h11.EndOfMessage())
