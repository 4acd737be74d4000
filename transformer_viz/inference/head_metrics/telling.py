"""Progress callback type of `tv.metrics` and `tv.rank`."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

#: Called with the number of sentences measured, the number in all, and their table. The table is
#: None during preparation, or while it is not worth computing. Exceptions propagate, and nothing is
#: stored.
Tell = Callable[[int, int, pd.DataFrame | None], None]
