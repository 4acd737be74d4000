"""Two searches that are to be the same."""

from __future__ import annotations

import dataclasses

import numpy as np

from transformer_viz.core.search_tree import Search


def same_search(one: Search, other: Search) -> None:
    """The same choices, with the same numbers and rows."""
    for field in dataclasses.fields(Search):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "rows":
            for layer, its in zip(mine, theirs, strict=True):
                np.testing.assert_allclose(layer, its, atol=1e-5)
        elif isinstance(mine, np.ndarray) and mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, theirs, atol=1e-5)
        else:
            assert np.array_equal(mine, theirs), field.name
