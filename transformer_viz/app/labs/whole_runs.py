"""Size limit of labs that measure all heads of a map together."""

from __future__ import annotations

from ...core.sites import MAPS
from ...i18n import say
from ..engine.trace_cache import MEGABYTE
from ..session.scene import Scene

MAX_MAP_BYTES = (
    192 * MEGABYTE
)  # weights and scores of one run's maps, which have to fit into the cache


def too_long(scene: Scene, *blocks: str) -> str | None:
    """Return a reason if all heads of some maps are too large to measure together, else None."""
    if sum(_size(scene, block) for block in blocks) <= MAX_MAP_BYTES:
        return None
    return say(
        "This sentence is too long for this lab, which measures all heads together; type a "
        "shorter one."
    )


def _size(scene: Scene, block: str) -> int:
    """Return the bytes of a map: weights and scores, float32 ``[layer, head, query, key]`` each."""
    trace = scene.before
    if block not in trace.maps:
        return 0
    stack, kind = MAPS[block]
    rows = len(trace.words_of(stack))
    columns = len(trace.source) if kind == "cross" else rows
    return 2 * 4 * int(trace.head_counts(block).sum()) * rows * columns
