"""The ten stations as a path: complete, in order, with terms that exist; and the worksheet."""

from __future__ import annotations

import re
from html import unescape

import pytest

from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question
from transformer_viz.app.pages.lessons import sheet, solutions
from transformer_viz.app.session.url_state import DEFAULTS, KEYS
from transformer_viz.i18n import catalogue, languages, speaking
from transformer_viz.lessons import STATIONS, Ask, Spot, numbered
from transformer_viz.lessons.glossary import GLOSSARY
from transformer_viz.lessons.term_markup import marked, terms, without_terms
from transformer_viz.lessons.worksheet import Page, answer_sheet, worksheet

from .conftest import MODEL, Asked

TEXT = "She gave him the book that he wanted to read."


def test_ten_stations_make_an_hour() -> None:
    assert len(STATIONS) == 10 == len({station.name for station in STATIONS})
    assert sum(station.minutes for station in STATIONS) == 60
    assert [station.looks for station in STATIONS] == [True] * 3 + [False] * 7
    assert numbered(0) is None and numbered(11) is None
    assert [numbered(number) for number in range(1, 11)] == list(STATIONS)
    keys = {key.name: key for key in KEYS}
    for station in STATIONS:
        for name, value in station.state(Spot(station.maps[0], 1, 2, 3, 4)).items():
            case = (station.name, name)
            assert name in DEFAULTS and keys[name].read(keys[name].write(value)) == value, case
        kept = {"text", "model", "target", "beam", "lang", "present"}
        assert not kept & set(station.state(Spot(station.maps[0]))), station.name
        found = set(terms(station.text))
        assert found and found <= set(GLOSSARY), station.name
        for language in set(languages()) - {"en"}:
            assert set(terms(catalogue(language)[station.text])) == found, (station.name, language)
    for right, options, said in ((2, ("a", "b"), "one of them right"), (0, "aa", "stands once")):
        with pytest.raises(ValueError, match=said):
            Ask("?", tuple(options), right, "", "")


def test_terms_become_html_that_can_be_reached() -> None:
    assert 40 <= len(GLOSSARY) <= 50
    assert len({shown for shown, _ in GLOSSARY.values()}) == len(GLOSSARY)
    html = marked("A <b> & [scores|score] of “[key]”.")
    assert html.startswith("A &lt;b&gt; &amp; ") and html.count('tabindex="0"') == 2
    assert re.findall(r'tabindex="0">([^<]+)<', html) == ["scores", "key"]
    assert without_terms("A [scores|score] of [key].") == "A scores of key."
    with pytest.raises(KeyError):
        marked("[nobody knows this]")


@pytest.mark.shipped
def test_the_sheet_of_a_sentence(asked: Asked, engine: Engine) -> None:
    """Nothing from elsewhere, and numbers of this sentence."""
    kind, question = engine.kind(MODEL), Question(MODEL, TEXT, beam=1)
    for language in languages():
        with speaking(language):
            pupils, teacher = (make(engine, question, kind) for make in (sheet, solutions))
        html, shown = pupils + teacher, unescape(pupils)
        mark = f'lang="{language}"'
        assert pupils.count(mark) == teacher.count(mark) == 1, language
        assert 'class="answers"' in teacher and 'class="answers"' not in pupils, language
        assert not re.search(r"https?://|<script|src=|@import|url\(", html), language
        assert pupils.count("<h2>") == len(STATIONS) + 1, language
        assert teacher.count("<li>") == len(STATIONS), language
        assert "[" not in re.sub(r"<style>.*?</style>", "", html, flags=re.S), language
        assert ("走进 Transformer" in html) == (language == "zh"), language
        assert ("Eine Stunde im Inneren" in html) == (language == "de"), language
        assert "”" not in html or language != "de"  # its quotation marks are „so“
        for _, ask in (asked(station.name, TEXT) for station in STATIONS):
            if language == "en":
                assert ask.question in shown and ask.why in unescape(teacher), ask
                assert ask.why not in shown, ask
                assert all(f"☐ {option}<" in shown for option in ask.options), ask


def test_texts_of_visitors_are_escaped_on_the_worksheet() -> None:
    pages = [Page(station, None, "<i>why</i>") for station in STATIONS]
    html = worksheet(pages, "<script>alert(1)</script>", "<b>", "<img src=x>")
    html += answer_sheet(pages, "<script>alert(1)</script>", "<b>")
    assert "<script" not in html and "<img" not in html and "<i>why" not in html
