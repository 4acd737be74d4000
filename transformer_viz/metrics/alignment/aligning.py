"""`tv.align`: the words that cross-attention joins, of one run."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...core.guesses import guess_entry, with_mark
from ...core.trace import Trace
from ...core.trace_parts import read_only
from ...core.version import __version__
from ..attention.word_merging import axis
from .error_rate import Gold, LinkCounts, counted, pharaoh
from .linking import SYMMETRIC, Links, by_words, joined, links_of, row_axis, words_in
from .walking import DEAD, Walk, cross_rows, mean_map, shares, walks


@dataclass(frozen=True, eq=False)
class Alignment:
    """Which words of a source the words of a target look at, in one run.

    ``source`` and ``target`` are the words, special tokens not among them, repeated ones numbered.
    ``weights`` float32 ``[target word, source word]``: pieces of a source word added, those of a
    target word averaged; a row falls short of 1 by what special tokens got. ``pairs`` are the
    links (source word, target word), from 0; ``walks`` monotonicity, diagonality and coverage (M13
    to M15) with chance and rows; ``shares`` ``[source word]`` how much of its fair part each source
    word got, 1 where all are read alike. ``card`` says what was measured.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray
    pairs: Links
    walks: tuple[Walk, ...]
    shares: np.ndarray
    card: dict[str, object]

    def __repr__(self) -> str:
        """What it is in one line; ``links`` and ``pharaoh()`` give the links."""
        said = (
            f"<Alignment of {len(self.source)} source and {len(self.target)} target words: "
            f"{len(self.pairs)} links"
        )
        return with_mark(said, self.card) + ">"

    @property
    def links(self) -> pd.DataFrame:
        """A row a link: source, target (numbers from 0), source_word, target_word, weight."""
        rows = [
            (s, t, self.source[s], self.target[t], float(self.weights[t, s]))
            for s, t in sorted(self.pairs)
        ]
        return pd.DataFrame(
            rows, columns=["source", "target", "source_word", "target_word", "weight"]
        )

    @property
    def unread(self) -> tuple[int, ...]:
        """The source words that nobody read: less than a tenth of their fair part (M15)."""
        return tuple(int(word) for word in np.flatnonzero(self.shares < DEAD))

    def pharaoh(self) -> str:
        """The links as one line of a Pharaoh file, ``0-0 1-2``: source, target, from 0."""
        return pharaoh(self.pairs) + "\n"

    def counts(self, gold: Gold) -> LinkCounts:
        """The links against gold; add the counts of all sentences and take their ``error_rate``.

        Raises:
            ValueError: the gold speaks of words that are not there; says how many there are.
        """
        if not gold.within(len(self.source), len(self.target)):
            raise ValueError(
                f"The gold {pharaoh(gold.possible)} (counted from 0) joins words that are not "
                f"there: the source has {len(self.source)} words, the target {len(self.target)}. "
                "Words are what stands between blanks; is the gold counted from 1, or the target "
                "named first?"
            )
        return counted(self.pairs, gold)

    def beside(self, reverse: Alignment, how: str = "grow-diag") -> Links:
        """These links joined with those of a model of the other direction, on the same words.

        ``how``: intersection, union or grow-diag. Och and Ney 2003.

        Raises:
            ValueError: the other one is not of as many words, its target being this source.
        """
        sizes = (len(self.source), len(self.target))
        if sizes != (len(reverse.target), len(reverse.source)):
            raise ValueError(
                f"Two directions are joined word by word: this source has {sizes[0]} words and "
                f"this target {sizes[1]}; the other target has {len(reverse.target)} and its "
                f"source {len(reverse.source)}."
            )
        return joined(self.pairs, {(s, t) for t, s in reverse.pairs}, how)


def align(
    trace: Trace,
    shift: str = "out",
    *,
    layer: int | None = None,
    head: int | None = None,
    symmetric: str | None = None,
) -> Alignment:
    """Join the words of a target with the source words that they look at.

    Pieces become words (columns added, rows averaged); a target word is linked to the source word
    with the largest weight, to none where a special token such as the end mark has more, or where
    two words are equal. No renormalising.

    Args:
        trace: a run with cross-attention and its matrices.
        shift: ``out`` reads the row that writes a word; ``in`` the row that reads it, one later
            (Kobayashi et al. 2020; Chen et al. 2020). Which aligns better depends on the layer.
        layer: of one layer; left out, the mean over all heads of the model.
        head: one head of that layer; left out, the mean of its heads.
        symmetric: asks each source word too for the target word that looks at it most, and joins
            both: ``intersection``, ``union`` or ``grow-diag``.

    Raises:
        LookupError: a model without cross-attention, a trace without matrices, or no such head.
        ValueError: another shift, or a source that has no words.
    """
    _alignable(trace)
    if symmetric is not None and symmetric not in SYMMETRIC:
        raise ValueError(f"symmetric is one of {', '.join(SYMMETRIC)}; got {symmetric!r}.")
    target = trace.tokens("target")
    row_axis(target, shift)  # another shift is refused before anything is computed
    merged = by_words(mean_map(trace, layer, head), trace.source, target, shift)
    rows, columns = words_in(merged.queries), words_in(merged.keys)
    asked = cross_rows(trace, shift, layer, head)
    card = _card(trace) | {
        "rows": len(rows),
        "shift": shift,
        "heads": _said(layer, head),
        "symmetric": symmetric or "no",
    }
    return Alignment(
        tuple(merged.keys.labels[column] for column in columns),
        tuple(merged.queries.labels[row] for row in rows),
        read_only(merged.weights[np.ix_(rows, columns)]),
        links_of(merged, symmetric),
        walks(asked),
        read_only(shares(asked, axis(trace.source))),
        card,
    )


def _alignable(trace: Trace) -> None:
    """Refuse a run in which no target looks at words of a source."""
    given: object = trace
    if not isinstance(given, Trace):
        raise ValueError(
            f"An alignment reads a trace, tv.trace(model, text); got a {type(given).__name__}."
        )
    if "cross" not in trace.maps:
        raise LookupError(
            "An alignment reads cross-attention, and this model has none: its maps are "
            f"{', '.join(trace.maps) or 'none'}. Open a model with encoder and decoder, or ask "
            "tv.metrics(trace) what its heads do."
        )
    if not (trace.source.ids or trace.report.given):
        raise ValueError(
            "An alignment joins words, and the source of this run has none (a picture, a sound or "
            "vectors); its maps and tv.metrics(trace) can be had."
        )


def _said(layer: int | None, head: int | None) -> str:
    if layer is None:
        return "the mean of all heads"
    return f"cross L{layer} H{head}" if head is not None else f"the mean of the heads of L{layer}"


def _card(trace: Trace) -> dict[str, Any]:
    """What one needs to repeat and to judge the links."""
    source, target = trace.source, trace.tokens("target")
    read = repr((source.ids or source.pieces, target.ids or target.pieces)).encode()
    manifest = trace.manifest
    return {
        "model": manifest.get("model"),
        "model_hash": manifest.get("hash"),
        "report": trace.report.status,
        "sentences": 1,
        "sentences_hash": hashlib.sha256(read).hexdigest(),
        "dtype": manifest.get("dtype"),
        "device": manifest.get("device"),
        "seed": manifest.get("seed"),
        "intervention": trace.intervention.to_json(),
        "version": __version__,
        **guess_entry(trace.guesses),
    }
