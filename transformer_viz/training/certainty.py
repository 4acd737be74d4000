"""How sure a translator is of everyday sentences: below which probability the app says so.

``python -m transformer_viz.training.certainty en-de --data DIR --file FILE`` measures it again,
writes it into the model's config.json and gives the words for its card.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from ..checkpoints.common.bundled import shelved
from ..checkpoints.common.model import Model
from ..checkpoints.loader import load
from ..inference.generation import translate_lines
from ..metrics.output.surprisal import certainty
from .corpus import read_pairs
from .evaluate import TEST
from .progress import bar
from .write_file import note

BEAM = 4
SHARE = 0.05  # of everyday sentences, of which the app says wrongly that the model is not sure
TOGETHER = 32  # sentences in a pass


def certainties(model: Model, sentences: Sequence[str]) -> np.ndarray:
    """The certainty of each sentence's translation (beam 4), ``[sentence]`` float64, 0 to 1."""
    with bar(len(sentences), "certainty", "lines") as line:

        def tell(done: int) -> None:
            line.update(done - line.n)

        best = translate_lines(model, list(sentences), BEAM, TOGETHER, tell=tell)
    return np.array([certainty(np.exp(one.steps)) for one in best])


def sure_from(model: Model, pairs: Sequence[tuple[str, str]]) -> float:
    """What 95 % of the sources reach, each counted once."""
    sources = list(dict.fromkeys(source for source, _ in pairs))
    return round(float(np.quantile(certainties(model, sources), SHARE)), 3)


def said(limit: float, file: str) -> str:
    """What the card says of it."""
    return (
        "The certainty of a translation is the geometric mean of the probabilities that its pieces "
        f"had (beam {BEAM}). It is {limit:.0%} or more for {1 - SHARE:.0%} of the sources of "
        f"`{file}`, which were not trained on; below that the app says that the model is not "
        "sure. A translation can be sure and wrong."
    )


@click.command()
@click.argument("name")
@click.option("--data", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--file", default=TEST, show_default=True, help="Sentences below the data folder.")
def main(name: str, data: Path, file: str) -> None:
    """Measure how sure a model in the box is of everyday sentences."""
    folder = shelved(name)
    if folder is None:
        raise click.UsageError(f"{name} is not in the box; transformer-viz models lists what is.")
    limit = sure_from(load(name), read_pairs(data / file, 0, 1))
    note(folder, sure_from=limit)
    click.echo(said(limit, file))


if __name__ == "__main__":
    main()
