"""One screen: the dock of controls and all that it changes are in sight together."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, FloatRect, Page, expect

from tests.support import page_actions
from tests.support.browser import visit
from tests.support.page_actions import (
    address,
    after,
    choose,
    click,
    edits,
    fold,
    go,
    press,
    still,
    unfold,
)
from tests.support.scripts import script

LINK: dict[str, Any] = {"block": "cross", "layer": 1, "head": 3}
SCREENS = ((1440, 900), (1280, 720))
HAND = ("scope", "temperature", "window", "causal", "head_state", "more", "undo", "clean")
DOCKED = ("", "step-inside", "play", "positions", "norms")
UNSEEN = 0.002  # of the screen: the line that says that the page waits, over the pictures


def box_of(page: Page, key: str) -> FloatRect:
    found = page.locator(f".st-key-{key}").bounding_box()
    assert found is not None, key
    return found


def scrolled(page: Page) -> float:
    """By how many pixels the page is scrolled down."""
    found: float = page.get_by_test_id("stMain").evaluate("main => main.scrollTop")
    return found


@pytest.mark.parametrize(("width", "height"), SCREENS)
@pytest.mark.parametrize("warm", [False, True])
def test_hand_and_pictures_are_on_one_screen(
    page: Page, url: str, width: int, height: int, warm: bool
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    now = go(page, address(url, **LINK))
    if warm:
        press(page, "temperature", "ArrowRight", 6)
        now = still(page)
        assert now["said"]["before"] and now["said"]["after"] not in ("", "…")
    assert scrolled(page) == 0  # the keys on the slider above have not moved the page
    dock = box_of(page, "dock")
    assert abs(dock["y"] + dock["height"] - height) < 1 and dock["width"] >= min(width, 1400) - 1
    for key in HAND:
        control = box_of(page, key)
        assert control["y"] >= dock["y"] and control["y"] + control["height"] <= height, key
        assert control["x"] >= 0 and control["x"] + control["width"] <= width, key
    box = page.get_by_label("English sentence").bounding_box()
    lines = page.locator(".tv-written").bounding_box()
    assert box is not None and lines is not None
    assert (
        box["y"] >= 0 and lines["y"] + lines["height"] - box["y"] <= 200
    )  # what stands above the pictures
    seen = page.evaluate(script("pictures_on_page"))
    assert len(seen["tiles"]) == 24
    for part in (*seen["tiles"], seen["cells"]):
        assert part["top"] > lines["y"] + lines["height"]
        assert part["top"] + part["height"] <= dock["y"]
        assert part["left"] >= 0 and part["left"] + part["width"] <= width
        assert part["width"] >= 24 and part["height"] >= 24


def test_the_dock_stands_at_the_same_place_on_every_page(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    places = []
    for path in DOCKED:
        go(page, address(url, path, **LINK))
        places.append([box_of(page, key) for key in ("scope", "temperature", "window", "more")])
    assert all(place == places[0] for place in places)


def test_german_has_two_lines_of_controls_as_english_has(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    tops = {}
    for lang in ("en", "de"):
        go(page, address(url, lang=lang, **LINK))
        tops[lang] = {key: box_of(page, key)["y"] for key in ("dock", "scope", "more", "clean")}
    assert tops["de"] == tops["en"]


def test_nothing_moves_while_the_slider_does(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    go(page, address(url, **LINK))
    page.evaluate(script("watch_shifts"))
    box = page.get_by_role("slider", name="temperature").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 0.4 * box["width"], y, steps=12)
    page.mouse.up()
    still(page)
    assert [edit["kind"] for edit in edits(page)] == ["temperature"]
    shifts = page.evaluate("window.shifts")
    assert sum(shifts) <= UNSEEN, shifts


def test_what_to_try_is_said_until_it_was_tried(browser: Browser, url: str) -> None:
    """In a browser that was never here; other tests share theirs."""
    with visit(browser, timezone_id="Asia/Kolkata") as page:
        hint = page.locator(".tv-hint")
        go(page, address(url, **LINK))
        expect(hint).to_be_visible()
        press(page, "temperature", "ArrowRight", 4)
        still(page)
        page.locator(".st-key-clean button").click()
        expect(page.locator(".tv-as-trained")).to_be_visible()
        expect(hint).to_be_hidden()
        go(page, address(url, "norms", **LINK))
        expect(hint).to_be_hidden()
        page.context.close()
    with visit(browser, timezone_id="Asia/Kolkata") as page:
        go(page, address(url, **LINK))
        expect(page.locator(".tv-hint")).to_be_visible()


def test_the_tab_key_in_the_dock_leaves_the_page_where_it_is(page: Page, url: str) -> None:
    """And brings what it leads to above the dock, where that stands in the page."""
    page.set_viewport_size({"width": 1280, "height": 720})
    go(page, address(url, **LINK))
    page.locator(".st-key-scope button").first.focus()
    for _ in range(6):
        assert scrolled(page) == 0
        page.keyboard.press("Tab")
    page.get_by_role("combobox", name="column", exact=True).focus()
    assert scrolled(page) > 0
    chosen = page.get_by_role("combobox", name="column", exact=True).bounding_box()
    assert chosen is not None
    assert chosen["y"] + chosen["height"] <= box_of(page, "dock")["y"]


def test_more_unfolds_by_the_keyboard(page: Page, url: str) -> None:
    go(page, address(url, **LINK))
    more = page.locator(".st-key-more button")
    page.get_by_role("slider", name="window").focus()
    for _ in range(12):
        page.keyboard.press("Tab")
        if more.evaluate("one => one === document.activeElement"):
            break
    expect(more).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-hide")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".st-key-hide")).to_be_hidden()


def test_a_phone_has_the_dock_at_its_foot(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 400, "height": 850})
    go(page, address(url, **LINK))
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    dock = box_of(page, "dock")
    assert abs(dock["y"] + dock["height"] - 850) < 1 and dock["height"] <= 130
    slider = page.get_by_role("slider", name="temperature")
    slider.scroll_into_view_if_needed()
    swiped = slider.bounding_box()
    assert swiped is not None and swiped["x"] >= 0 and swiped["x"] + swiped["width"] <= 400
    page.locator(".st-key-atlas").scroll_into_view_if_needed()
    seen = page.evaluate(script("pictures_on_page"))
    lowest = max(tile["top"] + tile["height"] for tile in seen["tiles"])
    assert seen["room"]["top"] + seen["room"]["height"] - lowest <= 24  # no hole below the tiles


def test_the_first_page_opens_by_its_name(page: Page, url: str) -> None:
    go(page, address(url, "explore", layer=2, head=3))
    expect(page.get_by_text("Page not found")).to_have_count(0)
    expect(page.locator(".st-key-card-head h2")).to_contain_text("L2 H3")


def folded_values(page: Page) -> tuple[list[str], str, str]:
    """What stands behind "more": the hidden words, the factor, the padding."""
    unfold(page, "hide words")
    body = page.get_by_test_id("stPopoverBody")
    expect(body.locator(".st-key-hide")).to_be_visible()
    hidden = page.get_by_role("combobox", name="hide words").evaluate(page_actions.CHOSEN)
    numbers = [page.get_by_role("spinbutton", name=name) for name in ("factor", "padding")]
    found = [number.input_value() for number in numbers]
    fold(page)
    words = {word.strip() for words in hidden for word in words.split("\n")}
    return sorted(words - {""}), found[0], found[1]


def test_what_is_folded_shows_what_links_and_steps_back_say(page: Page, url: str) -> None:
    """Controls that the browser builds late used to begin at their defaults, and to write these."""
    kept = {"kind": "block_keys", "keys": [2, 5], "stack": "encoder", "block": "self"}
    padded = {"kind": "pad", "count": 3, "masked": True}
    place = {"block": "encoder", "layer": 1, "head": 2, "token": 1}
    go(page, address(url, **place, edits=json.dumps({"edits": [kept, padded]})))
    after(page, lambda p: press(p, "temperature", "ArrowRight"), "edits")  # the link's run is over
    assert folded_values(page) == (["did", "the"], "0.50", "3")
    after(page, lambda p: choose(p, "hide words", "street"), "edits")
    assert [e["keys"] for e in edits(page) if e["kind"] == "block_keys"] == [[2, 5], [2, 5, 6]]
    assert folded_values(page)[0] == ["did", "street", "the"]
    after(page, lambda p: click(p, "↶ undo"), "edits")
    after(page, lambda p: press(p, "temperature", "ArrowRight"), "edits")
    assert [e["keys"] for e in edits(page) if e["kind"] == "block_keys"] == [[2, 5]]
    assert folded_values(page) == (["did", "the"], "0.50", "3")


def test_a_held_target_is_still_in_its_panel_after_another_language(page: Page, url: str) -> None:
    go(page, address(url, target="Der Hund schläft."))
    for name in ("中文", "English"):
        page.get_by_role("radio", name=name).click()
        still(page)
    click(page, "Target")
    box = page.get_by_role("textbox", name="Hold these target words")
    expect(box).to_have_value("Der Hund schläft.")
    after(page, lambda p: (box.fill("Der Hund rennt."), box.press("Enter")), "query")
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    assert still(page)["query"]["target"] == "Der Hund rennt."
