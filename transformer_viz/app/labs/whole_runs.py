"""Whole maps: what the labs that speak of all heads ask for, and when that is too much."""

from __future__ import annotations

from ...core.sites import MAPS
from ...i18n import say
from ..engine.trace_cache import MEGABYTE
from ..session.scene import Scene

MAX_MAP_BYTES = (
    192 * MEGABYTE
)  # weights and scores of the maps of one run; the cache has to hold them


def too_long(scene: Scene, *blocks: str) -> str | None:
    """Why all heads of some maps cannot be measured together; None where they can."""
    if sum(_size(scene, block) for block in blocks) <= MAX_MAP_BYTES:
        return None
    return say(
        "This sentence is too long for this lab, which measures all heads together; type a "
        "shorter one."
    )


def _size(scene: Scene, block: str) -> int:
    """Bytes of the weights and scores of a map: float32 ``[layer, head, query, key]`` of both."""
    trace = scene.before
    if block not in trace.maps:
        return 0
    stack, kind = MAPS[block]
    rows = len(trace.words_of(stack))
    columns = len(trace.source) if kind == "cross" else rows
    return 2 * 4 * int(trace.head_counts(block).sum()) * rows * columns
