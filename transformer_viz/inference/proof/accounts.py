"""Assignment of kernels to captured attentions, by their numbers alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from ...capture.records import ROWS, AttentionRecord
from .kernels import Kernel

BLOCK = 2**16  # numbers compared in float64 at a time
NEAR = 1e-4  # weights are from 0 to 1
TWICE, ROUNDING = 2, 1e-7  # an order within this factor and offset of the best fits as well
DIRECTIONS = 2  # random projections used to compare rows


@dataclass(eq=False)
class Account:
    """Captured attention, and the kernels that computed it.

    Attributes:
        record: The captured attention.
        shape: ``[batch, head, query, key]`` of the softmax, including columns that are not keys.
        parts: For each kernel its number, and the index of each of its rows among all rows ``batch
            x head x query`` of the attention.
        unsure: True if another order of the rows fits the numbers too.
        again: True if an earlier account is of the same attention: its softmax is used with several
            values, or runs once for each of them.
        seen: Result of `looked_at`.
    """

    record: AttentionRecord
    shape: tuple[int, int, int, int]
    parts: dict[int, Tensor] = field(default_factory=dict)
    unsure: bool = False
    again: bool = False
    seen: Tensor | None = None

    @property
    def complete(self) -> bool:
        """True if the kernels cover all rows."""
        batch, heads, queries, _ = self.shape
        return sum(len(rows) for rows in self.parts.values()) == batch * heads * queries


def accounts(records: Sequence[AttentionRecord], kernels: Sequence[Kernel]) -> list[Account]:
    """Return the kernels behind each captured attention; each kernel is used once."""
    taken: set[int] = set()
    found = []
    for record in records:
        made = softmaxed(record)
        if made is None:
            found.append(Account(record, (0, 0, 0, 0)))
            continue
        batch, heads, queries, keys = made.shape
        account = Account(record, (batch, heads, queries, keys))
        account.again = any(earlier.record is record for earlier in found)
        marks = made.fingerprint().view(batch, heads, queries, DIRECTIONS)
        free = torch.ones(batch, heads, queries, dtype=torch.bool, device="cpu")
        for number, kernel in enumerate(kernels):
            if number in taken or not fits(kernel, record, keys) or not free.any():
                continue
            place = placed(fingerprint(widened(kernel, keys)), marks, free, near(kernel.dtype))
            if place is None:
                continue
            chosen, account.unsure = place[0], account.unsure or place[1]
            account.parts[number] = chosen
            free.view(-1)[chosen] = False
            taken.add(number)
        if not account.parts:
            take_again(account, found, made)
        found.append(account)
    return found


def take_again(account: Account, found: Sequence[Account], made: Softmaxed) -> None:
    """Reuse the kernels of an earlier attention of the same name with the same numbers."""
    for earlier in found:
        if earlier.parts and name(earlier.record) == name(account.record):
            others = softmaxed(earlier.record)
            if others is not None and others.equals(made):
                account.parts, account.again = earlier.parts, True
                account.unsure = earlier.unsure
                return


def by_kernel(accounts: Sequence[Account]) -> dict[int, tuple[Account, Tensor]]:
    """Return the attention of each kernel, and its row indices there."""
    return {
        number: (account, rows) for account in accounts for number, rows in account.parts.items()
    }


def fits(kernel: Kernel, record: AttentionRecord, keys: int) -> bool:
    """Return True if a kernel has the keys of an attention.

    Rows that ran separately may have fewer keys.
    """
    own = kernel.shape[-1]
    return own == keys or (record.along == ROWS and own < keys)


def widened(kernel: Kernel, keys: int) -> Tensor:
    """Return the rows of a kernel ``[row, key]``, with 0 for keys that it lacks."""
    return torch.nn.functional.pad(kernel.rows, (0, keys - kernel.shape[-1]))


@dataclass(frozen=True)
class Softmaxed:
    """Softmax of scores ``[batch, head, query, key]``, or weights, in float64 by blocks of rows."""

    numbers: Tensor
    scores: bool

    @property
    def shape(self) -> torch.Size:
        return self.numbers.shape

    def rows(self, places: Tensor | slice) -> Tensor:
        """Return some of all rows ``batch x head x query``, as ``[row, key]``."""
        lines = self.numbers.reshape(-1, self.shape[-1])
        some = lines[places if isinstance(places, slice) else places.to(lines.device)].double()
        return some.softmax(-1).nan_to_num(0.0) if self.scores else some

    def fingerprint(self) -> Tensor:
        """Return the `fingerprint` of all rows."""
        blocks = rows_in_blocks(math.prod(self.shape[:-1]), self.shape[-1])
        return torch.cat([fingerprint(self.rows(block)) for block in blocks])

    def equals(self, other: Softmaxed) -> bool:
        """Return True if both hold the same numbers."""
        return self.shape == other.shape and all(
            torch.equal(self.rows(block), other.rows(block))
            for block in rows_in_blocks(math.prod(self.shape[:-1]), self.shape[-1])
        )


def softmaxed(record: AttentionRecord) -> Softmaxed | None:
    """Return the softmax of a record's scores, or else its weights."""
    if record.scores is not None and record.form == "softmax":
        return Softmaxed(record.scores.detach(), True)
    return None if record.weights is None else Softmaxed(record.weights.detach(), False)


