"""Decomposition of one run: each key's contribution per attention, and the residual sums.

Module names are not used. Parts are matched by their numbers: values by the linear map that made
them, a norm by its input, a residual sum by its addend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...capture import AttentionRecord, Capture, CaptureRequest, NormRecord, probe, torch_calls
from ...core.sites import Site
from ...metrics.attribution.contributions import AttentionBlock, Scaling, scaling
from ..ablation.gate import Place, intercept_linear
from ..ablation.places import Attention

CLOSE = 1e-4  # relative difference up to which two tensors of a run count as equal
HALF = 3e-2  # the same in half precision


@dataclass(frozen=True, eq=False)
class LinearCall:
    """Call of a linear map: ``x`` ``[row, in]``, matrix, ``bias`` and ``out`` ``[row, out]``."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    out: Tensor
    nth: int


class LinearCalls:
    """Recorder of all linear maps inside ``with self.mode``; batch of one."""

    def __init__(self) -> None:
        self.calls: list[LinearCall] = []
        self.uses: Counter[int] = Counter()
        self.mode = intercept_linear(_Any(), self._note)

    def _note(self, func: Any, args: Any, kwargs: Any, x: Tensor, address: int) -> Any:
        out = func(*args, **kwargs)
        every = torch_calls.tensors(args, kwargs)
        weight = next(t for t in every if t.dim() == 2 and t.data_ptr() == address)
        bias = next((t for t in every if t.dim() == 1), None)
        read, gave = (t.detach().reshape(-1, t.shape[-1]).clone() for t in (x, out))
        self.calls.append(LinearCall(read, weight, bias, gave, self.uses[address]))
        self.uses[address] += 1
        return out


class _Any:
    """Container of every address, those of parameter slices too."""

    def __contains__(self, address: object) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Sum:
    """Residual sum, ``before + added = after``, float64 ``[row, d_model]``."""

    site: Site
    before: np.ndarray
    added: np.ndarray
    after: np.ndarray


@dataclass(frozen=True, eq=False)
class Anatomy:
    """Decomposed run.

    Attributes:
        blocks: Attentions that could be decomposed, in call order.
        lost: Reason for every other attention.
        sums: All residual sums, in order.
        raw: Tensors of ``sums`` after adding.
        capture: Capture of the run.
        whole_values: Sites whose value bias could not be separated from the values.
        output: Output of the model.
    """

    blocks: tuple[AttentionBlock, ...]
    lost: dict[Site, str]
    sums: tuple[Sum, ...]
    raw: tuple[Tensor, ...]
    capture: Capture
    whole_values: tuple[Site, ...]
    output: Tensor


def dissect(
    module: nn.Module,
    run: Callable[[], Tensor],
    attentions: Sequence[Attention],
    lone: str = "encoder",
) -> Anatomy:
    """Run once and decompose the run.

    Args:
        module: Module to run.
        run: Calls the module on a batch of one.
        attentions: Attentions of the module, with their output projections.
        lone: Stack of a lone self-attention.
    """
    want = CaptureRequest(qkv=lambda _: True, hidden=True, sums=True, statistics=False, stack=lone)
    log = LinearCalls()
    with torch.no_grad(), log.mode, probe(module, None, want) as capture:
        output = run()
    places = {one.site: one.place for one in attentions}
    blocks, lost, whole = [], {}, []
    for record in capture.attentions:
        found = _block(record, places.get(record.site), log.calls, capture)
        if isinstance(found, str):
            lost[record.site] = found
            continue
        blocks.append(found[0])
        if not found[1]:
            whole.append(record.site)
    sums = tuple(
        Sum(one.site, *map(_rows, (one.before, one.added, one.after))) for one in capture.sums
    )
    raw = tuple(one.after for one in capture.sums)
    return Anatomy(tuple(blocks), lost, sums, raw, capture, tuple(whole), output)


