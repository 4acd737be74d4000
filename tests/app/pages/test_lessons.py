"""Lessons: the path, the strip above the pages, answers in the link, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
from streamlit.testing.v1 import AppTest

from transformer_viz.app.engine.task import Task
from transformer_viz.app.ui.progress import run_with_progress
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.lessons import STATIONS

from ...support.page_content import address, go, html, part, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TEXT = "The cat sat on the mat."
STRIP = 'class="tv-station-text"'
ASKED = 'class="tv-station-ask"'
WHY = 'class="tv-station-why"'


def piece(app: AppTest, mark: str) -> str:
    """The piece of HTML with a mark, or nothing."""
    return next((body for body in html(app).split("\n") if mark in body), "")


def keys(app: AppTest) -> list[str]:
    return [button.key for button in app.button if button.key]


def options(app: AppTest) -> list[str]:
    return [key for key in keys(app) if key.startswith("option-")]


def press(app: AppTest, key: str) -> AppTest:
    """Click a button, and stay on the page that it leads to, as a browser does."""
    app.button(key=key).click().run()
    here = app.session_state["_here"].replace("explore", "")
    pages = app._registered_pages.items()
    app._page_hash = next(key for key, words in pages if words["url_pathname"] == here)
    return app


def test_the_page_shows_the_whole_path(visit: Visit) -> None:
    app = visit("lessons")
    assert not app.exception and not app.error
    assert [key for key in keys(app) if key.startswith("open-")] == [
        f"open-{number}" for number in range(1, 11)
    ]
    for station in STATIONS:
        assert station.title in html(app) and station.notes.say[:30] in html(app)
    assert "0 of 10 questions answered" in html(app)


def test_begin_opens_the_first_station_on_its_page(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "begin")
    assert "Station 1 of 10" in html(app) and "What happens inside a head?" in html(app)
    assert app.text_input(key="text").value == TEXT
    assert address(app)["station"] == "1" and "The · cat" not in piece(app, WHY)
    assert "Read it off the page" in piece(app, WHY)


@pytest.mark.parametrize("number", range(1, 11))
def test_a_station_is_opened_asked_and_answered(visit: Visit, number: int) -> None:
    app = press(visit("lessons", text=TEXT), f"open-{number}")
    assert not app.exception and not app.error, number
    assert f"Station {number} of 10" in html(app) and piece(app, ASKED)
    count = len(options(app))
    assert count >= 2
    verdicts = []
    for option in range(count):
        press(app, f"option-{number}-{option}")
        verdicts.append("<b>Right.</b>" in piece(app, WHY))
        assert verdicts[-1] or "<b>Not quite.</b>" in piece(app, WHY)
        explained = any(verdicts) or option > 0
        assert ("Try once more." in piece(app, WHY)) != explained
        assert any("✓" in button.label for button in app.button) == explained
        assert ("station-show" in keys(app)) != explained
        assert address(app)["predicted"] == f"{number}.0"  # the first answer counts
    assert verdicts.count(True) == 1 and not app.exception


def wrong(app: AppTest, number: int) -> AppTest:
    """Answer a station wrongly: the first option, or, where that is the right one, the second."""
    press(app, f"option-{number}-0")
    if "<b>Right.</b>" not in piece(app, WHY):
        return app
    press(press(go(app, "lessons"), "anew"), f"open-{number}")
    return press(app, f"option-{number}-1")


def test_a_wrong_answer_is_helped_on_and_the_answer_shown_when_asked(visit: Visit) -> None:
    app = wrong(press(visit("lessons", text=TEXT), "open-2"), 2)
    first = address(app)["predicted"]
    assert "Follow the framed row" in piece(app, WHY) and "add up to" not in piece(app, WHY)
    press(app, "station-show")
    assert "<b>The answer:</b>" in piece(app, WHY) and "add up to" in piece(app, WHY)
    assert [button.label[0] for button in app.button if button.label.startswith(("✓", "✗"))] in (
        ["✓", "✗"],
        ["✗", "✓"],
    )
    assert address(app)["predicted"] == first and "station-show" not in keys(app)


def test_a_second_try_is_over_when_the_sentence_changes(visit: Visit) -> None:
    app = press(wrong(press(visit("lessons", text=TEXT), "open-2"), 2), "station-show")
    app.text_input(key="text").set_value("A dog sat on the mat and the cat.").run()
    assert "another one now" in piece(app, WHY) and "station-show" not in keys(app)
    wrong(app, 2)
    assert "Try once more." in piece(app, WHY) and "station-show" in keys(app)


def test_a_wrong_answer_in_a_link_may_be_tried_once_more(visit: Visit) -> None:
    for option in range(3):
        app = visit(station="2", predicted=f"2.{option}", text=TEXT, block="encoder")
        right = "<b>Right.</b>" in piece(app, WHY)
        assert right != ("station-show" in keys(app))
        press(app, "option-2-0")
        assert address(app)["predicted"] == f"2.{option}"


def test_the_last_station_switches_its_head_off(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "open-10")
    press(app, "station-deed")
    place = {name: app.session_state[name] for name in ("layer", "head")}
    (edit,) = Intervention.from_json(app.session_state["edits"])
    assert (edit.kind, edit.layer, edit.head) == ("scale_head", place["layer"], place["head"])
    assert app.button_group(key="head_state").value == "off"  # as if it were the bar's own
    assert app.button(key="station-deed").label == "take it back"
    press(app, "undo")
    assert "edits" not in address(app)
    press(press(app, "station-deed"), "station-deed")
    assert "edits" not in address(app)


def test_the_sentence_is_written_on_the_page_itself(visit: Visit) -> None:
    app = visit("lessons", text=TEXT)
    app.text_input(key="text").set_value("A dog sat on the mat.").run()
    assert address(app)["text"] == "A dog sat on the mat."
    press(app, "begin")
    assert app.text_input(key="text").value == "A dog sat on the mat."
    go(app, "lessons")
    assert app.text_input(key="text").value == "A dog sat on the mat."


def test_the_path_leads_from_page_to_page_and_home(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "begin")
    for number, station in enumerate(STATIONS, 1):
        assert not app.exception and not app.error, station.name
        assert f"Station {number} of 10" in html(app)
        assert app.session_state["_here"] == station.page
        press(app, f"option-{number}-0")
        press(app, "station-on")
    assert "10 of 10 questions answered" in html(app)
    assert address(app)["predicted"] == ",".join(f"{number}.0" for number in range(1, 11))
    assert "station" not in address(app) and address(app)["text"] == TEXT
    press(app, "anew")
    assert "predicted" not in address(app) and "0 of 10" in html(app)


def test_back_and_set_up_again(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "open-2")
    opened = {name: address(app).get(name) for name in ("block", "layer", "head", "token")}
    app.selectbox(key="layer").set_value(2).run()
    app.button_group(key="block").set_value("decoder")
    app.run()
    press(app, "station-again")
    assert {name: address(app).get(name) for name in opened} == opened
    press(app, "station-back")
    assert "Station 1 of 10" in html(app) and "What happens inside a head?" in html(app)
    assert app.button(key="station-back").disabled


def test_a_station_begins_clean_and_undo_brings_the_changes_back(visit: Visit) -> None:
    warm = Intervention((Temperature(value=3.0),)).to_json()
    app = press(visit("lessons", text=TEXT, edits=warm), "open-2")
    assert "edits" not in address(app)
    press(app, "undo")
    assert address(app)["edits"] == warm


def test_step_inside_opens_where_query_key_and_value_are_made(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "open-3")
    shown, _ = part(app, "inside")
    assert shown["stations"][shown["step"]]["name"].startswith("qkv")
    assert address(app)["step"] == str(shown["step"])


def test_play_searches_in_the_way_that_found_the_words(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT, beam="1"), "open-9")
    assert address(app)["search"] == "greedy" and address(app)["pooled"] == "off"


def test_presenting_shows_one_side_at_a_time(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT, present="on"), "open-2")
    assert STRIP in html(app) and not options(app)
    press(app, "station-turn")
    assert STRIP not in html(app) and options(app)
    press(app, "option-2-0")
    press(app, "station-on")
    assert STRIP in html(app) and not options(app)
    press(app, "station-back")
    assert options(app)  # it is answered: the class is past the text


@pytest.mark.parametrize("number", [2, 4])
def test_while_the_controls_stand_away_it_is_told_when_they_come(visit: Visit, number: int) -> None:
    app = press(visit("lessons", text=TEXT), f"open-{number}")
    told_when = "Sliders and masks are put away; they come with station 4." in html(app)
    assert told_when == (number < 4)


def test_leaving_keeps_all_else(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT), "open-8")
    before = address(app)
    press(app, "station-leave")
    assert STRIP not in html(app)
    assert address(app) == {name: v for name, v in before.items() if name != "station"}


def test_the_strip_and_the_answers_survive_every_page(visit: Visit) -> None:
    app = press(press(visit("lessons", text=TEXT), "open-5"), "option-5-1")
    for page in ("norms", "positions", "checkpoint", "about", "lessons", "step-inside", ""):
        go(app, page)
        assert address(app)["station"] == "5" and address(app)["predicted"] == "5.1", page
        assert ("Station 5 of 10" in html(app)) == (page not in ("checkpoint", "about", "lessons"))
    assert "<b>" in piece(app, WHY)
    assert go(app, "lessons").button(key="begin").label == "go on at station 5"


def test_a_link_opens_a_station_with_its_answer(visit: Visit) -> None:
    app = visit(station="2", predicted="2.0", text=TEXT, block="encoder")
    assert "Station 2 of 10" in html(app) and "<b>" in piece(app, WHY)


@pytest.mark.parametrize("word", ["77", "-1", "two"])
def test_a_station_that_there_is_not_is_told(visit: Visit, word: str) -> None:
    app = visit(station=word)
    assert not app.exception and "station" in told(app) and STRIP not in html(app)


@pytest.mark.parametrize("word", ["2.7", "40.1", "2.0,2.1", "9"])
def test_odd_predictions_harm_nobody(visit: Visit, word: str) -> None:
    app = visit(station="2", predicted=word, text=TEXT)
    assert not app.exception and piece(app, ASKED)
    press(app, "option-2-0")
    assert "<b>" in piece(app, WHY)


def test_another_sentence_asks_anew_and_keeps_that_it_was_answered(visit: Visit) -> None:
    app = press(press(visit("lessons", text=TEXT), "open-2"), "option-2-0")
    app.text_input(key="text").set_value("A dog sat on the mat and the cat.").run()
    assert "<b>" not in piece(app, WHY) and "another one now" in piece(app, WHY)
    assert address(app)["predicted"] == "2.9"
    assert "1 of 10 questions answered" in html(go(app, "lessons"))


def test_answers_are_about_the_sentence_also_without_a_lesson(visit: Visit) -> None:
    app = press(press(visit("lessons", text=TEXT), "open-2"), "option-2-0")
    app.selectbox(key="beam").set_value(1).run()
    assert address(app)["predicted"] == "2.0"  # the same sentence, searched in another way
    press(app, "station-leave")
    app.text_input(key="text").set_value("A dog sat on the mat and the cat.").run()
    assert address(app)["predicted"] == "2.9"


def test_answers_of_a_link_are_about_its_sentence(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = press(press(visit("lessons", text=TEXT), "open-2"), "option-2-0")

    for module in ("session.visit", "lessons.navigation"):  # as the browser's Back does
        monkeypatch.setattr(f"transformer_viz.app.{module}.came_by_history", lambda: True)
    app.query_params["text"] = "A dog sat on the mat and the cat."
    app.query_params["predicted"] = "2.1"
    app.run()
    assert address(app)["text"].startswith("A dog") and address(app)["predicted"] == "2.1"
    assert "<b>" in piece(app, WHY)


def test_a_stopped_run_keeps_nobody(visit: Visit) -> None:
    app = visit("lessons", text=TEXT)
    app.session_state["_stopped"] = {"clean-run": ANY}
    press(app, "open-5")
    assert app.session_state["_here"] == "explore" and not options(app)
    assert go(app, "norms").session_state["_here"] == "norms"
    assert "_arriving" not in app.session_state


@pytest.mark.parametrize("text", [" ", "cat " * 800])
def test_nobody_is_brought_back_to_a_station_that_cannot_begin(visit: Visit, text: str) -> None:
    app = press(visit("lessons", text=text), "open-5")
    assert app.session_state["_here"] == "explore"
    for page in ("norms", "lessons", "positions"):
        go(app, page)
        assert app.session_state["_here"] == page and not app.exception
    assert "_arriving" not in app.session_state


def test_a_station_begins_once_its_sentence_is_there(visit: Visit) -> None:
    app = press(visit("lessons", text=" "), "open-2")
    app.text_input(key="text").set_value(TEXT).run()
    assert options(app) and "_arriving" not in app.session_state
    assert piece(app, WHY).find("Read it off the page") > 0


def test_leaving_ends_the_wish_to_arrive(visit: Visit) -> None:
    app = press(visit("lessons", text=" "), "open-5")
    press(app, "station-leave")
    assert "_arriving" not in app.session_state
    assert go(app, "norms").session_state["_here"] == "norms"


def test_a_station_is_set_up_in_one_task(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    keys_of: list[str] = []

    def noted(work: Callable[[Task], Any], *, key: str, **words: Any) -> Any:
        keys_of.append(key)
        return run_with_progress(work, key=key, **words)

    monkeypatch.setattr("transformer_viz.app.lessons.navigation.run_with_progress", noted)
    app = press(visit("lessons", text=TEXT), "open-9")
    assert keys_of == ["station"] and not app.exception


def test_a_short_sentence_is_told_and_the_ways_stay(visit: Visit) -> None:
    app = press(visit("lessons", text="cat"), "open-2")
    assert "too short for this question" in told(app) and not options(app)
    press(app, "station-on")
    assert "Station 3 of 10" in html(app)


def test_another_kind_of_model_is_offered_the_translator(meet: Visit) -> None:
    app = press(meet("lm", "lessons", text="The cat sat on the mat."), "open-9")
    assert "This station needs a model" in told(app) and not options(app)
    press(app, "station-model")
    assert not app.exception and app.selectbox(key="model").value == "tiny"
    assert options(app) and "Station 9 of 10" in html(app)


@pytest.mark.parametrize("model", ["lm", "mlm"])
def test_the_last_question_is_for_translators(meet: Visit, model: str) -> None:
    app = press(meet(model, "lessons"), "open-10")
    assert "This station needs a model" in told(app) and not options(app)


@pytest.mark.parametrize("model", ["lm", "mlm", "vit", "core", "ids"])
def test_every_kind_of_model_is_asked_what_it_can_be(meet: Visit, model: str) -> None:
    app = meet(model, "lessons")
    for number in range(1, 11):
        go(app, "lessons")
        press(app, f"open-{number}")
        assert not app.exception and not app.error, number
        assert options(app) or told(app), number


def test_the_strip_speaks_the_language_of_the_visit(visit: Visit) -> None:
    app = press(visit("lessons", text=TEXT, lang="zh"), "open-2")
    assert "第 2 站，共 10 站" in html(app) and "谁看向谁" in html(app)
    assert "Find the row" not in piece(app, ASKED)
