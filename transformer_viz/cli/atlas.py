"""``transformer-viz atlas``: measures of every head over a file of sentences of any size."""

from __future__ import annotations

from pathlib import Path

import click

from ..corpus.sentence_file import text_file
from .arguments import config_word, known_checkpoint, named_vocabularies
from .options import load_model, model_path, set_option
from .terminal import Counter, after_a_second, tell


@click.command()
@model_path
@click.argument("file", metavar="FILE")
@click.option("--out", required=True, metavar="DIR", help="The folder of the atlas.")
@click.option(
    "--view",
    type=click.Choice(["content", "raw"]),
    default="content",
    show_default=True,
    help="Special tokens left out, or weights as they are.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes, or actors."
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Who runs the workers; the result is the same.",
)
@click.option("--address", metavar="A", help="Of a Ray cluster; left out, one on this machine.")
@click.option("--device", help="cpu or cuda; left out, a GPU if there is one.")
@set_option
def atlas(
    path: str,
    file: str,
    out: str,
    view: str,
    seed: int,
    workers: int,
    engine: str,
    address: str | None,
    device: str | None,
    words: tuple[str, ...],
) -> None:
    """Measure every head over a file of any size, with examples; a stopped run goes on.

    FILE holds one sentence a line, or source and target with a tabulator between them. The same
    command again makes the parts that lack. The page Corpus opens the folder.
    """
    text_file(file)
    if address is not None and engine != "ray":
        raise ValueError("--address names a Ray cluster; add --engine ray, or leave it out.")
    more = {} if device is None else {"device": device}
    model = load_model(path, words, **more)
    from ..corpus.engines import run
    from ..corpus.plan import make_plan, settle_plan

    folder = Path(out)
    with after_a_second(f"Reading {file}"):
        plan = make_plan(model, file, view=view, seed=seed)
    settle_plan(plan, folder)
    counter = Counter(f"of {plan.sentences:,} sentences")
    done = run(
        plan,
        file,
        folder,
        model,
        path=known_checkpoint(path),
        words={**named_vocabularies(), **dict(map(config_word, words))},
        workers=workers,
        engine=engine,
        address=address,
        on_progress=lambda count, total: counter.tell(count),
    )
    counter.close()
    tell(_said(out, plan.sentences, len(plan.shards), done))


def _said(out: str, sentences: int, shards: int, done: list) -> str:
    from ..corpus.folder import open_atlas

    card = open_atlas(out).card
    text = f"{out}: {card['read']:,} sentences"
    if card["refused"]:
        text += f" ({card['refused']:,} that the model cannot read left out)"
    forward, counted = (
        sum(getattr(one, name) for one in done) for name in ("forward", "statistics")
    )
    new = f"{len(done)} of {shards} parts made now"
    if forward:
        new += f", {counted / forward:.0%} of the model's time spent on statistics"
    return f"{text}; {new}"
