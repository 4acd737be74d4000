"""Layer norm and batch norm against those of PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.app.labs.jobs import streams
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference import token_ids
from transformer_viz.metrics.residual.batch_norm import EPSILON, batch_normed, layer_normed


def _batch() -> list[np.ndarray]:
    draw = np.random.default_rng(5)
    return [draw.standard_normal((rows, 11)) * 3 + 1 for rows in (5, 2, 7)]


def test_layer_norm_is_pytorchs() -> None:
    (rows, *_) = _batch()
    witness = torch.nn.LayerNorm(11, eps=EPSILON, elementwise_affine=False, dtype=torch.float64)
    assert np.allclose(layer_normed(rows), witness(torch.tensor(rows)).numpy(), atol=1e-12)


def test_batch_norm_is_pytorchs_over_all_words_of_the_batch() -> None:
    batch = _batch()
    witness = torch.nn.BatchNorm1d(11, eps=EPSILON, affine=False, dtype=torch.float64).train()
    made = witness(torch.tensor(np.concatenate(batch))).numpy()
    assert np.allclose(batch_normed(batch[0], batch), made[:5], atol=1e-12)
    assert np.allclose(batch_normed(batch[2], batch), made[7:], atol=1e-12)


def test_only_batch_norm_knows_the_neighbours() -> None:
    batch = _batch()
    alone, beside = batch_normed(batch[0], batch[:1]), batch_normed(batch[0], batch)
    assert np.abs(alone - beside).max() > 0.1
    assert np.allclose(alone.mean(axis=0), 0) and np.allclose(alone.std(axis=0), 1, atol=1e-4)


def test_a_batch_of_other_widths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"widths \[11, 13\]"):
        batch_normed(np.ones((2, 11)), [np.ones((2, 13))])
    with pytest.raises(ValueError, match="got 0"):
        batch_normed(np.ones((2, 11)), [])


def test_a_remembered_stream_is_no_view_of_a_whole_run(
    tiny_model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_ids, "source_ids", lambda _, text: [5, 7, 11, 3][: len(text)])
    short, full = streams(tiny_model, ("ab", "abcd"), 1)
    assert (short.tokens, full.tokens) == (2, 4)
    for one in (short, full):
        assert one.rows.base is None and not one.rows.flags.writeable
    run = tv.trace(tiny_model, [5, 7, 11, 3], target=[0], keep=("hidden",), check=False)
    assert np.array_equal(full.rows, run.hidden("encoder")[1])
