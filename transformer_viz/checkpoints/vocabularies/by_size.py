"""Sides of vocabulary files without a side in their names, by the rows of the embedding tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

Rows = tuple[int | None, int | None]  # of the source's table and the target's; None: no such table

BY_SIZE = "Taken by its size, as its name does not tell the side: {sides}."
SIDES = ("source", "target")


def table_rows(words: Mapping[str, Any]) -> Rows:
    """Return the rows of the token tables, from config options or sizes of weights.

    A model with one stack has them in the first place.
    """
    source, target = words.get("source_vocab") or words.get("tokens"), words.get("target_vocab")
    if words.get("encoder_layers") and words.get("decoder_layers"):
        return source, target
    return (target if words.get("decoder_layers") else source), None


def sides_by_size(
    sizes: Sequence[int], rows: Rows, exact: bool = False
) -> tuple[int | None, int | None] | None:
    """Return the list of the source and that of the target, by position in ``sizes``.

    A list fits a table with as many rows or more. The assignment with the most exact fits wins, if
    it is unique.

    Args:
        sizes: Number of words of each list.
        rows: Rows of the tables.
        exact: Take only lists of equal size, and leave the other side without one.

    Returns:
        None if no assignment fits, or several fit equally well.
    """
    tables = [side for side, count in enumerate(rows) if count]
    spare = [None] * len(tables) if exact or len(sizes) < len(tables) else []
    best: dict[int, set[tuple[int | None, ...]]] = {}
    for lists in permutations([*range(len(sizes)), *spare], len(tables)):
        at = dict(zip(lists, tables, strict=True))
        pairs = [(sizes[n], rows[side] or 0) for n, side in at.items() if n is not None]
        equal = sum(size == count for size, count in pairs)
        fitting = equal == len(pairs) if exact else all(size <= count for size, count in pairs)
        if pairs and fitting:
            best.setdefault(equal, set()).add(lists)
    found = best[max(best)] if best else set()
    if len(found) != 1:
        return None
    placed = dict(zip(tables, found.pop(), strict=True))
    return placed.get(0), placed.get(1)


def size_note(names: Sequence[str | None]) -> str:
    """Return the note on files assigned to sides by their sizes."""
    pairs = zip(names, SIDES, strict=True)
    sides = [f"{name} ({side})" for name, side in pairs if name is not None]
    return BY_SIZE.format(sides=", ".join(sides))


def sides_of_note(note: str) -> dict[str, str]:
    """Return the file of each side that such a note names; empty for any other note."""
    before, after = BY_SIZE.split("{sides}")
    if not (note.startswith(before) and note.endswith(after)):
        return {}
    parts = note.removeprefix(before).removesuffix(after).split("), ")
    pairs = (part.removesuffix(")").rpartition(" (") for part in parts)
    return {side: name for name, _, side in pairs if side in SIDES}
