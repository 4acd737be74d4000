"""Whether row 3 of a map is token 3: told by what changes when this token is another one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.numerics import MASK_SCORE
from .accounts import Account, by_kernel

CHANGED = 1e-4  # of the largest score: above what rounding leaves
ENOUGH = 8  # rows and keys that tell where tokens are moved about
Pairs = Sequence[tuple[AttentionRecord | None, AttentionRecord | None]]


class Orders:
    """What changed tokens told of each attention while every row looked at its own token alone.

    ``asked`` are the numbers of the accounts whose tokens are moved about by numbers of the input;
    ``rows`` and ``keys`` the tokens that were found at their own place there.
    """

    def __init__(self, accounts: Sequence[Account], reordered: Collection[int]):
        self.accounts = accounts
        self.asked = {n for n, account in enumerate(accounts) if set(account.parts) & {*reordered}}
        self.rows: dict[int, set[int]] = {n: set() for n in self.asked}
        self.keys: dict[int, set[int]] = {n: set() for n in self.asked}
        self.first: dict[str, tuple[int, int]] = {}  # the shape of a stack's first layer
        for record in (account.record for account in accounts):
            if record.kind == "self":
                self.first.setdefault(record.stack, record.shape)

    def told(
        self, token: int, stack: str | None, pairs: Pairs, only_asked: bool
    ) -> Iterator[tuple[Account, float]]:
        """What a changed token of a stack tells of each attention, before and after. A layer that
        has fewer rows than the first one has pooled or dropped tokens: nothing is told of it, but
        where the input's numbers did that."""
        for number, (account, (before, after)) in enumerate(zip(self.accounts, pairs, strict=True)):
            asked, record = number in self.asked, account.record
            if before is None or after is None or (only_asked and not asked):
                continue
            if record.kind == "cross":
                side = None if stack is None else int(stack != record.stack)
                error = None if side is None else own_line(before, after, token, side)
            elif stack not in (None, record.stack):
                continue
            else:
                side, error = None, own_rows(before, after, token)
                asked_or_whole = asked or record.shape == self.first[record.stack]
                error = error if asked_or_whole else None
            if error is None:
                continue
            if error == 0 and asked:
                self.rows[number] |= {token} if side != 1 else set()
                self.keys[number] |= {token} if side != 0 else set()
            yield account, error

    def untold(self) -> list[Account]:
        """Those whose tokens are moved about, and that too few tokens told of."""
        return [
            self.accounts[number]
            for number in sorted(self.asked)
            if len(self.rows[number]) < min(ENOUGH, self.accounts[number].record.shape[0])
            or len(self.keys[number]) < min(ENOUGH, self.accounts[number].record.shape[1])
        ]


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


def own_line(before: AttentionRecord, after: AttentionRecord, token: int, dim: int) -> float | None:
    """0 where a changed token of one of two sequences changes its own row (``dim`` 0) or column (1)
    of the scores and no other one; infinity where it changes another one; None if several."""
    if before.scores is None or after.scores is None or before.scores.shape != after.scores.shape:
        return None
    cells = differing(before.scores, after.scores).any(0)
    lines = cells.any(1 - dim).nonzero().flatten().tolist()
    own = token - (before.first_key if dim else before.offset)
    if len(lines) != 1:
        return None
    return 0.0 if lines == [own] else float("inf")


def own_rows(before: AttentionRecord, after: AttentionRecord, token: int) -> float | None:
    """0 where a changed token changes its own row and column of the scores and no other ones (as in
    a first layer), or, under a causal mask, no row before its own; infinity where it is another
    row; None where the change has spread too far to tell.
    """
    if before.scores is None or after.scores is None or before.scores.shape != after.scores.shape:
        return None
    items = differing(before.scores, after.scores)
    touched = items.flatten(1).any(1).nonzero().flatten().tolist()
    if not touched:
        return None
    if len(touched) == 1:  # of windows, one after the other, the one that holds the token
        token -= touched[0] * items.shape[1]
    cells = items.any(0)
    row, column = token - before.offset, token - before.first_key
    if only_cross(cells, row, column):
        return 0.0
    if any(only_cross(cells, other, other) for other in range(min(cells.shape))):
        return float("inf")
    row = max(row, 0)  # where an earlier pass read the token, all rows may look at it
    if before.weights is not None and causal(before.weights, before.offset - before.first_key):
        return 0.0 if int(cells.any(1).nonzero()[0]) == row else float("inf")
    return None


def differing(one: Tensor, other: Tensor) -> Tensor:
    """The cells ``[item, query, key]`` that differ in any head."""
    one, other = one.double(), other.double()
    seen = (one > MASK_SCORE) & (other > MASK_SCORE)
    size = one[seen].abs().max() if bool(seen.any()) else one.new_ones(())
    gap = torch.where(seen, (one - other).abs(), 0.0)
    return (gap > CHANGED * size).any(1)


def only_cross(cells: Tensor, row: int, column: int) -> bool:
    """Whether all cells stand in one row and one column."""
    rest = cells.clone()
    if 0 <= row < len(rest):
        rest[row] = False
    if 0 <= column < rest.shape[1]:
        rest[:, column] = False
    return not bool(rest.any())


def causal(weights: Tensor, offset: int) -> bool:
    """Whether no row looks at a later key."""
    return not bool(weights.triu(1 + offset).any())
