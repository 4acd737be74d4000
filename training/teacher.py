"""Distillation data: sentence pairs with targets written by a trained model.

A small model learns more from another model's translations than from human ones, which vary more
for the same content. This is sequence-level distillation (Kim and Rush 2016, section 3.2).

``python -m training.teacher en-de --data DIR --file tatoeba/eng-deu.train.tsv.gz --out taught.tsv``
writes them; the same command resumes an interrupted run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import numpy as np

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.checkpoints.loader import load
from transformer_viz.inference.generation import translate_lines

from .corpus import read_pairs
from .progress import bar
from .write_file import write

CHUNK = 4000  # sentences between two writes
TOGETHER = 64  # sentences in a pass
LONGEST = 160  # letters; longer sentences are left out
SEED = 0  # of the random order, so that the output of an interrupted run is a fair sample


def sources(paths: Iterable[Path], column: int = 0, longest: int = LONGEST) -> list[str]:
    """Return each distinct sentence of some tab-separated files, in random order.

    Raises:
        ValueError: A file that is missing or has too few columns.
    """
    found = dict.fromkeys(
        sentence for path in paths for sentence, _ in read_pairs(path, column, column)
    )
    kept = [sentence for sentence in found if 0 < len(sentence) <= longest]
    return [kept[i] for i in np.random.default_rng(SEED).permutation(len(kept))]


def taught(model: Model, sentences: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each sentence with the model's greedy translation on one line, sorted by length."""
    ordered = sorted(sentences, key=len)
    for sentence, best in zip(ordered, translate_lines(model, ordered, 1, TOGETHER), strict=True):
        yield sentence, " ".join(best.text.split())


def teach(model: Model, sentences: Sequence[str], out: Path) -> int:
    """Write the pairs of all sentences to ``out``, tab-separated; return their number.

    Existing pairs in the file are kept and not written again; half a line of a killed run is cut
    off. A sentence with an empty translation is left out.
    """
    known = set()
    if out.exists():
        whole = out.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        write(out, whole)
        known = {line.partition("\t")[0] for line in whole.decode().split("\n")[:-1]}
    left = [sentence for sentence in sentences if sentence not in known]
    count = len(known)
    with bar(len(sentences), "teach", "sentences", len(sentences) - len(left)) as line:
        for start in range(0, len(left), CHUNK):
            chunk = left[start : start + CHUNK]
            pairs = [pair for pair in taught(model, chunk) if pair[1]]
            with out.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{source}\t{target}\n" for source, target in pairs)
            count += len(pairs)
            line.update(len(chunk))
    return count


@click.command()
@click.argument("model")
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of sentences.",
)
@click.option(
    "--file", "files", required=True, multiple=True, help="A tab-separated file in that folder."
)
@click.option("--column", default=0, help="Where the sentences stand, from 0.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--device", default=None)
def main(
    model: str, data: Path, files: tuple[str, ...], column: int, out: Path, device: str | None
) -> None:
    """Let MODEL translate the sentences of some files, and write the pairs to a file."""
    try:
        known = sources([data / name for name in files], column)
        count = teach(load(model, device), known, out)
    except (ValueError, OSError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    click.echo(f"{out}: {count:,} pairs")


if __name__ == "__main__":
    main()
