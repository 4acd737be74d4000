"""Quality of a model on held-out data, by the measure of its task.

``python -m training.evaluate en-de --data DIR`` prints the score: BLEU of translations, perplexity
and first guesses of a language model, accuracy on the digits.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
import torch

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.loader import load
from transformer_viz.inference.generation import translate_lines
from transformer_viz.metrics.output.surprisal import certainty

from .batches import padded
from .corpus import read_pairs
from .digits import HELD_OUT, NAMES, read_digits
from .pictures import chances
from .progress import bar

TEST = "eng-deu.test.tsv.gz"
TOGETHER = 32  # rows in a pass
UNSURE = 0.05  # share of everyday sentences that the app wrongly marks as unsure
NOTHING = -1  # padding, or no prediction
Row = tuple[list[int], list[int]]  # input ids, and the ids to predict there


@dataclass(frozen=True)
class Score:
    """BLEU score.

    Attributes:
        bleu: BLEU, 0 to 100.
        signature: sacrebleu's signature of the computation.
        sentences: Number of sentences.
        beam: Beam size.
    """

    bleu: float
    signature: str
    sentences: int
    beam: int

    def __str__(self) -> str:
        return (
            f"BLEU {self.bleu:.1f} on {self.sentences:,} sentences, beam {self.beam}\n"
            f"{self.signature}"
        )


@dataclass(frozen=True)
class Guesses:
    """Perplexity per token, share of tokens (0 to 1) guessed first, tokens, sentences."""

    perplexity: float
    first: float
    tokens: int
    sentences: int

    def __str__(self) -> str:
        return (
            f"perplexity {self.perplexity:.1f} per token, first guess right {self.first:.1%}, on "
            f"{self.tokens:,} tokens of {self.sentences:,} sentences"
        )


@dataclass(frozen=True)
class Hits:
    """Number of held-out images that are classified correctly."""

    right: int
    images: int

    def __str__(self) -> str:
        return f"accuracy {self.right / self.images:.1%}, {self.right} of {self.images} images"


def references(pairs: list[tuple[str, str]]) -> tuple[list[str], list[list[str | None]]]:
    """Return each source once, and its references as sacrebleu reads them.

    Sources keep the order of their first occurrence. The lists are ``lists[n][source]``, as many as
    the most translated source has references; None fills missing ones.
    """
    grouped: dict[str, dict[str, None]] = {}
    for source, target in pairs:
        grouped.setdefault(source, {})[target] = None
    rows = [list(targets) for targets in grouped.values()]
    most = max(map(len, rows), default=0)
    columns = [[row[n] if n < len(row) else None for row in rows] for n in range(most)]
    return list(grouped), columns


def bleu(model: Model, pairs: list[tuple[str, str]], beam: int = 4, batch: int = 32) -> Score:
    """Return the corpus BLEU of a model's translations: cased, detokenised, all references.

    Papineni et al. (2002), as computed by sacrebleu (Post 2018).

    Raises:
        ValueError: No pairs, or sacrebleu is not installed.
    """
    sources, targets = references(pairs)
    if not sources:
        raise ValueError("There are no sentence pairs to measure with.")
    with bar(len(sources), "translate", "lines") as line:

        def tell(done: int) -> None:
            line.update(done - line.n)

        best = translate_lines(model, sources, beam, batch, on_progress=tell)
    value, signature = corpus_bleu([hypothesis.text for hypothesis in best], targets)
    return Score(value, signature, len(sources), beam)


def corpus_bleu(lines: list[str], targets: list[list[str | None]]) -> tuple[float, str]:
    """Return sacrebleu's corpus BLEU and its signature."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise ValueError("BLEU needs sacrebleu; install it with: pip install sacrebleu") from error
    metric, listed = BLEU(), cast(Any, targets)  # its types do not declare that None is allowed
    return metric.corpus_score(lines, listed).score, str(metric.get_signature())


def next_rows(model: Model, sentences: Sequence[str]) -> list[Row]:
    """Return each sentence after the start token, to predict each next piece and the end token."""
    end = NOTHING if model.eos_id is None else model.eos_id
    rows = [model.tokenizer.prompt_ids(sentence) for sentence in sentences]
    return [(ids, [*ids[1:], end]) for ids in rows]


def hidden_rows(model: Model, sentences: Sequence[str]) -> list[Row]:
    """Return each sentence once for each of its pieces, with that piece masked and to predict.

    Salazar et al. (2020), "Masked language model scoring", section 2: basis of their
    pseudo-perplexity.
    """
    assert model.mask_id is not None
    rows: list[Row] = []
    for sentence in sentences:
        ids = model.tokenizer.source_ids(sentence)
        for place in range(len(ids) - 1):  # the end token is never masked
            shown, asked = ids.copy(), [NOTHING] * len(ids)
            shown[place], asked[place] = model.mask_id, ids[place]
            rows.append((shown, asked))
    return rows


