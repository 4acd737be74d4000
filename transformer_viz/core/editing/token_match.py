"""Which token of another sentence stands where a token of this one stands."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher


def matched(own: Sequence[Hashable], other: Sequence[Hashable]) -> tuple[int | None, ...]:
    """For each token of one sentence its counterpart in another one, or None.

    Equal tokens are matched in their order (Ratcliff and Obershelp's algorithm, `difflib`); where
    as many others stand between them on both sides, these are counterparts too, one by one: so
    *tired* is matched with *wide*. Where one side has more of them, none of these has one.
    """
    found: list[int | None] = [None] * len(own)
    blocks = SequenceMatcher(None, list(own), list(other), autojunk=False).get_opcodes()
    for _, first, last, begin, end in blocks:
        if last - first == end - begin:
            found[first:last] = range(begin, end)
    return tuple(found)


def unmatched(own: Sequence[int | None], others: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The tokens without a counterpart: of the one sentence, and of the other of ``others``."""
    taken = {number for number in own if number is not None}
    return (
        tuple(token for token, number in enumerate(own) if number is None),
        tuple(token for token in range(others) if token not in taken),
    )
