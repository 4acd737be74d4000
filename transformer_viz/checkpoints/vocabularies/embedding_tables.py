"""Embedding tables of a module's source and target, found by a trial run.

Users name the parts of their modules freely, and position tables are embeddings too. The use of a
table is seen from the ids: those of the source in the trial are 1 and 2, those of the target 3 and
4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...capture.torch_function_mode import InterceptCalls
from ...preprocessing.vocabularies import Tables

SOURCE, TARGET = (1, 2, 2, 1), (3, 4, 4, 3)
SEEN: tuple[Any, ...] = (
    torch.embedding,
    nn.functional.embedding,
    torch.Tensor.__getitem__,
    torch.index_select,
    torch.Tensor.index_select,
)


class LookUps:
    """Handler of `InterceptCalls` that records each looked-up table with its ids."""

    def __init__(self) -> None:
        self.found: list[tuple[Tensor, frozenset[int]]] = []

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in SEEN:
            given = [part for part in (*args, *kwargs.values()) if isinstance(part, Tensor)]
            with torch._C.DisableTorchFunction():
                table = next((p for p in given if p.is_floating_point() and p.dim() == 2), None)
                ids = next((p for p in given if p.dtype in (torch.int64, torch.int32)), None)
                if table is not None and ids is not None:
                    self.found.append((table, frozenset(ids.flatten().tolist())))
        return func(*args, **kwargs)


def look_up_tables(module: nn.Module, forward: Callable[..., Any], twofold: bool) -> Tables:
    """Return the tables of a module, found in one forward pass on a few small ids.

    Args:
        module: The module, in evaluation mode.
        forward: Calls it with ids ``[1, token]``: of the source, and of the target if ``twofold``.
        twofold: True if it has a source and a target.

    Returns:
        Rows of the tables; ``shared`` is False if no table is seen to serve both.
    """
    first = next(module.parameters(), None)
    device = "cpu" if first is None else first.device
    sides = [torch.tensor([ids], device=device) for ids in (SOURCE, TARGET)[: 1 + twofold]]
    state = torch.random.get_rng_state()
    seen = LookUps()
    try:
        with torch.no_grad(), InterceptCalls(seen):
            forward(*sides)
    except Exception:  # it takes no such input; only a single table decides then
        tables = {
            part.weight.data_ptr() for part in module.modules() if isinstance(part, nn.Embedding)
        }
        return Tables(shared=len(tables) == 1 if twofold else None)
    finally:
        torch.random.set_rng_state(state)
    source, target = (
        [table for table, ids in seen.found if ids - {0} and ids - {0} <= set(side)]
        for side in (SOURCE, TARGET)
    )
    read, written = (max((t.shape[0] for t in side), default=None) for side in (source, target))
    if not twofold:
        return Tables(read)
    return Tables(read, written, any(_same(a, b) for a in source for b in target))


def _same(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return one.data_ptr() == other.data_ptr() or torch.equal(one, other)
