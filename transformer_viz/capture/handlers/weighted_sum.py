"""Weights times v: the weights as multiplied are the attention that the model used (rule 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...core.apply_edits import Plan
from .. import torch_calls
from ..attention_site import (
    begin,
    heads_of,
    keep,
    own_copy,
    plan_of,
    positions_of,
    repeated,
    vectors,
)
from ..axes.atoms import FEATURES, ITEMS, Axes, kind_of, letters
from ..axes.layout import Layout
from ..axes.product_labels import contracted, operands, value_labels
from ..donations import PATTERNS
from ..records import AttentionRecord
from ..roles import Context, Scores, Weights
from ..score_scale import scale_of
from ..site_numbering import Seen
from ..state import CaptureState
from ..statistics import Statistics
from ..tiles import Factors, confirmed, fits
from ..torch_calls import Args, Kwargs, swap
from . import lend
from .softmax import edited

LENT = "weights of another run stand in the place of its own"


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
    """Handle a product of weights and v: attention, if it sums over the keys of the weights."""
    if not state.lineage.origin(v) and role.site is not None and not state.lineage.axes(v):
        return mixed(state, func, args, kwargs, role, p)
    labels = contracted(func, args, kwargs, role.labels, p, v)
    if labels is None:
        return mixed(state, func, args, kwargs, role, p)
    sides = value_labels(func, args, kwargs, labels, p, v)

    def call(weights: Tensor, values: Tensor) -> Any:
        by = {id(p): weights, id(v): values}
        words = {word: x for word, x in kwargs.items() if word != "out" or weights.dtype == x.dtype}
        return func(*swap(args, by), **swap(words, by))

    ones = ones_column(v, sides) if form == "custom" else None
    if ones is not None:
        return weigh_joined(state, role, labels, sides, p, v, call, ones)
    return weigh(state, role, labels, sides, p, v, call, state.lineage.axes(p), form)


def weigh(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    sides: tuple[str, ...] | None,
    p: Tensor,
    v: Tensor,
    call: Callable[[Tensor, Tensor], Any],
    axes: Axes | None,
    form: str = "softmax",
) -> Any:
    """Handle weights times v, recording the weights as multiplied.

    ``call`` computes the product. ``labels`` name the dimensions of the weights, ``sides`` those of
    v.
    """
    if p.is_complex():
        return weigh_complex(state, role, labels, sides, p, v, call, axes, form)
    record, given = role.site, p
    made = state.lineage.serial(p) if form == "custom" else 0
    if record is None:
        if not attends(state, role, labels, sides, p, v, form):
            return state.lineage.propagate(call(p, v), [p, v])
        record, layout, p = found(state, role, labels, p, v, form, axes)
    else:
        heads = record.heads if "bh" in labels else None
        layout = Layout(labels, tuple(p.shape), heads, axes)
        same_heads(role, record, layout)
        if role.plan is not None:
            p = layout.original(role.plan.scaled(layout.canonical(p)))
    weights = layout.canonical(p)
    lent = lend.patterns(state, record, weights)
    if lent is not None:
        weights, p = lent, layout.original(lent).to(p.dtype)
    used = p
    if state.request.gradients:
        record.leaves = (torch.zeros_like(weights, requires_grad=True),)
        used = layout.original(weights + record.leaves[0])
    out = lend.product(state, record, layout, v, call, call(used, v))
    record.form = form
    state.open.pop(role.path, None)
    state.unconfirmed.pop(id(record), None)
    record = confirm(state, record, weights)
    if state.request.qkv(record.site):
        record.v = own_copy(vectors(state, v, sides, record.heads))
    if state.request.check and not v.is_complex():
        captured = layout.original(record.weights if record.weights is not None else weights)
        record.proof = call(captured.double(), v.detach().double())
    context = Context(record, made=made, edited=made > 0 and used is not given)
    return state.lineage.propagate(out, [p, v], context, deeper=1, tokens=rows_of(state, role, v))


def weigh_complex(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    sides: tuple[str, ...] | None,
    p: Tensor,
    v: Tensor,
    call: Callable[[Tensor, Tensor], Any],
    axes: Axes | None,
    form: str,
) -> Any:
    """Multiply weights of a complex type with v; they need a zero imaginary part to be recorded."""
    mark = state.lineage.mark(p)
    if mark is None or bool(p.imag.any()):
        state.say_unrecognised(
            f"the weights of the attention in {role.path or 'this module'} are complex numbers, of "
            "which there is no map"
        )
        state.open.pop(role.path, None)
        return state.lineage.propagate(call(p, v), [p, v])
    real = p.real.clone()
    state.lineage.attach(real, replace(mark))

    def product(weights: Tensor, values: Tensor) -> Any:
        return call(weights.to(values.dtype), values)

    return weigh(state, role, labels, sides, real, v, product, axes, form)


def ones_column(v: Tensor, sides: tuple[str, ...] | None) -> int | None:
    """Return the feature of v that is 1 for every token, whose product sums the weights."""
    if sides is None or sides[-1] != "k" or v.shape[-1] < 2 or v.is_complex():
        return None
    found = (v == 1).flatten(0, -2).all(0).nonzero().flatten().tolist()
    return found[0] if len(found) == 1 else None


def weigh_joined(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    sides: tuple[str, ...] | None,
    p: Tensor,
    v: Tensor,
    call: Callable[[Tensor, Tensor], Any],
    ones: int,
) -> Any:
    """Multiply weights that a column of ones in v divides afterwards; record them divided."""
    mark = state.lineage.mark(p)
    whole = p / p.sum(labels.index("k"), keepdim=True)
    assert mark is not None
    state.lineage.attach(whole, replace(mark))

    def product(weights: Tensor, values: Tensor) -> Any:
        if weights is whole:
            return call(p, values)
        out = call(weights, values)
        out[..., ones] = 1.0  # edited weights are not to be divided again
        return out

    axes = state.lineage.axes(p)
    out = weigh(state, role, labels, sides, whole, v, product, axes, "custom")
    found = state.lineage.role(out)
    if isinstance(found, Context):
        state.undivided[id(found.record)] = found.record, out[..., ones].detach().clone()
    return out


def same_heads(role: Weights, record: AttentionRecord, layout: Layout) -> None:
    """Set the heads to those of the product; the softmax may have had others.

    Raises:
        ValueError: An edit was made there.
    """
    heads, keys = layout.sizes[1], layout.sizes[3]
    if role.plan is not None and (heads != record.heads or keys > record.shape[1]):
        raise ValueError(
            f"The attention in {record.path or 'this module'} has other heads or keys at its "
            f"softmax ({record.heads} heads) than where its weights meet the values ({heads}), so "
            "no edit can be made there."
        )
    record.heads = heads


def rows_of(state: CaptureState, role: Weights, v: Tensor) -> frozenset[int]:
    """Return the sequences of the rows of weights times v: those of the queries."""
    if role.scores.q is not None:
        return state.lineage.tokens(role.scores.q)
    made, values = state.lineage.tokens(role.given), state.lineage.tokens(v)
    return (made - values) or made


def confirm(state: CaptureState, record: AttentionRecord, weights: Tensor) -> AttentionRecord:
    """Add the attention with requested statistics and matrices; return its record."""
    if state.request.statistics:
        offset = record.offset - record.first_key
        statistics = Statistics(weights.shape[2], weights.shape[3], offset)
        statistics.add(weights, 0)
        record.measured(statistics)
    record.shape = (weights.shape[2], weights.shape[3])
    if record.draft is not None:
        lent = state.giving.of(PATTERNS, record.site)
        found = LENT if lent else confirmed(record, record.draft, weights)
        record.draft = None
        if isinstance(found, Factors):
            record.tiles = (found,)
        else:
            record.untiled = found
    held = finish(state, record, weights, sign_of(state, weights))
    if held is record:
        record.weights = own_copy(record.weights)
    return held


def sign_of(state: CaptureState, weights: Tensor) -> Tensor | None:
    """Return one number per row as a fingerprint of weights, if nothing else of them is kept."""
    if state.request.statistics:
        return None
    like = weights.shape[-1], weights.dtype, weights.device
    if like not in state.powers:
        state.powers[like] = torch.logspace(0, 1, like[0], dtype=like[1], device=like[2])
    return (weights.detach() * state.powers[like]).sum(-1)


def finish(
    state: CaptureState, record: AttentionRecord, weights: Tensor | None, sign: Any
) -> AttentionRecord:
    """Complete an attention: add its record to the capture, and return the record that holds it."""
    wanted = state.request.weights(record.site) or state.request.check
    if weights is not None and (wanted or (record.untiled and fits(record.heads, *record.shape))):
        record.weights = weights.detach()
    state.numbering.last[record.stack, record.kind].confirmed = True
    record = repeated(state, record, sign)
    state.capture.attentions.append(record)
    return record


def mixed(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, role: Weights, p: Tensor
) -> Any:
    """Handle weights times parameters: heads are mixed, and stay weights."""
    out, given = func(*args, **kwargs), operands(args, kwargs)
    labels = role.labels
    if func in torch_calls.EINSUM and labels is not None and len(given) == 2:
        written = letters(args[0], tuple(x.dim() for x in given))
        mine = written[0 if given[0] is p else 1] if written else ""
        names = dict(zip(mine, labels, strict=False))
        gone = [names[c] for c in mine if written and c not in written[-1]]
        made = [names[c] if c in names else (*gone, "h")[0] for c in (written or ("",))[-1]]
        labels = tuple(made) if "q" in made and "k" in made else None
    elif labels is None or out.shape[:-1] != p.shape[:-1] or labels[-1] in ("q", "k"):
        labels = None
    kept = None if labels is None else replace(role, labels=labels, same=False)
    return state.lineage.propagate(out, given, kept)


def attends(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    sides: tuple[str, ...] | None,
    p: Tensor,
    v: Tensor,
    form: str,
) -> bool:
    """Return True if a softmax of no q·k mixes tokens.

    Queries and keys must be token axes of the inputs of scores and values, unlike experts.
    """
    if form == "custom":
        return True
    lineage, scores = state.lineage, role.scores
    key, summed = labels.index("k"), lineage.axes(v)
    kind = None if summed is None or sides is None else kind_of(summed[sides.index("q")])
    if kind == FEATURES:
        state.capture.others[role.path, p.shape[key]] = "over features"
        return False
    if scores.q is not None:  # a product, of learned queries or keys
        return kind == ITEMS
    made = lineage.axes(p)
    if made is not None and kind_of(made[labels.index("q")]) == FEATURES:
        state.capture.others[role.path, p.shape[key]] = "of features over tokens"
        return False
    one = p.shape[labels.index("q")] == 1
    if kind == ITEMS and one and p.shape[key] in lineage.token_lengths(lineage.origin(v)):
        return True  # a single query for a sentence: a state, or a pool
    origin, values = lineage.origin(role.given), lineage.origin(v)
    lengths, keys = (lineage.token_lengths(streams) for streams in (origin or values, values))
    given = role.given
    grown = given.dim() < p.dim() and one and given.shape[-2] > 1
    if grown:  # a single query per token: a gate over something other than a sentence
        return False
    return p.shape[labels.index("q")] in lengths and p.shape[key] in keys


def found(
    state: CaptureState,
    role: Weights,
    labels: tuple[str, ...],
    p: Tensor,
    v: Tensor,
    form: str,
    axes: Axes | None,
) -> tuple[AttentionRecord, Layout, Tensor]:
    """Return the site of an attention found only at its product, with its edits applied."""
    path = state.names.path()
    scores = role.scores
    product = form == "custom" or scores.q is not None
    q_origin = scores.q_origin if product else state.lineage.origin(role.given)
    heads = heads_of(state, path, labels, p, q_origin)
    layout = Layout(labels, tuple(p.shape), heads, axes)
    keys = p.shape[labels.index("k")]
    given = role.given if role.given.shape == p.shape and form != "custom" else p
    hidden = Seen.all(layout.canonical(p)[0, 0] == 0)
    pair = (scores.q, scores.k) if product else (given, v)
    record = begin(state, path, q_origin, scores.depth, layout, given, keys, pair, hidden)
    plan = plan_of(state, record)
    if plan is not None:
        changed, weights = rebuilt(state, plan, layout, role, p, record, form)
        given = given if changed is None else changed
        p = layout.original(weights).to(p.dtype)
    keep(state, record, layout, None if form == "custom" else given, scores, plan)
    return record, layout, p


def exponential(state: CaptureState, role: Scores, weights: Tensor, layout: Layout) -> bool:
    """Return True if weights are exponentials of scores per row (or cannot be recomputed)."""
    if role.q is None or role.k is None or bool((weights < 0).any()):
        return False
    if bool((weights == 0).any()) and not role.exponential:
        return False
    scale, cap = scale_of(role)
    if scale is None or cap is not None or role.bias is not None:
        return True
    if role.q.dim() < 2 or role.q.shape[-1] != role.k.shape[-2]:
        return True
    scores = layout.canonical(role.q.detach() @ role.k.detach()) * scale
    left = weights.detach().log() - scores
    return bool((left - left.mean(-1, keepdim=True)).abs().max() < 1e-2)


def rebuilt(
    state: CaptureState,
    plan: Plan,
    layout: Layout,
    role: Weights,
    p: Tensor,
    record: AttentionRecord,
    form: str,
) -> tuple[Tensor | None, Tensor]:
    """Return edited scores (module's layout, or None) and weights of a product's attention.

    Raises:
        ValueError: The weights were changed between softmax and product, so the softmax cannot be
            repeated; names the module.
    """
    weights = layout.canonical(p)
    if form == "custom":
        base = role.scores.base
        unmasked = weights if base is None else layout.canonical(base)
        places = positions_of(record, p.device)
        form_of = exponential(state, role.scores, unmasked, layout)
        return None, plan.custom(weights, unmasked, places, record.path, form_of)
    if plan.shapes_scores:
        if role.given.shape != p.shape or not role.same:
            raise ValueError(
                f"The attention in {record.path or 'this module'} changes its weights after the "
                "softmax, so temperature and masks cannot be applied there. Heads can be scaled."
            )
        given, weights = edited(state, plan, layout, role.scores, role.given, record)
        return given, plan.scaled(weights)
    return None, plan.scaled(weights)
