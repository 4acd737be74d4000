"""What a notebook prints of a result: one line that says what it is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints import Model
from transformer_viz.core.sites import MAPS
from transformer_viz.inference.ablation.places import _heads_of

SOURCE, OTHER, HELD = [5, 17, 6, 29, 3], [30, 9, 12, 22, 3], [2, 7, 31, 9]


def test_every_result_is_one_line_that_counts(tiny_model: Model) -> None:
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
    assert (
        f"most {most['moved']:+.3f} at {most['part']} L{most['layer']} head {most['head']}"
        in (shown[4])
    )
    assert shown[5] == f"<Comparison of {heads} heads on 1 input>"


def test_ids_of_one_row_are_read_as_a_tokenizer_gives_them(tiny_model: Model) -> None:
    plain = tv.trace(tiny_model, SOURCE, HELD)
    batch = tv.trace(tiny_model, torch.tensor([SOURCE]), torch.tensor([HELD]))
    assert batch.source.ids == plain.source.ids and batch.target == plain.target
    with pytest.raises(ValueError, match=r"a batch of 2 rows of ids; give one row"):
        tv.trace(tiny_model, torch.tensor([SOURCE, OTHER]), HELD)


def test_a_feature_too_small_to_tell_follows_the_others() -> None:
    """One token whose feature lies just below the tolerance is no reason to give up a layer."""
    alone = torch.tensor([[1.0, -0.5, 0.7, 9.99e-4]])
    factors = torch.tensor([2.0, 2.0, 3.0, 3.0])
    found = _heads_of(alone, alone * factors, 2)
    assert found is not None and found.tolist() == [0, 0, 1, 1]
    assert _heads_of(alone, alone * torch.tensor([2.0, 2.0, 3.0, 9.0]), 2) is None
    assert _heads_of(alone, alone * torch.tensor([2.0, 3.0, 2.0, 3.0]), 2) is None


def test_a_column_of_heads_by_layer_and_head(tiny_model: Model) -> None:
    run = tv.trace(tiny_model, SOURCE, HELD)
    for block, (stack, kind) in MAPS.items():
        own = run.heads[(run.heads["stack"] == stack) & (run.heads["block"] == kind)]
        wide = own.pivot(index="layer", columns="head", values="entropy").to_numpy()
        assert np.array_equal(run.head_column(block, "entropy"), wide)
        assert run.head_counts(block).tolist() == own.groupby("layer").size().tolist()
        assert np.isnan(run.head_column(block, "unheard-of")).all()
    with pytest.raises(LookupError):
        run.head_column("sideways", "entropy")
