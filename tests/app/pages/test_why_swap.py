"""The pages Why this word and Swap: the library's numbers, the choices, and refusals."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.widgets import click, fine, keys, ok, put
from transformer_viz.app.engine.why_jobs import METHODS, OVER_WORDS
from transformer_viz.app.pages import swap
from transformer_viz.app.session.url_state import FIRST_TEXT
from transformer_viz.core.interventions import Intervention, SwapHead, SwapStream
from transformer_viz.i18n import numeral
from transformer_viz.inference.explanation import captions
from transformer_viz.inference.patching.output_words import SameOutputs

from ...support.page_content import address, array, charts, go, heatmap, html, said, told

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
OTHER = FIRST_TEXT.replace("tired", "wide")
TEXT = "The cat sat on the mat."


@cache
def model() -> Any:
    return tv.load("en-de", device="cpu")


@cache
def written(text: str = FIRST_TEXT) -> Any:
    """The best translation of a text by the bundled model."""
    return tv.translate(model(), text, beam=4)[0]


# ---- Why this word


def section(app: AppTest, method: str) -> str:
    """The column of one method."""
    found = re.search(rf'<section data-what="why-{method}">.*?</section>', html(app), re.DOTALL)
    assert found is not None, method
    return found[0]


@pytest.mark.shipped
def test_why_shows_and_offers_the_librarys_numbers(
    bundled: Visit, downloads: dict[str, bytes]
) -> None:
    @cache
    def library(method: str) -> Any:
        return tv.explain(model(), FIRST_TEXT, 3, [model().bos_id, *written().ids], method)

    app = fine(bundled("why", text=FIRST_TEXT, answer="3"))
    assert not charts(app)
    assert set(captions.OVER_WORDS) == set(OVER_WORDS)
    for method in OVER_WORDS:
        made, drawn = library(method), section(app, method)
        cells = re.findall(r"</i></td><td>(-?[\d.]+)</td></tr>", drawn)
        digits = 2 if method == "removal" else 3
        wanted = [round(value, digits) for value in made.values["value"]]
        assert [float(cell) for cell in cells] == pytest.approx(wanted, abs=1.01 * 10**-digits)
        assert made.caption.split(".")[0] in drawn.replace("&#x27;", "'"), method
    before = library("lens").values["probability"].iloc[-1]
    assert f"<b>{before:.1%}</b>" in said(app, "why-lens")
    assert f"<b>{library('logits').values['value'].sum():+.2f}</b>" in said(app, "why-logits")
    assert "“die”" in said(app, "why-word")
    removal = library("removal").values
    verdict = said(app, "why-verdict")
    words = removal[~removal["special"]].nlargest(2, "value")
    for label, lost in zip(words["label"], words["value"], strict=True):
        assert f"“{label}”" in verdict and f"{before * math.exp(-lost):.1%}" in verdict

    app.session_state["why-numbers"] = app.session_state["why-deletion"] = True
    app.run()
    (drawn,) = charts(app).values()
    table = library("gradient").deletion().table
    line = next(one for one in drawn["data"] if one["name"].startswith("Gradient"))
    own = table[table["method"] == "gradient"]["loss"].to_numpy()
    assert array(line["y"]) == pytest.approx(own, abs=1e-5)
    names = [one["name"] for one in drawn["data"]]
    assert names[-3:] == ["by chance, mean of 20 orders", "chance, 2.5 %", "chance, 97.5 %"]
    chance = table[table["method"] == "random"]["high"].to_numpy()
    assert array(drawn["data"][-1]["y"]) == pytest.approx(chance, abs=1e-5)
    table = pd.read_csv(io.BytesIO(downloads["why.csv"]))
    assert list(dict.fromkeys(table["method"])) == list(METHODS)
    own = table[table["method"] == "removal"]["value"].to_numpy()
    assert own == pytest.approx(removal["value"].to_numpy(), abs=1e-5)
    card = json.loads(downloads["why.card.json"])
    assert card["model"] == "en-de" and card["model_hash"] and card["word"] == "die"
    curve = pd.read_csv(io.BytesIO(downloads["deletion.csv"]))
    assert set(curve["method"]) == {*OVER_WORDS, "random"}
    assert json.loads(downloads["deletion.card.json"])["draws"] == 20


@pytest.mark.shipped
def test_another_word_and_the_least_sure_one_are_chosen(bundled: Visit) -> None:
    app = bundled("why", text=FIRST_TEXT)
    assert "“Das”" in said(app, "why-word")
    put(app, {"answer": 2})
    assert "“überquerte" in said(app, "why-word") and address(app)["answer"] == "2"
    assert "“überquerte" in said(bundled("why", text=FIRST_TEXT, answer="2"), "why-word")
    late = bundled("why", text=FIRST_TEXT, answer="99")
    assert any("There is no word 99 here" in str(one.value) for one in late.warning)

    held = [model().bos_id, *written().ids]
    produced = tv.trace(model(), FIRST_TEXT, held, check=False).produced
    least = int(produced.probability.argmin())
    put(app, {"answer": 0})
    assert produced.labels[least] in app.button(key="why-least-sure").label
    click(app, "why-least-sure")
    assert f"“{produced.labels[least]}" in said(app, "why-word")
    assert address(app)["answer"] == str(least)
    assert "why-least-sure" not in keys(app)  # it is the word in question


def test_models_of_one_stack_are_asked_too(meet: Visit) -> None:
    for name, link in (("lm", {}), ("mlm", {"masked": "4", "answer": "4"})):
        app = ok(meet(name, "why", text=TEXT, **link), name)
        assert all("<table>" in section(app, method) for method in OVER_WORDS), name
        assert said(app, "why-logits") and "probability" in said(app, "why-word"), name
    pair = {"text": TEXT, "other": "The dog sat on the mat."}
    for name, stack, link in (("lm", "decoder", pair), ("mlm", "encoder", pair | {"masked": "4"})):
        app = ok(meet(name, "swap", **link), name)
        assert list(charts(app)) == [f"swap-heads-{stack}"] or told(app), name


# ---- Swap


@pytest.mark.shipped
def test_the_grids_of_swaps_are_the_librarys(bundled: Visit, downloads: dict[str, bytes]) -> None:
    ids = [written(text).ids for text in (FIRST_TEXT, OTHER)]
    common = next(n for n, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    held, words = [model().bos_id, *ids[0][:common]], (ids[0][common], ids[1][common])
    for what in ("heads", "patterns", "stream"):
        app = fine(bundled("swap", text=FIRST_TEXT, swapped=what), what)
        found = tv.swap(model(), FIRST_TEXT, OTHER, words, what, target=held)
        drawn = charts(app)
        assert {f"swap-{what}-{part}" for part in found.parts} == set(drawn)
        for part, values in found.parts.items():
            grid = heatmap(drawn[f"swap-{what}-{part}"])
            np.testing.assert_allclose(grid, values, atol=1e-6, err_msg=f"{what} {part}")
        assert f"{numeral(found.clean, '+.2f')} nats" in said(app, "pair-0")
        assert f"{numeral(found.other, '+.2f')} nats" in said(app, "pair-1")
        assert model().tokenizer.decode(ids[0]) in said(app, "writes-0")
        strongest = found.ranked[0]
        value = found.parts[strongest.part][strongest.row, strongest.column]
        assert any(f"{value:+.2f}" in str(one.value) for one in app.markdown), what
        if what == "heads":
            app.session_state["swap-numbers"] = True
            app.run()
            table = pd.read_csv(io.BytesIO(downloads["swap-heads.csv"]))
            assert list(table) == ["part", "layer", "head", "moved"]
            card = json.loads(downloads["swap-heads.card.json"])
            assert card["swaps"] == len(table) and card["model"] == "en-de" and card["model_hash"]
            grid = heatmap(drawn["swap-heads-cross"])
            cross = table[table["part"] == "cross"]["moved"].to_numpy().reshape(grid.shape)
            np.testing.assert_allclose(cross, grid, atol=1e-6)


@pytest.mark.shipped
def test_one_click_keeps_a_swap_and_another_takes_it_back(bundled: Visit) -> None:
    app = click(bundled("swap", text=FIRST_TEXT), "swap-keep-0")
    first = written().text
    (edit,) = Intervention.from_json(app.session_state["edits"]).edits
    assert isinstance(edit, SwapHead) and edit.source == OTHER
    assert app.button(key="swap-keep-0").label == "take back"
    assert keys(app, "edit-") == ["edit-0"]
    label = app.button(key="edit-0").label
    assert "gives what it gives in" in label and first in said(app, "before")
    changed = tv.translate(model(), FIRST_TEXT, beam=4, intervention=Intervention((edit,)))[0].text
    words = [word for word in changed.split() if word not in first.split()]
    assert all(word.strip(".,") in said(app, "after") for word in words)
    assert go(app, "").button(key="edit-0").label == label and "edits" in address(app)
    click(go(app, "swap"), "swap-keep-0")
    assert Intervention.from_json(app.session_state["edits"]).edits == ()
    click(app, "undo")
    assert Intervention.from_json(app.session_state["edits"]).edits == (edit,)

    def row(token: int) -> str:
        return Intervention(
            (SwapStream(source=OTHER, stack="encoder", layer=0, token=token),)
        ).to_json()

    app = bundled("swap", text=FIRST_TEXT, swapped="stream", edits=row(1))
    assert "“animal”" in app.button(key="edit-0").label  # a row is called by its word
    late = bundled("swap", text=FIRST_TEXT, edits=row(40))
    assert "does not stand in this sentence" in told(late) or any(
        "does not stand" in str(one.value) for one in late.error
    )


@pytest.mark.shipped
def test_the_other_sentence_and_the_pair_are_typed_and_stay_in_the_link(bundled: Visit) -> None:
    app = put(bundled("swap", text=FIRST_TEXT), {"swap-other": FIRST_TEXT})
    assert "Both sentences are the same now" in told(app) and not charts(app)
    longer = FIRST_TEXT.replace("tired", "very tired")
    put(put(app, {"swap-other": longer}), {"swap-pair": "es, sie"})
    link = address(app)
    assert (link["other"], link["between"]) == (longer, "es, sie")
    assert "Without a counterpart" in html(app)
    put(app, {"swapped": "patterns"})
    assert "only between sentences of as many tokens" in told(app)
    put(app, {"swap-pair": "es"})
    assert "two words with a comma between" in told(app)
    put(app, {"swap-pair": "Regen, Sonne"})
    assert "stands in the outputs" in told(app)


def test_equal_outputs_have_no_carrier(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model with ramp weights hardly listens to its source."""
    app = ok(visit("swap", other="The dog sat."))
    assert "no difference whose carrier" in told(app) or "the same output" in told(app)

    def same(*_: Any, **__: Any) -> None:
        raise SameOutputs("name a pair of words (words=)")

    monkeypatch.setattr(swap, "run_with_progress", same)
    app = visit("swap", other="The dog sat.", lang="de")
    assert "Beide Sätze haben dieselbe Ausgabe" in told(app) and "words=" not in told(app)


def test_a_text_of_the_models_own_words_has_a_variant() -> None:
    for text, examples, other in (
        ("rot hund jagt", ("rot hund jagt", "blau katze malt"), "rot hund malt"),
        ("blau katze malt", ("rot hund jagt", "blau katze malt"), "blau katze jagt"),
        ("abcd", ("abcd", "efgh"), "efgh"),
        ("typed by hand", ("rot hund jagt", "blau katze malt"), "typed by hand"),
        ("rot hund jagt", ("rot hund jagt",), "rot hund jagt"),
        (FIRST_TEXT, (), OTHER),
    ):
        assert swap.variant(text, examples) == other, text
