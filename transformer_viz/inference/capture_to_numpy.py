"""Conversion of a capture to tables and arrays: heads, norms, residual sums and stored matrices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ..capture import AttentionRecord, Capture, NormRecord
from ..capture.site_numbering import named_stack
from ..capture.tiles import Factors
from ..core.head_metrics import HEAD_METRICS
from ..core.sites import MAPS, Site
from ..core.tiles import Bias, Part, Tiles, Visible
from ..core.trace_parts import Attention, read_only

NORM_COLUMNS = ("mean", "std", "rms", "input_norm", "output_norm", "output_mean")
MATRICES = ("weights", "scores", "qkv", "gradients")  # each is kept beside the weights
SMALL = 1 << 18  # largest tensor, in numbers, that is fetched together with others
PLACES = {place: number for number, place in enumerate(MAPS.values())}
OUTSIDE = -1  # layer of a norm outside the layers: embeddings, the end of a stack


def heads_of(capture: Capture) -> pd.DataFrame:
    """Return one row per head: stack, block, layer, head, and its statistics."""
    records = ordered(capture)
    sizes = [record.heads for record in records]
    columns: dict[str, Any] = {
        "stack": _repeated([record.stack for record in records], sizes),
        "block": _repeated([record.kind for record in records], sizes),
        "layer": _repeated([record.layer for record in records], sizes, np.int64),
        "head": _counted(sizes),
    }
    for metric in HEAD_METRICS:
        parts = [record.statistics[metric.name][0] for record in records]
        columns[metric.name] = _joined(parts).astype(np.float64)
    return pd.DataFrame(columns)


def _repeated(values: Sequence[Any], sizes: Sequence[int], kind: Any = object) -> np.ndarray:
    """Return a column of values, each repeated by its size; the dtype is object by default."""
    return np.repeat(np.array(values, dtype=kind), sizes)


def ordered(capture: Capture) -> list[AttentionRecord]:
    """Return one record a block, in the order encoder, decoder, cross, and by layer."""
    first: dict[tuple[int, int, str], AttentionRecord] = {}
    for record in capture.attentions:
        number = PLACES.get((record.stack, record.kind), len(PLACES) - 1)
        first.setdefault((number, record.layer, record.stack), record)
    return [first[key] for key in sorted(first)]


def thumbnails_of(capture: Capture) -> dict[str, np.ndarray]:
    """Return small maps, uint8 ``[layer, head, <=64, <=64]``, padded to the same head count."""
    grouped: dict[str, list[np.ndarray]] = {}
    small = [
        (record.site.map, record.thumbnail[0])
        for record in ordered(capture)
        if record.thumbnail is not None
    ]
    layers = fetched([thumbnail for _, thumbnail in small], torch.uint8)
    for (name, _), layer in zip(small, layers, strict=True):
        assert layer is not None
        grouped.setdefault(name, []).append(layer)
    return {name: read_only(_stack(layers)) for name, layers in grouped.items()}


def _stack(layers: list[np.ndarray]) -> np.ndarray:
    shape = np.max([layer.shape for layer in layers], axis=0)
    out = np.zeros((len(layers), *shape), dtype=np.uint8)
    for index, layer in enumerate(layers):
        out[index, : layer.shape[0], : layer.shape[1], : layer.shape[2]] = layer
    return out


def attentions_of(
    capture: Capture,
    words: tuple[str, ...],
    only: Sequence[Site] | None,
    kind: str,
    gradients: list[np.ndarray] | None,
) -> tuple[Attention, ...]:
    """Return the requested blocks' matrices as numpy; the proof may have captured more."""
    wanted = bool(set(MATRICES) & set(words))
    found = dict(zip(map(id, capture.attentions), gradients or [], strict=False))
    records = [
        record
        for record in ordered(capture)
        if record.weights is not None and _asked_for(record, only)
        if wanted or ("tiles" in words and record.untiled)
    ]
    matrices = [_matrices(record, words) for record in records]
    arrays = iter(fetched([None if x is None else x[0] for block in matrices for x in block]))
    return tuple(
        _attention(record, [next(arrays) for _ in block], words, kind, found.get(id(record)))
        for record, block in zip(records, matrices, strict=True)
    )


def _matrices(record: AttentionRecord, words: tuple[str, ...]) -> tuple[Tensor | None, ...]:
    """Return weights, scores, q, k and v of a block, None for those not requested."""
    scores = record.scores if "scores" in words else None
    vectors = (record.q, record.k, record.v) if "qkv" in words else (None, None, None)
    return record.weights, scores, *vectors


def _asked_for(record: AttentionRecord, only: Sequence[Site] | None) -> bool:
    """Return True if a block is among the named sites, or no site was named."""
    block = (record.stack, record.kind, record.layer)
    return only is None or any((site.stack, site.block, site.layer) == block for site in only)


