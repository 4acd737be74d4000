"""PyTorch's fused attention: its formula gives the weights, and replaces it under edits."""

from __future__ import annotations

import inspect
import math
import sys
import types
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...core.apply_edits import Plan
from .. import torch_calls
from ..attention_site import begin, plan_of, say_unsure
from ..axes.layout import Layout
from ..records import AttentionRecord
from ..roles import Context, Packed
from ..site_numbering import Seen, sampled
from ..state import CaptureState
from ..statistics import Statistics, at_once, block_rows
from ..tiles import fits
from ..tiles.bias import Small
from ..torch_calls import Args, Kwargs
from ..torch_function_mode import CaptureMode
from . import lend
from .fused_tiles import add_rows, keeper
from .score_bias import parts, relative
from .weighted_sum import finish

BLOCK = 1_000_000  # scores computed at once if the matrix is not kept
_signature = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        for name, default in (
            ("query", None),
            ("key", None),
            ("value", None),
            ("attn_mask", None),
            ("dropout_p", 0.0),
            ("is_causal", False),
            ("scale", None),
            ("enable_gqa", False),
        )
    ]
)


def opened(function: Any) -> Any:
    """Return the Python body of a torch function, whose inner calls the mode sees."""
    blind = dict.fromkeys(("has_torch_function", "has_torch_function_unary"), lambda *_: False)
    made = types.FunctionType(
        function.__code__,
        {**function.__globals__, **blind},
        function.__name__,
        function.__defaults__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


OPENED = {f: opened(f) for f in torch_calls.MULTI_HEAD | torch_calls.GUMBEL}


def on_opaque(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Run the body of the opaque call ``F.multi_head_attention_forward`` under a mode.

    Handlers run with the mode switched off, so a second one on the same state sees the inner calls.
    """
    replaced(state, func.__name__)
    if (
        gives_zeros(state, kwargs.get("key_padding_mask"))
        and ZEROS not in state.capture.unrecognised
    ):
        state.capture.unrecognised.append(ZEROS)
    with CaptureMode(state):
        return OPENED[func](*args, **kwargs)


ZEROS = (
    "nn.TransformerEncoder gives zeros at padded places when nobody watches (its fast path), and "
    "computes them here: leave them out of what you compare or average, or call "
    "torch.backends.mha.set_fastpath_enabled(False) first"
)


def gives_zeros(state: CaptureState, padding: Tensor | None) -> bool:
    """Return True if the module around would take PyTorch's nested-tensor path without a mode."""
    if padding is None or not torch.backends.mha.get_fastpath_enabled():
        return False
    path = state.names.path()
    around = [m for name, m in state.names.modules.items() if f"{path}.".startswith(f"{name}.")]
    around.append(state.names.root)
    for module in around:
        if isinstance(module, nn.TransformerEncoder) and getattr(
            module, "use_nested_tensor", False
        ):
            learning = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
            return not module.training and not learning and bool((padding != 0).any())
    return False


def replaced(state: CaptureState, name: str) -> None:
    """Record that a call ran as its explicit formula."""
    if name not in state.capture.replaced:
        state.capture.replaced.append(name)


def canonical(
    state: CaptureState, path: str, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Layout, list[Tensor]]:
    """Return the layout, and q, k, v ``[batch, head, token, width]`` with key heads repeated."""
    heads = state.names.number(path) if query.dim() == 3 else None
    if query.dim() == 3 and (not heads or query.shape[0] % heads):
        heads = query.shape[0]
    lead = {2: (), 3: ("bh",)}.get(query.dim(), ("b",) * (query.dim() - 3) + ("h",))
    labels = (*lead, "q", "k")
    axes = [state.lineage.axes(x) for x in (query, key, value)]
    rows = Layout(labels, tuple(query.shape), heads, axes[0])
    out = [rows.canonical(query)]
    for x, own in zip((key, value), axes[1:], strict=True):
        shared = x.shape[:-2] == query.shape[:-2]
        layout = Layout(labels, tuple(x.shape), heads, axes[0] if shared else own)
        made = (replace(layout, axes=None) if layout.told != rows.told else layout).canonical(x)
        if made.shape[1] != out[0].shape[1]:
            made = made.repeat_interleave(out[0].shape[1] // made.shape[1], 1)
        out.append(made)
    return rows, out


def on_fused(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Compute ``softmax(q k^T * scale + mask) v`` (PyTorch's formula), some rows at a time."""
    if state.names.outside():
        state.outside += 1
        return state.call(func, args, kwargs)
    call = _signature.bind(*args, **kwargs)
    call.apply_defaults()
    given = unpacked(state, plain_mask(call.arguments))
    query, key, value = given["query"], given["key"], given["value"]
    path = state.names.path()
    rows, factors = canonical(state, path, query, key, value)
    q, k, v = (as_kernel(x) for x in factors)
    shape = (*query.shape[:-1], key.shape[-2])
    lead = replace(rows, shape=shape)
    mask = Mask(state, given["attn_mask"], given["is_causal"], lead)
    first = mask.sample(q.shape[2], k.shape[2])
    probe_rows = torch.empty(1, q.shape[1], 1, 1, device="meta").expand(1, -1, *shape[-2:])
    layout = Layout(("b", "h", "q", "k"), tuple(probe_rows.shape), None)
    q_origin = state.lineage.origin(query)
    depth = state.lineage.depth(query)
    record = begin(
        state, path, q_origin, depth, layout, probe_rows, k.shape[2], (query, key), first
    )
    scale = 1 / math.sqrt(query.shape[-1]) if given["scale"] is None else given["scale"]
    plan = plan_of(state, record)
    own = plan is None and not mask.changed and not state.request.gradients
    own = own and not state.request.lend and not state.giving.at(record.site)
    with torch.set_grad_enabled(torch.is_grad_enabled() and not own), plainly(q.device.type):
        record, made = attend(state, record, plan, q, k, v, scale, mask, given["dropout_p"], own)
    say_unsure(state, plan, path)
    if made is None:  # nothing is changed: the output is the kernel's own, to the last bit
        out = func(*args, **kwargs)
    else:
        replaced(state, "scaled_dot_product_attention")
        lent = lend.outputs(state, record, made)
        made = made if lent is None else lent
        out = replace(rows, shape=(*query.shape[:-1], value.shape[-1])).original(made)
        shape = args[0].shape if args else kwargs["query"].shape
        out = out.reshape(*shape[:-1], value.shape[-1])
    tokens = state.lineage.tokens(query)
    operands = [query, key, value]
    return state.lineage.propagate(out, operands, Context(record), deeper=1, tokens=tokens)


def as_kernel(x: Tensor) -> Tensor:
    """Return a factor in the type that the kernel gets under autocast."""
    device = x.device.type
    if torch.is_autocast_enabled(device) and x.dtype == torch.float32:
        return x.to(torch.get_autocast_dtype(device))
    return x


def plainly(device: str) -> AbstractContextManager[Any]:
    """Return a context that sums in the factors' own types, also under autocast."""
    if torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def plain_mask(given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with a `torch.nn.attention.bias` as ``is_causal`` or a bool mask."""
    mask = given["attn_mask"]
    objects = sys.modules.get("torch.nn.attention.bias")  # importing it takes seconds
    if objects is None or not isinstance(mask, objects.CausalBias):
        return given
    if mask.variant == objects.CausalVariant.UPPER_LEFT or mask.seq_len_q == mask.seq_len_kv:
        return given | {"attn_mask": None, "is_causal": True}
    return given | {"attn_mask": mask._materialize(given["query"].device)}


def unpacked(state: CaptureState, given: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments with one head per row, if a lone token's heads were on its axis."""
    query, mask = given["query"], given["attn_mask"]
    if not isinstance(state.lineage.role(query), Packed):
        return given
    query = state.lineage.propagate(query.flatten(1, 2).unsqueeze(2), [query])
    if mask is not None and mask.dim() == 4 and mask.shape[1] > 1:
        mask = mask.flatten(1, 2).unsqueeze(2)
    return given | {"query": query, "attn_mask": mask, "enable_gqa": True}


class Mask:
    """Mask and bias of a fused call, broadcasting to ``[batch, head, query, key]``."""

    def __init__(
        self,
        state: CaptureState,
        mask: Tensor | None,
        causal: bool,
        layout: Layout,
    ):
        self.causal, self.bias, self.hidden, self.changed = causal, None, None, False
        self.given = mask
        self.low: Tensor | None = None  # numbers that hide all keys of some rows
        self.keys = layout.shape[-1]
        if mask is None or mask.dtype == torch.bool:
            self.hidden = None if mask is None else self.lead(~mask, layout)
            return
        hidden, bias = parts(state, mask)
        if bias is not None:
            if not state.lineage.origin(mask):  # computed from the input: more than positions
                given, bias = bias, relative(state, bias, torch.empty(layout.shape, device="meta"))
                self.changed = bias is not given
            self.bias = self.lead(bias, layout)
        if hidden is not None:
            self.hidden = self.lead(hidden, layout)
            if bool(hidden.all(-1).any()):
                self.low = self.lead(mask, layout)

    def lead(self, x: Tensor, layout: Layout) -> Tensor:
        if x.dim() == len(layout.shape) == 4 and layout.sizes == layout.shape:
            return x  # may stay small if it is the same for all
        return layout.canonical(x.expand(layout.shape))

    def rows(self, first: int, last: int, keys: int, like: Tensor) -> Tensor | None:
        """Return the hidden keys of some rows, bool; None if there are none."""
        hidden = None
        if self.hidden is not None:
            hidden = self.hidden if self.hidden.shape[2] == 1 else self.hidden[:, :, first:last]
        if self.causal:
            query = torch.arange(first, last, device=like.device)[:, None]
            later = torch.arange(keys, device=like.device) > query
            hidden = later if hidden is None else hidden | later
        return hidden

    def closed(self, given: Tensor, scores: Tensor, rows: slice) -> Tensor:
        """Return masked scores; rows fully hidden by low numbers keep these for the softmax."""
        if self.low is None or self.hidden is None:
            return given
        low, hidden = (x if x.shape[2] == 1 else x[:, :, rows] for x in (self.low, self.hidden))
        return torch.where(hidden.all(-1, keepdim=True), scores + low, given)

    def small(self, state: CaptureState, lifted: bool) -> Small | None:
        """Return the first item's bias, compact and cached; ``lifted`` adds causal cells."""
        if self.bias is None:
            return None
        visible = None if self.hidden is None or lifted else ~self.hidden[0]
        bias = self.bias[0].expand(-1, -1, self.keys)
        return state.small_bias(self.bias, bias, visible)

    def added(self, first: int, last: int) -> Tensor | None:
        if self.bias is None or self.bias.shape[2] == 1:
            return self.bias
        return self.bias[:, :, first:last]

    def columns(self, queries: int, keys: int, like: Tensor) -> Tensor:
        """Return the keys hidden from every query, bool ``[batch or 1, head or 1, 1, key]``."""
        if self.hidden is None:
            return torch.zeros(1, 1, 1, keys, dtype=torch.bool, device=like.device)
        return self.hidden.all(-2, keepdim=True)

    def sample(self, queries: int, keys: int) -> Seen:
        """Return the first head's mask, whole or sampled, to detect a causal mask."""
        rows, columns = sampled(queries), sampled(keys)
        if queries != keys and len(rows) < queries:  # cached: the diagonal is among the columns
            columns = torch.cat((columns, rows + keys - queries)).clamp(min=0).unique()
        hidden = torch.zeros(len(rows), len(columns), dtype=torch.bool, device="cpu")
        if self.hidden is not None:
            mine = self.hidden[0, 0]
            device = mine.device
            mine = mine[rows.to(device)] if len(mine) > 1 else mine
            hidden = hidden | mine[:, columns.to(device)].cpu()
        if self.causal:
            hidden = hidden | (columns > rows[:, None])
        return Seen(hidden, rows, columns)


def attend(
    state: CaptureState,
    record: AttentionRecord,
    plan: Plan | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    mask: Mask,
    dropout: float,
    own: bool,
) -> tuple[AttentionRecord, Tensor | None]:
    """Return the record and the output of the formula for all rows.

    Whole weights are kept only if requested. No output if the model's ``own`` kernel gives it.
    """
    request, site = state.request, record.site
    whole = request.weights(site) or request.scores(site) or request.gradients or request.check
    queries, keys = q.shape[2], k.shape[2]
    tiles = keeper(state, record, plan, q, k, scale, mask)
    whole = whole or (bool(record.untiled) and fits(record.heads, queries, keys))
    most = at_once(BLOCK, q.device) // max(1, q.shape[1] * keys)
    step = queries if whole else block_rows(queries, most)
    statistics = Statistics(queries, keys, record.offset - record.first_key)
    behind = own and not whole and mask.causal and mask.hidden is None
    outs = []
    for first in range(0, queries, max(1, step)):
        rows = slice(first, min(first + step, queries))
        seen = k[:, :, : rows.stop] if behind else k  # no row sees a key after the last of them
        scores, weights = rows_of(state, plan, record, q, seen, scale, mask, rows)
        if tiles is not None:
            add_rows(tiles, plan, mask, scores, weights, rows)
        weights = weights if plan is None else plan.scaled(weights)
        lent = lend.patterns(state, record, weights, first)
        weights = weights if lent is None else lent
        if request.statistics:
            statistics.add(weights, first)
        if request.gradients:
            record.leaves = (torch.zeros_like(weights, requires_grad=True),)
            weights = weights + record.leaves[0]
        if not own:
            used = F.dropout(weights, dropout) if dropout else weights
            outs.append((used @ v.to(used.dtype)).to(v.dtype))
    out = None if own else outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)
    if request.statistics:
        record.measured(statistics)
    if request.scores(site):
        record.scores = scores.detach()
    if request.qkv(site):
        record.q, record.k, record.v = (x.detach().clone() for x in (q, k, v))
        record.scale = float(scale)
    if tiles is not None:
        record.tiles = (tiles.result(record.first_head, record.first_row),)
    if state.shows_bias(record) and mask.bias is not None:
        shape = (1, record.heads, queries, keys)
        bias = mask.bias[:1].expand(shape)[0]
        state.capture.positions[f"bias.{record.site.map}.{record.layer}"] = bias.detach()
    record = finish(state, record, weights if whole else None, (mask.given, mask.causal, scale))
    if request.check and record.weights is not None:
        record.proof = record.weights.double() @ v.detach().double()
    return record, out


def rows_of(
    state: CaptureState,
    plan: Plan | None,
    record: AttentionRecord,
    q: Tensor,
    k: Tensor,
    scale: float,
    mask: Mask,
    rows: slice,
) -> tuple[Tensor, Tensor]:
    """Return scores and weights of rows, ``[batch, head, row, key]``; ``k`` may be a prefix."""
    keys = k.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)  # as the kernel itself computes
    scores = (q[:, :, rows].to(wide) * scale) @ k.to(wide).transpose(-2, -1)
    bias = mask.added(rows.start, rows.stop)
    scores = scores if bias is None else scores + bias[..., :keys]
    hidden = mask.rows(rows.start, rows.stop, keys, q)
    given = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
    given = mask.closed(given, scores, rows)
    if plan is not None and plan.shapes_scores:
        place = torch.arange(rows.start, rows.stop, device=q.device) + record.offset
        blocked = torch.zeros((), dtype=torch.bool, device=q.device) if hidden is None else hidden
        columns = mask.columns(q.shape[2], keys, q).expand(q.shape[0], q.shape[1], 1, keys)
        given, weights = plan.softmax(
            scores, given, blocked.expand(scores.shape), columns, place, keys
        )
        weights = weights.to(wide)
    else:
        weights = torch.softmax(given, -1)
    if hidden is not None and not mask.causal:  # a row with nothing to see is zero in PyTorch
        empty = (given == float("-inf")).all(-1, keepdim=True)
        weights = weights.masked_fill(empty, 0.0)
    return given, weights
