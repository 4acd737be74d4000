"""Alignment of the tokens of two sentences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher


def matched(own: Sequence[Hashable], other: Sequence[Hashable]) -> tuple[int | None, ...]:
    """Return for each token of one sentence the index of its counterpart in the other, or None.

    Equal tokens are matched in their order (Ratcliff and Obershelp's algorithm, `difflib`). Unequal
    stretches of the same length between them are matched one by one: *tired* is matched with
    *wide*. Stretches of different lengths have no counterparts.
    """
    found: list[int | None] = [None] * len(own)
    blocks = SequenceMatcher(None, list(own), list(other), autojunk=False).get_opcodes()
    for _, first, last, begin, end in blocks:
        if last - first == end - begin:
            found[first:last] = range(begin, end)
    return tuple(found)


def unmatched(own: Sequence[int | None], others: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens without a counterpart: of the first sentence, and of the other one.

    ``others`` is the length of the other sentence.
    """
    taken = {number for number in own if number is not None}
    return (
        tuple(token for token, number in enumerate(own) if number is None),
        tuple(token for token in range(others) if token not in taken),
    )
