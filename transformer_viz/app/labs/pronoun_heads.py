"""What becomes of a pronoun without each head, and the heads whose pictures speak of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.sites import Site
from ...core.trace import Trace
from ...i18n import say
from ...metrics.attention.it_head import Look, Word, candidates, its, strongest, weight_on, words
from ...metrics.output.pronouns import margins
from . import jobs
from .sentence_pairs import SentencePair

ALL = "all"
PICTURED = ("encoder", "cross")  # the maps of which a head is shown


@dataclass(frozen=True, eq=False)
class Picture:
    """A head to look at: where its look falls in each sentence.

    ``row`` are the tokens that look, ``weights`` ``[sentence, noun]``.
    """

    site: Site
    row: tuple[int, ...]
    nouns: tuple[str, ...]
    weights: np.ndarray

    @property
    def most(self) -> tuple[str, ...]:
        """In each sentence the noun with the most weight."""
        return tuple(self.nouns[int(row.argmax())] for row in self.weights)


@dataclass(frozen=True, eq=False)
class Carried:
    """How far each head moves the pronoun, from 0 (as in the first sentence) to 1 (as in the
    second): ``moved`` ``[head]`` for ``sites``; ``few`` heads of the largest together."""

    sites: tuple[Site, ...]
    moved: np.ndarray
    few: tuple[Site, ...]
    together: float

    @property
    def ranked(self) -> list[int]:
        """The heads' numbers, the one that moves it farthest first."""
        return [int(n) for n in np.argsort(-self.moved, kind="stable")]

    def of(self, site: Site) -> float:
        """One head's part."""
        return float(self.moved[self.sites.index(site)])


@dataclass(frozen=True, eq=False)
class WhoIsItResult:
    """What was measured of a pair: ``right`` the number of the right word in each sentence,
    ``ranked`` the heads' numbers, the one that costs most bits first, ``pictures`` by map, and ln p
    without ``few`` heads together: the first of the ranking, and as many others by chance;
    ``carried`` is what each head carries, None where no difference could be swapped."""

    pair: SentencePair
    measured: jobs.WithoutHeads
    right: tuple[int, int]
    pictures: dict[str, Picture]
    first: np.ndarray
    chance: np.ndarray
    few: int
    carried: Carried | None = None

    @property
    def pictured(self) -> tuple[Site, ...]:
        """The heads of the pictures."""
        return tuple(picture.site for picture in self.pictures.values())

    @property
    def lost(self) -> np.ndarray:
        """Bits by which the right pronoun's lead shrinks without each head, ``[head]``."""
        wrong = self.right[::-1]
        clean = margins(self.measured.clean, self.right, wrong)
        return np.asarray((clean - margins(self.measured.each, self.right, wrong)).mean(axis=-1))

    @property
    def ranked(self) -> list[int]:
        return [int(one) for one in np.argsort(-self.lost, kind="stable")]

    def hits(self, logs: np.ndarray) -> int:
        """In how many of the two sentences the right one of er, sie and es is the most probable."""
        return int((logs.argmax(axis=-1) == self.right).sum())

    def number(self, site: Site) -> int:
        """A head's number among all."""
        return self.measured.sites.index(site)

    def place(self, site: Site) -> int:
        """A head's place in the ranking, from 1."""
        return self.ranked.index(self.number(site)) + 1


def it_of(trace: Trace, pair: SentencePair) -> Word:
    """The "it" of a sentence that the pair is about.

    Raises:
        ValueError: the model's tokens have no such word.
    """
    found = its(trace.source)
    if len(found) <= pair.number:
        raise ValueError(
            say("This model's tokens do not show “it” as a word; choose another model, as en-de.")
        )
    return found[pair.number]


def earlier(trace: Trace, it: Word) -> list[Word]:
    """The words of the source that stand before "it"."""
    return [word for word in words(trace.source) if word.tokens[-1] < it.tokens[0]]


def pictures_of(pair: SentencePair, traces: list[Trace], noun: str) -> dict[str, Picture]:
    """By map the head that gives a noun the most weight, in either sentence.

    ``noun`` is the one to look for, or ``all``: those that `it_head.candidates` finds.
    """
    sides = []
    for trace in traces:
        it = it_of(trace, pair)
        options = candidates(trace.source, it)
        if noun != ALL:
            options = [word for word in earlier(trace, it) if word.text == noun][-1:]
        sides.append((trace, it, options))
    found = {}
    for block in PICTURED:
        looks: list[tuple[Look, tuple[int, ...]]] = []
        for trace, it, options in sides:
            row = it.tokens if block == "encoder" else (len(trace.words_of("decoder")) - 1,)
            look = strongest(trace, block, row, options)
            looks += [(look, row)] if look else []
        if looks:
            look, row = max(looks, key=lambda one: one[0].weight)
            found[block] = _picture(look, row, sides, block)
    return found


def _picture(
    look: Look, row: tuple[int, ...], sides: list[tuple[Trace, Word, list[Word]]], block: str
) -> Picture:
    assert look.site.head is not None
    weights = [
        [
            weight_on(trace.block(block, look.site.layer).weights, row, word)[look.site.head]
            for word in options
        ]
        for trace, _, options in sides
    ]
    names = tuple(word.text for word in sides[0][2])
    return Picture(replace(look.site, path=""), row, names, np.array(weights))
