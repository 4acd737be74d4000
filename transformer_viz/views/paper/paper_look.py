"""How a picture for print is drawn; no matplotlib here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperLook:
    """What the map, the lines and the atlas for print have in common.

    Args:
        words: merge pieces to whole words; the atlas shows the model's own tokens always.
        special: show start and end marks too; the atlas does always.
        ramp: the colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        threshold: the weight (or size of a change) from which a line is drawn.
        dark: colours for a dark background.
        width: of the sheet, in millimetres.
    """

    words: bool = False
    special: bool = True
    ramp: str = "ink"
    threshold: float = 0.0
    dark: bool = False
    width: float = 160
