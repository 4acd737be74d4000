"""Two traces that are to be the same: bit for bit, but for the last digits of sums."""

from __future__ import annotations

import numpy as np
import pandas as pd

from transformer_viz.core.trace import Trace


def arrays(made: Trace) -> dict[str, np.ndarray]:
    """Every array of a trace by its name."""
    found = {f"thumbnail {name}": array for name, array in made.thumbnails.items()}
    for one in made.attentions:
        found[f"weights {one.site}"] = one.weights
        if one.scores is not None:
            found[f"scores {one.site}"] = one.scores
    found |= {f"hidden {name}": array for name, array in made.hiddens.items()}
    found |= {f"positions {name}": array for name, array in made.positions.items()}
    for name, pair in made.gains.items():
        found |= {
            f"{word} {name}": x
            for word, x in zip(("gain", "bias"), pair, strict=True)
            if x is not None
        }
    given = {"logits": made.logits, "output": made.output}
    return found | {name: array for name, array in given.items() if array is not None}


def same(one: Trace, other: Trace, sums: float = 0.0) -> None:
    """Assert that nothing in them differs; statistics of heads by no more than ``sums`` of 1 or of
    their value, as sums of more numbers at once may end in other digits."""
    for name in ("norms", "residuals"):
        assert getattr(one, name).equals(getattr(other, name)), name
    pd.testing.assert_frame_equal(one.heads, other.heads, rtol=sums, atol=sums)
    mine, its = arrays(one), arrays(other)
    assert list(mine) == list(its)
    assert [name for name in mine if not np.array_equal(mine[name], its[name], True)] == []
    assert one.report == other.report and one.manifest == other.manifest
    assert [(a.site, a.query, a.key, a.site.path) for a in one.attentions] == [
        (a.site, a.query, a.key, a.site.path) for a in other.attentions
    ]
    assert one.maps == other.maps and (one.produced is None) == (other.produced is None)
    if one.produced is not None and other.produced is not None:
        assert one.produced.ids == other.produced.ids
        assert np.array_equal(one.produced.probability, other.produced.probability)
