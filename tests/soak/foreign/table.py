"""The page of all rows: a summary by verdict, and a table for each package."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple

from .verdict import Row

HEAD = """# Models of other packages

Small models with random weights, each proved on a batch of two (`python -m tests.soak.foreign`
writes this page; it installs the packages into `.venv-foreign`). *values*: `own` is the difference
from the package's own maps, `kernels` that from the softmax kernels below. *proved*: the proof
holds and the oracle agrees. *said*: not proved, and a sentence of the project says what; the
first one stands there. *wrong*: the proof holds and the oracle disagrees, or a shown map is none
of the package's own and no sentence speaks of it, or only the watched module raises an error.
*silent*: an attention that neither map nor sentence mentions. *not run*: the configuration raised
an error without any probe; it does not count. `?`: could not be told. `inf`: maps that do not pair.
Linear attention makes no weights: where all of a model is of it, that no attention was seen is
said; beside other attention it is not counted.
torchvision cannot be loaded beside a PyTorch for the CPU alone: timm, vit-pytorch and open_clip
import an empty stand-in for it, TransformerLens one for wandb (`tests/soak/foreign/absent.py`).
"""
STYLES = """
## Attention written by hand

What the probe alone makes of each style in `tests/foreign/styles`
(`python -m tests.foreign.scoreboard`); what the proof says of them stands in
`tests/foreign/test_foreign.py`.
"""
VERDICTS = ("proved", "said", "wrong", "silent", "not run")
COLUMNS = ("configuration", "found", "axes", "values", "edits", "unchanged", "verdict", "said")


def written(packages: dict[str, list[Row]], styles: str = "") -> str:
    """The page in Markdown, from the rows of each package (by name and version) and the table of
    hand-written styles."""
    everything = [row for rows in packages.values() for row in rows]
    ran = [rows for rows in packages.values() if any(row.verdict != "not run" for row in rows)]
    counted = sum(row.verdict != "not run" for row in everything)
    lines = [summary(name, rows) for name, rows in packages.items()]
    lines.append(summary(f"{len(ran)} packages, {counted} configurations", everything))
    parts = [HEAD, table(("package", *VERDICTS), lines)]
    for name, rows in packages.items():
        parts += [f"\n## {name}\n", table(COLUMNS, [astuple(row) for row in rows])]
    if styles:
        parts += [STYLES, styles]
    return "\n".join(parts) + "\n"


def summary(name: str, rows: list[Row]) -> tuple[str, ...]:
    """How many rows of a package have each verdict."""
    counts = Counter(row.verdict for row in rows)
    return (name, *(str(counts[verdict]) for verdict in VERDICTS))


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join("| " + " | ".join(c.replace("|", "/") for c in line) + " |" for line in lines)
