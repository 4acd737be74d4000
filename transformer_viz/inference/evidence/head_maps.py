"""A trace as the arrays and masks that head metrics read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...core.sites import MAPS, Site
from ...core.trace import Trace
from ...core.trace_parts import Attention, Tokens
from ...metrics.heads.maps import Maps, Projections, Side
from ...metrics.heads.sentences import Measured, measured, together

MASKED = -1e3  # a score of this or less is the mask's
MARKS = {".", ",", "。", "，"}
Places = Mapping[Site, Projections]


@dataclass(frozen=True, eq=False)
class Group:
    """Heads of one map that see the same keys, and the layers they stand in."""

    layers: tuple[Site, ...]
    maps: Maps


def places_of(trace: Trace) -> pd.DataFrame:
    """``stack, block, layer, head`` of every head whose matrix was kept, as `trace.heads` has."""
    rows = [
        (a.site.stack, a.site.block, a.site.layer, head)
        for name in trace.maps
        for a in trace.blocks(name)
        for head in range(len(a.weights))
    ]
    return pd.DataFrame(rows, columns=["stack", "block", "layer", "head"])


def measure(
    trace: Trace, view: str, beyond: Places | None = None, seed: tuple[int, ...] | None = None
) -> dict[str, Measured]:
    """Every metric of every head of a trace, in the order of :func:`places_of`."""
    groups = list(_groups(trace, view, beyond or {}))
    order = [
        (list(MAPS).index(site.map), site.layer, head)
        for group in groups
        for site in group.layers
        for head in range(len(group.maps.weights) // len(group.layers))
    ]
    parts = [measured(group.maps, seed) for group in groups]
    return together(parts, np.array(sorted(range(len(order)), key=order.__getitem__)))


def _groups(trace: Trace, view: str, beyond: Places) -> Iterator[Group]:
    """All heads, those together that one pass over arrays can measure."""
    for name in trace.maps:
        alike: dict[tuple[object, ...], list[Maps]] = {}
        sites: dict[tuple[object, ...], list[Site]] = {}
        for attention in trace.blocks(name):
            maps = _maps(trace, attention, view, beyond.get(attention.site, Projections()))
            values = maps.beyond.values
            wide = None if values is None else values.shape
            key: tuple[object, ...] = (maps.visible.tobytes(), maps.weights.shape, wide)
            alike.setdefault(key, []).append(maps)
            sites.setdefault(key, []).append(attention.site)
        for key, found in alike.items():
            yield Group(tuple(sites[key]), _joined(found))


def _joined(found: list[Maps]) -> Maps:
    """The heads of several layers as those of one."""

    def all_of(name: str) -> np.ndarray | None:
        parts = [getattr(maps.beyond, name) for maps in found]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    beyond = replace(
        found[0].beyond,
        **{name: all_of(name) for name in ("values", "output", "final", "circuit")},
    )
    return replace(
        found[0], weights=np.concatenate([maps.weights for maps in found]), beyond=beyond
    )


def _maps(trace: Trace, attention: Attention, view: str, beyond: Projections) -> Maps:
    return Maps(
        weights=attention.weights,
        visible=visible(attention),
        query=side(trace.tokens(attention.query)),
        key=side(trace.tokens(attention.key)),
        cross=attention.site.block == "cross",
        view=view,
        beyond=replace(beyond, values=_values(attention)),
    )


def _values(attention: Attention) -> np.ndarray | None:
    """``[head, key, d_v]``; groups of query heads share one (grouped-query attention)."""
    if attention.v is None:
        return None
    shared, rest = divmod(len(attention.weights), len(attention.v))
    return None if rest else np.repeat(attention.v, shared, axis=0)


def visible(attention: Attention) -> np.ndarray:
    """Which keys the mask leaves to each row, ``[query, key]`` of bool.

    By the scores where they were kept; else the keys to which any head of the block gives weight,
    as a softmax gives exactly 0 to a hidden key alone (and to one that all heads find hopeless).
    """
    weighed = np.nan_to_num(attention.weights) > 0
    scores = attention.scores
    if scores is None or scores.shape != attention.weights.shape:
        return weighed.any(0)
    return (np.nan_to_num(scores, nan=-np.inf) > MASKED).any(0) & weighed.any(-1).any(0)[:, None]


def side(tokens: Tokens) -> Side:
    """What head metrics ask of tokens."""
    ids = np.array(tokens.ids, dtype=np.int64) if tokens.ids else None
    marks = [piece.strip("▁Ġ ").removeprefix("##") in MARKS for piece in tokens.pieces]
    special = np.array(tokens.special, dtype=bool)
    return Side(special, np.array(marks, dtype=bool) & ~special, ids)
