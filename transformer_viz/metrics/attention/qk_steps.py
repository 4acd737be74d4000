"""Steps from q and k to one weight of a map, with the model's own numbers.

Vaswani et al. 2017, section 3.2.1: softmax(q·k / sqrt(d_k)); other models have more steps before
the softmax. The factor of q·k comes from the run. A remainder of a score after the known steps is a
separate step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...core.apply_edits import HeadPlan, at_largest
from ...core.interventions import ScaleHead, Temperature
from ...core.renamed import renamed
from ...core.sites import Site, called
from ...core.trace import Trace
from ...core.trace_parts import Attention
from ...i18n import say
from .map_cells import visible

#: Rounding tolerance relative to a score's largest term, by the model's data type.
ROUNDING = {"float64": 1e-6, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}


class NoProduct(LookupError):
    """Error for a head without a q·k to show; the message gives the reason."""


@dataclass(frozen=True)
class Step:
    """Step of the computation: its effect on the number, and the reason.

    ``kind`` is one of: ``dot``: q·k. ``scale``: times ``amount``. ``cap``: amount x tanh(number /
    amount). ``bias``, ``row``, ``other``: plus ``amount`` (a position bias; a constant per row;
    anything else). ``temperature``: divided by ``amount``. ``mask``: of a hidden key; ``seen``: of
    a key in a row that hides ``amount`` others. ``softmax``: exp(number - ``most``) / ``amount``,
    or instead ``hard``, ``even`` or ``nothing``. ``head``: times ``amount``. ``after``: plus
    ``amount``.
    """

    kind: str
    result: float
    amount: float = 0.0
    most: float = 0.0
    why: str = ""


@dataclass(frozen=True, eq=False)
class QKSteps:
    """Computation of one query's weight on one key.

    Attributes:
        site: Site with head.
        query: Row.
        key: Column.
        q: ``[d_k]``, as multiplied by the model.
        k: ``[d_k]``, as multiplied by the model.
        product: Elementwise product.
        steps: Steps; the last result is the weight in the map.
        scores: Softmax input ``[key + sink]``, float64.
        weights: ``[key]``.
        seen: True for keys that are not masked, ``[key]``.
        notes: Sentences about q and k.
    """

    site: Site
    query: int
    key: int
    q: np.ndarray
    k: np.ndarray
    product: np.ndarray
    steps: tuple[Step, ...]
    scores: np.ndarray
    weights: np.ndarray
    seen: np.ndarray
    notes: tuple[str, ...]

    @property
    def exponentials(self) -> np.ndarray:
        """exp(score - the row's largest score), ``[key + sink]`` float64."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.exp(self.scores - self.scores.max()))


def chain(trace: Trace, block: str, layer: int, head: int, query: int, key: int) -> QKSteps:
    """Return the steps from q and k of one head to the weight of one cell of its map.

    Args:
        trace: Run with ``keep=("scores", "qkv")``.
        block: ``encoder``, ``decoder`` or ``cross``.
        layer: Layer, from 0.
        head: Head, from 0.
        query: Model row, from 0.
        key: Model column, from 0.

    Raises:
        LookupError: The trace lacks the map, layer, head, row or column.
        NoProduct: (a LookupError) Nothing was captured, or the scores are no product of q and k.
    """
    attention = require_product(trace, block, layer, head)
    rows, columns = attention.weights.shape[1:]
    if not (0 <= query < rows and 0 <= key < columns):
        raise LookupError(
            f"{block!r} L{layer} has rows 0 to {rows - 1} and columns 0 to {columns - 1}; got row "
            f"{query} and column {key}."
        )
    assert attention.q is not None and attention.k is not None and attention.scores is not None
    site = replace(attention.site, head=head)
    q, k = attention.q[head, query], attention.k[head, key]
    made = QKSteps(
        site=site,
        query=query,
        key=key,
        q=q,
        k=k,
        product=q.astype(np.float64) * k,
        steps=(),
        scores=attention.scores[head, query].astype(np.float64),
        weights=attention.weights[head, query],
        seen=visible(attention, head, trace.intervention)[query],
        notes=_notes(trace, attention, head),
    )
    steps = [*_score(trace, attention, made), *_weight(trace, made)]
    shown = float(made.weights[key])
    return replace(made, steps=tuple(_with_rest(steps, shown, _rounding(trace))))


def require_product(trace: Trace, block: str, layer: int, head: int) -> Attention:
    """Return the attention of one layer if its scores are products of captured q and k.

    Keys shared by heads (grouped queries) are repeated.

    Raises:
        LookupError: The trace lacks the map, layer or head.
        NoProduct: (a LookupError) There is no product to show.
    """
    attention = trace.block(block, layer)
    if not 0 <= head < len(attention.weights):
        raise LookupError(
            f"{block!r} L{layer} has heads 0 to {len(attention.weights) - 1}; got {head}."
        )
    kept, where = trace.manifest.get("keep", ()), f"{called(block)} L{layer}"
    parts = {"qkv": attention.v, "scores": attention.scores}
    missing = [part for part, array in parts.items() if array is None and part not in kept]
    if missing and trace.report.given:
        raise NoProduct(
            say(
                "q, k and the scores of {where} were not given: this run was made of arrays of "
                "weights, and from weights nobody can tell them.",
                where=where,
            )
        )
    if missing:
        raise NoProduct(
            say(
                "q, k and the scores of {where} were not kept in this run; trace it again with "
                'keep=("scores", "qkv").',
                where=where,
            )
        )
    if attention.q is None or attention.k is None:
        raise NoProduct(
            say(
                "The scores of {where} are no product of a query and a key: additive and location "
                "attention compare them in another way, so there is no q·k to show.",
                where=where,
            )
        )
    if attention.scores is None:
        raise NoProduct(
            say(
                "The weights of {where} are not made by a softmax of scores, so the steps from "
                "q·k to a weight cannot be told.",
                where=where,
            )
        )
    heads, rows, columns = attention.weights.shape
    q, k = _each_head(attention.q, heads), _each_head(attention.k, heads)
    if q.shape[:2] != (heads, rows) or k.shape[:2] != (heads, columns):
        raise NoProduct(
            say(
                "q and k of {where} stand in an order that is not known, so they cannot be shown.",
                where=where,
            )
        )
    return replace(attention, q=q, k=k)


def _each_head(vectors: np.ndarray, heads: int) -> np.ndarray:
    """Return one array per query head, ``[head, token, d_k]``, with shared keys repeated."""
    return vectors.repeat(heads // len(vectors), axis=0) if heads % len(vectors) == 0 else vectors


# ---- up to the score ----------------------------------------------------------------------------


def _score(trace: Trace, attention: Attention, at: QKSteps) -> list[Step]:
    """Return the steps from q·k to the softmax input."""
    assert attention.q is not None and attention.k is not None
    keys, key = len(at.weights), at.key
    dots = attention.k[at.site.head].astype(np.float64) @ at.q.astype(np.float64)
    scale, why = _scale(trace, attention, at)
    own, cap = dots * scale, attention.cap
    steps = [Step("dot", float(dots[key])), Step("scale", float(own[key]), scale, why=why)]
    if cap is not None:
        own = cap * np.tanh(own / cap)
        steps.append(Step("cap", float(own[key]), cap))
    plan = _plan(trace, at.site)
    complete = at.scores[:keys] * plan.divisor
    whole = _bias(trace, attention, at.site)
    bias = None if whole is None else whole[at.query]
    left = complete - own - (0.0 if bias is None else bias)
    steps += _sums(float(own[key]), at, bias, left, _slack(trace, attention, at, scale))
    if plan.edit(Temperature) is not None and plan.temperature:
        steps.append(Step("temperature", steps[-1].result / plan.divisor, plan.divisor))
    if not at.seen[key]:
        edit = plan.hidden_by(at.query, key)
        why = say("the model's own mask")
        if edit is not None:
            why = say("an edit: {change}", change=edit.change())
        steps.append(Step("mask", float(at.scores[key]), why=why))
    elif not at.seen.all():
        steps.append(Step("seen", steps[-1].result, float((~at.seen).sum())))
    return steps


def _scale(trace: Trace, attention: Attention, at: QKSteps) -> tuple[float, str]:
    """Return the factor of q·k, and its origin."""
    if attention.scale is not None:
        return attention.scale, scale_source(attention.scale, len(at.q))
    found = _fitted(trace, attention, at)
    if found is None:
        return 1.0, say("what the model multiplies with is not one number; see the other terms")
    return found, say("a number of the model's own, found from all scores of this head")


def scale_source(scale: float, width: int) -> str:
    """Return the origin of a scale if known: 1/√d_k, 1/√(3·d_k), 1, or another number."""
    if math.isclose(scale, 1.0, rel_tol=1e-6):
        return say(
            "nothing is multiplied here: this model has no scale, or has scaled q or k before"
        )
    root = 1 / scale**2 if scale > 0 else 0.0
    if math.isclose(root, width, rel_tol=1e-5):
        return say("1/√dₖ: dₖ, the width of q and k, is {width}", width=width)
    if root > 0.5 and math.isclose(root, round(root), rel_tol=1e-5):
        return say(
            "1/√{root}, the model's own choice; q and k have width {width}",
            root=round(root),
            width=width,
        )
    return say("a number of the model's own")


def _fitted(trace: Trace, attention: Attention, at: QKSteps) -> float | None:
    """Return the factor that maps q·k to a whole head's scores; None if there is none."""
    assert attention.q is not None and attention.k is not None and attention.scores is not None
    head = at.site.head
    assert head is not None
    q, k = (part[head].astype(np.float64) for part in (attention.q, attention.k))
    seen = visible(attention, head, trace.intervention)
    bias = _bias(trace, attention, at.site)
    whole = attention.scores[head, :, : len(k)] * _plan(trace, at.site).divisor
    complete = whole - (0.0 if bias is None else bias)
    dots, scores = (q @ k.T)[seen], complete[seen]
    if not dots.any():
        return None
    scale = float(dots @ scores / (dots @ dots))
    close = np.abs(scores - scale * dots).max() <= _rounding(trace) * np.abs(scores).max()
    return scale if close else None


def _bias(trace: Trace, attention: Attention, site: Site) -> np.ndarray | None:
    """Return the captured bias of a head ``[query, key]``."""
    found = trace.positions.get(f"bias.{site.map}.{site.layer}")
    if found is None or site.head is None:
        return None
    rows, columns = attention.weights.shape[1:]
    return found[site.head, :rows, :columns].astype(np.float64)


def _sums(
    start: float, at: QKSteps, bias: np.ndarray | None, left: np.ndarray, bound: float
) -> list[Step]:
    """Return the terms added to the scaled product; for a masked cell only captured ones."""
    steps, key = [], at.key
    if bias is not None:
        start += float(bias[key])
        steps.append(Step("bias", start, float(bias[key])))
    rest = left[at.seen]
    if not at.seen[key] or np.abs(rest).max() <= bound:
        return steps
    shared = np.ptp(rest) <= bound  # no effect on the softmax
    amount = float(left[key])
    return [*steps, Step("row" if shared else "other", start + amount, amount)]


def _slack(trace: Trace, attention: Attention, at: QKSteps, scale: float) -> float:
    """Return the rounding tolerance of a row's scores, relative to the largest term."""
    assert attention.k is not None
    sizes = np.abs(attention.k[at.site.head].astype(np.float64)) @ np.abs(at.q.astype(np.float64))
    scores = at.scores[: len(at.seen)][at.seen]
    largest = max(abs(scale) * float(sizes.max()), float(np.abs(scores).max(initial=0.0)))
    return _rounding(trace) * largest


# ---- from the score to the weight ---------------------------------------------------------------


def _weight(trace: Trace, at: QKSteps) -> list[Step]:
    """Return the softmax over the row, or its replacement by an edit; and a scaled head."""
    plan = _plan(trace, at.site)
    steps = [_softmax(plan, at)]
    if plan.edit(ScaleHead) is not None:
        steps.append(Step("head", steps[-1].result * plan.gain, plan.gain))
    return steps


def _softmax(plan: HeadPlan, at: QKSteps) -> Step:
    parts, most = at.exponentials, float(at.scores.max())
    if not at.seen.any() and not at.weights.any():
        return Step("nothing", 0.0)
    if plan.uniform and at.seen.any():
        count = int(at.seen.sum()) + len(at.scores) - len(at.weights)
        return Step("even", float(at.seen[at.key]) / count, float(count))
    if plan.hard and at.seen.any():
        return Step("hard", float(at_largest(at.scores)[at.key]), most=most)
    total = float(parts.sum())
    return Step("softmax", float(parts[at.key]) / total, total, most)


def _with_rest(steps: list[Step], weight: float, rounding: float) -> list[Step]:
    """Return the steps to the weight in the map, with the remainder as last step."""
    difference = weight - steps[-1].result
    if not abs(difference) > rounding:  # also for NaN
        return steps
    return [*steps, Step("after", weight, difference)]


# ---- what is true of the run --------------------------------------------------------------------


def _rounding(trace: Trace) -> float:
    return ROUNDING.get(str(trace.manifest.get("dtype", "float32")), ROUNDING["float32"])


def _plan(trace: Trace, site: Site) -> HeadPlan:
    """Return the edits of a head."""
    return HeadPlan.at(trace.intervention, site)


def _notes(trace: Trace, attention: Attention, head: int) -> tuple[str, ...]:
    """Return notes on q and k: rotation by positions, and heads that share keys."""
    assert attention.k is not None
    notes, site = [], attention.site
    if site.block == "self" and f"rotary.{site.stack}" in trace.positions:
        notes.append(
            say(
                "This model turns q and k by their positions (rotary); they are shown as they are "
                "multiplied, after that."
            )
        )
    same = [n for n, k in enumerate(attention.k) if np.array_equal(k, attention.k[head])]
    if len(same) > 1:
        heads = ", ".join(f"H{n}" for n in same)
        notes.append(
            say(
                "k is the same for {heads}: these heads share their keys (grouped queries).",
                heads=heads,
            )
        )
    return tuple(notes)


if not TYPE_CHECKING:  # until the next minor release
    __getattr__ = renamed(__name__, {"Chain": "QKSteps"})