def sides(record: AttentionRecord, kind: str) -> tuple[str, str]:
    """Return the sentences of the rows and of the columns."""
    # A decoder-only model reads only a source; every other decoder writes the target.
    on_source = record.stack == "encoder" or kind == "decoder-only"
    query = "source" if on_source else "target"
    return query, "source" if on_source or record.kind == "cross" else "target"


def _attention(
    record: AttentionRecord,
    arrays: list[np.ndarray | None],
    words: tuple[str, ...],
    kind: str,
    gradients: np.ndarray | None,
) -> Attention:
    """Return one block from ``arrays`` of `_matrices`, with its other requested parts."""
    query, key = sides(record, kind)
    weights, scores, q, k, v = arrays
    assert weights is not None
    made = Attention(
        weights=weights,
        site=record.site,
        query=query,
        key=key,
        scores=scores,
        gradients=gradients,
    )
    if "qkv" not in words:
        return made
    return replace(made, q=q, k=k, v=v, scale=record.scale, cap=record.cap)


def tiles_of(capture: Capture, only: Sequence[Site] | None, kind: str) -> tuple[Tiles, ...]:
    """Return the blocks with requested tiles."""
    return tuple(
        Tiles(record.site, *sides(record, kind), tuple(_part(one) for one in record.tiles))
        for record in ordered(capture)
        if record.tiles and _asked_for(record, only)
    )


def untiled(capture: Capture, only: Sequence[Site] | None) -> dict[str, dict[str, str]]:
    """Return a note on requested blocks without tiles, with the reasons."""
    said = {
        f"{record.site.map}.{record.site.layer}": record.untiled
        for record in ordered(capture)
        if record.untiled and _asked_for(record, only)
    }
    return {"untiled": said} if said else {}


def left_out(capture: Capture) -> Iterator[str]:
    """Yield a sentence for each attention that is not in the trace, or only its first item."""
    for site, group in groupby(capture.attentions, lambda record: record.site):
        items = max(len(record.statistics["row_sum_error"]) for record in group)
        if items > 1:
            yield (
                f"{site} ran on {items} inputs of its own (windows, groups of tokens or heads); "
                "the first is shown, and its rows are numbered from 0"
            )
    shown = {record.site: record.path for record in ordered(capture)}
    hidden = ((r.site, r.path) for r in capture.attentions if r.path != shown[r.site])
    for site, path in dict.fromkeys(hidden):
        yield f"{site}: {shown[site]} is shown; {path} ran beside it and is not shown"


def _part(factors: Factors) -> Part:
    visible = bias = None
    if factors.edges is not None:
        visible = Visible(*(read_only(x.cpu().numpy()) for x in factors.edges))
    if factors.bias is not None:
        bias = Bias(factors.bias[0], to_numpy(factors.bias[1]), factors.q.shape[1])
    return Part(
        q=to_numpy(factors.q),
        k=to_numpy(factors.k),
        log_sum=read_only(factors.log_sum.cpu().numpy()),
        sharpness=read_only(np.array(factors.sharpness)),
        gain=read_only(np.array(factors.gain)),
        scale=factors.scale,
        cap=factors.cap,
        bias=bias,
        visible=visible,
        blank=None if factors.blank is None else to_numpy(factors.blank),
        only=None if factors.only is None else read_only(factors.only.cpu().numpy()),
        first_head=factors.first_head,
        first_row=factors.first_row,
        sinks=factors.sinks,
    )


def norms_of(capture: Capture) -> pd.DataFrame:
    """Return one row per norm and token: site, stack, layer (-1 outside), token, statistics."""
    named = named_norms(capture)
    sizes = [record.statistics["mean"].numel() for record in named.values()]
    columns: dict[str, Any] = {
        "site": _repeated(list(named), sizes),
        "stack": _repeated([stack_of(capture, r) for r in named.values()], sizes),
        "layer": _repeated([_layer(r.path) for r in named.values()], sizes, np.int64),
        "token": _counted(sizes),
    }
    for name in NORM_COLUMNS:
        columns[name] = _joined([record.statistics[name] for record in named.values()])
    return pd.DataFrame(columns)


def _counted(sizes: Sequence[int]) -> np.ndarray:
    """Return token indices from 0 for each of several sentences, concatenated."""
    return np.concatenate([np.arange(size) for size in sizes] or [np.arange(0)])


def _joined(parts: list[Tensor]) -> np.ndarray:
    """Return the numbers of several tensors, concatenated, float32."""
    if not parts:
        return np.zeros(0, dtype=np.float32)
    if len({part.device for part in parts}) > 1:  # a model spread over several devices
        parts = [part.cpu() for part in parts]
    return torch.cat([part.reshape(-1) for part in parts]).float().cpu().numpy()


def named_norms(capture: Capture) -> dict[str, NormRecord]:
    """Return the norms by module path; repeated calls get a number as suffix."""
    named: dict[str, NormRecord] = {}
    counts: dict[str, int] = {}
    for record in capture.norms:
        counts[record.path] = counts.get(record.path, 0) + 1
        again = f" ({counts[record.path]})" if counts[record.path] > 1 else ""
        named[record.path + again] = record
    return named


