"""Heads that a model runs as modules of their own become one attention."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from .records import AttentionRecord, Capture

PARTS = ("weights", "scores", "q", "k", "v", "thumbnail")


def merge_heads(capture: Capture) -> None:
    """Join the records of sibling heads (first_head > 0) to the record they follow."""
    merged: list[AttentionRecord] = []
    for record in capture.attentions:
        if record.first_head and merged and merged[-1].site == record.site:
            merged[-1] = joined(merged[-1], record)
        else:
            merged.append(record)
    capture.attentions[:] = merged


def joined(first: AttentionRecord, second: AttentionRecord) -> AttentionRecord:
    """Two records of one block as one with the heads of both."""

    def both(a: Any, b: Any) -> Any:
        return None if a is None or b is None else torch.cat((a, b), dim=1)

    parts: dict[str, Any] = {
        name: both(getattr(first, name), getattr(second, name)) for name in PARTS
    }
    statistics = {
        name: torch.cat((value, second.statistics[name]), dim=1)
        for name, value in first.statistics.items()
    }
    heads = first.heads + second.heads
    parts["leaves"] = (*first.leaves, *second.leaves)
    if (first.scale, first.cap) != (second.scale, second.cap):
        parts["scale"] = parts["cap"] = None
    return replace(first, heads=heads, statistics=statistics, rebuilt=None, **parts)
