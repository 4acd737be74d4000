"""Tiles of the head that a visitor looks at, for a map that is too large to be sent whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from weakref import ref

import numpy as np

from ...components.blob import pack
from ...core.errors import short
from ...core.sites import Site
from ...core.trace import Trace
from ...metrics.attention import tile_pyramid
from ...metrics.attention.tile_pyramid import Sheet, Square
from ..engine.task import Task
from ..session.scene import Scene, scene_at
from .registry import LiveSession, ViewState

NUMBERS = ("level", "row", "column")


@dataclass(frozen=True)
class Asked:
    """A tile of the map that a page was drawn with, which ``of`` names."""

    of: str
    square: Square


def asked(query: Mapping[str, str]) -> Asked:
    """The tile of a request, from ``{"of": "...", "level": "0", "row": "3", "column": "2"}``.

    Raises:
        ValueError: it names none; says what is needed.
    """
    numbers = [query.get(name, "") for name in NUMBERS]
    known = all(n.isascii() and n.isdecimal() and len(n) < 6 for n in numbers)
    if not known or not query.get("of"):
        raise ValueError(
            f"A tile needs of, and whole numbers {', '.join(NUMBERS)}; got "
            f"{short(', '.join(sorted(query)) or 'nothing')}."
        )
    return Asked(query["of"], Square(*map(int, numbers)))


def name_of(view: ViewState | Scene) -> str:
    """What a map is told from others by: the question, the head, the edits, and which run."""
    run = view.look.compare if view.changes else "now"
    what = repr((view.question, view.place.site, view.changes.to_json(), run))
    return sha256(what.encode()).hexdigest()[:24]


def tile(line: LiveSession, wanted: Asked) -> bytes:
    """A tile as a blob: ``weights`` float32 and ``masked`` uint8 ``[row, column]``.

    Raises:
        LookupError: the visitor looks at another map by now.
        ValueError: a tile that the map does not have; says how many there are.
    """
    view, task = line.view, Task()
    if wanted.of != name_of(view):
        raise LookupError("The page shows another map by now.")
    scene = scene_at(
        view.engine,
        view.question,
        view.kind,
        view.place,
        view.changes,
        view.look,
        task,
        long=view.long,
    )
    weights, hidden = sheet(scene, wanted.square, task)
    return pack({"part": "tile"}, weights=weights, masked=hidden.astype(np.uint8))


def sheet(scene: Scene, square: Square, task: Task) -> Sheet:
    """A tile of the opened head: its weights float32 and what is hidden, bool ``[row, column]``.

    Raises:
        ValueError: a tile that the map does not have; says how many there are.
        LookupError: a map without tiles; says why.
        Abandoned: the task was given up.
    """
    run, site = scene.shown[0], scene.place.site
    shape = run.map_shape(site.map, site.layer)
    if square.level <= tile_pyramid.kept_level(shape):
        return tile_pyramid.part(run, site, square)
    tile_pyramid.within(shape, square)
    model, words = scene.question.model, (ref(run), site)
    kept: Sheet = scene.engine.ask(model, _whole, *words, task=task, stepped=True)
    return tile_pyramid.cut(kept, shape, square)


def _whole(model: Any, run: ref[Trace], site: Site, tell: Callable[[int, int], None]) -> Sheet:
    """The whole of a map in small, of a run that its scene holds meanwhile."""
    found = run()
    assert found is not None
    return tile_pyramid.whole(found, site, tell)
