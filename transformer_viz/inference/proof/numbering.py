"""Check of row, key and layer numbers against the kernels, and of statistics and thumbnails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ...capture.records import AttentionRecord
from ...core.head_metrics import HEAD_METRICS, Rows
from .accounts import Account, widened
from .kernels import Kernel

SIDE, LEVELS = 64, 255  # cells of a thumbnail's side, and its lightest grey level
ROUNDED = 0.5 + 1e-3  # allowed rounding of a grey level


def looked_at(account: Account, kernels: Sequence[Kernel]) -> Tensor:
    """Return True where any row ``[batch, head, query]`` has weight on a key, bool ``[.., key]``.

    The result is cached; heads that look at the same keys share it.
    """
    if account.seen is not None:
        return account.seen
    batch, heads, queries, keys = account.shape
    seen = torch.zeros(batch * heads * queries, keys, dtype=torch.bool, device="cpu")
    for number, places in account.parts.items():
        seen[places] = widened(kernels[number], keys).cpu() > 0
    found = seen.view(account.shape)[..., : account.record.shape[1]]
    one = found[:1, :1]
    alike = bool(found.numel()) and bool((found == one).all())
    account.seen = one.clone().expand(found.shape) if alike else found
    return account.seen


def first_of_stairs(seen: Tensor) -> int | None:
    """Return the key index of the first row's own key, under a causal mask.

    The last row's own key is the last key. None if the mask is not causal. ``seen`` is ``[batch,
    head, query, key]``; keys that no row looks at are padding.
    """
    cells = seen.flatten(0, 1).any(0)
    queries, keys = cells.shape
    first = keys - queries
    if queries < 2 or first < 0 or bool(cells.triu(1 + first).any()):
        return None
    own, padding = cells.diagonal(first), ~cells.any(0)[first:]
    return first if bool((own | padding).all()) and int(own.sum()) > 1 else None


def misnumbered(
    record: AttentionRecord, stairs: int | None, before: AttentionRecord | None
) -> bool:
    """Return True if row and key numbers, or the stack, cannot be right.

    ``stairs`` is the first row's key index from the mask, ``before`` the earlier record of the same
    name.
    """
    queries, keys = record.shape
    if record.first_head:  # it should have been joined to the heads before it
        return True
    if record.kind == "cross":
        return record.first_key != 0
    if queries == keys and record.offset != record.first_key:
        return True
    if queries == keys and stairs is not None and record.stack != "decoder":
        return True
    if before is None:
        return record.first_key != 0
    grown = keys == before.shape[1] + queries
    return grown and record.first_key != before.first_key


def layers_apart(
    accounts: Sequence[Account], moved: Mapping[int, Sequence[int]]
) -> list[AttentionRecord]:
    """Return attentions with a gap in layer numbers, or in one layer with one they depend on.

    ``moved`` lists, by account number, the accounts whose weights change with it.
    """
    wrong = [record for layers in maps(accounts).values() for record in unordered(layers)]
    for number, others in moved.items():
        first = accounts[number].record
        wrong += [accounts[n].record for n in others if same_layer(first, accounts[n].record)]
    return wrong


def maps(accounts: Sequence[Account]) -> dict[str, list[AttentionRecord]]:
    """Return the attentions of each map, in call order."""
    found: dict[str, list[AttentionRecord]] = {}
    for account in accounts:
        found.setdefault(account.record.site.map, []).append(account.record)
    return found


def unordered(records: Sequence[AttentionRecord]) -> Sequence[AttentionRecord]:
    """Return all records, unless their layers are 0, 1, 2 and so on."""
    layers = {record.site.layer for record in records}
    return [] if layers == set(range(len(layers))) else records


def same_layer(one: AttentionRecord, other: AttentionRecord) -> bool:
    """Return True if two modules are shown as one layer of self-attention.

    Cross-attention may depend on another module with the same layer number.
    """
    return one.kind == "self" and one.site == other.site and one.path != other.path


def sharing(accounts: Sequence[Account]) -> list[int]:
    """Return the first account of each layer that several modules share."""
    records = [account.record for account in accounts]
    return [
        number
        for number, record in enumerate(records)
        if not any(record.site == earlier.site for earlier in records[:number])
        and any(same_layer(record, later) for later in records[number:])
    ]


class Disturbed:
    """Changes of the weights of some kernels, to find dependent ones."""

    def __init__(self, numbers: Sequence[int]):
        self.numbers = numbers

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Return the scores unchanged."""
        return scores

    def weights(self, number: int, weights: Tensor) -> Tensor:
        """Return halved and flipped weights for the disturbed kernels."""
        return weights.flip(-1) / 2 if number in self.numbers else weights

    def projected(self, numbers: Sequence[int], x: Tensor, axis: int) -> Tensor:
        """Return the input unchanged."""
        return x


class Tilted(Disturbed):
    """Changes of scores as well, since weights of a log-softmax cannot be changed directly."""

    def scores(self, number: int, scores: Tensor) -> Tensor:
        """Return scores that grow with the key index."""
        if number not in self.numbers:
            return scores
        return scores + torch.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)


def changed(before: Sequence[Kernel], after: Sequence[Kernel], close: float) -> set[int]:
    """Return the numbers of the kernels whose rows changed."""
    pairs = enumerate(zip(before, after, strict=False))
    return {
        number
        for number, (one, other) in pairs
        if one.shape != other.shape
        or float((one.rows - other.rows).abs().nan_to_num().max()) > close
    }


def numbers_apart(record: AttentionRecord) -> float | None:
    """Return the error of statistics and thumbnail against the weights; None without any."""
    if record.weights is None or record.thumbnail is None or not record.statistics:
        return None
    gaps = []
    for head, some in enumerate(record.weights.detach().split(1, dim=1)):
        weights, own = some.double().cpu(), slice(head, head + 1)
        statistics = {name: x[:, own].double().cpu() for name, x in record.statistics.items()}
        gaps.append(statistics_apart(record, weights, statistics))
        gaps.append(greys_apart(record.thumbnail[:, own].cpu(), weights))
    return max(gaps)


def statistics_apart(
    record: AttentionRecord, weights: Tensor, statistics: dict[str, Tensor]
) -> float:
    """Return the largest error of some heads' statistics, relative for values above 1."""
    query = torch.arange(weights.shape[2], device="cpu")[:, None] + record.offset - record.first_key
    key = torch.arange(weights.shape[3], device="cpu")
    bits = torch.special.xlogy(weights, weights) / math.log(2)
    rows = Rows(weights, weights, bits, query, key, (query - key).abs().double())
    worst = 0.0
    for metric in HEAD_METRICS:
        values = metric.of_rows(rows)
        axes = tuple(range(2, values.dim()))
        if metric.combined == "mean":
            expected = (values.sum(axes) if axes else values) / weights.shape[2]
        else:
            expected = values.amax(axes) if axes else values
        off = (statistics[metric.name] - expected).abs()
        worst = max(worst, float((off / expected.abs().clamp(min=1)).nan_to_num().max()))
    return worst


def greys_apart(thumbnail: Tensor, weights: Tensor) -> float:
    """Return the error of a thumbnail's greys against the cell maxima, less rounding."""
    steps = [math.ceil(size / SIDE) for size in weights.shape[2:]]
    cells = F.max_pool2d(weights.nan_to_num(), steps, ceil_mode=True).clamp(0, 1) * LEVELS
    if cells.shape != thumbnail.shape:
        return math.inf
    return max(0.0, float((thumbnail.double() - cells).abs().max()) - ROUNDED) / LEVELS
