"""What else a browser asks of a long map: the words along its sides, and its far links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import ref

import numpy as np

from ...components.blob import pack
from ...components.map_words import words_data, words_name
from ...core.sites import Site
from ...core.trace import Trace
from ..engine.task import Task
from .registry import LiveSession
from .tiles import name_of, run_of

COUNT = 12  # links of a list
MOST_DIGITS = 6  # of a distance

#: Rows, columns and weights of links, and what the first token gets of the weight of such rows.
Links = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def words(line: LiveSession, query: Mapping[str, str]) -> bytes:
    """The words along the sides of the map that a page was drawn with, of ``{"of": "..."}``.

    Raises:
        LookupError: the visitor looks at another text by now.
    """
    run, block = run_of(line.view, Task()), line.view.place.map_name
    if query.get("of") != words_name(run, block):
        raise LookupError("The page shows another text by now.")
    return words_data(run, block)


def far(line: LiveSession, query: Mapping[str, str]) -> bytes:
    """The strongest links of the opened head over far distances, as a blob.

    ``row`` and ``column`` int32 and ``weight`` float32 are ``[link]``, the largest first; ``first``
    in the header is what the first token gets on average of the rows that are so far from it.

    Args:
        line: the visit.
        query: ``{"of": "...", "distance": "64", "first": "on", "once": "on"}``; without ``first``
            links to the first token are left out, with ``once`` all but the strongest to each key.

    Raises:
        ValueError: a distance that is none; says what is needed.
        LookupError: the visitor looks at another map by now, or there are no tiles; says why.
    """
    asked = query.get("distance", "")
    known = asked.isascii() and asked.isdecimal() and len(asked) <= MOST_DIGITS
    if not known or int(asked) < 1:
        raise ValueError(f"A distance is a whole number of tokens, 1 or more; got {asked[:20]!r}.")
    view, task = line.view, Task()
    if query.get("of") != name_of(view):
        raise LookupError("The page shows another map by now.")
    run, site = run_of(view, task), view.place.site
    distance, first, once = int(asked), query.get("first") == "on", query.get("once") == "on"
    rows, columns, weights, share = view.engine.ask(
        view.question.model, _links, ref(run), site, distance, first, once, task=task, stepped=True
    )
    return pack(
        {"part": "far", "first": share},
        row=rows.astype(np.int32),
        column=columns.astype(np.int32),
        weight=weights,
    )


def _links(
    model: Any,
    run: ref[Trace],
    site: Site,
    distance: int,
    first: bool,
    once: bool,
    on_progress: Callable[[int, int], None],
) -> Links:
    """The strongest links of a run that its scene holds meanwhile."""
    found = run()
    assert found is not None
    place = site.map, site.layer, site.head or 0
    links = found.far_links(
        *place, distance=distance, count=COUNT, first=first, once=once, on_progress=on_progress
    )
    rows = found.map_shape(*place[:2])[0]
    share = 0.0
    if distance < rows:
        share = float(found.tile(*place, slice(distance, rows), slice(0, 1)).mean())
    row, column, weight = (links[name].to_numpy() for name in ("row", "column", "weight"))
    return row, column, weight, share
