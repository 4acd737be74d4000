"""A visit in a real browser: clicks, keys, and what stands on the screen afterwards."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.browser

SENTENCE = "I would like a cup of coffee without sugar."


def _open(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator(".tv-foot")).to_be_visible()
    expect(_chart(page, 1).locator(".heatmaplayer image")).to_be_visible()


def _chart(page: Page, number: int) -> Locator:
    return page.get_by_test_id("stPlotlyChart").nth(number)


def _map(page: Page) -> str:
    """The pixels of the opened head, as the picture that plotly drew, once it stands still."""
    image = _chart(page, 1).locator(".heatmaplayer image")
    before, drawn = "", str(image.get_attribute("href"))
    while before != drawn:
        page.wait_for_timeout(400)
        before, drawn = drawn, str(image.get_attribute("href"))
    return drawn


def _text(page: Page, what: str) -> str:
    return page.locator(f'[data-what="{what}"]').inner_text()


def _type(page: Page, sentence: str) -> None:
    box = page.get_by_label("English sentence")
    box.fill(sentence)
    box.press("Enter")


def _opened(page: Page, label: str) -> None:
    expect(page.locator("h2", has_text=re.compile(rf"^{label}\b"))).to_be_visible()


def _click_tile(page: Page, layer: int, head: int, heads: int = 8, layers: int = 3) -> None:
    """Click into the middle of a tile, where a person would."""
    area = _chart(page, 0).locator(".nsewdrag").bounding_box()
    assert area is not None
    page.mouse.click(
        area["x"] + area["width"] * (head + 0.5) / heads,
        area["y"] + area["height"] * (layer + 0.5) / layers,
    )


def _settled(page: Page) -> None:
    """Until the freely decoded sentence has followed."""
    expect(page.locator('[data-what="after"]')).not_to_have_text("…")


def test_a_visit_from_the_sentence_to_the_changed_translation(page: Page, url: str) -> None:
    _open(page, url)
    first = _text(page, "translation")
    _type(page, SENTENCE)
    expect(page.locator('[data-what="translation"]')).not_to_have_text(first)
    assert "Kaffee" in _text(page, "translation")
    expect(_chart(page, 1)).to_contain_text("Kaffee")  # the pictures have followed

    _click_tile(page, layer=1, head=5)
    _opened(page, "L1 H5")
    _click_tile(page, layer=2, head=0)
    _opened(page, "L2 H0")
    _click_tile(page, layer=1, head=5)  # back again: a stale selection would swallow this click
    _opened(page, "L1 H5")
    assert _query(page) | {"text": SENTENCE, "layer": "1", "head": "5"} == _query(page)

    clean = _map(page)
    page.get_by_role("radio", name="everything").click()
    slider = page.get_by_role("slider", name="temperature")
    slider.focus()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name=re.compile("everything: temperature 5"))).to_be_visible()
    _settled(page)
    assert _map(page) != clean
    assert _text(page, "after") != _text(page, "before")
    assert page.locator('[data-what="after"] .tv-new').count() > 0

    _same_after_reload(page)
    page.get_by_role("button", name="back to clean").click()
    expect(page.locator('[data-what="now"]')).to_be_visible()
    assert "edits" not in _query(page)
    expect(_chart(page, 1).locator(".heatmaplayer image")).to_have_attribute("href", clean)


def _query(page: Page) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(page.url).query).items()}


def _same_after_reload(page: Page) -> None:
    link, drawn, after = page.url, _map(page), _text(page, "after")
    _open(page, link)
    _opened(page, "L1 H5")
    _settled(page)
    assert page.url == link
    assert (_map(page), _text(page, "after")) == (drawn, after)
    assert page.get_by_label("English sentence").input_value() == SENTENCE
    expect(page.get_by_role("slider", name="temperature")).to_have_attribute("aria-valuetext", "5")


def test_pointing_at_a_cell_names_both_words_and_the_weight(page: Page, url: str) -> None:
    _open(page, f"{url}/?block=decoder")
    area = _chart(page, 1).locator(".nsewdrag").first.bounding_box()
    assert area is not None
    hover = _chart(page, 1).locator(".hoverlayer")
    page.mouse.move(area["x"] + 8, area["y"] + 8)
    expect(hover).to_contain_text(re.compile(r"→ <s>: 1\.0000"))
    page.mouse.move(area["x"] + area["width"] - 8, area["y"] + 8)
    expect(hover).to_contain_text("masked")


def test_about_and_back_keeps_everything(page: Page, url: str) -> None:
    _open(page, f"{url}/?layer=2&head=3&scope=block&words=on")
    page.get_by_role("link", name="About", exact=True).click()
    expect(page.get_by_text("Attention is not Explanation", exact=True)).to_be_visible()
    assert page.get_by_text("CC BY 2.0").count() == 1
    page.get_by_role("link", name="Explore").click()
    _opened(page, "L2 H3")
    assert _query(page) == {"layer": "2", "head": "3", "scope": "block", "words": "on"}


def test_back_undoes_the_last_choice(page: Page, url: str) -> None:
    _open(page, f"{url}/?layer=2&head=3")
    _click_tile(page, layer=1, head=2)
    _opened(page, "L1 H2")
    page.go_back()
    _opened(page, "L2 H3")


def test_a_visit_without_a_link_begins_with_a_decided_head(page: Page, url: str) -> None:
    _open(page, url)
    query = _query(page)
    _opened(page, f"L{query['layer']} H{query['head']}")
    entropy = page.get_by_text(re.compile(r"entropy \d")).first.inner_text()
    assert float(re.search(r"[\d.]+", entropy).group()) < 1.5


def test_strange_input_never_shows_a_traceback(page: Page, url: str) -> None:
    _open(page, url)
    for sentence in ("", "🙂", "مرحبا", "word " * 1000, "<b>x</b> $y$", SENTENCE):
        _type(page, sentence)
        expect(page.get_by_test_id("stStatusWidget")).to_have_count(0)
        assert page.get_by_test_id("stException").count() == 0
        assert page.get_by_label("English sentence").input_value() == sentence.rstrip("\n")
    assert "Kaffee" in _text(page, "translation")
