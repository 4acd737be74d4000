"""Limits of requests per session, per address and in total, with messages for refusals.

A class may share one address, so an address has the limits of ``ADDRESS_VISITORS`` users. The
address is uvicorn's: the peer, or, from this machine and proxies in ``FORWARDED_ALLOW_IPS`` only,
the value of X-Forwarded-For.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from ipaddress import ip_address
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import reach, settings
from ...i18n import languages, say, speaking
from ..counts.server_counts import REFUSALS
from ..ui.streamlit_private import uploaded_bytes
from .rates import Rates, whole_seconds
from .registry import EXCHANGE, FAR, PATH, TILE, WORDS
from .upload_limits import Counted, LimitError

#: Path of a live frame or a part of a long map; the group is the token.
FRAME = re.compile(rf"(?:/.*)?{PATH}/([^/]+)(?:{TILE}|{WORDS}|{FAR})?")
UPLOAD = re.compile(r".*/_stcore/upload_file/([^/]+)/[^/]+")  # group: the session
BURST = 5  # seconds' worth of frames and tiles that may come at once
OPEN_AGAIN = 20  # seconds until a retry if too many pages are open
AT_ONCE = 32  # concurrent uploads of one session
TABS = 2  # pages that a user may have open at once
MEGA = 1_000_000
REFILL = 600  # seconds until a session may upload its full volume again
#: Requests for a page, its scripts and pictures: per user at once, and per second.
LOADS, LOADS_A_SECOND = 150, 2
ARRIVE = 60  # seconds in which all users of an address may open a page anew, after the first
#: Bytes of refused uploads that are read to their end, per session at once, and per second: a
#: browser receives a refusal only then.
UNREAD, UNREAD_A_SECOND = 100 * MEGA, MEGA
ENDLESS = 20  # seconds of messages at the full rate, after which a page is closed
TRY_AGAIN = 1013  # code of a closed websocket
SIZE = 65_536  # bytes of a message that cost as much as the message itself


class VisitLimits:
    """ASGI middleware that limits requests, uploads, open pages and messages of pages.

    Requests over a limit are refused. Messages of a page wait, and uvicorn stops reading from its
    socket meanwhile. Pages of one address take turns, so that a flood delays itself.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.open: Counter[str] = Counter()  # websockets by address
        self._lock = threading.Lock()
        self._made = lru_cache(maxsize=1)(_all_rates)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.coming: Counter[str] = Counter()  # current uploads by session
        self._bodies: set[Counted] = set()

    @property
    def rates(self) -> dict[str, tuple[Rates, Rates]]:
        """Rates of a session and of an address by kind of limit.

        They are created anew when the first remote request has switched the shares on.
        """
        return self._made(reach.PASSED_ON in os.environ)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it with a one-sentence message."""
        if scope["type"] == "websocket":
            await self._open(scope, receive, send)
            return
        refused = self._refused(scope) if scope["type"] == "http" else None
        if refused is not None:
            await self._refuse(scope, receive, send, *refused)
        elif _is_upload(scope) and settings.UPLOADS_A_MINUTE.number:
            await self._upload(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a page, whose messages are read no faster than the limit."""
        who, page = address(scope), object()
        wait = self.rates["open"][1].wait(who) if settings.CONNECTIONS.number else 0
        if wait:
            await self._refuse(scope, receive, send, "page", wait)
            return
        turn = self._turns.setdefault(who, asyncio.Lock())
        own, shared = self.rates["message"]
        waited = 0  # consecutive messages while little of the page's share was left

        async def paced() -> Message:
            nonlocal waited
            message = await receive()
            if message["type"] == "websocket.receive" and settings.MESSAGES.number:
                said = message.get("bytes") or message.get("text") or ""
                cost = 1 + len(said) / SIZE
                waited = waited + 1 if own.lacks(page, own.burst / 4) else 0
                if waited > ENDLESS * settings.MESSAGES.number:
                    return {"type": "websocket.disconnect", "code": TRY_AGAIN}
                while wait := own.wait(page, cost):
                    await asyncio.sleep(wait)
                async with turn:  # first come, first served: one message per page
                    while wait := shared.wait(who, cost):
                        await asyncio.sleep(wait)
            return message

        gone = False

        async def told(message: Message) -> None:
            nonlocal gone
            try:
                await send(message)
            except Exception:
                gone = True
                raise

        with self._counted(who) as allowed:
            if not allowed:
                await self._refuse(scope, receive, send, "page", OPEN_AGAIN)
                return
            try:
                await self.app(scope, paced, told)
            except Exception:
                if not gone:  # Streamlit treats a page that left amid its messages as a fault
                    raise
            if waited > ENDLESS * settings.MESSAGES.number:
                REFUSALS.labels("limit").inc()
                with suppress(Exception):  # it may be closed already
                    await send({"type": "websocket.close", "code": TRY_AGAIN})

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward an upload, whose bytes count as they arrive."""
        who = _visit(scope)
        whose = who, address(scope)

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start" and counted.breaks_off:
                message = {**message, "headers": [*message.get("headers", []), *self._end(scope)]}
            await send(message)

        counted = Counted(self.rates["volume"], whose, receive, told, self._left)
        self._bodies.add(counted)
        self.coming[who] += 1
        try:
            await self.app(scope, counted.receive, counted.send)
        except LimitError as error:
            if counted.answered:
                raise
            await self._refuse(scope, receive, send, error.what, error.wait)
        finally:
            self._bodies.discard(counted)
            self.coming[who] -= 1
            if not self.coming[who]:
                del self.coming[who]

    def _left(self) -> float:
        """Return the bytes that all uploads together may still send; current ones are counted."""
        coming = sum(body.size for body in self._bodies)
        return settings.UPLOADS_MB.number * MEGA - uploaded_bytes() - coming

    def _refused(self, scope: Scope) -> tuple[str, float] | None:
        """Return the limit that a request exceeds, and the seconds to wait; None if it may pass."""
        frame = FRAME.fullmatch(scope["path"])
        if frame is not None and settings.REQUESTS.number and is_known(frame[1]):
            return self._asked("frame", frame[1], scope)
        if _is_upload(scope) and settings.UPLOADS_A_MINUTE.number:
            who, size = _visit(scope), _size(Headers(scope=scope).get("content-length", "0"))
            if self.coming[who] >= AT_ONCE:
                return "upload", OPEN_AGAIN
            if over := self._asked("upload", who, scope):
                return over
            own, shared = self.rates["volume"]
            wait = own.lacks(who, size) or shared.lacks(address(scope), size)
            return ("volume", wait) if wait else None
        if is_page(scope) and not self._has_room(address(scope)):
            return "page", OPEN_AGAIN
        if settings.REQUESTS.number:
            wait = self.rates["request"][1].wait(address(scope))
            return ("request", wait) if wait else None
        return None

    def _end(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return headers of a response sent before the end of an upload.

        The connection closes, or the rest is read and counts towards the share of session and
        address.
        """
        text = Headers(scope=scope).get("content-length")
        own, shared = self.rates["unread"]
        size = _size(text or "")
        if text is None or own.wait(_visit(scope), size) or shared.wait(address(scope), size):
            return [(b"connection", b"close")]  # browsers get it at the end
        return []

    def _asked(
        self, what: str, who: str, scope: Scope, cost: float = 1.0
    ) -> tuple[str, float] | None:
        own, shared = self.rates[what]
        wait = own.wait(who, cost) or shared.wait(address(scope), cost)
        return (what, wait) if wait else None

    def _has_room(self, who: str) -> bool:
        """Return True if an address may open one more page."""
        most, each = settings.CONNECTIONS.number, TABS * settings.ADDRESS_VISITORS.number
        return not most or (self.open.total() < most and self.open[who] < each)

    @contextmanager
    def _counted(self, who: str) -> Iterator[bool]:
        """Count an open page within the block; yield False if there are too many."""
        with self._lock:
            allowed = self._has_room(who)
            self.open[who] += allowed
        try:
            yield allowed
        finally:
            with self._lock:
                self.open[who] -= allowed
                if self.open[who] <= 0:
                    del self.open[who]

    async def _refuse(
        self, scope: Scope, receive: Receive, send: Send, what: str, wait: float
    ) -> None:
        REFUSALS.labels("limit").inc()
        seconds = whole_seconds(wait)
        headers = {"Retry-After": str(seconds), "Cache-Control": "no-store"}
        if _is_upload(scope):
            headers |= {name.decode(): value.decode() for name, value in self._end(scope)}
        with speaking(spoken_by(Headers(scope=scope))):
            words = sentence(what, seconds)
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
            "extensions", {}
        ):
            await send({"type": "websocket.close", "code": TRY_AGAIN, "reason": words})
            return
        status = {"page": 503, "full": 503, "slow": 408}.get(what, 429)
        await PlainTextResponse(words, status_code=status, headers=headers)(scope, receive, send)


