"""Edits made twice: by the probe in the module, and by their law at the kernels of a plain run.

The differences that laws leave are entered by place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from ...capture.records import AttentionRecord
from ...core.interventions import BlockKeys, Edit, Intervention, ScaleHead, Temperature, Window
from .accounts import Account, by_kernel, name

Laws = dict[str, dict[str, float | None]]  # by site and law
VALUE = 2.0  # of the temperature that is tried
RADIUS = 1  # of the window that is tried
SEEN = 1e-6  # a key with less weight than this was not looked at
#: What is tried, in this order.
LAWS = ("temperature", "hidden key", "window", "heads")


@dataclass(frozen=True)
class Law:
    """One edit, in the probe's words and as a law on the rows of the kernels.

    ``interleaved``: before the output projection the features of all heads take turns. ``scale`` is
    the factor of the head.
    """

    name: str
    key: int = 1
    head: int = 0
    interleaved: bool = False
    scale: float = 0.0

    @property
    def edit(self) -> Edit:
        """The probe's word for it, at all places."""
        if self.name == "temperature":
            return Temperature(value=VALUE)
        if self.name == "hidden key":
            return BlockKeys(keys=(self.key,))
        if self.name == "window":
            return Window(radius=RADIUS)
        return ScaleHead(value=self.scale, head=self.head)

    @property
    def intervention(self) -> Intervention:
        return Intervention((self.edit,))


class LawAtKernels:
    """A law as the edits that a `KernelMode` makes.

    ``bare`` are the numbers of kernels behind which no output projection of all heads was found:
    there a head is taken out of the weights. ``widths`` are the features of a head, by kernel.
    """

    def __init__(
        self,
        law: Law,
        accounts: Sequence[Account],
        bare: Collection[int] = frozenset(),
        widths: Mapping[int, int] = MappingProxyType({}),
    ):
        self.law, self.bare, self.widths = law, frozenset(bare), widths
        self.by_kernel = by_kernel(accounts)
        self.emptied: dict[int, Tensor] = {}

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Scores divided by the temperature, or hidden."""
        if number not in self.by_kernel or self.law.name == "heads":
            return scores
        if self.law.name == "temperature":
            return scores / VALUE
        account, rows = self.by_kernel[number]
        seen = scores.double().softmax(-1).nan_to_num(0.0) > 0
        hidden = self.hidden(account, rows)[:, : scores.shape[-1]].to(scores.device)
        self.emptied[number] = seen.any(-1) & ~(seen & ~hidden).any(-1)
        return scores.masked_fill(hidden, -torch.inf)

    def hidden(self, account: Account, rows: Tensor) -> Tensor:
        """The cells ``[row, key]`` that a key or a window hides."""
        record, queries = account.record, account.shape[2]
        key = torch.arange(account.shape[3], device="cpu")
        words = key < record.shape[1]  # the others are sinks
        key = key + record.first_key
        if self.law.name == "hidden key":
            return ((key == self.law.key) & words).expand(len(rows), -1)
        query = rows % queries + record.offset
        return ((key - query[:, None]).abs() > RADIUS) & words

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Weights whose rows are nothing where an edit emptied them."""
        if number in self.bare and number in self.by_kernel and self.law.name == "heads":
            account, rows = self.by_kernel[number]
            head = rows // account.shape[2] % account.shape[1] + account.record.first_head
            mine = (head == self.law.head).to(weights.device)[:, None]
            return torch.where(mine, weights * self.law.scale, weights)
        empty = self.emptied.get(number)
        return weights if empty is None else weights.masked_fill(empty[:, None], 0.0)

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """What enters the output projection without the features of one head; heads stand there
        side by side, each as wide as its kernel tells, or else as wide as the other."""
        widths = {head: self.widths.get(n, 0) for n in numbers for head in self.heads(n)}
        covered, size = sorted(widths), x.shape[axis]
        found = self.law.name == "heads" and self.law.head in covered
        if not found or not self.bare.isdisjoint(numbers):
            return x
        count, place = len(covered), covered.index(self.law.head)
        wide = torch.tensor([widths[head] for head in covered], device="cpu")
        if int(wide.sum()) != size:
            if size % count:
                return x
            wide = torch.full((count,), size // count, device="cpu")
        owner = torch.arange(count, device="cpu").repeat_interleave(wide)
        if self.law.interleaved:
            owner = torch.arange(size, device="cpu") % count
        kept = torch.where(owner == place, self.law.scale, 1.0).to(x.dtype).to(x.device)
        return x * kept.view(-1, *[1] * (x.dim() - 1 - axis % x.dim()))

    def heads(self, number: int) -> set[int]:
        """The heads whose rows a kernel made."""
        if number not in self.by_kernel:
            return set()
        account, rows = self.by_kernel[number]
        first = account.record.first_head
        return {
            int(head) + first for head in (rows // account.shape[2] % account.shape[1]).unique()
        }


def enter(laws: Laws, record: AttentionRecord, errors: dict[str, float | None]) -> None:
    """Enter what was found at a place; where it ran more than once the worst counts."""
    known = laws.setdefault(name(record), {})
    for law, error in errors.items():
        before = known.get(law, 0.0)
        known[law] = None if error is None or before is None else max(error, before)


def nearer(*errors: float | None) -> float | None:
    """The smallest of several differences, as far as they could be told."""
    return min((error for error in errors if error is not None), default=None)


def apart_at(single: AttentionRecord, batch: AttentionRecord, place: int) -> float | None:
    """How far the items at a place of a batch are from the same items alone; None where the batch
    is none of theirs."""
    if single.weights is None or batch.weights is None:
        return None
    one, all_items = single.weights, batch.weights
    if all_items.shape == one.shape:
        return None
    if all_items.shape[0] <= one.shape[0] * (1 + place) or all_items.shape[1:] != one.shape[1:]:
        return float("inf")
    both = all_items[one.shape[0] * place :][: one.shape[0]]
    return float((both.double() - one.double()).nan_to_num().abs().max())
