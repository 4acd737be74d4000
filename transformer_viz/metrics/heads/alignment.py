"""Word alignments that cross-attention gives, and their error against gold links (M16)."""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

NO_WORD = -1  # of a key that is special, and of a target word that is linked to none
Link = tuple[int, int]
LINK = re.compile(r"(\d+)([-p])(\d+)")


def alignment_links(
    weights: np.ndarray, source: np.ndarray, target: np.ndarray, shift: str = "out"
) -> np.ndarray:
    """The source word of each target word, ``[head, target word]``, ``NO_WORD`` for none.

    Pieces become words (columns are added, rows averaged); a word is linked to the largest, to none
    if that is a special key. Row t of a decoder reads target token t (0 is the start) and writes
    token t + 1.

    Args:
        weights: ``[head, row, key]`` of cross-attention.
        source: the word number of each key, ``NO_WORD`` for special ones.
        target: the word number of each target token after the start, from 0.
        shift: ``out`` takes the row that writes a token, ``in`` the one that reads it (Kobayashi et
            al. 2020, Chen et al. 2020); a last token that no row reads is linked to none.

    Raises:
        ValueError: another shift.
    """
    if shift not in ("out", "in"):
        raise ValueError(f'shift is "out" or "in"; got {shift!r}.')
    rows = weights[:, shift == "in" :][:, : len(target)].astype(np.float64)
    words = target[: rows.shape[1]]
    merge = np.stack([source == word for word in range(source.max(initial=0) + 1)])
    columns = rows @ np.vstack([merge, source == NO_WORD]).T
    found = np.full((len(weights), target.max(initial=-1) + 1), NO_WORD)
    for word in np.unique(words):
        found[:, word] = columns[:, words == word].mean(1).argmax(-1)
    return np.where(found == len(merge), NO_WORD, found)


def link_counts(
    found: np.ndarray, sure: Collection[Link], possible: Collection[Link] = ()
) -> np.ndarray:
    """``#(A and S), #(A and P), #A, #S`` of each head, ``[head, 4]``: add them over sentences.

    ``found`` ``[head, target word]``; gold links are (source word, target word) from 0; what is
    sure is possible too.
    """
    both = set(sure) | set(possible)
    counts = np.zeros((len(found), 4), dtype=np.int64)
    for head, row in enumerate(found):
        links = {(int(s), t) for t, s in enumerate(row) if s != NO_WORD}
        counts[head] = len(links & set(sure)), len(links & both), len(links), len(set(sure))
    return counts


def alignment_error_rate(counts: np.ndarray) -> np.ndarray:
    """M16: ``1 - (#(A and S) + #(A and P)) / (#A + #S)``, 0...1 and 0 best; NaN without gold.

    ``counts`` ``[..., 4]`` of :func:`link_counts`, added over the corpus. Och and Ney 2003.
    """
    total = counts[..., 2] + counts[..., 3]
    right = counts[..., 0] + counts[..., 1]
    out = np.full(total.shape, np.nan)
    return 1 - np.divide(right, total, out=out, where=counts[..., 3] > 0)


def gold_links(line: str, first: int = 0) -> tuple[set[Link], set[Link]]:
    """Sure and possible links of a line such as ``0-0 1p2``; ``first`` is the number of the first
    word there. Possible ones hold the sure ones too.

    Raises:
        ValueError: something that is no link, or a number below ``first``; names it.
    """
    sure: set[Link] = set()
    possible: set[Link] = set()
    for word in line.split():
        match = LINK.fullmatch(word)
        if match is None or min(int(match[1]), int(match[3])) < first:
            raise ValueError(f"A gold link is written 3-4 or 3p4, from {first} on; got {word!r}.")
        link = int(match[1]) - first, int(match[3]) - first
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible
