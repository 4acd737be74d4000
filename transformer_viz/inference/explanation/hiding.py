"""R5: score of the word when some input words are hidden from all queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

from ...capture import probe
from ...core.edits import BlockKeys
from ...core.interventions import Edit, Intervention
from ...model import Transformer
from ..ablation.places import quiet
from .question import Question

TOGETHER = 64  # sets of hidden words per pass
ROWS = 2048  # rows of logits per pass, over all sets
#: Words to hide: ``(sentence, number of the token)``, sentence ``source`` or ``target``.
Hidden = frozenset[tuple[str, int]]
#: Called with the number of sets done and in all; its exceptions propagate.
Tell = Callable[[int, int], None]


def scores_without(
    question: Question, sets: Sequence[Iterable[tuple[str, int]]], on_progress: Tell | None = None
) -> np.ndarray:
    """Return the target word's score with each set of words hidden: float64 ``[set]``.

    The unit is that of the model: log-probability in nats, or the output of a regression. A hidden
    word is not a key of any attention; positions do not change. A row's residual stream still holds
    its own word, since it bypasses attention.
    """
    question.needs_logit("removal")
    wanted = [frozenset(one) for one in sets]
    found = np.empty(len(wanted))
    distinct = list(dict.fromkeys(wanted))
    known: dict[Hidden, float] = {}
    together = [one for one in distinct if _by_mask(question, one)]
    count = max(1, min(TOGETHER, ROWS // max(1, len(question.rows))))
    for start in range(0, len(together), count):
        some = together[start : start + count]
        known |= dict(zip(some, _masked(question, some), strict=True))
        if on_progress is not None:
            on_progress(len(known), len(distinct))
    for one in distinct:
        if one not in known:
            known[one] = _edited(question, one)
            if on_progress is not None:
                on_progress(len(known), len(distinct))
    found[:] = [known[one] for one in wanted]
    return found


def _by_mask(question: Question, hidden: Hidden) -> bool:
    """Return True if the model's source mask can hide these words, so that many sets share a pass.

    False if a row could be left with no visible key, as the first row of a causal model.
    """
    model = question.model
    if not isinstance(model.module, Transformer) or model.takes != "text":
        return False
    some = all(sentence == "source" for sentence, _ in hidden)
    return some and model.kind != "decoder-only" and len(hidden) < len(question.read.source)


def _masked(question: Question, sets: Sequence[Hidden]) -> list[float]:
    source, target, mask = question.read.tensors
    model, count = question.model, len(sets)
    seen = (
        torch.ones(1, source.shape[1], dtype=torch.bool, device="cpu")
        if mask is None
        else mask.clone().cpu()
    )
    if model.pad_id is not None and mask is None:
        seen &= source.cpu() != model.pad_id
    seen = seen.repeat(count, 1)
    for row, hidden in enumerate(sets):
        seen[row, [n for _, n in hidden]] = False
    several = [None if x is None else x.repeat(count, 1) for x in (source, target)]
    with torch.no_grad():
        output = model.calls.forward(several[0], several[1], seen.to(source.device))
    return [question.score(question.logits(output, place)) for place in range(count)]


def _edited(question: Question, hidden: Hidden) -> float:
    edit = Intervention(tuple(edits(question, hidden)))
    with torch.no_grad(), probe(question.model.module, edit, quiet(question.lone)):
        output = question.read.through(question.model)
    return question.score(question.logits(output))


def edits(question: Question, hidden: Hidden) -> list[Edit]:
    """Return the edits that hide these words wherever they are keys."""
    found: list[Edit] = []
    two = question.read.target is not None
    for sentence in ("source", "target"):
        keys = tuple(sorted(n for name, n in hidden if name == sentence))
        if not keys:
            continue
        if sentence == "target":
            found.append(BlockKeys(keys=keys, stack="decoder", block="self"))
        elif two:
            found.append(BlockKeys(keys=keys, stack="encoder", block="self"))
            found.append(BlockKeys(keys=keys, stack="decoder", block="cross"))
        else:
            found.append(BlockKeys(keys=keys, block="self"))
    return found
