"""The page of all rows: a summary by verdict, and a table for each package."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple

from .verdict import Row

HEAD = """# Models of other packages

Small models with random weights, each proved on a batch of two (`python -m benchmarks.foreign`
writes this page). *values*: `own` is the difference from the package's own maps, `kernels` that
from the softmax kernels below. *proved*: the proof holds and the oracle agrees. *said*: not proved,
and the sentence says what. *wrong*: the proof holds and the oracle disagrees. *silent*: an
attention that neither map nor sentence mentions. *not run*: the configuration or its measuring
raised an error, and nothing is known. `?`: could not be told.
"""
VERDICTS = ("proved", "said", "wrong", "silent", "not run")
COLUMNS = ("configuration", "found", "axes", "values", "edits", "unchanged", "verdict", "said")


def written(packages: dict[str, list[Row]]) -> str:
    """The page in Markdown, from the rows of each package (by name and version)."""
    parts = [HEAD, table(("package", *VERDICTS), [summary(n, r) for n, r in packages.items()])]
    for name, rows in packages.items():
        parts += [f"\n## {name}\n", table(COLUMNS, [astuple(row) for row in rows])]
    return "\n".join(parts) + "\n"


def summary(name: str, rows: list[Row]) -> tuple[str, ...]:
    """How many rows of a package have each verdict."""
    counts = Counter(row.verdict for row in rows)
    return (name, *(str(counts[verdict]) for verdict in VERDICTS))


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "/") for c in line) + " |" for line in lines)
