"""Live sliders in the real app: pictures before the hand lets go, and everything else after it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.support import page_actions
from tests.support.browser import free_port, running_app, visit, wait_for
from tests.support.page_actions import go
from tests.support.paths import ROOT
from tests.support.scripts import script
from tests.support.stripping_proxy import stripping_proxy

LINK = {"block": "cross", "layer": 1, "head": 3}
STOPS, OWN = 22, 11  # of the temperature slider: its last stop, and where it stands at first
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


def test_a_drag_is_seen_before_it_ends_and_kept_when_it_does(page: Page, url: str) -> None:
    clean = go(page, page_actions.address(url, **LINK))
    page.on("response", lambda one: heard.append(one) if "/live/" in one.url else None)
    heard: list[Response] = []
    pull(page, OWN, 16)
    page_actions.changed(page, clean, *PICTURES)
    page.mouse.move(*grip(page, 18), steps=4)
    expect(page.locator(".st-key-temperature .tv-slider-value")).to_have_text("3")
    page.mouse.up()
    warm = answered(page)
    assert [(edit["kind"], edit["value"]) for edit in page_actions.edits(page)] == [
        ("temperature", 3.0)
    ]
    assert any("temperature 3" in words for words in warm["edits"])
    assert warm["said"]["after"] and warm["said"]["after"] != "…"
    speed = page.locator(".st-key-temperature .tv-slider-speed")
    expect(speed).to_have_text(re.compile(r"^\d+ ms$"))

    assert heard and {one.status for one in heard} <= {200, 204}
    frame = next(one for one in heard if one.status == 200)
    headers = frame.all_headers()
    assert headers["content-encoding"] == "identity" and headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]

    fresh = go(page, page.url)
    assert (
        page_actions.differing(warm, fresh) == set()
    )  # undo is enabled in one; its words are alike
    for name in PICTURES:
        assert page_actions.part(fresh, name) != page_actions.part(clean, name)


def test_undo_takes_back_the_whole_drag(page: Page, url: str) -> None:
    clean = go(page, page_actions.address(url, **LINK))
    pull(page, OWN, 15)
    page.wait_for_timeout(700)  # the hand rests: the link follows already
    expect(page).to_have_url(re.compile("edits="))
    page.mouse.move(*grip(page, 20), steps=4)
    page.mouse.up()
    answered(page)
    page_actions.click(page, "↶ undo")
    expect(page).not_to_have_url(re.compile("edits="))
    back = page_actions.still(page)
    assert page_actions.differing(clean, back) == set()
    slider = page.get_by_role("slider", name="temperature")
    expect(slider).to_have_attribute("aria-valuetext", "1")
    slider.press("ArrowRight")  # the next step counts on from there
    page_actions.changed(page, back, *PICTURES)
    answered(page)
    assert [edit["value"] for edit in page_actions.edits(page)] == [1.1]


def test_both_sliders_together(page: Page, url: str) -> None:
    clean = go(page, page_actions.address(url, **LINK))
    page_actions.press(page, "window", "ArrowLeft", 12)
    page_actions.press(
        page, "temperature", "ArrowRight", 3
    )  # at once: the first hand has hardly rested
    both = answered(page)
    assert {(e["kind"], e.get("radius", e.get("value"))) for e in page_actions.edits(page)} == {
        ("window", 3),
        ("temperature", 1.4),
    }
    assert go(page, page.url) == both
    assert {
        name for name in PICTURES if page_actions.part(both, name) == page_actions.part(clean, name)
    } == set()


def test_every_visit_has_an_unguessable_line_of_its_own(browser: Browser, url: str) -> None:
    with visit(browser) as one, visit(browser) as other:
        lines = []
        for page in (one, other):
            page.goto(page_actions.address(url, **LINK))
            expect(page.locator(".st-key-window [data-painted]")).to_be_visible()
            lines.append(page.evaluate(
                "document.querySelector('.st-key-window [data-painted]').describe().data.line"
            ))  # fmt: skip
        assert lines[0] != lines[1] and all(re.fullmatch(r"live/[\w-]{43}", s) for s in lines)


def test_without_the_route_each_step_runs_the_page(browser: Browser) -> None:
    with running_app("app.py") as address, visit(browser) as page:
        clean = go(page, page_actions.address(address, **LINK))
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url) if "/live/" in one.url else None)
        pull(page, OWN, 16)
        page_actions.changed(page, clean, *PICTURES)
        page.mouse.move(*grip(page, 18), steps=4)
        page.mouse.up()
        warm = answered(page)
        assert [edit["value"] for edit in page_actions.edits(page)] == [3.0] and asked == []
        link = page.url
        page_actions.click(page, "↶ undo")  # one step, though the page ran more than once
        expect(page).not_to_have_url(re.compile("edits="))
        back = page_actions.still(page)
        assert page_actions.differing(clean, back) == set()
        assert go(page, link) == warm


@pytest.fixture(scope="module")
def below() -> Iterator[str]:
    """The address of the app below a path of its server."""
    port = str(free_port())
    words = [sys.executable, "-m", "transformer_viz", "app", "--port", port]
    surroundings = os.environ | {"STREAMLIT_SERVER_BASE_URL_PATH": "lessons"}
    server = subprocess.Popen(
        words, cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(address := f"http://127.0.0.1:{port}/lessons", server)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)


@pytest.fixture(scope="module")
def stripped(url: str) -> Iterator[str]:
    """The address of the app below a path that a proxy in front takes away."""
    with stripping_proxy(url, "/lessons") as address:
        yield address


@pytest.mark.parametrize("where", ["below", "stripped"])
def test_below_a_path(browser: Browser, where: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(where)
    with visit(browser) as page:
        clean = go(page, page_actions.address(address, **LINK))
        with page.expect_response(lambda one: "/lessons/live/" in one.url) as answer:
            pull(page, OWN, 16)
            page_actions.changed(page, clean, *PICTURES)
        assert answer.value.status == 200
        page.mouse.up()
        answered(page)
        assert [edit["kind"] for edit in page_actions.edits(page)] == ["temperature"]


@pytest.mark.parametrize("where", ["url", "below", "stripped"])
def test_no_request_of_a_visit_fails(
    browser: Browser, where: str, request: pytest.FixtureRequest
) -> None:
    """Streamlit alone looks for itself below a page's own address first, where nothing answers."""
    address = request.getfixturevalue(where)
    asked: list[str] = []
    failed: list[str] = []
    with visit(browser) as page:
        page.on("response", lambda one: (failed if one.status >= 400 else asked).append(one.url))
        page.on("requestfailed", lambda one: failed.append(one.url))
        for place in ("", "explore"):
            go(page, page_actions.address(address, place, **LINK))
        assert not failed
        assert asked.count(f"{address}/_stcore/health") == 2
