"""How `tv.metrics` and `tv.rank` say how far they are: in one way, with what is known so far."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

#: Hears how many sentences are measured, of how many, and the table of these; None while things are
#: prepared, or where a table is not worth its time yet. What it raises comes out, and nothing is
#: kept.
Tell = Callable[[int, int, pd.DataFrame | None], None]
