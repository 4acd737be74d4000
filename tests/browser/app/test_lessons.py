"""A class hour in a real browser: ten stations, both languages, right and wrong answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.lessons import STATIONS

from ...support.page_actions import address, edits, go, query, still, type_sentence
from ...support.rest import rest
from ...support.scripts import script

pytestmark = pytest.mark.shipped
MODEL = "en-de-small"
TEXT = "She gave him the book that he wanted to read."
WARM = Intervention((Temperature(value=3.0),)).to_json()
WORDS = {
    "en": ("Station {} of 10", "Right.", "Not quite."),
    "zh": ("第 {} 站，共 10 站", "对了。", "不完全对。"),
    "de": ("Station {} von 10", "Richtig.", "Nicht ganz."),
}


#: The station at which the walk tries all options; tests/app/pages/test_lessons.py does at each.
EVERY_OPTION = 2


def button(page: Page, key: str) -> None:
    page.locator(f".st-key-{key} button:visible").click()


def answer(page: Page, number: int, option: int, words: tuple[str, str]) -> bool:
    """Click an option, and wait for what is said to it; whether it is the right one.

    The link keeps the first answer, here option 0, whatever is tried after it.

    Args:
        words: how it is told that it is right, and that it is not.
    """
    button(page, f"option-{number}-{option}")
    expect(page).to_have_url(re.compile(f"[=C]{number}\\.0(&|$)"))
    chosen = page.locator(f".st-key-option-{number}-{option} button")
    expect(chosen).to_contain_text(re.compile("^[✓✗]"))
    right = chosen.inner_text().startswith("✓")
    expect(page.locator(".tv-station-why b")).to_have_text(words[0 if right else 1])
    return right


@pytest.mark.parametrize(
    "language",
    ["en", *(pytest.param(code, marks=pytest.mark.soak) for code in WORDS if code != "en")],
)
def test_ten_stations_are_walked_and_answered(page: Page, url: str, language: str) -> None:
    station, right, wrong = WORDS[language]
    page.goto(address(url, "lessons", model=MODEL, text=TEXT, lang=language, beam=1))
    button(page, "begin")
    for number, stop in enumerate(STATIONS, 1):
        expect(page.locator(".tv-station")).to_contain_text(station.format(number))
        expect(page.locator(f".st-key-option-{number}-0")).to_be_visible()
        assert page.get_by_test_id("stException").count() == 0
        path = "" if stop.page == "explore" else stop.page
        expect(page).to_have_url(re.compile(f"^{re.escape(url)}/{path}\\?"))
        count = page.locator(f'[class*="st-key-option-{number}-"]').count()
        found: list[bool] = []
        for option in range(count if number == EVERY_OPTION else 1):
            found.append(answer(page, number, option, (right, wrong)))
            explained = any(found) or option > 0  # else it was a hint, and a second try is left
            expect(page.locator(".st-key-station-show")).to_have_count(0 if explained else 1)
            ticks = page.locator(".st-key-station-options button", has_text="✓")
            expect(ticks).to_have_count(1 if explained else 0)
        assert count >= 2 and (number != EVERY_OPTION or found.count(True) == 1)
        button(page, "station-on")
    expect(page.locator(".tv-done")).to_have_count(len(STATIONS))
    expect(page).to_have_url(re.compile("[?&]predicted="))
    assert len(query(page)["predicted"].split(",")) == len(STATIONS)


def test_the_numbers_of_the_first_station_are_not_covered(page: Page, url: str) -> None:
    """The controls are folded until station 4; what is changed stays in sight."""
    page.set_viewport_size({"width": 1440, "height": 900})
    words: dict[str, Any] = {"model": MODEL, "text": TEXT, "beam": 1, "block": "encoder"}
    bar, clean = page.locator(".st-key-dock"), page.locator(".st-key-clean button")
    numbers = page.locator(".st-key-inside .tv-in-numbers button")
    page.goto(address(url, "step-inside", station=1, **words))
    expect(numbers.last).to_be_visible()
    rest(page)
    box = numbers.last.bounding_box()
    assert box is not None and box["y"] + box["height"] < 900
    expect(bar).to_be_hidden()
    page.goto(address(url, "step-inside", station=3, edits=WARM, **words))
    expect(page.locator(".st-key-chips button")).to_be_in_viewport()
    rest(page)
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    clean.click()
    expect(bar).to_be_hidden()
    page.goto(address(url, station=2, edits=WARM, **words))
    expect(page.locator(".st-key-chips button")).to_be_visible()
    expect(clean).to_be_enabled()
    rest(page)
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    for path, station in (("step-inside", 4), ("step-inside", 0), ("", 4)):
        page.goto(address(url, path, station=station, **words))
        expect(page.locator(".st-key-temperature")).to_be_visible()
        expect(clean).to_be_visible()


def test_a_class_sees_the_first_station_without_controls_and_may_ask_for_them(
    page: Page, url: str
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    words: dict[str, Any] = {"model": MODEL, "text": TEXT, "beam": 1, "present": "on"}
    page.goto(address(url, station=2, **words))
    expect(page.locator(".st-key-head-view canvas").first).to_be_visible()
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    still(page)  # all keys are heard, and nothing is mounted anew
    page.keyboard.press("c")
    expect(page.locator(".st-key-temperature")).to_be_visible()


def test_a_class_sees_what_it_is_asked_about(page: Page, url: str) -> None:
    """All pieces that it is to count, and beside an answer the row of the map that it is about."""
    page.set_viewport_size({"width": 1280, "height": 720})
    sentence = "The animal didn't cross the street because it was too tired."
    words: dict[str, Any] = {"model": "en-de", "text": sentence, "beam": 1, "present": "on"}
    page.goto(address(url, "step-inside", station=1, **words))
    chips = page.locator(".st-key-tokens .tv-chip")
    expect(chips.filter(has_text="</s>")).to_be_in_viewport(ratio=1)
    pieces = chips.filter(visible=True).count()
    assert chips.filter(visible=True).last.inner_text() == "</s>"  # those of the source alone
    row: dict[str, Any] = {"block": "encoder", "layer": 3, "head": 4, "token": 8}
    page.goto(address(url, station=10, predicted="10.0", lang="de", **row, **words))
    button(page, "station-show")
    expect(page.locator(".tv-station-why[data-solved]")).to_be_visible()
    rest(page, still=400)
    foot = page.locator(".st-key-temperature").bounding_box()
    strip = page.locator(".st-key-station").bounding_box()
    cells = page.evaluate(script("pictures_on_page"))["cells"]
    assert foot is not None and strip is not None
    line = cells["top"] + cells["height"] * 9 / pieces  # the foot of the row that is framed
    assert strip["y"] >= 0 and strip["y"] + strip["height"] <= cells["top"] and line <= foot["y"]
    assert cells["height"] >= 80


def test_the_last_station_does_its_edit_and_takes_it_back(page: Page, url: str) -> None:
    go(page, address(url, model=MODEL, text=TEXT, station=10, beam=1))
    button(page, "station-deed")
    expect(page.locator(".st-key-chips button")).to_have_count(1)
    (edit,) = edits(page)
    assert (edit["kind"], edit["value"]) == ("scale_head", 0.0)
    button(page, "station-deed")
    expect(page.locator(".st-key-chips button")).to_have_count(0)


def test_the_sentence_is_written_before_the_lesson_begins(page: Page, url: str) -> None:
    page.goto(address(url, "lessons", model=MODEL, text=TEXT, beam=1))
    type_sentence(page, "We can't go home before it stops raining.")
    expect(page).to_have_url(re.compile("raining"))
    button(page, "begin")
    expect(page.locator(".st-key-tokens")).to_be_visible()
    assert query(page)["text"].startswith("We can't") and query(page)["station"] == "1"


def test_terms_explain_themselves_to_pointer_and_keyboard(page: Page, url: str) -> None:
    page.goto(address(url, model=MODEL, text=TEXT, station=2, beam=1))
    still(page)  # the strip is drawn before what stands in it, and moves
    term = page.locator(".tv-term").first
    tip = term.locator(".tv-tip")
    expect(term).to_be_visible()
    expect(tip).to_be_hidden()
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()
    box = tip.bounding_box()
    assert box is not None and box["x"] >= 0 and box["width"] > 100
    seen = page.evaluate(  # it lies above all else, and is not cut off
        "([x, y]) => document.elementFromPoint(x, y).className",
        [box["x"] + box["width"] / 2, box["y"] + box["height"] - 6],
    )
    assert seen == "tv-tip"
    page.mouse.move(700, 20)
    expect(tip).to_be_hidden()
    page.locator(".st-key-station-leave button:visible").focus()
    page.keyboard.press("Tab")
    expect(tip).to_be_visible()


def test_escape_puts_a_term_s_tip_away_and_leaves_nothing_else(page: Page, url: str) -> None:
    page.goto(address(url, model=MODEL, text=TEXT, station=2, beam=1, present="on"))
    still(page)
    term = page.locator(".tv-term").first
    tip = term.locator(".tv-tip")
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    still(page)  # leaving would go through the server
    assert page.locator("html[data-present]").count() == 1
    page.mouse.move(700, 20)
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()  # whoever comes back is told again
    term.focus()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Escape")  # there is no tip now
    expect(page.locator("html[data-present]")).to_have_count(0)


def test_the_class_brings_its_own_sentence_on_the_way(page: Page, url: str) -> None:
    page.goto(address(url, model=MODEL, text=TEXT, station=2, predicted="2.0", beam=1))
    expect(page.locator(".tv-station-why b")).to_be_visible()
    type_sentence(page, "We can't go home before it stops raining.")
    expect(page.locator(".tv-station-why")).to_contain_text("another one now")
    assert query(page)["predicted"] == "2.9"
    button(page, "station-leave")
    expect(page.locator(".tv-station")).to_have_count(0)
    still(page)
    assert query(page)["text"].startswith("We can't") and "station" not in query(page)


def test_the_worksheet_comes_in_the_language_of_the_visit(
    page: Page, url: str, tmp_path: Path
) -> None:
    page.goto(address(url, "lessons", model=MODEL, text=TEXT, lang="zh", beam=1))
    with page.expect_download() as waiting:
        button(page, "worksheet")
    file = tmp_path / "sheet.html"
    waiting.value.save_as(file)
    text = file.read_text(encoding="utf-8")
    assert TEXT in text and "走进 Transformer" in text and text.count("<section") == 11
    page.goto(file.as_uri())
    expect(page.locator("section")).to_have_count(11)
