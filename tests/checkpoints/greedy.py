"""Greedy decoding by a witness: the whole prefix again for each token."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor


def greedy(
    logits: Callable[[list[int]], Tensor], start: list[int], steps: int, end: int | None = None
) -> tuple[int, ...]:
    """Up to ``steps`` tokens after ``start``; ``logits`` gives ``[token, vocabulary]`` of a row."""
    row = list(start)
    for _ in range(steps):
        row.append(int(logits(row)[-1].argmax()))
        if row[-1] == end:
            break
    return tuple(row[len(start) :])
