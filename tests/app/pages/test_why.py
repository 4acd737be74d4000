"""Why this word in Streamlit's own test runner: the library's numbers, the choice, refusals."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.engine.why_jobs import METHODS, OVER_WORDS
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.inference.explanation import captions

from ...support.page_content import address, array, charts, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]


@pytest.fixture
def shown(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """The page with a translator in the box."""

    def open_page(**link: str) -> AppTest:
        app = visit("why", **({"text": FIRST_TEXT, "model": "en-de"} | link))
        assert not app.exception
        return app

    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", "en-de")
    return open_page


def section(app: AppTest, method: str) -> str:
    """The column of one method."""
    found = re.search(rf'<section data-what="why-{method}">.*?</section>', html(app), re.DOTALL)
    assert found is not None
    return found[0]


def library(word: int, method: str) -> Any:
    """The same answer from Python, of the text that the page holds."""
    model = tv.load("en-de", device="cpu")
    ids = [model.bos_id, *tv.translate(model, FIRST_TEXT, beam=4)[0].ids]
    return tv.explain(model, FIRST_TEXT, word, ids, method)


@pytest.mark.shipped
def test_the_numbers_are_the_librarys(shown: Visit) -> None:
    app = shown(answer="3")
    assert not app.error and not app.warning
    assert set(captions.OVER_WORDS) == set(OVER_WORDS)
    for method in OVER_WORDS:
        made, drawn = library(3, method), section(app, method)
        cells = re.findall(r"</i></td><td>(-?[\d.]+)</td></tr>", drawn)
        digits = 2 if method == "removal" else 3
        wanted = [round(value, digits) for value in made.values["value"]]
        assert [float(cell) for cell in cells] == pytest.approx(wanted, abs=1.01 * 10**-digits)
        assert made.caption.split(".")[0] in drawn.replace("&#x27;", "'")
    lens = library(3, "lens").values
    assert f"<b>{lens['probability'].iloc[-1]:.1%}</b>" in said(app, "why-lens")
    logits = library(3, "logits").values["value"]
    assert f"<b>{logits.sum():+.2f}</b>" in said(app, "why-logits")
    assert "“die”" in said(app, "why-word")
    removal = library(3, "removal")
    words = removal.values[~removal.values["special"]].nlargest(2, "value")
    verdict, before = said(app, "why-verdict"), lens["probability"].iloc[-1]
    for label, lost in zip(words["label"], words["value"], strict=True):
        assert f"“{label}”" in verdict and f"{before * math.exp(-lost):.1%}" in verdict


@pytest.mark.shipped
def test_another_word_is_chosen_and_stays_in_the_link(shown: Visit) -> None:
    app = shown()
    assert "“Das”" in said(app, "why-word")
    app.selectbox(key="answer").set_value(2).run()
    assert "überquerte" in said(app, "why-word")
    assert address(app)["answer"] == "2"
    assert "“überquerte" in said(shown(answer="2"), "why-word")
    late = shown(answer="99")
    assert any("There is no word 99 here" in str(one.value) for one in late.warning)


@pytest.mark.shipped
def test_the_least_sure_word_is_a_click_away(shown: Visit) -> None:
    app = shown()
    model = tv.load("en-de", device="cpu")
    ids = [model.bos_id, *tv.translate(model, FIRST_TEXT, beam=4)[0].ids]
    produced = tv.trace(model, FIRST_TEXT, ids).produced
    assert produced is not None
    least = int(produced.probability.argmin())
    button = app.button(key="why-least-sure")
    assert produced.labels[least] in button.label
    button.click().run()
    assert f"“{produced.labels[least]}" in said(app, "why-word")
    assert address(app)["answer"] == str(least)
    assert "why-least-sure" not in [one.key for one in app.button]  # it is the word in question


@pytest.mark.shipped
def test_the_deletion_curve_stands_once_it_is_asked_for(shown: Visit) -> None:
    app = shown(answer="3")
    assert not charts(app)
    app.session_state["why-deletion"] = True
    app.run()
    (drawn,) = charts(app).values()
    model = tv.load("en-de", device="cpu")
    ids = [model.bos_id, *tv.translate(model, FIRST_TEXT, beam=4)[0].ids]
    table = tv.explain(model, FIRST_TEXT, 3, ids, "gradient").deletion().table
    own = table[table["method"] == "gradient"]["loss"].to_numpy()
    line = next(one for one in drawn["data"] if one["name"].startswith("Gradient"))
    assert array(line["y"]) == pytest.approx(own, abs=1e-5)
    names = [one["name"] for one in drawn["data"]]
    assert names[-3:] == ["by chance, mean of 20 orders", "chance, 2.5 %", "chance, 97.5 %"]
    chance = table[table["method"] == "random"]["high"].to_numpy()
    assert array(drawn["data"][-1]["y"]) == pytest.approx(chance, abs=1e-5)


@pytest.mark.shipped
def test_numbers_and_their_card_go_along(shown: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    handed: dict[str, bytes] = {}
    monkeypatch.setattr(
        "streamlit.download_button",
        lambda label, data, file_name, **more: handed.update({file_name: data}),
    )
    app = shown(answer="3")
    app.session_state["why-numbers"] = True
    app.session_state["why-deletion"] = True
    app.run()
    table = pd.read_csv(io.BytesIO(handed["why.csv"]))
    assert list(dict.fromkeys(table["method"])) == list(METHODS)
    own = table[table["method"] == "removal"]["value"].to_numpy()
    assert own == pytest.approx(library(3, "removal").values["value"].to_numpy(), abs=1e-5)
    card = json.loads(handed["why.card.json"])
    assert card["model"] == "en-de" and card["model_hash"] and card["word"] == "die"
    curve = pd.read_csv(io.BytesIO(handed["deletion.csv"]))
    assert set(curve["method"]) == {*OVER_WORDS, "random"}
    assert json.loads(handed["deletion.card.json"])["draws"] == 20


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vit", "asks about the words of one text"),
        ("core", "asks about the words of one text"),
        ("mlm", "click a word above to mask it"),
    ],
)
def test_other_kinds_are_told_what_is_needed(
    meet: Callable[..., AppTest], name: str, words: str
) -> None:
    app = meet(name, "why")
    assert not app.exception and words in told(app)


@pytest.mark.parametrize(("name", "link"), [("lm", {}), ("mlm", {"masked": "4", "answer": "4"})])
def test_models_of_one_stack(meet: Callable[..., AppTest], name: str, link: dict[str, str]) -> None:
    app = meet(name, "why", text="The cat sat on the mat.", **link)
    assert not app.exception and not app.error
    for method in OVER_WORDS:
        assert "<table>" in section(app, method)
    assert said(app, "why-logits") and "probability" in said(app, "why-word")
