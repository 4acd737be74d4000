"""Record of a decoding search, as plain read-only data: all candidates and all forward passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .sites import MAPS

START = -1  # number of the empty text, the start of a search
LEFT_OUT, KEPT, ENDED, CUT = range(4)  # outcome of a candidate: CUT ended by the length limit


def usual_limit(source: int) -> int:
    """Return the default maximum of tokens of a translation of ``source`` tokens."""
    return int(1.4 * source) + 8


def spoken_limit(seconds: float) -> int:
    """Return the default maximum of tokens of a transcript of ``seconds`` of sound."""
    return int(8 * seconds) + 8


@dataclass(frozen=True, eq=False)
class Search:
    """Record of a decoding search: candidates, scores and attention at each step.

    A candidate is a text of the search plus one token. Candidates are ordered by step and, within a
    step, by log-probability, the largest first. Arrays per candidate ``[candidate]``:

    - ``steps`` int32: number of tokens before its last one, which is the step that scored it;
    - ``parents`` int32: the candidate that it extends, or ``START``;
    - ``tokens`` int32: the id of its last token;
    - ``logs`` float64: the natural log-probability of that token given those before it;
    - ``totals`` float64: the sum of ``logs`` over the whole text;
    - ``scores`` float64: ``totals`` divided by the length norm (Wu et al. 2016, equation 14);
    - ``ranks`` int32: the rank of its token in the whole vocabulary, from 1;
    - ``chances`` float64: probability that its token was sampled; NaN without sampling;
    - ``fates`` uint8: ``LEFT_OUT``, ``KEPT``, ``ENDED`` by its end token, or ``CUT`` at the limit.

    ``best`` are the results of the search, the best score first. A pass is one forward pass on a
    text to score its next tokens. Arrays per pass:

    - ``owners`` int32 ``[pass]``: the candidate that was read, or ``START``;
    - ``top_tokens`` int32 and ``top_logs`` float64 ``[pass, 10]``: possible next tokens, the most
      probable first; ``top_chances`` float64 their sampling probabilities (else NaN);
    - ``rows``: for each layer, from 0, the attention of the last token read: float32
      ``[pass, head, key]``, 0 for keys that did not exist yet.

    ``block`` names the map of these rows: ``cross``, or ``decoder`` for a model without an encoder.
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
        """Return a candidate and all its ancestors, the first step first.

        Raises:
            LookupError: No such candidate. The message gives their number.
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
        """Return the token ids of a candidate's text."""
        return tuple(int(self.tokens[one]) for one in self.line(candidate))

    def passes(self, candidate: int) -> tuple[int, ...]:
        """Return the passes that produced a candidate's tokens, one per token."""
        number = {int(owner): place for place, owner in enumerate(self.owners)}
        return tuple(number[int(self.parents[one])] for one in self.line(candidate))

    def history(self, candidate: int, layer: int) -> np.ndarray:
        """Return the attention of a text at the time each of its tokens was produced.

        Returns:
            ``[head, token, key]`` float32: row t belongs to the pass that produced token t.
        """
        return self.rows[layer][list(self.passes(candidate))].transpose(1, 0, 2)

    def named(self, step: int, place: int) -> int | None:
        """Return the candidate at a position (from 0) of a step, or None."""
        found = np.flatnonzero(self.steps == step)
        return int(found[place]) if 0 <= place < len(found) else None
