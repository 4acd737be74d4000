"""Attention flow: maximum flow from each input to one row (an alternative to R1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .rollout import Rolled, Step

MOST_TOKENS = 64  # more tokens take minutes
LEAST = 1e-9  # smaller capacities count as 0


def flow(steps: Sequence[Step], row: int) -> Rolled:
    """Return the largest flow from a last row to each input alone, ``[1, token]`` per sentence.

    Capacities are the shares of the steps. Flow is never below rollout, which is one possible flow,
    and equal to it after one layer. It does not sum to 1, since each input is computed alone. Abnar
    and Zuidema 2020, section 4; maximum flow by capacity scaling.

    Raises:
        ValueError: No steps, or more tokens than `MOST_TOKENS`.
    """
    if not steps:
        raise ValueError("No attention was seen, so nothing can flow.")
    longest = max(max(step.keys.shape) for step in steps)
    if longest > MOST_TOKENS:
        raise ValueError(
            f"Flow is reckoned up to {MOST_TOKENS} tokens and this input has {longest}; take "
            "method='rollout', which no flow is below."
        )
    crossing = any(step.block == "cross" for step in steps)
    encoder = [s for s in steps if s.stack == "encoder"] if crossing else list(steps)
    decoder = [s for s in steps if s.stack == "decoder"] if crossing else []
    sources = encoder[0].keys.shape[1] if encoder else _memory(decoder)
    targets = len(decoder[0].keys) if decoder else 0
    size = sources * (len(encoder) + 1) + targets * (len(decoder) + bool(decoder))
    pipes = np.zeros((size, size))
    for number, step in enumerate(encoder):
        upper, lower = sources * (number + 1), sources * number
        pipes[upper : upper + sources, lower : lower + sources] = step.keys + np.diag(step.own)
    top, first = sources * len(encoder), sources * (len(encoder) + 1)
    for number, step in enumerate(decoder):
        upper, lower = first + targets * (number + 1), first + targets * number
        down = np.diag(step.own)
        if step.block == "cross":
            pipes[upper : upper + targets, top : top + sources] = step.keys
        else:
            down = down + step.keys
        pipes[upper : upper + targets, lower : lower + targets] = down
    start = (first + targets * len(decoder) if decoder else top) + row
    source = np.array([[largest(pipes, start, n) for n in range(sources)]])
    if not decoder:
        return Rolled(source, None)
    return Rolled(source, np.array([[largest(pipes, start, first + n) for n in range(targets)]]))


def _memory(decoder: Sequence[Step]) -> int:
    return int(next(s.keys.shape[1] for s in decoder if s.block == "cross"))


def largest(pipes: np.ndarray, start: int, end: int) -> float:
    """Return the maximum flow between two nodes of a graph of capacities ``[from, to]``."""
    rest, total = pipes.copy(), 0.0
    if start == end:
        return float("inf")
    bound = 2.0 ** np.floor(np.log2(max(rest.max(), LEAST)))
    while bound > LEAST:
        way = _way(rest, start, end, bound)
        if way is None:
            bound /= 2
            continue
        upper, lower = np.array(way[:-1]), np.array(way[1:])
        amount = rest[upper, lower].min()
        rest[upper, lower] -= amount
        rest[lower, upper] += amount
        total += float(amount)
    return total


def _way(rest: np.ndarray, start: int, end: int, bound: float) -> list[int] | None:
    """Return a shortest path with residual capacity ``bound``, breadth first; None without one."""
    before = np.full(len(rest), -1)
    before[start] = start
    front = np.array([start])
    while len(front) and before[end] < 0:
        open_pipes = (rest[front] >= bound) & (before < 0)
        found = np.flatnonzero(open_pipes.any(0))
        before[found] = front[open_pipes[:, found].argmax(0)]
        front = found
    if before[end] < 0:
        return None
    way = [end]
    while way[-1] != start:
        way.append(int(before[way[-1]]))
    return way[::-1]
