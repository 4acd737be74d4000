"""Implementation of `tv.align`: word alignment of one run from cross-attention."""

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
    """Word alignment of one run.

    Attributes:
        source: Source words without special tokens; repeated ones are numbered.
        target: Target words, likewise.
        weights: Float32 ``[target word, source word]``: pieces of a source word summed, those of a
            target word averaged. Rows sum to 1 minus the weight on special tokens.
        pairs: Links (source word, target word), from 0.
        walks: Monotonicity, diagonality and coverage (M13 to M15) with chance and rows.
        shares: Weight of each source word relative to its fair share, ``[source word]``; 1 for
            uniform attention.
        card: Details of the measurement.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: np.ndarray
    pairs: Links
    walks: tuple[Walk, ...]
    shares: np.ndarray
    card: dict[str, object]

    def __repr__(self) -> str:
        """Return a one-line summary; ``links`` and ``pharaoh()`` give the links."""
        said = (
            f"<Alignment of {len(self.source)} source and {len(self.target)} target words: "
            f"{len(self.pairs)} links"
        )
        return with_mark(said, self.card) + ">"

    @property
    def links(self) -> pd.DataFrame:
        """Table with a row per link: source, target (indices from 0), their words, and weight."""
        rows = [
            (s, t, self.source[s], self.target[t], float(self.weights[t, s]))
            for s, t in sorted(self.pairs)
        ]
        return pd.DataFrame(
            rows, columns=["source", "target", "source_word", "target_word", "weight"]
        )

    @property
    def unread(self) -> tuple[int, ...]:
        """Source words with less than a tenth of their fair share (M15)."""
        return tuple(int(word) for word in np.flatnonzero(self.shares < DEAD))

    def pharaoh(self) -> str:
        """Return the links as one line of a Pharaoh file, ``0-0 1-2``: source, target, from 0."""
        return pharaoh(self.pairs) + "\n"

    def counts(self, gold: Gold) -> LinkCounts:
        """Return link counts against gold; sum them over sentences for the ``error_rate``.

        Raises:
            ValueError: The gold links words that do not exist.
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
        """Merge these links with those of a model of the other direction, on the same words.

        ``how`` is intersection, union or grow-diag. Och and Ney 2003.

        Raises:
            ValueError: The word counts differ; the other target must be this source.
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
    """Link target words to source words by cross-attention.

    Pieces are merged to words (columns summed, rows averaged). A target word is linked to the
    source word with the largest weight. It has no link if a special token such as the end mark has
    more, or if two words are equal. Weights are not renormalized.

    Args:
        trace: Run with cross-attention and its matrices.
        shift: ``out`` reads the row that predicts a word; ``in`` the row that reads it, one later
            (Kobayashi et al. 2020; Chen et al. 2020). The better one depends on the layer.
        layer: Layer to use; by default the mean over all heads of the model.
        head: Head of that layer; by default the mean of its heads.
        symmetric: Also link each source word to its strongest target word, and merge both:
            ``intersection``, ``union`` or ``grow-diag``.

    Raises:
        LookupError: The model has no cross-attention, the trace no matrices, or the head does not
            exist.
        ValueError: Unknown shift, or a source without words.
    """
    _alignable(trace)
    if symmetric is not None and symmetric not in SYMMETRIC:
        raise ValueError(f"symmetric is one of {', '.join(SYMMETRIC)}; got {symmetric!r}.")
    target = trace.tokens("target")
    row_axis(target, shift)  # checks the shift before any computation
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
    """Raise if a run has no cross-attention to words of a source."""
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
    """Return the details needed to reproduce and judge the links."""
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
