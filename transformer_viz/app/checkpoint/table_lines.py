"""Rows of the table of names: one per weight, or one for the same weight of all layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...checkpoints.naming.name_proposals import NameRow

EVERY = "*"  # stands for the layer number in a row of several
NUMBER = re.compile(r"(?:^|(?<=\.))\d+(?=\.)")


@dataclass(frozen=True)
class Line:
    """Row of the table.

    Attributes:
        keys: Weights of the row.
        weight: Their name in the file, with a star for the number if there are several.
        shape: Shape of each of them.
        name: Their name in the layout, likewise; None for none.
        why: A key of `REASONS`.
        changed: True if the user changed the proposed name.
    """

    keys: tuple[str, ...]
    weight: str
    shape: tuple[int, ...]
    name: str | None
    why: str
    changed: bool


def lines_of(
    rows: Sequence[NameRow], names: Mapping[str, str | None], together: bool
) -> list[Line]:
    """Return the rows of the table, in the order of the file.

    Args:
        rows: The weights with their proposed names.
        names: Their current names.
        together: Use one row for weights that differ in the layer number only.
    """
    groups: dict[tuple[object, ...], list[NameRow]] = {}
    for row in rows:
        form = _form(row, names[row.key]) if together else None
        groups.setdefault((row.key,) if form is None else form, []).append(row)
    lines = []
    for group in groups.values():
        first = group[0]
        name, many = names[first.key], len(group) > 1
        lines.append(
            Line(
                tuple(row.key for row in group),
                star_layers(first.key) if many else first.key,
                first.shape,
                star_layers(name) if many and name else name,
                first.why,
                name != first.proposed,
            )
        )
    return lines


def spread(line: Line, name: str | None) -> dict[str, str | None]:
    """Return the name of each weight of a row, with the numbers of their layers."""
    if name is None or EVERY not in name:
        return dict.fromkeys(line.keys, name)
    found: dict[str, str | None] = {}
    for key in line.keys:
        number = NUMBER.search(key)
        found[key] = name if number is None else name.replace(EVERY, number[0], 1)
    return found


def _form(row: NameRow, name: str | None) -> tuple[object, ...] | None:
    """Return what weights of one row have in common; None for a weight without a group."""
    number = NUMBER.search(row.key)
    if number is None:
        return None
    if name is not None:
        other = NUMBER.search(name)
        if other is None or other[0] != number[0]:
            return None
        name = star_layers(name)
    return star_layers(row.key), row.shape, name, row.why, name is None and row.proposed


def star_layers(name: str) -> str:
    """Return a name with a star for its first number."""
    return NUMBER.sub(EVERY, name, count=1)
