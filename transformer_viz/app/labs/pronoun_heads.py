"""Effect of each head on a pronoun, and the heads with the most weight on a noun."""

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
PICTURED = ("encoder", "cross")  # maps with a head to draw


@dataclass(frozen=True, eq=False)
class Picture:
    """A head to draw, and its weights on the nouns.

    Attributes:
        site: The head.
        row: Query tokens.
        nouns: The nouns.
        weights: ``[sentence, noun]``.
    """

    site: Site
    row: tuple[int, ...]
    nouns: tuple[str, ...]
    weights: np.ndarray

    @property
    def most(self) -> tuple[str, ...]:
        """Noun with the most weight in each sentence."""
        return tuple(self.nouns[int(row.argmax())] for row in self.weights)


@dataclass(frozen=True, eq=False)
class Carried:
    """Effect of patching heads on the pronoun: 0 as in the first sentence, 1 as in the second.

    Attributes:
        sites: The heads.
        moved: Effect of each head alone, ``[head]``.
        few: The heads with the largest effects.
        together: Effect of ``few`` patched together.
    """

    sites: tuple[Site, ...]
    moved: np.ndarray
    few: tuple[Site, ...]
    together: float

    @property
    def ranked(self) -> list[int]:
        """Indices of the heads, largest effect first."""
        return [int(n) for n in np.argsort(-self.moved, kind="stable")]

    def of(self, site: Site) -> float:
        """Return the effect of one head."""
        return float(self.moved[self.sites.index(site)])


@dataclass(frozen=True, eq=False)
class WhoIsItResult:
    """Measurements of a pair of sentences.

    Attributes:
        pair: The pair.
        measured: ln p with and without each head.
        right: Index of the right word in each sentence.
        pictures: The heads to draw, by map.
        first: ln p without the first ``few`` heads of the ranking.
        chance: ln p without ``few`` random other heads.
        few: Number of heads that are ablated together.
        carried: Effects of patching, or None if no difference could be patched.
    """

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
        """Sites of the heads to draw."""
        return tuple(picture.site for picture in self.pictures.values())

    @property
    def lost(self) -> np.ndarray:
        """Bits that the right pronoun's lead loses without each head, ``[head]``."""
        wrong = self.right[::-1]
        clean = margins(self.measured.clean, self.right, wrong)
        return np.asarray((clean - margins(self.measured.each, self.right, wrong)).mean(axis=-1))

    @property
    def ranked(self) -> list[int]:
        return [int(one) for one in np.argsort(-self.lost, kind="stable")]

    def hits(self, logs: np.ndarray) -> int:
        """Return the number of sentences, 0 to 2, whose right pronoun is the most probable."""
        return int((logs.argmax(axis=-1) == self.right).sum())

    def number(self, site: Site) -> int:
        """Return the index of a head among all heads."""
        return self.measured.sites.index(site)

    def place(self, site: Site) -> int:
        """Return the rank of a head, from 1."""
        return self.ranked.index(self.number(site)) + 1


def it_of(trace: Trace, pair: SentencePair) -> Word:
    """Return the "it" of a sentence that the pair is about.

    Raises:
        ValueError: The model's tokens have no such word.
    """
    found = its(trace.source)
    if len(found) <= pair.number:
        raise ValueError(
            say("This model's tokens do not show “it” as a word; choose another model, as en-de.")
        )
    return found[pair.number]


def earlier(trace: Trace, it: Word) -> list[Word]:
    """Return the words of the source before "it"."""
    return [word for word in words(trace.source) if word.tokens[-1] < it.tokens[0]]


def pictures_of(pair: SentencePair, traces: list[Trace], noun: str) -> dict[str, Picture]:
    """Return, by map, the head with the largest weight on a noun in either sentence.

    ``noun`` is a word, or ``all`` for the words that `it_head.candidates` finds.
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
