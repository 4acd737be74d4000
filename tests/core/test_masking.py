"""What an edit hides: one law, the same for whole numbers, numpy arrays and torch tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    Edit,
    Intervention,
    Temperature,
    Window,
)
from transformer_viz.core.masking import hidden, hiding
from transformer_viz.core.sites import Site

Q, K = np.ogrid[0:5, 0:6]
EXPECTED = {
    Causal(on=True): Q < K,
    Causal(on=False): np.zeros((5, 6), bool),
    Window(radius=1): np.abs(Q - K) >= 2,
    Window(radius=None): np.zeros((5, 6), bool),
    BlockKeys(keys=(0, 4)): np.broadcast_to(np.isin(K, (0, 4)), (5, 6)),
    BlockKeys(keys=()): np.zeros((5, 6), bool),
    BlockEdges(edges=((2, 5), (3, 0))): (Q == 2) & (K == 5) | (Q == 3) & (K == 0),
    Temperature(value=0.0): np.zeros((5, 6), bool),
}


@pytest.mark.parametrize("edit", EXPECTED, ids=lambda edit: f"{edit.kind}-{edit.change()}")
def test_numbers_numpy_and_torch_agree(edit: Edit) -> None:
    arrays = hidden(edit, np.arange(5)[:, None], np.arange(6))
    tensors = hidden(edit, torch.arange(5)[:, None], torch.arange(6))
    numbers = [[hidden(edit, query, key) for key in range(6)] for query in range(5)]
    assert arrays.dtype == bool and tensors.dtype == torch.bool
    np.testing.assert_array_equal(arrays, EXPECTED[edit])
    np.testing.assert_array_equal(tensors.numpy(), EXPECTED[edit])
    assert numbers == EXPECTED[edit].tolist()


def test_of_each_kind_the_last_that_matches_may_hide_and_causal_on_self_alone() -> None:
    wide, narrow = Window(radius=3), Window(radius=1, layer=0)
    edits = Intervention((BlockKeys(keys=(1,)), wide, narrow, Causal(on=True)))
    assert hiding(edits, Site("decoder", "self", 0, 1)) == [edits.edits[3], narrow, edits.edits[0]]
    assert hiding(edits, Site("decoder", "cross", 1, 1)) == [wide, edits.edits[0]]
