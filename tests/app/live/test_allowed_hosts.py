"""Requests by unknown names are refused (DNS rebinding), and answers carry security headers."""

from __future__ import annotations

import socket

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.asgi import answered, messages, scope
from transformer_viz import settings
from transformer_viz.app.live.allowed_hosts import AllowedHosts, is_allowed, is_own_origin, names
from transformer_viz.app.live.security_headers import SPACE, SecurityHeaders

MACHINE = socket.gethostname()
# fmt: off
KNOWN = (
    "localhost", "localhost:8501", "app.localhost", "127.0.0.1:8501", "[::1]:8501", "LOCALHOST",
    "192.168.1.20:8501", "10.0.0.1", MACHINE, f"{MACHINE}:8501", f"{MACHINE}.local", "localhost.",
)
UNKNOWN = (
    "", "evil.example:8501", "localhost.evil.example", "evil.example:80@127.0.0.1",
    "evillocalhost", "user@localhost", "localhost/x", "localhost?x", "127.0.0.1.evil.example",
    "localhost:99999", "localhost:port", "[::1", "0x7f.1.evil.example", " ", "*",
)
# fmt: on
#: The page that asks, how, and the host it asks for: pages of the app itself.
OWN = (
    (None, "http", "localhost:8501"),
    ("http://localhost:8501", "http", "localhost:8501"),
    ("http://LOCALHOST.:8501", "http", "localhost:8501"),
    ("http://[::1]:8501", "ws", "[::1]:8501"),
    ("https://viz.example", "ws", "viz.example"),  # the proxy speaks TLS
    ("https://viz.example", "ws", "127.0.0.1:8501"),  # it asks for the server itself
    ("https://a.lab.example", "ws", "127.0.0.1:8501"),
    ("https://allowed.example:9", "ws", "localhost:8501"),
)
OTHER = (
    ("http://localhost:3000", "http", "localhost:8501"),
    ("http://localhost", "ws", "localhost:8501"),
    ("http://127.0.0.1:8501", "ws", "localhost:8501"),
    ("http://127.0.0.1:8502", "ws", "127.0.0.1:8501"),
    ("https://localhost:8501", "ws", "localhost:8502"),
    ("http://viz.example", "wss", "viz.example"),
    ("https://viz.example:8443", "ws", "viz.example"),
    ("https://evil.example", "ws", "viz.example"),
    ("https://viz.example.evil.example", "ws", "viz.example"),
    ("https://203.0.113.9", "ws", "127.0.0.1:8501"),
    *((one, "ws", "localhost:8501") for one in ("null", "file://", "", "http://a@localhost:8501")),
    ("http://localhost:port", "ws", "localhost:8501"),
)


def test_this_machine_and_given_names_are_answered() -> None:
    assert not [host for host in KNOWN if not is_allowed(host, names(""))]
    assert not [host for host in UNKNOWN if is_allowed(host, names(""))]
    known = names("viz.school.example, *.lab.example")
    for host in ("viz.school.example:443", "a.lab.example", "b.a.lab.example", "localhost"):
        assert is_allowed(host, known), host
    for host in ("school.example", "lab.example", "evil.example"):
        assert not is_allowed(host, known), host
    assert is_allowed("evil.example", names("*"))


def test_a_page_of_another_origin_is_not_answered() -> None:
    known, further = names("viz.example, *.lab.example"), ("https://allowed.example:9",)
    for case in OWN + OTHER:
        origin, scheme, host = case
        assert is_own_origin(origin, scheme, {"host": host}, known, further) is (case in OWN), case
    headers = {"host": "localhost:8501", "x-forwarded-host": "me.tunnel"}
    assert is_own_origin("https://me.tunnel", "ws", headers, known, further)
    # Any name for the server is not any page.
    server = {"host": "127.0.0.1:8501"}
    assert not is_own_origin("https://evil.example", "ws", server, names("*"))


def test_unknown_names_and_origins_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    app = AllowedHosts(PlainTextResponse("the app"))

    def asked(kind: str, host: str, **more: str) -> dict[str, object]:
        """Return the first message of the answer, with the body."""
        first, *rest = messages(app, scope(kind=kind, headers={"host": host} | more))
        return first | {"body": b"".join(one.get("body", b"") for one in rest)}

    own, other = {"origin": "http://localhost:8501"}, {"origin": "http://localhost:3000"}
    assert asked("http", "localhost:8501", **own)["body"] == b"the app"
    assert asked("http", "localhost:8501", **other)["status"] == 403
    assert asked("websocket", "localhost:8501", **other)["code"] == 1008
    refused = asked("http", "evil.example:8501")
    assert refused["status"] == 403 and b"'evil.example'" in refused["body"]
    assert asked("http", "localhost:8501")["body"] == b"the app"
    assert asked("websocket", "evil.example")["type"] == "websocket.close"  # before it opens
    monkeypatch.setenv(settings.NAMES.variable, "evil.example")
    assert answered(app, scope(headers={"host": "evil.example:8501"}))[2] == b"the app"


# ---- headers -----------------------------------------------------------------------------------


def answer(path: str, **headers: str) -> dict[str, str]:
    """Return the headers of an answer, by their names in lower case."""
    routes = [
        Route("/page", lambda _: HTMLResponse("<html>")),
        Route("/text", lambda _: PlainTextResponse("", headers={"Referrer-Policy": "no-referrer"})),
    ]
    client = TestClient(SecurityHeaders(Starlette(routes=routes)))
    return {name.lower(): text for name, text in client.get(path, headers=headers).headers.items()}


def rules(**headers: str) -> dict[str, list[str]]:
    """Return the policy of a page, by directive."""
    said = answer("/page", **headers)["content-security-policy"].split(";")
    return {words[0]: words[1:] for words in map(str.split, said)}


def test_pages_load_nothing_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (settings.FRAMES.variable, SPACE):
        monkeypatch.delenv(name, raising=False)
    text = answer("/text")  # its own headers stay
    assert text["x-content-type-options"] == "nosniff" and text["referrer-policy"] == "no-referrer"
    assert "content-security-policy" not in text
    assert answer("/none")["x-content-type-options"] == "nosniff"
    assert answer("/page")["referrer-policy"] == "same-origin"
    found = rules(Host="viz.example:8501")
    sources = {one for words in found.values() for one in words} - {*found["frame-ancestors"]}
    own = {"ws://viz.example:8501", "wss://viz.example:8501"}
    assert own <= {*found["connect-src"]}
    assert sources - own <= {"'self'", "'none'", "'unsafe-inline'", "data:", "blob:"}
    assert found["default-src"] == ["'self'"] and found["object-src"] == ["'none'"]
    assert {"'self'", "http://localhost:*"} <= {*found["frame-ancestors"]}
    assert not {"https:", "*"} & {*found["frame-ancestors"]}
    odd = rules(Host="a;script-src *")
    assert odd.keys() == found.keys() and odd["connect-src"] == ["'self'"]


def test_settings_name_who_may_frame_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = ["https://moodle.example", "https://*.lab.example:8443"]
    monkeypatch.setenv(settings.FRAMES.variable, ", ".join(frames))
    assert {*frames} <= {*rules()["frame-ancestors"]}
    monkeypatch.setenv(SPACE, "me/viz")
    assert "https://huggingface.co" in rules()["frame-ancestors"]
    monkeypatch.setenv(settings.FRAMES.variable, "*")
    assert "frame-ancestors" not in rules()
