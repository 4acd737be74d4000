"""The labs in a real browser: where a visitor looks who has just predicted."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import visit
from tests.support.page_actions import address, go


def room(page: Page) -> tuple[float, float]:
    """The height of the place of prediction and verdict, and the one kept free for both."""
    place = page.locator(".st-key-lab-predicted")
    height = place.evaluate("one => one.getBoundingClientRect().height")
    least = place.evaluate("one => parseFloat(getComputedStyle(one).minHeight)")
    return height, least


@pytest.mark.parametrize("lab", ["scale", "residual"])
def test_the_verdict_stands_where_the_options_were(browser: Browser, url: str, lab: str) -> None:
    with visit(browser, viewport={"width": 1440, "height": 900}) as page:
        go(page, address(url, "labs", lab=lab))
        place = page.locator(".st-key-lab-options button").first
        options = place.bounding_box()
        place.click()
        verdict = page.locator(".tv-lab-verdict")
        expect(verdict).to_be_in_viewport(ratio=1)
        found, card = verdict.bounding_box(), page.locator(".st-key-card-experiment").bounding_box()
        assert options and found and card
        assert abs(found["y"] - options["y"]) < 100 and found["y"] < card["y"]
        height, least = room(page)
        assert height == pytest.approx(least, abs=1)  # nothing moved when it came


def test_a_term_of_the_glossary_explains_itself(page: Page, url: str) -> None:
    go(page, address(url, "labs", lab="scale", tried="guess=1"))
    term = page.locator(".tv-lab-text .tv-term", has_text="variance").first
    tip = term.get_by_role("tooltip", include_hidden=True)
    expect(tip).to_be_hidden()
    term.hover()
    expect(tip).to_be_visible()
    expect(tip).to_contain_text("squared and averaged")
