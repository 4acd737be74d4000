"""The worksheet and its answers: nothing from elsewhere, numbers of this sentence."""

from __future__ import annotations

import re
from html import unescape

import pytest

from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question
from transformer_viz.app.pages.lessons import sheet, solutions
from transformer_viz.i18n import languages, speaking
from transformer_viz.lessons import STATIONS
from transformer_viz.lessons.worksheet import Page, answer_sheet, worksheet

from .conftest import MODEL, Asked

TEXT = "She gave him the book that he wanted to read."


@pytest.mark.shipped
@pytest.mark.parametrize("language", languages())
def test_the_sheet_of_a_sentence(asked: Asked, engine: Engine, language: str) -> None:
    kind = engine.kind(MODEL)
    assert kind is not None
    with speaking(language):
        pupils = sheet(engine, Question(MODEL, TEXT, beam=1), kind)
        teacher = solutions(engine, Question(MODEL, TEXT, beam=1), kind)
    html = pupils + teacher
    assert pupils.count(f'lang="{language}"') == teacher.count(f'lang="{language}"') == 1
    assert 'class="answers"' in teacher and 'class="answers"' not in pupils
    assert not re.search(r"https?://|<script|src=|@import|url\(", html)
    for station in STATIONS:
        _, ask = asked(station.name, TEXT)
        if language == "en":
            assert ask.question in unescape(pupils) and ask.why in unescape(teacher)
            assert ask.why not in unescape(pupils)
            assert all(f"☐ {option}<" in unescape(pupils) for option in ask.options)
    assert pupils.count("<h2>") == len(STATIONS) + 1 and teacher.count("<li>") == len(STATIONS)
    assert "[" not in re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    assert ("走进 Transformer" in html) == (language == "zh")
    assert ("Eine Stunde im Inneren" in html) == (language == "de")
    assert "”" not in html or language != "de"  # its quotation marks are „so“


def test_what_comes_from_outside_is_escaped() -> None:
    pages = [Page(station, None, "<i>why</i>") for station in STATIONS]
    html = worksheet(pages, "<script>alert(1)</script>", "<b>", "<img src=x>")
    html += answer_sheet(pages, "<script>alert(1)</script>", "<b>")
    assert "<script" not in html and "<img" not in html and "<i>why" not in html
