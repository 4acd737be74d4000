"""Check that captured queries, keys, scales, norms and residual lengths occur in a plain run.

Captured numbers are compared with all tensors of the run, regardless of their origin.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.linalg import vector_norm
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ...capture.records import AttentionRecord, NormRecord, ResidualRecord
from ...capture.torch_calls import dense
from ...core.numerics import MASK_SCORE
from .accounts import BLOCK, Account
from .kernel_rows import allow_mask_objects, formula
from .kernels import FUSED, WHOLE, flat, short

MIXED = frozenset(("baddbmm", "addbmm"))  # products that add a bias in the same call
PIECE = 64  # small tensors per allocation
Shown = dict[str, Tensor]  # numbers of each row, by name
Place = tuple[int, tuple[int, ...], torch.dtype]


class Pile:
    """Small tensors of one shape in few allocations, so that freed memory can be reused."""

    def __init__(self) -> None:
        self.count, self.pieces = 0, list[Tensor]()

    def add(self, x: Tensor) -> None:
        """Copy a tensor into the pile."""
        if self.count == PIECE * len(self.pieces):
            self.pieces.append(x.new_empty(PIECE, *x.shape))
        self.pieces[-1][self.count % PIECE] = x
        self.count += 1

    def __iter__(self) -> Iterator[Tensor]:
        return (self.pieces[n // PIECE][n % PIECE] for n in range(self.count))


class NumbersMode(TorchDispatchMode):
    """Dispatch mode that records statistics of each tensor of a pass.

    ``sums`` are kept for tensors of some sizes, means and lengths of rows for tensors with certain
    ``rows``.
    """

    def __init__(self, sizes: Iterable[int], rows: Iterable[int]):
        super().__init__()  # type: ignore[no-untyped-call]
        allow_mask_objects(type(self))
        self.sizes, self.rows = set(sizes), set(rows)
        self.sums = defaultdict[int, Pile](Pile)
        self.lines = defaultdict[int, Pile](Pile)
        self.mixed = False
        self.known: set[Place] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in WHOLE:
            with self:
                return func.decompose(*args, **kwargs)
        for x in flat((args, kwargs)):
            if place(x) not in self.known:  # most are results of earlier calls
                self.note(x)
        self.mixed = self.mixed or short(func) in MIXED
        if func in FUSED:
            names = [argument.name for argument in func._schema.arguments]
            given = dict(zip(names, args, strict=False)) | kwargs
            bare = {word: given[word] for word in ("query", "key")}
            for scale in (1.0, given.get("scale")):
                self.note(formula(bare | {"scale": scale}, torch.float32))
        out = func(*args, **kwargs)
        for x in flat(out):
            self.note(x)
        return out

    def note(self, x: Tensor) -> None:
        """Record the statistics of one tensor."""
        if not x.is_floating_point() or not x.dim() or x.is_meta or not dense(x):
            return
        if x._is_zerotensor():  # a zero derivative has no numbers
            return
        with _disable_current_modes():  # another mode may record calls
            self.known.add(place(x))
            if x.numel() in self.sizes:
                self.sums[x.numel()].add(sums(x))
            count = x.numel() // max(1, x.shape[-1])
            if x.dim() > 1 and count in self.rows:
                self.lines[count].add(means_and_lengths(x.detach(), count))


def place(x: Tensor) -> Place:
    """Return address, shape and dtype of a tensor."""
    stored = dense(x) and not x.is_meta
    return x.data_ptr() if stored else 0, tuple(x.shape), x.dtype


def sums(x: Tensor) -> Tensor:
    """Return six statistics that identify a tensor's numbers in any order.

    They are summed in float64, one block at a time.
    """
    line, kind = x.detach().reshape(-1), torch.float64
    count, blocks = max(1, line.numel()), line.split(BLOCK)
    mean = torch.stack([block.sum(dtype=kind) for block in blocks]).sum() / count
    powers = [
        vector_norm(torch.stack([vector_norm(block, n, dtype=kind) for block in blocks]), n)
        / count ** (1 / n)
        for n in (1, 2, 3)
    ]
    ends = (end.to(kind) for end in torch.aminmax(line))
    return torch.stack((mean, *powers, *ends))


def means_and_lengths(x: Tensor, count: int) -> Tensor:
    """Return mean and length ``[2, row]`` of ``count`` rows, in float64, one block at a time."""
    wide, kind = x.reshape(count, -1), torch.float64
    blocks = wide.split(max(1, BLOCK // max(1, wide.shape[1])))
    return torch.stack(
        (
            torch.cat([block.mean(-1, dtype=kind) for block in blocks]),
            torch.cat([vector_norm(block, dim=-1, dtype=kind) for block in blocks]),
        )
    )


def ran(numbers: Tensor, among: Iterable[Tensor], close: float) -> bool:
    """Return True if some tensor of a pass held these numbers."""
    mine = sums(numbers)
    scale = float(mine.nan_to_num().abs().max().clamp(min=1e-30))
    return any(float((mine - other).abs().max()) <= close * scale for other in among)


def product(record: AttentionRecord) -> Tensor | None:
    """Return captured queries times keys ``[batch, head, query, key]``; None without them."""
    if record.q is None or record.k is None or record.form != "softmax":
        return None
    if record.q.is_complex() or record.k.is_complex():
        return None
    q, k = record.q.double(), record.k.double()
    if k.shape[1] != q.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    return q @ k.mT


def vectors_apart(account: Account, seen: NumbersMode, close: float) -> float | None:
    """Return 0 if scaled queries times keys are the scores, or occurred before a bias was added.

    None if undecidable, as the model adds a bias in the same call or runs head by head.
    """
    record = account.record
    made = product(record)
    if made is None or record.scores is None or len(account.parts) > 1:
        return None
    scores, scaled = record.scores, None
    if record.scale is not None:
        scaled = made * record.scale
        if record.cap is not None:
            scaled = record.cap * torch.tanh(scaled / record.cap)
        if plain(scaled, scores, close):
            return 0.0
    among = seen.sums[made.numel()]
    if not ran(made, among, close):
        return None if seen.mixed else math.inf
    if scaled is None:
        return None
    if plain(fitted(made, scores), scores, close) or plain(scaled.mT, scores, close):
        return math.inf  # another factor, or queries and keys swapped
    return 0.0 if ran(scaled, among, close) else None


def fitted(made: Tensor, scores: Tensor) -> Tensor:
    """Return products times the one factor that fits the scores best."""
    scores = scores[..., : made.shape[-1]].double()
    if scores.shape != made.shape:
        return made
    seen = scores > MASK_SCORE
    count = seen.sum(-1, keepdim=True).clamp(min=1)
    a, b = (
        (x - x.masked_fill(~seen, 0).sum(-1, keepdim=True) / count).masked_fill(~seen, 0)
        for x in (made, scores)
    )
    return made * ((a * b).sum() / a.square().sum().clamp(min=1e-30))


def plain(scaled: Tensor, scores: Tensor, close: float) -> bool:
    """Return True if unmasked scores are these numbers, up to a constant per row."""
    scores = scores[..., : scaled.shape[-1]]
    if scores.shape != scaled.shape:
        return False
    size = float(scaled.abs().max().clamp(min=1e-30))
    for row, other in zip(*(x.split(1, dim=1) for x in (scores, scaled)), strict=True):
        seen = row > MASK_SCORE
        count = seen.sum(-1, keepdim=True).clamp(min=1)
        off = (row.double() - other).masked_fill_(~seen, 0.0)
        off = off.sub_(off.sum(-1, keepdim=True) / count).masked_fill_(~seen, 0.0)
        if not float(off.abs_().max()) / size <= close:
            return False
    return True


def lines_of(record: NormRecord | ResidualRecord) -> list[tuple[Tensor | None, Tensor]]:
    """Return means (None if not captured) and lengths of rows of a record."""
    if isinstance(record, ResidualRecord):
        return [(None, record.norm)]
    found = record.statistics
    return [(found["mean"], found["input_norm"]), (found["output_mean"], found["output_norm"])]


def lines_apart(record: NormRecord | ResidualRecord, seen: NumbersMode, close: float) -> float:
    """Return 0 if a norm's input and output, or the residual stream, occurred in the run."""
    for mean, length in lines_of(record):
        wanted = length.double().reshape(-1)
        middle = None if mean is None else mean.double().reshape(-1)
        scale = float(wanted.abs().max().clamp(min=1e-30))
        if not any(
            float((wanted - other).abs().max()) <= close * scale
            and (middle is None or float((middle - also).abs().max()) <= close * scale)
            for also, other in seen.lines[len(wanted)]
        ):
            return math.inf
    return spread_apart(record) if isinstance(record, NormRecord) else 0.0


def spread_apart(record: NormRecord) -> float:
    """Return the error of spread and root mean square against mean and length of the rows."""
    found = {name: value.double() for name, value in record.statistics.items()}
    width = (found["input_norm"] / found["rms"]).square()
    rms = found["mean"].square() + found["std"].square()
    count = width.median().round()
    off = (width / count - 1).abs().max(), (rms / found["rms"].square() - 1).abs().max()
    return float(torch.stack(off).nan_to_num().max())
