"""Step inside in the real app: every station of three blocks, its sums, and what changes them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import page_actions
from tests.support.first_run import SOURCE
from tests.support.page_actions import address, go, query

STATIONS = {"encoder": 18, "decoder": 19, "cross": 19}
PLACE = {"layer": 1, "head": 3, "token": 10}


def inside(page: Page, what: str) -> Locator:
    """Something in the picture of the chain."""
    return page.locator(f".st-key-inside {what}")


def value(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.shipped
@pytest.mark.parametrize(
    "block",
    [
        "cross",
        *(pytest.param(block, marks=pytest.mark.soak) for block in STATIONS if block != "cross"),
    ],
)
def test_a_walk_over_all_stations(page: Page, url: str, block: str) -> None:
    """By the keys of the keyboard; at each a number is opened, and its terms add up."""
    go(page, address(url, "step-inside", block=block, **PLACE))
    count = STATIONS[block]
    titles = []
    for at in range(count):
        expect(inside(page, ".tv-in-count")).to_have_text(f"{at + 1} of {count}")
        titles.append(inside(page, ".tv-in-title").inner_text())
        numbers = inside(page, ".tv-in-pictures button.tv-in-number:not(:disabled)")
        if numbers.count():
            adds_up(page, numbers.last)
        page.keyboard.press("ArrowRight")
    assert len(set(titles)) >= count - 2  # two norms, two sums
    expect(page).to_have_url(re.compile(f"step={count - 1}"))
    assert query(page)["block" if block != "cross" else "token"] in (block, "10")


def adds_up(page: Page, number: Locator) -> None:
    """A click on a number shows the sum that makes it; it is closed again."""
    shown = number.inner_text()
    number.click()
    expect(inside(page, ".tv-in-sum h4 b")).to_have_text(shown)
    said = inside(page, ".tv-in-sum-formula").inner_text()
    last = re.findall(r"[−\d.]+(?:·10[⁻⁰-⁹¹²³]+)?", said)[-1]
    if "·" not in shown:
        assert value(last) == pytest.approx(value(shown), abs=2e-4)
    inside(page, ".tv-in-close").click()
    expect(inside(page, ".tv-in-sum")).to_be_hidden()


@pytest.mark.shipped
def test_a_slider_changes_the_chain_and_not_the_station(page: Page, url: str) -> None:
    go(page, address(url, "step-inside", block="encoder", step=9, **PLACE))
    expect(inside(page, ".tv-in-title")).to_have_text("Scores become shares")
    weights = inside(page, ".tv-in-key[data-key] button")
    before = weights.all_inner_texts()
    page_actions.press(page, "temperature", "End")
    expect(weights.last).not_to_have_text(before[-1])
    expect(page).to_have_url(re.compile("edits="))
    expect(inside(page, ".tv-in-title")).to_have_text("Scores become shares")
    page.get_by_role("button", name="back to clean").click()
    expect(weights.last).to_have_text(before[-1])
    assert weights.all_inner_texts() == before


@pytest.mark.shipped
def test_a_word_a_block_and_a_reload(page: Page, url: str) -> None:
    go(page, address(url, "step-inside", block="encoder", step=4, number="score.self/out/1"))
    expect(inside(page, ".tv-in-sum h4")).to_contain_text("animal")
    page_actions.chip(page, "source", 4).click()
    expect(inside(page, ".tv-in-word")).to_have_text(SOURCE[4])
    expect(inside(page, ".tv-in-title")).to_have_text("How well does each key fit?")
    page.get_by_role("radio", name="Decoder").click()
    expect(inside(page, ".tv-in-where")).to_contain_text("Decoder")
    expect(inside(page, ".tv-in-title")).to_have_text("How well does each key fit?")
    title, words = inside(page, ".tv-in-title").inner_text(), query(page)
    page.reload()
    expect(inside(page, ".tv-in-title")).to_have_text(title)
    assert query(page) == words


@pytest.mark.shipped
def test_a_class_reads_one_station_on_one_screen(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address(url, "step-inside", block="cross", present="on", step=7, **PLACE))
    expect(inside(page, ".tv-in-title")).to_have_text("Keep the scores small")
    for part in (".tv-in-word", ".tv-in-title", ".tv-in-why", ".tv-in-formula"):
        size = inside(page, part).evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
        assert size >= 22
    box = inside(page, ".tv-in-keys").bounding_box()
    assert box is not None and box["y"] + box["height"] <= 720 - 82  # above the slider
    page.keyboard.press("PageDown")
    expect(inside(page, ".tv-in-title")).to_have_text("Who may be looked at?")
