"""Which keys an edit hides from which queries: one law for the probe and for those who explain.

Each kind says it in its own `hides` (`edits.py`). Nothing but comparisons and arithmetic is used,
so positions may be whole numbers, numpy arrays or torch tensors.
"""

from __future__ import annotations

from typing import Any

from .edits import EDITS, Edit, HidingEdit
from .interventions import Intervention
from .sites import Site

#: In the order in which a reason is looked for.
HIDING = tuple(kind for kind in EDITS if issubclass(kind, HidingEdit))


def hidden(edit: Edit, query: Any, key: Any) -> Any:
    """Whether an edit hides ``key`` from ``query``: bool, or an array of bool.

    Args:
        query, key: absolute positions from 0: whole numbers, or index arrays of shapes that
            broadcast (``[query, 1]`` and ``[key]``), both of numpy or both of torch.

    The answer has the shape that query and key have together. Whether the edit acts on a block at
    all is asked elsewhere: :func:`hiding`.
    """
    nothing = (query != query) | (key != key)  # in the shape of both
    return nothing | edit.hides(query, key) if isinstance(edit, HidingEdit) else nothing


def hiding(intervention: Intervention, site: Site) -> list[Edit]:
    """The edits that may hide keys at a site, one of each kind."""
    found = (intervention.find(kind, site) for kind in HIDING)
    return [edit for edit in found if edit is not None]
