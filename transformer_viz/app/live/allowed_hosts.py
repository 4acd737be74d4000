"""Check of the Host header, so that web pages of other sites cannot use this server.

A page open in the user's browser may point its own name at this machine (DNS rebinding). Its
requests then carry that name in the Host header. A numeric address cannot be redirected, so numeric
hosts are allowed, and of names only those of this server.

Pages of another port of the same machine are refused too: if the browser sends an Origin header, it
must be one of this server.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import reach, settings
from ..counts.server_counts import REFUSALS

LOCAL = ("localhost", ".localhost")  # a leading dot matches all names with this ending
USUAL = {"http": 80, "https": 443}  # default ports
AGAINST_POLICY = 1008  # websocket code of a policy violation


class AllowedHosts:
    """ASGI middleware that refuses requests for other hosts, HTTP and websockets alike."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it with a one-sentence message."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers, known = Headers(scope=scope), names(settings.NAMES.text)
        host, origin = headers.get("host", ""), headers.get("origin")
        words = ""
        if not is_allowed(host, known):
            words = refusal(host)
        elif not is_own_origin(origin, scope["scheme"], headers, known, _other_origins()):
            words = f"A page of {str(origin)[:80]!r} may not ask this server."
        if not words:
            if not reach.reason():
                client = scope.get("client")
                reach.note_request(str(client[0]) if client else "", headers)
            await self.app(scope, receive, send)
            return
        REFUSALS.labels("host").inc()
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": AGAINST_POLICY})
        else:
            await PlainTextResponse(words, status_code=403)(scope, receive, send)


def is_own_origin(
    origin: str | None,
    scheme: str,
    headers: Mapping[str, str],
    known: Iterable[str],
    further: Iterable[str] = (),
) -> bool:
    """Return True if the requesting page belongs to this server.

    Only browsers send this header, and pages cannot forge the headers compared here.

    Args:
        origin: The Origin header; None if no page makes the request, or it is the page itself.
        scheme: Scheme of the request, as the server below reads it.
        headers: Headers of the request, names in lower case.
        known: Names of this server; their pages use the default port or the request's.
        further: Origins allowed by the operator, ``*`` for any.
    """
    if origin is None or "*" in further or origin in further:
        return True
    page = _place(origin)
    if page is None:
        return False
    asked = [headers.get("host", ""), headers.get("x-forwarded-host", "").split(",")[0].strip()]
    kind = page[0]
    if kind == "http" and scheme in ("https", "wss"):
        return False  # the default ports of the two differ
    places = [place for host in asked if (place := _place(f"{kind}://{host}"))]
    if page in places:
        return True
    ports = {USUAL[kind], *(port for _, _, port in places)}
    given = [one for one in known if one != "*" and one not in _machine_names()]
    return page[2] in ports and is_allowed(page[1], given) and not _is_number(page[1])


def _place(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address, or None."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in USUAL or not host or parts.username is not None:
        return None
    return parts.scheme, host, USUAL[parts.scheme] if port is None else port


def _other_origins() -> tuple[str, ...]:
    """Return the origins allowed by Streamlit's own options."""
    if reach.option is None:
        return ()
    if reach.option("server.enableCORS") is False:
        return ("*",)
    given = reach.option("server.corsAllowedOrigins")
    return tuple(map(str, given)) if isinstance(given, list | tuple) else ()


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_allowed(host: str, known: Iterable[str]) -> bool:
    """Return True if a Host header names this server: a numeric address or a known name."""
    try:
        parts = urlsplit(f"//{host}")
        name = (parts.hostname or "").rstrip(".")
        _ = parts.port
    except ValueError:
        return False
    if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
        return False
    return _is_number(name) or any(
        one == "*" or name == one or (one.startswith(".") and name.endswith(one)) for one in known
    )


@lru_cache(maxsize=4)
def names(given: str) -> tuple[str, ...]:
    """Return the names of this server: the machine's, and the given ones."""
    more = [one.strip().lower().rstrip(".").removeprefix("*") or "*" for one in given.split(",")]
    further = [one for one, said in zip(more, given.split(","), strict=True) if said.strip()]
    return (*_machine_names(), *further)


@cache
def _machine_names() -> tuple[str, ...]:
    own = socket.gethostname().lower()
    return (*LOCAL, own, f"{own}.local")


def refusal(host: str) -> str:
    """Return the message for a request with another host name."""
    name = host.rsplit(":", 1)[0][:80]
    return (
        f"This server is not known by the name {name!r}, so the request was refused. If it is "
        "yours, start it with: transformer-viz app --name NAME"
    )
