"""Chips, a panel and a Plotly map on one page, in a real browser: clicks, keys, and the light."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import visit
from tests.support.component_stage import shine
from tests.support.rest import rest
from tests.support.scripts import script

VISIT = re.compile(r"visit \d+$")
BANDS = ".tv-band:visible"
FRAME = script("panel_frame")


@pytest.fixture(scope="module")
def tab(browser: Browser, url: str) -> Iterator[Page]:
    """The app, opened once for all tests here."""
    with visit(browser) as page:
        page.goto(url)
        yield page


@pytest.fixture
def page(tab: Page) -> Page:
    """The app as it was when it was opened: nothing chosen, and every component mounted anew."""
    tab.emulate_media(color_scheme="light")
    tab.mouse.move(5, 5)
    _reset(tab)
    return tab


def _reset(page: Page) -> None:
    number = int(page.get_by_text(VISIT).inner_text().split()[-1])
    page.get_by_role("button", name="reset").click()
    page.mouse.move(5, 5)
    expect(page.get_by_text(VISIT)).to_contain_text(f"visit {number + 1}")
    rest(page, still=0)
    expect(page.locator("[data-painted]")).to_have_count(2)
    expect(page.locator(".heatmaplayer image")).to_have_count(1)  # two while it is drawn anew
    expect(page.locator(".heatmaplayer image")).to_be_visible()
    _settle(page)


def _settle(page: Page) -> None:
    """Wait until the chips stand where they will: what goes away above lifts them once more."""
    chip = page.get_by_role("button", name="c", exact=True)
    before = None
    for _ in range(100):
        now = chip.bounding_box()
        if now is not None and now == before:
            return
        before = now
        page.wait_for_timeout(250)
    raise AssertionError("the chips never came to stand")


def _area(page: Page) -> dict[str, float]:
    """Where the map stands; it is nowhere for a moment while plotly draws it anew."""
    for _ in range(100):
        box = page.locator(".nsewdrag").first.bounding_box()
        if box is not None:
            return dict(box)
        page.wait_for_timeout(50)
    raise AssertionError("the map never came back")


def _spot(sentence: str, token: int) -> dict[str, Any]:
    return {"sentence": sentence, "tokens": [token]}


def test_chips_panel_and_map_light_each_other(page: Page) -> None:
    # a chip lights its column in the map
    chip = page.get_by_role("button", name="c", exact=True)  # column 1 of 5
    chip.hover()
    band = page.locator(BANDS)
    expect(band).to_have_count(1)
    lit, whole = band.bounding_box(), _area(page)
    assert lit is not None
    assert lit["width"] == pytest.approx(whole["width"] / 5, abs=2)
    assert lit["x"] == pytest.approx(whole["x"] + whole["width"] / 5, abs=2)
    assert lit["height"] == pytest.approx(whole["height"], abs=2)
    expect(chip).to_have_class(re.compile(r"\blit\b"))
    page.mouse.move(5, 5)
    expect(band).to_have_count(0)
    expect(chip).not_to_have_class(re.compile(r"\blit\b"))
    # a word of the panel lights its chip and its row
    page.locator("b").nth(1).hover()
    expect(page.locator(".tv-chip.lit")).to_have_text(["Ka"])
    expect(page.locator(BANDS)).to_have_count(1)
    page.locator("b").nth(1).click()
    expect(page.get_by_text("word {'row': 'produced:1', 'column': None}")).to_be_visible()
    page.mouse.move(5, 5)
    page.get_by_role("button", name="Ka", exact=True).hover()
    expect(page.locator("b.tv-lit")).to_have_text(["Ka"])
    page.locator("b").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("word {'row': 'produced:0', 'column': None}")).to_be_visible()
    # tokens of another sentence light nothing
    lit, band = page.locator(".tv-chip.lit"), page.locator(BANDS)
    shine(page, _spot("produced", 0), _spot("source", 1))
    expect(lit).to_have_text(["c", "die"])
    expect(band).to_have_count(2)
    shine(page, _spot("nobody", 0), _spot("nobody", 1))
    expect(lit).to_have_count(0)
    expect(band).to_have_count(0)
    # pointing into the map lights both words
    for again in (False, True):  # after the chart was drawn anew
        if again:
            page.get_by_role("button", name="other layer").click()
            page.wait_for_timeout(500)
        area = _area(page)
        # Row 1 is what "Ka" stands for; column 3 is the second "the".
        for down in (0.35, 0.37):
            page.mouse.move(area["x"] + area["width"] * 0.7, area["y"] + area["height"] * down)
        expect(page.locator(".tv-chip.lit")).to_have_text(["the (2)", "Ka"])
        expect(page.locator("b.tv-lit")).to_have_text(["Ka"])
        expect(page.locator(BANDS)).to_have_count(2)
        page.mouse.move(5, 5)
        expect(page.locator(".tv-chip.lit")).to_have_count(0)


def test_the_keyboard_and_what_cannot_be_chosen(page: Page) -> None:
    # a word outside the map cannot be chosen
    first = page.get_by_role("button", name="<s>", exact=True)
    expect(first).to_have_attribute("aria-disabled", "true")
    first.click(force=True)
    page.get_by_role("button", name="again").click()
    expect(page.get_by_text("chosen None")).to_be_visible()
    expect(page.get_by_role("button", name="at (hidden)")).to_have_class(re.compile("tv-gone"))
    # the keyboard lights chips too
    page.get_by_role("toolbar", name="target").get_by_role("button").first.focus()
    page.keyboard.press("ArrowRight")
    chip = page.get_by_role("button", name="die", exact=True)
    expect(chip).to_be_focused()
    expect(chip).to_have_class(re.compile(r"\blit\b"))
    expect(page.locator(BANDS)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_text("chosen Picked(side='target', token=1, row=0")).to_be_visible()
    expect(chip).to_have_attribute("aria-pressed", "true")
    expect(chip).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="tze", exact=True)).to_be_focused()
    # a lit word stays lit when the map is drawn anew
    page.get_by_role("button", name="the", exact=True).focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(BANDS)).to_have_count(1)
    page.keyboard.press("Enter")  # the page runs again; the keyboard stays where it is
    expect(page.get_by_text("chosen Picked(side='source', token=1")).to_be_visible()
    page.evaluate("document.querySelector('.tv-band').remove()")  # as when plotly draws anew
    page.evaluate("document.querySelector('.st-key-map').append(document.createElement('i'))")
    expect(page.locator(BANDS)).to_have_count(1)
    # a chart that is not there is not lit
    page.evaluate("document.activeElement.blur()")
    page.get_by_text("other chart").click()
    page.get_by_role("button", name="c", exact=True).hover()
    expect(page.locator(".tv-chip.lit")).to_have_text(["c"])
    expect(page.locator(BANDS)).to_have_count(0)


def test_frames_themes_and_chips_that_go(page: Page) -> None:
    # a dark page says so once
    page.emulate_media(color_scheme="dark")
    expect(page.get_by_text("told 1 True")).to_be_visible()
    _reset(page)  # as when it is opened by a page that is dark already
    expect(page.get_by_text("told 1 True")).to_be_visible()
    page.get_by_role("button", name="again").click()
    page.wait_for_timeout(500)
    expect(page.get_by_text("told 1 True")).to_be_visible()
    page.emulate_media(color_scheme="light")
    expect(page.get_by_text("told 2 False")).to_be_visible()
    _reset(page)
    # a live frame is shown until something newer comes
    shown = page.locator(".st-key-panel p")
    expect(shown).to_contain_text("step 3")
    page.evaluate("addEventListener('tv-painted', e => window.told = e.detail)")
    page.evaluate(FRAME, 4)
    expect(shown).to_have_text("live 4")
    page.wait_for_function("window.told?.seq === 4 && window.told.part === 'outcome'")
    page.evaluate(FRAME, 3)
    page.get_by_role("button", name="older").click()
    page.wait_for_timeout(500)
    expect(shown).to_have_text("live 4")
    page.get_by_role("button", name="newer").click()
    expect(shown).to_contain_text("step 5")
    _reset(page)
    # chips that are gone listen no more
    page.evaluate("window.heard = []; addEventListener('tv-light', e => heard.push(e.detail.row))")
    toggle = page.get_by_text("without chips")
    for shown in (True, False, True):
        expect(page.locator(".tv-chip")).to_have_count(9 if shown else 0)
        area = _area(page)
        for _ in range(50):  # on a busy machine the first moves may reach nobody yet
            for step in (0.3, 0.4):
                page.mouse.move(area["x"] + area["width"] * step, area["y"] + 10)
                page.wait_for_timeout(150)
            heard = page.evaluate("heard.splice(0).filter(row => row !== null)")
            if heard or not shown:
                break
        assert bool(heard) == shown and len(heard) <= 2  # one view speaks, not two
        page.mouse.move(5, 5)
        page.evaluate("heard.splice(0)")
        toggle.click()