def _all_rates(_passed_on: bool) -> dict[str, tuple[Rates, Rates]]:
    many = settings.ADDRESS_VISITORS.number
    frames, files = settings.REQUESTS.number, settings.UPLOADS_A_MINUTE.number
    volume, messages = settings.VISIT_MB.number * MEGA, settings.MESSAGES.number
    return {
        "frame": _both(frames, BURST * frames, many),
        "upload": _both(files / 60, files, many),
        "volume": _both(volume / REFILL, volume, many),
        # Pages send few messages: an address has a quarter of the limit of all its pages.
        "message": (
            _rates(messages, BURST * messages),
            _rates(many * messages / 4, many * BURST),
        ),
        "unread": _both(UNREAD_A_SECOND, UNREAD, many / 10),
        "open": (_rates(many / ARRIVE, many),) * 2,
        "request": (_rates(LOADS_A_SECOND * many, LOADS * many),) * 2,
    }


def is_known(token: str) -> bool:
    """Return True if a token belongs to a session; invented ones have no share."""
    try:
        EXCHANGE.line(token)
    except KeyError:
        return False
    return True


def _is_upload(scope: Scope) -> bool:
    if scope["type"] != "http":  # the server's lifespan events come this way too
        return False
    return scope["method"] in ("PUT", "POST") and UPLOAD.fullmatch(scope["path"]) is not None


