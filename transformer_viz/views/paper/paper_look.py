"""How a picture for print is drawn; no matplotlib here."""

from __future__ import annotations

from dataclasses import dataclass

from ...components.map_look import Zoom


@dataclass(frozen=True)
class PaperLook:
    """What the map, the lines and the atlas for print have in common.

    Args:
        words: merge pieces to whole words; the atlas shows the model's own tokens always.
        special: show start and end marks too; the atlas does always.
        ramp: the colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        gamma: power that amounts (0...1 of the scale) are raised to before they are coloured; lines
            have no such scale.
        threshold: the weight (or size of a change) from which lines and cells are drawn.
        top: how many lines of each word are drawn, the strongest first; 0: all.
        zoom: the rows and columns of a map to draw, each from the first to behind the last; None:
            all.
        most: the weight at the end of a map's colours, unless the head has a larger one.
        common: one scale for all heads of an atlas.
        dark: colours for a dark background.
        width: of the sheet, in millimetres.
    """

    words: bool = False
    special: bool = True
    ramp: str = "ink"
    gamma: float = 1.0
    threshold: float = 0.0
    top: int = 0
    zoom: Zoom | None = None
    most: float = 0.0
    common: bool = False
    dark: bool = False
    width: float = 160
