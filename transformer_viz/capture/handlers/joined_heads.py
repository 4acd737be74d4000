"""Heads that one module runs one after another and concatenates before the projection."""

from __future__ import annotations

from typing import Any

from ..axes.atoms import FEATURES, kind_of
from ..records import AttentionRecord
from ..roles import Context
from ..state import CaptureState
from ..torch_calls import Args, Kwargs


def on_join(state: CaptureState, func: Any, args: Args, kwargs: Kwargs) -> Any:
    """Number the heads of contexts that are concatenated along features or heads, in this order.

    Raises:
        ValueError: An edit names a head there; its number was unknown when the head ran.
    """
    parts = args[0] if args else kwargs.get("tensors", ())
    roles = [state.lineage.role(x) for x in parts]
    contexts = [role.record for role in roles if isinstance(role, Context)]
    if len(contexts) != len(roles) or len(roles) < 2:
        return state.call(func, args, kwargs)
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    axes = state.lineage.axes(parts[0])
    features = axes is not None and isinstance(dim, int) and kind_of(axes[dim]) == FEATURES
    if (features or dim in (-1, parts[0].dim() - 1)) and of_one_place(contexts):
        refuse_numbers(state, contexts[0])
        first = 0
        for record in contexts:
            record.first_head = first
            first += record.heads
    return state.call(func, args, kwargs)


def of_one_place(records: list[AttentionRecord]) -> bool:
    """Return True if attentions of the same tokens ran in sequence at one site, each as head 0."""
    one = records[0]
    order = [record.start for record in records]
    return order == sorted(set(order)) and all(
        (record.site, record.path, record.origin) == (one.site, one.path, one.origin)
        and record.first_head == 0
        for record in records
    )


def refuse_numbers(state: CaptureState, record: AttentionRecord) -> None:
    """Refuse edits of single heads.

    Raises:
        ValueError: States the reason, and possible edits.
    """
    if any(edit.head is not None and edit.matches(record.site) for edit in state.intervention):
        raise ValueError(
            f"The heads in {record.path or 'this module'} run one after another and get their "
            "numbers only where they are joined, so no edit can name one of them. It can name the "
            "layer."
        )
