"""Only requests that name this server are answered: a web page elsewhere cannot speak through it.

A page that a visitor has open may point its own name at this machine (DNS rebinding); its requests
then carry that name in the Host header. An address in numbers cannot be pointed elsewhere, so those
are let in, and of names only those that this server is known by.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ... import settings
from ..counts.server_counts import REFUSALS

LOCAL = ("localhost", ".localhost")  # one that begins with a dot: and all names that end so
AGAINST_POLICY = 1008  # the websocket's code of a request against the rules


class AllowedHosts:
    """ASGI middleware that refuses what names another host, pages and sockets alike."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with one sentence."""
        asked = scope["type"] in ("http", "websocket")
        host = Headers(scope=scope).get("host", "") if asked else ""
        if not asked or is_allowed(host, names(settings.NAMES.text)):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            REFUSALS.add("host")
            await send({"type": "websocket.close", "code": AGAINST_POLICY})
        else:
            REFUSALS.add("host")
            await PlainTextResponse(refusal(host), status_code=403)(scope, receive, send)


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
    try:
        ip_address(name)
    except ValueError:
        return any(
            one == "*" or name == one or (one.startswith(".") and name.endswith(one))
            for one in known
        )
    return True


@lru_cache(maxsize=4)
def names(given: str) -> tuple[str, ...]:
    """The names that this server is known by: its machine's own, and those that were given."""
    own = socket.gethostname().lower()
    more = [one.strip().lower().rstrip(".").removeprefix("*") or "*" for one in given.split(",")]
    further = [one for one, said in zip(more, given.split(","), strict=True) if said.strip()]
    return (*LOCAL, own, f"{own}.local", *further)


def refusal(host: str) -> str:
    """The sentence for a request by another name."""
    name = host.rsplit(":", 1)[0][:80]
    return (
        f"This server is not known by the name {name!r}, so the request was refused. If it is "
        "yours, start it with: transformer-viz app --name NAME"
    )
