"""Weights times v: the weights as multiplied are the attention that the model used (rule 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import torch_calls
from ..attention_site import begin, heads_of, keep, plan_of, positions_of, vectors
from ..axes.layout import Layout, oriented
from ..edit_plan import Plan
from ..records import AttentionRecord
from ..roles import Context, Weights
from ..state import CaptureState
from ..statistics import Statistics
from ..torch_calls import Args, Kwargs, swap, tensors
from .softmax import edited


def gather(
    state: CaptureState,
    func: Any,
    args: Args,
    kwargs: Kwargs,
    role: Weights,
    p: Tensor,
    v: Tensor,
    form: str = "softmax",
) -> Any:
    """Weights times v: the weights as multiplied are the attention that the model used."""
    labels = contracted(func, args, kwargs, role.labels, p, v)
    if labels is None or (role.site is None and not attends(state, role, labels, p, v, form)):
        return state.call(func, args, kwargs)
    sides = value_labels(func, args, kwargs, labels, p)
    record = role.site
    if record is None:
        record, layout, p, args, kwargs = found(state, role, labels, p, v, form, args, kwargs)
    else:
        heads = record.heads if "bh" in labels else None
        layout = Layout(labels, tuple(p.shape), heads, state.lineage.axes(p))
    weights, used = layout.canonical(p), p
    if state.request.gradients:
        record.leaves = (torch.zeros_like(weights, requires_grad=True),)
        used = layout.original(weights + record.leaves[0])
        args, kwargs = swap(args, {id(p): used}), swap(kwargs, {id(p): used})
    out = func(*args, **kwargs)
    record.form = form
    state.open.pop(role.path, None)
    confirm(state, record, weights)
    if state.request.qkv(record.site):
        record.v = vectors(state, v, sides, record.heads)
    if state.request.check:
        captured = layout.original(record.weights if record.weights is not None else weights)
        exact = {id(used): captured.double(), id(v): v.detach().double()}
        record.proof = func(*swap(args, exact), **swap(kwargs, exact))
    return state.lineage.propagate(out, [p, v], Context(record), deeper=1)


def confirm(state: CaptureState, record: AttentionRecord, weights: Tensor) -> None:
    """Take the attention into the capture: statistics and matrices as asked for."""
    if state.request.statistics:
        offset = record.offset - record.first_key
        statistics = Statistics(weights.shape[2], weights.shape[3], offset)
        statistics.add(weights, 0)
        record.measured(statistics)
    record.shape = (weights.shape[2], weights.shape[3])
    finish(state, record, weights)


def finish(state: CaptureState, record: AttentionRecord, weights: Tensor | None) -> None:
    """The last step of every attention: it counts from now on, and the next one gets a place."""
    if weights is not None and (state.request.weights(record.site) or state.request.check):
        record.weights = weights.detach()
    state.numbering.last[record.stack, record.kind].confirmed = True
    state.capture.attentions.append(record)


def contracted(
    func: Any, args: Args, kwargs: Kwargs, labels: tuple[str, ...] | None, p: Tensor, v: Tensor
) -> tuple[str, ...] | None:
    """Labels of the weights, if this product really sums over their keys; else None."""
    if func in torch_calls.EINSUM:
        return einsum_weights(args[0], labels, tensors(args, kwargs)[0] is p)
    left = tensors(args, kwargs)[-2] is p
    if p.dim() < 3 or v.dim() != p.dim():
        return None
    labels = oriented(labels, p.dim(), -1 if left else -2)
    return labels if labels and p.shape[-1 if left else -2] == v.shape[-2 if left else -1] else None


def value_labels(
    func: Any, args: Args, kwargs: Kwargs, labels: tuple[str, ...], p: Tensor
) -> tuple[str, ...] | None:
    """Labels of v: its token axis is the one that is summed over."""
    first = tensors(args, kwargs)[-2] is not p  # whether v is the left factor
    if func not in torch_calls.EINSUM:
        return (*labels[:-2], "k", "q") if first else (*labels[:-2], "q", "k")
    left = args[0].replace(" ", "").partition("->")[0].split(",")
    mine, other = left if first else reversed(left)
    names = dict(zip(other, labels, strict=True))
    found = tuple("k" if c not in names else "q" if names[c] == "k" else names[c] for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None


def einsum_weights(
    equation: str, labels: tuple[str, ...] | None, first: bool
) -> tuple[str, ...] | None:
    """Labels of the weights in an einsum: the summed letter is the key, their own the query."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow or "." in equation or left.count(",") != 1:
        return None
    mine, other = left.split(",") if first else reversed(left.split(","))
    key = [c for c in mine if c in other and c not in result]
    query = [c for c in mine if c in result and c not in other]
    shared = [c for c in mine if c in result and c in other]
    if len(key) != 1 or len(query) != 1:
        return None
    if labels is not None and labels[mine.index(key[0])] == "k" and len(labels) == len(mine):
        return labels
    usual = {1: ("b",), 2: ("b", "h"), 3: ("b", "g", "h")}.get(len(shared))
    if usual is None:
        return None
    names = dict(zip(shared, usual, strict=True)) | {query[0]: "q", key[0]: "k"}
    return tuple(names[c] for c in mine)


