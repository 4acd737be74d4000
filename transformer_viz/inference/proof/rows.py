"""Laws from the first passes, for each attention: numbers, rows, and growth of the keys."""

from __future__ import annotations

import math

from .accounts import Account, name, rows_in_blocks, softmaxed, widened
from .further import Passes
from .numbering import first_of_stairs, looked_at


def numbers_gap(passes: Passes, account: Account) -> float | None:
    """Return the error of the captured weights against the kernels; None without a kernel."""
    if not account.parts:
        where = name(account.record)
        passes.untold.append(
            f"{where}: no softmax was matched with these numbers; the module reckons its "
            "weights itself, or uses those of one softmax in another shape or more than once"
        )
        return None
    if not account.complete:
        return float("inf")
    expected = softmaxed(account.record)
    assert expected is not None
    worst = 0.0
    for number, places in account.parts.items():
        made = widened(passes.kernels[number], expected.shape[-1])
        for block in rows_in_blocks(*made.shape):
            gap = made[block].double().cpu().nan_to_num(0.0) - expected.rows(places[block]).cpu()
            worst = max(worst, float(gap.abs().max()))
    return worst


def rows_gap(passes: Passes, account: Account) -> float | None:
    """Return 0 if each row is one row of the output projection's input; None if unknown."""
    batch, _, queries, _ = account.shape
    where = name(account.record)
    kernels = [passes.kernels[number] for number in account.parts]
    sizes = [kernel.projected for kernel in kernels]
    if not sizes or None in sizes:
        passes.untold.append(
            f"{where}: no output projection was recognised that takes its heads, and nothing else"
        )
        return None
    counts = {math.prod(size[:-1]) for size in sizes if size is not None}
    if len(kernels) == 1 and kernels[0].in_parts():
        counts = {sum(math.prod(size[:-1]) for size in kernels[0].projections)}
    if account.unsure:
        passes.untold.append(
            f"{where}: its weights are so alike on this input that its rows could be told in "
            "another order too; give an input that it tells apart"
        )
        return None
    rows = {math.prod(size[:-1]) for size in kernels[0].projections}
    by_experts = len(kernels) == 1 and kernels[0].shared() and len(rows) > 1
    if counts != {batch * queries} and by_experts:
        passes.untold.append(
            f"{where}: several projections share its heads, each for some tokens (experts that a "
            "router chose), so that its rows are not proved at an output projection"
        )
        return None
    if counts != {batch * queries}:
        passes.untold.append(
            f"{where}: its {batch * queries} rows are not the {min(counts)} rows that the "
            "output projection got"
        )
        return None
    return 0.0


def first_row_gap(passes: Passes, account: Account) -> dict[str, float | None]:
    """Return the law of the first row, for a self-attention with more keys than rows."""
    queries, keys = account.record.shape
    first = account.record.offset - account.record.first_key
    if account.record.kind != "self" or queries == keys:
        return {}
    if first_of_stairs(looked_at(account, passes.kernels)) == first:
        return {"first row": 0.0}
    where = name(account.record)
    passes.untold.append(
        f"{where}: {queries} rows look at {keys} keys; that its first row is number "
        f"{account.record.offset} follows from how the keys grew and is not proved"
    )
    return {"first row": None}
