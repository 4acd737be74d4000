"""Explore on every screen: controls and pictures in sight together, corner, menus, a phone."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import FloatRect, Locator, Page, Route, expect

from tests.support import page_actions
from tests.support.page_actions import address, follows_theme, go, press, still
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.app.pages import PAGES
from transformer_viz.i18n import languages

LINK: dict[str, Any] = {"block": "cross", "layer": 1, "head": 3}
SCREENS = ((1440, 900), (1280, 720))
HAND = ("scope", "temperature", "window", "causal", "head_state", "more", "undo", "clean")


def test_controls_and_pictures_are_on_one_screen(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    go(page, address(url, **LINK))
    expect(page.locator(".tv-hint")).to_be_visible()  # what to try, until it was tried
    for warm in (False, True):
        if warm:
            press(page, "temperature", "ArrowRight", 6)
            now = still(page)
            assert now["said"]["before"] and now["said"]["after"] not in ("", "…")
        for width, height in SCREENS:
            _fits(page, width, height)
    follows_theme(page)
    page.locator(".st-key-clean button").click()
    expect(page.locator(".tv-as-trained")).to_be_visible()
    expect(page.locator(".tv-hint")).to_be_hidden()

    lines = ("dock", "scope", "more", "clean")
    tops = [box_of(page, key)["y"] for key in lines]  # at 1280 × 720 by now
    for lang in ("de", "zh", "en"):
        page.locator(f".st-key-lang button >> nth={[*languages()].index(lang)}").click()
        expect(page.locator("html")).to_have_attribute("lang", lang)
        for width in (800, 1440, 1280):
            page.set_viewport_size({"width": width, "height": 720})
            rest(page)
            _corner_touches_nothing(page, width, f"{lang} at {width}")
        if lang == "de":
            assert tops == [box_of(page, key)["y"] for key in lines], "two lines of controls"

    _tab_in_the_dock(page)


def _fits(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    rest(page)
    assert scrolled(page) == 0  # keys on the slider have not moved the page
    dock = box_of(page, "dock")
    assert abs(dock["y"] + dock["height"] - height) < 1 and dock["width"] >= min(width, 1400) - 1
    for key in HAND:
        control = box_of(page, key)
        assert control["y"] >= dock["y"] and control["y"] + control["height"] <= height, key
        assert control["x"] >= 0 and control["x"] + control["width"] <= width, key
    sentence = box(page.get_by_label("English sentence"))
    lines = box(page.locator(".tv-written"))
    foot = lines["y"] + lines["height"]
    assert sentence["y"] >= 0 and foot - sentence["y"] <= 200, "what stands above the pictures"
    seen = page.evaluate(script("pictures_on_page"))
    assert len(seen["tiles"]) == 24
    for part in (*seen["tiles"], seen["cells"]):
        assert part["top"] > foot and part["top"] + part["height"] <= dock["y"]
        assert part["left"] >= 0 and part["left"] + part["width"] <= width
        assert part["width"] >= 24 and part["height"] >= 24


def _corner_touches_nothing(page: Page, width: int, where: str) -> None:
    """The corner is inside of the window, in one line, and right of all names of pages."""
    menus = page.get_by_test_id("stTopNavSection")
    expect(menus, where).to_have_count(len({one.group for one in PAGES}))
    corner = box(page.locator(".st-key-corner"))
    assert corner["x"] + corner["width"] <= width and corner["y"] >= 0, where
    buttons = [one for one in page.locator(".st-key-corner button").all() if one.bounding_box()]
    tops = {round(box(button)["y"] + box(button)["height"] / 2) for button in buttons}
    assert len(buttons) == 2 + len(languages()) and max(tops) - min(tops) <= 2, where
    links = page.get_by_test_id("stTopNav").locator("a, button").all()
    seen = [link for link in links if link.bounding_box() and box(link)["width"] > 2]
    inside = [link for link in seen if "hidden" not in (link.get_attribute("aria-hidden") or "")]
    right = max(box(link)["x"] + box(link)["width"] for link in inside if link.is_visible())
    assert right <= corner["x"], where


def _tab_in_the_dock(page: Page) -> None:
    """Tab in the dock leaves the page where it is, unfolds "more", and shows what it leads to."""
    page.locator(".st-key-scope button").first.focus()
    more = page.locator(".st-key-more button")
    for _ in range(24):
        assert scrolled(page) == 0
        page.keyboard.press("Tab")
        if more.evaluate("one => one === document.activeElement"):
            break
    expect(more).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-hide")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".st-key-hide")).to_be_hidden()
    column = page.get_by_role("combobox", name="column", exact=True)
    column.focus()
    assert scrolled(page) > 0
    assert box(column)["y"] + box(column)["height"] <= box_of(page, "dock")["y"]


def test_a_phone_has_dock_pictures_and_pages(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 400, "height": 850})
    go(page, address(url, "explore", **LINK))  # the first page by its name
    expect(page.get_by_text("Page not found")).to_have_count(0)
    assert page.evaluate(script("too_wide")) == []
    dock = box_of(page, "dock")
    assert abs(dock["y"] + dock["height"] - 850) < 1 and dock["height"] <= 130
    slider = page.get_by_role("slider", name="temperature")
    slider.scroll_into_view_if_needed()
    swiped = box(slider)
    assert swiped["x"] >= 0 and swiped["x"] + swiped["width"] <= 400
    page.locator(".st-key-atlas").scroll_into_view_if_needed()
    seen = page.evaluate(script("pictures_on_page"))
    lowest = max(tile["top"] + tile["height"] for tile in seen["tiles"])
    assert seen["room"]["top"] + seen["room"]["height"] - lowest <= 24, "no hole below the tiles"

    page.get_by_test_id("stExpandSidebarButton").click()
    names = page.get_by_test_id("stSidebarNav")
    for one in PAGES:
        expect(names.get_by_text(one.title, exact=True)).to_be_visible()
    page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()  # nothing above it
    expect(names).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    names.get_by_text("About", exact=True).click()
    page.wait_for_url("**/about*")
    page.set_viewport_size({"width": 800, "height": 900})
    page_actions.visit_page(page, "Lessons")
    page_actions.shows_page(page, "Lessons")


def box(place: Locator) -> FloatRect:
    found = place.bounding_box()
    assert found is not None, place
    return found


def box_of(page: Page, key: str) -> FloatRect:
    return box(page.locator(f".st-key-{key}"))


def scrolled(page: Page) -> float:
    """By how many pixels the page is scrolled down."""
    found: float = page.get_by_test_id("stMain").evaluate("main => main.scrollTop")
    return found


def test_a_component_is_not_shown_without_its_style_sheet(page: Page, url: str) -> None:
    """A busy server sends the style sheet late; plain buttons must not flash until then."""
    late: list[Route] = []
    page.route("**/pictures.css*", lambda route: late.append(route))
    page.goto(address(url, **LINK))
    place = page.locator(".st-key-temperature .tv-slider-help")
    place.wait_for(state="attached")
    expect(place).to_be_hidden()
    assert late
    for route in late:
        route.continue_()
    expect(place).to_be_visible()
    assert place.evaluate("one => getComputedStyle(one).borderRadius") == "50%"
    page.unroute("**/pictures.css*")
