"""How a head is drawn: what is chosen in it, how tokens are grouped, and the colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.trace import Trace
from ..metrics.attention.map_cells import Cells, cells

Span = tuple[int, int]
Zoom = tuple[Span, Span]


@dataclass(frozen=True)
class MapLook:
    """What the map, the lines and the atlas share about how attention weights are drawn.

    Each of them reads what it has a use for: lines have no ``ramp``, ``gamma`` and ``zoom``, and
    the atlas shows the model's own tokens and no chosen cell.

    Args:
        token: the chosen row (query) of the model's, from 0; None for none.
        key: the chosen column of the model's, from 0; None for none.
        words: merge the pieces along both axes to whole words.
        special: show the start and end marks along both axes too.
        ramp: the colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        gamma: power that amounts (0...1 of the scale) are raised to before they are coloured.
        threshold: weights, or sizes of changes, below it are not drawn, 0...1.
        zoom: the rows and the columns to enlarge, each from the first to behind the last.
        seq: the number of this state, which the browser gives back when it is painted.
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
        """A head's weights ``[row, column]``, its tokens grouped as chosen.

        Raises:
            LookupError: a map, layer or head that the trace lacks; names those it has.
        """
        return cells(trace, block, layer, head, words=self.words, special=self.special)

    def colours(self) -> dict[str, Any]:
        """``ramp``, ``gamma`` and ``threshold``, for a blob's header."""
        return {"ramp": self.ramp, "gamma": self.gamma, "threshold": self.threshold}


#: The look that pictures have unless another is given.
PLAIN = MapLook()
