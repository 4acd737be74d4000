"""Model outputs: logits, predicted tokens or classes, gradients."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..capture.merge_heads import side_by_side
from ..checkpoints.common.model import Model
from ..core.interventions import Intervention
from ..core.numerics import (
    ENDS,
    MULTI_LABEL,
    REGRESSION,
    best_span,
    log_softmax_at,
    probabilities,
    rank_at,
)
from ..core.trace_parts import Produced, read_only
from ..preprocessing.tokenizers import target_side
from .capture_to_numpy import to_numpy
from .model_inputs import Read
from .proof.accounts import BLOCK

JUDGED = ("classes", "tags", "spans")  # values of `Model.gives` for models that judge


def require_end(model: Model, output: str | None) -> None:
    """Check that ``output`` is an end of an answer, in a model that marks answers.

    Raises:
        ValueError: It is not.
    """
    if output is not None and (model.gives != "spans" or output not in ENDS):
        raise ValueError(
            f"output is start or end, of a model that marks an answer, and {model.name!r} gives "
            f"{model.gives}; got {output!r}. Leave it out, or name one of the two."
        )


def logits_of(
    model: Model, read: Read, output: Tensor, intervention: Intervention
) -> np.ndarray | None:
    """Return the output before the last softmax; None if the model ends without output layer.

    The shape is ``[position, vocabulary]``, ``[class]`` or, for a model that marks answers, ``[2,
    token]``.

    Raises:
        ValueError: An edit caused an overflow to NaN.
    """
    if intervention and bool(output[0].isnan().all()):
        raise ValueError(
            f"Under this change ({intervention.describe()}) the model's output is not a number "
            "(NaN): its numbers became too large. Give the edit a smaller value."
        )
    if model.gives == "vectors" or not (read.source.ids or model.takes in ("image", "audio")):
        return None
    return to_numpy(output[0])


def vectors_of(model: Model, output: Tensor) -> np.ndarray | None:
    """Return the output of a model that ends in states, ``[token, d_model]``; None for others."""
    ends = model.gives == "vectors" and output.dim() == 3
    return to_numpy(output[0]) if ends else None


def produced_of(model: Model, read: Read, logits: np.ndarray | None) -> Produced | None:
    """Return each row's predicted token, the class, or the ends of an answer.

    Each has a probability (NaN where outputs have none) and a rank.

    Raises:
        ValueError: ``produced`` does not match the rows, or contains an unknown class.
    """
    if logits is None:
        return None
    if logits.ndim == 1:
        return _class(model, read.produced, logits)
    if model.gives == "tags":
        return _tags(model, read, logits)
    if model.gives == "spans":
        return _span(read, logits)
    rows = read.source if read.target is None else read.target
    masked = model.kind == "encoder-only"
    if not rows.ids or len(rows) != len(logits) or (masked and model.mask_id is None):
        return None
    ids = read.produced
    if ids is None and masked:
        ids = _filled(model, rows.ids, logits)
    elif ids is None:
        ids = (*rows.ids[1:], int(logits[-1].argmax()))
        if read.beside is not None:  # no row predicts a patch
            shown = {n - 1 for n in read.beside.places}
            ids = tuple(int(logits[n].argmax()) if n in shown else i for n, i in enumerate(ids))
    if len(ids) != len(rows):
        raise ValueError(
            f"produced names {len(ids)} tokens for {len(rows)} target rows; give one a row."
        )
    tokens = target_side(model.tokenizer).tokens(ids)
    return _scored(ids, tokens.pieces, tokens.labels, logits)


def _filled(model: Model, ids: tuple[int, ...], logits: np.ndarray) -> tuple[int, ...]:
    """Return the most probable token at each masked position, the token itself elsewhere."""
    best = logits.argmax(axis=1)
    return tuple(
        int(best[row]) if token == model.mask_id else token for row, token in enumerate(ids)
    )


def _class(model: Model, held: tuple[int, ...] | None, logits: np.ndarray) -> Produced:
    """Return the given class, or the most probable one; for a regression the first."""
    best = 0 if model.task == REGRESSION else int(logits.argmax())
    ids = (best,) if held is None else held
    if len(ids) != 1 or not 0 <= ids[0] < len(logits):
        raise ValueError(
            f"produced names the class in question, one number from 0 to {len(logits) - 1}; got "
            f"{list(ids)}."
        )
    name = model.labels[ids[0]] if ids[0] < len(model.labels) else str(ids[0])
    return _scored(ids, (name,), (name,), logits[None], model.task)


def _tags(model: Model, read: Read, logits: np.ndarray) -> Produced:
    """Return each token's given or most probable class; for a regression the first output."""
    tokens, held = read.source, read.produced
    best = np.zeros(len(logits)) if model.task == REGRESSION else logits.argmax(axis=1)
    ids = tuple(map(int, best)) if held is None else held
    if len(ids) != len(tokens) or not all(0 <= i < logits.shape[1] for i in ids):
        raise ValueError(
            f"produced names a class for each of {len(tokens)} tokens, numbers from 0 to "
            f"{logits.shape[1] - 1}; got {list(ids)}."
        )
    names = tuple(model.labels[i] if i < len(model.labels) else str(i) for i in ids)
    told = tuple(f"{label}: {name}" for label, name in zip(tokens.labels, names, strict=True))
    return _scored(ids, names, told, logits, model.task)


