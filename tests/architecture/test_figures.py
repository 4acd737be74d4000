"""Figures that a page of the docs repeats from benchmarks/RESULTS.md: each stands there."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

SECTION = "All heads at once, beside others"
#: Heads of the columns that docs/which-tool.md repeats, as both call them.
COLUMNS = {"tokens": "T", "tool": "tool", "seconds": "call to paint, s"} | {
    name: name for name in ("bytes", "elements")
}


def page() -> str:
    text = (ROOT / "docs" / "which-tool.md").read_text(encoding="utf-8")
    return text.split("## Measured: all heads at once")[1].split("\n## ")[0]


def measured() -> str:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    return text.split(f"## {SECTION}\n")[1].split("\n## ")[0]


def table(text: str) -> list[dict[str, str]]:
    """The rows of the only table of a section, each by the heads of its columns."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(heads, row, strict=True)) for row in rows]


def test_the_table_beside_the_peers_is_the_measured_one() -> None:
    shown = table(page())
    lengths = {row["tokens"] for row in shown}
    there = [
        {ours: row[theirs] for ours, theirs in COLUMNS.items()}
        for row in table(measured())
        if row["T"] in lengths
    ]
    assert shown == there and len(lengths) == 2 and len(shown) == 10
    (day,) = re.findall(r"^(\d{4}-\d\d-\d\d), ", measured(), re.MULTILINE)
    assert re.findall(r"\d{4}-\d\d-\d\d", page()) == [day]
