"""Watch it learn, by hand: predict, move the slider, open a head, leave and come back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.support import page_actions

SLIDER = "[class*=st-key-try-learning-step] input[type=range]"


def test_the_training_slider_keeps_what_was_set(page: Page, url: str) -> None:
    page.goto(f"{url}/labs?lab=learning&text=I+love+my+dog.")
    page.get_by_role("button", name="Between 1,000 and 10,000.").click()
    written = page.locator("[data-what=said]")
    expect(written).to_contain_text("After update 1 it writes")
    for _ in range(5):
        page.locator(SLIDER).press("ArrowRight")
    expect(written).to_contain_text("After update 1,024 it writes")
    page_actions.still(page)
    atlas = page.locator(".st-key-lab-learning-atlas")
    atlas.scroll_into_view_if_needed()
    box = atlas.locator("canvas").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 0.85 * box["width"], box["y"] + 0.3 * box["height"])
    set_now = re.compile(r"tried=guess%3D2%3Bstep%3D1024%3Bhead%3DL0H3")
    expect(page).to_have_url(set_now)
    page.get_by_text("Far apart", exact=True).click()
    expect(page).to_have_url(re.compile("lab=far"))
    page.get_by_text("Watch it learn", exact=True).click()
    expect(written).to_contain_text("After update 1,024 it writes")
    expect(page).to_have_url(set_now)
