"""Lessons: the path, the strip above the pages, answers in the link, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.model_kinds import NAMES
from tests.support.widgets import keys, ok, put, runs
from transformer_viz.app.engine.task import Task
from transformer_viz.app.ui.progress import run_with_progress
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.lessons import STATIONS

from ...support.page_content import address, go, html, part, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT, LONGER = "The cat sat on the mat.", "A dog sat on the mat and the cat."
STRIP = 'class="tv-station-text"'
ASKED = 'class="tv-station-ask"'
WHY = 'class="tv-station-why"'


def piece(app: AppTest, mark: str = WHY) -> str:
    """The piece of HTML with a mark, or nothing."""
    return next((body for body in html(app).split("\n") if mark in body), "")


def options(app: AppTest) -> list[str]:
    return keys(app, "option-")


def press(app: AppTest, *names: str) -> AppTest:
    """Click buttons, and stay on the page that each leads to, as a browser does."""
    for key in names:
        app.button(key=key).click().run()
        here = app.session_state["_here"].replace("explore", "")
        pages = app._registered_pages.items()
        app._page_hash = next(key for key, words in pages if words["url_pathname"] == here)
    return app


@pytest.fixture
def begin(visit: Visit) -> Visit:
    """Opens the page Lessons and presses buttons on the way."""
    return lambda *names, **link: press(visit("lessons", **({"text": TEXT} | link)), *names)


def test_the_path_leads_through_all_stations_and_every_option_is_answered(begin: Visit) -> None:
    app = ok(begin())
    assert keys(app, "open-") == [f"open-{number}" for number in range(1, 11)]
    for station in STATIONS:
        assert station.title in html(app) and station.notes.say[:30] in html(app), station.name
    assert "0 of 10 questions answered" in html(app)
    press(app, "begin")
    assert "What happens inside a head?" in html(app)
    assert app.text_input(key="text").value == TEXT and address(app)["station"] == "1"
    assert "The · cat" not in piece(app) and "Read it off the page" in piece(app)
    for number, station in enumerate(STATIONS, 1):
        ok(app, number)
        assert f"Station {number} of 10" in html(app) and piece(app, ASKED), number
        assert app.session_state["_here"] == station.page, station.name
        if number in (2, 4):  # it is told when the controls come
            away = "Sliders and masks are put away; they come with station 4." in html(app)
            assert away == (number < 4)
        count, verdicts = len(options(app)), []
        assert count >= 2, number
        for option in range(count):
            press(app, f"option-{number}-{option}")
            case = (number, option)
            verdicts.append("<b>Right.</b>" in piece(app))
            assert verdicts[-1] or "<b>Not quite.</b>" in piece(app), case
            explained = any(verdicts) or option > 0
            assert ("Try once more." in piece(app)) != explained, case
            assert any("✓" in button.label for button in app.button) == explained, case
            assert ("station-show" in keys(app)) != explained, case
            first = ",".join(f"{answered}.0" for answered in range(1, number + 1))
            assert address(app)["predicted"] == first, case  # the first answer counts
        assert verdicts.count(True) == 1 and not app.exception, number
        press(app, "station-on")
    assert "10 of 10 questions answered" in html(app)
    assert "station" not in address(app) and address(app)["text"] == TEXT
    press(app, "anew")
    assert "predicted" not in address(app) and "0 of 10" in html(app)


def wrong(app: AppTest, number: int) -> AppTest:
    """Answer a station wrongly: the first option, or, where that is the right one, the second."""
    press(app, f"option-{number}-0")
    if "<b>Right.</b>" not in piece(app):
        return app
    return press(go(app, "lessons"), "anew", f"open-{number}", f"option-{number}-1")


def test_a_wrong_answer_is_helped_on_and_the_answer_shown_when_asked(
    begin: Visit, visit: Visit
) -> None:
    app = wrong(begin("open-2"), 2)
    first = address(app)["predicted"]
    assert "Follow the framed row" in piece(app) and "add up to" not in piece(app)
    press(app, "station-show")
    assert "<b>The answer:</b>" in piece(app) and "add up to" in piece(app)
    marks = [button.label[0] for button in app.button if button.label.startswith(("✓", "✗"))]
    assert sorted(marks) == ["✓", "✗"]
    assert address(app)["predicted"] == first and "station-show" not in keys(app)
    put(app, {"text": LONGER})  # a second try is over when the sentence changes
    assert "another one now" in piece(app) and "station-show" not in keys(app)
    wrong(app, 2)
    assert "Try once more." in piece(app) and "station-show" in keys(app)
    for option in range(3):  # a wrong answer in a link may be tried once more
        app = visit(station="2", predicted=f"2.{option}", text=TEXT, block="encoder")
        assert "Station 2 of 10" in html(app) and "<b>" in piece(app), option
        assert ("<b>Right.</b>" in piece(app)) != ("station-show" in keys(app)), option
        press(app, "option-2-0")
        assert address(app)["predicted"] == f"2.{option}"


def test_the_last_station_switches_its_head_off(begin: Visit) -> None:
    app = begin("open-10", "station-deed")
    place = {name: app.session_state[name] for name in ("layer", "head")}
    (edit,) = Intervention.from_json(app.session_state["edits"])
    assert (edit.kind, edit.layer, edit.head) == ("scale_head", place["layer"], place["head"])
    assert app.button_group(key="head_state").value == "off"  # as if it were the bar's own
    assert app.button(key="station-deed").label == "take it back"
    press(app, "undo")
    assert "edits" not in address(app)
    press(app, "station-deed", "station-deed")
    assert "edits" not in address(app)


def test_the_sentence_is_written_on_the_page_itself(begin: Visit) -> None:
    app = put(begin(), {"text": "A dog sat on the mat."})
    assert address(app)["text"] == "A dog sat on the mat."
    press(app, "begin")
    assert app.text_input(key="text").value == "A dog sat on the mat."
    go(app, "lessons")
    assert app.text_input(key="text").value == "A dog sat on the mat."


def test_back_set_up_again_and_leave(begin: Visit) -> None:
    app = begin("open-2")
    opened = {name: address(app).get(name) for name in ("block", "layer", "head", "token")}
    put(put(app, {"layer": 2}), {"block": "decoder"})
    press(app, "station-again")
    assert {name: address(app).get(name) for name in opened} == opened
    press(app, "station-back")
    assert "Station 1 of 10" in html(app) and "What happens inside a head?" in html(app)
    assert app.button(key="station-back").disabled
    app = begin("open-8")
    before = address(app)
    press(app, "station-leave")
    assert STRIP not in html(app)
    assert address(app) == {name: value for name, value in before.items() if name != "station"}


def test_how_a_station_sets_up_its_page(begin: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = Intervention((Temperature(value=3.0),)).to_json()
    app = begin("open-2", edits=warm)
    assert "edits" not in address(app)  # it begins clean, and undo brings the changes back
    assert address(press(app, "undo"))["edits"] == warm
    app = begin("open-3")  # Step inside opens where query, key and value are made
    shown, _ = part(app, "inside")
    assert shown["stations"][shown["step"]]["name"].startswith("qkv")
    assert address(app)["step"] == str(shown["step"])
    tasks: list[str] = []

    def noted(work: Callable[[Task], Any], *, key: str, **words: Any) -> Any:
        tasks.append(key)
        return run_with_progress(work, key=key, **words)

    monkeypatch.setattr("transformer_viz.app.lessons.navigation.run_with_progress", noted)
    app = begin("open-9", beam="1")  # Play searches in the way that found the words
    assert address(app)["search"] == "greedy" and address(app)["pooled"] == "off"
    assert tasks == ["station"] and not app.exception


def test_presenting_shows_one_side_at_a_time(begin: Visit) -> None:
    app = begin("open-2", present="on")
    assert STRIP in html(app) and not options(app)
    press(app, "station-turn")
    assert STRIP not in html(app) and options(app)
    press(app, "option-2-0", "station-on")
    assert STRIP in html(app) and not options(app)
    press(app, "station-back")
    assert options(app)  # it is answered: the class is past the text
    app = begin("open-2", lang="zh")
    assert "第 2 站，共 10 站" in html(app) and "谁看向谁" in html(app)
    assert "Find the row" not in piece(app, ASKED)


def test_the_strip_and_the_answers_survive_every_page(begin: Visit) -> None:
    app = begin("open-5", "option-5-1")
    for page in ("norms", "positions", "checkpoint", "about", "lessons", "step-inside", ""):
        go(app, page)
        assert address(app)["station"] == "5" and address(app)["predicted"] == "5.1", page
        assert ("Station 5 of 10" in html(app)) == (page not in ("checkpoint", "about", "lessons"))
    assert "<b>" in piece(app)
    assert go(app, "lessons").button(key="begin").label == "go on at station 5"


def test_odd_stations_and_predictions_of_a_link(visit: Visit) -> None:
    for word in ("77", "-1", "two"):
        app = runs(visit(station=word), word)
        assert "station" in told(app) and STRIP not in html(app), word
    for word in ("2.7", "40.1", "2.0,2.1", "9"):
        app = runs(visit(station="2", predicted=word, text=TEXT), word)
        assert piece(app, ASKED), word
        press(app, "option-2-0")
        assert "<b>" in piece(app), word


def test_answers_are_about_their_sentence(begin: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    app = begin("open-2", "option-2-0")
    put(app, {"text": LONGER})
    assert "<b>" not in piece(app) and "another one now" in piece(app)
    assert address(app)["predicted"] == "2.9"
    assert "1 of 10 questions answered" in html(go(app, "lessons"))
    app = begin("open-2", "option-2-0")
    put(app, {"beam": 1})
    assert address(app)["predicted"] == "2.0"  # the same sentence, searched in another way
    press(app, "station-leave")
    assert address(put(app, {"text": LONGER}))["predicted"] == "2.9"  # also without a lesson

    app = begin("open-2", "option-2-0")
    for module in ("session.visit", "lessons.navigation"):  # as the browser's Back does
        monkeypatch.setattr(f"transformer_viz.app.{module}.came_by_history", lambda: True)
    app.query_params["text"], app.query_params["predicted"] = LONGER, "2.1"
    app.run()
    assert address(app)["text"].startswith("A dog") and address(app)["predicted"] == "2.1"
    assert "<b>" in piece(app)


def test_nobody_is_kept_at_a_station_that_cannot_begin(begin: Visit) -> None:
    app = begin()
    app.session_state["_stopped"] = {"clean-run": ANY}
    press(app, "open-5")
    assert app.session_state["_here"] == "explore" and not options(app)
    assert go(app, "norms").session_state["_here"] == "norms"
    assert "_arriving" not in app.session_state
    for text in (" ", "cat " * 800):
        app = begin("open-5", text=text)
        assert app.session_state["_here"] == "explore"
        for page in ("norms", "lessons", "positions"):
            go(app, page)
            assert app.session_state["_here"] == page and not app.exception, page
        assert "_arriving" not in app.session_state
    app = begin("open-5", "station-leave", text=" ")
    assert "_arriving" not in app.session_state
    assert go(app, "norms").session_state["_here"] == "norms"
    app = put(begin("open-2", text=" "), {"text": TEXT})  # it begins once its sentence is there
    assert options(app) and "_arriving" not in app.session_state
    assert piece(app).find("Read it off the page") > 0
    app = begin("open-2", text="cat")
    assert "too short for this question" in told(app) and not options(app)
    assert "Station 3 of 10" in html(press(app, "station-on"))


def test_every_kind_of_model_is_asked_what_it_can_be(meet: Visit) -> None:
    for model in NAMES:
        app = meet(model, "lessons", **({"text": TEXT} if model == "lm" else {}))
        press(app, "begin")
        for number in range(1, 11):
            case = (model, number)
            assert f"Station {number} of 10" in html(ok(app, case)), case
            assert options(app) or told(app), case
            if (number, model) in ((9, "lm"), (10, "lm"), (10, "mlm")):
                assert "This station needs a model" in told(app) and not options(app), case
            press(app, "station-on")
        if model == "lm":  # it is offered the translator
            press(app, "open-9", "station-model")
            assert not app.exception and app.selectbox(key="model").value == "tiny"
            assert options(app) and "Station 9 of 10" in html(app)
