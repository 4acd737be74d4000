"""Live sliders in Chromium: pictures during a drag, the rest after it, behind proxies too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.support import page_actions
from tests.support.browser import free_port, running_app, visit, wait_for
from tests.support.page_actions import address, changed, click, differing, edits, go, part, press
from tests.support.paths import ROOT
from tests.support.scripts import script
from tests.support.stripping_proxy import stripping_proxy

LINK = {"block": "cross", "layer": 1, "head": 3}
STOPS, OWN = 22, 11  # of the temperature slider: its last stop, and where it stands at first
UNSEEN = 0.002  # of the screen: the line that says that the page waits, over the pictures
PICTURES = ("charts.atlas", "charts.head-view", "tiles.L1 H3", "said.numbers", "chances")
#: Scrolled to and measured in one go: a run of the page may come between two questions.
HERE = "slider => (slider.scrollIntoView({block: 'nearest'}), slider.getBoundingClientRect())"


def grip(page: Page, stop: float) -> tuple[float, float]:
    """Where a stop of the temperature slider is."""
    box = page.get_by_role("slider", name="temperature").evaluate(HERE)
    return box["x"] + 9 + (box["width"] - 18) * stop / STOPS, box["y"] + box["height"] / 2


def pull(page: Page, start: int, end: int) -> None:
    """Take the thumb at a stop and pull it to another one; the hand stays down."""
    page.mouse.move(*grip(page, start))
    page.mouse.down()
    page.mouse.move(*grip(page, end), steps=8)


def answered(page: Page) -> page_actions.Look:
    """Until Python has answered the slider, and all stands."""
    page.wait_for_function(script("sliders_rest"))
    return page_actions.still(page)


def test_a_drag_is_seen_before_it_ends_and_is_one_step_back(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    clean = go(page, address(url, **LINK))
    page.evaluate(script("watch_shifts"))
    heard: list[Response] = []
    page.on("response", lambda one: heard.append(one) if "/live/" in one.url else None)
    pull(page, OWN, 16)
    changed(page, clean, *PICTURES)
    page.mouse.move(*grip(page, 18), steps=4)
    expect(page.locator(".st-key-temperature .tv-slider-value")).to_have_text("3")
    page.mouse.up()
    warm = answered(page)
    assert [(edit["kind"], edit["value"]) for edit in edits(page)] == [("temperature", 3.0)]
    assert any("temperature 3" in words for words in warm["edits"])
    assert warm["said"]["after"] and warm["said"]["after"] != "…"
    expect(page.locator(".st-key-temperature .tv-slider-speed")).to_have_text(
        re.compile(r"^\d+ ms$")
    )
    shifts = page.evaluate("window.shifts")
    assert sum(shifts) <= UNSEEN, f"nothing moves while the slider does: {shifts}"

    assert heard and {one.status for one in heard} <= {200, 204}
    headers = next(one for one in heard if one.status == 200).all_headers()
    assert headers["content-encoding"] == "identity" and headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]
    line = "document.querySelector('.st-key-window [data-painted]').describe().data.line"
    mine = page.evaluate(line)
    assert re.fullmatch(r"live/[\w-]{43}", mine)

    fresh = go(page, page.url)
    assert differing(warm, fresh) == set(), "the link shows what the drag showed"
    assert [name for name in PICTURES if part(fresh, name) == part(clean, name)] == []
    assert page.evaluate(line) != mine, "each visit has a line of its own"

    pull(page, 18, 15)
    page.wait_for_timeout(700)  # the hand rests: the link follows already
    page.mouse.move(*grip(page, 20), steps=4)
    page.mouse.up()
    answered(page)
    click(page, "↶ undo")
    expect(page).to_have_url(re.compile("3.0"))
    back = page_actions.still(page)
    assert differing(warm, back) <= {"query.site"}, "one drag is one step back"
    press(page, "window", "ArrowLeft", 12)
    press(page, "temperature", "ArrowRight")  # at once, and it counts on from there
    answered(page)
    both = {(edit["kind"], edit.get("radius", edit.get("value"))) for edit in edits(page)}
    assert both == {("window", 3), ("temperature", 3.5)}


@contextmanager
def below() -> Iterator[str]:
    """The address of the app below a path of its server."""
    port = str(free_port())
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", port]
    surroundings = os.environ | {"STREAMLIT_SERVER_BASE_URL_PATH": "lessons"}
    server = subprocess.Popen(
        words, cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(found := f"http://127.0.0.1:{port}/lessons", server)
        yield found
    finally:
        server.terminate()
        server.wait(timeout=20)


@pytest.mark.parametrize("where", ["stripped", pytest.param("below", marks=pytest.mark.soak)])
def test_below_a_path_no_request_fails_and_frames_come(
    browser: Browser, url: str, where: str
) -> None:
    """Streamlit alone looks for itself below a page's own address first, where nothing answers."""
    asked: list[str] = []
    failed: list[str] = []
    served = stripping_proxy(url, "/lessons") if where == "stripped" else below()
    with served as found, visit(browser) as page:
        page.on("response", lambda one: (asked if one.status < 400 else failed).append(one.url))
        page.on("requestfailed", lambda one: failed.append(one.url))
        for place in ("", "explore"):
            clean = go(page, address(found, place, **LINK))
        assert not failed and asked.count(f"{found}/_stcore/health") == 2
        with page.expect_response(lambda one: "/lessons/live/" in one.url) as answer:
            pull(page, OWN, 16)
            changed(page, clean, *PICTURES)
        assert answer.value.status == 200
        page.mouse.up()
        answered(page)
        assert [edit["kind"] for edit in edits(page)] == ["temperature"]


@pytest.mark.soak  # held by test_slider.py (without a line) and tests/app/live/test_frames.py
def test_without_the_route_each_step_runs_the_page(browser: Browser) -> None:
    with running_app("app.py") as found, visit(browser) as page:
        clean = go(page, address(found, **LINK))
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url) if "/live/" in one.url else None)
        pull(page, OWN, 16)
        changed(page, clean, *PICTURES)
        page.mouse.move(*grip(page, 18), steps=4)
        page.mouse.up()
        warm = answered(page)
        assert [edit["value"] for edit in edits(page)] == [3.0] and asked == []
        link = page.url
        click(page, "↶ undo")  # one step, though the page ran more than once
        expect(page).not_to_have_url(re.compile("edits="))
        assert differing(clean, page_actions.still(page)) == set()
        assert go(page, link) == warm
