"""Probabilities of words in a fixed translation, with and without some heads.

Made for er, sie and es, the German words for "it". The preferred pronoun reveals the noun that the
model chose; switching heads off reveals the heads it needs for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...capture import CaptureRequest, probe
from ...checkpoints.common.model import Model
from ...core.interventions import Intervention, ScaleHead
from ...core.sites import Site
from ...core.trace_parts import read_only
from ...i18n import say
from ..token_ids import source_ids, target_ids

TOGETHER = 40  # sentences per pass
NOTHING = -1  # filler where no token is


@dataclass(frozen=True)
class Held:
    """Source, target up to a word, and the candidates for that word."""

    source: str
    before: str
    words: tuple[str, ...]


def log_probabilities(
    model: Model, rows: Sequence[Held], edit: Intervention | None = None
) -> np.ndarray:
    """Return ln p of each word at the end of its row's target: float64 ``[row, word]``.

    A word is represented by its first piece; p is over the whole vocabulary. Rows share passes, so
    an edit applies to all of them.

    Args:
        model: Translation model.
        rows: Rows with equally many words.
        edit: Edits of the run.

    Raises:
        ValueError: Two words of a row share their first piece, a text is too long, or an edit has
            no matching site.
    """
    parts = [_of_few(model, rows[i : i + TOGETHER], edit) for i in range(0, len(rows), TOGETHER)]
    return read_only(np.concatenate(parts))


def _of_few(model: Model, rows: Sequence[Held], edit: Intervention | None) -> np.ndarray:
    sources = _rectangle([source_ids(model, row.source) for row in rows], model)
    starts = [target_ids(model, row.before) for row in rows]
    pieces = [_first_pieces(model, row, start) for row, start in zip(rows, starts, strict=True)]
    targets = _rectangle(starts, model).clamp(min=0)
    want = CaptureRequest(weights=lambda _: False, statistics=False, norms=False, residuals=False)
    with torch.no_grad(), probe(model.module, edit, want):
        logits = model.calls.forward(sources.clamp(min=0), targets, sources != NOTHING)
    found = [
        logits[place, len(start) - 1].double().log_softmax(-1)[few]
        for place, (start, few) in enumerate(zip(starts, pieces, strict=True))
    ]
    return torch.stack(found).cpu().numpy()


def _first_pieces(model: Model, row: Held, start: Sequence[int]) -> list[int]:
    """Return the first pieces of the words, after the text before them."""
    read = model.tokenizer.target_ids
    found = [list(read(f"{row.before} {word}".strip()))[len(start)] for word in row.words]
    if len(set(found)) < len(found):
        raise ValueError(
            say(
                "The words {words} do not begin with different pieces in this model's vocabulary, "
                "so it cannot be asked which of them it prefers; choose another model.",
                words=", ".join(row.words),
            )
        )
    return found


def heads(model: Model, row: Held) -> tuple[Site, ...]:
    """Return every head that runs, by stack and layer."""
    source = _rectangle([source_ids(model, row.source)], model)
    target = _rectangle([target_ids(model, row.before)], model)
    with torch.no_grad(), probe(model.module) as run:
        model.calls.forward(source, target, torch.ones_like(source, dtype=torch.bool))
    return tuple(
        Site(one.stack, one.kind, one.layer, head)
        for one in run.attentions
        for head in range(one.heads)
    )


def off(sites: Sequence[Site]) -> Intervention:
    """Return the intervention that switches heads off."""
    return Intervention(
        tuple(
            ScaleHead(value=0, stack=site.stack, block=site.block, layer=site.layer, head=site.head)
            for site in sites
        )
    )


def without_each(
    model: Model,
    rows: Sequence[Held],
    sites: Sequence[Site],
    on_progress: Callable[[int, int], None] | None = None,
) -> np.ndarray:
    """Return ln p of the words with each head switched off alone: float64 ``[head, row, word]``.

    ``on_progress`` is called before each head with the number done and in all.
    """
    found = []
    for number, site in enumerate(sites):
        if on_progress is not None:
            on_progress(number, len(sites))
        found.append(log_probabilities(model, rows, off([site])))
    return read_only(np.stack(found))


def _rectangle(rows: Sequence[Sequence[int]], model: Model) -> torch.Tensor:
    """Return ids ``[row, token]`` on the model's device, padded on the right with `NOTHING`."""
    width = max(map(len, rows))
    filled = [[*row, *[NOTHING] * (width - len(row))] for row in rows]
    return torch.tensor(filled, device=model.device)
