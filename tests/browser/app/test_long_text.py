"""A long text in Chromium: from the whole map to one weight, its words, far links, two fingers."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import transformer_viz as tv
from tests.browser.components.test_head_map import shade
from tests.support.browser import visit
from tests.support.long_story import RARE, story
from tests.support.page_actions import address, go
from tests.support.rest import OFTEN
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.core.palette import LIGHT
from transformer_viz.core.trace import Trace

LAYER, HEAD = 0, 1
AT = {"layer": str(LAYER), "head": str(HEAD)}
SHORT = 1_700  # words of a text whose matrix is kept too
CARD = ".st-key-card-head"
TIP = f"{CARD} .tip"
PATIENCE = 300_000  # milliseconds until so long a run and its tiles are there, on a busy machine
VIEW = (
    "() => { for (const host of document.querySelectorAll('*')) {"
    " const told = host.describe?.(); if (told?.part === 'head') return told.shown; } }"
)
CLOSE = 5.1e-5  # of a weight that is told with four digits
Shown = dict[str, Any]


def told(
    models: Path, words: int, keep: str, edits: Intervention | None = None
) -> tuple[str, Trace]:
    """A story of so many words, and its run."""
    text, model = story(words), tv.load(models / "teller")
    return text, tv.trace(model, text, keep=(keep,), intervention=edits, check=False)


def settled(page: Page) -> Shown:
    """What the map shows once nothing is on its way and Python knows the part."""
    there = f"() => {{ const s = ({VIEW})();"
    there += " return s?.cells && !s.coming && s.resting && !s.asking; }"
    page.wait_for_function(there, timeout=PATIENCE, polling=OFTEN)
    found: Shown = page.evaluate(VIEW)
    return found


def middle(shown: Shown, row: int, column: int) -> tuple[float, float]:
    """The middle of a cell on the page."""
    box, (top, bottom), (left, right) = shown["cells"], shown["rows"], shown["columns"]
    return (
        box["left"] + (column - left + 0.5) / (right - left) * box["width"],
        box["top"] + (row - top + 0.5) / (bottom - top) * box["height"],
    )


def hovered(page: Page, row: int, column: int) -> str:
    """What the tip says above a weight."""
    x, y = middle(settled(page), row, column)
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    tip = page.locator(TIP)
    expect(tip).to_be_visible()
    return tip.inner_text()


def weight_of(page: Page, row: int, column: int) -> float:
    return float(re.findall(r"(\d\.\d{4})", hovered(page, row, column))[-1])


def in_view(shown: Shown, row: int, column: int) -> bool:
    (top, bottom), (left, right) = shown["rows"], shown["columns"]
    return bool(top <= row < bottom and left <= column < right)


@pytest.mark.parametrize("tokens", [5_000, pytest.param(20_000, marks=pytest.mark.soak)])
def test_a_book_from_the_whole_to_a_cell_a_word_and_a_far_link(
    page: Page, url: str, models: Path, tokens: int
) -> None:
    text, run = told(models, tokens * 10 // 11, "tiles")
    count = len(run.source)
    assert tokens * 0.95 < count < tokens * 1.05
    received: list[int] = []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda d: received.append(len(d))))
    page.goto(address(url, model="teller", text=text, **AT))
    whole = settled(page)
    step = whole["step"]
    assert whole["rows"] == whole["columns"] == [0, count] and step >= 16
    row, column = 3_008, 1_600
    largest = run.tile("decoder", LAYER, HEAD, slice(row, row + step), slice(column, column + step))
    said = hovered(page, row, column)
    assert f"the largest of {step} × {step} weights" in said
    number = re.findall(r"0\.\d+", said)[0]
    assert abs(float(number) - largest.max()) <= 0.6 * 0.1 ** len(number.partition(".")[2])
    assert "may not look at" in hovered(page, 400, 2_000)  # the causal mask
    _to_single_weights(page, run, received, row, column, 2 * len(text))
    page.get_by_role("button", name="show all of the map").click()
    assert settled(page)["rows"] == [0, count]
    _find_a_word(page, text, run)
    _follow_a_far_link(page, run)


def _to_single_weights(
    page: Page, run: Trace, received: list[int], row: int, column: int, most: int
) -> None:
    """Turn the wheel down to a dozen rows: exact weights, and no long list of words is sent."""
    page.locator(f"{CARD} .picture").focus()
    hovered(page, row, column)
    received.clear()
    page.keyboard.down("Control")
    for _ in range(60):
        page.mouse.wheel(0, -200)
        rows = page.evaluate(VIEW)["rows"]
        if rows[1] - rows[0] <= 12:
            break
    page.keyboard.up("Control")
    near = settled(page)
    (top, bottom), (left, right) = near["rows"], near["columns"]
    assert near["step"] == 1 and bottom - top <= 12
    exact = run.tile("decoder", LAYER, HEAD, slice(top, bottom), slice(left, right))
    for r in (top, bottom - 1):
        assert abs(weight_of(page, r, left + 1) - exact[r - top, 1]) <= CLOSE
    expect(page).to_have_url(re.compile("zoom="))
    page.wait_for_timeout(500)
    assert max(received) < most, max(received)


def _find_a_word(page: Page, text: str, run: Trace) -> None:
    """A word in pieces is counted, gone to and lit."""
    field = page.get_by_role("searchbox", name="find a word")
    field.fill(RARE[:6].upper())
    said = page.locator(f"{CARD} .search .count")
    times = len(re.findall(RARE, text))
    expect(said).to_have_text(f"{times} found")
    field.press("Enter")
    expect(said).to_have_text(f"1 of {times}")
    field.press("Shift+Enter")
    expect(said).to_have_text(f"{times} of {times}")
    there = settled(page)
    find = there["found"][there["at"]]
    pieces = "".join(run.source.pieces[column] for column in find["columns"])
    assert pieces.endswith(RARE) and len(find["columns"]) > 2
    assert find["rows"] == [column - 1 for column in find["columns"]]
    assert there["rows"][1] - there["rows"][0] == 48
    assert in_view(there, find["rows"][0], find["columns"][0])


def _follow_a_far_link(page: Page, run: Trace) -> None:
    """Links over far distances lead to their cells, and the link of the page to the same place."""
    page.get_by_role("button", name="the strongest links over far distances").click()
    page.get_by_label("at least so many tokens apart").fill("1000")
    page.wait_for_timeout(500)
    links = settled(page)["far"]
    wanted = run.far_links("decoder", LAYER, HEAD, distance=1000)
    assert [(one["row"], one["column"]) for one in links] == list(
        zip(wanted["row"], wanted["column"], strict=True)
    )
    row, column = links[2]["row"], links[2]["column"]
    page.locator(f"{CARD} .far button").nth(2).click()
    jumped = settled(page)
    assert in_view(jumped, row, column) and jumped["step"] == 1
    assert abs(weight_of(page, row, column) - links[2]["weight"]) <= CLOSE
    first = jumped["rows"][0]  # the place in view is told after the row and the column
    expect(page).to_have_url(re.compile(f"token={row}&.*key={column}&.*zoom={first}-"))
    page.reload()
    again = settled(page)
    assert (again["rows"], again["columns"]) == (jumped["rows"], jumped["columns"])


def test_a_chapter_by_overview_slider_difference_and_two_fingers(
    page: Page, browser: Browser, url: str, models: Path
) -> None:
    text, run = told(models, SHORT, "weights")
    go(page, address(url, model="teller", text=text, zoom="1500-1530,600-640", **AT))
    _colours_are_those_of_the_matrix(page, run)
    _the_map_follows_the_hand(page, models, run)
    go(page, address(url, model="teller", text=text, zoom="1000-1100,200-300", **AT))
    _overview(page)
    _two_fingers(browser, url, text)


def _colours_are_those_of_the_matrix(page: Page, run: Trace) -> None:
    """Look at each cell's pixel on the screen."""
    weights = run.attention("decoder", LAYER)[HEAD]
    small = run.thumbnail("decoder")[LAYER, HEAD]
    most = float(np.quantile(small[small > 0], 0.98)) / 255
    shown = settled(page)
    assert (shown["rows"], shown["columns"], shown["step"]) == ([1500, 1530], [600, 640], 1)
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    seen = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    for row in range(1500, 1525):
        for column in range(600, 640):
            x, y = middle(shown, row, column)
            code = np.floor(min(1, weights[row, column] / most) * 255 + 0.5)
            off = np.abs(seen[int(y), int(x)] - shade(LIGHT.amounts, code / 255)).max()
            assert off <= 1, (row, column)


