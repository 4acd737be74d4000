"""Which keys an edit hides from which queries: one law for the probe and for those who explain.

Nothing but comparisons and arithmetic is used, so positions may be whole numbers, numpy arrays or
torch tensors.
"""

from __future__ import annotations

from typing import Any

from .edits import BlockEdges, BlockKeys, Causal, Edit, Window
from .interventions import Intervention
from .sites import Site

HIDING = (Causal, Window, BlockKeys, BlockEdges)  # in the order in which a reason is looked for


def hidden(edit: Edit, query: Any, key: Any) -> Any:
    """Whether an edit hides ``key`` from ``query``: bool, or an array of bool.

    Args:
        query, key: absolute positions from 0: whole numbers, or index arrays of shapes that
            broadcast (``[query, 1]`` and ``[key]``), both of numpy or both of torch.

    The answer has the shape that query and key have together. Whether the edit acts on a block at
    all is asked elsewhere: :func:`hiding`.
    """
    found = (query != query) | (key != key)  # nothing is hidden, in the shape of both
    if isinstance(edit, Causal) and edit.on:
        found = found | (key > query)
    elif isinstance(edit, Window) and edit.radius is not None:
        found = found | (abs(key - query) > edit.radius)
    elif isinstance(edit, BlockKeys):
        for number in edit.keys:
            found = found | (key == number)
    elif isinstance(edit, BlockEdges):
        for row, column in edit.edges:
            found = found | ((query == row) & (key == column))
    return found


def hiding(intervention: Intervention, site: Site) -> list[Edit]:
    """The edits that may hide keys at a site, one of each kind; causal masks act on self only."""
    found = (
        intervention.find(kind, site)
        for kind in HIDING
        if not (kind is Causal and site.block != "self")
    )
    return [edit for edit in found if edit is not None]