def guesses(model: Model, sentences: Sequence[str]) -> Guesses:
    """Return a model's scores for next pieces, or for each masked piece from both sides.

    Perplexity is exp(mean of -log p) over the predicted tokens.

    Raises:
        ValueError: No sentences, or an encoder without a mask.
    """
    if model.kind == "encoder-only" and model.mask_id is None:
        raise ValueError(f"{model.name!r} has no mask piece and no decoder: it guesses no words.")
    if not sentences:
        raise ValueError("There are no sentences to measure with.")
    rows = (next_rows if model.kind == "decoder-only" else hidden_rows)(model, sentences)
    rows.sort(key=lambda row: len(row[0]))
    total, right, tokens = 0.0, 0, 0
    with bar(len(rows), "guess", "rows") as line, torch.inference_mode():
        for start in range(0, len(rows), TOGETHER):
            shown, asked = (
                padded(side, NOTHING).to(model.device)
                for side in zip(*rows[start : start + TOGETHER], strict=True)
            )
            visible, places = shown != NOTHING, asked != NOTHING
            logits = model.calls.forward(shown.clamp(min=0), None, visible)[places].double()
            wanted = asked[places]
            total -= float(logits.log_softmax(-1).gather(1, wanted[:, None]).sum())
            right += int((logits.argmax(-1) == wanted).sum())
            tokens += len(wanted)
            line.update(len(shown))
    return Guesses(math.exp(total / tokens), right / tokens, tokens, len(sentences))


def accuracy(model: Model) -> Hits:
    """Return the number of held-out digits that an image model classifies correctly.

    Raises:
        ValueError: scikit-learn is not installed, or a model of other pictures.
    """
    images, labels = (part[HELD_OUT:] for part in read_digits())
    if model.image is None or len(model.labels) != len(NAMES):
        raise ValueError(f"{model.name!r} does not tell the ten digits apart.")
    said = chances(model, images).argmax(axis=1)
    return Hits(int((said == labels).sum()), len(images))


def certainties(model: Model, sentences: Sequence[str], beam: int = 4) -> np.ndarray:
    """Return the certainty of each sentence's best translation, ``[sentence]`` float64, 0 to 1."""
    with bar(len(sentences), "certainty", "lines") as line:

        def tell(done: int) -> None:
            line.update(done - line.n)

        best = translate_lines(model, list(sentences), beam, TOGETHER, on_progress=tell)
    return np.array([certainty(np.exp(one.steps)) for one in best])


def sure_from(model: Model, pairs: Sequence[tuple[str, str]]) -> float:
    """Return the certainty that 95 % of the distinct sources reach.

    The app marks translations below it as unsure.
    """
    sources = list(dict.fromkeys(source for source, _ in pairs))
    return round(float(np.quantile(certainties(model, sources), UNSURE)), 3)


def measure(
    model: Model, path: Path | None, columns: tuple[int, int], beam: int
) -> Score | Guesses | Hits:
    """Return the score of a model by the measure of its task, on a tab-separated file.

    Raises:
        ValueError: No file for a model that needs one, or a file that does not fit.
    """
    if model.takes == "image":
        return accuracy(model)
    if path is None:
        raise ValueError("Name the folder of the sentences to measure with: --data DIR.")
    pairs = read_pairs(path, *columns)
    if model.kind == "encoder-decoder":
        return bleu(model, pairs, beam)
    return guesses(model, list(dict.fromkeys(source for source, _ in pairs)))


@click.command()
@click.argument("model")
@click.option(
    "--data", type=click.Path(exists=True, path_type=Path), help="The folder of sentences."
)
@click.option("--file", default=TEST, help="A tab-separated file in the data folder.")
@click.option("--columns", nargs=2, type=int, default=(0, 1), help="Source and target, from 0.")
@click.option("--beam", default=4)
@click.option("--certainty", "sure", is_flag=True, help="How sure a translator is, not how good.")
@click.option("--device", default=None)
def main(
    model: str,
    data: Path | None,
    file: str,
    columns: tuple[int, int],
    beam: int,
    sure: bool,
    device: str | None,
) -> None:
    """Print how good MODEL is on a test file, or on the held-out digits."""
    try:
        if sure:
            pairs = read_pairs((data or Path()) / file, *columns)
            limit = sure_from(load(model, device), pairs)
            click.echo(f"certainty of {limit:.1%} or more for {1 - UNSURE:.0%} of the sources")
            return
        score = measure(load(model, device), data and data / file, columns, beam)
    except ValueError as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    click.echo(score)


if __name__ == "__main__":
    main()
