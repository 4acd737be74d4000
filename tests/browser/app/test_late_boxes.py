"""A browser that gets the code of the boxes late shows what the link says, and changes nothing."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, expect

from tests.support.rest import rest

CODE = re.compile(r"/static/js/(Selectbox|Radio|ButtonGroup|Slider|Checkbox)\.")
LINK = {"model": "en-de-small", "block": "cross", "layer": "1", "head": "2", "compare": "before"}


def _words(page: Page) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(page.url).query).items()}


def _type(page: Page, text: str) -> None:
    box = page.get_by_label("English sentence")
    box.fill(text)
    box.press("Enter")


def test_what_the_link_says_outlasts_a_sentence_typed_before_the_boxes_came(
    page: Page, url: str
) -> None:
    late: list[Route] = []
    page.route(CODE, lambda route: late.append(route))
    page.goto(f"{url}/?" + "&".join(f"{name}={value}" for name, value in LINK.items()))
    page.locator(".tv-foot").wait_for()
    assert not page.get_by_label("Model", exact=True).count()
    _type(page, "She sings.")
    expect(page.locator('[data-what="translation"]')).to_contain_text("Sie sing")
    before = _words(page)
    for route in late:
        route.continue_()
    page.unroute(CODE)
    box = page.locator('input[aria-label="Model"]')
    expect(box).to_have_value(re.compile("^en-de-small "))
    rest(page)
    assert page.locator('input[aria-label="layer"]').input_value() == "L1"
    _type(page, "He sings.")
    expect(page.locator('[data-what="translation"]')).to_contain_text("Er sing")
    rest(page)
    after = _words(page)
    assert after.pop("text") == "He sings." and before.pop("text") == "She sings."
    assert after == before and before["model"] == "en-de-small" and before["layer"] == "1"