def stack_of(capture: Capture, norm: NormRecord) -> str:
    """Return the stack of a norm, from its input, its name, or the attention that follows."""
    if norm.stack is not None:
        return norm.stack
    named = named_stack(norm.path)
    if named is not None:
        return named
    following = [r.stack for r in capture.attentions if r.start > norm.serial]
    before = [r.stack for r in capture.attentions]
    return (following[:1] or before[-1:] or [capture.request.stack])[0]


def _layer(path: str) -> int:
    """Return the first number in a module path, which counts layers."""
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    return int(numbers[0]) if numbers else OUTSIDE


def gains_of(capture: Capture) -> dict[str, tuple[np.ndarray | None, np.ndarray | None]]:
    """Return gain and bias ``[d_model]`` of every norm, None where it has none."""
    named = named_norms(capture)
    arrays = fetched([x for record in named.values() for x in (record.gain, record.bias)])
    return dict(zip(named, zip(arrays[::2], arrays[1::2], strict=True), strict=True))


def fetched(
    tensors: Sequence[Tensor | None], kind: torch.dtype = torch.float32
) -> list[np.ndarray | None]:
    """Return tensors as read-only arrays of this type; None stays None.

    Small GPU tensors are fetched in one transfer, since each transfer waits for the GPU.
    """
    given = [x for x in tensors if x is not None]
    together = [x for x in given if x.device.type != "cpu" and x.numel() <= SMALL]
    if len({x.device for x in together}) != 1:
        together = []
    ready: dict[int, np.ndarray] = {}
    if together:
        flat = torch.cat([x.detach().reshape(-1).to(kind) for x in together]).cpu().numpy()
        ends = np.cumsum([x.numel() for x in together])
        for x, end in zip(together, ends, strict=True):
            ready[id(x)] = read_only(flat[end - x.numel() : end].reshape(x.shape))
    return [
        None if x is None else ready[id(x)] if id(x) in ready else to_numpy(x, kind)
        for x in tensors
    ]


def to_numpy(x: Tensor, kind: torch.dtype = torch.float32) -> np.ndarray:
    """Return a tensor as a read-only array that owns its data, float32 or another type."""
    return read_only(x.detach().to("cpu", kind, copy=True).numpy())


def residuals_of(capture: Capture) -> pd.DataFrame:
    """Return the residual stream's norm after each sum: stack, layer, place, token, norm."""
    records = capture.residuals
    sizes = [record.norm.numel() for record in records]
    return pd.DataFrame(
        {
            "stack": _repeated([record.site.stack for record in records], sizes),
            "layer": _repeated([record.site.layer for record in records], sizes, np.int64),
            "place": _repeated([record.site.block for record in records], sizes),
            "token": _counted(sizes),
            "norm": _joined([record.norm for record in records]),
        }
    )


def hidden_of(capture: Capture) -> dict[str, np.ndarray]:
    """Return the residual stream before each layer and after the last, by stack."""
    found: dict[str, list[Tensor]] = {}
    for record in ordered(capture):
        if record.kind == "self" and record.stream is not None:
            found.setdefault(record.stack, []).append(record.stream)
    for stack, last in capture.streams.items():
        if stack in found:
            found[stack].append(last)
    return {
        stack: read_only(
            torch.stack([x.detach().reshape(-1, x.shape[-1]).float() for x in layers]).cpu().numpy()
        )
        for stack, layers in found.items()
    }


def row_sum_error(record: AttentionRecord) -> float:
    """Return the largest deviation of a row sum from 1, including the weight on sinks."""
    weights, scores = record.weights, record.scores
    if weights is None or scores is None or scores.shape[-1] <= weights.shape[-1]:
        return float(record.statistics["row_sum_error"][0].max())
    sunk = torch.softmax(scores.double(), -1)[..., weights.shape[-1] :].sum(-1)
    return float((weights.double().sum(-1) + sunk - 1).abs().max())


def rebuilt_error(record: AttentionRecord) -> float | None:
    """Return the larger error of the output rebuilt from the weights, and of softmax(scores)."""
    if record.rebuilt is None or record.scores is None or record.weights is None:
        return record.rebuilt
    if record.scores.shape != record.weights.shape or record.form != "softmax":
        return record.rebuilt
    again = torch.softmax(record.scores.double(), -1).nan_to_num(0.0)
    off = float((again - record.weights.double().nan_to_num(0.0)).abs().max())
    return max(record.rebuilt, off)


def holds_all(capture: Capture) -> bool:
    """Return True if a run kept all that a proof compares."""
    return all(r.scores is not None or r.form != "softmax" for r in capture.attentions) and all(
        r.weights is not None and not r.leaves for r in capture.attentions
    )
