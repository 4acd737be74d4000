"""Further requests for a long map: token labels along its sides, and links over long distances."""

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

#: Rows, columns and weights of links, and the first token's mean weight in those rows.
Links = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def words(line: LiveSession, query: Mapping[str, str]) -> bytes:
    """Return the token labels along the sides of a page's map, for ``{"of": "..."}``.

    Raises:
        LookupError: The page shows another text by now.
    """
    run, block = run_of(line.view, Task()), line.view.place.map_name
    if query.get("of") != words_name(run, block):
        raise LookupError("The page shows another text by now.")
    return words_data(run, block)


def far(line: LiveSession, query: Mapping[str, str]) -> bytes:
    """Return the strongest links of the opened head over long distances, as a blob.

    ``row`` and ``column`` int32 and ``weight`` float32 are ``[link]``, the largest first. ``first``
    in the header is the first token's mean weight in the rows at least this far from it.

    Args:
        line: The session.
        query: ``{"of": "...", "distance": "64", "first": "on", "once": "on"}``. Without ``first``
            links to the first token are left out. With ``once`` only the strongest link to each
            key is kept.

    Raises:
        ValueError: The distance is invalid; the message gives the format.
        LookupError: The page shows another map by now, or there are no tiles.
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
    """Return the strongest links of a run, which its scene keeps alive meanwhile."""
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
