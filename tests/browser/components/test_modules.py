"""The JavaScript modules in Chromium: each loads alone, joined ones run, views redraw in time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.js.test_scripts import ENTRIES, MODULES, STARTS
from tests.support import component_stage as stages
from tests.support.scripts import script
from transformer_viz.components import Chip, ChipRow, tokens_data
from transformer_viz.components.blob import pack
from transformer_viz.components.bundle import EXPORT, HERE, bundle

ASK = script("live_frame")
PARTS = {"atlas": np.arange(5, dtype=np.uint8), "head": np.arange(7, 18, dtype=np.uint8)}
LINE = "**/live/token*"


def test_each_module_loads_alone_and_joined(stage: Page) -> None:
    exported = stage.evaluate(script("module_exports"), MODULES)
    assert [name for name, found in exported.items() if not found] == [*STARTS]
    exports = {
        "module_" + re.sub(r"\W", "_", name[: -len(".js")]): EXPORT.findall(
            (HERE / name).read_text("utf-8")
        )
        for name in MODULES
    }
    for entry in (*ENTRIES, *STARTS):
        joined = bundle(entry)
        assert not re.search(r"^\s*(import|export)\b(?!\(| default )", joined, re.MULTILINE), entry
        body = joined.partition("\nexport default ")[0]
        held = re.findall(r"^const (module_\w+) = ", body, re.MULTILINE)
        kinds = stage.evaluate(script("bundle_exports"), [body, held])
        assert {name: [n for n, _ in kinds[name]] for name in held} == {
            name: exports[name] for name in held
        }, entry
        assert all(kind != "undefined" for found in kinds.values() for _, kind in found), entry


def test_views_redraw_with_their_style_and_the_newest_data(stage: Page) -> None:
    assert stage.evaluate(script("late_style")) == [1, 2], "drawn again when the style arrives"
    # Numbers begin with the clock of a server, which may go back when it is started again: what is
    # behind by a few steps is late, by an hour is new.
    began, hour = 1_800_000_000_000, 3_600_000
    came = [began, began + 40, began + 12, began - hour, began - hour + 1]
    shown = [began, began + 40, began + 40, began - hour, began - hour + 1]
    assert stage.evaluate(script("newest_of_visit"), came) == shown
    long, short = (
        tokens_data([ChipRow("source", [Chip(word, row=0) for word in words])], dark=False)
        for words in (("a", "b", "c"), ("a",))
    )
    stages.show(stage, "tokens/tokens.js", "Chips", long)
    stage.keyboard.press("Tab")
    stage.keyboard.press("End")
    expect(stage.get_by_role("button", name="c")).to_be_focused()
    stages.update(stage, short)  # a button that is taken away loses the keyboard
    expect(stage.get_by_role("button")).to_have_text(["a"])


@pytest.fixture
def alone(browser: Browser, modules: str) -> Iterator[Page]:
    """An empty page beside our modules, where a refused request is no error of the test."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(modules)
    yield page
    context.close()


def test_a_live_frame_reaches_every_view_or_none(alone: Page) -> None:
    asked: list[str] = []
    answer: dict[str, object] = {"status": 200, "body": pack({"part": "frame", "seq": 7}, **PARTS)}

    def fulfil(route: Route) -> None:
        asked.append(route.request.url.split("?")[1])
        route.fulfill(**answer)  # type: ignore[arg-type]

    alone.route(LINE, fulfil)
    found = alone.evaluate(ASK, [{"temperature": "2.5", "seq": "7"}, len(PARTS)])
    assert asked == ["temperature=2.5&seq=7"]
    assert found["outcome"] == "painted"
    assert found["heard"] == json.loads(json.dumps([[n, a.tolist()] for n, a in PARTS.items()]))
    assert found["frames"] >= 1  # a first frame has passed, and the second one has begun
    for status, outcome in ((404, "gone"), *((n, "refused") for n in (400, 409, 500, 204))):
        answer = {"status": status, "body": b"" if status == 204 else b"one sentence"}
        found = alone.evaluate(ASK, [{"window": "3", "seq": "1"}, 0])
        assert found["outcome"] == outcome and found["heard"] == [], status
    alone.unroute(LINE)
    alone.route(LINE, lambda route: route.abort())
    assert alone.evaluate(ASK, [{"window": "3", "seq": "1"}, 0])["outcome"] == "gone"
