"""The scripts of the components in one piece: the same code, and no other address touched."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from transformer_viz.app.live.asset_bundles import Joined
from transformer_viz.components.bundle import bundle, style, text

PLACE = "/_stcore/bidi-components/transformer_viz."
ENTRIES = ("pictures", "panels")


def fetched(path: str, method: str = "GET", kind: str = "http") -> tuple[str, str]:
    """The content type and text that an address gives; behind it stands Streamlit."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "method": method, "headers": []}
    streamlit = PlainTextResponse("Streamlit's")
    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        pool.submit(asyncio.run, Joined(streamlit)(scope, receive, send)).result()
    headers = dict(sent[0]["headers"])
    return headers[b"content-type"].decode(), b"".join(
        part.get("body", b"") for part in sent
    ).decode()


@pytest.mark.parametrize("base", ["", "/lessons"])
@pytest.mark.parametrize("name", ENTRIES)
def test_a_component_brings_all_that_it_imports(name: str, base: str) -> None:
    kind, script = fetched(f"{base}{PLACE}{name}/{name}.js")
    assert kind.startswith("text/javascript") and script == bundle(f"{name}.js")
    assert not re.search(r"^import\b", script, re.MULTILINE)
    assert len(re.findall(r"^export default", script, re.MULTILINE)) == 1
    assert (
        "export function showIn" in text("shared/streamlit_view.js") and "function showIn" in script
    )


def test_a_style_sheet_brings_those_that_it_imports() -> None:
    kind, sheet = fetched(f"{PLACE}pictures/pictures.css")
    assert kind.startswith("text/css") and sheet == style("pictures.css")
    assert "@import" not in sheet and ".tv-slider-track" in sheet


@pytest.mark.parametrize(
    "path",
    [
        "/", "/live/token", PLACE + "pictures/shared/dom.js", PLACE + "pictures/panels.js",
        PLACE + "nothing/nothing.js", PLACE + "nothing/nothing.css",
        PLACE + "pictures/../pictures.js", PLACE + "pictures/..%2fpictures.css",
        "/_stcore/bidi-components/another.pictures/pictures.js",
        PLACE + "pictures/pictures.js.map",
    ],
)  # fmt: skip
def test_other_addresses_are_streamlits(path: str) -> None:
    assert fetched(path)[1] == "Streamlit's"


def test_only_reading_is_answered_here() -> None:
    assert fetched(PLACE + "pictures/pictures.js", "OPTIONS")[1] == "Streamlit's"
