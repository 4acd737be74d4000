"""Merging of heads or rows that a model computes one after another into one attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..core.head_metrics import HEAD_METRICS
from .records import HEADS, ROWS, AttentionRecord, Capture
from .statistics import cells, shrunk, thumbnail


def merge_heads(capture: Capture) -> None:
    """Join the records of sibling heads, and of consecutive rows, into one record."""
    whole: list[AttentionRecord] = []
    for record in capture.attentions:
        place = next((i for i, before in enumerate(whole) if precedes(before, record)), None)
        if place is None:
            whole.append(record)
        else:
            whole[place] = with_rows(whole[place], record)
    merged: list[AttentionRecord] = []
    for record in whole:
        last = merged[-1] if merged else None
        beside = last is not None and last.site == record.site and last.shape == record.shape
        if last is not None and beside and record.first_head == last.first_head + last.heads:
            merged[-1] = with_heads(last, record)
        else:
            merged.append(record)
    capture.attentions[:] = merged


def precedes(first: AttentionRecord, second: AttentionRecord) -> bool:
    """Return True if the rows of one record end where those of another begin."""
    same = first.site == second.site and first.first_head == second.first_head
    return same and second.first_row == first.first_row + first.shape[0]


def with_heads(first: AttentionRecord, second: AttentionRecord) -> AttentionRecord:
    """Return two records of one block as one with the heads of both."""
    names = ("weights", "scores", "q", "k", "v", "thumbnail")
    parts = joined(first, second, dict.fromkeys(names, (HEADS, 0.0)))
    statistics = {
        name: torch.cat((value, second.statistics[name]), dim=1)
        for name, value in first.statistics.items()
    }
    heads, path = first.heads + second.heads, common(first.path, second.path)
    return replace(first, path=path, heads=heads, statistics=statistics, **parts)


def common(first: str, second: str) -> str:
    """Return a glob for two module paths."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return ".".join(a if a == b else "*" for a, b in pairs)


def with_rows(first: AttentionRecord, second: AttentionRecord) -> AttentionRecord:
    """Return two records of one block as one with the rows of both; missing keys weigh 0."""
    how = {"weights": (ROWS, 0.0), "scores": (ROWS, float("-inf")), "q": (ROWS, 0.0)}
    parts = joined(first, second, how)
    more = first if first.shape[1] > second.shape[1] else second
    parts |= {"k": more.k, "v": more.v, "along": ROWS}
    parts["thumbnail"] = None
    if first.thumbnail is not None and second.thumbnail is not None:
        if cells(first.shape[1]) == cells(second.shape[1]):
            parts["thumbnail"] = shrunk(side_by_side((first.thumbnail, second.thumbnail), ROWS))
        elif parts["weights"] is not None:
            parts["thumbnail"] = thumbnail(parts["weights"])
    rows = first.shape[0] + second.shape[0]
    statistics = {
        m.name: torch.maximum(first.statistics[m.name], second.statistics[m.name])
        if m.combined == "max"
        else (
            first.statistics[m.name] * first.shape[0] + second.statistics[m.name] * second.shape[0]
        )
        / rows
        for m in HEAD_METRICS
        if m.name in first.statistics
    }
    shape = (rows, max(first.shape[1], second.shape[1]))
    return replace(first, shape=shape, statistics=statistics, **parts)


def joined(
    first: AttentionRecord, second: AttentionRecord, how: dict[str, tuple[int, float]]
) -> dict[str, Any]:
    """Return tensors of two records joined along the given dimension, padded as given."""
    parts: dict[str, Any] = {"rebuilt": None, "leaves": (*first.leaves, *second.leaves)}
    parts["untiled"] = first.untiled or second.untiled
    parts["tiles"] = () if parts["untiled"] else (*first.tiles, *second.tiles)
    for name, (dim, fill) in how.items():
        pair = getattr(first, name), getattr(second, name)
        missing = pair[0] is None or pair[1] is None
        parts[name] = None if missing else side_by_side(pair, dim, fill)
    if (first.scale, first.cap) != (second.scale, second.cap):
        parts["scale"] = parts["cap"] = None
    return parts


def side_by_side(parts: Sequence[Tensor], dim: int, fill: float = 0.0) -> Tensor:
    """Return tensors joined along a dimension; missing columns are filled."""
    longest = max(x.shape[-1] for x in parts)
    return torch.cat(
        [
            torch.nn.functional.pad(x, (0, longest - x.shape[-1]), value=fill)
            if x.shape[-1] < longest
            else x
            for x in parts
        ],
        dim,
    )
