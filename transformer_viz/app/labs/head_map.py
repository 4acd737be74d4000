"""Small map of one head of any trace; several fit beside one another."""

from __future__ import annotations

from ...components.head_map import map_data
from ...components.map_look import MapLook
from ...core.trace import Trace
from ..session import widget_sync
from ..ui import components
from .bench import Bench


def head(
    bench: Bench,
    name: str,
    trace: Trace,
    block: str,
    layer: int,
    head: int,
    *,
    most: float | None = 1.0,
    numbers: str | None = None,
    direction: str | None = None,
    token: int | None = None,
) -> None:
    """Draw a head of a trace; a click selects the row on every map that has it.

    Args:
        bench: Bench of the lab.
        name: Unique name of the map in the lab.
        trace, block, layer, head: The head to draw.
        most: Weight at the dark end of the colour scale, common to compared maps.
        numbers: Text about the head; by default its entropy and mean distance.
        direction: Meaning of rows and columns; by default that of `row_meaning`.
        token: Row to highlight; by default the one selected on every map.
    """
    look = bench.scene.look
    rows = trace.thumbnail(block).shape[-2]
    drawn = MapLook(
        token=_row(look.token if token is None else token, rows),
        special=look.special,
        ramp=look.ramp,
        gamma=look.gamma,
        seq=look.seq,
    )
    data = map_data(
        trace, block, layer, head, drawn, most=most, numbers=numbers, direction=direction
    )
    components.head(
        data, key=f"lab-{bench.lab}-{name}", picked=_pick, zoomed=_ignore, drawn=_ignore
    )


def _row(token: int, rows: int) -> int | None:
    return token if token < rows else None


def _pick(said: object) -> None:
    match said:
        case {"row": int(row)} if row >= 0:
            widget_sync.choose(token=row)


def _ignore(said: object) -> None:
    """Ignore events: this map has no zoom."""
