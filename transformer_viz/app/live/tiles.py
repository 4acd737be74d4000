"""Tiles of the opened head, for a map that is too large to be sent whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from ...components.blob import pack
from ...core.errors import short
from ...core.interventions import Intervention
from ...core.sites import Site
from ...core.trace import Trace
from ...i18n import speaking
from ...metrics.attention import tile_changes, tile_pyramid
from ...metrics.attention.tile_pyramid import Sheet, Square
from ..engine.engine import Engine
from ..engine.task import Abandoned, Task
from ..session.scene import Scene, scene_at
from . import ahead
from .ahead import Ahead
from .registry import LiveSession, ViewState

NUMBERS = ("level", "row", "column")
MOST = 512  # maximum cells per side of a part; a browser shows fewer
SIDES = ("level", "top", "bottom", "left", "right")


@dataclass(frozen=True)
class Region:
    """Part of a map, as rows and columns.

    Attributes:
        level: Level of the pyramid.
    """

    level: int
    rows: slice
    columns: slice


@dataclass(frozen=True)
class Asked:
    """Request for a tile of the map named ``of``, or for a part of it as quickly as possible."""

    of: str
    place: Square | Region


def asked(query: Mapping[str, str]) -> Asked:
    """Return the tile of ``{"of": "...", "level": "0", "row": "3", "column": "2"}``, or the part.

    A part has the fields that `region` reads.

    Raises:
        ValueError: The request is invalid; the message gives the required fields.
    """
    if not query.get("of"):
        raise ValueError("A tile needs of, which names the map.")
    if "top" in query:
        return Asked(query["of"], region(query))
    return Asked(query["of"], Square(*_whole_numbers(query, NUMBERS)))


def region(query: Mapping[str, str]) -> Region:
    """Return the visible part of a map from ``level``, ``top``, ``bottom``, ``left``, ``right``.

    Raises:
        ValueError: The request is invalid; the message gives the required fields.
    """
    level, top, bottom, left, right = _whole_numbers(query, SIDES)
    if level > 20 or top % 2**level or left % 2**level:
        raise ValueError("A part begins with a cell of its level.")
    if max(bottom - top, right - left) > MOST * 2**level:
        raise ValueError(f"A part has at most {MOST} cells in a row or a column.")
    return Region(level, slice(top, bottom), slice(left, right))


def _whole_numbers(query: Mapping[str, str], names: tuple[str, ...]) -> list[int]:
    numbers = [query.get(name, "") for name in names]
    if not all(n.isascii() and n.isdecimal() and len(n) < 6 for n in numbers):
        raise ValueError(
            f"A tile needs of, and whole numbers {', '.join(names)}; got "
            f"{short(', '.join(sorted(query)) or 'nothing')}."
        )
    return list(map(int, numbers))


def name_of(view: ViewState | Scene) -> str:
    """Return the name of a map, from question, site, edits and run."""
    changes = view.changes
    if view.awaited:
        run = view.now if isinstance(view, Scene) else view.now_run
        changes = view.changes if run is None else run.intervention
    shown = view.look.compare if changes else "now"
    return ahead.name_of(view.question, view.place, changes, shown)


def tile(line: LiveSession, wanted: Asked) -> bytes:
    """Return a tile as a blob: ``weights`` float32 and ``masked`` uint8 ``[row, column]``.

    Raises:
        LookupError: The page shows another map by now.
        ValueError: The map has no such tile; the message gives their number.
        Abandoned: The page has moved on meanwhile.
    """
    view, task, made = line.view, Task(), line.ahead
    if made is not None and made.of == wanted.of:
        if isinstance(wanted.place, Region):
            part = wanted.place
            with speaking(view.look.lang):
                return quick_part(line, made, part.level, part.rows, part.columns)
        return _packed(_ahead_of_its_run(line, made, wanted.place, task))
    if wanted.of != name_of(view) or isinstance(wanted.place, Region):
        raise LookupError("The page shows another map by now.")
    (run, before), model = runs_of(view, task), view.question.model
    site, square = view.place.site, wanted.place
    if before is None:
        return _packed(sheet(view.engine, model, run, site, square, task))
    found = changes_of(view.engine, model, (run, before), site, square, task)
    if square.level:
        return _packed(found)
    # The tooltip of a cell shows the weight before the change too.
    return _packed(found, was=tile_pyramid.part(before, site, square)[0])


def _packed(found: Sheet, **more: np.ndarray) -> bytes:
    weights, hidden = found
    return pack({"part": "tile"}, weights=weights, masked=hidden.astype(np.uint8), **more)


def runs_of(view: ViewState, task: Task) -> tuple[Trace, Trace | None]:
    """Return the run whose map a page shows, and the one subtracted from it.

    Raises:
        LookupError: The page waits for a run, and earlier ones no longer exist.
        Abandoned: The task was abandoned.
    """
    run = run_of(view, task)
    if view.look.compare != "difference" or not view.changes or not run.intervention:
        return run, None
    seen = view.question, view.kind, view.place, Intervention(), view.look
    before = view.before_run or scene_at(view.engine, *seen, task, long=view.long).now
    return run, before


def run_of(view: ViewState, task: Task) -> Trace:
    """Return the run whose map a page shows.

    Raises:
        LookupError: The page waits for a run, and earlier ones no longer exist.
        Abandoned: The task was abandoned.
    """
    if view.awaited:
        run = view.before_run if view.look.compare == "before" else view.now_run
        if run is None:
            raise LookupError(ahead.GONE)
        return run
    seen = view.question, view.kind, view.place, view.changes, view.look
    return scene_at(view.engine, *seen, task, long=view.long).shown[0]


def _ahead_of_its_run(line: LiveSession, made: Ahead, square: Square, task: Task) -> Sheet:
    """Return a tile of a map that is shown before its run."""

    def check(done: int, of: int) -> None:
        if line.ahead is not made:
            raise Abandoned("The page shows another map by now.")

    step, side = 2**square.level, tile_pyramid.within(made.map.shape, square)
    with ahead.SLOTS.place(task):
        return made.map.pooled(step, *side, on_progress=check)


def sheet(engine: Engine, model: str, run: Trace, site: Site, square: Square, task: Task) -> Sheet:
    """Return a tile of a head: weights float32 and the mask, bool ``[row, column]``.

    Raises:
        ValueError: The map has no such tile; the message gives their number.
        LookupError: The map has no tiles; the message gives the reason.
        Abandoned: The task was abandoned.
    """
    shape = run.map_shape(site.map, site.layer)
    if square.level <= tile_pyramid.kept_level(shape):
        return tile_pyramid.part(run, site, square)
    tile_pyramid.within(shape, square)
    kept: Sheet = engine.ask(model, _whole, ref(run), site, task=task, stepped=True)
    return tile_pyramid.cut(kept, shape, square)


def changes_of(
    engine: Engine,
    model: str,
    runs: tuple[Trace, Trace],
    site: Site,
    square: Square,
    task: Task,
) -> Sheet:
    """Return a tile of the difference of two runs, the later one first; format as in `sheet`."""
    shape = tile_changes.same_shape(*runs, site)
    if square.level <= tile_pyramid.kept_level(shape):
        return tile_changes.part(*runs, site, square)
    tile_pyramid.within(shape, square)
    both = tuple(map(ref, runs))
    kept: Sheet = engine.ask(model, _whole_change, *both, site, task=task, stepped=True)
    return tile_changes.cut(kept, shape, square)


def _whole_change(
    model: Any,
    run: ref[Trace],
    before: ref[Trace],
    site: Site,
    on_progress: Callable[[int, int], None],
) -> Sheet:
    now, was = run(), before()
    assert now is not None and was is not None
    return tile_changes.whole(now, was, site, on_progress)


def _whole(
    model: Any, run: ref[Trace], site: Site, on_progress: Callable[[int, int], None]
) -> Sheet:
    """Return the whole map in small, of a run that its scene keeps alive meanwhile."""
    found = run()
    assert found is not None
    return tile_pyramid.whole(found, site, on_progress)


def ahead_of(view: ViewState, changes: Intervention) -> Ahead:
    """Return the map of a view under other changes.

    Raises:
        LookupError: The map has to wait for its run; the message gives the reason.
    """
    before, now = view.before_run, view.now_run
    if before is None or now is None:
        raise LookupError(ahead.GONE)
    if view.changes and view.look.compare != "now":
        raise LookupError("The page shows another run than the changed one.")
    return ahead.ahead(view.question, view.place, changes, before, now)


def quick_part(
    line: LiveSession, made: Ahead, level: int, rows: slice, columns: slice, seq: int = 0
) -> bytes:
    """Return a part of a map quickly, as a blob: ``weights`` float32, ``masked`` uint8.

    Both are ``[row, column]``; ``deep`` in the header is the number of rows used for each cell.

    Raises:
        ValueError: The map has no such part.
        Abandoned: A newer frame of the same session was requested.
    """
    task = line.begin()
    with ahead.SLOTS.place(task):
        weights, hidden, deep = made.map.quick(2**level, rows, columns)
    header = {"part": "head", "view": "map", "seq": seq, "ahead": True}
    header |= {"of": made.of, "note": made.note, "level": level, "deep": deep}
    header["region"] = [[side.start, side.stop] for side in (rows, columns)]
    return pack(header, weights=weights, masked=hidden.astype(np.uint8))