def _visit(scope: Scope) -> str:
    """Return the key of an upload's share: session and address.

    Another address that knows the session's name takes nothing of its share.
    """
    found = UPLOAD.fullmatch(scope["path"])
    return f"{found[1] if found else ''} {address(scope)}"


def _rates(a_second: float, burst: float) -> Rates:
    return Rates(a_second or 1, burst or 1)


def _both(a_second: float, burst: float, many: float) -> tuple[Rates, Rates]:
    """Return the rates of one session and of one address."""
    return _rates(a_second, burst), _rates(many * a_second, many * burst)


def sentence(what: str, seconds: int) -> str:
    """Return the message for a request over the limit ``what``."""
    said = {
        "frame": say("This visit asks for more pictures a second than this server gives."),
        "upload": say("This visit brings more files a minute than this server takes."),
        "volume": say("This visit brings more megabytes in ten minutes than this server takes."),
        "full": say("All visits may keep {most} MB of uploads here", most=settings.UPLOADS_MB.text)
        + ".",
        "slow": say("This upload came too slowly, or stood still."),
        "request": say("Too many requests come from this address."),
        "page": say("As many pages as this server serves at once are open."),
    }[what]
    return say("{what} Try again in {seconds} s.", what=said, seconds=seconds)


def spoken_by(headers: Mapping[str, str]) -> str:
    """Return the first language of a browser that the app has."""
    wanted = headers.get("accept-language", "")[:200].lower().split(",")
    known = languages()
    return next((one[:2].strip() for one in wanted if one[:2].strip() in known), "en")


def address(scope: Scope) -> str:
    """Return the address of a request; for IPv6 the /64 network of one household."""
    client = scope.get("client")
    host = str(client[0]) if client else ""
    try:
        known = ip_address(host)
    except ValueError:
        return host
    if known.version == 6 and known.ipv4_mapped is None:
        return known.exploded[:19]
    return str(getattr(known, "ipv4_mapped", None) or known)


def is_page(scope: Scope) -> bool:
    """Return True if a browser opens a page, not one of its resources."""
    return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")


def _size(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0.0
