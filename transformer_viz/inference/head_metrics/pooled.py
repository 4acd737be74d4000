"""`tv.metrics`: what the heads of one trace do, or those of a model over many sentences."""

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

FIRST = 8  # sentences of the first table that is told; the next ones are of twice as many


@accept_old_keywords(tell="on_progress")
def metrics(
    thing: Any,
    sentences: Any = None,
    on_progress: Tell | None = None,
    *,
    view: str = "content",
    seed: int = 0,
) -> pd.DataFrame:
    """What every head does, in numbers: a row a head, with the rows counted and chance beside it.

    ``metrics(trace, view="content")`` measures one trace, ``metrics(model, sentences)`` a model
    over sentences, each with its weight in rows. The columns are ``stack, block, layer, head`` and
    for each measure m of ``entropy, confidence, distance, previous, self, next, positional, sink,
    special, null, duplicate, induction, copying, ov_copying, monotonicity, diagonality, coverage``
    its value ``m``, the rows that were asked ``m_rows``, and ``m_chance``, what a head that looks
    everywhere alike gets on the same rows; over sentences also ``m_low`` and ``m_high``, the 95 %
    bootstrap interval. All are shares without a unit, from 0 to 1, but ``ov_copying`` (from -1)
    and ``diagonality`` (below 0 where the order is reversed). NaN where no row could be asked, or
    where a measure needs what is not at hand: ``null``, ``copying`` and ``ov_copying`` read the
    projections of models of the reference Transformer, so a trace alone does not give them.
    `roles` reads this table. ``table.attrs["guesses"]`` has the words of the config that no file
    states, if there are any.

    Args:
        thing: a trace with its weights; a model that `load` gave; or a module.
        sentences: of a model: texts, lists of ids, or tuples (source, target); a source alone is
            decoded greedily where the model has a decoder.
        on_progress: called after each sentence with the number done, the number in all, and the
            table of these where their number has doubled, else None. What it raises comes out here.
        view: ``content`` leaves special tokens out and divides by what remains; ``raw`` takes
            weights as they are. Confidence, sink, special and null are raw in both.
        seed: of the bootstrap and of the orders that the null is made of.

    Raises:
        ValueError: no sentences, an unknown view, or a sentence the model cannot read.
        LookupError: the trace kept no weights.
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
    """All measures of each sentence's blocks, also under the null."""
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
