"""Attention as the mode meets it: q times k, masks, softmax, weights times v (rules 1 to 10)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from . import calls
from .layout import (
    Layout,
    einsum_factor,
    einsum_labels,
    factor_labels,
    matmul_labels,
    oriented,
)
from .marks import MASK, Context, Ids, Located, Mark, Scores, Weights, split_mask
from .mode import Mode, in_place, swap, tensors
from .plan import Plan, matching
from .positions import biased, filled
from .proof import project
from .run import AttentionRecord
from .statistics import Statistics


def operands(args: tuple[Any, ...], kwargs: dict[str, Any], first: int = 0) -> list[Tensor]:
    """The two factors of a product, wherever they stand."""
    return [x for x in tensors(args[first:], kwargs)][:2]


def on_matmul(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return product(mode, func, args, kwargs, operands(args, kwargs))


def on_einsum(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    pair = tensors(args, kwargs)
    if len(pair) != 2:
        return mode.plain(func, args, kwargs)
    return product(mode, func, args, kwargs, pair)


def product(mode: Mode, func: Any, args: Any, kwargs: Any, pair: list[Tensor]) -> Any:
    """A product: weights x v, a projection of heads, the start of scores, or nothing to us."""
    if len(pair) < 2:
        return mode.plain(func, args, kwargs)
    roles = [mode.role(x) for x in pair]
    for role, p, v in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Weights):
            return gather(mode, func, args, kwargs, role, p, v)
    for role, x, other in ((roles[0], *pair), (roles[1], pair[1], pair[0])):
        if isinstance(role, Context) and not mode.origin(other):
            return project(mode, func, args, kwargs, x, role)
    if isinstance(roles[0], Scores) and not roles[0].loose and custom(mode, roles[0], *pair):
        role = Weights(roles[0], pair[0], roles[0].labels)
        return gather(mode, func, args, kwargs, role, *pair, form="custom")
    out = func(*args, **kwargs)
    if not isinstance(out, Tensor) or out.dim() < 3:
        return mode.follow(out, func, args, kwargs)
    constants = [x for x in pair if not mode.origin(x)]
    if constants:
        made = len(constants) == 1 and not isinstance(constants[0], nn.Parameter)
        return mode.put(out, pair, Located()) if made else mode.follow(out, func, args, kwargs)
    return mode.put(out, pair, started(mode, func, args, pair, out))


def started(mode: Mode, func: Any, args: Any, pair: list[Tensor], out: Tensor) -> Scores:
    """A product of two activations may be scores."""
    q, k = pair
    if func in calls.EINSUM:
        labels = einsum_labels(args[0])
        sides = [einsum_factor(args[0], labels, first) for first in (True, False)]
    else:
        labels = matmul_labels(out.dim())
        sides = [factor_labels(labels, first) for first in (True, False)]
    return Scores(q, k, *sides, labels, mode.origin(q), mode.origin(k), mode.depth(q))


def custom(mode: Mode, role: Scores, s: Tensor, v: Tensor) -> bool:
    """Whether untouched scores times an activation are attention without a softmax: both axes
    of the scores must be token axes of the streams they come from."""
    lengths = set().union(*(mode.lengths[o] for o in role.q_origin | role.k_origin))
    return bool(mode.origin(v)) and s.shape[-1] in lengths and s.shape[-2] in lengths


def on_baddbmm(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``beta * bias + alpha * q·k`` in one call (BLOOM, PyTorch's own attention)."""
    given = tensors(args, kwargs)
    if len(given) != 3 or not (mode.origin(given[1]) and mode.origin(given[2])):
        return mode.plain(func, args, kwargs)
    bias, q, k = given
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    scores = torch.bmm(q, k) * alpha
    mode.put(scores, [q, k], started(mode, func, args, [q, k], scores))
    if beta == 0:
        return scores
    bias_marked = bias if beta == 1 else mode.plain(torch.mul, (bias, beta), {})
    return biased(mode, torch.add, scores, bias_marked, 1)


# ---- masks ---------------------------------------------------------------------------------------


