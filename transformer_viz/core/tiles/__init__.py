"""Tiled attention maps: any rectangle of a long map, computed without the full matrix.

May import core; numpy only. `maps.py` computes a tile from `parts.py`, and `pooling.py` max-pools
weights into cells. `cells.py` stores masks and biases compactly, and `arrays.py` names their arrays
for a file. `edited.py` computes the map of one head under other edits.
"""

from .cells import Bias, Visible
from .maps import LONG, MOST_CELLS, Tiles
from .parts import Matrix, Part

__all__ = ["LONG", "MOST_CELLS", "Bias", "Matrix", "Part", "Tiles", "Visible"]
