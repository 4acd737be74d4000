"""Writes docs/checkpoints.md: ``python -m tests.checkpoints.table``; ``--check`` only compares.

Every module of this folder that offers ``rows()`` is asked; the table is what they measured.
"""

from __future__ import annotations

import math
import pkgutil
import sys
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path

from tests.support.paths import ROOT

from .rows import ATTENTION, LOGITS, Row

PAGE = ROOT / "docs" / "checkpoints.md"
HEAD = f"""# Checkpoints that open, and how exactly

Each row is a kind of checkpoint file, made with random weights exactly as its code base saves it
(names, containers, options), opened as a visitor's file is, and run on a small batch. The *witness*
is another computation of the same attention and the same output, which shares no code with this
package. A figure is the largest absolute difference to it, rounded up to a power of ten: over every
head of every block, and over all logits (states, where a model has no output layer). A row passes
where attention is within {ATTENTION:.0e} and the output within {LOGITS:.0e}, which is what rounding
in float32 explains.

Written by `python -m tests.checkpoints.table`; a test holds the page against what is measured.
"""
TITLES = "| variant | attention | output | witness | |\n|---|---|---|---|---|"
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


def line(row: Row) -> str:
    """A row of the table."""
    end = "passes" if row.passed else "**fails**"
    cells = (row.variant, figure(row.attention), figure(row.logits), row.witness, end)
    return f"| {' | '.join(cells)} |"


def page(rows: list[Row]) -> str:
    """The whole page."""
    parts = [HEAD]
    for layout, group in groupby(rows, key=lambda row: row.layout):
        parts.append(f"## {layout}\n\n{TITLES}\n" + "\n".join(map(line, group)) + "\n")
    return "\n".join(parts)


def stale(text: str, rows: list[Row]) -> list[str]:
    """Lines that the page lacks or has too many, whatever their figures."""

    def said(whole: str) -> list[str]:
        """Layouts, variants, witnesses and verdicts, in their order."""
        kept = []
        for text in whole.splitlines():
            cells = [cell.strip() for cell in text.split("|")]
            if text.startswith("## "):
                kept.append(text)
            elif len(cells) == 7:
                kept.append(" | ".join((cells[1], *cells[4:6])))
        return kept

    old, new = said(text), said(page(rows))
    odd = [part for part in (*old, *new) if (part in old) != (part in new)]
    return odd or ([] if old == new else ["the rows stand in another order"])


def main(words: list[str]) -> int:
    """Write the page, or compare it; 1 where it is stale or a row fails."""
    rows = collect()
    if "--check" not in words:
        PAGE.write_text(page(rows), encoding="utf-8")
    odd = stale(PAGE.read_text(encoding="utf-8") if PAGE.exists() else "", rows)
    odd += [f"fails: {row}" for row in rows if not row.passed]
    for text in odd:
        print(text, file=sys.stderr)
    return int(bool(odd))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
