"""Runs of the page Swap: two sentences with a pair of words, and grids of single patches.

Plain functions of a model, which import torch when they run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.interventions import Edit, SwapHead, SwapPattern, SwapStream
from ...core.numerics import NATS
from ...core.sites import MAPS
from ...core.trace_parts import read_only

if TYPE_CHECKING:
    from ...checkpoints import Model

Ids = tuple[int, ...]
Text = str | tuple[str, str]  # a text, or the two of a model that reads pairs
KINDS: dict[str, type[SwapHead | SwapPattern | SwapStream]] = {
    "heads": SwapHead,
    "patterns": SwapPattern,
    "stream": SwapStream,
}


@dataclass(frozen=True)
class Compared:
    """Two clean runs and the pair of words in which they differ.

    Attributes:
        held: Ids of the output tokens before the position of the pair.
        wanted: Ids of the ``words``.
        outputs: Text that each run generates; empty if none is generated.
        chances: Probabilities of the words by run; scores for a regression.
        leads: Nats by which the first word is more probable than the second, by run, in ``unit``;
            for a single output its score.
        source: Token labels of the sentence; ``variant`` of the other one, ``target`` of the
            output.
        lone: Labels of tokens without a counterpart.
        tagged: For a tagger, the token whose class is measured.
    """

    held: Ids
    wanted: tuple[int, ...]
    words: tuple[str, ...]
    outputs: tuple[str, str]
    before: str
    chances: tuple[tuple[float, ...], tuple[float, ...]]
    leads: tuple[float, float]
    source: tuple[str, ...]
    variant: tuple[str, ...]
    target: tuple[str, ...] | None
    lone: tuple[str, ...]
    unit: str = NATS
    tagged: str = ""


def compared(
    model: Model,
    text: Text,
    other: Text,
    own: Ids | None,
    beam: int,
    words: tuple[str, ...] | None,
    masked: Ids,
    before: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Compared:
    """Return both sentences' clean runs, with a pair of words in which their outputs differ.

    Args:
        own: Ids of the sentence's output if known.
        before: Text before the pair, if fixed; then nothing is generated.
    """
    from ...inference.patching.question import ask, clean_pair
    from ...preprocessing.tokenizers import target_side

    outputs = None if before is not None else _outputs(model, text, other, own, beam, on_progress)
    question = ask(model, text, other, words, before, masked, outputs)
    chances, leads = clean_pair(question)
    held: Ids = ()
    if question.target is not None:
        held = tuple(question.target[0].tolist()[0 if model.bos_id is None else 1 :])
    elif question.written is not None:
        held = tuple(question.written[0].tolist())
    side = target_side(model.tokenizer)
    texts = ("", "") if outputs is None else tuple(side.decode(ids) for ids in outputs)
    target = question.target_tokens
    lone, foreign = question.lone
    return Compared(
        held,
        question.wanted,
        question.words,
        (texts[0], texts[1]),
        side.decode(held),
        chances,
        leads,
        question.own_tokens.labels,
        question.other_tokens.labels,
        None if target is None else target.labels,
        (
            *(question.own_tokens.labels[n] for n in lone),
            *(question.other_tokens.labels[n] for n in foreign),
        ),
        model.unit,
        question.own_tokens.labels[question.row or 0] if model.gives == "tags" else "",
    )


def _outputs(
    model: Model,
    text: Text,
    other: Text,
    own: Ids | None,
    beam: int,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Ids, Ids] | None:
    """Return the ids that both runs generate; None if nothing is generated."""
    from ...inference.outputs import JUDGED

    if model.kind == "encoder-only" or model.gives in JUDGED:
        return None
    from ...inference.generation import translate
    from ...inference.patching.question import half

    def written(source: Text, number: int) -> Ids:
        return translate(
            model, source, beam=beam, on_progress=on_progress and half(on_progress, number)
        )[0].ids

    return own or written(text, 0), written(other, 1)


@dataclass(frozen=True, eq=False)
class Grid:
    """Effects ``moved``, float64 ``[layer, head]`` or ``[layer, token]``, of single patches."""

    moved: np.ndarray
    card: dict[str, Any]


def grids(
    model: Model,
    text: Text,
    other: Text,
    held: Ids,
    wanted: tuple[int, ...],
    what: str,
    part: str,
    masked: Ids,
    on_progress: Callable[[int, int], None],
) -> Grid:
    """Measure all patches of one kind in one part: a map, or a stack of the residual stream.

    Raises:
        ValueError: Nothing can be patched; the message gives the reason.
    """
    from ...inference.patching.question import ask
    from ...inference.patching.swapping import measured

    start = () if model.bos_id is None or model.kind == "decoder-only" else (model.bos_id,)
    target = None if model.kind == "encoder-only" else [*start, *held]
    question = ask(model, text, other, wanted, target, masked)
    found = measured(question, what, [part], on_progress=on_progress)
    return Grid(read_only(found.parts[part].copy()), found.card)


def together(
    model: Model,
    text: str,
    other: str,
    held: Ids,
    wanted: tuple[int, int],
    heads: tuple[tuple[str, int, int], ...],
) -> float:
    """Return the joint effect of patching some heads (map, layer, head) from the other sentence.

    0 is the pair's lead in the sentence's run, 1 that in the other one's.
    """
    from ...inference.patching.question import ask
    from ...inference.patching.swapping import Bench

    bench = Bench(ask(model, text, other, wanted, [model.bos_id, *held]), "heads")
    edits: Any = tuple(edit_of("heads", part, other, row, column) for part, row, column in heads)
    return float(bench.together(edits))


def edit_of(what: str, part: str, other: Text, row: int, column: int) -> Edit:
    """Return the patch of one cell of a grid."""
    if what == "stream":
        return SwapStream(source=other, stack=part, layer=row, token=column)
    stack, block = MAPS[part]
    return KINDS[what](source=other, stack=stack, block=block, layer=row, head=column)
