"""What is typed or chosen while the connection breaks is there afterwards, and so is its result."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import page_actions
from tests.support.breaking_line import Line, breaking_line

SENTENCES = {"A cat sleeps.": "Katze", "The dog barks.": "Hund"}
#: Seconds between what is done and the break; at -1 the server hears nothing of it.
FEW = {"Enter": (-1.0, 0.2), "slider": (0.02,), "page": (0.1,)}
ALL = {"Enter": (-1.0, 0.0, 0.2), "head": (0.0,), "slider": (0.02,), "page": (0.1,)}


@pytest.mark.parametrize("moments", [FEW, pytest.param(ALL, marks=pytest.mark.soak)])
def test_nothing_is_lost_with_the_connection(
    browser: Browser, url: str, moments: dict[str, tuple[float, ...]]
) -> None:
    """Not the `page` of other tests: a browser reports each failed request as an error."""
    context = browser.new_context(viewport={"width": 1440, "height": 1100})
    with breaking_line(url) as line:
        page = context.new_page()
        page_actions.go(page, f"{line.url}/?text=The+dog+barks.")
        for name, times in moments.items():
            for number, moment in enumerate(times):
                _act(page, line, name, number, moment)
        seen = page_actions.still(page)
        fresh = page_actions.go(page, page.url.replace(line.url, url))
        assert page_actions.differing(seen, fresh) == set(), page.url
    context.close()


def _act(page: Page, line: Line, name: str, number: int, moment: float) -> None:
    """Do something while the line breaks; wait until it stands in the control, link and result."""
    sentence = [*SENTENCES][number % 2]
    box = page.get_by_label("English sentence")
    slider = page.get_by_role("slider", name="temperature")
    if name == "Enter":
        box.fill(sentence)
    if name == "page":
        page.get_by_role("button", name="See", exact=True).click()
    line.break_after(moment)
    if name == "Enter":
        box.press("Enter")
    elif name == "head":
        page_actions.tile(page, 1, 2)
    elif name == "slider":
        slider.press("End")
    else:
        page.get_by_role("menuitem", name="Positions", exact=True).click()
    page.wait_for_timeout(300)
    line.mend()
    link = {"Enter": sentence.replace(" ", r"\+"), "head": "layer=1&head=2", "slider": "5.0"}
    expect(page).to_have_url(re.compile(link.get(name, "/positions.*text=.*5.0")))
    if name == "Enter":
        expect(box).to_have_value(sentence)
        expect(page.locator("[data-what=now]")).to_contain_text(SENTENCES[sentence])
    elif name == "head":
        page_actions.opened(page, "L1 H2")
    elif name == "slider":
        expect(slider).to_have_attribute("aria-valuetext", "5")
        expect(page.locator(".st-key-chips button")).to_have_count(1)
    page_actions.still(page)