def on_fill(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``masked_fill`` of scores with a very low value is a mask."""
    x, mask, value = (*args, *(kwargs[n] for n in ("mask", "value") if n in kwargs))[:3]
    return masked(mode, func, args, kwargs, x, mask, value)


def on_where(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``where(mask, scores, low)``, either way round."""
    given = (*args, *(kwargs[n] for n in ("condition", "input", "self", "other") if n in kwargs))
    if len(given) < 3:
        return mode.plain(func, args, kwargs)
    condition, x, other = (given[1], given[0], given[2]) if func is Tensor.where else given[:3]
    if low(other):
        return masked(mode, func, args, kwargs, x, ~condition, other)
    return masked(mode, func, args, kwargs, other, condition, x)


def on_assign(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``scores[mask] = low`` masks in place."""
    x, index, value = args
    role = mode.role(x)
    if not isinstance(role, Scores) or not mode.shapes_scores or not low(value):
        func(*args, **kwargs)
        given = mode.role(value)
        if isinstance(given, Ids) or (isinstance(value, Tensor) and mode.origin(value)):
            mode.put(x, [x, value], given if isinstance(given, Ids) else role)
        return None
    hidden = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
    hidden[index] = True
    base = x.clone() if role.base is None else role.base
    func(*args, **kwargs)
    mode.put(x, [x], replace(role, base=base, hidden=merged(role.hidden, hidden)))
    return None


def masked(mode: Mode, func: Any, args: Any, kwargs: Any, x: Any, mask: Any, value: Any) -> Any:
    """Remember what a mask hides, and the scores without it, where an edit may need them."""
    if not (isinstance(x, Tensor) and x.is_floating_point() and x.dim() > 2 and low(value)):
        return mode.plain(func, args, kwargs)
    if not mode.origin(x):
        constant = x.clone() if in_place(func) else x
        return filled(mode, mode.plain(func, args, kwargs), constant, mask)
    if not mode.shapes_scores:
        return mode.plain(func, args, kwargs)
    role = mode.role(x)
    role = role if isinstance(role, Scores) else Scores(depth=mode.depth(x))
    base = role.base if role.base is not None else x.clone() if in_place(func) else x
    out = func(*args, **kwargs)
    hidden = merged(role.hidden, mask.expand(out.shape))
    return mode.put(out, [x], replace(role, base=base.expand(out.shape), hidden=hidden))


def low(value: Any) -> bool:
    """Whether a fill value is a mask's."""
    if isinstance(value, Tensor):
        return value.numel() > 0 and value.is_floating_point() and bool((value <= MASK).all())
    return isinstance(value, int | float) and value <= MASK


def merged(hidden: Tensor | None, more: Tensor) -> Tensor:
    return more if hidden is None else hidden | more


# ---- softmax -------------------------------------------------------------------------------------


def on_softmax(mode: Mode, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The softmax of scores is attention; of anything else it may turn out to be."""
    x = args[0] if args else kwargs["input"]
    role = mode.role(x)
    if not isinstance(role, Scores) or role.loose:
        out = func(*args, **kwargs)
        scores = role if isinstance(role, Scores) else Scores(depth=mode.depth(x))
        candidate = mode.origin(x) and x.dim() > 1
        path = mode.names.path()
        if candidate and x.dim() > 3:
            mode.open[path] = None
        return mode.put(out, [x], Weights(scores, x, None, path=path) if candidate else None)
    dim = args[1] if len(args) > 1 else kwargs.get("dim", -1)
    labels = oriented(role.labels, x.dim(), -1 if dim is None else dim)
    if labels is None:
        mode.run.unrecognised.append(f"a softmax in {mode.names.path() or 'the model'}: unknown layout")
        return mode.put(func(*args, **kwargs), [x])
    if role.labels is not None and labels != role.labels:  # the product was k times q
        role = turned(role)
    path = mode.names.path()
    mode.open[path] = None
    layout = Layout(labels, tuple(x.shape), heads_of(mode, path, labels, x, role.q_origin))
    site = begin(mode, path, role.q_origin, role.k_origin, role.depth, layout, x, keys_of(role, x, labels))
    scores, out = x, None
    plan = plan_of(mode, site)
    if plan is not None and plan.shapes_scores:
        scores, weights = edited(mode, plan, layout, role, x, site)
        out = layout.original(weights).to(out_type(func, args, kwargs, x))
    out = func(*args, **kwargs) if out is None else out
    if plan is not None:
        out = layout.original(plan.scaled(layout.canonical(out)))
    keep(mode, site, layout, scores, role)
    return mode.put(out, [x], Weights(role, x, labels, site, path=path))


def turned(role: Scores) -> Scores:
    """Scores whose product was keys times queries, named the right way round."""
    return replace(
        role,
        q=role.k,
        k=role.q,
        q_labels=role.k_labels,
        k_labels=role.q_labels,
        q_origin=role.k_origin,
        k_origin=role.q_origin,
    )


def out_type(func: Any, args: Any, kwargs: Any, x: Tensor) -> torch.dtype:
    """The type that the model's own softmax would give."""
    asked = kwargs.get("dtype") or next((a for a in args if isinstance(a, torch.dtype)), None)
    return asked or x.dtype


def keys_of(role: Scores, x: Tensor, labels: tuple[str, ...]) -> int:
    """How many keys are words: what the product had; the rest of the axis are sinks."""
    size = x.shape[labels.index("k")]
    if role.k is None or role.k_labels is None:
        return size
    return min(size, role.k.shape[role.k_labels.index("q")])


def heads_of(
    mode: Mode, path: str, labels: tuple[str, ...], x: Tensor, origin: frozenset[int]
) -> int | None:
    """The heads in a merged dimension: from the module, or from the batch of the input."""
    if "bh" not in labels:
        return None
    merged_size = x.shape[labels.index("bh")]
    named = mode.names.number(path)
    if named and merged_size % named == 0:
        return named
    sizes = set().union(*(mode.lengths[o] for o in origin)) if origin else set()
    batches = [n for n in sizes if merged_size % n == 0 and n not in x.shape[1:]]
    return merged_size // min(batches) if batches else None


def begin(
    mode: Mode,
    path: str,
    q_origin: frozenset[int],
    k_origin: frozenset[int],
    depth: int,
    layout: Layout,
    x: Tensor,
    keys: int,
    hidden: Tensor | None = None,
) -> AttentionRecord:
    """Find the place of an attention that starts; ``x`` are its masked scores or weights."""
    kind = mode.numbering.kind(path, q_origin, k_origin)
    first = layout.canonical(x)[0, 0, :, :keys]
    queries = first.shape[0]
    offset, first_key = mode.offset, 0
    if kind == "self":
        offset = mode.numbering.before((path, depth), (queries, keys), q_origin, k_origin)
        mode.offset, first_key = offset, offset + queries - keys
    if path not in mode.numbering.stacks and hidden is None:
        hidden = first <= MASK
    stack = mode.numbering.stack(path, kind, hidden, offset - first_key)
    heads = layout.canonical(x).shape[1]
    place = mode.numbering.place(stack, kind, depth, path, heads)
    record = AttentionRecord(path, kind, stack, place.layer, heads=heads)
    record.shape, record.origin = (queries, keys), q_origin
    record.first_head, record.offset, record.first_key = place.first_head, offset, first_key
    record.start = Mark(mode).serial
    return record


def plan_of(mode: Mode, record: AttentionRecord) -> Plan | None:
    """The edits of this attention; they count as used."""
    plan = Plan.at(mode.intervention, record.site, record.heads, record.first_head)
    mode.used.update(matching(mode.intervention, record.site, record.heads, record.first_head))
    if plan is not None:
        plan.first_key = record.first_key
    return plan


def positions_of(record: AttentionRecord, device: torch.device) -> Tensor:
    """Absolute positions of the queries."""
    return torch.arange(record.shape[0], device=device) + record.offset


def edited(
    mode: Mode, plan: Plan, layout: Layout, role: Scores, x: Tensor, record: AttentionRecord
) -> tuple[Tensor, Tensor]:
    """Scores (module's layout) and weights ``[batch, head, query, key]`` under the edits."""
    given = layout.canonical(x)
    base = given if role.base is None else layout.canonical(role.base)
    hidden = given <= MASK
    if role.hidden is not None:
        hidden = hidden | layout.canonical(role.hidden.expand(x.shape))
    columns = hidden.all(-2, keepdim=True)
    queries = positions_of(record, x.device)
    scores, weights = plan.softmax(base, given, hidden, columns, queries, record.shape[1])
    return layout.original(scores), weights


def keep(
    mode: Mode, record: AttentionRecord, layout: Layout, scores: Tensor | None, role: Scores
) -> None:
    """Keep scores, q, k and a relative bias where they are wanted."""
    if scores is not None and (mode.want.scores(record.site) or mode.want.check):
        record.scores = layout.canonical(scores).detach()
    if mode.want.qkv(record.site):
        record.q = vectors(role.q, role.q_labels, record.heads)
        record.k = vectors(role.k, role.k_labels, record.heads)
    if mode.want.positions and role.bias is not None:
        bias = layout.canonical(role.bias.expand(tuple(layout.shape)))[0]
        mode.run.positions[f"bias.{record.site.map}.{record.layer}"] = bias.detach()


def vectors(x: Tensor | None, labels: tuple[str, ...] | None, heads: int) -> Tensor | None:
    """q, k or v as ``[batch, head, token, width]``; None where its dimensions are not known."""
    if x is None or labels is None or len(labels) != x.dim():
        return None
    return Layout(labels, tuple(x.shape), heads).canonical(x.detach())


# ---- weights times v -----------------------------------------------------------------------------


def gather(
    mode: Mode,
    func: Any,
    args: Any,
    kwargs: Any,
    role: Weights,
    p: Tensor,
    v: Tensor,
    form: str = "softmax",
) -> Any:
    """Weights times v: the weights as multiplied are the attention that the model used."""
    labels = contracted(func, args, kwargs, role.labels, p, v)
    if labels is None or (role.site is None and not attends(mode, role, labels, p, v, form)):
        return mode.plain(func, args, kwargs)
    sides = value_labels(func, args, kwargs, labels, p)
    record, layout = role.site, Layout(labels, tuple(p.shape), None)
    if record is None:
        record, layout, p, args, kwargs = found(mode, role, labels, p, v, form, args, kwargs)
    else:
        layout = Layout(labels, tuple(p.shape), record.heads if "bh" in labels else None)
    weights = layout.canonical(p)
    if mode.want.gradients:
        record.leaf = torch.zeros_like(weights, requires_grad=True)
        used = layout.original(weights + record.leaf)
        args, kwargs = swap(args, {id(p): used}), swap(kwargs, {id(p): used})
    out = func(*args, **kwargs)
    record.form = form
    mode.open.pop(role.path, None)
    confirm(mode, record, weights)
    if mode.want.qkv(record.site):
        record.v = vectors(v, sides, record.heads)
    if mode.want.check:
        captured = layout.original(record.weights if record.weights is not None else weights)
        exact = {id(p): captured.double(), id(v): v.detach().double()}
        for other in tensors(args, kwargs):
            exact.setdefault(id(other), captured.double())
        record.proof = func(*swap(args, exact), **swap(kwargs, exact))
    return mode.put(out, [p, v], Context(record), deeper=1)


def confirm(mode: Mode, record: AttentionRecord, weights: Tensor) -> None:
    """Take the attention into the run: statistics always, matrices as wanted."""
    offset = record.offset - record.first_key
    statistics = Statistics(weights.shape[2], weights.shape[3], offset)
    statistics.add(weights, 0)
    record.measured(statistics)
    record.shape = (weights.shape[2], weights.shape[3])
    finish(mode, record, weights)


def finish(mode: Mode, record: AttentionRecord, weights: Tensor | None) -> None:
    if weights is not None and (mode.want.weights(record.site) or mode.want.check):
        record.weights = weights.detach()
    mode.numbering.last[record.stack, record.kind].confirmed = True
    mode.run.attentions.append(record)


def contracted(
    func: Any, args: Any, kwargs: Any, labels: tuple[str, ...] | None, p: Tensor, v: Tensor
) -> tuple[str, ...] | None:
    """Labels of the weights, if this product really sums over their keys; else None."""
    if func in calls.EINSUM:
        return einsum_weights(args[0], labels, tensors(args, kwargs)[0] is p)
    left = tensors(args, kwargs)[-2] is p
    if p.dim() < 3 or v.dim() != p.dim():
        return None
    labels = oriented(labels, p.dim(), -1 if left else -2)
    return labels if labels and p.shape[-1 if left else -2] == v.shape[-2 if left else -1] else None


def value_labels(
    func: Any, args: Any, kwargs: Any, labels: tuple[str, ...], p: Tensor
) -> tuple[str, ...] | None:
    """Labels of v: its token axis is the one that is summed over."""
    first = tensors(args, kwargs)[-2] is not p  # whether v is the left factor
    if func not in calls.EINSUM:
        return (*labels[:-2], "k", "q") if first else (*labels[:-2], "q", "k")
    left = args[0].replace(" ", "").partition("->")[0].split(",")
    mine, other = left if first else reversed(left)
    names = dict(zip(other, labels, strict=True))
    found = tuple({"k": "q"}.get(names.get(c, ""), names.get(c, "k")) for c in mine)
    return found if found.count("k") == 1 and found.count("q") == 1 else None


def einsum_weights(equation: str, labels: tuple[str, ...] | None, first: bool) -> tuple[str, ...] | None:
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
    mode: Mode, role: Weights, labels: tuple[str, ...], p: Tensor, v: Tensor, form: str
) -> bool:
    """Whether a softmax of something that is no q·k mixes tokens: its queries and keys must be
    token axes of the streams that scores and values come from. A router's experts are not."""
    if form == "custom":
        return True
    origin, values = mode.origin(role.given), mode.origin(v)
    lengths = set().union(*(mode.lengths[o] for o in origin)) if origin else set()
    keys = set().union(*(mode.lengths[o] for o in values)) if values else set()
    given = role.given
    grown = given.dim() < p.dim() and p.shape[labels.index("q")] == 1 and given.shape[-2] > 1
    if grown:  # one query was made for each token: a gate over something that is no sentence
        return False
    return p.shape[labels.index("q")] in lengths and p.shape[labels.index("k")] in keys


def found(
    mode: Mode,
    role: Weights,
    labels: tuple[str, ...],
    p: Tensor,
    v: Tensor,
    form: str,
    args: Any,
    kwargs: Any,
) -> tuple[AttentionRecord, Layout, Tensor, Any, Any]:
    """An attention that only its product gives away: place it now, and apply its edits now."""
    path = mode.names.path()
    scores = role.scores
    q_origin = scores.q_origin if form == "custom" else mode.origin(role.given)
    k_origin = scores.k_origin if form == "custom" else mode.origin(v)
    layout = Layout(labels, tuple(p.shape), heads_of(mode, path, labels, p, q_origin))
    keys = p.shape[labels.index("k")]
    given = role.given if role.given.shape == p.shape and form != "custom" else p
    hidden = layout.canonical(p)[0, 0] == 0
    record = begin(mode, path, q_origin, k_origin, scores.depth, layout, given, keys, hidden)
    plan = plan_of(mode, record)
    if plan is not None:
        weights = rebuilt(mode, plan, layout, role, p, record, form)
        edited_p = layout.original(weights).to(p.dtype)
        args, kwargs = swap(args, {id(p): edited_p}), swap(kwargs, {id(p): edited_p})
        p = edited_p
    keep(mode, record, layout, None if form == "custom" else given, scores)
    return record, layout, p, args, kwargs


def rebuilt(
    mode: Mode, plan: Plan, layout: Layout, role: Weights, p: Tensor, record: AttentionRecord, form: str
) -> Tensor:
    """The edited weights ``[batch, head, query, key]`` of an attention found at its product.

    Raises:
        ValueError: the weights were changed between softmax and product, so that the softmax
            cannot be run again; names the module.
    """
    weights = layout.canonical(p)
    if form == "custom":
        base = role.scores.base
        unmasked = weights if base is None else layout.canonical(base)
        return plan.custom(weights, unmasked, positions_of(record, p.device), record.path)
    if plan.shapes_scores:
        if role.given.shape != p.shape or not role.same:
            raise ValueError(
                f"The attention in {record.path or 'this module'} reshapes its weights after the "
                "softmax, so temperature and masks cannot be applied there. Heads can be scaled."
            )
        _, weights = edited(mode, plan, layout, role.scores, role.given, record)
    return plan.scaled(weights)
