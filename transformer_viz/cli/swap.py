"""``transformer-viz swap``: activation patching between two sentences, part by part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.interventions import Intervention
from ..views.csv_text import csv_text
from .arguments import named_choice, new_file
from .options import load_model, model_path, set_option
from .terminal import Counter, tell

if TYPE_CHECKING:
    from ..checkpoints.common.model import Model
    from ..inference.patching.swapping import Cell, Swap

KINDS = ("heads", "patterns", "stream")
SHOWN = 12  # rows of the printed table


@click.command()
@model_path
@click.argument("text")
@click.argument("other")
@click.option(
    "--words", "pair", metavar="es,sie", help="The pair; left out, where the outputs part."
)
@click.option(
    "--what",
    type=click.Choice(KINDS),
    default="heads",
    show_default=True,
    help="What is taken from the other run.",
)
@click.option("--target", metavar="T", help="The output words before the pair, as far as held.")
@click.option(
    "--output",
    type=click.Choice(("start", "end")),
    help="Of a model that marks an answer: where that starts (the default), or ends.",
)
@click.option(
    "--token",
    type=click.IntRange(0),
    metavar="N",
    help="Of a model that judges each token: which one; left out, the first that differs.",
)
@click.option("--best", type=click.IntRange(1), metavar="N", help="Print the N largest as edits.")
@set_option
@click.option("--out", metavar="F.csv", help="All swaps as a table; F.card.json says of what.")
def swap(
    path: str,
    text: str,
    other: str,
    pair: str | None,
    what: str,
    target: str | None,
    output: str | None,
    token: int | None,
    best: int | None,
    words: tuple[str, ...],
    out: str | None,
) -> None:
    """Take one part at a time from a run of OTHER, and see how far TEXT's run moves towards it.

    0 is as in TEXT, 1 as in OTHER: measured at a pair of output words, such as es and sie, of
    classes, or of tokens where an answer may start or end. A model of two texts takes them with a
    tabulator between.
    """
    both = None if pair is None else _pair(pair)
    table = None if out is None else new_file(out, "table")
    model = load_model(path, words)
    if both is not None and len(both) == 1 and model.task not in ("multi_label", "regression"):
        raise ValueError(
            f"--words takes two words with a comma between, like es,sie; got {pair!r}."
        )
    both = None if both is None else tuple(named_choice(model, word) for word in both)
    from ..inference.patching.swapping import swap as measure

    counter = Counter("passes")
    found = measure(
        model,
        _read(model, text),
        _read(model, other),
        both,
        what,
        target=target,
        output=output,
        token=token,
        on_progress=lambda done, of: counter.tell(done),
    )
    counter.close()
    if table is not None:
        table.write_text(csv_text(found.table, found.card), encoding="utf-8")
        card = json.dumps(found.card, indent=2, ensure_ascii=False) + "\n"
        card_beside(table).write_text(card, encoding="utf-8")
    tell("\n".join(lines(found)))
    if best is not None:
        tell(Intervention(found.best(best)).to_json())
    if out is not None:
        tell(f"{out}: {len(found.table)} swaps, and {card_beside(Path(out))}")


def card_beside(table: Path) -> Path:
    """Return the run-card file of a table."""
    return table.with_name(f"{table.stem}.card.json")


def _read(model: Model, text: str) -> str | tuple[str, ...]:
    """Return a text, or a tab-separated pair for a model that reads two."""
    return tuple(text.split("\t")) if model.pairs and "\t" in text else text


def _pair(words: str) -> tuple[str, ...]:
    parts = [word.strip() for word in words.split(",")]
    if len(parts) > 2 or not all(parts):
        raise ValueError(
            f"--words takes two words with a comma between, like es,sie, or one output of a "
            f"regression or of several labels; got {words!r}."
        )
    return tuple(parts)


def lines(found: Swap) -> list[str]:
    """Return readable lines of the largest patches, with notes."""
    rows = [f"{'moved':>7}  swapped alone (0 to 1 of a difference in {found.unit})"]
    for cell in found.ranked[:SHOWN]:
        value = found.parts[cell.part][cell.row, cell.column]
        rows.append(f"{value:7.3f}  {named(found, cell)}")
    more = len(found.ranked) - SHOWN
    if more > 0:
        rows.append(f"{'':>7}  and {more} more; --out F.csv holds all")
    return [*rows, "", *found.notes]


def named(found: Swap, cell: Cell) -> str:
    """Return the site of a patch: ``cross L1 H2``, ``encoder L0 at “it”``."""
    if found.what != "stream":
        return f"{cell.part} L{cell.row} H{cell.column}"
    word = found.labels(cell.part)[cell.column]
    return f"{cell.part} L{cell.row} at “{word}” ({cell.column})"
