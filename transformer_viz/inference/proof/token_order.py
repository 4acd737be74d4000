"""Test that row 3 of a map is token 3, by the effect of exchanging several tokens."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.numerics import MASK_SCORE
from .accounts import Account, by_kernel
from .kernel_rows import BLOCK
from .kernels import Kernel, KernelMode
from .mixing import Changed, ways

CHANGED = 1e-4  # relative to the largest score; above rounding
MOVED = 2e-6  # relative to the largest score; less counts as no change
ROUNDED = 4  # units of the last digit by which a row may differ after adding a constant
WRONG = float("inf")


class Exchange(NamedTuple):
    """Text with some tokens replaced by others of the same text.

    Attributes:
        tokens: Indices of the exchanged tokens.
        made: The changed text.
    """

    tokens: tuple[int, ...]
    made: Tensor


def exchanges(
    x: Tensor, among: Sequence[int] | None = None, every: bool = False
) -> Iterator[Exchange]:
    """Yield texts with about half of the tokens replaced by others of the same text.

    For any two tokens, each is exchanged once while the other one stays.

    Args:
        x: Ids ``[batch, token]`` or vectors ``[batch, token, width]``.
        among: Indices of the tokens that may be exchanged; None for all.
        every: True to exchange each token alone too.

    Yields:
        The exchanges; none if all tokens are equal.
    """
    draw = torch.Generator().manual_seed(x.shape[1])
    values = torch.unique(x.transpose(0, 1).flatten(1), dim=0, return_inverse=True)[1].tolist()
    numbers = list(range(x.shape[1])) if among is None else list(among)
    place = {value: n for n, value in reversed([(n, values[n]) for n in numbers])}
    alike = (
        x.flatten(2)[:, :, None].eq(x.flatten(2)[:, None]).all(-1).any(0)
        if x.dim() > 2
        else (x[:, :, None] == x[:, None]).any(0)
    )  # in some item of the batch
    apart: dict[int, int] = {}
    for value, n in place.items():
        if not any(bool(alike[n, m]) for m in apart.values()):
            apart[value] = n
    numbers = [n for n in numbers if values[n] in apart]
    if len(apart) < 2:
        return
    turns = [
        [n for n, taken in zip(numbers, turn, strict=True) if taken]
        for turn in zip(*codes(len(numbers), draw), strict=True)
    ]
    turns += [[n] for n in numbers if every]
    for tokens in turns:
        made = x.clone()
        for n in tokens:
            others = [m for value, m in apart.items() if value != values[n]]
            made[:, n] = x[:, others[int(torch.randint(len(others), (), generator=draw))]]
        if tokens:
            yield Exchange(tuple(tokens), made)


def codes(count: int, draw: torch.Generator) -> list[tuple[int, ...]]:
    """Return a code for each token: the exchanges that include it.

    All codes have equally many ones, so none contains another one.
    """
    length = next(n for n in range(1, count + 2) if comb(n, (n + 1) // 2) >= count)
    ones = list(combinations(range(length), (length + 1) // 2))
    picked = torch.randperm(len(ones), generator=draw)[:count].tolist()
    return [tuple(int(n in ones[one]) for n in range(length)) for one in picked]


class Stilled:
    """Edit that restricts each row to its own token, and compares scores of changed texts.

    A changed token then stays in its own row through all layers.

    Attributes:
        turns: Changed texts of this pass. In a batch the unchanged text is first and last; else it
            ran in the pass ``before``.
        gaps: For each account, the results of `order_gap` for each text.
        out: Output of the pass.
        carried: Modules that mixed tokens, whose other rows were reset.
        torn: True if the pass is not a batch of such texts.
    """

    def __init__(
        self,
        accounts: Sequence[Account],
        kernels: Sequence[Kernel],
        turns: Sequence[Changed] = (),
        before: Stilled | None = None,
        carried: Mapping[str, str] | None = None,
    ):
        self.accounts, self.kernels, self.turns = accounts, kernels, turns
        self.carried = {} if carried is None else carried  # shared, and grows
        self.by_kernel = by_kernel(accounts)
        self.count = len(turns) + 2 if before is None and turns else 1
        self.kept: dict[int, AttentionRecord] = {} if before is None else before.kept
        self.gaps: dict[int, list[float | None]] = {}
        self.torn = False
        self.seen: dict[int, Tensor] = {}
        self.rows: dict[int, Tensor] = {}  # indices of a kernel's rows [item, row]
        self.mode: KernelMode | None = None
        self.out: list[Tensor] = []

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Compare the scores of an attention once all its kernels have run."""
        if number not in self.by_kernel or self.mode is None:
            return scores
        self.rows.pop(number, None)
        account, kernel = self.by_kernel[number][0], self.kernels[number]
        lines = torch.arange(len(scores), device="cpu").view(self.mode.lead)
        found = [way.reshape(self.count, -1) for way in ways(lines, kernel.lead, self.count)]
        if not found or scores.shape[-1] != kernel.shape[-1]:
            self.torn = True
            return scores
        seen = scores.detach().cpu()
        self.rows[number] = min(found, key=lambda rows: ends_apart(seen, rows))
        self.seen[number] = seen if len(account.parts) == 1 else seen.clone()
        if account.parts.keys() <= self.seen.keys():
            for n, one in enumerate(self.accounts):
                if one.parts is account.parts:
                    self.compare(n, one)
            for part in account.parts:
                del self.seen[part]
        return scores

    def compare(self, number: int, account: Account) -> None:
        """Compare an attention of the changed texts with that of the unchanged one."""
        if not self.turns:
            self.kept[number] = self.record(account, 0)
            return
        before = self.kept.get(number)
        if self.count > 1:
            before, last = (self.record(account, item) for item in (0, self.count - 1))
            gap = order_gap(before, last, (), 0, account.record.stack)
            self.torn = self.torn or gap is not None
        self.gaps[number] = [
            order_gap(
                before,
                self.record(account, item),
                one.tokens,
                one.size,
                one.stack,
                not self.carried,
            )
            for item, one in enumerate(self.turns, self.count > 1)
        ]

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return weights of 1 for a row's own key, and 0 for all others."""
        if number not in self.rows:
            return weights
        account, rows = self.by_kernel[number]
        own_rows = self.mode is not None and self.mode.own
        record, still = account.record, weights.zero_() if own_rows else torch.zeros_like(weights)
        own = rows % account.shape[2] + record.offset - record.first_key
        there = (own >= 0) & (own < weights.shape[-1]) & (record.kind == "self")
        still[self.rows[number][:, there], own[there]] = 1.0
        return still

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Return the input unchanged."""
        return x

    def record(self, account: Account, item: int) -> AttentionRecord:
        """Return an attention with the scores of an item of this pass."""
        batch, heads, queries, keys = account.shape
        kind = self.seen[next(iter(account.parts))].dtype
        scores = torch.full((batch * heads * queries, keys), -torch.inf, dtype=kind, device="cpu")
        for number, rows in account.parts.items():
            seen = self.seen[number][self.rows[number][item]]
            scores[rows] = F.pad(seen.to(kind), (0, keys - seen.shape[-1]), value=-torch.inf)
        return replace(account.record, scores=scores.view(account.shape))


def ends_apart(x: Tensor, rows: Tensor) -> float:
    """Return the difference between the rows of the last and the first item."""
    return float((x[rows[-1]].float() - x[rows[0]].float()).nan_to_num().abs().max())


def order_gap(
    before: AttentionRecord | None,
    after: AttentionRecord | None,
    tokens: Collection[int],
    size: int,
    stack: str | None,
    excused: bool = True,
) -> float | None:
    """Compare the cells that exchanged tokens changed with their rows and columns.

    Args:
        before: Attention with its scores while each row looks only at its own token.
        after: The same with some tokens of one stack exchanged.
        tokens: Their indices.
        size: Number of tokens that the stack reads.
        stack: Stack that reads them; None if there is only one.
        excused: True if a token without effect counts as exchanged for an equal one. After a
            convolution, its number may have been reset in another row instead.

    Returns:
        0 if each exchanged token changes its own row and column, and nothing else changes; infinity
        if another row or column changes; None if undecided.
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
    return _gap(one[..., :keys], other[..., :keys], rows, columns, excused)


