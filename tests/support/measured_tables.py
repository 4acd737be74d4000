"""The measured tables that docs link: CSV files in docs/tables, shown on the pages of the site."""

from __future__ import annotations

import csv
from collections.abc import Iterable

from .paths import ROOT

TABLES = ROOT / "docs" / "tables"


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of ``docs/tables/{name}.csv``, each by column."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_table(name: str, rows: Iterable[dict[str, str]]) -> None:
    """Write ``docs/tables/{name}.csv``; the keys of the first row are the columns."""
    rows = list(rows)
    with (TABLES / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, rows[0], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
