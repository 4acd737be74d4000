"""Laws: edits done twice, by the probe in the module and at the kernels of a plain run.

The remaining differences are stored by site.
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
VALUE = 2.0  # temperature of the test
RADIUS = 1  # window radius of the test
SEEN = 1e-6  # keys with less weight count as not looked at
#: Laws in test order.
LAWS = ("temperature", "hidden key", "window", "heads")


@dataclass(frozen=True)
class Law:
    """Law: an edit of the probe, and the same on the rows of the kernels.

    ``interleaved`` is True if the heads' features alternate before the output projection. ``scale``
    is the factor of the head.
    """

    name: str
    key: int = 1
    head: int = 0
    interleaved: bool = False
    scale: float = 0.0

    @property
    def edit(self) -> Edit:
        """Edit of the probe, at all sites."""
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
    """Law as the edits that a `KernelMode` makes.

    ``bare`` are the numbers of kernels without an output projection of all heads; there a head is
    removed from the weights. ``widths`` are the features of a head, by kernel.
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
        """Return scores divided by the temperature, or masked."""
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
        """Return True for the cells ``[row, key]`` that a hidden key or a window masks."""
        record, queries = account.record, account.shape[2]
        key = torch.arange(account.shape[3], device="cpu")
        words = key < record.shape[1]  # the others are sinks
        key = key + record.first_key
        if self.law.name == "hidden key":
            return ((key == self.law.key) & words).expand(len(rows), -1)
        query = rows % queries + record.offset
        return ((key - query[:, None]).abs() > RADIUS) & words

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return weights with zeros in rows that an edit masked fully."""
        if number in self.bare and number in self.by_kernel and self.law.name == "heads":
            account, rows = self.by_kernel[number]
            head = rows // account.shape[2] % account.shape[1] + account.record.first_head
            mine = (head == self.law.head).to(weights.device)[:, None]
            return torch.where(mine, weights * self.law.scale, weights)
        empty = self.emptied.get(number)
        return weights if empty is None else weights.masked_fill(empty[:, None], 0.0)

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Return the projection's input with the features of one head scaled.

        Heads are concatenated there, each as wide as its kernel shows, or else equally wide.
        """
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
        """Return the heads whose rows a kernel made."""
        if number not in self.by_kernel:
            return set()
        account, rows = self.by_kernel[number]
        first = account.record.first_head
        return {
            int(head) + first for head in (rows // account.shape[2] % account.shape[1]).unique()
        }


def enter(laws: Laws, record: AttentionRecord, errors: dict[str, float | None]) -> None:
    """Store the errors of a site; for repeated runs the largest."""
    known = laws.setdefault(name(record), {})
    for law, error in errors.items():
        before = known.get(law, 0.0)
        known[law] = None if error is None or before is None else max(error, before)


def nearer(*errors: float | None) -> float | None:
    """Return the smallest of several errors that are known."""
    return min((error for error in errors if error is not None), default=None)


def apart_at(single: AttentionRecord, batch: AttentionRecord, place: int) -> float | None:
    """Return the difference between items at a place of a batch and the same items alone.

    None if the batch does not contain them.
    """
    if single.weights is None or batch.weights is None:
        return None
    one, all_items = single.weights, batch.weights
    if all_items.shape == one.shape:
        return None
    if all_items.shape[0] <= one.shape[0] * (1 + place) or all_items.shape[1:] != one.shape[1:]:
        return float("inf")
    both = all_items[one.shape[0] * place :][: one.shape[0]]
    return float((both.double() - one.double()).nan_to_num().abs().max())
