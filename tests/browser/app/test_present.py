"""Presenting and sharing in Chromium: the back row reads it, keys step, a phone reads the code."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import ELSEWHERE
from tests.support.page_actions import address, press, query, still
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.app.pages import PAGES
from transformer_viz.app.shell.share import SERVE
from transformer_viz.core.interventions import Intervention, Temperature

BACK_ROW = {"width": 1280, "height": 720}
WARM = Intervention(
    (Temperature(value=2.5, stack="decoder", block="cross", layer=1, head=3),)
).to_json()
LEAST = 21.9  # pixels of the smallest letters
#: Pages whose letters `make test` looks at besides Explore: plotly's and a table's, text, a lab's.
READ = ("norms", "lessons", "labs")
#: The page has taken the dark theme.
DARK = """() => getComputedStyle(document.querySelector('.stApp'))
    .backgroundColor.includes('(20, 23, 28')"""
ON_TOP = """one => one.contains(document.elementFromPoint(...(({x, y, width, height}) =>
    [x + width / 2, y + height / 2])(one.getBoundingClientRect())))"""
PRESENTING = "html[data-present]"


def opened(page: Page, link: str) -> None:
    """Open a link and wait until its pictures stand."""
    page.goto(link)
    page.locator(".st-key-head-view [data-painted]").wait_for()
    page.locator(".tv-foot").wait_for(state="attached")
    rest(page)


def box(place: Locator) -> dict[str, Any]:
    found = place.bounding_box()
    assert found is not None, place
    return dict(found)


def share(page: Page) -> Locator:
    """Open ⟨Share⟩."""
    page.locator(".st-key-corner").get_by_role("button", name="Share").click()
    return page.get_by_test_id("stPopoverBody")


def test_a_class_sees_everything_and_keys_lead_it(page: Page, url: str) -> None:
    page.set_viewport_size(BACK_ROW)  # type: ignore[arg-type]
    opened(page, f"{url}/?present=on&layer=1&head=3")
    _one_screen(page)
    assert page.evaluate(script("small_text"), LEAST) == []
    _share_without_a_code(page)
    opened(page, f"{url}/?present=on&layer=1&head=7")
    _keys(page)
    _before_and_after(page)
    _unfolded(page)
    _leaves_by_escape(page)
    for path in READ:
        _letters(page, url, path)
    _a_station(page, url)


def _one_screen(page: Page) -> None:
    for part in (".st-key-atlas", ".st-key-head-view", ".st-key-temperature", ".tv-presented"):
        place = box(page.locator(part).first)
        assert place["x"] >= 0 and place["x"] + place["width"] <= BACK_ROW["width"], part
        assert place["y"] >= 0 and place["y"] + place["height"] <= BACK_ROW["height"], part
        assert place["height"] > 20, part
    pictures = box(page.locator(".st-key-pictures"))
    assert pictures["y"] + pictures["height"] <= box(page.locator(".st-key-temperature"))["y"] + 8
    assert page.evaluate("document.documentElement.scrollWidth") == BACK_ROW["width"]
    assert page.locator(".st-key-hide").is_hidden()
    expect(page.locator(".st-key-compare")).to_be_hidden()  # nothing is changed yet


def _share_without_a_code(page: Page) -> None:
    """A server for this machine alone says how to serve others; Escape closes only the panel."""
    body = share(page)
    expect(body).to_contain_text(SERVE)
    assert page.locator("img.tv-code").count() == 0
    rest(page)  # a list that is still being filled may not hear a key
    page.keyboard.press("Escape")
    body.wait_for(state="hidden")
    rest(page)
    assert page.locator(PRESENTING).count() == 1


def _keys(page: Page) -> None:
    """Arrows and a clicker step through heads, `c` unfolds the controls; never while typing."""
    title = page.locator(".st-key-card-head h2")
    steps = ("ArrowRight", "L2 H0"), ("ArrowLeft", "L1 H7"), ("PageDown", "L2 H0")
    for key, head in steps:
        page.keyboard.press(key)
        expect(title).to_contain_text(head)
    page.locator(".st-key-step-back button").click()  # the mouse does the same
    expect(title).to_contain_text("L1 H7")
    sentence = page.get_by_label("English sentence")
    assert sentence.is_hidden()
    page.keyboard.press("c")
    expect(sentence).to_be_visible()
    expect(page.get_by_test_id("stTopNav")).to_be_visible()
    sentence.fill("The cat sat.")
    for key in ("ArrowLeft", "PageUp", "c", "Escape"):
        sentence.press(key)
    assert sentence.is_visible() and page.locator("html[data-unfold]").count() == 1
    sentence.press("Enter")
    rest(page)
    expect(title).to_contain_text("L1 H7")
    sentence.blur()
    page.keyboard.press("C")
    expect(sentence).to_be_hidden()
    slider = page.get_by_role("slider", name="temperature")
    slider.focus()
    slider.press("ArrowRight")  # the slider's own arrow
    page.wait_for_url("**temperature**")
    expect(title).to_contain_text("L1 H7")


def _before_and_after(page: Page) -> None:
    compare = page.locator(".st-key-compare")
    expect(compare).to_be_visible()
    rest(page)
    place, pictures = box(compare), box(page.locator(".st-key-pictures"))
    assert place["x"] + place["width"] <= BACK_ROW["width"]
    assert place["y"] + place["height"] <= BACK_ROW["height"]
    assert place["y"] >= pictures["y"] + pictures["height"] - 40  # below the cells of the map
    compare.get_by_role("radio", name="Before").click()
    expect(page).to_have_url(re.compile("compare=before"))


def _unfolded(page: Page) -> None:
    """The unfolded dock, in German, has two lines and covers nothing, on three screens."""
    link = page.url.replace("compare=before", "lang=de")
    for width, height in ((1280, 720), (1366, 768), (1920, 1080)):
        where = f"{width} × {height}"
        page.set_viewport_size({"width": width, "height": height})
        if width == 1280:
            opened(page, link)
            page.keyboard.press("c")
            expect(page.locator(".st-key-more")).to_be_visible()
        rest(page, still=400)
        dock = box(page.locator(".st-key-dock"))
        assert abs(dock["y"] + dock["height"] - height) < 1 and dock["height"] <= 150, where
        seen = page.evaluate(script("pictures_on_page"))
        for part in (*seen["tiles"], seen["cells"]):
            assert part["top"] + part["height"] <= dock["y"], where
            assert part["top"] > 0 and part["height"] >= 18, where
        assert seen["cells"]["height"] >= 100, where
        sentence = page.locator(".st-key-fold-frame input").first
        ways = [page.locator(f".st-key-{key} button") for key in ("undo", "redo", "clean", "more")]
        for way in (*ways, sentence):
            assert way.evaluate(ON_TOP), (where, way)
        header = box(page.get_by_test_id("stHeader"))
        assert box(sentence)["y"] >= header["y"] + header["height"], where
        expect(page.locator(".tv-presented")).to_be_hidden()  # the box says it
    page.set_viewport_size(BACK_ROW)  # type: ignore[arg-type]


def _leaves_by_escape(page: Page) -> None:
    page.keyboard.press("Escape")
    page.wait_for_function("() => !document.documentElement.hasAttribute('data-present')")
    rest(page)
    assert "present" not in query(page) and "temperature" in query(page)["edits"]
    expect(page.locator(".tv-presented")).to_have_count(0)


def _letters(page: Page, url: str, path: str) -> None:
    """The back row reads every letter of a page."""
    page.goto(f"{url}/{path}?present=on&layer=1&head=3")
    page.locator(".tv-present").wait_for()
    page.get_by_test_id("stMain").locator("h2, h3").first.wait_for(state="attached")
    rest(page, still=400)
    assert page.evaluate(script("small_text"), LEAST) == [], path


def _a_station(page: Page, url: str) -> None:
    """A station shows no controls until asked; Escape puts a term's tip away, then leaves."""
    page.goto(address(url, model="en-de-small", station=2, beam=1, present="on"))
    expect(page.locator(".st-key-head-view canvas").first).to_be_visible()
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    still(page)  # all keys are heard, and nothing is mounted anew
    page.keyboard.press("c")
    expect(page.locator(".st-key-temperature")).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    term = page.locator(".tv-term").first
    tip = term.locator(".tv-tip")
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    still(page)  # leaving would go through the server
    assert page.locator(PRESENTING).count() == 1
    page.mouse.move(700, 20)
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()  # who comes back is told again
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Escape")  # there is no tip now
    expect(page.locator(PRESENTING)).to_have_count(0)


