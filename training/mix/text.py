"""Pairs of one pass over a mixed corpus: the same for the same seed and pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .agreement import agreement_pair
from .names import ENGLISH, swap_names
from .numbers import vary_numbers
from .phrases import phrase_pair
from .shares import Mix

Random = np.random.Generator
Text = tuple[str, str]
ENDS = (".", "!", "?", '"', "“", ")")
LONGEST = 420  # characters of an English side that is joined from several
COUNTS, CHANCES = (2, 3, 4), (0.5, 0.28, 0.22)  # joined sentences, and their probabilities
SHORT = 60  # characters of a side in capitals, which has 3.5 times as many pieces
TWO_LETTERS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"}
)
HELD_BACK = 40  # every n-th line of the held-back files is kept for the validation loss


@dataclass(frozen=True)
class Corpus:
    """Training pairs, repeated by their readings in a pass, and held-out pairs.

    ``stories`` are runs of pairs whose neighbours belong together.
    """

    pairs: list[Text]
    stories: list[Text]
    held_back: list[Text]


def gather(files: Mapping[str, list[Text]], mix: Mix) -> Corpus:
    """Return the pairs of all files; every 40th of those in ``mix.held_back`` is held out."""
    pairs: list[Text] = []
    stories: list[Text] = []
    kept: list[Text] = []
    for name, rows in files.items():
        if name in mix.held_back:
            kept += rows[::HELD_BACK]
            rows = [row for place, row in enumerate(rows) if place % HELD_BACK]
        if name in mix.stories:
            stories += rows
        pairs += rows * mix.times.get(name, 1)
    unseen = {english for english, _ in kept}  # a sentence may have several translations
    pairs = [pair for pair in pairs if pair[0] not in unseen]
    return Corpus(pairs, stories, kept)


def pass_text(corpus: Corpus, mix: Mix, seed: int, number: int, late: bool) -> list[Text]:
    """Return every pair of pass ``number``: varied, generated, joined, roughened, shuffled."""
    random = np.random.default_rng((seed, number, 15))
    pairs = [varied(pair, mix, random) for pair in corpus.pairs]
    pairs += neighbours(corpus.stories, mix, random)
    share = mix.agreement_late if late else mix.agreement
    pairs += generated(agreement_pair, share, len(pairs), random)
    pairs += generated(phrase_pair, mix.phrases, len(pairs), random)
    order = random.permutation(len(pairs))
    rows = joined([pairs[i] for i in order], mix.joined, random)
    return [roughen(row, mix, random) for row in rows]


def varied(pair: Text, mix: Mix, random: Random) -> Text:
    """Return a pair with other names and numbers, by chance."""
    if random.random() < mix.names and ENGLISH.search(pair[0]):
        pair = swap_names(*pair, random)
    return vary_numbers(*pair, random) if random.random() < mix.numbers else pair


def generated(
    make: Callable[[Random], Text], share: float, others: int, random: Random
) -> Iterator[Text]:
    """Yield new pairs, so many that they are the given share of all."""
    return (make(random) for _ in range(round(others * share / (1 - share))))


def neighbours(stories: Sequence[Text], mix: Mix, random: Random) -> list[Text]:
    """Return runs of two or three consecutive sentences of a text, joined, by chance."""
    rows: list[Text] = []
    place = 0
    while place < len(stories):
        count = int(random.integers(2, 4))
        if random.random() < mix.joined:
            rows += joined_run(stories[place : place + count])
        place += count
    return rows


def joined_run(run: Sequence[Text]) -> list[Text]:
    """Return one pair of a run, if all its sentences are complete and it is not too long."""
    whole = all(side.endswith(ENDS) for pair in run for side in pair)
    if not whole or sum(len(english) for english, _ in run) > LONGEST:
        return []
    return [(" ".join(p[0] for p in run), " ".join(p[1] for p in run))]


def joined(pairs: list[Text], share: float, random: Random) -> list[Text]:
    """Return the pairs in order, with ``share`` of the rows made of two to four of them."""
    rows: list[Text] = []
    place = 0
    while place < len(pairs):
        count = int(random.choice(COUNTS, p=CHANCES)) if random.random() < share else 1
        run = pairs[place : place + count]
        rows += joined_run(run) or run
        place += count
    return rows


def roughen(pair: Text, mix: Mix, random: Random) -> Text:
    """Return English as typed in haste; the German side stays.

    No capital letters, no final mark, or neither. With a share of capitals, some short rows are in
    capitals, and umlauts of names become two letters.
    """
    english, german = pair
    if random.random() >= mix.rough or len(english.split()) < 3:
        return pair
    if mix.capitals:
        english = english.translate(TWO_LETTERS)
        if random.random() < mix.capitals and len(english) <= SHORT:
            return english.upper(), german
    fate = random.random()
    if fate < 0.6:
        english = english.lower()
    if fate > 0.3:
        english = english.rstrip(".!?")
    return english, german
