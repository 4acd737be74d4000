"""Sentences from tab-separated files, their vocabulary, and batches of similar length.

A sentence without a translation is a pair with an empty source, so that all tasks share one code
path.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import sentencepiece

from .recipe import Data

MASK = "<mask>"  # the piece that masks another one
BEST_CUTS = 16  # a sentence of ten words then has one or two words cut otherwise
POOL = 100  # batches that are sorted by length together: little padding, still well mixed
Pair = tuple[list[int], list[int]]


def read_pairs(path: Path, source: int, target: int) -> list[tuple[str, str]]:
    """Return the sentence pairs of one tab-separated file.

    Raises:
        ValueError: The file is missing or a line has too few columns; the message names both.
    """
    if not path.is_file():
        raise ValueError(
            f"There is no {path.name} in {path.parent}; name the folder that holds it with --data."
        )
    pairs = []
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            columns = line.rstrip("\n").split("\t")
            if len(columns) <= max(source, target):
                raise ValueError(
                    f"{path.name} line {number} has {len(columns)} columns; the recipe asks for "
                    f"columns {source} and {target} (from 0)."
                )
            pairs.append((columns[source], columns[target]))
    return pairs


def read_sentences(path: Path, data: Data) -> list[tuple[str, str]]:
    """Return the pairs of one file as the task needs them: sentences without a source only once.

    Raises:
        ValueError: The file is missing or a line has too few columns; the message names both.
    """
    if data.task == "translation":
        return read_pairs(path, data.source, data.target)
    read = read_pairs(path, data.source, data.source)
    return [("", sentence) for sentence in dict.fromkeys(sentence for sentence, _ in read)]


def read_training(folder: Path, data: Data) -> list[tuple[str, str]]:
    """Return the training pairs; without a source each sentence once, held-out ones removed.

    Raises:
        ValueError: A file that is missing or has too few columns.
    """
    pairs = [pair for name in data.training_files for pair in read_sentences(folder / name, data)]
    if data.task == "translation":
        return pairs
    held_out = {pair for name in data.without for pair in read_sentences(folder / name, data)}
    return [pair for pair in dict.fromkeys(pairs) if pair not in held_out]


def train_vocabulary(pairs: list[tuple[str, str]], size: int, mask: bool = False) -> bytes:
    """Return a joint unigram vocabulary of ``size`` pieces as the bytes of a sentencepiece model.

    Characters missing from the corpus fall back to their bytes, so no user input is lost (Kudo
    2018, "Subword regularization"; sentencepiece's ``byte_fallback``). With ``mask`` one of the
    pieces is ``<mask>``, a control symbol that no text can produce.

    Raises:
        ValueError: The corpus is too small for so many pieces, or needs more.
    """
    out = io.BytesIO()
    try:
        _train_pieces(pairs, size, mask, out)
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise ValueError(
            f"A vocabulary of {size} pieces does not fit {len(pairs)} pairs: {reason}"
        ) from error
    return out.getvalue()


def _train_pieces(pairs: list[tuple[str, str]], size: int, mask: bool, out: io.BytesIO) -> None:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([side for pair in pairs for side in pair if side]),
        model_writer=out,
        vocab_size=size,
        model_type="unigram",
        character_coverage=0.9998,
        byte_fallback=True,
        normalization_rule_name="nfkc",
        num_threads=1,  # more threads may order equal scores differently
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        control_symbols=[MASK] if mask else [],
        minloglevel=2,
    )


def encode_pairs(
    pairs: list[tuple[str, str]],
    pieces: sentencepiece.SentencePieceProcessor,
    data: Data,
    other_cuts: float = 0.0,
    random: np.random.Generator | None = None,
) -> list[Pair]:
    """Encode both sides as piece ids, each with an end token; overlong pairs are left out.

    With a ``random`` generator, a share ``other_cuts`` of the sources is cut into one of the
    `BEST_CUTS` most probable piece sequences instead of the best one. This is subword
    regularisation (Kudo 2018, section 3.2, with all sequences equally probable).
    """
    sources = pieces.encode([source for source, _ in pairs], add_eos=True)
    if random is not None:
        for index in np.flatnonzero(random.random(len(pairs)) < other_cuts):
            cuts = pieces.nbest_encode(pairs[index][0], nbest_size=BEST_CUTS, add_eos=True)
            sources[index] = cuts[random.integers(len(cuts))]
    targets = pieces.encode([target for _, target in pairs], add_eos=True)
    return [
        (source, target)
        for source, target in zip(sources, targets, strict=True)
        if max(len(source), len(target)) <= data.max_tokens
    ]


def epoch_batches(pairs: list[Pair], tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the pair indices of each batch of one pass, the same for the same seed and epoch.

    A batch holds pairs of similar length and at most ``tokens`` target tokens, padding included.
    """
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(pairs))
    mean = np.mean([len(target) for _, target in pairs])
    pool = max(1, int(POOL * tokens / mean))
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        chunk = sorted(
            order[start : start + pool], key=lambda i: (len(pairs[i][1]), len(pairs[i][0]))
        )
        batch: list[int] = []
        for index in chunk:
            if batch and (len(batch) + 1) * len(pairs[index][1]) > tokens:
                batches.append(batch)
                batch = []
            batch.append(int(index))
        batches.append(batch)
    return [batches[i] for i in random.permutation(len(batches))]


def joined(pairs: list[Pair], most: int, seed: int, epoch: int) -> list[Pair]:
    """Return one pass's rows: 1 to ``most`` random sentences each, with the last one's end token.

    A text of several sentences has exactly these pieces, since sentencepiece cuts at spaces.
    """
    if most == 1:
        return pairs
    random = np.random.default_rng((seed, epoch, most))
    order = random.permutation(len(pairs))
    rows: list[Pair] = []
    start = 0
    while start < len(order):
        count = int(random.integers(1, most + 1))
        texts = [pairs[i][1] for i in order[start : start + count]]
        rows.append(([], [piece for text in texts[:-1] for piece in text[:-1]] + texts[-1]))
        start += count
    return rows


def endless(
    pairs: list[Pair], tokens: int, seed: int, skip: int, join: int = 1
) -> Iterator[list[Pair]]:
    """Yield the batches of one pass after another, without the first ``skip``."""
    epoch = 0
    while True:
        rows = joined(pairs, join, seed, epoch)
        batches = epoch_batches(rows, tokens, seed, epoch)
        for batch in batches[skip:]:
            yield [rows[i] for i in batch]
        skip = max(0, skip - len(batches))
        epoch += 1
