"""The ten stations as a path: complete, in order, with states and terms that there are."""

from __future__ import annotations

import re

import pytest

from transformer_viz.app.session.url_state import DEFAULTS, KEYS
from transformer_viz.i18n import catalogue, languages
from transformer_viz.lessons import STATIONS, Ask, Spot, Station, numbered
from transformer_viz.lessons.glossary import GLOSSARY
from transformer_viz.lessons.term_markup import marked, terms, without_terms

NAMES = [station.name for station in STATIONS]


def test_ten_stations_make_an_hour() -> None:
    assert len(STATIONS) == 10 == len(set(NAMES))
    assert sum(station.minutes for station in STATIONS) == 60
    assert [station.looks for station in STATIONS] == [True] * 3 + [False] * 7
    assert numbered(0) is None and numbered(11) is None
    assert [numbered(number) for number in range(1, 11)] == list(STATIONS)


@pytest.mark.parametrize("station", STATIONS, ids=NAMES)
def test_a_station_sets_keys_of_the_link(station: Station) -> None:
    keys = {key.name: key for key in KEYS}
    for name, value in station.state(Spot(station.maps[0], 1, 2, 3, 4)).items():
        assert name in DEFAULTS and keys[name].read(keys[name].write(value)) == value
    assert not {"text", "model", "target", "beam", "lang", "present"} & set(
        station.state(Spot(station.maps[0]))
    )


@pytest.mark.parametrize("language", [code for code in languages() if code != "en"])
@pytest.mark.parametrize("station", STATIONS, ids=NAMES)
def test_a_text_names_the_same_terms_in_each_language(station: Station, language: str) -> None:
    found = terms(station.text)
    assert found and set(found) <= set(GLOSSARY)
    assert set(terms(catalogue(language)[station.text])) == set(found)


def test_the_glossary_has_about_forty_words() -> None:
    assert 40 <= len(GLOSSARY) <= 50
    assert len({shown for shown, _ in GLOSSARY.values()}) == len(GLOSSARY)


def test_terms_become_html_that_can_be_reached() -> None:
    html = marked("A <b> & [scores|score] of “[key]”.")
    assert html.startswith("A &lt;b&gt; &amp; ") and html.count('tabindex="0"') == 2
    assert re.findall(r'tabindex="0">([^<]+)<', html) == ["scores", "key"]
    assert without_terms("A [scores|score] of [key].") == "A scores of key."
    with pytest.raises(KeyError):
        marked("[nobody knows this]")


def test_a_question_needs_a_right_option() -> None:
    with pytest.raises(ValueError, match="one of them right"):
        Ask("?", ("a", "b"), 2, "", "")
    with pytest.raises(ValueError, match="stands once"):
        Ask("?", ("a", "a"), 0, "", "")
