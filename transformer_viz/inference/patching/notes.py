"""Notes needed to read the results of activation patching, and the run card."""

from __future__ import annotations

from typing import Any

from ...core.guesses import guess_entry, library_note
from ...core.numerics import LOGIT
from ..run_card import hash_of_ids, model_card
from .question import Question

#: Description of the patched activations.
SAID = {
    "heads": "what one head gives before the output projection, at all tokens that are matched",
    "patterns": "where one head looks, with the values of this sentence",
    "stream": "the residual stream behind a layer, at one token",
}


def notes(question: Question, clean: float, other: float, what: str) -> tuple[str, ...]:
    """Return notes needed to read the numbers, as sentences."""
    said = [
        f"Swapped: {SAID[what]}. Asked {question.place}: {lead(question, clean)} in the "
        f"first run (0), {other:+.2f} in the other (1).",
        "One swap at a time: what several parts carry together, or each carries for the other, "
        "shows in none of them alone.",
    ]
    if any(question.lone):
        said.append(
            f"Without a counterpart in the other sentence, and so left as they are: "
            f"{lone_words(question)}."
        )
    return (*said, *library_note(guess_entry(question.model.guessed)))


def lead(question: Question, value: float, form: str = "+.2f") -> str:
    """Return a sentence on the first word's lead, or on the score of a single output."""
    first, *second = question.words
    unit, written = question.model.unit, format(value, form)
    if not second:
        name = "the score" if unit == LOGIT else "the log-probability"
        return f"{name} of “{first}” is {written} ({unit})"
    if unit == LOGIT:
        return f"“{first}” is by {written} ({unit}) above “{second[0]}”"
    return f"“{first}” is by {written} nats more probable than “{second[0]}”"


def card(question: Question, what: str, count: int) -> dict[str, Any]:
    """Return the details needed to reproduce and judge the numbers."""
    target = None if question.target is None else question.target[0].tolist()
    ids = (question.source[0].tolist(), list(question.other.ids), target)
    return model_card(question.model) | {
        "what": what,
        "replacement": SAID[what],
        "words": list(question.words),
        "unit": question.model.unit,
        "word_ids": list(question.wanted),
        "place": question.place,
        "sentences": 2,
        "sentences_hash": hash_of_ids(*ids, question.row, question.there),
        "rows": 1,
        "swaps": count,
        "seed": None,
    }


def lone_words(question: Question) -> str:
    """Return the words without a counterpart in the other sentence."""
    own, foreign = question.lone
    labels = [question.own_tokens.labels[n] for n in own]
    labels += [question.other_tokens.labels[n] for n in foreign]
    return ", ".join(f"“{label}”" for label in labels)
