"""``transformer-viz compare``: two models, sentences, interventions or traces, head by head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..corpus.sentence_file import sentences
from ..views.csv_text import csv_text
from .arguments import known_checkpoint, new_file, read_intervention, stored_run
from .options import load_model, set_option
from .swap import card_beside
from .terminal import Counter, tell

if TYPE_CHECKING:
    from ..metrics.comparison.comparing import Comparison

VIEWS = ("raw", "content")
SHOWN = 20  # rows of the printed table


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--sentence", metavar="TEXT", help="What both models, or both interventions, read.")
@click.option("--file", metavar="FILE", help="Sentences, one a line, instead of one.")
@click.option("--model", metavar="PATH", help="The one model of two sentences or interventions.")
@click.option("--target", metavar="T", help="The output words that both hold.")
@click.option(
    "--view",
    type=click.Choice(VIEWS),
    default="raw",
    show_default=True,
    help="Weights as they are, or special tokens left out.",
)
@click.option("--within", type=click.IntRange(0), help="How many layers apart heads may match.")
@set_option
@click.option("--out", metavar="F.csv", help="All heads as a table; F.card.json says of what.")
@click.option("--matched", metavar="F.csv", help="Each head with its counterpart, as a table.")
def compare(
    a: str,
    b: str,
    sentence: str | None,
    file: str | None,
    model: str | None,
    target: str | None,
    view: str,
    within: int | None,
    words: tuple[str, ...],
    out: str | None,
    matched: str | None,
) -> None:
    """How far the heads of A and B are from each other, in bits: 0 alike, 1 nothing in common.

    A and B are two checkpoints with --sentence or --file; two sentences with --model; two
    interventions (JSON or a file of it; none is no edit) with --model and a sentence; or two files
    that trace --out wrote. --set a.heads=8 is of A alone, --set b.heads=8 of B.
    """
    text = _read(sentence, file)
    tables = [None if name is None else new_file(name, "table") for name in (out, matched)]
    sides: list[Any] = [a, b]
    opened = None
    if model is not None:
        path = known_checkpoint(model)
        if text is not None:
            sides = [read_intervention(None if one == "none" else one) for one in sides]
        opened = load_model(path, _of_side(words, ""))
    elif text is not None:
        own = [_of_side(words, side) for side in ("a", "b")]
        sides = [load_model(known_checkpoint(p), w) for p, w in zip(sides, own, strict=True)]
    else:
        if words:
            raise ValueError("--set is of checkpoints, and two trace files came; leave it out.")
        sides = [_trace(one) for one in sides]
    from ..inference.comparison.sides import compare as measure

    counter = Counter("runs")
    found = measure(
        sides[0],
        sides[1],
        text,
        model=opened,
        target=target,
        view=view,
        within=within,
        on_progress=lambda done, of: counter.tell(done),
    )
    counter.close()
    for table, frame in zip(tables, (found.heads, found.matched), strict=True):
        if table is not None:
            table.write_text(csv_text(frame, found.card), encoding="utf-8")
            card = json.dumps(found.card, indent=2, ensure_ascii=False) + "\n"
            card_beside(table).write_text(card, encoding="utf-8")
    tell("\n".join(lines(found)))
    for name, frame in ((out, found.heads), (matched, found.matched)):
        if name is not None:
            tell(f"{name}: {len(frame)} heads, and {card_beside(Path(name))}")


def _of_side(words: tuple[str, ...], side: str) -> tuple[str, ...]:
    """Return the overrides of one side: those without a side, and those that name it.

    Raises:
        ValueError: An override names a side, but there is one model.
    """
    own = []
    for word in words:
        named, dot, _ = word.partition("=")[0].partition(".")
        if not dot or named not in ("a", "b"):
            own.append(word)
        elif not side:
            raise ValueError(f"--set {word} names a side, and --model is one; leave {named}. out.")
        elif named == side:
            own.append(word.removeprefix(f"{named}."))
    return tuple(own)


def _read(sentence: str | None, file: str | None) -> Any:
    if sentence is not None and file is not None:
        raise ValueError("--sentence and --file both came; give one of them.")
    return sentences(file) if file is not None else sentence


def _trace(path: str) -> Any:
    """Return a stored run; for a checkpoint, raise an error that lists the missing option."""
    if not Path(path).is_file():
        raise ValueError(
            f"{path!r} is no file that transformer-viz trace --out wrote. Checkpoints are compared "
            "with --sentence TEXT or --file FILE, and sentences with --model PATH."
        )
    return stored_run(path)


def lines(found: Comparison) -> list[str]:
    """Return readable lines of the heads that differ most, with notes."""
    span = "low" in found.heads
    rows = [f"{'bits':>6}  {'95 %' if span else '':<14}  {'rows':>5}  head"]
    table = found.heads.sort_values("divergence", ascending=False, kind="stable")
    for row in table.head(SHOWN).itertuples():
        value = f"{row.divergence:6.3f}" if row.rows else f"{'–':>6}"
        between = f"{row.low:.3f} to {row.high:.3f}" if span and row.rows else ""
        name = f"{row.stack} {row.block} L{row.layer} H{row.head}"
        rows.append(f"{value}  {between:<14}  {row.rows:5}  {name}")
    more = len(table) - SHOWN
    if more > 0:
        rows.append(f"{'':>6}  and {more} more; --out F.csv holds all")
    return [*rows, "", *found.notes]