def _gap(
    one: Tensor, other: Tensor, rows: Tensor, columns: Tensor, excused: bool = True
) -> float | None:
    """Return the verdict on scores ``[item, head, query, key]`` before and after.

    Only these rows ``[item, query]`` and columns ``[item, key]`` may change.
    """
    if torch.equal(one, other):  # reads each number once
        return None
    cells, moved, seen, several = differing(one, other, columns)
    if not bool(cells.any()):
        return None
    across, down = rows[..., :, None], columns[..., None, :]
    if bool((cells & ~(across | down)).any()):
        return WRONG
    told = [  # exchanged rows by other columns (their mean subtracted), and columns
        (rows & several, (cells & ~down).any(-1), (moved & ~down).any(-1)),
        (columns & (seen & ~across).any(-2), (cells & ~across).any(-2), (moved & ~across).any(-2)),
    ]
    square = rows.shape == columns.shape
    # A token that changes neither its row nor its column was exchanged for an equal one.
    still = ~told[0][2] & ~told[1][2] if square else torch.zeros_like(rows[..., :1])
    alike = still & excused
    for asked, changed, any_change in told:
        if bool((asked & changed).any()) and bool((asked & ~any_change & ~alike).any()):
            return WRONG if square else None
    there = (rows & seen.any(-1)) == (rows & cells.any(-1))
    along = (columns & seen.any(-2)) == (columns & cells.any(-2))
    return 0.0 if bool(there.all()) and bool(along.all()) else None


