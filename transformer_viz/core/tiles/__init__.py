"""Long maps without their matrices: what any rectangle of an attention map is computed from.

May import core; numpy only. `maps.py` computes a tile from `parts.py`, `pooling.py` puts many
weights in a cell, `cells.py` holds masks and biases in little space, `arrays.py` names their arrays
for a file, `edited.py` makes the map of one head under other edits.
"""

from .cells import Bias, Visible
from .maps import LONG, MOST_CELLS, Tiles
from .parts import Matrix, Part

__all__ = ["LONG", "MOST_CELLS", "Bias", "Matrix", "Part", "Tiles", "Visible"]