def _span(read: Read, logits: np.ndarray) -> Produced:
    """Return the first and last token of the best answer, or the given ones."""
    tokens = read.source  # a decoder reads the same tokens, shifted
    ids = best_span(logits) if read.produced is None else read.produced
    if len(ids) != 2 or not all(0 <= i < logits.shape[1] for i in ids):
        raise ValueError(
            f"produced names the first and last token of an answer, numbers from 0 to "
            f"{logits.shape[1] - 1}; got {list(ids)}."
        )
    pieces = tuple(tokens.pieces[i] for i in ids)
    told = tuple(f"{end}: {tokens.labels[i]}" for end, i in zip(ENDS, ids, strict=True))
    return _scored(ids, pieces, told, logits)


def _scored(
    ids: tuple[int, ...],
    pieces: tuple[str, ...],
    labels: tuple[str, ...],
    logits: np.ndarray,
    task: str = "",
) -> Produced:
    """Return probability and rank of one id in each row of ``logits`` ``[row, choice]``."""
    rows = np.arange(len(ids))
    if task in (MULTI_LABEL, REGRESSION):
        probability = probabilities(logits[rows, ids], task)  # outputs are independent
    else:
        probability = np.exp(log_softmax_at(logits, ids))
    return Produced(
        ids=tuple(int(i) for i in ids),
        pieces=pieces,
        labels=labels,
        probability=read_only(probability.astype(np.float32)),
        rank=read_only(rank_at(logits, ids)),
    )


@torch.enable_grad()
def gradients_of(
    model: Model,
    read: Read,
    output: Tensor,
    said: Produced | None,
    leaves: list[tuple[tuple[Tensor, ...], int]],
) -> list[np.ndarray]:
    """Return d(sum of selected logits) / d(weights) for each attention in call order.

    Selected are the produced tokens; in a masked model only those at masked positions, if any; for
    a classifier the class; for an answer its two ends. Without any of these, the largest logit of
    each row is used.
    """
    first = output[0]
    if said is None:
        chosen = first.amax(-1)
    else:
        rows = first[None] if first.dim() == 1 else first
        ids = torch.tensor(said.ids, device=first.device)
        chosen = rows[torch.arange(len(said.ids), device=first.device), ids]
        places = [row for row, token in enumerate(read.source.ids) if token == model.mask_id]
        if first.dim() > 1 and model.kind == "encoder-only" and places:
            chosen = chosen[places]
    flat = [leaf for parts, _ in leaves for leaf in parts]
    found = torch.autograd.grad(chosen.sum(), flat, allow_unused=True)
    grads = iter(torch.zeros_like(x) if g is None else g for x, g in zip(flat, found, strict=True))
    return [
        to_numpy(side_by_side([next(grads) for _ in parts], along)[0]) for parts, along in leaves
    ]


def scores_of(logits: Tensor, task: str) -> Tensor:
    """Return the scores of logits ``[..., class]`` in float64.

    Scores are log-probabilities in nats, of the softmax or, for several labels, of each sigmoid.
    For a regression they are the outputs.
    """
    wide = logits.double()
    if task == REGRESSION:
        return wide
    if task == MULTI_LABEL:
        return torch.nn.functional.logsigmoid(wide)
    return wide.log_softmax(-1)


def output_difference(got: Tensor, plain: Tensor) -> float:
    """Return the largest difference of two outputs, relative to the second's largest number."""
    scale = torch.full((), torch.finfo(torch.float32).tiny, device=plain.device)
    gap = torch.zeros_like(scale)
    for one, other in zip(*(x.reshape(-1).split(BLOCK) for x in (got, plain)), strict=True):
        gap = torch.maximum(gap, (other - one).abs().max())
        scale = torch.maximum(scale, other.abs().max())
    return float(gap / scale)
