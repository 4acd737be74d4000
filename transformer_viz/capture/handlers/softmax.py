"""Softmax of scores, which is attention: its site, its edits, and the data kept (rule 2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from ...core.apply_edits import Plan
from ...core.numerics import VERY_LOW
from ..attention_site import begin, heads_of, keep, plan_of, positions_of, say_unsure
from ..axes.atoms import FEATURES, ITEMS, kind_of
from ..axes.layout import Layout, oriented
from ..records import AttentionRecord
from ..roles import Located, Scores, Weights
from ..state import CaptureState
from ..torch_calls import Args, Kwargs


def on_softmax(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle a softmax: of scores it is attention; of other tensors it may be."""
    x = args[0] if args else kwargs["input"]
    if state.names.outside():
        state.outside += 1
        return state.call(func, args, kwargs)
    role = state.lineage.role(x)
    if not isinstance(role, Scores) or role.loose:
        return maybe_attention(state, func, args, kwargs, x)
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    if role.folded is not None and dim in (-1, x.dim() - 1):
        return unfolded(state, func, args, kwargs, x, role.folded[0])
    labels = oriented(role.labels, x.dim(), -1 if dim is None else dim)
    if features(state, x, labels):
        return state.lineage.propagate(func(*args, **kwargs), [x])
    if labels is None:
        where = state.names.path() or "the model"
        state.capture.unrecognised.append(f"a softmax in {where}: unknown layout")
        return state.lineage.propagate(func(*args, **kwargs), [x])
    if role.labels is not None and labels != role.labels:  # the product was k times q
        role = turned(role)
    return attention(state, func, args, kwargs, x, role, labels)


def unfolded(
    state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor, shape: tuple[int, ...]
) -> Any:
    """Handle the softmax of rows on one axis as that of the scores before reshaping."""

    def viewed(x: Tensor, shape: tuple[int, ...]) -> Tensor:
        out = state.call(torch.reshape, (x, shape), {})
        state.lineage.name_axes(out, torch.reshape, (x, shape), {})
        return cast(Tensor, out)

    rest = {name: value for name, value in kwargs.items() if name not in ("input", "dim")}
    whole = (viewed(x, shape), -1, *args[2:])
    return viewed(on_softmax(state, func, whole, rest), tuple(x.shape))


