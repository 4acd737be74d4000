"""Serialization of tiles as named arrays and plain fields of a trace file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..sites import Site
from .cells import Bias, Visible
from .maps import Tiles
from .parts import Matrix, Part

#: Numbers of a part, which are fields of the file; all else is arrays.
NUMBERS = ("scale", "cap", "first_head", "first_row", "sinks")
ROWS = ("log_sum", "sharpness", "gain", "blank", "only")
Put = Callable[[str, np.ndarray], None]


def written(tiles: Sequence[Tiles], put: Put) -> list[dict[str, Any]]:
    """Pass the arrays of tiles with their names to ``put``, and return all else as plain data."""
    return [
        dataclasses.asdict(one.site)
        | {"query": one.query, "key": one.key}
        | {"parts": [_part(part, title(one.site, n), put) for n, part in enumerate(one.parts)]}
        for one in tiles
    ]


def title(site: Site, part: int) -> str:
    """Return the suffix of the names of a part's arrays."""
    return f"{site.map}.{site.layer}.part{part}"


def _part(part: Part | Matrix, name: str, put: Put) -> dict[str, Any]:
    if isinstance(part, Matrix):
        raise ValueError("A matrix is kept as attention, not as a part of tiles.")
    put(f"q.{name}", part.q)
    put(f"k.{name}", part.k)
    for row in ROWS:
        array = getattr(part, row)
        if array is not None:
            put(f"rows.{name}.{row}", array)
    if part.visible is not None:
        if not isinstance(part.visible, Visible):
            raise ValueError("The map of a head under other edits is not kept.")
        put(f"rows.{name}.edges", part.visible.edges)
        put(f"rows.{name}.ends", part.visible.ends)
    words: dict[str, Any] = {number: getattr(part, number) for number in NUMBERS}
    if part.bias is not None:
        put(f"rows.{name}.bias", part.bias.table)
        words |= {"bias": part.bias.kind, "queries": part.bias.queries}
    return words


def read(found: Sequence[dict[str, Any]], arrays: Mapping[str, np.ndarray]) -> tuple[Tiles, ...]:
    """Return the tiles that :func:`written` serialized.

    Raises:
        KeyError: An array is missing.
    """
    made = []
    for words in found:
        place = {f.name: words[f.name] for f in dataclasses.fields(Site)}
        site = Site(**place)
        parts = [_read(part, title(site, n), arrays) for n, part in enumerate(words["parts"])]
        made.append(Tiles(site, words["query"], words["key"], tuple(parts)))
    return tuple(made)


def _read(words: dict[str, Any], name: str, arrays: Mapping[str, np.ndarray]) -> Part:
    visible = bias = None
    if f"rows.{name}.edges" in arrays:
        visible = Visible(arrays[f"rows.{name}.edges"], arrays[f"rows.{name}.ends"])
    if "bias" in words:
        bias = Bias(words["bias"], arrays[f"rows.{name}.bias"], words["queries"])
    return Part(
        q=arrays[f"q.{name}"],
        k=arrays[f"k.{name}"],
        log_sum=arrays[f"rows.{name}.log_sum"],
        sharpness=arrays[f"rows.{name}.sharpness"],
        gain=arrays[f"rows.{name}.gain"],
        blank=arrays.get(f"rows.{name}.blank"),
        only=arrays.get(f"rows.{name}.only"),
        visible=visible,
        bias=bias,
        # Older files lack the field for sinks.
        **{number: words[number] for number in NUMBERS if number in words},
    )
