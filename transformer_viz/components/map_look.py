"""Display options of a head: chosen cells, grouping of tokens, and colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.trace import Trace
from ..metrics.attention.map_cells import Cells, cells

Span = tuple[int, int]
Zoom = tuple[Span, Span]


@dataclass(frozen=True)
class MapLook:
    """Display options that the map, the lines and the atlas share.

    Unsupported options are ignored: lines have no ``ramp``, ``gamma`` and ``zoom``, and the atlas
    shows the model's tokens and no chosen cell.

    Args:
        token: Chosen row (query) of the model, from 0; None for none.
        key: Chosen column of the model, from 0; None for none.
        words: Merge the pieces along both axes to whole words.
        special: Show the start and end tokens along both axes too.
        ramp: Colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        gamma: Exponent of amounts (0...1 of the scale) before they are coloured.
        threshold: Weights, or sizes of changes, below it are not drawn, 0...1.
        zoom: The rows and columns to enlarge, each from the first to one past the last.
        seq: Number of this state, which the browser returns once it is painted.
    """

    token: int | None = None
    key: int | None = None
    words: bool = False
    special: bool = True
    ramp: str = "ink"
    gamma: float = 1.0
    threshold: float = 0.0
    zoom: Zoom | None = None
    seq: int = 0

    def cells(self, trace: Trace, block: str, layer: int, head: int) -> Cells:
        """Return a head's weights ``[row, column]``, with tokens grouped as chosen.

        Raises:
            LookupError: The trace lacks the map, layer or head; the message lists those it has.
        """
        return cells(trace, block, layer, head, words=self.words, special=self.special)

    def colours(self) -> dict[str, Any]:
        """Return ``ramp``, ``gamma`` and ``threshold``, for a blob's header."""
        return {"ramp": self.ramp, "gamma": self.gamma, "threshold": self.threshold}


#: Default display options.
PLAIN = MapLook()
