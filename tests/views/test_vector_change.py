"""How far vectors moved, and the held words of chosen rows alone: sums by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from transformer_viz.core.trace import Trace
from transformer_viz.core.trace_parts import Produced
from transformer_viz.metrics import output_changes, vector_changes
from transformer_viz.views import outcome, vector_change

WAS = np.array([[3.0, 4.0], [0.0, 2.0], [6.0, 8.0], [1.0, 0.0], [0.0, 0.0]], np.float32)
NOW = np.array([[3.0, 4.0], [0.0, 5.0], [0.0, 0.0], [1.0, 0.5], [0.0, 0.0]], np.float32)


def test_the_change_is_the_length_of_the_difference(clean: Trace) -> None:
    before, after = replace(clean, output=WAS), replace(clean, output=NOW)
    table = vector_changes(before, after, "encoder")
    assert list(table["length_before"]) == [5, 2, 10, 1, 0]
    assert list(table["change"]) == [0, 3, 10, 0.5, 0]
    assert list(table["token"]) == list(clean.source.labels)
    drawn = vector_change(before, after, "encoder")
    numbers = [float(number) for number in re.findall(r"<div>([\d.]+)</div>", drawn.html)]
    assert numbers == [0, 3, 10, 0.5, 0]
    heights = [int(pixels) for pixels in re.findall(r"width:22px;height:(\d+)px", drawn.html)]
    assert heights == [1, 14, 46, 2, 1]  # of 46 pixels for the largest; nothing is one
    alone = vector_change(before, None, "encoder")
    assert "of " not in re.sub("<[^>]*>", "", alone.html) and "5.00" in alone.html


def test_padding_behind_is_left_out_and_fewer_vectors_are_refused(clean: Trace) -> None:
    before = replace(clean, output=WAS)
    longer = replace(clean, output=np.concatenate([NOW, NOW]))
    assert list(vector_changes(before, longer, "encoder")["change"]) == [0, 3, 10, 0.5, 0]
    with pytest.raises(ValueError, match="5 and 2 tokens"):
        vector_changes(before, replace(clean, output=NOW[:2]), "encoder")


def test_without_an_output_the_last_hidden_states_are_compared(clean: Trace, warm: Trace) -> None:
    last = clean.hidden("encoder")[-1].astype(np.float64) - warm.hidden("encoder")[-1]
    table = vector_changes(clean, warm, "encoder")
    assert np.allclose(table["change"], np.sqrt((last**2).sum(axis=1)), rtol=1e-12)


def test_chosen_rows_and_rows_of_padding(clean: Trace, warm: Trace) -> None:
    words = re.findall(r"<div>(\w+)</div>", outcome(clean, warm, rows=[0, 2]).html)
    assert words == ["die", "tze"]
    assert warm.produced is not None
    more = Produced(
        (*warm.produced.ids, 0),
        (*warm.produced.pieces, "<pad>"),
        (*warm.produced.labels, "<pad>"),
        np.append(warm.produced.probability, np.float32(0.5)),
        np.append(warm.produced.rank, 1),
    )
    padded = output_changes(clean, replace(warm, produced=more))
    assert padded.equals(output_changes(clean, warm))
    other = replace(more, ids=(0, *more.ids[1:]))
    with pytest.raises(ValueError, match="different words"):
        output_changes(clean, replace(warm, produced=other))