@pytest.mark.soak
def test_the_back_row_reads_every_letter_of_every_page(page: Page, url: str) -> None:
    page.set_viewport_size(BACK_ROW)  # type: ignore[arg-type]
    for one in PAGES:
        _letters(page, url, one.path)


def scanned(page: Page) -> str:
    """What a phone reads from the screen."""
    code = page.locator("img.tv-code")
    code.wait_for()
    for _ in range(20):  # it comes with a movement, during which nobody can read it
        codes = zxingcpp.read_barcodes(Image.open(io.BytesIO(code.screenshot())))
        if codes:
            break
        page.wait_for_timeout(200)
    (found,) = codes
    return str(found.text)


def test_the_code_on_the_screen_opens_what_the_teacher_sees(page: Page, url: str) -> None:
    """Read from a light screen, a dark one, and one that presents, which it fills."""
    here = url.replace("127.0.0.1", ELSEWHERE)
    page.emulate_media(color_scheme="light")
    opened(page, f"{here}/?layer=1&head=3&edits={WARM}&text=The+cat+sat.&view=lines")
    share(page)
    link = page.get_by_test_id("stCode")
    expect(link).to_be_visible()
    press(page, "temperature", "ArrowRight", 3)  # the link follows while the panel is open
    follows = "([link]) => link.innerText.trim() === location.href"
    expect(link).not_to_contain_text("2.5")
    page.wait_for_function(follows, arg=[link.element_handle()])
    rest(page)
    code = scanned(page)
    assert code == page.url and code.startswith(f"{here}/?") and "edits" in query(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(DARK)
    assert scanned(page) == code, "dark"
    chips = page.locator(".st-key-chips button").all_inner_texts()
    there = query(page)
    opened(page, code)  # a visit of its own, as any that is opened
    assert query(page) == there
    assert page.locator(".st-key-chips button").all_inner_texts() == chips
    page.set_viewport_size(BACK_ROW)  # type: ignore[arg-type]
    opened(page, f"{here}/?present=on&layer=1")
    share(page)
    assert "present" not in scanned(page)
    image = box(page.locator("img.tv-code"))
    assert image["width"] == image["height"] >= 400
    assert image["y"] >= 0 and image["y"] + image["height"] <= BACK_ROW["height"]
