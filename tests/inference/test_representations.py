"""Results in a notebook: one line each, and columns of heads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.core.sites import MAPS
from transformer_viz.inference.ablation.places import _heads_of

SOURCE, OTHER, HELD = [5, 17, 6, 29, 3], [30, 9, 12, 22, 3], [2, 7, 31, 9]


def test_every_result_is_one_line_that_counts(tiny_model):
    run = tv.trace(tiny_model, SOURCE, HELD)
    explained = tv.explain(tiny_model, SOURCE, 1, HELD)
    ranked = tv.rank(tiny_model, [(SOURCE, HELD)])
    swapped = tv.swap(tiny_model, SOURCE, OTHER, words=(7, 8), target=HELD)
    compared = tv.compare(run, tv.trace(tiny_model, OTHER, HELD))
    shown = [repr(x) for x in (tiny_model, run, explained, ranked, swapped, compared)]
    assert all(len(line) < 200 and "\n" not in line for line in shown), shown
    parameters = sum(p.numel() for p in tiny_model.module.parameters())
    assert f"{parameters:,} parameters" in shown[0]
    heads = sum(one.weights.shape[0] for one in run.attentions)
    assert f"{len(SOURCE)} source tokens, {len(HELD)} target tokens, {heads} heads" in shown[1]
    assert f"{explained.word!r} by contribution: {len(SOURCE) + 2} values" in shown[2]
    assert f"of {heads} heads on 1 sentence," in shown[3]
    most = swapped.table.loc[swapped.table["moved"].idxmax()]
    place = f"{most['part']} L{most['layer']} head {most['head']}"
    assert f"most {most['moved']:+.3f} at {place}" in shown[4]
    assert shown[5] == f"<Comparison of {heads} heads on 1 input>"
    # ids of one row are read as a tokenizer gives them
    batch = tv.trace(tiny_model, torch.tensor([SOURCE]), torch.tensor([HELD]))
    assert batch.source.ids == run.source.ids and batch.target == run.target
    with pytest.raises(ValueError, match=r"a batch of 2 rows of ids; give one row"):
        tv.trace(tiny_model, torch.tensor([SOURCE, OTHER]), HELD)


def test_a_feature_too_small_to_tell_follows_the_others():
    """One token whose feature lies just below the tolerance is no reason to give up a layer."""
    alone = torch.tensor([[1.0, -0.5, 0.7, 9.99e-4]])
    factors = torch.tensor([2.0, 2.0, 3.0, 3.0])
    found = _heads_of(alone, alone * factors, 2)
    assert found is not None and found.tolist() == [0, 0, 1, 1]
    assert _heads_of(alone, alone * torch.tensor([2.0, 2.0, 3.0, 9.0]), 2) is None
    assert _heads_of(alone, alone * torch.tensor([2.0, 3.0, 2.0, 3.0]), 2) is None


def test_a_column_of_heads_by_layer_and_head(tiny_model):
    run = tv.trace(tiny_model, SOURCE, HELD)
    for block, (stack, kind) in MAPS.items():
        own = run.heads[(run.heads["stack"] == stack) & (run.heads["block"] == kind)]
        wide = own.pivot(index="layer", columns="head", values="entropy").to_numpy()
        assert np.array_equal(run.head_column(block, "entropy"), wide)
        assert run.head_counts(block).tolist() == own.groupby("layer").size().tolist()
        assert np.isnan(run.head_column(block, "unheard-of")).all()
    with pytest.raises(LookupError):
        run.head_column("sideways", "entropy")
