"""What one visitor, one address and all together may ask of the server; a sentence says the rest.

A class stands behind one address, so an address may ask as much as ``ADDRESS_VISITORS`` visitors.
The address is what uvicorn makes of the request: that of the peer, or, from this machine and from
proxies in ``FORWARDED_ALLOW_IPS`` alone, what X-Forwarded-For says.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import reach, settings
from ...i18n import languages, say, speaking
from ..counts.server_counts import REFUSALS
from .rates import Rates, whole_seconds
from .registry import FAR, PATH, TILE, WORDS

#: Of a live frame or a part of a long map: the visit.
FRAME = re.compile(rf"(?:/.*)?{PATH}/([^/]+)(?:{TILE}|{WORDS}|{FAR})?")
UPLOAD = re.compile(r".*/_stcore/upload_file/([^/]+)/[^/]+")  # of an upload: the session
BURST = 5  # seconds' worth of frames and tiles that may come at once
OPEN_AGAIN = 20  # seconds after which a page may be tried again where too many are open
TABS = 2  # pages that a visitor may have open at once
MEGA = 1_000_000
REFILL = 600  # seconds after which a visit may upload again as much as it may keep


class VisitLimits:
    """ASGI middleware that holds live requests, uploads and open pages to their limits."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.open: Counter[str] = Counter()  # websockets by address
        self._lock = threading.Lock()
        self._made = lru_cache(maxsize=1)(_rates)

    @property
    def rates(self) -> dict[str, tuple[Rates, Rates]]:
        """Return the rates of a visit and of an address by what is limited.

        Made anew when a first request from elsewhere has switched the shares on.
        """
        return self._made(reach.PASSED_ON in os.environ)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one sentence."""
        if scope["type"] == "websocket":
            with self._counted(address(scope)) as allowed:
                if allowed:
                    await self.app(scope, receive, send)
                else:
                    await self._refuse(scope, receive, send, "page", OPEN_AGAIN)
            return
        refused = self._refused(scope) if scope["type"] == "http" else None
        if refused is None:
            await self.app(scope, receive, send)
        else:
            await self._refuse(scope, receive, send, *refused)

    def _refused(self, scope: Scope) -> tuple[str, float] | None:
        """What of its limits a request is over, and the seconds to wait; None: it may pass."""
        frame, upload = FRAME.fullmatch(scope["path"]), UPLOAD.fullmatch(scope["path"])
        if frame is not None and settings.REQUESTS.number:
            return self._asked("frame", frame[1], scope)
        if upload is not None and scope["method"] in ("PUT", "POST"):
            size = Headers(scope=scope).get("content-length", "0")
            over = None
            if settings.UPLOADS_A_MINUTE.number:
                over = self._asked("upload", upload[1], scope)
                over = over or self._asked("volume", upload[1], scope, _size(size))
            return over
        if is_page(scope) and not self._has_room(address(scope)):
            return "page", OPEN_AGAIN
        return None

    def _asked(
        self, what: str, who: str, scope: Scope, cost: float = 1.0
    ) -> tuple[str, float] | None:
        own, shared = self.rates[what]
        wait = own.wait(who, cost) or shared.wait(address(scope), cost)
        return (what, wait) if wait else None

    def _has_room(self, who: str) -> bool:
        """Whether an address may open one more page."""
        most, each = settings.CONNECTIONS.number, TABS * settings.ADDRESS_VISITORS.number
        return not most or (self.open.total() < most and self.open[who] < each)

    @contextmanager
    def _counted(self, who: str) -> Iterator[bool]:
        """A page that is open meanwhile; False where there are too many."""
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
        REFUSALS.add("limit")
        seconds = whole_seconds(wait)
        headers = {"Retry-After": str(seconds), "Cache-Control": "no-store"}
        with speaking(spoken_by(Headers(scope=scope))):
            words = sentence(what, seconds)
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get(
            "extensions", {}
        ):
            await send({"type": "websocket.close", "code": 1013, "reason": words})
            return
        status = 503 if what == "page" else 429
        await PlainTextResponse(words, status_code=status, headers=headers)(scope, receive, send)


def _rates(_passed_on: bool) -> dict[str, tuple[Rates, Rates]]:
    frames, files = settings.REQUESTS.number, settings.UPLOADS_A_MINUTE.number
    volume, many = settings.VISIT_MB.number * MEGA, settings.ADDRESS_VISITORS.number
    return {
        "frame": _both(frames, BURST * frames, many),
        "upload": _both(files / 60, files, many),
        "volume": _both(volume / REFILL, volume, many),
    }


def _both(a_second: float, burst: float, many: int) -> tuple[Rates, Rates]:
    """The rates of one visit and of one address."""
    return Rates(a_second or 1, burst or 1), Rates(many * a_second or 1, many * burst or 1)


def sentence(what: str, seconds: int) -> str:
    """What is said to who asks for too much: ``frame``, ``upload``, ``volume`` or ``page``."""
    said = {
        "frame": say("This visit asks for more pictures a second than this server gives."),
        "upload": say("This visit brings more files a minute than this server takes."),
        "volume": say("This visit brings more megabytes in ten minutes than this server takes."),
        "page": say("As many pages as this server serves at once are open."),
    }[what]
    return say("{what} Try again in {seconds} s.", what=said, seconds=seconds)


def spoken_by(headers: Mapping[str, str]) -> str:
    """The first language of a browser that the app speaks."""
    wanted = headers.get("accept-language", "")[:200].lower().split(",")
    known = languages()
    return next((one[:2].strip() for one in wanted if one[:2].strip() in known), "en")


def address(scope: Scope) -> str:
    """Whose request it is; of a network of version 6 the /64 that one household has."""
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
    """Whether a browser opens a page, and not what is fetched beside it."""
    return scope["method"] == "GET" and "text/html" in Headers(scope=scope).get("accept", "")


def _size(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0.0