def _carry(tokens: Collection[int], first: int, size: int, items: int, count: int) -> Tensor:
    """Return True for rows (or keys) ``[item, row]`` with one of the tokens.

    ``first`` is the index of the first row. Windows that tile the tokens are consecutive; items of
    a batch have all tokens.
    """
    numbers = torch.arange(items * count, device="cpu").view(items, count)
    windows = items > 1 and count < size and items * count % size == 0
    numbers = numbers % (size if windows else count)
    chosen = torch.tensor(sorted(tokens), dtype=torch.long, device="cpu")
    return torch.isin(numbers + first, chosen)


def differing(one: Tensor, other: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Find changed cells, over all heads.

    Returns four masks: cells ``[item, query, key]`` that differ in any head by `CHANGED`, those
    that differ by `MOVED`, those visible in any head, and rows ``[item, query]``. In these rows
    some head sees two unequal cells outside ``columns``. A constant added to a whole row changes no
    softmax. So the mean change of a row's cells outside ``columns`` ``[item, key]`` is subtracted;
    rounding may then differ too.
    """
    rows = max(1, BLOCK // max(1, one.shape[0] * one.shape[1] * one.shape[3]))
    blocks = list(zip(one.split(rows, 2), other.split(rows, 2), strict=True))
    sizes = [torch.where(_seen(x, y), x.abs(), -1.0).amax() for x, y in blocks if x.numel()]
    size = torch.stack(sizes).amax() if sizes else one.new_ones(())
    size = torch.where(size < 0, 1.0, size).float()  # no cell is visible
    outside = ~columns[:, None, None]
    found = [_differing_rows(x, y, outside, size) for x, y in blocks]
    cells, moved, seen, unlike = (torch.cat(x, 1) for x in zip(*found, strict=True))
    return cells, moved, seen, unlike


def _seen(one: Tensor, other: Tensor) -> Tensor:
    """Return True for cells that neither of two score tensors masks."""
    return (one > MASK_SCORE) & (other > MASK_SCORE)


def _differing_rows(
    one: Tensor, other: Tensor, outside: Tensor, size: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return `differing` for some rows; ``size`` is the largest score of all rows."""
    eps = torch.finfo(one.dtype).eps
    seen, one, other = _seen(one, other), one.float(), other.float()
    gap = torch.where(seen, other - one, 0.0)
    kept = seen & outside
    ones = kept.to(gap.dtype)
    count = ones.sum(-1, keepdim=True)
    shift = ones.mul_(gap).sum(-1, keepdim=True) / count.clamp(min=1)
    gap = torch.where(seen, gap - shift, 0.0).abs_()
    rounded = torch.where(shift != 0, ROUNDED * eps, 0.0) * size
    gap = torch.where(gap > rounded, gap, 0.0)  # False for NaN
    most, least = (torch.where(kept, x, -torch.inf).amax(-1) for x in (one, -one))
    unlike = (count[..., 0] > 1) & (most + least > CHANGED * size)  # equal tokens change alike
    largest = gap.amax(1)  # reads all heads at once
    cells, moved = (largest > least * size for least in (CHANGED, MOVED))
    return cells, moved, seen.view(torch.uint8).amax(1).bool(), unlike.any(1)
