"""Edits made twice: by the probe in the module, and by their law at the kernels of a plain run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...core.interventions import BlockKeys, Edit, Intervention, ScaleHead, Temperature, Window
from .accounts import Account

VALUE = 2.0  # of the temperature that is tried
RADIUS = 1  # of the window that is tried
SEEN = 1e-6  # a key with less weight than this was not looked at
#: What is tried, in this order.
LAWS = ("temperature", "hidden key", "window", "heads")


@dataclass(frozen=True)
class Law:
    """One edit, in the probe's words and as a law on the rows of the kernels.

    ``interleaved``: before the output projection the features of all heads take turns.
    """

    name: str
    key: int = 1
    head: int = 0
    interleaved: bool = False

    @property
    def edit(self) -> Edit:
        """The probe's word for it, at all places."""
        if self.name == "temperature":
            return Temperature(value=VALUE)
        if self.name == "hidden key":
            return BlockKeys(keys=(self.key,))
        if self.name == "window":
            return Window(radius=RADIUS)
        return ScaleHead(value=0.0, head=self.head)

    @property
    def intervention(self) -> Intervention:
        return Intervention((self.edit,))


class LawAtKernels:
    """A law as the edits that a `KernelMode` makes.

    ``bare`` are the numbers of kernels behind which no output projection was found: there a head
    is taken out of the weights.
    """

    def __init__(self, law: Law, accounts: Sequence[Account], bare: Collection[int] = ()):
        self.law, self.bare = law, bare
        self.by_kernel = {
            number: (account, rows)
            for account in accounts
            for number, rows in account.parts.items()
        }
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
        key = torch.arange(account.shape[3])
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
            return weights.masked_fill((head == self.law.head).to(weights.device)[:, None], 0.0)
        empty = self.emptied.get(number)
        return weights if empty is None else weights.masked_fill(empty[:, None], 0.0)

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """What enters the output projection without the features of one head; each is as wide as
        the other."""
        covered = sorted({head for number in numbers for head in self.heads(number)})
        size = x.shape[axis]
        if self.law.name != "heads" or self.law.head not in covered or size % len(covered):
            return x
        count, place = len(covered), covered.index(self.law.head)
        features = torch.arange(size, device=x.device)
        owner = features % count if self.law.interleaved else features // (size // count)
        kept = (owner != place).to(x.dtype)
        return x * (kept if axis == -1 else kept.view(-1, *[1] * (x.dim() - 2)))

    def heads(self, number: int) -> set[int]:
        """The heads whose rows a kernel made."""
        if number not in self.by_kernel:
            return set()
        account, rows = self.by_kernel[number]
        first = account.record.first_head
        return {
            int(head) + first for head in (rows // account.shape[2] % account.shape[1]).unique()
        }