def _the_map_follows_the_hand(page: Page, models: Path, run: Trace) -> None:
    """A slider's step paints the map that the run gives later; then the difference of both runs."""
    clean = settled(page)
    assert not clean["ahead"]
    slider = page.locator(".st-key-temperature input[type=range]")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.93, box["y"] + box["height"] / 2)
    ahead = page.wait_for_function(
        f"(old) => {{ const s = ({VIEW})(); return s.ahead && s.of !== old && s; }}",
        arg=clean["of"],
    ).json_value()
    assert "edits=" not in page.url, "Python has not heard of the step yet"
    assert (ahead["rows"], ahead["step"], ahead["deep"]) == (clean["rows"], 1, 1)
    expect(page.locator(CARD)).to_contain_text("shows the change already")
    page.mouse.up()
    value = float(slider.evaluate("(e) => e.getAttribute('aria-valuetext')"))
    page.wait_for_function(f"() => {{ const s = ({VIEW})(); return !s.ahead && !s.coming; }}")
    expect(page).to_have_url(re.compile("edits="))
    assert settled(page)["of"] == ahead["of"], "the very map: its tiles are not asked for again"
    edits = Intervention((Temperature(value=value, layer=LAYER, head=HEAD),))
    row, column = 1510, 620
    warm = told(models, SHORT, "weights", edits)[1]
    was, now = (one.attention("decoder", LAYER)[HEAD, row, column] for one in (run, warm))
    assert abs(weight_of(page, row, column) - now) <= CLOSE
    page.get_by_role("radiogroup", name="compare").get_by_role("radio", name="Difference").click()
    expect(page.locator(CARD)).to_contain_text("The difference")
    said = hovered(page, row, column).replace("−", "-")
    numbers = [float(one) for one in re.findall(r"[+-]?\d\.\d{3,}", said)]
    for expected in (now - was, was, now):
        assert any(abs(one - expected) <= CLOSE for one in numbers), (said, expected)


