"""Edits of single heads, rows and keys, different at each site; and a switched-off causal mask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...capture.records import AttentionRecord
from ...core.apply_edits import HIDING
from ...core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    HidingEdit,
    Intervention,
    Temperature,
    UniformHead,
    Window,
)
from ...core.numerics import COLD, MASK_SCORE
from ...core.sites import Site
from .accounts import Account, by_kernel

RADIUS = 1
CLEAR = 64  # units of the last digit between the two largest scores of a row
LEAST = torch.finfo(torch.float32).min
MOST_LINKS = 600  # links cut at one site at most, to hide again what the causal mask hid


def own_edits(
    places: Iterable[tuple[AttentionRecord, dict[str, Any]]], key: int | None, hard: bool
) -> Intervention:
    """Return a different temperature for each head, and in turn one of four further edits.

    These are a hidden key and a window; uniform attention with a cut link; hard attention; a cut
    link and a hidden key.

    Args:
        places: Attentions, and the fields that select each in an edit.
        key: Key that may be hidden.
        hard: True to test hard attention at all sites; else only at the first one, if rounding
            cannot change the result.
    """
    edits: list[Edit] = []
    for number, (record, named) in enumerate(places):
        for head in range(record.heads):
            place = named | {"head": head}
            turn = (number + head) % 4
            warm = 1.25 + (3 * number + 2 * head) % 8 / 4
            if turn == 2 and (far_apart(record, head) if number == 0 else hard):
                warm = 0.0
            edits.append(Temperature(value=warm, **place))
            if turn == 0:
                edits.append(Window(radius=RADIUS, **place))
            if turn == 1:
                edits.append(UniformHead(**place))
            if turn in (0, 3) and key is not None:
                edits.append(BlockKeys(keys=(key,), **place))
            if turn in (1, 3):
                last = record.offset + record.shape[0] - 1
                edits.append(BlockEdges(edges=((last, record.first_key),), **place))
    return Intervention(tuple(edits))


def far_apart(record: AttentionRecord, head: int) -> bool:
    """Return True if rounding cannot change the largest score of any row of a head.

    Only used for the first attention, whose scores no other edit changes.
    """
    scores = record.scores
    if scores is None or scores.shape[-1] < 2:
        return False
    mine = scores[:, head % scores.shape[1]].double()  # heads may share scores
    best, second = mine.topk(2, -1).values.unbind(-1)
    size = float(mine[mine > MASK_SCORE].abs().amax()) if bool((mine > MASK_SCORE).any()) else 0.0
    return bool((best - second > CLEAR * torch.finfo(scores.dtype).eps * size).all())


class EditsAtKernels:
    """Edits of scores, applied at the rows of the kernels as defined."""

    def __init__(self, edits: Intervention, accounts: Sequence[Account]):
        self.edits = edits
        self.by_kernel = by_kernel(accounts)
        self.emptied: dict[int, Tensor] = {}

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Return scores ``[row, key]`` under the edits of each row's head."""
        if number not in self.by_kernel:
            return scores
        account, rows = self.by_kernel[number]
        wide = torch.promote_types(scores.dtype, torch.float32)
        seen, out = scores > MASK_SCORE, scores.to(wide, copy=True)
        closed = ~seen.any(-1, keepdim=True)  # rows of low scores only are treated as any other
        out = torch.where(closed, out - out.amax(-1, keepdim=True).clamp(min=LEAST), out)
        seen = seen | (closed & ~scores.isneginf())
        visible = seen.clone()
        heads = (rows // account.shape[2] % account.shape[1]).to(scores.device)
        for head in heads.unique().tolist():
            mine = heads == head
            blocked = self.blocked(account, int(head), rows[mine.cpu()]).to(scores.device)
            visible[mine] &= ~blocked[:, : scores.shape[-1]]
            out[mine] = self.shaped(account, int(head), out[mine], visible[mine])
        self.emptied[number] = seen.any(-1) & ~visible.any(-1)
        out = out.masked_fill(~visible, -torch.inf)
        return torch.where(seen.any(-1, keepdim=True), out, scores.to(wide))

    def blocked(self, account: Account, head: int, rows: Tensor) -> Tensor:
        """Return True for the cells ``[row, key]`` that the edits of a head mask."""
        record = account.record
        query = (rows % account.shape[2] + record.offset)[:, None]
        key = torch.arange(account.shape[3], device="cpu")
        found = torch.zeros(len(rows), len(key), dtype=torch.bool, device="cpu")
        site = self.site(record, head)
        for edit in (self.edits.find(kind, site) for kind in HIDING):
            if isinstance(edit, HidingEdit):
                found |= edit.hides(query, key + record.first_key)
        return found & (key < record.shape[1])  # the others are sinks

    def shaped(self, account: Account, head: int, scores: Tensor, visible: Tensor) -> Tensor:
        """Return the scores of a head after its temperature, or uniform scores."""
        site = self.site(account.record, head)
        warm, alike = (self.edits.find(kind, site) for kind in (Temperature, UniformHead))
        if alike is not None and not alike.idle:
            return torch.zeros_like(scores)
        if not isinstance(warm, Temperature):
            return scores
        if warm.value >= COLD:
            return scores / warm.value
        best = scores.masked_fill(~visible, -torch.inf).argmax(-1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter_(-1, best, 0.0)

    def site(self, record: AttentionRecord, head: int) -> Site:
        """Return a head's site, as an edit names it."""
        return replace(record.site, head=record.first_head + head)

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return weights with zeros in rows that an edit masked fully."""
        empty = self.emptied.get(number)
        return weights if empty is None else weights.masked_fill(empty[:, None], 0.0)

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Return the input unchanged."""
        return x


def lifted_and_cut(
    looks: Sequence[tuple[AttentionRecord, dict[str, Any], Tensor]],
) -> Intervention | None:
    """Return edits that turn the causal mask off and cut every link it hid: a no-op in total.

    ``looks`` are the self-attentions, their selectors, and ``[batch, head, query, key]``, True
    where a row looks at a key. None if heads hide different keys, or too many links would be cut.
    """
    links = hidden_links(looks)
    if links is None:
        return None
    cuts = [
        BlockEdges(edges=some, **named)
        for (_, named, _), some in zip(looks, links, strict=True)
        if some
    ]
    return Intervention((Causal(on=False), *cuts)) if cuts else None


def hidden_links(
    looks: Sequence[tuple[AttentionRecord, dict[str, Any], Tensor]],
) -> list[tuple[tuple[int, int], ...]] | None:
    """Return the links that a mask hides in each attention, as absolute indices; None as above."""
    found = []
    for record, _, seen in looks:
        one = seen[0, 0]
        gone = ~one & one.any(0)  # keys that no row sees are padding, and stay
        cells = gone.nonzero().tolist()
        if len(cells) > MOST_LINKS or not bool((seen == one).all()):
            return None
        found.append(tuple((q + record.offset, k + record.first_key) for q, k in cells))
    return found
