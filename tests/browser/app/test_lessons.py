"""A class hour in Chromium: ten stations walked and answered, what is in sight, the worksheet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.page_actions import address, edits, query, still, type_sentence
from tests.support.rest import rest
from tests.support.scripts import script
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.lessons import STATIONS

pytestmark = pytest.mark.shipped
SMALL: dict[str, Any] = {"model": "en-de-small", "beam": 1}
TEXT = "She gave him the book that he wanted to read."
OTHER = "We can't go home before it stops raining."
WARM = Intervention((Temperature(value=3.0),)).to_json()
WORDS = {
    "en": ("Station {} of 10", "Right.", "Not quite."),
    "zh": ("第 {} 站，共 10 站", "对了。", "不完全对。"),
    "de": ("Station {} von 10", "Richtig.", "Nicht ganz."),
}
#: The station at which the walk tries all options; tests/app/pages/test_lessons.py does at each.
EVERY_OPTION = 2
#: The first stations that `make test` walks before the last one: something comes in sight at each.
LOOKED_AT = 4


def button(page: Page, key: str) -> None:
    page.locator(f".st-key-{key} button:visible").click()


def answer(page: Page, number: int, option: int, words: tuple[str, str]) -> bool:
    """Click an option and wait for what is said to it; return whether it is the right one.

    The link keeps the first answer, here option 0, whatever is tried after it.
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
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(address(url, "lessons", **SMALL, text=OTHER, lang=language))
    if language == "en":  # the class writes its own sentence first
        type_sentence(page, TEXT)
        expect(page).to_have_url(re.compile("the.book"))
    button(page, "begin")
    for number, stop in enumerate(STATIONS, 1):
        if language == "en" and number > LOOKED_AT:
            if number < len(STATIONS):
                continue
            done = ",".join(f"{n}.0" for n in range(1, number))
            page.goto(address(url, **query(page) | {"station": number, "predicted": done}))
        expect(page.locator(".tv-station")).to_contain_text(station.format(number))
        expect(page.locator(f".st-key-option-{number}-0")).to_be_visible()
        assert page.get_by_test_id("stException").count() == 0, number
        path = "" if stop.page == "explore" else stop.page
        expect(page).to_have_url(re.compile(f"^{re.escape(url)}/{path}\\?"))
        _in_sight(page, number)
        count = page.locator(f'[class*="st-key-option-{number}-"]').count()
        found: list[bool] = []
        for option in range(count if number == EVERY_OPTION else 1):
            found.append(answer(page, number, option, (right, wrong)))
            explained = any(found) or option > 0  # else it was a hint, and a second try is left
            expect(page.locator(".st-key-station-show")).to_have_count(0 if explained else 1)
            ticks = page.locator(".st-key-station-options button", has_text="✓")
            expect(ticks).to_have_count(1 if explained else 0)
        assert count >= 2 and (number != EVERY_OPTION or found.count(True) == 1), number
        if number == 1 and language == "en":
            assert query(page)["text"] == TEXT and query(page)["station"] == "1"
        if number == EVERY_OPTION:
            _terms(page)
        if number == len(STATIONS) and language == "en":
            _deed_and_another_sentence(page)
        if language != "en" or number != LOOKED_AT:
            button(page, "station-on")
    expect(page.locator(".tv-done")).to_have_count(len(STATIONS))
    expect(page).to_have_url(re.compile("[?&]predicted="))
    assert len(query(page)["predicted"].split(",")) == len(STATIONS)


def _in_sight(page: Page, number: int) -> None:
    """The controls are folded until station 4, so that they cover nothing."""
    if number == 1:
        numbers = page.locator(".st-key-inside .tv-in-numbers button")
        expect(numbers.last).to_be_visible()
        rest(page)
        box = numbers.last.bounding_box()
        assert box is not None and box["y"] + box["height"] < 900
        expect(page.locator(".st-key-dock")).to_be_hidden()
    if number == 2:
        expect(page.locator(".st-key-temperature")).to_be_hidden()
    if number == 4:
        expect(page.locator(".st-key-temperature")).to_be_visible()
        expect(page.locator(".st-key-clean button")).to_be_visible()


def _terms(page: Page) -> None:
    """A term explains itself to pointer and keyboard, above all else."""
    still(page)
    term = page.locator(".tv-term").first
    tip = term.locator(".tv-tip")
    expect(tip).to_be_hidden()
    term.hover(position={"x": 4, "y": 8})
    expect(tip).to_be_visible()
    box = tip.bounding_box()
    assert box is not None and box["x"] >= 0 and box["width"] > 100
    seen = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).className",
        [box["x"] + box["width"] / 2, box["y"] + box["height"] - 6],
    )
    assert seen == "tv-tip", "nothing covers it"
    page.mouse.move(700, 20)
    expect(tip).to_be_hidden()
    term.focus()
    expect(tip).to_be_visible()
    term.blur()


def _deed_and_another_sentence(page: Page) -> None:
    """The last station does its edit and takes it back; a new sentence asks anew."""
    for count in (1, 0):
        button(page, "station-deed")
        expect(page.locator(".st-key-chips button")).to_have_count(count)
        if count:
            (edit,) = edits(page)
            assert (edit["kind"], edit["value"]) == ("scale_head", 0.0)
    rest(page)
    type_sentence(page, OTHER)
    expect(page.locator(".tv-station-why")).to_contain_text("another one now")
    assert query(page)["predicted"].endswith("10.9") and query(page)["text"] == OTHER


def test_what_a_class_is_shown_and_takes_home(page: Page, url: str, tmp_path: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(address(url, "step-inside", station=3, edits=WARM, text=TEXT, **SMALL))
    expect(page.locator(".st-key-chips button")).to_be_in_viewport()  # what is changed is in sight
    rest(page)
    expect(page.locator(".st-key-temperature")).to_be_hidden()
    page.locator(".st-key-clean button").click()
    expect(page.locator(".st-key-dock")).to_be_hidden()

    page.goto(address(url, "lessons", text=TEXT, lang="zh", **SMALL))
    with page.expect_download() as waiting:
        button(page, "worksheet")
    file = tmp_path / "sheet.html"
    waiting.value.save_as(file)
    text = file.read_text(encoding="utf-8")
    assert TEXT in text and "走进 Transformer" in text and text.count("<section") == 11
    page.goto(file.as_uri())
    expect(page.locator("section")).to_have_count(11)

    page.set_viewport_size({"width": 1280, "height": 720})
    words: dict[str, Any] = {"model": "en-de", "beam": 1, "present": "on"}
    words |= {"text": "The animal didn't cross the street because it was too tired."}
    page.goto(address(url, "step-inside", station=1, **words))
    chips = page.locator(".st-key-tokens .tv-chip")
    expect(chips.filter(has_text="</s>")).to_be_in_viewport(ratio=1)  # all that it is to count
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
