"""Heads of a report: the open one, the chosen ones, or all ordered by entropy."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.sites import MAPS
from ...core.trace import Trace
from .report_data import Place

Head = Place | tuple[int, int]


def most_decided(trace: Trace, block: str) -> Place:
    """Return the head of a block with the lowest entropy among those with kept weights or tiles."""
    kept = {layer for name, layer in _kept(trace) if name == block}
    if not kept:
        trace.blocks(block)  # raises an error with the reason
    stack, kind = MAPS[block]
    mine = trace.heads[(trace.heads["stack"] == stack) & (trace.heads["block"] == kind)]
    mine = mine[mine["layer"].isin(kept)]
    best = mine.loc[mine["entropy"].idxmin()]
    return block, int(best["layer"]), int(best["head"])


def _kept(trace: Trace) -> set[tuple[str, int]]:
    """Return (map, layer) of all sites with kept weights or tiles."""
    sites = [one.site for one in trace.attentions] + [one.site for one in trace.tiles]
    return {(site.map, site.layer) for site in sites}


def decided_first(trace: Trace, opened: Place) -> list[Place]:
    """Return every head with kept weights or tiles: the open one first, then by entropy."""
    names = {pair: name for name, pair in MAPS.items()}
    kept = _kept(trace)
    table = trace.heads.sort_values("entropy", kind="stable")
    columns = (table[column] for column in ("stack", "block", "layer", "head"))
    places = [
        (names[stack, block], int(layer), int(head))
        for stack, block, layer, head in zip(*columns, strict=True)
        if (stack, block) in names and (names[stack, block], int(layer)) in kept
    ]
    return list(dict.fromkeys([opened, *places]))


def require_head(trace: Trace, place: Place) -> None:
    """Check that a head exists and that its weights or tiles were kept.

    Raises:
        LookupError: No such head; the message lists what exists.
    """
    block, layer, head = place
    count = trace.layers(block)
    if not 0 <= layer < count:
        raise LookupError(f"{block!r} has no layer {layer}; it has layers 0 to {count - 1}.")
    trace.map_shape(block, layer)
    count = int(trace.head_counts(block)[layer])
    if not 0 <= head < count:
        raise LookupError(f"{block!r} L{layer} has heads 0 to {count - 1}; got {head}.")


def chosen(
    trace: Trace, heads: Sequence[Head] | None, layers: Sequence[int] | None
) -> tuple[Place, ...]:
    """Return the named heads, and all heads of the named layers; empty if none is named.

    Args:
        trace: The run.
        heads: Block, layer and head of each; or layer and head, in every block that has them.
        layers: Numbers of layers, in every block that has them.

    Raises:
        LookupError: The run lacks a head or a layer; the message lists what exists.
    """
    found: list[Place] = []
    for head in heads or ():
        places = [head] if len(head) == 3 else [(b, *head) for b in _with_layer(trace, head[0])]
        for place in places:
            require_head(trace, place)
        found += places
    for layer in layers or ():
        for block in _with_layer(trace, layer):
            found += [(block, layer, n) for n in range(trace.head_counts(block)[layer])]
    return tuple(dict.fromkeys(found))


def _with_layer(trace: Trace, layer: int) -> list[str]:
    found = [block for block in trace.maps if 0 <= layer < trace.layers(block)]
    if not found:
        most = max(map(trace.layers, trace.maps))
        raise LookupError(f"There is no layer {layer}; this run has layers 0 to {most - 1}.")
    return found
