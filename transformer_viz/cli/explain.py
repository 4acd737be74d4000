"""``transformer-viz explain``: contribution of the input to one word of the output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..views.csv_text import csv_text
from .arguments import named_choice, new_file, one_question
from .options import input_options, load_model, model_path, set_option
from .swap import card_beside
from .terminal import Counter, after_a_second, tell

if TYPE_CHECKING:
    import pandas as pd

    from ..inference.explanation.deletion import DeletionCurve
    from ..inference.explanation.explaining import Explanation

METHODS = (
    *("weights", "rollout", "contribution", "gradient", "removal", "flow"),
    *("lens", "logits"),
)
BAR, SHOWN = 24, 30  # characters of the longest bar; rows of the table of direct logits


@click.command()
@model_path
@input_options
@click.option(
    "--word",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Which word of the output, from 0; the first line of the answer numbers them.",
)
@click.option("--method", type=click.Choice(METHODS), default="contribution", show_default=True)
@click.option(
    "--output",
    type=click.Choice(("start", "end")),
    help="Of a model that marks an answer: where that starts (the default), or ends.",
)
@click.option(
    "--deletion",
    is_flag=True,
    help="Hide the words that the method names first, against as many by chance.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@set_option
@click.option("--out", metavar="F.csv", help="All values as a table; F.card.json says of what.")
def explain(
    path: str,
    word: int,
    method: str,
    output: str | None,
    deletion: bool,
    seed: int,
    words: tuple[str, ...],
    out: str | None,
    **given: Any,
) -> None:
    """Say what the words of the input had to do with one word of the output.

    Without --target the model writes the output itself, greedily. Of a classifier --target names
    a class, by name or number; of a model that marks an answer a token, by number.
    """
    source, aim = one_question(**given)
    table = None if out is None else new_file(out, "table")
    model = load_model(path, words)
    aim = named_choice(model, aim)
    worded = given["text"] is not None or given["ids"] is not None
    image = Path(given["image"]) if given["image"] is not None and worded else None
    from ..inference.explanation.explaining import explain as measure

    counter = Counter("runs")
    with after_a_second("Running"):
        found = measure(
            model,
            source,
            word,
            aim,
            method,
            output=output,
            image=image,
            on_progress=lambda done, of: counter.tell(done),
        )
        curve = found.deletion(seed=seed) if deletion else None
    counter.close()
    if table is not None:
        table.write_text(csv_text(found.values, found.card), encoding="utf-8")
        card = json.dumps(found.card, indent=2, ensure_ascii=False) + "\n"
        card_beside(table).write_text(card, encoding="utf-8")
    tell("\n".join(lines(found)))
    if curve is not None:
        tell("\n".join(["", *curved(curve, method)]))
    if out is not None:
        tell(f"{out}: {len(found.values)} rows, and {card_beside(Path(out))}")


def lines(found: Explanation) -> list[str]:
    """Return readable lines of the values, with notes."""
    question = found.explainer.question
    listed = [
        f"[{n} {label}]" if n == question.number else f"{n} {label}"
        for n, label in enumerate(question.words)
    ]
    rows = ["  ".join(listed), ""]
    if question.line is not None and question.said is not None:
        first, last = question.said.ids
        labels = question.read.source.labels[first : last + 1]
        rows.insert(0, f"answer, tokens {first} to {last}: {' '.join(labels)}")
    if found.method == "lens":
        scored = found.unit == "logit"
        rows.append(
            f"{'layers':>6}  {'score (logit)':>13}"
            if scored
            else f"{'layers':>6}  {'probability':>11}  {'rank':>6}  most probable there"
        )
        rows += [
            f"{r.layer:>6}  {r.logit:13.4f}"
            if scored
            else f"{r.layer:>6}  {r.probability:11.4f}  {r.rank:>6}  {r.best}"
            for r in found.values.itertuples()
        ]
    elif found.method == "logits":
        table = found.values.sort_values("value", key=abs, ascending=False)
        named = [_part(row) for row in table.itertuples()]
        rows += _bars(named[:SHOWN], table["value"].tolist()[:SHOWN])
        if len(table) > SHOWN:
            rows.append(f"and {len(table) - SHOWN} more; --out F.csv holds all")
    else:
        if found.unit:
            rows += [f"unit: {found.unit}", ""]
        for _, part in found.values.groupby("sentence", sort=False):
            rows += [*_bars(part["label"].tolist(), part["value"].tolist()), ""]
        rows.pop()
    said = found.caption
    if found.complete is not None:
        said += f" The parts miss what they must sum to by {found.complete:.1g}."
    return [*rows, "", said]


def _part(row: Any) -> str:
    if row.layer < 0:
        return str(row.part)
    head = "" if row.head < 0 else f" H{row.head}"
    return f"{row.part} L{row.layer}{head}"


def _bars(labels: list[str], values: list[float]) -> list[str]:
    """Return one line per value, with a bar on a common scale."""
    width = max((len(label) for label in labels), default=0)
    most = max((abs(v) for v in values if v == v), default=0.0) or 1.0
    made = []
    for label, value in zip(labels, values, strict=True):
        size = 0 if value != value else round(abs(value) / most * BAR)
        number = f"{'-':>9}" if value != value else f"{value:9.4f}"
        made.append(f"{label:<{width}}  {number}  {('█' if value > 0 else '░') * size}".rstrip())
    return made


def curved(curve: DeletionCurve, method: str) -> list[str]:
    """Return the deletion curve, one line per number of hidden words."""
    table: pd.DataFrame = curve.table.set_index(["method", "hidden"])
    unit = curve.table["unit"].iloc[0]
    rows = [
        f"{'hidden':>6}  {f'{unit} lost':>10}  {'by chance':>9}  {'95 % of draws':>18}  last hidden"
    ]
    for k in range(1, len(table.loc[method])):
        own, chance = table.loc[(method, k)], table.loc[("random", k)]
        span = f"{chance['low']:.4f} to {chance['high']:.4f}"
        rows.append(
            f"{k:>6}  {own['loss']:10.4f}  {chance['loss']:9.4f}  {span:>18}  {own['words']}"
        )
    return rows
