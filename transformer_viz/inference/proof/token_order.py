"""Whether row 3 of a map is token 3: told by what changes when several tokens are exchanged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.numerics import MASK_SCORE
from .accounts import Account, by_kernel

PASSES, MORE_PASSES = 2, 4  # in which tokens are exchanged, shortly and with each token alone
MOST_DRAWS = 64  # of the random choice of exchanged tokens
CHANGED = 1e-4  # of the largest score: above what rounding leaves
WRONG = float("inf")


class Exchange(NamedTuple):
    """A text with some tokens exchanged for others of the same text.

    Attributes:
        tokens: numbers of the exchanged tokens.
        values: one number a token; equal tokens have equal numbers, in all exchanges of a text.
        made: the changed text.
    """

    tokens: tuple[int, ...]
    values: tuple[int, ...]
    made: Tensor


def exchanges(
    x: Tensor, among: Sequence[int] | None = None, every: bool = False
) -> Iterator[Exchange]:
    """Exchange tokens for others of the same text at random, in a few passes.

    Which texts agree at a token tells it from others: up to 5 tokens are all told apart, and in a
    longer text each from its 3 neighbours, its mirror image and 4 of 5 others.

    Args:
        x: ids ``[batch, token]`` or vectors ``[batch, token, width]``.
        among: numbers of the tokens that may be exchanged; None for all.
        every: take more passes, then exchange each token alone.

    Yields:
        The exchanges; none where all tokens are alike.
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
    place = apart
    numbers = [n for n in numbers if values[n] in place]
    kinds = [(values[n], _shuffled([v for v in place if v != values[n]], draw)) for n in numbers]
    if len(place) < 2:
        return
    passes = MORE_PASSES if every else PASSES
    codes = _codes(len(numbers), draw, passes)
    turns = [[code[turn] for code in codes] for turn in range(passes)]
    turns += [[int(n == one) for n in numbers] for one in numbers if every]
    for turn in turns:
        made, now = x.clone(), list(values)
        for n, (own, others), step in zip(numbers, kinds, turn, strict=True):
            now[n] = ([own, *others])[step if step <= len(others) else len(others)]
            made[:, n] = x[:, place[now[n]]]
        tokens = tuple(n for n in numbers if now[n] != values[n])
        if tokens:
            yield Exchange(tokens, tuple(now), made)


def _shuffled(numbers: Sequence[int], draw: torch.Generator) -> list[int]:
    """Return numbers in a random order."""
    return [numbers[n] for n in torch.randperm(len(numbers), generator=draw).tolist()]


def _codes(count: int, draw: torch.Generator, passes: int) -> list[tuple[int, ...]]:
    """Return which value each of some tokens has in each pass, 0 for its own."""
    known = [code for code in product(range(passes + 1), repeat=passes) if _grows(code)]
    near = len(known) - 2 - passes // MORE_PASSES
    for _ in range(MOST_DRAWS):
        picked: list[int] = []
        for n in range(count):
            free = set(range(len(known))) - set(picked if count <= len(known) else picked[-near:])
            mirror = count - 1 - n
            free -= {picked[mirror]} if mirror < n else set()
            picked.append(_shuffled(sorted(free), draw)[0])
        codes = [known[n] for n in picked]
        # Two texts agree at each end and a third does not: what an end changes, and what changes
        # it, are seen.
        if all(len({0, *code}) == 2 for code in codes[:: max(1, count - 1)]):
            break
    return codes


def _grows(code: Sequence[int]) -> bool:
    """Return whether a code leaves no value out, as codes that agree in the same passes are one,
    and some pass of several leaves its token as it is: each exchanges half of the tokens."""
    kept = len(code) < MORE_PASSES or 0 in code
    return kept and all(value <= max(code[:n], default=0) + 1 for n, value in enumerate(code))


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
    cells, seen, several = differing(one, other, columns)
    if not bool(cells.any()):
        return None
    across, down = rows[..., :, None], columns[..., None, :]
    if bool((cells & ~(across | down)).any()):
        return WRONG
    told = [  # the exchanged rows by other columns, of which their mean is taken off; and columns
        (rows & several, (cells & ~down).any(-1)),
        (columns & (seen & ~across).any(-2), (cells & ~across).any(-2)),
    ]
    square = rows.shape == columns.shape
    # A token that changes neither its row nor its column was exchanged for one that is alike.
    alike = ~told[0][1] & ~told[1][1] if square else torch.zeros_like(rows[..., :1])
    for asked, changed in told:
        if bool((asked & changed).any()) and bool((asked & ~changed & ~alike).any()):
            return WRONG if square else None
    there = (rows & seen.any(-1)) == (rows & cells.any(-1))
    along = (columns & seen.any(-2)) == (columns & cells.any(-2))
    return 0.0 if bool(there.all()) and bool(along.all()) else None


def _carry(tokens: Collection[int], first: int, size: int, items: int, count: int) -> Tensor:
    """Whether rows (or keys) ``[item, row]`` carry one of the tokens, whose first is number
    ``first``. Windows that tile the tokens come one after the other; items of a batch have all."""
    numbers = torch.arange(items * count, device="cpu").view(items, count)
    windows = items > 1 and count < size and items * count % size == 0
    numbers = numbers % (size if windows else count)
    return torch.isin(numbers + first, torch.tensor(sorted(tokens), device="cpu"))


def differing(one: Tensor, other: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Find the cells ``[item, query, key]`` that differ in any head, those that any head sees, and
    the rows ``[item, query]`` of which some head sees two unlike cells outside ``columns``.

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
    most, least = (
        torch.where(kept, one, end).amax(-1) for end, one in ((-torch.inf, one), (-torch.inf, -one))
    )
    unlike = (kept.sum(-1) > 1) & (most + least > CHANGED * size)  # equal tokens change alike
    return (gap.abs() > CHANGED * size).any(1), seen.any(1), unlike.any(1)
