"""A search as it went, as plain read-only data: every text that was weighed, and every pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sites import MAPS

START = -1  # the number of the empty text, from which a search sets out
LEFT_OUT, KEPT, ENDED, CUT = range(4)  # what became of a text: CUT ended by its length


def usual_limit(source: int) -> int:
    """How many tokens a translation of so many may have, where nobody says."""
    return int(1.4 * source) + 8


def spoken_limit(seconds: float) -> int:
    """How many tokens may be written of a sound of this length, where nobody says."""
    return int(8 * seconds) + 8


@dataclass(frozen=True, eq=False)
class Search:
    """How a model came to its words: what it weighed at each step, and what it looked at.

    A candidate is a text of the search and one token more. They stand in the order of their steps
    and, within a step, of their log-probability, the largest first. By candidate ``[candidate]``:

    - ``steps`` int32: how many tokens stood before its own, which is the step that weighed it;
    - ``parents`` int32: the candidate that it goes on from, or ``START``;
    - ``tokens`` int32: the id of its own token;
    - ``logs`` float64: the natural log-probability of that token after those before it;
    - ``totals`` float64: the sum of ``logs`` over the whole text;
    - ``scores`` float64: ``totals`` divided by the length norm (Wu et al. 2016, equation 14);
    - ``ranks`` int32: the place of its token among the whole vocabulary there, from 1;
    - ``chances`` float64: how likely its token was to be drawn; NaN where nothing was drawn;
    - ``fates`` uint8: ``LEFT_OUT``, ``KEPT``, ``ENDED`` by its end token, or ``CUT`` at the limit.

    ``best`` are the texts that the search gave, the best score first. A pass is one text that was
    read to see what follows; by pass:

    - ``owners`` int32 ``[pass]``: the candidate that was read, or ``START``;
    - ``top_tokens`` int32 and ``top_logs`` float64 ``[pass, 10]``: what could follow, the most
      probable first; ``top_chances`` float64 how likely each was to be drawn (else NaN);
    - ``rows``: of each layer, from 0, what the last token looked at while it was read: float32
      ``[pass, head, key]``, with keys that were not there yet 0.

    ``block`` says whose rows they are: ``cross``, or ``decoder`` of a model without an encoder.
    ``keys`` int32 ``[pass]`` counts the keys of a pass.
    """

    block: str
    steps: np.ndarray
    parents: np.ndarray
    tokens: np.ndarray
    logs: np.ndarray
    totals: np.ndarray
    scores: np.ndarray
    ranks: np.ndarray
    chances: np.ndarray
    fates: np.ndarray
    best: tuple[int, ...]
    texts: tuple[str, ...]
    owners: np.ndarray
    top_tokens: np.ndarray
    top_logs: np.ndarray
    top_chances: np.ndarray
    rows: tuple[np.ndarray, ...]
    keys: np.ndarray
    beam: int
    drawing: float | None
    penalty: float

    def __post_init__(self) -> None:
        if self.block not in MAPS:
            raise ValueError(f"A search watches one of {', '.join(MAPS)}; got {self.block!r}.")

    def line(self, candidate: int) -> tuple[int, ...]:
        """A candidate and all that it goes on from, the first step first.

        Raises:
            LookupError: no such candidate; says how many there are.
        """
        if not 0 <= candidate < len(self.parents):
            raise LookupError(
                f"This search weighed {len(self.parents)} texts, numbered from 0; got {candidate}."
            )
        found = []
        while candidate != START:
            found.append(candidate)
            candidate = int(self.parents[candidate])
        return tuple(reversed(found))

    def ids(self, candidate: int) -> tuple[int, ...]:
        """The tokens of a candidate's text."""
        return tuple(int(self.tokens[one]) for one in self.line(candidate))

    def passes(self, candidate: int) -> tuple[int, ...]:
        """The passes that gave a candidate its tokens, one a token."""
        number = {int(owner): place for place, owner in enumerate(self.owners)}
        return tuple(number[int(self.parents[one])] for one in self.line(candidate))

    def history(self, candidate: int, layer: int) -> np.ndarray:
        """What a text looked at while each of its tokens was produced.

        Returns:
            ``[head, token, key]`` float32: row t belongs to the pass that produced token t.
        """
        return self.rows[layer][list(self.passes(candidate))].transpose(1, 0, 2)

    def named(self, step: int, place: int) -> int | None:
        """The candidate at a place (from 0) of a step; None where there is none."""
        found = np.flatnonzero(self.steps == step)
        return int(found[place]) if 0 <= place < len(found) else None
