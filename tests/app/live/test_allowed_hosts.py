"""Requests by a strange name are refused, pages and sockets alike (DNS rebinding)."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from transformer_viz import settings
from transformer_viz.app.live.allowed_hosts import AllowedHosts, is_allowed, is_own_origin, names

MACHINE = socket.gethostname()
KNOWN = (
    *("localhost", "localhost:8501", "app.localhost", "127.0.0.1:8501", "[::1]:8501"),
    *("192.168.1.20:8501", "10.0.0.1", MACHINE, f"{MACHINE}:8501", f"{MACHINE}.local"),
    *("LOCALHOST", "localhost."),
)
STRANGE = (
    *(
        "",
        "evil.example:8501",
        "localhost.evil.example",
        "evil.example:80@127.0.0.1",
        "evillocalhost",
    ),
    *("user@localhost", "localhost/x", "localhost?x", "127.0.0.1.evil.example", "localhost:99999"),
    *("localhost:port", "[::1", "0x7f.1.evil.example", " ", "*"),
)


@pytest.mark.parametrize("host", KNOWN)
def test_this_machine_and_addresses_in_numbers_are_answered(host: str) -> None:
    assert is_allowed(host, names(""))


@pytest.mark.parametrize("host", STRANGE)
def test_other_names_are_not(host: str) -> None:
    assert not is_allowed(host, names(""))


def test_given_names_are_answered() -> None:
    known = names("viz.school.example, *.lab.example")
    for host in ("viz.school.example:443", "a.lab.example", "b.a.lab.example", "localhost"):
        assert is_allowed(host, known)
    for host in ("school.example", "lab.example", "evil.example"):
        assert not is_allowed(host, known)
    assert is_allowed("evil.example", names("*"))


#: The page that asks, the host it asks for and what a proxy adds; and whether it is one of ours.
PAGES: tuple[tuple[str | None, str, str, dict[str, str], bool], ...] = (
    (None, "http", "localhost:8501", {}, True),
    ("http://localhost:8501", "http", "localhost:8501", {}, True),
    ("http://LOCALHOST.:8501", "http", "localhost:8501", {}, True),
    ("http://[::1]:8501", "ws", "[::1]:8501", {}, True),
    ("https://viz.example", "ws", "viz.example", {}, True),  # the proxy speaks TLS
    ("https://viz.example", "ws", "127.0.0.1:8501", {}, True),  # it asks for the server itself
    ("https://a.lab.example", "ws", "127.0.0.1:8501", {}, True),
    ("https://me.tunnel", "ws", "localhost:8501", {"x-forwarded-host": "me.tunnel"}, True),
    ("https://allowed.example:9", "ws", "localhost:8501", {}, True),
    ("http://localhost:3000", "http", "localhost:8501", {}, False),
    ("http://localhost", "ws", "localhost:8501", {}, False),
    ("http://127.0.0.1:8501", "ws", "localhost:8501", {}, False),
    ("http://127.0.0.1:8502", "ws", "127.0.0.1:8501", {}, False),
    ("https://localhost:8501", "ws", "localhost:8502", {}, False),
    ("http://viz.example", "wss", "viz.example", {}, False),
    ("https://viz.example:8443", "ws", "viz.example", {}, False),
    ("https://evil.example", "ws", "viz.example", {}, False),
    ("https://viz.example.evil.example", "ws", "viz.example", {}, False),
    ("https://203.0.113.9", "ws", "127.0.0.1:8501", {}, False),
    ("null", "ws", "localhost:8501", {}, False),
    ("file://", "ws", "localhost:8501", {}, False),
    ("", "ws", "localhost:8501", {}, False),
    ("http://a@localhost:8501", "ws", "localhost:8501", {}, False),
    ("http://localhost:port", "ws", "localhost:8501", {}, False),
)


def test_a_page_of_another_port_is_not_answered() -> None:
    known = names("viz.example, *.lab.example")
    for origin, scheme, host, more, wanted in PAGES:
        headers, further = {"host": host} | more, ("https://allowed.example:9",)
        found = is_own_origin(origin, scheme, headers, known, further)
        assert found is wanted, (origin, host)
    # Any name for the server is not any page.
    anyone = names("*")
    assert not is_own_origin("https://evil.example", "ws", {"host": "127.0.0.1:8501"}, anyone)
    for kind, first in (("http", 403), ("websocket", None)):
        found = answered(kind, "localhost:8501", "http://localhost:3000")
        assert found.get("status") == first and found.get("code") == (None if first else 1008)
    assert answered("http", "localhost:8501", "http://localhost:8501")["body"] == b"the app"


def answered(kind: str, host: str, origin: str = "") -> dict[str, Any]:
    """The first message that a request gets."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin else [])]
    scope = {"type": kind, "path": "/", "method": "GET", "headers": headers}
    scope["scheme"] = "ws" if kind == "websocket" else "http"
    app = AllowedHosts(PlainTextResponse("the app"))
    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        pool.submit(asyncio.run, app(scope, receive, send)).result()
    found: dict[str, Any] = sent[0] | {"body": sent[-1].get("body", b"")}
    return found


def test_a_page_is_refused_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = answered("http", "evil.example:8501")
    assert found["status"] == 403 and b"'evil.example'" in found["body"]
    assert answered("http", "localhost:8501")["body"] == b"the app"
    monkeypatch.setenv(settings.NAMES.variable, "evil.example")
    assert answered("http", "evil.example:8501")["body"] == b"the app"


def test_a_socket_is_closed_before_it_opens() -> None:
    assert answered("websocket", "evil.example")["type"] == "websocket.close"