def attends(
    state: CaptureState, role: Weights, labels: tuple[str, ...], p: Tensor, v: Tensor, form: str
) -> bool:
    """Whether a softmax of something that is no q·k mixes tokens: its queries and keys must be
    token axes of the streams that scores and values come from. A router's experts are not."""
    if form == "custom":
        return True
    origin, values = state.lineage.origin(role.given), state.lineage.origin(v)
    lengths, keys = (state.lineage.token_lengths(streams) for streams in (origin, values))
    given = role.given
    grown = given.dim() < p.dim() and p.shape[labels.index("q")] == 1 and given.shape[-2] > 1
    if grown:  # one query was made for each token: a gate over something that is no sentence
        return False
    return p.shape[labels.index("q")] in lengths and p.shape[labels.index("k")] in keys


def found(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    p: Tensor,
    v: Tensor,
    form: str,
    args: Args,
    kwargs: Kwargs,
) -> tuple[AttentionRecord, Layout, Tensor, Any, Any]:
    """An attention that only its product gives away: place it now, and apply its edits now."""
    path = state.names.path()
    scores = role.scores
    q_origin = scores.q_origin if form == "custom" else state.lineage.origin(role.given)
    k_origin = scores.k_origin if form == "custom" else state.lineage.origin(v)
    heads = heads_of(state, path, labels, p, q_origin)
    layout = Layout(labels, tuple(p.shape), heads, state.lineage.axes(p))
    keys = p.shape[labels.index("k")]
    given = role.given if role.given.shape == p.shape and form != "custom" else p
    hidden = layout.canonical(p)[0, 0] == 0
    record = begin(
        state, path, q_origin, k_origin, scores.depth, layout, given, keys, (given, v), hidden
    )
    plan = plan_of(state, record)
    if plan is not None:
        changed, weights = rebuilt(state, plan, layout, role, p, record, form)
        given = given if changed is None else changed
        edited_p = layout.original(weights).to(p.dtype)
        args, kwargs = swap(args, {id(p): edited_p}), swap(kwargs, {id(p): edited_p})
        p = edited_p
    keep(state, record, layout, None if form == "custom" else given, scores)
    return record, layout, p, args, kwargs


def rebuilt(
    state: CaptureState,
    plan: Plan,
    layout: Layout,
    role: Weights,
    p: Tensor,
    record: AttentionRecord,
    form: str,
) -> tuple[Tensor | None, Tensor]:
    """The edited scores (in the module's own layout; None where no edit is of the scores) and the
    edited weights ``[batch, head, query, key]`` of an attention found at its product.

    Raises:
        ValueError: the weights were changed between softmax and product, so that the softmax
            cannot be run again; names the module.
    """
    weights = layout.canonical(p)
    if form == "custom":
        base = role.scores.base
        unmasked = weights if base is None else layout.canonical(base)
        made = plan.custom(weights, unmasked, positions_of(record, p.device), record.path)
        return None, made
    if plan.shapes_scores:
        if role.given.shape != p.shape or not role.same:
            raise ValueError(
                f"The attention in {record.path or 'this module'} reshapes its weights after the "
                "softmax, so temperature and masks cannot be applied there. Heads can be scaled."
            )
        given, weights = edited(state, plan, layout, role.scores, role.given, record)
        return given, plan.scaled(weights)
    return None, plan.scaled(weights)
