"""Lengths of the residual stream through a stack.

They were measured by the probe while the model ran; nothing is run again.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...core.given.facts import require_captured
from ...core.trace import Trace
from ...i18n import mark, say

SUB_LAYERS = {
    "self": mark("self-attention"),
    "cross": mark("cross-attention"),
    "feed_forward": mark("feed-forward"),
}


def stream_lengths(trace: Trace, stack: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the length of every token's residual stream, step by step through a stack.

    Returns:
        Step names ("embedding", "L0 after self-attention", ...), and ``[step, token]`` float64,
        Euclidean lengths.

    Raises:
        LookupError: The trace has no residual sums of that stack.
    """
    found = steps(trace, stack)
    if not found:
        require_captured(trace, mark("lengths of the residual stream"))
        raise LookupError(
            say(
                "This run has no residual stream in {stack}; it has one in {stacks}.",
                stack=repr(stack),
                stacks=stacks_of(trace.residuals),
            )
        )
    labels: list[str] = []
    for layer, place, _ in found:
        part = say(SUB_LAYERS.get(place, place))
        name = say("L{layer} after {part}", layer=layer, part=part)
        name = say("embedding") if place == "embedding" else name
        again = sum(label == name or label.startswith(f"{name} (") for label in labels)
        labels.append(f"{name} ({again + 1})" if again else name)
    return tuple(labels), np.stack([length for _, _, length in found])


def stacks_of(table: pd.DataFrame) -> str:
    """Return the stacks of a table's rows, as words of a sentence."""
    return ", ".join(dict.fromkeys(table["stack"])) if len(table) else say("no stack")


def steps(trace: Trace, stack: str) -> list[tuple[int, str, np.ndarray]]:
    """Return the residual sums of a stack in execution order: layer, place, length ``[token]``."""
    sums = trace.residuals
    if not len(sums):
        return []
    rows = sums[sums["stack"] == stack]
    starts = np.flatnonzero(rows["token"].to_numpy() == 0)
    lengths = np.split(rows["norm"].to_numpy(np.float64), starts[1:]) if len(starts) else []
    heads = zip(rows["layer"].to_numpy()[starts], rows["place"].to_numpy()[starts], strict=True)
    words = len(trace.words_of(stack))
    return [
        (int(layer), str(place), length)
        for (layer, place), length in zip(heads, lengths, strict=True)
        if len(length) == words
    ]
