"""Formatting of a run's numbers and tokens in questions and answers."""

from __future__ import annotations

from collections.abc import Sequence

from ..i18n import numeral, say

MAX_LISTED_TOKENS = 24  # tokens that are listed one by one


def quoted(word: str) -> str:
    """Return a word in the quotation marks of the current language."""
    return say("“{word}”", word=word)


def share(weight: float) -> str:
    """Return a weight or a probability with two decimals, and small ones in full."""
    return f"{weight:.2f}" if weight >= 0.01 or weight == 0 else f"{weight:.1e}"


def rough(number: float) -> str:
    """Return a number with two digits for text: 1.9, 6.7, 83, 460."""
    if number >= 100:
        return numeral(round(number, -1), ",.0f")
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"


def exact(number: float) -> str:
    """Return a number for calculation by hand: three digits, or all digits from 100."""
    return numeral(number, ",.0f") if number >= 100 else f"{number:.3g}"


def dotted(labels: Sequence[str]) -> str:
    """Return tokens separated by dots; of very many the first ones."""
    return " · ".join(labels[:MAX_LISTED_TOKENS]) + (
        " · …" if len(labels) > MAX_LISTED_TOKENS else ""
    )
