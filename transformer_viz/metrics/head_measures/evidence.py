"""What is known of every head over some sentences: measures, roles, and what shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .registry import MEASURES

#: Decimals of a stored number: the intervals are wider by far.
DECIMALS = 4


@dataclass(frozen=True, eq=False)
class HeadEvidence:
    """The table of `roles`, and for each head and role the sentences that show it.

    ``examples`` maps (row of the table, role) to the numbers of the three best sentences and of
    three typical ones. ``card`` says what was measured: model and its hash, sentences and their
    hash, rows, seed, dtype, view, version.
    """

    table: pd.DataFrame
    examples: dict[tuple[int, str], tuple[tuple[int, ...], tuple[int, ...]]]
    card: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it; numbers are rounded to four decimals, NaN is None."""
        plain = self.table.drop(columns=["roles", "states"])
        columns: dict[str, list[Any]] = {}
        for name, column in plain.items():
            if column.dtype.kind == "f":
                values = np.round(column.to_numpy(np.float64), DECIMALS).tolist()
                columns[str(name)] = [None if value != value else value for value in values]
            else:
                columns[str(name)] = column.tolist()
        return {
            "card": self.card,
            "columns": columns,
            "roles": [list(one) for one in self.table["roles"]],
            "states": [list(one) for one in self.table["states"]],
            "examples": [
                [row, role, list(best), list(typical)]
                for (row, role), (best, typical) in self.examples.items()
            ],
        }

    @classmethod
    def from_dict(cls, words: dict[str, Any]) -> HeadEvidence:
        """Return what `to_dict` gave, with empty columns for measures that are newer than it.

        Roles stand as they were given; they are not told anew.
        """
        table = pd.DataFrame(
            {
                name: np.array(values, float) if None in values else values
                for name, values in words["columns"].items()
            }
        )
        for name in (one.name for one in MEASURES if one.name not in table):
            table[f"{name}_rows"] = 0
            for part in ("", "_chance", "_low", "_high"):
                table[f"{name}{part}"] = np.nan
        for name in ("roles", "states"):
            table[name] = pd.Series([tuple(one) for one in words[name]], dtype=object)
        examples = {
            (row, role): (tuple(best), tuple(typical))
            for row, role, best, typical in words["examples"]
        }
        return cls(table, examples, words["card"])
