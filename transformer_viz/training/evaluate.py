"""How good translations are: BLEU against every reference of a sentence.

``python -m transformer_viz.training.evaluate en-de --data DIR --beam 4`` prints the score.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from ..checkpoints.model import Model
from ..checkpoints.opening import load
from ..decode import translate_lines
from .corpus import read_pairs
from .progress import bar

TEST = "eng-deu.test.tsv.gz"


@dataclass(frozen=True)
class Score:
    """BLEU (0 to 100), sacrebleu's signature of how it was reckoned, sentences, beam."""

    bleu: float
    signature: str
    sentences: int
    beam: int


def references(pairs: list[tuple[str, str]]) -> tuple[list[str], list[list[str | None]]]:
    """Each source once, and its references as sacrebleu reads them.

    A source stands where it came first. There are as many lists as the most translated source
    has references, ``lists[n][source]``; where a source has fewer, None stands for nothing.
    """
    grouped: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        grouped.setdefault(source, {})[target] = None
    rows = [list(targets) for targets in grouped.values()]
    most = max(map(len, rows), default=0)
    columns = [[row[n] if n < len(row) else None for row in rows] for n in range(most)]
    return list(grouped), columns


def bleu(model: Model, pairs: list[tuple[str, str]], beam: int = 4, batch: int = 32) -> Score:
    """Corpus BLEU of a model's translations: cased, detokenised, all references of a source.

    Papineni et al. (2002), as sacrebleu reckons it (Post 2018).

    Raises:
        ValueError: no pairs; sacrebleu is not installed.
    """
    sources, targets = references(pairs)
    if not sources:
        raise ValueError("There are no sentence pairs to measure with.")
    with bar(len(sources), "translate", "lines") as line:

        def tell(done: int) -> None:
            line.update(done - line.n)

        best = translate_lines(model, sources, beam, batch, tell=tell)
    value, signature = corpus_bleu([hypothesis.text for hypothesis in best], targets)
    return Score(value, signature, len(sources), beam)


def corpus_bleu(lines: list[str], targets: list[list[str | None]]) -> tuple[float, str]:
    """sacrebleu's corpus BLEU and its signature."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise ValueError("BLEU needs sacrebleu; install it with: pip install sacrebleu") from error
    metric, listed = BLEU(), cast(Any, targets)  # its types forget that None is allowed
    return metric.corpus_score(lines, listed).score, str(metric.get_signature())


@click.command()
@click.argument("model")
@click.option("--data", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--file", default=TEST, help="A tab-separated file of pairs in the data folder.")
@click.option("--columns", nargs=2, type=int, default=(0, 1), help="Source and target, from 0.")
@click.option("--beam", default=4)
@click.option("--device", default=None)
def main(
    model: str, data: Path, file: str, columns: tuple[int, int], beam: int, device: str | None
) -> None:
    """Print the BLEU of MODEL on a test file, and sacrebleu's signature."""
    try:
        score = bleu(load(model, device), read_pairs(data / file, *columns), beam)
    except ValueError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    click.echo(f"BLEU {score.bleu:.1f} on {score.sentences} sentences, beam {score.beam}")
    click.echo(score.signature)


if __name__ == "__main__":
    main()
