"""Evaluation of links against gold (M16), and the link file format."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from .linking import Link, Links

LINK = re.compile(r"(\d+)([-p])(\d+)")


@dataclass(frozen=True)
class Gold:
    """Human links of one sentence: ``sure`` ones, and all ``possible`` ones."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            raise ValueError("Sure links are possible too; put them into both sets.")

    def within(self, source: int, target: int) -> bool:
        """Return True if every link is within these word counts."""
        return all(s < source and t < target for s, t in self.possible)


class LinkCounts(NamedTuple):
    """Counts of right, found and sure links; sum them over sentences before taking the rate."""

    right_sure: int = 0
    right_possible: int = 0
    found: int = 0
    sure: int = 0

    def plus(self, other: LinkCounts) -> LinkCounts:
        """Return the sum of both counts."""
        return LinkCounts(*(a + b for a, b in zip(self, other, strict=True)))

    @property
    def error_rate(self) -> float:
        """M16: ``1 - (#(A and S) + #(A and P)) / (#A + #S)``, 0 best, 1 worst; Och and Ney 2003.

        NaN without gold and links.
        """
        asked = self.found + self.sure
        return 1 - (self.right_sure + self.right_possible) / asked if asked else float("nan")


def counted(found: Collection[Link], gold: Gold) -> LinkCounts:
    """Return the counts of one sentence: A found, S sure, P possible."""
    links = frozenset(found)
    return LinkCounts(
        len(links & gold.sure), len(links & gold.possible), len(links), len(gold.sure)
    )


def gold_of(line: str, first: int = 0, reverse: bool = False) -> Gold:
    """Parse a line such as ``0-0 1p2``: ``a-b`` is a sure link, ``apb`` a possible one.

    Args:
        line: Links separated by blanks, source word first.
        first: Index of the first word, 0 or 1.
        reverse: True if the target word comes first.

    Raises:
        ValueError: An item is not a link, or an index is below ``first``.
    """
    sure, possible = set[Link](), set[Link]()
    for word in line.split():
        match = LINK.fullmatch(word)
        if match is None or min(int(match[1]), int(match[3])) < first:
            raise ValueError(
                f"A gold link is written 3-4 (sure) or 3p4 (possible), words counted from {first}; "
                f"got {word!r}."
            )
        s, t = int(match[1]) - first, int(match[3]) - first
        link = (t, s) if reverse else (s, t)
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def pharaoh(links: Iterable[Link]) -> str:
    """Return the links of one sentence as ``0-0 1-2``: source word, target word, both from 0."""
    return " ".join(f"{s}-{t}" for s, t in sorted(links))
