"""Evidence about heads in Chromium: rank, open, swap, compare and explain by the pointer.

The numbers are held by tests/app/pages: test_heads.py, test_swap.py, test_why.py, test_compare.py.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_actions import address, chip, go, still, visit_page
from tests.support.rest import rest
from transformer_viz.app.heads.sentences import in_the_box

TEXT = "The animal didn't cross the street because it was too tired."
OTHER = TEXT.replace("tired", "wide")
HEADS = 8  # of a layer of en-de
#: The middle of each cell of a grid of swaps, and its width.
POINTS = """part => [...document.querySelectorAll(
    `.st-key-card-swap-${part} .js-plotly-plot .scatterlayer .trace path.point`)].map(point => {
      const box = point.getBoundingClientRect();
      return [box.x + box.width / 2, box.y + box.height / 2, box.width];
    }).filter(([, , width]) => width > 12)"""


def test_rank_swap_compare_and_explain_by_pointer(page: Page, url: str) -> None:
    name = _rank(page, url)
    layer, head = map(int, re.findall(r"\d+", name))
    page.locator(".st-key-card-removal tr[data-head]").first.locator("th a").click()
    expect(page.locator(".st-key-card-head h2")).to_contain_text(f"L{layer} H{head}")
    _swap(page)
    _compare(page, url)
    _why(page, url)


def _rank(page: Page, url: str) -> str:
    """Sort by the stored table of removals; the tiles and the table follow. Return the first."""
    go(page, address(url, "heads", text=TEXT, model="en-de", block="cross"))
    page.locator(".st-key-atlas select[name=sort]").select_option("effect")
    expect(page).to_have_url(re.compile("heads_by=effect"))
    rest(page)
    ranking = page.locator(".st-key-card-removal tr[data-head]").first
    name = ranking.get_attribute("data-head")
    assert name is not None
    first = page.locator(".st-key-card-heads tr[data-head]").first
    expect(first).to_have_attribute("data-head", name)
    ranking.locator("summary").first.click()  # a number says on a press what its bar means
    expect(ranking.locator(".tv-told").first).to_contain_text("95 %")
    for width in (800, 1280, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        rest(page)
        table = page.locator(".st-key-card-heads .tv-heads").first
        expect(table.locator("thead th").last).to_have_text("rank")
        assert table.evaluate("table => table.scrollWidth - table.clientWidth") <= 0, width
    return name


def _swap(page: Page) -> None:
    """Point at a cell of the grid of heads, which tells its number, and click it."""
    visit_page(page, "Swap")
    expect(page.locator('[data-what="reads-1"]')).to_have_text(OTHER)
    page.locator(".st-key-card-swap-cross .js-plotly-plot").scroll_into_view_if_needed()
    rest(page)
    x, y, _ = page.evaluate(POINTS, "cross")[1 * HEADS + 3]
    page.mouse.move(x, y)
    hover = page.locator(".st-key-card-swap-cross .hoverlayer")
    expect(hover).to_contain_text(re.compile(r"L1 H3: [-+−]\d\.\d{3}"))
    page.mouse.click(x, y)
    kept = page.locator(".st-key-edit-0 button")
    expect(kept).to_contain_text("cross L1 H3: gives what it gives in")
    said = still(page)["said"]
    assert said["after"] not in ("", "…") and said["before"]


def _compare(page: Page, url: str) -> None:
    """A click into the picture of a comparison opens the head."""
    go(page, address(url, "compare", text=TEXT, model="en-de-small"))
    page.locator(".st-key-card-compare-encoder").scroll_into_view_if_needed()
    box = page.locator(".st-key-card-compare-encoder .nsewdrag").first.bounding_box()
    assert box is not None
    x, y = box["x"] + 0.125 * box["width"], box["y"] + 0.45 * box["height"]
    page.mouse.move(x - 4, y - 4)
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    expect(page.locator("[data-what=compared-head]")).to_contain_text("encoder L1 H0")


def _why(page: Page, url: str) -> None:
    """A word is clicked, and its reasons follow."""
    go(page, address(url, "why", text="The cat sat on the mat.", model="en-de-small"))
    word, column = page.locator('[data-what="why-word"]'), page.locator('[data-what="why-removal"]')
    first, reasons = word.inner_text(), column.inner_text()
    chip(page, "target", 2).click()
    expect(word).not_to_have_text(first)
    expect(column).not_to_have_text(reasons)
    assert page.get_by_test_id("stException").count() == 0


@pytest.mark.soak  # held by tests/app/pages/test_heads.py and tests/app/ui/test_progress.py
def test_numbers_sharpen_while_one_watches_and_stop(page: Page, url: str) -> None:
    """Eight sentences at once, then more; the visitor stops it, and what is there stays."""
    page.goto(address(url, "heads", text=TEXT, model="en-de-small", removal="zero"))
    told = page.locator(".st-key-card-removal")
    expect(told).to_contain_text(re.compile(r"On \d+ sentences"))
    first = int(re.findall(r"On (\d+) sentences", told.inner_text())[0])
    stop = told.get_by_role("button", name="stop")
    expect(stop).to_be_visible()
    expect(page.locator(".tv-foot")).to_be_visible()  # the page stands while it goes on
    expect(told).not_to_contain_text(f"On {first} sentences,", timeout=60_000)
    expect(stop).to_be_visible()
    stop.click()
    expect(told).to_contain_text("Stopped.")
    after = int(re.findall(r"On (\d+) sentences", told.inner_text())[0])
    assert first < after < len(in_the_box())
    still(page)
