"""Implementation of `tv.metrics`: head measures of a trace, or of a model over many sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ...checkpoints.common.model import Model
from ...core.guesses import guess_entry
from ...core.renamed import accept_old_keywords
from ...core.trace import Trace
from ...metrics.corpus.selection import null_draw
from ...metrics.head_measures.rows import VIEWS
from ...metrics.head_measures.tables import Block, blocks_of, measured, table_of
from ..model_inputs import model_of, source_and_target
from ..tracing import trace
from .own_weights import OwnWeights
from .telling import Tell

FIRST = 8  # sentences in the first reported table; each further one has twice as many


@accept_old_keywords(tell="on_progress")
def metrics(
    thing: Any,
    sentences: Any = None,
    on_progress: Tell | None = None,
    *,
    view: str = "content",
    seed: int = 0,
) -> pd.DataFrame:
    """Measure every head: one row per head, with row counts and chance levels.

    ``metrics(trace, view="content")`` measures one trace, ``metrics(model, sentences)`` a model
    over sentences, weighted by their rows. The columns are ``stack, block, layer, head``, and for
    each measure m its value ``m``, the number of rows ``m_rows``, and ``m_chance``. Chance is the
    value of a uniform head on the same rows. Over sentences, ``m_low`` and ``m_high`` give the 95 %
    bootstrap interval.

    The measures are ``entropy, confidence, distance, previous, self, next, positional, sink,
    special, null, duplicate, induction, copying, ov_copying, monotonicity, diagonality, coverage``.
    All are unitless shares from 0 to 1, except ``ov_copying`` (from -1) and ``diagonality``
    (negative for reversed order). A measure is NaN without usable rows, or without required data.
    ``null``, ``copying`` and ``ov_copying`` need the projections of a reference Transformer, so a
    trace alone does not give them.

    `roles` takes this table. ``table.attrs["guesses"]`` holds config keys that no file states, if
    any.

    Args:
        thing: Trace with weights, model from `load`, or module.
        sentences: For a model: texts, lists of ids, or tuples (source, target); a source alone is
            decoded greedily if the model has a decoder.
        on_progress: Called after each sentence with the number done, the number in all, and their
            table whenever their number has doubled, else None. Its exceptions propagate.
        view: ``content`` leaves special tokens out and renormalizes; ``raw`` uses weights
            unchanged. Confidence, sink, special and null are raw in both.
        seed: Seed of the bootstrap and of the null orders.

    Raises:
        ValueError: No sentences, an unknown view, or a sentence the model cannot read.
        LookupError: The trace has no weights.
    """
    if isinstance(thing, Trace):
        if isinstance(sentences, str):  # metrics(trace, "raw")
            view, sentences = sentences, None
        if sentences is not None:
            raise ValueError("A trace has its sentence; sentences are given beside a model.")
        found = table_of([[measured(one.site, rows) for one, rows in blocks_of(thing, view)]])
        found.attrs |= guess_entry(thing.guesses)
        return found
    if view not in VIEWS:
        raise ValueError(f"There is no view {view!r}; choose of {', '.join(VIEWS)}.")
    if (
        sentences is None
        or isinstance(sentences, str)
        or not len(sentences)
        or isinstance(sentences[0], int)
    ):
        raise ValueError(
            "Heads are measured on a list of sentences, of lists of ids, or of (source, target) "
            "pairs; give some."
        )
    model = model_of(thing)
    found = table_of(runs_of(model, sentences, on_progress, view, seed), seed)
    found.attrs |= guess_entry(model.guessed)
    return found


def runs_of(
    model: Model, sentences: Sequence[Any], on_progress: Tell | None, view: str, seed: int
) -> list[list[Block]]:
    """Return all measures of each sentence's blocks, also under the null."""
    own, runs = OwnWeights(model), list[list[Block]]()
    for number, sentence in enumerate(sentences):
        source, target = source_and_target(model, sentence)
        run = trace(model, source, target, keep=("weights", "scores", "qkv"), check=False)
        blocks = [
            measured(
                one.site,
                replace(rows, **own.beside(one, number == 0)),
                null_draw(seed, number, one.site),
            )
            for one, rows in blocks_of(run, view)
        ]
        runs.append(blocks)
        if on_progress is not None:
            done = len(runs)
            worth = done == len(sentences) or (done >= FIRST and not done & (done - 1))
            on_progress(done, len(sentences), table_of(runs, seed) if worth else None)
    return runs
