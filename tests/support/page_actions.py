"""What a visitor does with hands and keys, and what stands on the screen afterwards."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import PATIENCE
from tests.support.rest import OFTEN, rest
from tests.support.scripts import script
from transformer_viz.app.page_template import Page as AppPage
from transformer_viz.app.pages import PAGES
from transformer_viz.app.session.url_edits import unpack

Look = dict[str, Any]
UNMARKED = "rgba(0, 0, 0, 0)"
AWAITED = 0.2  # seconds between two looks that must agree

LOOK = script("look")
HEADS = script("heads")
TILE = script("tile")
CELL = script("cell")
CHOSEN = script("chosen")
OVERLAY = script("canvas_hash")
FOOT = "() => document.querySelector('.tv-foot')?.checkVisibility()"


def look(page: Page) -> Look:
    """Return what the screen shows; of a page that reloads itself, once it has loaded again."""
    try:
        found: Look = page.evaluate(LOOK)
    except PlaywrightError as error:
        if "Execution context was destroyed" not in str(error):
            raise
        page.wait_for_load_state()
        rest(page, still=0, patience=1000 * PATIENCE)
        found = page.evaluate(LOOK)
    return found


def still(page: Page) -> Look:
    """What stands on the screen when nothing moves any more.

    Pixels are read only once the page says that it rests.

    Raises:
        AssertionError: the page shows a traceback, or changes all the time.
        playwright.sync_api.TimeoutError: it never rests.
    """
    rest(page, still=0, patience=1000 * PATIENCE)
    end = time.monotonic() + PATIENCE
    before, now = None, look(page)
    while not (now == before and _finished(now)):
        assert time.monotonic() < end, f"no rest at {page.url}: {now['said']}"
        page.wait_for_timeout(1000 * AWAITED)
        before, now = now, look(page)
    assert page.get_by_test_id("stException").count() == 0
    return now


def _finished(now: Look) -> bool:
    pictures = None not in now["charts"].values()
    return now["resting"] and pictures and "…" not in now["said"].values()


def go(page: Page, link: str) -> Look:
    """Open a link and wait for all that belongs to it."""
    page.goto(link)
    page.wait_for_function(FOOT, timeout=1000 * PATIENCE, polling=OFTEN)
    return still(page)


def after(page: Page, act: Callable[[Page], object], *parts: str) -> tuple[Look, Look]:
    """What stood on the screen before and after something was done.

    Args:
        page: where.
        act: does it.
        parts: names of `Look` that must be others afterwards, such as ``said.row``.

    Raises:
        AssertionError: one of them stays the same; names it.
    """
    before = look(page)
    act(page)
    changed(page, before, *parts)
    return before, still(page)


def changed(page: Page, before: Look, *parts: str) -> None:
    """Wait until these parts are others than before, whatever else still moves."""
    end = time.monotonic() + PATIENCE
    seen = look(page)
    while same := [name for name in parts if part(seen, name) == part(before, name)]:
        assert time.monotonic() < end, f"{', '.join(same)} stayed the same at {page.url}"
        page.wait_for_timeout(100)
        seen = look(page)


def part(seen: Look, name: str) -> Any:
    """A part of a look, such as ``edits``, or ``charts.head-view``."""
    found: Any = seen
    for word in name.split(".", 1):
        found = found.get(word) if isinstance(found, dict) else None
    return found


def differing(before: Look, now: Look) -> set[str]:
    """The names of what is not the same in two looks, as `part` takes them."""
    names = set()
    for name in before.keys() | now.keys():
        was, has = before.get(name), now.get(name)
        if isinstance(was, dict) and isinstance(has, dict):
            inner = was.keys() | has.keys()
            names |= {f"{name}.{word}" for word in inner if was.get(word) != has.get(word)}
        elif was != has:
            names.add(name)
    return names


def follows_theme(page: Page, apart: str = "") -> None:
    """Make the page dark and light again: background and pictures follow, then all is as before.

    Args:
        page: where; light.
        apart: a part of a look that is the same in both.
    """
    light = still(page)
    names = [name for key in light["charts"] if (name := f"charts.{key}") != apart]
    assert names and _lightness(page) > 0.9
    _, dark = after(page, lambda p: p.emulate_media(color_scheme="dark"), *names)
    assert _lightness(page) < 0.2 and dark["said"] == light["said"]
    _, again = after(page, lambda p: p.emulate_media(color_scheme="light"), *names)
    assert differing(light, again) == set()


def _lightness(page: Page) -> float:
    colour = page.get_by_test_id("stApp").evaluate("e => getComputedStyle(e).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 765


def address(base: str, path: str = "", **words: Any) -> str:
    """A link of the app."""
    return f"{base}/{path}?{urlencode(words)}"


def query(page: Page) -> dict[str, str]:
    """Return the keys of the link. A run writes them when it ends, so this waits for the end."""
    rest(page, still=0)
    return {name: texts[0] for name, texts in parse_qs(urlsplit(page.url).query).items()}


def edits(page: Page) -> list[dict[str, Any]]:
    """The edits of the link."""
    text = query(page).get("edits")
    found: list[dict[str, Any]] = json.loads(unpack(text))["edits"] if text else []
    return found


def type_sentence(page: Page, sentence: str) -> None:
    """Write another sentence and press Enter."""
    box = page.get_by_label("English sentence")
    box.fill(sentence)
    box.press("Enter")


def press(page: Page, name: str, key: str, times: int = 1) -> None:
    """Move a slider by keys."""
    page.get_by_role("slider", name=name).focus()
    for _ in range(times):
        page.keyboard.press(key)


def pick(page: Page, group: str, name: str) -> None:
    """Click on one of several choices side by side."""
    choices = page.get_by_role("radiogroup", name=group, exact=True)
    choices.get_by_role("radio", name=name, exact=True).click()


#: What the dock keeps folded under "more".
FOLDED = ("hide words", "cut links of the chosen row", "padding", "masked", "factor")


def unfold(page: Page, name: str) -> None:
    """Open "more" in the dock, if what is named stands there."""
    inside = page.get_by_test_id("stPopoverBody").locator(".st-key-hide")
    if name in FOLDED and not inside.is_visible():
        page.locator(".st-key-more button").first.click()
        expect(inside).to_be_visible()


def fold(page: Page) -> None:
    """Close "more" again, if it is open."""
    body = page.get_by_test_id("stPopoverBody")
    if body.locator(".st-key-hide").count():
        page.keyboard.press("Escape")
        expect(body).to_have_count(0)


def choose(page: Page, box: str, option: str) -> None:
    """Choose from a list that opens; ``option`` is how its words begin."""
    place = page.get_by_role("combobox", name=box, exact=True)
    wanted = re.compile(f"^{re.escape(option)}(\\s|$)")
    end, clicked = time.monotonic() + PATIENCE, False
    while True:
        assert time.monotonic() < end, f"{option} cannot be chosen at {page.url}"
        unfold(page, box)  # once more, if the page has closed it meanwhile
        if clicked and not place.count():  # gone with what was chosen in it
            break
        try:
            if any(map(wanted.match, place.evaluate(CHOSEN, timeout=3000))):
                break
            place.scroll_into_view_if_needed(timeout=3000)
            page.wait_for_timeout(100)  # scrolling would close the list again
            place.click(timeout=3000)
            page.get_by_role("option", name=wanted).click(timeout=3000)
            clicked = True
            page.wait_for_timeout(100)
        except PlaywrightError:  # closed by a page that scrolled, or drawn anew: once more
            _close_list(page)
    _close_list(page)
    fold(page)


def _close_list(page: Page) -> None:
    """Close a list if it is open; Escape in a closed one would clear what was chosen in it."""
    if page.get_by_role("listbox").count():
        page.keyboard.press("Escape")


def enter(page: Page, box: str, value: str) -> None:
    """Type a number into its box."""
    unfold(page, box)
    place = page.get_by_role("spinbutton", name=box, exact=True)
    place.fill(value)
    place.press("Enter")
    fold(page)


def switch(page: Page, name: str) -> None:
    """Turn a switch, at the left of its words."""
    unfold(page, name)
    place = page.get_by_role("switch", name=name, exact=True).locator("xpath=ancestor::label")
    place.click(position={"x": 8, "y": 8})
    fold(page)


def click(page: Page, name: str) -> None:
    """Click on a button by its exact words."""
    page.get_by_role("button", name=name, exact=True).click()


def visit_page(page: Page, name: str) -> None:
    """Go to another page by the navigation: open its menu, and click on its name."""
    page.get_by_test_id("stTopNavSection").filter(has_text=_named(name).group).click()
    page.get_by_role("menuitem", name=name, exact=True).click()


def shows_page(page: Page, name: str) -> None:
    """Wait until a page is open: its address says so, and the mark below its menu."""
    here = _named(name)
    page.wait_for_url(lambda url: urlsplit(url).path.strip("/") in (here.path, here.address))
    menus = [*dict.fromkeys(one.group for one in PAGES)]
    sections = page.get_by_test_id("stTopNavSection")
    expect(sections).to_have_count(len(menus))  # of the page before some may stand there still
    for number, menu in enumerate(sections.all()):
        if menus[number] == here.group:
            expect(menu).not_to_have_css("border-bottom-color", UNMARKED)
        else:
            expect(menu).to_have_css("border-bottom-color", UNMARKED)


def _named(name: str) -> AppPage:
    return next(one for one in PAGES if one.title == name)


def heads(page: Page) -> list[list[int]]:
    """Layer and head of every tile in the atlas."""
    found: list[list[int]] = page.evaluate(HEADS)
    return found


def tile_box(page: Page, layer: int, head: int) -> dict[str, float]:
    """Where a head of the opened block is in the atlas: left, top, width, height in the window."""
    page.locator(".st-key-atlas").scroll_into_view_if_needed()
    found: dict[str, float] = page.evaluate(TILE, [layer, head])
    return found


def tile(page: Page, layer: int, head: int) -> None:
    """Click on a head in the atlas."""
    page.mouse.click(*middle(tile_box(page, layer, head)))


def cell(page: Page, row: int, column: int) -> dict[str, float]:
    """Where a cell of the opened head's map is: left, top, width, height in the window."""
    page.locator(".st-key-head-view").scroll_into_view_if_needed()
    found: dict[str, float] = page.evaluate(CELL, [row, column])
    return found


