"""Evidence about heads in Chromium: rank, open, remove, swap, explain and compare; one link.

The numbers are held by tests/app/pages: test_heads.py, test_swap.py, test_why.py, test_compare.py.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_actions import address, go, still, visit_page
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


def test_rank_remove_swap_explain_compare_and_come_back(page: Page, url: str) -> None:
    name = _rank(page, url)
    layer, head = map(int, re.findall(r"\d+", name))
    removed, swapped = page.locator(".st-key-edit-0 button"), page.locator(".st-key-edit-1 button")
    changed = page.locator('[data-what="after"]')

    page.locator(".st-key-card-removal tr[data-head]").first.locator("th a").click()
    expect(page.locator(".st-key-card-head h2")).to_contain_text(f"L{layer} H{head}")
    rest(page)
    page.locator(".st-key-head_state").get_by_text("off", exact=True).click()
    expect(removed).to_contain_text(f"cross L{layer} H{head}")

    _swap(page)
    expect(swapped).to_contain_text("cross L1 H3: gives what it gives in")
    said = still(page)["said"]
    assert said["after"] not in ("", "…") and said["before"]
    go(page, page.url)
    expect(removed).to_contain_text(f"cross L{layer} H{head}")
    expect(swapped).to_be_visible()
    expect(changed).to_have_text(said["after"])
    _swap_otherwise(page)

    visit_page(page, "Heads")
    rest(page)
    assert "heads_by=effect" in page.url
    first = page.locator(".st-key-card-heads tr[data-head]").first
    expect(first).to_have_attribute("data-head", name)
    expect(page.locator('[data-what="one-head"]')).to_contain_text(f"cross L{layer} H{head}")
    expect(page.locator(".st-key-heads-off button")).to_have_text("switch it on again")
    visit_page(page, "Align")
    expect(page.locator(".st-key-card-links")).to_contain_text("With the changes below")
    _compare(page)
    expect(removed).to_contain_text(f"cross L{layer} H{head}")
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


def _swap_otherwise(page: Page) -> None:
    """Take the swap away, choose another kind of swap, and type another sentence."""
    page.locator(".st-key-edit-1 button").click()
    expect(page.locator(".st-key-edit-1 button")).to_have_count(0)
    stream = "A place of the stream"
    page.locator(".st-key-swapped").get_by_text(stream, exact=True).click()
    expect(page.locator(".st-key-card-swap-encoder .js-plotly-plot")).to_be_visible()
    expect(page).to_have_url(re.compile("swapped=stream"))
    box = page.get_by_label("the other sentence")
    box.fill(TEXT.replace("too tired", "full of cars"))
    box.press("Enter")
    expect(page.locator('[data-what="reads-1"]')).to_contain_text("full of cars")
    rest(page)
    assert page.get_by_test_id("stException").count() == 0


def _compare(page: Page) -> None:
    """Two steps of a training: a click opens a head, a list another step; the link keeps both."""
    visit_page(page, "Compare")
    rest(page)
    page.get_by_text("two steps of a training", exact=True).click()
    expect(page.locator("[data-what=matched]")).to_be_visible(timeout=60_000)
    expect(page).to_have_url(re.compile("versus=step"))
    rest(page)
    card = page.locator(".st-key-card-compare-encoder")
    card.scroll_into_view_if_needed()
    box = card.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    x, y = box["x"] + 0.125 * box["width"], box["y"] + 0.45 * box["height"]
    page.mouse.move(x - 4, y - 4)
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    opened = page.locator("[data-what=compared-head]")
    expect(opened).to_contain_text("encoder L1 H0")
    early = page.locator(".st-key-compare-early input")
    early.evaluate("one => one.scrollIntoView({ block: 'center' })")  # not below the header
    rest(page)  # to scroll, or to run, would close the list
    early.click()
    page.get_by_role("option", name="256", exact=True).click()
    expect(page).to_have_url(re.compile(r"moments=256%2C16384"))
    expect(page.get_by_text("after 256 updates").first).to_be_visible()
    page.reload()
    expect(opened).to_contain_text("encoder L1 H0", timeout=60_000)
    expect(page.get_by_text("after 256 updates").first).to_be_visible()
    assert page.get_by_test_id("stException").count() == 0


def _why(page: Page, url: str) -> None:
    """A word is clicked, its reasons follow, the link brings it back."""
    go(page, address(url, "why", text="The cat sat on the mat.", model="en-de-small"))
    word, column = page.locator('[data-what="why-word"]'), page.locator('[data-what="why-removal"]')
    first, reasons = word.inner_text(), column.inner_text()
    page.locator(".st-key-tokens").get_by_role("toolbar", name="target").get_by_role("button").nth(
        2
    ).click()
    expect(word).not_to_have_text(first)
    expect(column).not_to_have_text(reasons)
    rest(page)
    second = word.inner_text()
    page.reload()
    expect(word).to_have_text(second)
    page.get_by_text("Who names the words that matter?").click()
    expect(page.locator(".st-key-why-curve .js-plotly-plot")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


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
