"""The page Labs: a question, a prediction, an experiment, a reveal; all of it in the link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.support.model_kinds import NAMES
from tests.support.page_content import address, go, html, said, told
from tests.support.tiny_labs import labs as labs  # the box with the tiny models
from tests.support.tiny_labs import tiny_box as tiny_box
from tests.support.widgets import click, fine, ok, put
from training.tables import labs as tables
from transformer_viz.app.labs.bench import table
from transformer_viz.app.labs.experiments.positional_encodings import shuffled_words
from transformer_viz.app.labs.lab import Lab
from transformer_viz.app.labs.lab_page import SHOW, verdict
from transformer_viz.app.labs.lab_state import read, write
from transformer_viz.app.pages.labs import LABS
from transformer_viz.checkpoints.common import bundled as box
from transformer_viz.checkpoints.common.bundled import CONFIG, PRETRAINED
from transformer_viz.i18n import catalogue, languages
from transformer_viz.lessons.glossary import GLOSSARY
from transformer_viz.lessons.term_markup import explained, terms
from transformer_viz.metrics.attention.score_variance import random_spread

Visit = Callable[..., AppTest]
VERDICT = 'data-what="verdict"'
OF_ARCHITECTURE = ("scale", "scores", "positions", "norms", "pre-post")


# ---- On the page


@pytest.mark.app
def test_nothing_is_revealed_before_a_prediction(visit: Visit, labs: Path) -> None:
    app = visit("labs")
    for lab in OF_ARCHITECTURE:
        app.session_state["lab"] = lab
        fine(app.run(), lab)
        assert '<h2 class="tv-lab-question">' in html(app) and VERDICT not in html(app), lab
        drawn = [one for one in app.get("bidi_component") if one.key != "language"]
        assert not app.get("plotly_chart") and not drawn, lab
        assert VERDICT in html(fine(click(app, f"guess-{lab}-0"), lab))
        assert address(app)["tried"] == "guess=0", lab
        fine(click(app, f"again-{lab}"), lab)
        assert VERDICT not in html(app) and "tried" not in address(app), lab
    for guess, held in (("0", "wrong"), ("1", "right"), ("2", "wrong"), ("show", "shown")):
        app = fine(visit("labs", lab="scale", tried=f"guess={guess}"))
        assert f'data-held="{held}"' in said(app, "verdict"), guess


@pytest.mark.app
def test_settings_survive_other_labs_and_other_pages(visit: Visit) -> None:
    app = fine(visit("labs", lab="scale", tried="guess=1"))
    put(app, {"try-scale-width-en": "16"})
    assert address(app)["tried"] == "guess=1;width=16"
    click(app, "step-on")
    assert address(app)["lab"] == "scores" and "tried" not in address(app)
    click(app, "step-back")
    assert address(app)["tried"] == "guess=1;width=16"
    for page in ("norms", "positions", "", "lessons", "labs"):
        fine(go(app, page), page)
        assert address(app)["lab"] == "scale" and address(app)["tried"] == "guess=1;width=16", page
    assert app.select_slider(key="try-scale-width-en").value == "16"
    app = visit("labs", lab="<b>none", tried="guess=1;width=65;gibberish")
    assert not app.exception and not app.error and app.session_state["lab"] == "scale"
    for words in (
        "lab is '<b>none', which is not here",
        "tried has parts that are no settings",
        "tried sets width to '65'",
    ):
        assert words in told(app), words
    assert address(app)["tried"] == "guess=1"


@pytest.mark.app
@pytest.mark.parametrize("names", [NAMES[:2], NAMES[2:]], ids=" ".join)
def test_every_kind_of_model_is_served_or_told_why(
    meet: Visit, labs: Path, names: tuple[str, ...]
) -> None:
    for model in names:
        app = meet(model, "labs", lab=LABS[0].name, tried="guess=show")
        learning = LABS[-1].name  # asks models of its own
        for lab in (one.name for one in LABS if one.name != learning or model == "vit"):
            app.session_state["lab"], app.session_state["tried"] = lab, "guess=show"
            ok(app.run(), (model, lab))
            why = [info.value for info in app.info]
            assert VERDICT in html(app) or why, lab
            assert lab in OF_ARCHITECTURE or len(why) == 1 or VERDICT in html(app), lab
            assert lab in OF_ARCHITECTURE or all(one.endswith(".") for one in why), lab
            if model == "vit" and lab in OF_ARCHITECTURE[1:]:
                assert VERDICT not in html(app) and "hoose" in told(app), lab
            if lab == "it":
                assert "translates English into German" in why[0]


@pytest.mark.app
def test_without_the_tiny_models_a_sentence_says_so(
    visit: Visit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "PRETRAINED", tmp_path)
    for lab in ("scores", "positions", "pre-post"):
        app = fine(visit("labs", lab=lab, tried="guess=0"), lab)
        assert "tiny models of this lab are not in this box" in told(app), lab


# ---- What every lab has


def _lab(right: int | None) -> Lab:
    return Lab(
        name="any",
        title="Any",
        question="Which?",
        options=("this <one>", "that one"),
        experiment=lambda bench: None,
        answer=lambda found: right,
        reveal=lambda bench, found: None,
    )


def test_names_questions_and_settings_fit_into_a_link() -> None:
    names = [lab.name for lab in LABS]
    assert len(set(names)) == len(names) >= 4
    for lab in LABS:
        assert lab.name == lab.name.lower() and " " not in lab.name
        assert lab.question.endswith("?") and len(lab.options) >= 2, lab.name
        assert len(set(lab.options)) == len(lab.options), lab.name
    for settings in ({}, {"guess": "1"}, {"guess": "show", "width": "64", "show": "largest"}):
        assert read(write(settings)) == settings
    for text in ("", "guess", "=1", "guess=", ";;;", "=;="):
        assert read(text) == {}, text
    scene: Any = None
    assert _lab(0).lacks(scene) is None  # a lab serves every model unless it says otherwise


def test_the_verdict_follows_the_measurement_and_words_are_harmless() -> None:
    for right, guess, held, words in (
        (0, "0", "right", "Your prediction holds: this &lt;one&gt;"),
        (1, "0", "wrong", "It came out otherwise: that one"),
        (1, SHOW, "shown", "Measured: that one"),
        (None, "0", "open", "does not decide it"),
    ):
        found = verdict(_lab(right), guess, None)
        assert f'data-held="{held}"' in found and words in found, held
    found = table(("<a>", "b"), [("<c>", "&")], marked=0, texts=(1,))
    assert "<a>" not in found and "&lt;c&gt;" in found and "&amp;" in found
    assert found.count("tv-lab-marked") == 1 and found.count("tv-lab-sentence") == 2


def test_terms_explain_themselves_in_every_language() -> None:
    found = explained("[MASK] and <b> of [moved about|spread]")
    assert found.startswith("[MASK] and &lt;b&gt; of ") and found.count("tv-term") == 1
    assert "moved about" in found and GLOSSARY["spread"][1] in found
    for language in set(languages()) - {"en"}:
        marked = {
            text: (named, ours)
            for text, ours in catalogue(language).items()
            if (named := set(terms(text)) & set(GLOSSARY))
        }
        assert any("{few:.1f}" in text for text in marked)  # those of the labs are among them
        for text, (named, ours) in marked.items():
            assert set(terms(ours)) & set(GLOSSARY) == named, (language, text)


def test_shuffled_words_are_the_same_words_and_the_sentence_ends_as_before() -> None:
    text = "The cat didn't cross the street."
    for seed in range(5):
        mixed = shuffled_words(text, seed)
        assert mixed != text and mixed.endswith(".")
        assert sorted(mixed[:-1].split()) == sorted(text[:-1].split())
        assert mixed == shuffled_words(text, seed)
    for text in ("Go!", "very very very."):
        with pytest.raises(ValueError, match="no other order"):
            shuffled_words(text, 0)


# ---- docs/labs.md says what is measured


@pytest.mark.shipped
def test_the_tables_of_the_page_are_what_is_measured() -> None:
    text = tables.PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    rows = {row[0]: row for row in reversed([*split])}
    for width in (4, 64, 256):
        found = random_spread(width, tables.KEYS, tables.SEED)
        numbers = [float(cell) for cell in rows[str(width)][1:]]
        assert numbers[0] == pytest.approx(found.variance, abs=0.06), width
        for at, name in ((1, "entropy"), (5, "gradient")):
            both = [getattr(one, name) for one in (found.plain, found.scaled)]
            assert numbers[at : at + 2] == pytest.approx(both, abs=6e-4), (width, name)
    for name in tables.here():
        words = json.loads((PRETRAINED / tables.LABS / name / CONFIG).read_text(encoding="utf-8"))
        assert rows[f"`{tables.LABS}{name}`"][4] == f"{words['bleu']:.1f}", name
    assert re.search(r"^    python -m training\.tables\.labs$", text, re.MULTILINE)
