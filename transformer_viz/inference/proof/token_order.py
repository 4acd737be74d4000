"""Whether row 3 of a map is token 3: told by what changes when several tokens are exchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.numerics import MASK_SCORE
from .accounts import Account, by_kernel

HALVES = 2  # of the tokens are exchanged, one after the other
CHANGED = 1e-4  # of the largest score: above what rounding leaves
WRONG = float("inf")


def exchanged_halves(
    x: Tensor, among: Sequence[int] | None = None
) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """Exchange half of the tokens for others of the same text, `HALVES` times.

    Each token is told from three quarters of the others: the halves are two digits of its place in
    a random order.

    Args:
        x: ids ``[batch, token]`` or vectors ``[batch, token, width]``.
        among: numbers of the tokens that may be exchanged; None for all.

    Yields:
        The numbers of the exchanged tokens, and the changed copy of `x`; nothing where all tokens
        are alike.
    """
    draw = torch.Generator().manual_seed(x.shape[1])
    numbers = list(range(x.shape[1])) if among is None else list(among)
    order = [numbers[n] for n in torch.randperm(len(numbers), generator=draw).tolist()]
    for bit in range(HALVES):
        made, half = x.clone(), []
        for n in (n for turn, n in enumerate(order, 1) if turn >> bit & 1):
            others = [m for m in order if not torch.equal(x[:, m], x[:, n])]
            if others:
                pick = others[int(torch.randint(len(others), (), generator=draw))]
                made[:, n] = x[:, pick]
                half.append(n)
        if half:
            yield tuple(sorted(half)), made


class Stilled:
    """Lets each row look at its own token alone and keeps the ``seen`` scores by kernel: a changed
    token stays in its own row through all layers."""

    def __init__(self, accounts: Sequence[Account]):
        self.by_kernel = by_kernel(accounts)
        self.seen: dict[int, Tensor] = {}

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """As they are."""
        if number in self.by_kernel:
            self.seen[number] = scores.detach().cpu()
        return scores

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """1 for a row's own key, and nothing for any other, nor for those of another sequence."""
        if number not in self.by_kernel:
            return weights
        account, rows = self.by_kernel[number]
        record, still = account.record, torch.zeros_like(weights)
        own = rows % account.shape[2] + record.offset - record.first_key
        there = (own >= 0) & (own < weights.shape[-1]) & (record.kind == "self")
        still[there.nonzero().flatten(), own[there]] = 1.0
        return still

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """As it is."""
        return x

    def record(self, account: Account) -> AttentionRecord | None:
        """An attention with the scores that it had here; None where not all of them ran."""
        batch, heads, queries, keys = account.shape
        scores = torch.full((batch * heads * queries, keys), -torch.inf, device="cpu")
        for number, rows in account.parts.items():
            seen = self.seen.pop(number, None)
            if seen is None or len(seen) != len(rows) or seen.shape[-1] > keys:
                return None
            scores[rows] = F.pad(seen.float(), (0, keys - seen.shape[-1]), value=-torch.inf)
        return replace(account.record, scores=scores.view(account.shape))


def order_gap(
    before: AttentionRecord | None,
    after: AttentionRecord | None,
    tokens: Collection[int],
    size: int,
    stack: str | None,
) -> float | None:
    """Compare the cells that exchanged tokens changed with those that carry their numbers.

    Args:
        before: an attention with its scores while each row looks at its own token alone.
        after: the same with some tokens of one stack exchanged.
        tokens: their numbers.
        size: how many tokens the stack reads.
        stack: the stack that reads them; None if there is only one.

    Returns:
        0 where each exchanged token changes its own row and column, and nothing else changes;
        infinity where another row or column changes; None where it cannot be told.
    """
    if before is None or after is None:
        return None
    one, other = before.scores, after.scores
    if one is None or other is None or one.shape != other.shape:
        return None
    items, _, queries, _ = one.shape
    keys = before.shape[1]  # the others are sinks
    rows = _carry(tokens, before.offset, size, items, queries)
    columns = _carry(tokens, before.first_key, size, items, keys)
    none_of_rows, none_of_columns = torch.zeros_like(rows), torch.zeros_like(columns)
    if before.kind == "cross":
        ways = [(rows, none_of_columns), (none_of_rows, columns)]
        if stack is not None:
            ways = [ways[stack != before.stack]]
        gaps = [_gap(one[..., :keys], other[..., :keys], *way) for way in ways]
        return gaps[0] if stack is not None else (0.0 if 0.0 in gaps else None)
    if stack not in (None, before.stack):
        return None
    return _gap(one[..., :keys], other[..., :keys], rows, columns)


def _gap(one: Tensor, other: Tensor, rows: Tensor, columns: Tensor) -> float | None:
    """Return the verdict on scores ``[item, head, query, key]`` before and after, where only these
    rows ``[item, query]`` and columns ``[item, key]`` may change."""
    cells, seen = differing(one, other, columns)
    if not bool(cells.any()):
        return None
    if bool((cells & ~(rows[..., :, None] | columns[..., None, :])).any()):
        return WRONG
    there = (rows & seen.any(-1)) == (rows & cells.any(-1))
    across = (columns & seen.any(-2)) == (columns & cells.any(-2))
    return 0.0 if bool(there.all()) and bool(across.all()) else None


def _carry(tokens: Collection[int], first: int, size: int, items: int, count: int) -> Tensor:
    """Whether rows (or keys) ``[item, row]`` carry one of the tokens, whose first is number
    ``first``. Windows that tile the tokens come one after the other; items of a batch have all."""
    numbers = torch.arange(items * count, device="cpu").view(items, count)
    windows = items > 1 and count < size and items * count % size == 0
    numbers = numbers % (size if windows else count)
    return torch.isin(numbers + first, torch.tensor(sorted(tokens), device="cpu"))


def differing(one: Tensor, other: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Find the cells ``[item, query, key]`` that differ in any head, and those that any head sees.

    A number added to a whole row changes no softmax: the mean change of a row's cells outside
    ``columns`` ``[item, key]`` is taken off.
    """
    one, other = one.double(), other.double()
    seen = (one > MASK_SCORE) & (other > MASK_SCORE)
    size = one[seen].abs().max() if bool(seen.any()) else one.new_ones(())
    gap = torch.where(seen, other - one, 0.0)
    kept = seen & ~columns[:, None, None]
    shift = (gap * kept).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1)
    gap = torch.where(seen, gap - shift, 0.0)
    return (gap.abs() > CHANGED * size).any(1), seen.any(1)
