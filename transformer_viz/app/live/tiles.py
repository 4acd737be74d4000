"""Tiles of the head that a visitor looks at, for a map that is too large to be sent whole."""

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
MOST = 512  # cells of a side of a part; a browser shows fewer
SIDES = ("level", "top", "bottom", "left", "right")


@dataclass(frozen=True)
class Region:
    """A part of a map, in cells of a level: its rows and columns."""

    level: int
    rows: slice
    columns: slice


@dataclass(frozen=True)
class Asked:
    """A tile of the map that a page was drawn with, which ``of`` names; or a part of it that is
    wanted as quickly as it can be had."""

    of: str
    place: Square | Region


def asked(query: Mapping[str, str]) -> Asked:
    """The tile of a request, from ``{"of": "...", "level": "0", "row": "3", "column": "2"}``, or
    the part, from what `region` reads.

    Raises:
        ValueError: it names none; says what is needed.
    """
    if not query.get("of"):
        raise ValueError("A tile needs of, which names the map.")
    if "top" in query:
        return Asked(query["of"], region(query))
    return Asked(query["of"], Square(*_whole_numbers(query, NUMBERS)))


def region(query: Mapping[str, str]) -> Region:
    """The part of a map that a browser shows, from ``level``, ``top``, ``bottom``, ``left`` and
    ``right``.

    Raises:
        ValueError: it names none; says what is needed.
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
    """What a map is told from others by: the question, the head, the edits, and which run."""
    changes = view.changes
    if view.awaited:
        run = view.now if isinstance(view, Scene) else view.now_run
        changes = view.changes if run is None else run.intervention
    shown = view.look.compare if changes else "now"
    return ahead.name_of(view.question, view.place, changes, shown)


def tile(line: LiveSession, wanted: Asked) -> bytes:
    """A tile as a blob: ``weights`` float32 and ``masked`` uint8 ``[row, column]``.

    Raises:
        LookupError: the visitor looks at another map by now.
        ValueError: a tile that the map does not have; says how many there are.
        Abandoned: the visitor has moved on meanwhile.
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
    # A weight that is pointed at is told as it was, too.
    return _packed(found, was=tile_pyramid.part(before, site, square)[0])


def _packed(found: Sheet, **more: np.ndarray) -> bytes:
    weights, hidden = found
    return pack({"part": "tile"}, weights=weights, masked=hidden.astype(np.uint8), **more)


def runs_of(view: ViewState, task: Task) -> tuple[Trace, Trace | None]:
    """The run whose map a page shows, and the one that is subtracted from it.

    Raises:
        LookupError: it waits for one, and those before are gone.
        Abandoned: the task was given up.
    """
    run = run_of(view, task)
    if view.look.compare != "difference" or not view.changes or not run.intervention:
        return run, None
    seen = view.question, view.kind, view.place, Intervention(), view.look
    before = view.before_run or scene_at(view.engine, *seen, task, long=view.long).now
    return run, before


def run_of(view: ViewState, task: Task) -> Trace:
    """The run whose map a page shows.

    Raises:
        LookupError: it waits for one, and those before are gone.
        Abandoned: the task was given up.
    """
    if view.awaited:
        run = view.before_run if view.look.compare == "before" else view.now_run
        if run is None:
            raise LookupError(ahead.GONE)
        return run
    seen = view.question, view.kind, view.place, view.changes, view.look
    return scene_at(view.engine, *seen, task, long=view.long).shown[0]


def _ahead_of_its_run(line: LiveSession, made: Ahead, square: Square, task: Task) -> Sheet:
    """A tile of a map that is shown ahead of its run."""

    def check(done: int, of: int) -> None:
        if line.ahead is not made:
            raise Abandoned("The page shows another map by now.")

    step, side = 2**square.level, tile_pyramid.within(made.map.shape, square)
    with ahead.SLOTS.place(task):
        return made.map.pooled(step, *side, on_progress=check)


def sheet(engine: Engine, model: str, run: Trace, site: Site, square: Square, task: Task) -> Sheet:
    """A tile of a head of a run: its weights float32 and what is hidden, bool ``[row, column]``.

    Raises:
        ValueError: a tile that the map does not have; says how many there are.
        LookupError: a map without tiles; says why.
        Abandoned: the task was given up.
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
    """A tile of what changed between two runs, the later one first; as `sheet` gives weights."""
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
    """The whole of a map in small, of a run that its scene holds meanwhile."""
    found = run()
    assert found is not None
    return tile_pyramid.whole(found, site, on_progress)


def ahead_of(view: ViewState, changes: Intervention) -> Ahead:
    """The map of what a visitor looks at under other changes.

    Raises:
        LookupError: one that has to wait for its run; says why.
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
    """A part of a map as quickly as it can be had, as a blob: ``weights`` float32 and ``masked``
    uint8 ``[row, column]``; ``deep`` says of how many rows of it each cell is.

    Raises:
        ValueError: a part that the map does not have.
        Abandoned: a newer frame of the same visit was asked for.
    """
    task = line.begin()
    with ahead.SLOTS.place(task):
        weights, hidden, deep = made.map.quick(2**level, rows, columns)
    header = {"part": "head", "view": "map", "seq": seq, "ahead": True}
    header |= {"of": made.of, "note": made.note, "level": level, "deep": deep}
    header["region"] = [[side.start, side.stop] for side in (rows, columns)]
    return pack(header, weights=weights, masked=hidden.astype(np.uint8))
