"""Headers of each answer: what a page may load, and who may show it in a frame."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from transformer_viz import settings
from transformer_viz.app.live.security_headers import SPACE, SecurityHeaders

OWN = {"Referrer-Policy": "no-referrer"}


def answer(path: str, **headers: str) -> dict[str, str]:
    """The headers of an answer, by their names in lower case."""
    routes = [
        Route("/page", lambda _: HTMLResponse("<html>")),
        Route("/text", lambda _: PlainTextResponse("text", headers=OWN)),
    ]
    client = TestClient(SecurityHeaders(Starlette(routes=routes)))
    return {name.lower(): text for name, text in client.get(path, headers=headers).headers.items()}


def rules(path: str, **headers: str) -> dict[str, list[str]]:
    """The policy of a page, by directive."""
    said = answer(path, **headers)["content-security-policy"].split(";")
    return {words[0]: words[1:] for words in map(str.split, said)}


def test_each_answer_has_them_and_its_own_stay() -> None:
    text = answer("/text")
    assert text["x-content-type-options"] == "nosniff" and text["referrer-policy"] == "no-referrer"
    assert "content-security-policy" not in text
    assert answer("/none")["x-content-type-options"] == "nosniff"
    assert answer("/page")["referrer-policy"] == "same-origin"


def test_pages_load_nothing_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (settings.FRAMES.variable, SPACE):
        monkeypatch.delenv(name, raising=False)
    found = rules("/page", Host="viz.example:8501")
    sources = {one for words in found.values() for one in words} - {*found["frame-ancestors"]}
    own = {"ws://viz.example:8501", "wss://viz.example:8501"}
    assert own <= {*found["connect-src"]}
    assert sources - own <= {"'self'", "'none'", "'unsafe-inline'", "data:", "blob:"}
    assert found["default-src"] == ["'self'"] and found["object-src"] == ["'none'"]
    assert {"'self'", "http://localhost:*"} <= {*found["frame-ancestors"]}
    assert "https:" not in found["frame-ancestors"] and "*" not in found["frame-ancestors"]
    odd = rules("/page", Host="a;script-src *")
    assert odd.keys() == found.keys() and odd["connect-src"] == ["'self'"]


def test_whoever_runs_it_says_who_may_frame_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        settings.FRAMES.variable, "https://moodle.example, https://*.lab.example:8443"
    )
    frames = rules("/page")["frame-ancestors"]
    assert {"https://moodle.example", "https://*.lab.example:8443"} <= {*frames}
    monkeypatch.setenv(SPACE, "me/viz")
    assert "https://huggingface.co" in rules("/page")["frame-ancestors"]
    monkeypatch.setenv(settings.FRAMES.variable, "*")
    assert "frame-ancestors" not in rules("/page")
