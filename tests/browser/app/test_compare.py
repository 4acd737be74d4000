"""Compare, by hand: click a tile, choose another step, reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support import page_actions


@pytest.mark.shipped
def test_a_click_opens_a_head_and_the_link_keeps_it(page: Page, url: str) -> None:
    page.goto(f"{url}/compare?model=en-de-small&text=I+love+my+dog.&versus=step")
    opened = page.locator("[data-what=compared-head]")
    expect(page.locator("[data-what=matched]")).to_be_visible(timeout=60_000)
    page_actions.still(page)
    card = page.locator(".st-key-card-compare-encoder")
    card.scroll_into_view_if_needed()
    box = card.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    x, y = box["x"] + 0.125 * box["width"], box["y"] + 0.45 * box["height"]
    page.mouse.move(x - 4, y - 4)
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    expect(opened).to_contain_text("encoder L1 H0")
    page.locator(".st-key-compare-early input").click()
    page.get_by_role("option", name="256", exact=True).click()
    expect(page).to_have_url(re.compile(r"moments=256%2C16384"))
    expect(page.get_by_text("after 256 updates").first).to_be_visible()
    expect(opened).to_contain_text("encoder L1 H0")
    page.reload()
    expect(opened).to_contain_text("encoder L1 H0", timeout=60_000)
    expect(page.get_by_text("after 256 updates").first).to_be_visible()