def on_softmin(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle ``softmin`` as the softmax of the negated scores."""
    x = args[0] if args else kwargs["input"]
    negated = state.call(torch.neg, (x,), {})
    state.lineage.name_axes(negated, torch.neg, (x,), {})
    rest = {name: value for name, value in kwargs.items() if name != "input"}
    return on_softmax(state, torch.nn.functional.softmax, (negated, *args[1:]), rest)


def on_log_softmax(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Handle the logarithm of weights of scores: ``exp`` turns them into weights again."""
    x = args[0] if args else kwargs["input"]
    if not isinstance(state.lineage.role(x), Scores | Located):
        return state.call(func, args, kwargs)
    weights = on_softmax(state, torch.nn.functional.softmax, args, kwargs)
    role = state.lineage.role(weights)
    if not isinstance(role, Weights):
        return state.call(func, args, kwargs)
    out = func(*args, **kwargs) if role.plan is None else weights.log()
    return state.lineage.propagate(out, [x], replace(role, same=False))


def on_sparse_softmax(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Report the softmax of a sparse tensor, whose axes cannot be followed."""
    state.say_unrecognised(
        f"a sparse softmax in {state.names.path() or 'the model'} is not shown, and no edit acts "
        "there: torch.softmax of the dense scores is"
    )
    return state.call(func, args, kwargs)


def features(state: CaptureState, x: Tensor, labels: tuple[str, ...] | None) -> bool:
    """Return True if the softmax is over a product of features (channel attention)."""
    axes = state.lineage.axes(x)
    if axes is None or labels is None:
        return False
    if any(kind_of(axes[labels.index(name)]) != FEATURES for name in "qk"):
        return False
    where = state.names.path() or "the model"
    state.capture.others[state.names.path(), x.shape[labels.index("k")]] = "over features"
    state.capture.unrecognised.append(
        f"a softmax in {where}: its rows and columns are features, not tokens"
    )
    return True


def maybe_attention(state: CaptureState, func: Any, args: Args, kwargs: Kwargs, x: Tensor) -> Any:
    """Handle a softmax of no q·k: `weighted_sum.py` decides when it meets values."""
    lineage = state.lineage
    out, role, path = func(*args, **kwargs), lineage.role(x), state.names.path()
    if x.dim() < 2:
        return lineage.propagate(out, [x])
    axes, dim = lineage.axes(x), args[1] if len(args) > 1 else kwargs.get("dim", -1)
    over = None if axes is None or not isinstance(dim, int) else kind_of(axes[dim])
    if x.dim() > 3 or over == ITEMS:
        state.open[path] = None
    if isinstance(role, Located):
        made = role.scores
        role = made if made and made.labels and len(made.labels) == x.dim() else None
    scores = role if isinstance(role, Scores) else Scores(depth=lineage.depth(x))
    return lineage.propagate(out, [x], Weights(scores, x, None, path=path))


def attention(
    state: CaptureState,
    func: Any,
    args: Args,
    kwargs: Kwargs,
    x: Tensor,
    role: Scores,
    labels: tuple[str, ...],
) -> Any:
    """Handle the weights of q·k: find their site, apply its edits, keep the requested data."""
    path = state.names.path()
    state.open[path] = None
    axes, key, given = state.lineage.axes(x), labels.index("k"), x
    if role.front:
        x, role = sinks_last(x, role, key)
    layout = Layout(labels, tuple(x.shape), heads_of(state, path, labels, x, role.q_origin), axes)
    keys = keys_of(role, x, labels)
    record = begin(state, path, role.q_origin, role.depth, layout, x, keys, (role.q, role.k))
    plan, scores = plan_of(state, record), x
    if plan is not None:
        state.unconfirmed[id(record)] = path
    if plan is not None and plan.shapes_scores:  # temperature, masks and uniform heads
        scores, weights = edited(state, plan, layout, role, x, record)
        say_unsure(state, plan, path)
        out = layout.original(weights).to(out_type(func, args, kwargs, x))
        out = out.roll(role.front, key) if role.front else out
        out = out if kwargs.get("out") is None else kwargs["out"].copy_(out)
    else:
        scores = x if kwargs.get("out") is None else x.clone()  # it may be overwritten
        out = func(*args, **kwargs)
    keep(state, record, layout, scores, role, plan)
    weights_role = Weights(role, given, labels, record, path=path, plan=plan)
    return state.lineage.propagate(out, [given], weights_role)


def sinks_last(x: Tensor, role: Scores, key: int) -> tuple[Tensor, Scores]:
    """Return scores with the sink columns moved from before the keys to after them."""

    def turned_round(x: Tensor | None) -> Tensor | None:
        return x if x is None or x.shape[key] == 1 else x.roll(-role.front, key)

    twins = (turned_round(y) for y in (role.base, role.hidden, role.bias))
    base, hidden, bias = twins
    return x.roll(-role.front, key), replace(role, base=base, hidden=hidden, bias=bias)


def turned(role: Scores) -> Scores:
    """Return scores of keys times queries with the names exchanged."""
    return replace(
        role,
        q=role.k,
        k=role.q,
        q_labels=role.k_labels,
        k_labels=role.q_labels,
        q_origin=role.k_origin,
        k_origin=role.q_origin,
    )


def out_type(func: Any, args: Args, kwargs: Kwargs, x: Tensor) -> torch.dtype:
    """Return the type that the model's own softmax would give."""
    asked = kwargs.get("dtype") or next((a for a in args if isinstance(a, torch.dtype)), None)
    return asked or x.dtype


def keys_of(role: Scores, x: Tensor, labels: tuple[str, ...]) -> int:
    """Return the number of keys that are tokens: those of the product; the rest are sinks."""
    size = x.shape[labels.index("k")]
    if role.k is None or role.k_labels is None:
        return size
    return min(size, role.k.shape[role.k_labels.index("q")])


def edited(
    state: CaptureState,
    plan: Plan,
    layout: Layout,
    role: Scores,
    x: Tensor,
    record: AttentionRecord,
) -> tuple[Tensor, Tensor]:
    """Return edited scores (module's layout) and weights ``[batch, head, query, key]``.

    `Plan.softmax` gets the scores with and without the model's masks.
    """
    given = layout.canonical(x)
    base = given if role.base is None else layout.canonical(role.base)
    told = None if role.hidden is None else layout.canonical(role.hidden.expand(x.shape))
    scores, weights = weighed(plan, base, given, told, record)
    return layout.original(scores), weights


def weighed(
    plan: Plan, base: Tensor, given: Tensor, told: Tensor | None, record: AttentionRecord
) -> tuple[Tensor, Tensor]:
    """Return edited scores and weights ``[batch, head, query, key]``.

    Args:
        plan: Edits of the attention.
        base: Scores without the model's masks.
        given: Scores with them.
        told: Cells known to be hidden, bool; very low scores are hidden too.
        record: Gives the positions of queries and keys.
    """
    hidden = given <= max(VERY_LOW, torch.finfo(given.dtype).min / 2)
    if told is not None:
        hidden = hidden | told
    columns = hidden.all(-2, keepdim=True)
    queries = positions_of(record, given.device)
    return plan.softmax(base, given, hidden, columns, queries, record.shape[1])
