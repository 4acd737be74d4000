"""Measures of positional encodings: tables, similarity, shifts.

May import metrics' own helpers and core.
"""

from .positions import (
    Shift,
    Wave,
    measured,
    pair_count,
    position_array,
    position_label,
    position_rows,
    shift,
    similarity,
    waves,
)
from .shift_errors import shift_errors, similarity_by_distance

__all__ = [
    "Shift",
    "Wave",
    "measured",
    "pair_count",
    "position_array",
    "position_label",
    "position_rows",
    "shift",
    "shift_errors",
    "similarity",
    "similarity_by_distance",
    "waves",
]
