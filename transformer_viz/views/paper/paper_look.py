"""Style options of figures for print; imports no matplotlib."""

from __future__ import annotations

from dataclasses import dataclass

from ...components.map_look import Zoom


@dataclass(frozen=True)
class PaperLook:
    """Style options that the map, the lines and the atlas for print share.

    Args:
        words: Merge pieces to whole words; the atlas always shows the model's tokens.
        special: Show start and end tokens too; the atlas always does.
        ramp: Colours of amounts, one of :data:`transformer_viz.core.palette.RAMPS`.
        gamma: Exponent of amounts (0...1 of the scale) before they are coloured; unused by lines.
        threshold: The weight (or size of a change) from which lines and cells are drawn.
        top: Number of lines of each token, the strongest first; 0 for all.
        zoom: The rows and columns of a map to draw, each from the first to one past the last; None
            for all.
        most: The weight at the end of a map's colours, unless the head has a larger one.
        common: Use one scale for all heads of an atlas.
        dark: Use colours for a dark background.
        width: Width of the sheet in millimetres.
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
