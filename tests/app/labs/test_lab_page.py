"""What every lab has, and what was set in one as the link holds it."""

from __future__ import annotations

from typing import Any

import pytest

from transformer_viz.app.labs.bench import table
from transformer_viz.app.labs.experiments.positional_encodings import shuffled_words
from transformer_viz.app.labs.lab import Lab
from transformer_viz.app.labs.lab_page import SHOW, verdict
from transformer_viz.app.labs.lab_state import read, write
from transformer_viz.app.pages.labs import LABS
from transformer_viz.i18n import catalogue, languages
from transformer_viz.lessons.glossary import GLOSSARY
from transformer_viz.lessons.term_markup import explained, terms


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


def test_names_are_told_apart_and_fit_into_a_link() -> None:
    names = [lab.name for lab in LABS]
    assert len(set(names)) == len(names) >= 4
    assert all(name == name.lower() and " " not in name for name in names)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_lab_asks_a_question_with_several_answers(lab: Lab) -> None:
    assert lab.question.endswith("?") and len(lab.options) >= 2
    assert len(set(lab.options)) == len(lab.options)


@pytest.mark.parametrize(
    "settings", [{}, {"guess": "1"}, {"guess": "show", "width": "64", "show": "largest"}]
)
def test_settings_come_back_from_the_link(settings: dict[str, str]) -> None:
    assert read(write(settings)) == settings


@pytest.mark.parametrize("text", ["", "guess", "=1", "guess=", ";;;", "=;="])
def test_what_is_no_setting_is_left_out(text: str) -> None:
    assert read(text) == {}


@pytest.mark.parametrize(
    ("right", "guess", "held", "said"),
    [
        (0, "0", "right", "Your prediction holds: this &lt;one&gt;"),
        (1, "0", "wrong", "It came out otherwise: that one"),
        (1, SHOW, "shown", "Measured: that one"),
        (None, "0", "open", "does not decide it"),
    ],
)
def test_the_verdict_follows_the_measurement(
    right: int | None, guess: str, held: str, said: str
) -> None:
    found = verdict(_lab(right), guess, None)
    assert f'data-held="{held}"' in found and said in found


def test_terms_explain_themselves_and_other_brackets_stay() -> None:
    found = explained("[MASK] and <b> of [moved about|spread]")
    assert found.startswith("[MASK] and &lt;b&gt; of ") and found.count("tv-term") == 1
    assert "moved about" in found and GLOSSARY["spread"][1] in found


@pytest.mark.parametrize("language", [code for code in languages() if code != "en"])
def test_a_translation_explains_the_same_terms(language: str) -> None:
    known = {
        text: (set(terms(text)) & set(GLOSSARY), ours) for text, ours in catalogue(language).items()
    }
    marked = {text: one for text, one in known.items() if one[0]}
    assert any("{few:.1f}" in text for text in marked)  # those of the labs are among them
    for text, (named, ours) in marked.items():
        assert set(terms(ours)) & set(GLOSSARY) == named, text


def test_words_of_a_table_are_harmless() -> None:
    found = table(("<a>", "b"), [("<c>", "&")], marked=0, texts=(1,))
    assert "<a>" not in found and "&lt;c&gt;" in found and "&amp;" in found
    assert found.count("tv-lab-marked") == 1 and found.count("tv-lab-sentence") == 2


def test_shuffled_words_are_the_same_words_and_the_sentence_ends_as_before() -> None:
    text = "The cat didn't cross the street."
    for seed in range(5):
        mixed = shuffled_words(text, seed)
        assert mixed != text and mixed.endswith(".")
        assert sorted(mixed[:-1].split()) == sorted(text[:-1].split())
        assert mixed == shuffled_words(text, seed)


@pytest.mark.parametrize("text", ["Go!", "very very very."])
def test_a_sentence_without_another_order_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="no other order"):
        shuffled_words(text, 0)


def test_a_lab_serves_every_model_unless_it_says_otherwise() -> None:
    scene: Any = None
    assert _lab(0).lacks(scene) is None
