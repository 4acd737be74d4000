"""One head of any trace as a map, small and for looking: several stand beside one another."""

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
    """A head of a trace; a click chooses the row on every map that has one.

    Args:
        bench: the lab's.
        name: tells the map from others of the lab.
        trace, block, layer, head: what to show.
        most: the weight at the dark end of the colours, common to maps that are compared.
        numbers: what to say about the head; left out, its entropy and mean distance.
        direction: what rows and columns are to each other; left out, that of `row_meaning`.
        token: the row to point out; left out, the one that is chosen on every map.
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
    """Nothing is enlarged here."""
