"""``transformer-viz rank``: heads ranked by cost of removal, on the sentences of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..corpus.sentence_file import sentences
from ..views.csv_text import csv_text
from .arguments import new_file
from .options import load_model, model_path, set_option
from .terminal import Counter, tell

if TYPE_CHECKING:
    from ..inference.ablation.ranking import Ranking

METHODS = ("mean", "zero", "resample", "uniform")
SHOWN = 20  # rows of the printed table
OF_A_CLASS = 3  # heads that are printed for each class


@click.command()
@model_path
@click.argument("file", metavar="FILE")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="mean",
    show_default=True,
    help="What a removed head gives.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@set_option
@click.option("--out", metavar="F", help="All heads as a table, heads.csv.")
@click.option(
    "--keep-means", is_flag=True, help="Store each head's mean beside the weights, for edits."
)
def rank(
    path: str,
    file: str,
    method: str,
    seed: int,
    words: tuple[str, ...],
    out: str | None,
    keep_means: bool,
) -> None:
    """Rank all heads by what their removal costs: nats per target token, or logits of a score.

    FILE holds one sentence a line, or source and target with a tabulator between them. Without
    targets, a model that translates writes the references itself.
    """
    if keep_means and method != "mean":
        raise ValueError(f"--keep-means stores the means of --method mean; got {method!r}.")
    pairs = sentences(file)
    table = None if out is None else new_file(out, "table")
    model = load_model(path, words)
    from ..inference.ablation.ranking import rank as measure

    counter = Counter("sentences")
    ranking = measure(
        model, pairs, method, on_progress=lambda done, total, so_far: counter.tell(done), seed=seed
    )
    counter.close()
    if table is not None:
        table.write_text(csv_text(ranking.table, ranking.card), encoding="utf-8")
    tell("\n".join(lines(ranking)))
    if keep_means:
        folder = model.folder or Path(path).resolve().parent
        stored = ranking.means.save(folder)
        tell(f'{stored}: {{"kind": "mean_head", "mean": "{ranking.means.hash}", ...}}')
    if out is not None:
        tell(f"{out}: {len(ranking.table)} heads")


def lines(ranking: Ranking) -> list[str]:
    """Return readable lines of the strongest heads, with notes."""
    unit, scored = ranking.unit, ranking.unit == "logit"
    more_titles = f"{'moved':>7}" if scored else f"{'KL':>7}  {'changed':>7}"
    rows = [f"{'rank':>9}  {'head':<18}{unit:>8}  {'95 %':>18}  {more_titles}"]
    for row in ranking.table.head(SHOWN).itertuples():
        name = f"{row.stack} {row.block} L{row.layer} H{row.head}"
        span = f"{row.low:.4f} to {row.high:.4f}"
        place = f"{row.rank} ({row.rank_low}-{row.rank_high})"
        told = "" if row.significant else "  not told from none"
        last = f"{row.moved:7.4f}" if scored else f"{row.kl:7.4f}  {row.changed:7.1%}"
        rows.append(f"{place:>9}  {name:<18}{row.effect:8.4f}  {span:>18}  {last}{told}")
    more = len(ranking.table) - SHOWN
    if more > 0:
        rows.append(f"{'':>9}  and {more} more; --out F.csv holds all")
    return [*rows, *_classes(ranking), "", *ranking.notes]


def _classes(ranking: Ranking) -> list[str]:
    """Return lines of the costliest heads of each class, if there are several classes."""
    if ranking.by_row is None or ranking.by_class["class"].nunique() < 2:
        return []
    rows = ["", f"the costliest heads of each class, in {ranking.unit}"]
    for label, part in ranking.by_class.groupby("label", sort=False):
        told = ", ".join(
            f"{r.stack} {r.block} L{r.layer} H{r.head} {r.effect:.4f}"
            for r in part.head(OF_A_CLASS).itertuples()
        )
        rows.append(f"  {label}: {told}")
    return rows
