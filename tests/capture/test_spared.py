"""A narrow place that a wider edit spares: there the head runs as if nothing were changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.capture.test_laws import CLOSE, SCORES, masked, plain, run
from transformer_viz.core.interventions import Edit, UniformHead, Window
from transformer_viz.model import Transformer

WIDE = {"window": Window(radius=1), "uniform": UniformHead()}


def spared(edit: Edit, **place: int | str) -> Edit:
    """The edit that says "not here" for the kind of another one."""
    if isinstance(edit, Window):
        return Window(radius=None, **place)
    return UniformHead(on=False, **place)


@pytest.mark.parametrize("wide", WIDE.values(), ids=WIDE)
@pytest.mark.parametrize("score", SCORES)
def test_a_wide_edit_spared_everywhere_is_no_edit(
    wide: Edit, score: str, build_module: Callable[..., Transformer]
) -> None:
    module = build_module(score=score)
    out, _ = run(module, wide, spared(wide, stack="encoder"), spared(wide, stack="decoder"))
    assert torch.equal(out, plain(module))


@pytest.mark.parametrize("wide", WIDE.values(), ids=WIDE)
def test_a_spared_head_looks_as_trained_and_the_others_do_not(
    wide: Edit, build_module: Callable[..., Transformer]
) -> None:
    module = build_module()
    wide = replace(wide, stack="encoder")
    _, clean = run(module)
    _, seen = run(module, wide, spared(wide, stack="encoder", layer=0, head=1))
    was, now = clean.attentions[0].weights[0], seen.attentions[0].weights[0]
    np.testing.assert_allclose(now[1], was[1], atol=1e-6)
    assert float((now[0] - was[0]).abs().max()) > 0.01


def test_a_window_with_a_gap_is_the_mask_made_by_hand(
    build_module: Callable[..., Transformer],
) -> None:
    module = build_module()
    far = (torch.arange(7)[:, None] - torch.arange(7)).abs() <= 2
    edits = (
        Window(radius=2, stack="encoder"),
        Window(radius=None, stack="decoder"),
    )
    torch.testing.assert_close(run(module, *edits)[0], masked(module, encoder=far), **CLOSE)


def test_the_later_edit_wins_also_over_a_gap(build_module: Callable[..., Transformer]) -> None:
    module = build_module()
    gap, wide = Window(radius=None, stack="encoder", layer=0), Window(radius=1, stack="encoder")
    assert torch.equal(run(module, gap, wide)[0], run(module, wide)[0])
    assert not torch.equal(run(module, wide, gap)[0], run(module, wide)[0])


@pytest.mark.parametrize("edit", [Window(radius=None, layer=9), UniformHead(on=False, layer=9)])
def test_a_gap_at_no_place_is_refused(edit: Edit, build_module: Callable[..., Transformer]) -> None:
    with pytest.raises(ValueError, match="encoder L0"):
        run(build_module(), edit)