def click_cell(page: Page, row: int, column: int) -> None:
    """Click into the opened head's map."""
    page.mouse.click(*middle(cell(page, row, column)))


def overlay(page: Page, place: str) -> int:
    """The pixels of a picture's second canvas, where what is pointed at lights up, as a number."""
    found: int = page.locator(f"{place} canvas").nth(1).evaluate(OVERLAY)
    return found


def middle(box: dict[str, float]) -> tuple[float, float]:
    """The middle of a rectangle in the window."""
    return box["left"] + box["width"] / 2, box["top"] + box["height"] / 2


def chip(page: Page, side: str, number: int) -> Locator:
    """A token of a sentence."""
    return page.get_by_role("toolbar", name=side, exact=True).get_by_role("button").nth(number)


def plot(page: Page, key: str) -> Locator:
    """The area of a plotly picture in which its data stand."""
    return page.locator(f".st-key-{key} .nsewdrag").first


def click_plot(page: Page, key: str, across: float, down: float) -> None:
    """Click into a plotly picture, at parts (0...1) of its width and height."""
    area = plot(page, key)
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * down)


def opened(page: Page, label: str) -> None:
    """Until the card of that head is open."""
    expect(page.locator("h2", has_text=re.compile(rf"^{label}\b"))).to_be_visible()