def _overview(page: Page) -> None:
    """The overview moves the map by a click, a drag and keys."""
    settled(page)
    overview = page.get_by_label(re.compile("^Overview, .*rows 1001 to 1100"))
    expect(overview).to_be_visible()
    box = overview.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 4, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    moved = settled(page)
    overview = page.get_by_label(re.compile("^Overview"))
    label = overview.get_attribute("aria-label")
    total = int(re.findall(r" of (\d+), columns", str(label))[0])
    for side, part in (("rows", 1 / 2), ("columns", 1 / 4)):
        first, last = moved[side]
        assert last - first == 100 and abs((first + last) / 2 - part * total) < total / 40, side
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 22, y, steps=4)
    page.mouse.up()
    dragged = settled(page)
    assert dragged["rows"] == moved["rows"]
    assert abs(dragged["columns"][0] - moved["columns"][0] - total / 4) < total / 40
    overview.press("End")
    overview.press("ArrowUp")
    keyed = settled(page)
    assert keyed["columns"][1] == total and keyed["rows"][1] == total - 50
    page.get_by_role("button", name="show all of the map").click()
    expect(overview).to_be_hidden()


def _two_fingers(browser: Browser, url: str, text: str) -> None:
    """Two fingers enlarge the map on a narrow screen, and not the page."""
    with visit(browser, viewport={"width": 400, "height": 850}, has_touch=True) as page:
        go(page, address(url, model="teller", text=text, **AT))
        whole = settled(page)
        page.evaluate("y => scrollBy(0, y - 300)", whole["cells"]["top"])
        page.locator(f"{CARD} .picture").scroll_into_view_if_needed()
        touch = page.context.new_cdp_session(page)

        def fingers(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        def pinch(begin: int, end: int) -> Shown:
            box = page.evaluate(VIEW)["cells"]
            x, y = box["left"] + 0.3 * box["width"], box["top"] + 0.5 * box["height"]
            places = [((x - d, y - d), (x + d, y + d)) for d in np.linspace(begin, end, 9)]
            fingers("touchStart", places[0][0])
            fingers("touchStart", *places[0])
            for place in places[1:]:
                fingers("touchMove", *place)
            fingers("touchEnd")
            return settled(page)

        near = pinch(12, 60)
        all_rows, rows = (shown["rows"][1] - shown["rows"][0] for shown in (whole, near))
        assert all_rows / 8 < rows < all_rows / 3
        kept = [
            side[0] + part * (side[1] - side[0])
            for part, side in ((0.5, near["rows"]), (0.3, near["columns"]))
        ]
        assert abs(kept[0] - 0.5 * all_rows) < all_rows / 25
        assert abs(kept[1] - 0.3 * all_rows) < all_rows / 25
        assert page.evaluate("visualViewport.scale") == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert pinch(60, 12)["rows"][1] - near["rows"][0] > rows
