"""How numbers and words of a run are written in questions and answers."""

from __future__ import annotations

from collections.abc import Sequence

from ..i18n import numeral, say

MAX_LISTED_TOKENS = 24  # tokens that are listed one by one


def quoted(word: str) -> str:
    """A word in the quotation marks of the present language."""
    return say("“{word}”", word=word)


def share(weight: float) -> str:
    """A weight or a probability: two digits behind the point, and small ones as they are."""
    return f"{weight:.2f}" if weight >= 0.01 or weight == 0 else f"{weight:.1e}"


def rough(number: float) -> str:
    """A number in two digits, as one says it: 1.9, 6.7, 83, 460."""
    if number >= 100:
        return numeral(round(number, -1), ",.0f")
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def exact(number: float) -> str:
    """A number as one writes it when calculating by hand: three digits, of large ones all."""
    return numeral(number, ",.0f") if number >= 100 else f"{number:.3g}"


def dotted(labels: Sequence[str]) -> str:
    """Tokens one after another, dots between them; of very many the first ones."""
    return " · ".join(labels[:MAX_LISTED_TOKENS]) + (
        " · …" if len(labels) > MAX_LISTED_TOKENS else ""
    )
