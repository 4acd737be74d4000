"""Evidence about every head from some sentences: measures, roles and examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from .registry import MEASURES

#: Decimals of a stored number; intervals are much wider.
DECIMALS = 4


@dataclass(frozen=True, eq=False)
class HeadEvidence:
    """Table of `roles`, with example sentences for each head and role.

    ``examples`` maps (row of the table, role) to the numbers of the three best and of three typical
    sentences. ``card`` holds the details of the measurement: model and its hash, sentences and
    their hash, rows, seed, dtype, view, version.
    """

    table: pd.DataFrame
    examples: dict[tuple[int, str], tuple[tuple[int, ...], tuple[int, ...]]]
    card: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; numbers are rounded to four decimals, NaN becomes None."""
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
        """Return the evidence from the output of `to_dict`, with empty columns for newer measures.

        Roles are not recomputed.
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
