"""A text of 20,000 tokens in a real browser: from the whole to one weight and back, a word that is
looked for, a link over a far distance, the overview, two fingers, and the link of the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

import transformer_viz as tv
from tests.browser.app.test_long_map import VIEW, hovered
from tests.browser.components.test_head_map import shade
from tests.support.browser import running_app, visit
from tests.support.long_story import RARE, story, write_storyteller
from tests.support.page_actions import address, go
from transformer_viz.core.palette import LIGHT
from transformer_viz.core.trace import Trace

LAYER, HEAD = 0, 1
AT = {"layer": str(LAYER), "head": str(HEAD)}
TOKENS = 20_000  # about so many
SHORT = 1_700  # of a text whose matrix is kept too
CARD = ".st-key-card-head"
PATIENCE = 300_000  # milliseconds until so long a run and its tiles are there, on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("book") / "teller"
    write_storyteller(made)
    return made


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
        environment.setenv("TRANSFORMER_VIZ_MODELS", "")
        with running_app() as found:
            yield found


def told(folder: Path, words: int, keep: str) -> tuple[str, Trace]:
    """A story of so many words, and its run."""
    text = story(words)
    return text, tv.trace(tv.load(folder), text, keep=(keep,), check=False)


def settled(page: Page) -> dict[str, Any]:
    """What the map shows once nothing is on its way and Python knows the part."""
    there = f"() => {{ const s = ({VIEW})();"
    there += " return s?.cells && !s.coming && s.resting && !s.asking; }"
    page.wait_for_function(there, timeout=PATIENCE)
    found: dict[str, Any] = page.evaluate(VIEW)
    return found


def close_in(page: Page) -> dict[str, Any]:
    """Turn the wheel until a dozen rows are left."""
    page.keyboard.down("Control")
    for _ in range(60):
        page.mouse.wheel(0, -200)
        rows = page.evaluate(VIEW)["rows"]
        if rows[1] - rows[0] <= 12:
            break
    page.keyboard.up("Control")
    return settled(page)


def middle(shown: dict[str, Any], row: int, column: int) -> tuple[float, float]:
    """The middle of a cell on the page."""
    box, (top, bottom), (left, right) = shown["cells"], shown["rows"], shown["columns"]
    return (
        box["left"] + (column - left + 0.5) / (right - left) * box["width"],
        box["top"] + (row - top + 0.5) / (bottom - top) * box["height"],
    )


def overview_label(page: Page) -> str | None:
    return page.get_by_label(re.compile("^Overview")).get_attribute("aria-label")


def in_view(shown: dict[str, Any], row: int, column: int) -> bool:
    (top, bottom), (left, right) = shown["rows"], shown["columns"]
    return top <= row < bottom and left <= column < right


@pytest.mark.slow
def test_a_book_from_the_whole_to_a_cell_a_word_and_a_far_link(
    page: Page, url: str, folder: Path
) -> None:
    text, run = told(folder, TOKENS * 10 // 11, "tiles")
    count = len(run.source)
    assert TOKENS * 0.95 < count < TOKENS * 1.05
    received: list[int] = []
    page.on("websocket", lambda ws: ws.on("framereceived", lambda d: received.append(len(d))))
    page.goto(address(url, model="teller", text=text, **AT))
    whole = settled(page)
    assert whole["rows"] == whole["columns"] == [0, count] and whole["step"] == 64
    # Down to single weights, and back.
    page.locator(f"{CARD} .picture").focus()
    hovered(page, 15_000, 9_000)
    received.clear()
    near = close_in(page)
    (top, bottom), (left, right) = near["rows"], near["columns"]
    exact = run.tile("decoder", LAYER, HEAD, slice(top, bottom), slice(left, right))
    for row in (top, bottom - 1):
        weight = float(re.findall(r"(\d\.\d{4})", hovered(page, row, left + 1))[-1])
        assert abs(weight - exact[row - top, 1]) <= 5.1e-5
    expect(page).to_have_url(re.compile("zoom="))
    page.wait_for_timeout(500)
    assert max(received) < 2 * len(text), max(received)  # the words along both sides are far more
    page.get_by_role("button", name="show all of the map").click()
    assert settled(page)["rows"] == [0, count]
    # A word in pieces: counted, gone to, lit.
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
    # Links over far distances, which lead to their cells.
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
    weight = float(re.findall(r"(\d\.\d{4})", hovered(page, row, column))[-1])
    assert abs(weight - links[2]["weight"]) <= 5.1e-5
    # The link of the page leads to the same place.
    first = jumped["rows"][0]  # the place in view is told after the row and the column
    expect(page).to_have_url(re.compile(f"token={row}&.*key={column}&.*zoom={first}-"))
    page.reload()
    again = settled(page)
    assert (again["rows"], again["columns"]) == (jumped["rows"], jumped["columns"])


def test_colours_are_those_of_the_whole_matrix(page: Page, url: str, folder: Path) -> None:
    """Each cell's pixel on the screen, of a text whose matrix is kept too."""
    text, run = told(folder, SHORT, "weights")
    weights = run.attention("decoder", LAYER)[HEAD]
    small = run.thumbnail("decoder")[LAYER, HEAD]
    most = float(np.quantile(small[small > 0], 0.98)) / 255
    go(page, address(url, model="teller", text=text, zoom="1500-1530,600-640", **AT))
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


def test_the_overview_moves_the_map_by_hand_and_by_keys(page: Page, url: str) -> None:
    go(page, address(url, model="teller", text=story(SHORT), zoom="1000-1100,200-300", **AT))
    settled(page)
    overview = page.get_by_label(re.compile("^Overview, .*rows 1001 to 1100"))
    expect(overview).to_be_visible()
    box = overview.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    moved = settled(page)
    total = int(re.findall(r" of (\d+), columns", str(overview_label(page)))[0])
    for side, part in (("rows", 1 / 2), ("columns", 1 / 4)):
        first, last = moved[side]
        assert last - first == 100 and abs((first + last) / 2 - part * total) < total / 40
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 + 22, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    dragged = settled(page)
    assert dragged["rows"] == moved["rows"]
    assert abs(dragged["columns"][0] - moved["columns"][0] - total / 4) < total / 40
    overview = page.get_by_label(re.compile("^Overview"))
    overview.press("End")
    overview.press("ArrowUp")
    keyed = settled(page)
    assert keyed["columns"][1] == total and keyed["rows"][1] == total - 50
    page.get_by_role("button", name="show all of the map").click()
    expect(overview).to_be_hidden()


def test_two_fingers_enlarge_the_map_on_a_narrow_screen(browser: Browser, url: str) -> None:
    small = {"width": 400, "height": 850}
    with visit(browser, viewport=small, has_touch=True) as page:
        go(page, address(url, model="teller", text=story(SHORT), **AT))
        whole = settled(page)
        page.evaluate("y => scrollBy(0, y - 300)", whole["cells"]["top"])
        page.locator(f"{CARD} .picture").scroll_into_view_if_needed()
        touch = page.context.new_cdp_session(page)

        def fingers(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        def pinch(begin: int, end: int) -> dict[str, Any]:
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
        kept = [side[0] + part * (side[1] - side[0]) for part, side in (
            (0.5, near["rows"]), (0.3, near["columns"]))]  # fmt: skip
        assert abs(kept[0] - 0.5 * all_rows) < all_rows / 25
        assert abs(kept[1] - 0.3 * all_rows) < all_rows / 25
        assert page.evaluate("visualViewport.scale") == 1
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        assert pinch(60, 12)["rows"][1] - near["rows"][0] > rows