def rows_in_blocks(rows: int, keys: int) -> Iterator[slice]:
    """Yield slices of about `BLOCK` numbers that cover all rows; at least one."""
    step = max(1, BLOCK // max(1, keys))
    for first in range(0, max(1, rows), step):
        yield slice(first, min(rows, first + step))


def fingerprint(rows: Tensor) -> Tensor:
    """Return rows ``[row, key]`` in two fixed random projections ``[row, direction]``."""
    seed = torch.Generator().manual_seed(rows.shape[-1])
    size = rows.shape[-1], DIRECTIONS
    directions = torch.randn(size, generator=seed, dtype=torch.float64, device="cpu")
    found = [
        rows[block].detach().double().cpu().nan_to_num(0.0) @ directions
        for block in rows_in_blocks(*rows.shape)
    ]
    return torch.cat(found)


def near(dtype: torch.dtype) -> float:
    """Return the tolerance for recomputed numbers of a precision."""
    return max(NEAR, 4 * torch.finfo(dtype).eps)


def placed(rows: Tensor, marks: Tensor, free: Tensor, close: float) -> tuple[Tensor, bool] | None:
    """Return the row indices of a kernel in an attention, and True if others fit as well."""
    known = marks.view(-1, DIRECTIONS)
    for ways in (places, between):
        tried = [
            (float((rows - known[numbers]).abs().max()), numbers)
            for numbers in ways(len(rows), free)
        ]
        fits = sorted((gap, i) for i, (gap, _) in enumerate(tried) if gap <= close)
        if fits:
            nearest = fits[0][0]
            unsure = any(gap <= TWICE * nearest + ROUNDING for gap, _ in fits[1:])
            return tried[fits[0][1]][1], unsure
    return None


def between(count: int, free: Tensor) -> Iterator[Tensor]:
    """Yield possible orders of a kernel's rows when the batch combines two axes.

    Such axes are items and lines of a picture, with other axes between them.
    """
    batch, heads, queries = free.shape
    if count != free.numel() or not bool(free.all()):
        return
    numbers = torch.arange(count, device="cpu")
    seen: list[Tensor] = []
    for outer in (n for n in range(2, batch) if batch % n == 0):
        whole = numbers.view(outer, batch // outer, heads, queries)
        for order in permutations(range(4)):
            made = whole.permute(order).reshape(-1)
            if not any(torch.equal(made, other) for other in seen):
                seen.append(made)
                yield made


def places(count: int, free: Tensor) -> Iterator[Tensor]:
    """Yield every possible order of a kernel's ``count`` rows in an attention ``[b, h, q]``.

    The rows are all of them in any order of the three axes, an equal share along one axis, or a
    share of one head.
    """
    seen: list[Tensor] = []
    for part in shares(count, torch.arange(free.numel(), device="cpu").view(free.shape)):
        if not bool(free.view(-1)[part.reshape(-1)].all()):
            continue
        for order in permutations(range(3)):
            made = part.permute(order).reshape(-1)
            if not any(torch.equal(made, other) for other in seen):
                seen.append(made)
                yield made


def shares(count: int, numbers: Tensor) -> Iterator[Tensor]:
    """Yield blocks ``[b, h, q]`` with ``count`` rows."""
    batch, heads, queries = numbers.shape
    for axis in (1, 2, 0):
        size = numbers.shape[axis]
        share, left = divmod(count * size, numbers.numel())
        if share and not left:
            for first in range(0, size - share + 1, share):
                yield numbers.narrow(axis, first, share)
    share, left = divmod(count, batch)
    if heads > 1 and not left and 0 < share < queries:
        for head in range(heads):
            for first in range(0, queries - share + 1, share):
                yield numbers[:, head : head + 1, first : first + share]


def name(record: AttentionRecord) -> str:
    """Return an attention's site with its path, since sites of two parts may share a name."""
    return f"{record.site} {record.path}".strip()


def selectors(record: AttentionRecord) -> dict[str, Any]:
    """Return the fields that select one attention in an edit."""
    site = record.site
    path = record.path or None
    return {"stack": site.stack, "block": site.block, "layer": site.layer, "path": path}


def apart(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest difference of two outputs, relative to each tensor's largest value."""
    if len(got) != len(expected) or any(
        x.shape != y.shape for x, y in zip(got, expected, strict=False)
    ):
        return float("inf")
    gaps = [0.0]
    for x, y in zip(got, expected, strict=True):
        if x.is_floating_point() and x.numel():
            gap, size = 0.0, 1e-30
            for one, other in zip(*(z.reshape(-1).split(BLOCK) for z in (x, y)), strict=True):
                one, other = one.double().nan_to_num(), other.double().nan_to_num()
                gap = max(gap, float((one - other).abs().max()))
                size = max(size, float(other.abs().max()))
            gaps.append(gap / size)
    return max(gaps)