def _block(
    record: AttentionRecord, place: Place | None, calls: Sequence[LinearCall], capture: Capture
) -> tuple[AttentionBlock, bool] | str:
    """Return a decomposed attention and True if its value bias was found, or an error message."""
    if place is None:
        return "the output projection of its heads was not found"
    call = next((c for c in calls if _same_place(c, place)), None)
    if call is None or record.weights is None or record.v is None:
        return "its values or its output projection were not seen"
    weights, v = record.weights[0].double(), record.v[0].double()
    if v.dim() != 3 or weights.shape[-1] != v.shape[1]:
        return "its values are no vectors of its keys"
    v = v.repeat_interleave(len(weights) // len(v), 0) if len(v) != len(weights) else v
    matrix = _matrix(call)
    features = [torch.nonzero(place.columns == head)[:, 0] for head in range(place.heads)]
    if matrix is None or any(len(f) != v.shape[-1] for f in features):
        return "its output projection is no plain matrix on the heads' outputs"
    near = HALF if call.x.dtype in (torch.float16, torch.bfloat16) else CLOSE
    mixed = torch.zeros(call.x.shape, dtype=torch.float64, device=call.x.device)
    for head, columns in enumerate(features):
        mixed[:, columns] = weights[head].nan_to_num() @ v[head]
    if not close(mixed, call.x.double(), near):
        return "something more (a gate, a norm) stands between its heads and the output projection"
    bias = value_bias(record.v[0], calls)
    found = bias is not None
    b = torch.zeros_like(v[:, 0]) if bias is None else bias.double()
    b = b.repeat_interleave(len(v) // len(b), 0) if len(b) != len(v) else b
    outs = torch.stack([matrix[columns] for columns in features])  # [head, d_v, d_model]
    parts = (v - b[:, None]) @ outs
    sums = weights.nan_to_num().sum(-1)  # [head, query]: 1 except for sinks
    constant = torch.einsum("hq,hd->qd", sums, (b[:, None] @ outs)[:, 0])
    if call.bias is not None:
        constant = constant + call.bias.double()
    made = _after(record, call.out, capture, near)
    if isinstance(made, str):
        return made
    block = AttentionBlock(
        record.stack,
        record.kind,
        record.layer,
        _array(weights.nan_to_num()),
        _array(parts),
        _array(constant),
        _rows(call.out),
        **made,
    )
    return block, found


def _same_place(call: LinearCall, place: Place) -> bool:
    return call.weight.data_ptr() == place.weight.data_ptr() and call.nth == place.nth


def _matrix(call: LinearCall) -> Tensor | None:
    """Return the matrix ``[in, out]`` of a linear map; None if it is not a plain one."""
    x, out, weight = call.x.double(), call.out.double(), call.weight.detach()
    if not weight.is_floating_point():
        return None
    bias = 0.0 if call.bias is None else call.bias.double()
    near = HALF if call.x.dtype in (torch.float16, torch.bfloat16) else CLOSE
    for matrix in (weight.T.double(), weight.double()):
        if matrix.shape == (x.shape[1], out.shape[1]) and close(x @ matrix + bias, out, near):
            return matrix
    return None


def value_bias(v: Tensor, calls: Sequence[LinearCall]) -> Tensor | None:
    """Return the bias ``[head, d_v]`` inside the values ``[head, key, d_v]``.

    The bias is 0 if the linear map has none; None if no linear map gave these numbers.
    """
    heads, keys, width = v.shape
    wanted = v.transpose(0, 1).reshape(keys, heads * width)
    for call in calls:
        if len(call.out) != keys:
            continue
        known = {column.tobytes(): n for n, column in enumerate(_columns(call.out))}
        numbers = [known.get(column.tobytes()) for column in _columns(wanted)]
        if None in numbers:
            continue
        if call.bias is None:
            return torch.zeros_like(v[:, 0])
        return call.bias.detach()[numbers].reshape(heads, width)
    return None


def _columns(x: Tensor) -> np.ndarray:
    return np.ascontiguousarray((x.detach().float().cpu().numpy() + 0.0).T)


def _after(
    record: AttentionRecord, out: Tensor, capture: Capture, near: float
) -> dict[str, Any] | str:
    """Return residual stream, sum, and the norms before and after it, of a projection's output."""
    here = [n for n, one in enumerate(capture.sums) if one.site == record.site]
    if not here:
        return {"stream": None, "total": None}
    number = here[0]
    one = capture.sums[number]
    stream, added, after = (t.reshape(-1, t.shape[-1]) for t in (one.before, one.added, one.after))
    if len(stream) != len(out) or stream.shape != out.shape:
        return {"stream": None, "total": None}
    total, inner = after, None
    if not close(added, out, near):
        inner = between(out, added, capture.norms, near)
        if inner is None:  # another sub-layer is in the same sum
            return {"stream": _rows(stream), "total": None} | _own_sum(stream, out)
    outer = None
    following = [s.before for s in capture.sums[number + 1 :] if s.site.stack == record.stack]
    for then in following[:1]:
        reached = then.reshape(-1, then.shape[-1])
        if reached.shape == after.shape and not close(reached, after, near / 100):
            outer = between(after, reached, capture.norms, near)
            total = reached if outer is not None else after
    return {"stream": _rows(stream), "total": _rows(total), "inner": inner, "outer": outer}


def _own_sum(stream: Tensor, out: Tensor) -> dict[str, Any]:
    """Return residual stream plus this attention only, for a layer with parallel sub-layers."""
    return {"total": _rows(stream.double() + out.double())}


def between(
    entered: Tensor, made: Tensor, norms: Sequence[NormRecord], near: float
) -> Scaling | None:
    """Return the norm or fixed scale that maps one tensor ``[row, d_model]`` to another."""
    for norm in norms:
        if norm.entered is None or norm.made is None or norm.entered.shape[-1] != entered.shape[-1]:
            continue
        came, went = (t.reshape(-1, t.shape[-1]) for t in (norm.entered, norm.made))
        if came.shape != entered.shape or not close(came, entered, near / 100):
            continue
        if close(went, made, near / 100):
            gain, bias = (None if t is None else _array(t) for t in (norm.gain, norm.bias))
            return scaling(_rows(entered), _rows(made), gain, bias, norm.kind != "rms")
    a, b = entered.double(), made.double()
    weight = (a * b).sum(0) / (a * a).sum(0).clamp(min=1e-30)  # LayerScale, or a factor
    if close(a * weight, b, near / 100):
        rows = np.ones(len(a))
        return Scaling(rows, _array(weight), np.zeros(a.shape[1]), False)
    return None


def close(a: Tensor, b: Tensor, near: float) -> bool:
    """Return True if two tensors are equal, relative to the largest number."""
    if a.shape != b.shape:
        return False
    scale = b.detach().double().abs().max().clamp(min=1e-30)
    return bool((a.double() - b.double()).abs().max() <= near * scale)


def _rows(x: Tensor) -> np.ndarray:
    return _array(x.reshape(-1, x.shape[-1]))


def _array(x: Tensor) -> np.ndarray:
    found: np.ndarray = x.detach().double().cpu().numpy()
    return found
