"""Logit of a word from the residual stream: per layer (lens) and as a sum (direct)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from torch import Tensor

from ...core.numerics import MULTI_LABEL, REGRESSION, log_softmax, probabilities
from ...preprocessing.tokenizers import target_side
from .anatomy import Anatomy, Sum, close
from .last_steps import direction, through_last_steps
from .question import Question

LINEAR = 1e-3  # relative to the logits' scale; a larger error means a nonlinear output
SAME = 1e-6  # relative difference up to which two tensors count as equal


def lens(question: Question, anatomy: Anatomy) -> pd.DataFrame:
    """Apply the model's last steps to the residual stream before each layer and after the last.

    Returns the columns ``layer`` (number of layers done), ``logit``, ``probability``, ``rank`` and
    ``best``. The first three values and the rank (from 1) are those of the target token. ``best``
    is the most probable token (for a regression the largest output, without probability).

    Raises:
        ValueError: No output layer, or an unknown residual stream.
    """
    token = question.needs_logit("lens")
    capture, stack = anatomy.capture, question.stack
    streams = [
        record.stream
        for record in capture.attentions
        if record.stack == stack and record.kind == "self" and record.stream is not None
    ]
    place = _last_place(question, anatomy)
    alike = [x for x in streams if x.shape == place.shape]
    try:
        outputs = list(through_last_steps(question.watched_output, place, [*alike, place]))
    except LookupError:
        raise _unknown(question, "lens") from None
    names = target_side(question.model.tokenizer)
    rows = []
    for done, output in enumerate(outputs):
        logits = question.logits(output).double().cpu().numpy()
        best = int(logits.argmax())
        rows.append(
            {
                "layer": done,
                "logit": float(logits[token]),
                "probability": _chance(logits, token, question.model.task),
                "rank": int((logits > logits[token]).sum()) + 1,
                "best": _name(question, names, best),
            }
        )
    return pd.DataFrame(rows)


def _chance(logits: np.ndarray, token: int, task: str) -> float:
    if task in (MULTI_LABEL, REGRESSION):
        return float(probabilities(logits, task)[token])
    return float(np.exp(log_softmax(logits)[token]))


def _name(question: Question, names: object, token: int) -> str:
    model = question.model
    if model.gives == "spans":
        return question.read.source.labels[token]
    if model.gives in ("classes", "tags"):
        return model.labels[token] if token < len(model.labels) else str(token)
    label: str = names.tokens([token]).labels[0]  # type: ignore[attr-defined]
    return label


def _last_place(question: Question, anatomy: Anatomy) -> Tensor:
    """Return the residual stream after the last layer.

    Before the last norm in pre-norm models; after it where each sum is normed.
    """
    sums = [s for s in anatomy.capture.sums if s.site.stack == question.stack]
    if not sums:
        raise _unknown(question, "lens")
    last = anatomy.capture.streams[question.stack]
    return last if _anew(sums[-1], sums) else sums[-1].after


def _anew(last: object, sums: list) -> bool:  # type: ignore[type-arg]
    """Return True if the residual stream is normed between two sums of one stack."""
    return len(sums) > 1 and not close(sums[-2].after, sums[-1].before, SAME)


def _unknown(question: Question, method: str) -> ValueError:
    return ValueError(
        f"The residual stream of {question.model.name!r} could not be followed to its output "
        f"layer, which {method!r} needs. Gradient and removal can be had."
    )


def direct(question: Question, anatomy: Anatomy) -> tuple[pd.DataFrame, float, bool]:
    """Return the logit as a sum of residual stream contributions, with the last norm's scale held.

    Returns the terms, the error of their sum, and True if the residual stream restarts at a norm
    after a sum. Then all terms before it are summed in one, ``earlier``.

    Raises:
        ValueError: No output layer, or one with nonlinear layers, so that the logit is no sum.
    """
    token = question.needs_logit("logits")
    sums = [
        (one, raw)
        for one, raw in zip(anatomy.sums, anatomy.raw, strict=True)
        if one.site.stack == question.stack
    ]
    if not sums:
        raise _unknown(question, "logits")
    first = len(sums) - 1
    while first and np.abs(sums[first - 1][0].after - sums[first][0].before).max() <= SAME * max(
        np.abs(sums[first][0].before).max(), 1e-30
    ):
        first -= 1
    chain = [one for one, _ in sums[first:]]
    try:
        slope, constant = direction(
            question.watched_output,
            sums[-1][1],
            lambda output: question.logits(output)[token],
        )
    except LookupError:
        raise _unknown(question, "logits") from None
    u = slope.double().reshape(-1, slope.shape[-1]).cpu().numpy()
    rows = [("earlier" if first else "embedding", -1, -1, _dot(u, chain[0].before))]
    for one in chain:
        rows += _terms(u, one, anatomy)
    rows.append(("bias", -1, -1, constant))
    table = pd.DataFrame(rows, columns=["part", "layer", "head", "value"])
    own = float(question.logits(anatomy.output)[token])
    error = abs(float(table["value"].sum()) - own)
    scale = float(question.logits(anatomy.output).abs().max())
    if not error <= LINEAR * max(scale, 1.0):
        raise ValueError(
            f"The output layer of {question.model.name!r} is more than a norm and a matrix (an "
            "activation or a bound stands in it), so its logits are no sum of the stream's parts: "
            f"they miss by {error:.2g}. The lens, gradient and removal can be had."
        )
    return table.astype({"layer": int, "head": int}), error, bool(first)


def _dot(u: np.ndarray, x: np.ndarray) -> float:
    return float((u * x).sum())


def _terms(u: np.ndarray, one: Sum, anatomy: Anatomy) -> list[tuple[str, int, int, float]]:
    """Return the terms of one residual sum, by head where heads can be separated."""
    whole = _dot(u, one.added)
    block = next(
        (
            b
            for b in anatomy.blocks
            if (b.stack, b.block, b.layer) == (one.site.stack, one.site.block, one.site.layer)
        ),
        None,
    )
    if block is None or block.output.shape != one.added.shape:
        return [(one.site.block, one.site.layer, -1, whole)]
    rows = np.flatnonzero(np.abs(u).max(-1) > 0).tolist()
    heads = np.einsum("hqk,hkd->hqd", block.weights[:, rows], block.parts)
    constant = block.constant[rows]
    if block.inner is not None:
        inner = block.inner
        heads = np.stack([inner.of(heads[:, n], row) for n, row in enumerate(rows)], 1)
        constant = np.stack([inner.of(constant[n], row) for n, row in enumerate(rows)])
        constant = constant + inner.shift
    by_head = np.einsum("hqd,qd->h", heads, u[rows])
    bias = _dot(u[rows], constant)
    found = [(one.site.block, one.site.layer, n, float(x)) for n, x in enumerate(by_head)]
    found.append(("bias", one.site.layer, -1, bias))
    rest = whole - float(by_head.sum()) - bias
    if beside(block.output, one.added) and block.inner is None:
        found.append(("feed_forward", one.site.layer, -1, rest))
    return found


def beside(output: np.ndarray, added: np.ndarray) -> bool:
    """Return True if a parallel sub-layer was added together with an attention's output."""
    return float(np.abs(output - added).max()) > SAME * max(float(np.abs(added).max()), 1e-30)
