"""The gate in front of live frames, and the frames themselves, in a browser without Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route

from transformer_viz.components.blob import pack


@pytest.fixture
def alone(browser: Browser, modules: str) -> Iterator[Page]:
    """An empty page beside our modules, where a refused request is no error of the test."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(modules)
    yield page
    context.close()


GATE = """async wishes => {
  const {Gate} = await import('/shared/newest_wins.js');
  const begun = [], doors = [];
  let inside = 0, most = 0;
  const gate = new Gate(async wish => {
    begun.push(wish);
    most = Math.max(most, ++inside);
    try {
      await new Promise((open, shut) => doors.push({open, shut}));
    } finally { inside--; }
  });
  const turn = () => new Promise(done => setTimeout(done));
  for (const wish of wishes) {
    if (wish === 'done' || wish === 'failed') {
      const door = doors.shift();
      wish === 'done' ? door.open() : door.shut(new Error('no picture'));
      await turn();
    } else if (wish === 'clear') gate.clear();
    else gate.want(wish);
  }
  return {begun, most, waiting: doors.length, open: gate.open};
}"""


@pytest.mark.parametrize(
    ("wishes", "begun", "open_"),
    [
        ([1], [1], False),
        ([1, "done"], [1], True),
        ([1, 2, 3, 4], [1], False),  # one at a time
        ([1, 2, 3, 4, "done"], [1, 4], False),  # the newest next; 2 and 3 never
        ([1, 2, "done", 3, 4, "done", "done"], [1, 2, 4], True),
        ([1, 2, "failed", "done"], [1, 2], True),  # a failure lets the next one in
        ([1, "failed", 2, "done"], [1, 2], True),
        ([1, 2, "clear", "done"], [1], True),
        ([1, 2, "clear", 3, "done", "done"], [1, 3], True),
    ],
)
def test_one_at_a_time_and_the_newest_next(
    stage: Page, wishes: list[Any], begun: list[int], open_: bool
) -> None:
    found = stage.evaluate(GATE, wishes)
    assert found["begun"] == begun
    assert found["most"] == 1
    assert found["open"] is open_ and found["waiting"] == (0 if open_ else 1)


ASK = """async ([step, parts]) => {
  const {liveFrame} = await import('/shared/live_frame.js');
  const heard = [];
  let frames = 0;
  const count = () => { frames++; requestAnimationFrame(count); };
  window.addEventListener('tv-frame', ({detail}) => {
    heard.push([detail.part, [...detail.data]]);
    if (heard.length === parts) requestAnimationFrame(count);
  });
  const outcome = await liveFrame('/live/token', step, new AbortController().signal);
  return {outcome, heard, frames};
}"""
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
