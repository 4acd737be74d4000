"""``python -m tests.checkpoints.table``: write docs/tables/checkpoints.csv, or ``--check`` it.

Every module of this folder that offers ``rows()`` is asked; the table is what they measured.
"""

from __future__ import annotations

import math
import pkgutil
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.support.measured_tables import read_table, write_table

from .rows import Row

TABLE = "checkpoints"
COLUMNS = ("layout", "variant", "attention", "output", "witness", "verdict")
LEAST = -7  # powers of ten below this one are all the same to float32


@cache
def collect() -> list[Row]:
    """The rows of all layouts, in the alphabetical order of layouts, as each gives them."""
    package = __package__ or "tests.checkpoints"
    names = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    found: list[Row] = []
    for name in sorted(names):
        if not name.startswith("test_") and name not in ("rows", "table"):
            found += getattr(import_module(f"{package}.{name}"), "rows", list)()
    return sorted(found, key=lambda row: row.layout)


def figure(value: float) -> str:
    """A difference rounded up to a power of ten, so that it is the same on every machine."""
    if not math.isfinite(value):
        return "not a number"
    power = LEAST if value <= 10.0**LEAST else math.ceil(math.log10(value))
    return f"≤ 1e{power}"


def cells(row: Row) -> dict[str, str]:
    """Return a row of the table, by column."""
    verdict = "passes" if row.passed else "fails"
    figures = figure(row.attention), figure(row.logits)
    values = (row.layout, row.variant, *figures, row.witness, verdict)
    return dict(zip(COLUMNS, values, strict=True))


def stale(old: list[dict[str, str]], rows: list[Row]) -> list[str]:
    """Return the lines that the table lacks or has too many, whatever their figures."""
    named = [name for name in COLUMNS if name not in ("attention", "output")]
    was, now = (
        [", ".join(row[name] for name in named) for row in table]
        for table in (old, map(cells, rows))
    )
    odd = [part for part in (*was, *now) if (part in was) != (part in now)]
    return odd or ([] if was == now else ["the rows stand in another order"])


def main(words: list[str]) -> int:
    """Write the table, or compare it; return 1 where it is stale or a row fails."""
    rows = collect()
    if "--check" not in words:
        write_table(TABLE, map(cells, rows))
    odd = stale(read_table(TABLE), rows)
    odd += [f"fails: {row}" for row in rows if not row.passed]
    for text in odd:
        print(text, file=sys.stderr)
    return int(bool(odd))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
