"""Which matrices turn what a head reads into words: found by running the model, not by names.

Every module with a weight is watched during one pass of one sentence. A module is the output
projection of a block because weights x v went into it, the projection of values because v came out
of it, the unembedding because the logits did. A block adds to the stream (pre-norm) if what some
norm took, plus what the projection gave, has the length that the probe saw after the sum; only then
do a head's vectors reach the words through the last norm alone. What is not found is None, and
metrics that need it have no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...checkpoints.common.model import Model
from ...core.interventions import Intervention
from ...core.sites import Site
from ...core.trace import Trace
from ...core.trace_parts import Attention
from ...metrics.heads.maps import Projections
from ..capture_to_numpy import to_numpy
from ..model_inputs import Read, read_source

CLOSE = 1e-4  # of the largest value: float32 through one module

Found = Mapping[Site, Projections]


@dataclass(frozen=True, eq=False)
class Ran:
    """A module that ran: its weight, ``[in, out]`` of a projection and ``[d_model]`` of a norm, and
    what it took and gave, ``[token, width]``."""

    path: str
    weight: np.ndarray
    taken: np.ndarray
    given: np.ndarray


@dataclass(frozen=True, eq=False)
class Ends:
    """The two ends of the stream that writes: tables ``[vocabulary, d_model]``, and the last norm.

    ``shared``: source and target have one vocabulary.
    """

    embedding: np.ndarray
    unembedding: np.ndarray
    norm: Ran
    shared: bool


def find(model: Model, trace: Trace) -> Found:
    """What is known of each block of a trace that kept ``qkv``; values are not filled in.

    Numbers are compared as float32 gives them: of a model in half precision little is found.
    """
    if model.takes != "text" or not trace.source.ids:
        return {}
    target = None if trace.target is None else list(trace.target.ids)
    if model.kind == "decoder-only":
        target = None
    read = read_source(model, list(trace.source.ids), target, Intervention(), None)
    ran: list[Ran] = []
    with torch.inference_mode(), _hooks(model.module, ran):
        read.through(model)
    ends = _ends(read, trace, ran)
    blocks = [block for name in trace.maps for block in trace.blocks(name)]
    return {block.site: _of_block(block, trace, ran, ends) for block in blocks}


@contextmanager
def _hooks(module: nn.Module, ran: list[Ran]) -> Iterator[None]:
    """Note what modules with a weight take and give, in this thread; gone with the ``with``."""
    thread = get_ident()

    def noting(path: str) -> Any:
        def note(part: nn.Module, taken: tuple[Any, ...], given: Any) -> None:
            weight = getattr(part, "weight", None)
            tensors = [x for x in (*taken[:1], given) if isinstance(x, Tensor) and x.dim()]
            if get_ident() != thread or not isinstance(weight, Tensor) or len(tensors) < 2:
                return
            turned = weight.T if isinstance(part, nn.Linear) else weight
            ins, outs = (to_numpy(x).reshape(-1, x.shape[-1]) for x in tensors)
            ran.append(Ran(path, to_numpy(turned), ins, outs))

        return note

    handles = [part.register_forward_hook(noting(path)) for path, part in module.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _linear(one: Ran) -> bool:
    """Whether a module gives its input times its weight plus the same for every row."""
    if one.weight.ndim != 2 or one.taken.shape[-1] != one.weight.shape[0]:
        return False
    rest = one.given - one.taken @ one.weight
    return _close(one.given - rest[:1], one.given - rest)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape != b.shape:
        return False
    return bool(np.abs(a - b).max(initial=0) <= CLOSE * np.abs(b).max(initial=1e-9))


def _ends(read: Read, trace: Trace, ran: Sequence[Ran]) -> Ends | None:
    """The tables and the last norm of the stream whose rows become words."""
    if trace.logits is None or trace.logits.ndim != 2:
        return None
    written = trace.source if trace.target is None else trace.target
    tables = [_table(np.array(tokens.ids), ran) for tokens in (trace.source, written)]
    for one in ran:
        if not (_scaled(one.given, trace.logits) and _linear(one)):
            continue
        norm = next((n for n in ran if n.weight.ndim == 1 and _close(n.given, one.taken)), None)
        if norm is not None and tables[1] is not None:
            shared = tables[0] is not None and np.array_equal(tables[0], tables[1])
            return Ends(tables[1], one.weight.T, norm, shared)
    return None


def _scaled(given: np.ndarray, logits: np.ndarray) -> bool:
    """Whether logits are what a module gave, times a positive number."""
    if given.shape != logits.shape:
        return False
    factor = float((given * logits).sum() / max((given * given).sum(), 1e-9))
    return factor > 0 and _close(factor * given, logits)


def _table(ids: np.ndarray, ran: Sequence[Ran]) -> np.ndarray | None:
    """The embeddings that these ids were looked up in, ``[vocabulary, d_model]``."""
    for one in ran:
        if one.weight.ndim == 2 and np.array_equal(one.taken, ids[None].astype(np.float32)):
            return one.weight
    return None


def _of_block(block: Attention, trace: Trace, ran: Sequence[Ran], ends: Ends | None) -> Projections:
    if block.v is None:
        return Projections()
    heads, wide = len(block.weights), block.v.shape[-1]
    values = np.repeat(block.v, heads // len(block.v), axis=0)
    mixed = _beside(np.nan_to_num(block.weights) @ values)
    project = next((r for r in ran if _close(r.taken, mixed) and _linear(r)), None)
    if project is None or project.weight.shape[0] != heads * wide:
        return Projections()
    output = project.weight.reshape(heads, wide, -1).astype(np.float64)
    writing = "decoder" if "decoder" in trace.maps else "encoder"
    if ends is None or block.site.stack != writing or not _added(block, trace, project, ran):
        return Projections(output=output)
    final = _through(ends.norm, trace, output)
    cross = block.site.block == "cross"
    return Projections(
        output=output,
        final=final,
        unembedding=None if cross and not ends.shared else ends.unembedding.astype(np.float64),
        circuit=None if final is None or cross else _circuit(block, trace, ran, ends, final),
    )


def _beside(heads: np.ndarray) -> np.ndarray:
    """``[head, token, width]`` as a projection takes it, ``[token, head x width]``."""
    return heads.transpose(1, 0, 2).reshape(heads.shape[1], -1)


def _added(block: Attention, trace: Trace, project: Ran, ran: Sequence[Ran]) -> bool:
    """Whether a block adds to what a norm before it took (pre-norm)."""
    at = trace.residuals
    same = (at["stack"] == block.site.stack) & (at["layer"] == block.site.layer)
    length = at[same & (at["place"] == block.site.block)]["norm"].to_numpy()
    sums = (
        one.taken + project.given
        for one in ran
        if one.weight.ndim == 1 and one.taken.shape == project.given.shape
    )
    return any(_close(np.linalg.norm(x, axis=-1), length) for x in sums)


def _through(norm: Ran, trace: Trace, vectors: np.ndarray) -> np.ndarray | None:
    """What a norm with its scale held makes of vectors ``[..., d_model]``, but for that scale."""
    gain, bias = trace.gains.get(norm.path, (None, None))
    factor = np.ones(norm.taken.shape[-1]) if gain is None else gain.astype(np.float64)
    straight = norm.given - (0 if bias is None else bias)
    for centred in (True, False):
        inner = norm.taken - norm.taken.mean(-1, keepdims=True) * centred
        unit = inner / np.maximum(np.sqrt((inner**2).mean(-1, keepdims=True)), 1e-9)
        scale = (straight * unit * factor).sum(-1) / np.maximum(
            ((unit * factor) ** 2).sum(-1), 1e-9
        )
        if _close(unit * factor * scale[:, None], straight):
            return (vectors - vectors.mean(-1, keepdims=True) * centred) * factor
    return None


def _own(v: np.ndarray) -> np.ndarray:
    """The values as they were projected: once for query heads that share them."""
    for group in range(len(v), 1, -1):
        if len(v) % group == 0 and np.array_equal(np.repeat(v[::group], group, 0), v):
            return v[::group]
    return v


def _circuit(
    block: Attention, trace: Trace, ran: Sequence[Ran], ends: Ends, final: np.ndarray
) -> np.ndarray | None:
    """(W_O W_U)(W_E W_V) of each head, ``[head, d_v, d_v]``, the norms' gains folded in."""
    assert block.v is not None
    own = _own(block.v)
    shown, wide = _beside(own), own.shape[0] * own.shape[2]
    for one in ran:
        count = one.given.shape[-1] // wide if _linear(one) else 0
        for part in range(count):
            columns = slice(part * wide, (part + 1) * wide)
            if not _close(one.given[:, columns], shown):
                continue
            norm = next((n for n in ran if n.weight.ndim == 1 and _close(n.given, one.taken)), None)
            table = ends.embedding.astype(np.float64)
            read = table if norm is None else _through(norm, trace, table)
            if read is None:
                return None
            reads = one.weight[:, columns].reshape(-1, *own.shape[::2]).transpose(1, 0, 2)
            reads = np.repeat(reads, len(final) // len(reads), axis=0)
            return final @ (ends.unembedding.T.astype(np.float64) @ read) @ reads
    return None
