"""The app in other languages: no page shows an English sentence, and English stays as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from tests.conftest import SENTENCES
from tests.support.widgets import click, put, runs
from transformer_viz.app.pages import PAGES
from transformer_viz.app.shell.inputs import EXAMPLES, unmarked
from transformer_viz.core.interventions import Intervention, Pad, Temperature, Window
from transformer_viz.i18n import ENGLISH, languages, numeral, say, speaking

from ...support.english_left import prose, texts_of
from ...support.map_pages import MAP_PAGES
from ...support.model_kinds import NAMES
from ...support.page_content import go, html, part, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
PATHS = [page.path for page in PAGES]
OTHERS = [code for code in languages() if code != ENGLISH]
#: Those that ask the model a question, without the labs' many.
CHANGED = [page.path for page in PAGES if page.framed and page.address != "labs"]
EDITS = Intervention(
    (Temperature(value=2), Window(radius=1, stack="encoder"), Pad(count=2, masked=True))
).to_json()
#: How many English sentences the test finds at least on an English page.
LEAST = {"": 12, "norms": 12, "about": 20}
#: What stays English: sentences for the models, names of works, and what a model says of itself.
KNOWN = " | ".join(
    [
        *(unmarked(text) for texts in EXAMPLES.values() for text in texts),
        *("Attention is not Explanation", "Attention is not not Explanation"),
        *("Optical Recognition of Handwritten Digits", "English to German"),
    ]
)
#: Words that the tiny models may say in any order.
SPELLED = set(re.findall(r"[a-z']+", " ".join((KNOWN, *SENTENCES)).lower()))


def left_english(app: AppTest, language: str = "zh") -> list[str]:
    """The English sentences on a page, without those that are made of the models' own words."""
    runs = [run for text in texts_of(app) for run in prose(text, KNOWN, language)]
    return [run for run in runs if not set(re.findall(r"[a-z']+", run.lower())) <= SPELLED]


def timeless(app: AppTest) -> list[str]:
    """The texts of a page without those that say how long the last run took."""
    return [
        text for text in texts_of(app) if "tv-foot" not in text and "ms on the server" not in text
    ]


@pytest.mark.parametrize("paths", [PATHS[n::3] for n in range(3)], ids=" ".join)
def test_a_visitor_chooses_chinese_and_english_again(visit: Visit, paths: list[str]) -> None:
    for page in paths:
        app = visit(page)
        english = timeless(app)
        for code in OTHERS:  # the test itself finds English where it is
            assert len(left_english(app, code)) >= LEAST.get(page, 0), (page, code)
        for before, language in (("en", "zh"), ("zh", "en")):
            with speaking(before):  # the test runner looks for the words that stand there
                put(app, {"lang": language})
            assert not app.exception, (page, told(app))
            if language == "zh":
                assert left_english(app) == [], page
        assert timeless(app) == english, page


@pytest.mark.parametrize("language", ["de", pytest.param("zh", marks=pytest.mark.soak)])
@pytest.mark.parametrize("paths", [CHANGED[n::2] for n in range(2)], ids=" ".join)
def test_a_changed_page_in_another_language_has_no_english_sentence(
    visit: Visit, paths: list[str], language: str
) -> None:
    link = {"edits": EDITS, "view": "lines", "blocks": "all", "compare": "difference"}
    for page in paths:
        app = runs(visit(page, lang=language, **link), page)
        assert left_english(app, language) == [], page


@pytest.mark.parametrize(
    "paths",
    [
        [path for path in PATHS if path not in CHANGED],
        pytest.param(CHANGED, marks=pytest.mark.soak),
    ],
    ids=["others", "changed"],
)
def test_a_page_in_german_has_no_english_sentence(visit: Visit, paths: list[str]) -> None:
    for page in paths:
        assert left_english(runs(visit(page, lang="de"), page), "de") == [], page


def test_other_kinds_of_models_speak_it_too(meet: Visit) -> None:
    for number, kind in enumerate(NAMES):
        for turn, page in enumerate(MAP_PAGES):
            language = OTHERS[(number + turn) % len(OTHERS)]
            app = runs(meet(kind, page, lang=language), (kind, page))
            assert left_english(app, language) == [], (kind, page)


def test_what_a_link_asks_in_vain_is_said_in_its_language(visit: Visit) -> None:
    app = visit(lang="zh", layer="77", beam="99")
    assert "这里没有层 77；只有 0 到" in told(app) and "链接中的 beam 是 '99'" in told(app)
    app = visit(lang="xx")
    assert f"In the link, lang is 'xx'; it can be {', '.join(languages())}." in told(app)
    assert "Which words does each head look at?" in html(app)


def test_the_language_stays_on_every_page_and_in_the_link(visit: Visit) -> None:
    app = visit(lang="zh")
    with speaking("zh"):  # the runner asks the options' names in its own thread
        for page in ("norms", "about", ""):
            app = go(app, page)
            assert app.query_params["lang"] in ("zh", ["zh"]), page
    assert "每个头看向哪些词？" in html(app)
    app.session_state["lang"] = "en"
    app.run()
    assert timeless(app) == timeless(visit())


def test_the_menus_keep_the_language_when_a_button_leads_to_another_page(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus, draw = [], st.navigation

    def navigation(pages: Any, **words: Any) -> Any:
        menus.append(tuple(pages))
        return draw(pages, **words)

    app = go(visit(lang="de"), "checkpoint")
    monkeypatch.setattr(st, "navigation", navigation)
    runs(click(app, "explore"))
    assert {menu[0] for menu in menus} == {"Sehen"}, menus


def test_pictures_and_panels_speak_and_data_do_not(visit: Visit) -> None:
    app = visit(lang="zh", edits=EDITS)
    head, arrays = part(app, "head")
    assert (
        head["direction"] == "每一行以它写出的词元命名，并看向列"
        and head["lang"] == "zh"
        and arrays["weights"].size
    )
    assert "修改后的运行" in html(app)
    norms = go(app, "norms")
    assert "L0 before" in str(norms.dataframe[0].value["place"].iloc[0])
    assert (
        json.loads(norms.get("plotly_chart")[0].proto.spec)["layout"]["meta"]["alt"][:3] == "编码器"
    )


def test_what_a_checkpoint_showed_is_said_to_each_in_their_language(visit: Visit) -> None:
    for language, words, heading in (
        ("zh", "观察不改变任何东西", "设置"),
        ("en", "Watching changes nothing", "setting"),
    ):
        app = visit("checkpoint", lang=language)
        assert words in said(app, "finding-1"), language
        assert f"<tr><th>{heading}</th>" in html(app), language


def test_numbers_are_written_as_a_language_does() -> None:
    """No comma parts thousands in German, where it is a decimal mark; one minus everywhere."""
    with speaking("de"):
        assert numeral(4494, ",") == "4\u202f494" and numeral(0.146, ".1%") == "14.6\u202f%"
        assert say("{nats:+.2f} nats", nats=-1.5).startswith("−1.50")
    with speaking("zh"):
        assert numeral(4494, ",") == "4,494" and numeral(0.146, ".1%") == "14.6%"
    assert numeral(-4494, ",") == "−4,494" and numeral(0.146, ".0%") == "15%"


def test_words_from_right_to_left_are_set_apart_from_the_numbers_behind_them() -> None:
    turned = {"שלום": True, "عالم": True, "a ש": True, "Wort": False, 3: False}
    for word, apart in turned.items():
        said = say("“{word}”", word=word)
        assert said.count("\u2068") == said.count("\u2069") == int(apart), word
