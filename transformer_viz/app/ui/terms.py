"""Glossary at the foot of the pages of the menu Ask."""

from __future__ import annotations

from html import escape

import streamlit as st

from ...i18n import mark, say
from ...lessons.glossary import GLOSSARY

#: Terms missing from the lesson's glossary, in its format: label and meaning.
TERMS: dict[str, tuple[str, str]] = {
    "removal": (
        mark("without it"),
        mark(
            "The head gives what it gives on average, whatever the sentence, or what is chosen "
            "instead. What the model loses then is what the head does."
        ),
    ),
    "hidden word": (
        mark("removal"),
        mark("One input word is hidden from all queries, and the model runs again."),
    ),
    "nat": (
        mark("nat"),
        mark(
            "The unit of how improbable a word is: the natural logarithm of 1 / probability. A "
            "word that loses 0.1 nats keeps 90 % of its probability, one that loses 0.69 keeps "
            "half."
        ),
    ),
    "teacher forced": (
        mark("teacher forced"),
        mark(
            "At each word the model is given the words before as they stand in the target, not "
            "those it would have written. So all runs are asked about the same words."
        ),
    ),
    "interval": (
        mark("95 %: from … to …"),
        mark(
            "Other sentences would give another number. Of a hundred such intervals about 95 hold "
            "the number that all sentences together would give."
        ),
    ),
    "chance": (mark("chance"), mark("What a head would get that looks at all words alike.")),
    "role": (
        mark("role"),
        mark(
            "What a head surely does: far above chance, and above what it gets with the words of "
            "each sentence in random order. Most heads have none."
        ),
    ),
    "logit": (
        mark("logit"),
        mark(
            "A word's score before the softmax turns all of them into probabilities: 0.69 more "
            "doubles the odds between two words."
        ),
    ),
    "contribution": (
        mark("contribution"),
        mark(
            "What a word really added to the sum: its weight times its value, as long as what "
            "comes out. A large weight on a small value adds little."
        ),
    ),
    "gradient x attention": (
        mark("gradient × attention"),
        mark("Each weight times how much the word would gain if that weight grew a little."),
    ),
    "rollout": (
        mark("rollout"),
        mark(
            "The maps of all layers multiplied, half of each step staying where it is. What values "
            "and feed-forward layers do is left out."
        ),
    ),
    "swap": (
        mark("swap"),
        mark(
            "A part of the other sentence's run in the place of the same part of this one. 0: the "
            "answer stays; 1: that part alone makes it the other one's."
        ),
    ),
    "divergence": (
        mark("divergence"),
        mark(
            "How different two rows of weights are, in bits (Jensen and Shannon): 0 is the same, 1 "
            "is nothing in common. A map's is the mean of its rows."
        ),
    ),
    "alignment": (
        mark("alignment"),
        mark("Which words of a translation stand for which words of the source."),
    ),
    "gold": (mark("gold"), mark("An alignment that people made, to judge another one by.")),
}


def terms(*names: str) -> None:
    """Draw a folded glossary, in the given order: of `TERMS`, else of the lesson's glossary.

    Raises:
        KeyError: A name is in neither.
    """
    with st.expander(say("The words of this page"), key="terms"):
        items = "".join(
            f"<div><dt>{escape(say(term))}</dt><dd>{escape(say(meaning))}</dd></div>"
            for term, meaning in (TERMS.get(name) or GLOSSARY[name] for name in names)
        )
        st.html(f'<dl class="tv-terms">{items}</dl>')
