"""Held words and switched-off heads, against plain runs of weights that were zeroed by hand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.inference.experiments.held_pronouns import (
    Held,
    heads,
    log_probabilities,
    off,
    without_each,
)

ROWS = (
    Held("5 7 11 3", "2 9 10", ("21", "30", "4")),
    Held("5 17 13 19 23 3", "2 9", ("4", "30", "8")),  # another length, so that there is padding
)


def plain(model: Model, row: Held, module: nn.Module | None = None) -> np.ndarray:
    """ln p of the words by one unwatched pass of one sentence, and a softmax of numpy's."""
    source = [int(one) for one in model.tokenizer.source_ids(row.source)]
    target = list(model.tokenizer.target_ids(row.before))
    with torch.no_grad():
        run = module or model.module
        logits = run(torch.tensor([source]), torch.tensor([target]))[0, -1].double().numpy()
    powers = np.exp(logits - logits.max())
    return np.asarray(np.log(powers[[int(word) for word in row.words]] / powers.sum()))


def zeroed(model: Model, sites: tuple[Site, ...]) -> nn.Module:
    """A copy of a model whose output projections take nothing from some heads."""
    module: Any = copy.deepcopy(model.module)
    for site in sites:
        layer = getattr(module, site.stack).layers[site.layer]
        attention = layer.cross_attention if site.block == "cross" else layer.self_attention
        width = attention.output.weight.shape[1] // attention.heads
        assert site.head is not None
        with torch.no_grad():
            attention.output.weight[:, site.head * width : (site.head + 1) * width] = 0
    return module


def test_rows_of_a_pass_are_the_sentences_alone(tiny_model: Model) -> None:
    found = log_probabilities(tiny_model, ROWS)
    assert found.shape == (2, 3) and found.dtype == np.float64 and not found.flags.writeable
    for row, logs in zip(ROWS, found, strict=True):
        assert logs == pytest.approx(plain(tiny_model, row), abs=1e-5)
        assert (logs < 0).all()


def test_every_head_is_found_once(tiny_model: Model) -> None:
    sites = heads(tiny_model, ROWS[0])
    wanted = {
        *(Site("encoder", "self", layer, head) for layer in range(3) for head in range(2)),
        *(
            Site("decoder", block, layer, head)
            for block in ("self", "cross")
            for layer in range(2)
            for head in range(2)
        ),
    }
    assert len(sites) == len(wanted) == 14 and set(sites) == wanted


def test_a_switched_off_head_is_a_zeroed_slice_of_the_projection(tiny_model: Model) -> None:
    sites = heads(tiny_model, ROWS[0])
    told: list[tuple[int, int]] = []
    found = without_each(tiny_model, ROWS, sites, lambda *far: told.append(far))
    clean = log_probabilities(tiny_model, ROWS)
    assert found.shape == (14, 2, 3) and told == [(n, 14) for n in range(14)]
    for site, logs in zip(sites, found, strict=True):
        module = zeroed(tiny_model, (site,))
        for number, row in enumerate(ROWS):
            assert logs[number] == pytest.approx(plain(tiny_model, row, module), abs=1e-5)
        assert np.abs(logs - clean).max() > 1e-6  # each of them does something


def test_several_heads_are_off_together(tiny_model: Model) -> None:
    few = (Site("encoder", "self", 1, 0), Site("decoder", "cross", 0, 1))
    found = log_probabilities(tiny_model, ROWS, off(few))
    module = zeroed(tiny_model, few)
    for number, row in enumerate(ROWS):
        assert found[number] == pytest.approx(plain(tiny_model, row, module), abs=1e-5)


def test_words_that_begin_alike_cannot_be_asked_about(tiny_model: Model) -> None:
    row = Held("5 7 3", "2 9", ("4", "4 8", "30"))
    with pytest.raises(ValueError, match="do not begin with different pieces"):
        log_probabilities(tiny_model, [row])


def test_a_text_beyond_the_positions_is_refused(tiny_model: Model) -> None:
    with pytest.raises(ValueError, match="shorten the text"):
        log_probabilities(tiny_model, [Held("5 " * 44, "2", ("4", "8"))])
