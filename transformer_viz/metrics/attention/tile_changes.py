"""Tiles of the difference of two runs, exact at the finest level.

A coarser cell holds the change of largest size within it, with its sign. A mean would hide opposite
changes of neighboring weights.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace
from ...i18n import say
from .tile_pyramid import STRIPS, Sheet, Square, kept_level, within

CELLS = 4 * 1024**2  # cells of each run built at a time


def part(now: Trace, before: Trace, site: Site, square: Square) -> Sheet:
    """Return one tile: changes float32, and a bool mask of cells hidden in both runs.

    Raises:
        ValueError: The map has no such tile, or the runs have other words.
        LookupError: The map has no tiles.
    """
    shape = same_shape(now, before, site)
    return pooled(now, before, site, 2**square.level, *within(shape, square))


def whole(now: Trace, before: Trace, site: Site, on_progress: Callable[[int, int], None]) -> Sheet:
    """Return all changes of a map at the cached level."""
    shape = same_shape(now, before, site)
    rows, step = shape[0], 2 ** kept_level(shape)
    high = -(-rows // (step * STRIPS)) * step
    strips = []
    for number, first in enumerate(range(0, rows, high)):
        on_progress(number, STRIPS)
        down = slice(first, min(first + high, rows))
        strips.append(pooled(now, before, site, step, down, slice(0, shape[1])))
    return np.concatenate([w for w, _ in strips]), np.concatenate([h for _, h in strips])


def cut(kept: Sheet, shape: tuple[int, int], square: Square) -> Sheet:
    """Return one tile of a coarser level than the cached one."""
    down, across = within(shape, square)
    step = 2 ** kept_level(shape)
    place = tuple(slice(side.start // step, -(-side.stop // step)) for side in (down, across))
    changes, hidden = (sheet[place] for sheet in kept)
    return _largest(changes, hidden, 2**square.level // step)


def pooled(now: Trace, before: Trace, site: Site, step: int, rows: slice, columns: slice) -> Sheet:
    """Return some rows and columns of the changes, in cells of ``step`` x ``step``."""
    place = site.map, site.layer, site.head or 0
    high = max(1, CELLS // ((columns.stop - columns.start) * step)) * step
    found = []
    for first in range(rows.start, rows.stop, high):
        down = slice(first, min(first + high, rows.stop))
        weights, hidden = now.pooled(*place, 1, down, columns)
        was, unseen = before.pooled(*place, 1, down, columns)
        found.append(_largest(weights - was, hidden & unseen, step))
    return np.concatenate([c for c, _ in found]), np.concatenate([h for _, h in found])


def _largest(changes: np.ndarray, hidden: np.ndarray, step: int) -> Sheet:
    """Return the change of largest size of each ``step`` x ``step`` cells."""
    up = low = changes
    for axis, size in enumerate(changes.shape):
        edges = np.arange(0, size, step)
        up = np.maximum.reduceat(up, edges, axis=axis)
        low = np.minimum.reduceat(low, edges, axis=axis)
        hidden = np.logical_and.reduceat(hidden, edges, axis=axis)
    return np.where(-low > up, low, up).astype(np.float32), hidden


def same_shape(now: Trace, before: Trace, site: Site) -> tuple[int, int]:
    """Return the shape of a map in both runs.

    Raises:
        ValueError: The shapes differ, for example by appended padding.
    """
    shape, old = (run.map_shape(site.map, site.layer) for run in (now, before))
    if shape != old:
        raise ValueError(
            say(
                "There is no difference: the map has {now} weights now and had {before} before.",
                now=" × ".join(f"{size:,}" for size in shape),
                before=" × ".join(f"{size:,}" for size in old),
            )
        )
    return shape


def colour_end(now: Trace, before: Trace, site: Site, rows: int = 64, share: float = 0.98) -> float:
    """Return the end of the color scale: the 98th percentile of changes in some rows.

    As for weights of a long text: with the maximum, almost nothing would be colored.
    """
    shape, place = same_shape(now, before, site), (site.map, site.layer, site.head or 0)
    picked = np.unique(np.linspace(0, shape[0] - 1, min(rows, shape[0])).astype(int))
    all_columns = slice(0, shape[1])
    sizes = np.concatenate(
        [
            np.abs(
                now.tile(*place, slice(row, row + 1), all_columns)
                - before.tile(*place, slice(row, row + 1), all_columns)
            )[0]
            for row in map(int, picked)
        ]
    )
    seen = sizes[sizes > 0]
    return float(np.quantile(seen, share)) if len(seen) else 1.0
