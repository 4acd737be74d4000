"""The slider alone in a real browser: keys, hand, what it asks for, and what it tells Python."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.support import component_stage as stages
from tests.support.component_stage import said
from tests.support.scripts import script
from transformer_viz.components.blob import pack
from transformer_viz.components.slider import Stop, slider_data

STOPS = [Stop(f"{n}.0", f"n{n}", f"{n} of them") for n in range(11)]
LINE = "/live/token"
REST = 0.3  # seconds without a step after which the hand rests
SPEED = re.compile(r"^\d+ ms$")
Told = dict[str, Any]


def data(chosen: int = 3, *, seq: int = 0, line: str = LINE, **words: Any) -> bytes:
    """A slider from 0 to 10, whose model stands at 3."""
    return slider_data(
        "temperature", words.pop("stops", STOPS), chosen=f"{chosen}.0", own="3.0",
        help="Flatter to the right.", line=line, seq=seq, **words,
    )  # fmt: skip


def show(page: Page, blob: bytes, **words: Any) -> Locator:
    """The slider on its page; its live frames are answered at once until `hold` says otherwise."""
    page.route(f"**{LINE}*", lambda route: route.fulfill(body=pack({"part": "frame", "seq": 0})))
    page.evaluate("performance.clearResourceTimings()")
    stages.show(
        page, "slider/slider.js", "Slider", blob, css="slider/slider.css", width="300px", **words
    )
    return page.get_by_role("slider", name="temperature")


def asked(page: Page) -> list[str]:
    """The values that frames were asked of, in order."""
    entries = "performance.getEntriesByType('resource').map(one => one.name)"
    found = [name for name in page.evaluate(entries) if LINE in name]
    return [name.split("temperature=")[1].split("&")[0] for name in found]


def moves(page: Page, count: int) -> list[Told]:
    """What the slider told Python, once there is so much of it."""
    page.wait_for_function("count => window.said.length >= count", arg=count)
    told = said(page)
    assert {name for name, _ in told} == {"moved"}
    return [value for _, value in told]


@pytest.fixture
def grip(stage: Page) -> Callable[[int], tuple[float, float]]:
    """Where on the page the middle of a stop is."""

    def place(stop: int) -> tuple[float, float]:
        box = stage.get_by_role("slider").bounding_box()
        assert box is not None
        return box["x"] + 9 + (box["width"] - 18) * stop / 10, box["y"] + box["height"] / 2

    return place


def test_keys_and_what_a_screen_reader_hears(
    stage: Page, grip: Callable[[int], tuple[float, float]]
) -> None:
    # it says its name value and use
    slider = show(stage, data(4))
    expect(slider).to_have_attribute("aria-valuetext", "4 of them")
    expect(slider).to_have_js_property("max", "10")
    expect(stage.get_by_role("status")).to_have_text("n4")  # an output
    use = stage.get_by_role("button", name="what temperature does")
    expect(use).to_have_accessible_description("Flatter to the right.")
    tip = stage.get_by_role("tooltip", include_hidden=True)
    expect(tip).to_be_hidden()
    use.focus()
    stage.keyboard.press("Shift+Tab")
    stage.keyboard.press("Tab")
    expect(tip).to_be_visible()
    stage.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    use.hover()
    expect(tip).to_be_visible()
    # each key is shown and the rest is told once
    slider = show(stage, data())
    slider.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        stage.keyboard.press(key)
    expect(slider).to_have_attribute("aria-valuetext", "0 of them")
    (told,) = moves(stage, 1)
    assert told["value"] == "0.0" and asked(stage)[-1] == "0.0"
    stage.wait_for_timeout(600)
    assert len(said(stage)) == 1  # nothing more comes while the hand rests
    # backspace and a double click go back to the models own
    slider = show(stage, data(8))
    expect(stage.locator(".tv-slider-moved")).to_have_count(1)
    slider.press("Backspace")
    expect(slider).to_have_attribute("aria-valuetext", "3 of them")
    expect(stage.locator(".tv-slider-moved")).to_have_count(0)
    stage.mouse.dblclick(*grip(9))
    expect(slider).to_have_attribute("aria-valuetext", "3 of them")
    told = moves(stage, 3)
    assert [one["value"] for one in told] == ["3.0", "9.0", "3.0"]
    assert told[1]["stroke"] == told[2]["stroke"] != told[0]["stroke"]  # one click, one step back


def test_a_drag_asks_in_turn_and_tells_once(
    stage: Page, grip: Callable[[int], tuple[float, float]]
) -> None:
    # a drag asks one after the other and tells once
    show(stage, data())
    waiting: list[Route] = []
    stage.route(f"**{LINE}*", lambda route: waiting.append(route))
    stage.mouse.move(*grip(3))
    stage.mouse.down()
    begun = time.monotonic()
    for stop in (4, 5, 6, 7):
        stage.mouse.move(*grip(stop), steps=3)
    stage.wait_for_timeout(50)
    assert len(waiting) == 1 and "temperature=4.0" in waiting[0].request.url
    waiting[0].fulfill(body=pack({"part": "frame", "seq": 0}))
    for _ in range(20):
        if len(waiting) > 1:
            break
        stage.wait_for_timeout(20)
    assert len(waiting) == 2 and "temperature=7.0" in waiting[1].request.url  # 5, 6 never
    waiting[1].fulfill(body=pack({"part": "frame", "seq": 0}))
    stage.mouse.up()
    rested = time.monotonic() - begun > REST  # on a busy machine the hand rests on its way
    told = moves(stage, 1)
    assert len(told) == 1 or rested
    assert told[-1]["value"] == "7.0" and told[-1]["seq"] > told[-1]["stroke"]
    # resting on the way is told and stays one stroke
    show(stage, data())
    stage.mouse.move(*grip(3))
    stage.mouse.down()
    stage.mouse.move(*grip(5))
    moves(stage, 1)
    stage.mouse.move(*grip(8))
    stage.mouse.up()
    first, second = moves(stage, 2)
    assert (first["value"], second["value"]) == ("5.0", "8.0")
    assert first["stroke"] == second["stroke"] and first["seq"] < second["seq"]
    stage.wait_for_timeout(550)
    stage.get_by_role("slider").press("ArrowLeft")
    assert moves(stage, 3)[2]["stroke"] > second["stroke"]


def test_answers_and_the_hand(stage: Page, grip: Callable[[int], tuple[float, float]]) -> None:
    # nothing older pulls it from under the hand
    slider = show(stage, data())
    stage.mouse.move(*grip(3))
    stage.mouse.down()
    stage.mouse.move(*grip(6))
    stages.update(stage, data(1, seq=10_000))  # while it is held, not even something newer
    expect(slider).to_have_attribute("aria-valuetext", "6 of them")
    stage.mouse.up()
    (told,) = moves(stage, 1)
    stages.update(stage, data(2, seq=told["seq"] - 1))
    expect(slider).to_have_attribute("aria-valuetext", "6 of them")
    stages.update(stage, data(2, seq=told["seq"]))  # the answer, whatever it is
    expect(slider).to_have_attribute("aria-valuetext", "2 of them")
    stages.update(stage, data(5, seq=told["seq"]))  # undone, by a button elsewhere
    expect(slider).to_have_attribute("aria-valuetext", "5 of them")
    # an answer that came during the hold is taken afterwards
    slider = show(stage, data())
    stage.mouse.move(*grip(3))
    stage.mouse.down()
    stage.mouse.move(*grip(6))
    (told,) = moves(stage, 1)  # the hand rests
    stages.update(stage, data(4, seq=told["seq"]))  # Python has refused 6
    expect(slider).to_have_attribute("aria-valuetext", "6 of them")
    stage.mouse.up()
    expect(slider).to_have_attribute("aria-valuetext", "4 of them")
    # another server hears where the hand was last
    slider = show(stage, data(3, seq=1000))
    slider.focus()
    stage.keyboard.press("ArrowRight")
    first = moves(stage, 1)[0]
    # The worker that was told is killed, and the next one knows only the link.
    stages.update(stage, data(3, seq=9000, line="/live/token-of-another"))
    again = moves(stage, 2)[1]
    assert (again["value"], first["value"]) == ("4.0", "4.0") and again["seq"] > 9000
    expect(slider).to_have_value("4")
    stages.update(stage, data(4, seq=again["seq"], line="/live/token-of-another"))
    expect(slider).to_have_value("4")
    # A hand that had its answer is where the link says.
    stages.update(stage, data(5, seq=20000, line="/live/token-of-a-third"))
    expect(slider).to_have_value("5")
    assert len(moves(stage, 2)) == 2


def test_without_a_line_or_an_answer_python_is_told(
    stage: Page, grip: Callable[[int], tuple[float, float]]
) -> None:
    # without a line each step is told behind the gate
    show(stage, data(line=""))
    stage.mouse.move(*grip(3))
    stage.mouse.down()
    for stop in (4, 5, 6):
        stage.mouse.move(*grip(stop))
    (first,) = moves(stage, 1)
    assert first["value"] == "4.0"
    stages.update(stage, data(4, seq=first["seq"], line=""))
    second = moves(stage, 2)[1]
    assert second["value"] == "6.0" and second["stroke"] == first["stroke"]
    stages.update(stage, data(6, seq=second["seq"], line=""))
    stage.mouse.up()
    expect(stage.locator(".tv-slider-speed")).to_have_text(SPEED)
    assert len(said(stage)) == 2 and asked(stage) == []
    # where nobody answers python is told
    slider = show(stage, data())
    stage.route(f"**{LINE}*", lambda route: route.fulfill(status=200, body=b"no picture"))
    slider.press("ArrowRight")  # cannot be read: the hand's rest is told all the same
    assert moves(stage, 1)[0]["value"] == "4.0"


def test_marks_speed_and_ends(stage: Page) -> None:
    # the models own value is marked where the thumb would stand
    for dark in (False, True):
        show(stage, data(9), dark=dark)
        mark, slider = stage.locator(".tv-slider-track i"), stage.get_by_role("slider")
        box, track = mark.bounding_box(), slider.bounding_box()
        assert box is not None and track is not None, dark
        middle = box["x"] + box["width"] / 2
        assert middle == pytest.approx(track["x"] + 9 + (track["width"] - 18) * 0.3, abs=0.6), dark
        size = "all => all.map(one => parseFloat(getComputedStyle(one).fontSize))"
        sizes = stage.locator("#host .tv *").evaluate_all(size)
        assert min(sizes) >= 13.9, dark
    # the speed is the median of the last five
    slider = show(stage, data())
    for _ in range(3):
        slider.press("ArrowRight")
        stage.wait_for_timeout(100)
    speed = stage.locator(".tv-slider-speed")
    expect(speed).to_have_text(SPEED)
    assert "median" in str(speed.get_attribute("title"))
    times, said_of_them = stage.evaluate(script("slider_times"))
    assert np.allclose(times, [20, 30, 40, 50, 60], atol=3)
    assert said_of_them == f"{round(times[2])} ms"
    # a disabled slider does not move
    slider = show(stage, data(disabled=True))
    expect(slider).to_be_disabled()
    slider.dispatch_event("keydown", {"key": "Backspace"})
    stage.wait_for_timeout(400)
    assert said(stage) == [] and asked(stage) == []
    # what has ended tells the last value and then nothing
    slider = show(stage, data())
    slider.press("ArrowRight")
    stage.evaluate("window.view.end()")
    assert [value["value"] for _, value in said(stage)] == ["4.0"]
    slider.press("ArrowRight")
    stage.wait_for_timeout(400)
    assert len(said(stage)) == 1
