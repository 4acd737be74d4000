"""Live frames in a browser without Python."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route

from tests.support.scripts import script
from transformer_viz.components.blob import pack


@pytest.fixture
def alone(browser: Browser, modules: str) -> Iterator[Page]:
    """An empty page beside our modules, where a refused request is no error of the test."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(modules)
    yield page
    context.close()


ASK = script("live_frame")
PARTS = {"atlas": np.arange(5, dtype=np.uint8), "head": np.arange(7, 18, dtype=np.uint8)}


def answer(page: Page, status: int, body: bytes = b"") -> list[str]:
    """Let the page's frames be answered like this; the addresses that are asked, as they come."""
    asked: list[str] = []

    def fulfil(route: Route) -> None:
        asked.append(route.request.url.split("?")[1])
        route.fulfill(status=status, body=body)

    page.route("**/live/token*", fulfil)
    return asked


def test_a_frame_reaches_every_view_and_is_over_when_it_is_painted(stage: Page) -> None:
    asked = answer(stage, 200, pack({"part": "frame", "seq": 7}, **PARTS))
    step = {"temperature": "2.5", "seq": "7"}
    found = stage.evaluate(ASK, [step, len(PARTS)])
    assert asked == ["temperature=2.5&seq=7"]
    assert found["outcome"] == "painted"
    assert found["heard"] == json.loads(json.dumps([[n, a.tolist()] for n, a in PARTS.items()]))
    assert found["frames"] >= 1  # a first frame has passed, and the second one has begun


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(404, "gone"), (400, "refused"), (409, "refused"), (500, "refused"), (204, "refused")],
)
def test_without_pictures_no_view_hears_anything(alone: Page, status: int, outcome: str) -> None:
    answer(alone, status, b"" if status == 204 else b"one sentence")
    found = alone.evaluate(ASK, [{"window": "3", "seq": "1"}, 0])
    assert found["outcome"] == outcome and found["heard"] == []


def test_a_server_that_is_away_counts_as_gone(alone: Page) -> None:
    alone.route("**/live/token*", lambda route: route.abort())
    assert alone.evaluate(ASK, [{"window": "3", "seq": "1"}, 0])["outcome"] == "gone"
