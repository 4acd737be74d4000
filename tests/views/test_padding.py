"""The difference between a sentence and the same one with padding behind it."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import Intervention, Pad
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace
from transformer_viz.views import head_map

SOURCE, TARGET = [5, 9, 31, 7, 3], [2, 8, 17]
PADS = 2


def traced(model: Model, pad: Pad | None = None, source: list[int] = SOURCE) -> Trace:
    """A run whose target words are held, with padding appended or not."""
    edits = Intervention((pad,)) if pad else Intervention()
    return trace(
        model, source, target=TARGET, produced=[8, 17, 4], intervention=edits,
        keep=("weights", "scores"), check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def short(tiny_model: Model) -> Trace:
    return traced(tiny_model)


@pytest.fixture(scope="module")
def long(tiny_model: Model) -> Trace:
    return traced(tiny_model, Pad(count=PADS, masked=False))


def drawn(picture: go.Figure) -> np.ndarray:
    return next(np.asarray(part.z) for part in picture.data if isinstance(part, go.Heatmap))


def hovers(picture: go.Figure) -> dict[str, int]:
    """How many cells say each thing when the pointer is over them."""
    cells = [part for part in picture.data if part.name == "cells"]
    return {part.hovertemplate.removesuffix("<extra></extra>"): len(part.x) for part in cells}


def test_what_was_appended_had_no_weight_before(short: Trace, long: Trace) -> None:
    picture = head_map(long, "cross", 1, 0, before=short)
    now, was = (t.attention("cross", 1)[0].astype(float) for t in (long, short))
    assert now.shape == (3, 5 + PADS)
    change = drawn(picture)
    expected = np.hstack([now[:, :5] - was, now[:, 5:]])
    np.testing.assert_allclose(change, expected, atol=1e-7)
    np.testing.assert_allclose(change.sum(axis=1), 0, atol=1e-6)  # both rows summed to 1
    assert picture.layout.meta["caption"].endswith("What was appended had no weight before.")
    picture = head_map(long, "encoder", 0, 1, before=short)  # rows that were not there stay empty
    change = drawn(picture)
    assert np.array_equal(np.isnan(change).any(axis=1), np.arange(7) >= 5)
    assert np.isnan(change[5:]).all()
    said = hovers(picture)
    assert said["%{y} → %{x}: this row was not there before"] == PADS * 7
    assert said["%{y} may not look at %{x} (masked)"] == 0
    assert "rows are new" in picture.layout.meta["caption"]


def test_masked_padding_is_hatched_and_other_texts_refused(
    tiny_model: Model, short: Trace, long: Trace
) -> None:
    masked = traced(tiny_model, Pad(count=PADS, masked=True))
    picture = head_map(masked, "cross", 0, 0, before=short)
    change = drawn(picture)
    np.testing.assert_allclose(change[:, :5], 0, atol=1e-6)
    assert np.isnan(change[:, 5:]).all()
    assert any(part.name == "masked" for part in picture.data)
    assert hovers(picture)["%{y} may not look at %{x} (masked)"] == 3 * PADS
    without = drawn(head_map(long, "cross", 0, 0, before=short, special=False))
    assert without.shape == (3, 4)  # padding and the end token are left out
    other = traced(tiny_model, source=[5, 9, 30, 7, 3])
    with pytest.raises(ValueError, match="do not begin alike"):
        head_map(long, "cross", 0, 0, before=other)
    with pytest.raises(ValueError, match="different words"):
        head_map(short, "cross", 0, 0, before=long)
