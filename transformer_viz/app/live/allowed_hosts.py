"""Only requests that name this server are answered: a web page elsewhere cannot speak through it.

A page that a visitor has open may point its own name at this machine (DNS rebinding); its requests
then carry that name in the Host header. An address in numbers cannot be pointed elsewhere, so those
are let in, and of names only those that this server is known by.

Nor does a page of another port of the same machine speak through it: where a browser says which
page asks (the Origin header), that page is one of this server.
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

LOCAL = ("localhost", ".localhost")  # one that begins with a dot: and all names that end so
USUAL = {"http": 80, "https": 443}  # ports
AGAINST_POLICY = 1008  # the websocket's code of a request against the rules


class AllowedHosts:
    """ASGI middleware that refuses what names another host, pages and sockets alike."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one sentence."""
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
    """Return whether the page that asks is one of this server.

    No page but a browser's says where it stands, and none can forge the headers compared here.

    Args:
        origin: the header of this name; None: no page asks, or it is opened itself.
        scheme: of the request, as the server below reads it.
        headers: of the request, names in lower case.
        known: names given to this server; its pages stand at their usual port or at the request's.
        further: origins that whoever runs it lets ask, ``*`` any.
    """
    if origin is None or "*" in further or origin in further:
        return True
    page = _place(origin)
    if page is None:
        return False
    asked = [headers.get("host", ""), headers.get("x-forwarded-host", "").split(",")[0].strip()]
    kind = page[0]
    if kind == "http" and scheme in ("https", "wss"):
        return False  # the usual ports of the two are not the same
    places = [place for host in asked if (place := _place(f"{kind}://{host}"))]
    if page in places:
        return True
    ports = {USUAL[kind], *(port for _, _, port in places)}
    given = [one for one in known if one != "*" and one not in _machine_names()]
    return page[2] in ports and is_allowed(page[1], given) and not _is_number(page[1])


def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address; None where it names none."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, (parts.hostname or "").rstrip(".")
    except ValueError:
        return None
    if parts.scheme not in USUAL or not host or parts.username is not None:
        return None
    return parts.scheme, host, USUAL[parts.scheme] if port is None else port


def _other_origins() -> tuple[str, ...]:
    """Origins that Streamlit's own options let ask."""
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
    """Whether a Host header names this server: by an address in numbers or by a known name."""
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
    """The names that this server is known by: its machine's own, and those that were given."""
    more = [one.strip().lower().rstrip(".").removeprefix("*") or "*" for one in given.split(",")]
    further = [one for one, said in zip(more, given.split(","), strict=True) if said.strip()]
    return (*_machine_names(), *further)


@cache
def _machine_names() -> tuple[str, ...]:
    own = socket.gethostname().lower()
    return (*LOCAL, own, f"{own}.local")


def refusal(host: str) -> str:
    """The sentence for a request by another name."""
    name = host.rsplit(":", 1)[0][:80]
    return (
        f"This server is not known by the name {name!r}, so the request was refused. If it is "
        "yours, start it with: transformer-viz app --name NAME"
    )
