"""What every head does: of one trace, or pooled over many sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
from torch import nn

from ...checkpoints import load
from ...checkpoints.common.model import Model
from ...core.trace import Trace
from ...metrics.heads.maps import VIEWS
from ...metrics.heads.sentences import table_of_heads
from ..tracing import trace as run
from .head_maps import measure, places_of
from .projections import Found, find


def metrics(
    thing: Trace | Model | nn.Module,
    sentences: Iterable[Any] | None = None,
    tell: Callable[[int], None] | None = None,
    *,
    view: str = "content",
    seed: int = 0,
) -> pd.DataFrame:
    """What each head does, a row a head: entropy to coverage (M1 to M15), with rows and chance.

    The columns are ``stack, block, layer, head`` and for each metric m its value ``m`` (a mean over
    the rows that could be asked; NaN where there were none), ``m_rows`` how many they were, and
    ``m_chance`` what a head gets that looks alike at all it may see. Of sentences also ``m_low``
    and ``m_high``, the 95 % interval (1,000 draws of sentences; NaN with fewer than five), and for
    what can be a role ``m_null``, the same with words or rows in another order, and ``m_p``, how
    probable it is that the head does not lie above that. ``positional_offset`` is the offset that
    ``positional`` speaks of.

    Args:
        thing: a trace with ``weights`` kept (``scores`` too, and the mask is known for certain), a
            model, or any module that ``load`` can wrap.
        sentences: for a model: texts or lists of ids, or pairs of a source and a target.
        tell: hears how many sentences are done.
        view: ``content`` drops special tokens and divides by what is left; ``raw`` has the weights
            as they are. Confidence, sink, special and null are raw in both.
        seed: of the bootstrap and of the orders of the null.

    What a head writes (null, copying, ov_copying) needs the model: of a trace it has no value.

    Raises:
        ValueError: another view, sentences beside a trace, or none beside a model.
        LookupError: a trace without matrices; says how to keep them.
    """
    if view not in VIEWS:
        raise ValueError(f"metrics has no view {view!r}; choose of {', '.join(VIEWS)}.")
    if isinstance(thing, Trace):
        if sentences is not None:
            raise ValueError("A trace is one run: give sentences beside a model.")
        return table_of_heads(places_of(thing), [measure(thing, view)], pooled=False)
    given = [] if sentences is None else list(sentences)
    if not given or isinstance(sentences, str):
        raise ValueError("Give the model a list of sentences: texts, lists of ids, or pairs.")
    model = load(thing) if isinstance(thing, nn.Module) else thing
    return _pooled(model, given, tell, view, seed)


def _pooled(
    model: Model, sentences: list[Any], tell: Callable[[int], None] | None, view: str, seed: int
) -> pd.DataFrame:
    found: Found | None = None
    inputs, places = [], pd.DataFrame()
    for number, sentence in enumerate(sentences):
        source, target = _parted(model, sentence)
        trace = run(model, source, target, keep=("scores", "qkv"), check=False)
        if found is None:
            found, places = find(model, trace), places_of(trace)
        inputs.append(measure(trace, view, found, (seed, number)))
        if tell is not None:
            tell(number + 1)
    return table_of_heads(places, inputs, pooled=True, seed=seed)


def _parted(model: Model, sentence: Any) -> tuple[Any, Any]:
    """Source and target: a pair is both, but for models that read pairs of texts."""
    if isinstance(sentence, tuple) and len(sentence) == 2 and model.kind != "encoder-only":
        return sentence
    return sentence, None
