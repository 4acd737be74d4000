"""Step inside and Play in Chromium: stations, sums and steps by keys; the link has them all.

The numbers: test_walkthrough.py and test_play.py of tests/browser/components and tests/app/pages.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import page_actions
from tests.support.first_run import SOURCE
from tests.support.page_actions import address, go, query
from tests.support.rest import rest

STATIONS = {"encoder": 18, "decoder": 19, "cross": 19}
PLACE = {"layer": 1, "head": 3, "token": 10}
SHARES = "Scores become shares"


def inside(page: Page, what: str) -> Locator:
    """Something in the picture of the chain."""
    return page.locator(f".st-key-inside {what}")


def value(text: str) -> float:
    return float(text.replace("−", "-"))


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
def test_step_inside_by_keys_pointer_and_slider(page: Page, url: str) -> None:
    title, word = inside(page, ".tv-in-title"), inside(page, ".tv-in-word")
    go(page, address(url, "step-inside", block="encoder", step=4, number="score.self/out/1"))
    expect(inside(page, ".tv-in-sum h4")).to_contain_text("animal")
    go(page, address(url, "step-inside", block="encoder", step=8, **PLACE))
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text(SHARES)
    expect(page).to_have_url(re.compile("step=9"))
    adds_up(page, inside(page, ".tv-in-pictures button.tv-in-number:not(:disabled)").last)

    weights = inside(page, ".tv-in-key[data-key] button")
    before = weights.all_inner_texts()
    page_actions.press(page, "temperature", "End")
    expect(weights.last).not_to_have_text(before[-1])
    expect(page).to_have_url(re.compile("edits="))
    expect(title).to_have_text(SHARES)
    page.get_by_role("button", name="back to clean").click()
    expect(weights.last).to_have_text(before[-1])
    assert weights.all_inner_texts() == before

    page_actions.chip(page, "source", 4).click()
    expect(word).to_have_text(SOURCE[4])
    expect(title).to_have_text(SHARES)
    page.get_by_role("radio", name="Decoder").click()
    expect(inside(page, ".tv-in-where")).to_contain_text("Decoder")
    expect(title).to_have_text(SHARES)
    rest(page)
    words = query(page)
    page.reload()
    expect(title).to_have_text(SHARES)
    assert query(page) == words

    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address(url, "step-inside", block="cross", present="on", step=7, **PLACE))
    expect(title).to_have_text("Keep the scores small")
    for part in (".tv-in-word", ".tv-in-title", ".tv-in-why", ".tv-in-formula"):
        size = inside(page, part).evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
        assert size >= 22, part
    box = inside(page, ".tv-in-keys").bounding_box()
    assert box is not None and box["y"] + box["height"] <= 720 - 82  # above the slider
    page.keyboard.press("PageDown")
    expect(title).to_have_text("Who may be looked at?")


@pytest.mark.soak  # held by test_walkthrough.py and tests/app/pages/test_step_inside.py
@pytest.mark.shipped
@pytest.mark.parametrize("block", STATIONS)
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


OUTPUT = ".st-key-play .tv-play output"
#: Choose a layer, and a head before the layer is answered; an older answer draws the box meanwhile.
RACE = """tools => {
    const [layer, head] = tools.querySelectorAll("select");
    const choose = (box, value) => {
        box.value = value;
        box.dispatchEvent(new Event("change", { bubbles: true }));
    };
    choose(layer, "2");
    layer.value = "0";
    choose(head, "3");
}"""


def linked(page: Page, **words: str | None) -> None:
    """Wait until the link says so."""
    for name, value in words.items():
        page.wait_for_function(
            "([name, value]) => new URLSearchParams(location.search).get(name) === value",
            arg=[name, value],
        )


def chips(page: Page) -> list[str]:
    found: list[str] = page.locator(".st-key-play .chip").evaluate_all(
        "all => all.filter(one => getComputedStyle(one).visibility === 'visible')"
        ".map(one => one.textContent)"
    )
    return found


def test_play_by_keys_and_choices(page: Page, url: str) -> None:
    page.goto(address(url, "play"))
    expect(page.locator(OUTPUT)).to_be_visible()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    linked(page, played="4")
    page.locator(".st-key-play .sheet button.left:visible").first.click()
    page.wait_for_function("() => new URLSearchParams(location.search).has('branch')")
    why, texts, link = page.locator(".st-key-play .why"), chips(page), query(page)
    expect(why).to_contain_text("Left out at token")
    page.reload()
    expect(page.locator(OUTPUT)).to_be_visible()
    assert chips(page) == texts and query(page) == link, "a reload"

    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(address(url, "play", present="on", search="greedy"))
    expect(page.locator(OUTPUT)).to_be_visible()
    page_actions.still(page)  # keys are heard once the script has run
    for key, token in (("ArrowRight", 2), ("ArrowRight", 3), ("ArrowLeft", 2)):
        page.keyboard.press(key)
        expect(page.locator(OUTPUT)).to_contain_text(f"token {token} of")
    page.locator(".st-key-play .row .tools").evaluate(RACE)
    linked(page, layer="2", head="3", pooled="off")
    expect(page.locator(".st-key-play .row")).to_contain_text("One head alone: L2 H3.")
