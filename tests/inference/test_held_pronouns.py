"""Held words and switched-off heads, against plain runs of weights that were zeroed by hand."""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
import torch

from tests.support.refusals import refuses
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


def plain(model, *sites: Site) -> np.ndarray:
    """ln p ``[row, word]`` by an unwatched pass of each sentence, and a softmax of numpy's.

    The output projections of a copy of the module take nothing from the heads ``sites``.
    """
    module, found = copy.deepcopy(model.module), []
    for site in sites:
        layer = getattr(module, site.stack).layers[site.layer]
        attention = layer.cross_attention if site.block == "cross" else layer.self_attention
        width = attention.output.weight.shape[1] // attention.heads
        with torch.no_grad():
            attention.output.weight[:, site.head * width : (site.head + 1) * width] = 0
    for row in ROWS:
        source = [int(one) for one in model.tokenizer.source_ids(row.source)]
        target = list(model.tokenizer.target_ids(row.before))
        with torch.no_grad():
            logits = module(torch.tensor([source]), torch.tensor([target]))[0, -1].double().numpy()
        powers = np.exp(logits - logits.max())
        found.append(np.log(powers[[int(word) for word in row.words]] / powers.sum()))
    return np.stack(found)


def test_rows_of_a_pass_are_the_sentences_alone(tiny_model):
    found = log_probabilities(tiny_model, ROWS)
    assert found.shape == (2, 3) and found.dtype == np.float64 and not found.flags.writeable
    assert found == pytest.approx(plain(tiny_model), abs=1e-5) and (found < 0).all()
    alike = Held("5 7 3", "2 9", ("4", "4 8", "30"))
    refuses("do not begin with different pieces", log_probabilities, tiny_model, [alike])
    refuses("shorten the text", log_probabilities, tiny_model, [Held("5 " * 44, "2", ("4", "8"))])


def test_a_switched_off_head_is_a_zeroed_slice_of_the_projection(tiny_model):
    sites = heads(tiny_model, ROWS[0])
    wanted = {Site("encoder", "self", *at) for at in product(range(3), range(2))}
    wanted |= {Site("decoder", *at) for at in product(("self", "cross"), range(2), range(2))}
    assert len(sites) == len(wanted) == 14 and set(sites) == wanted
    told: list[tuple[int, int]] = []
    found = without_each(tiny_model, ROWS, sites, lambda *far: told.append(far))
    clean = log_probabilities(tiny_model, ROWS)
    assert found.shape == (14, 2, 3) and told == [(n, 14) for n in range(14)]
    for site, logs in zip(sites, found, strict=True):
        assert logs == pytest.approx(plain(tiny_model, site), abs=1e-5), site
        assert np.abs(logs - clean).max() > 1e-6, site  # each of them does something
    few = (Site("encoder", "self", 1, 0), Site("decoder", "cross", 0, 1))
    together = log_probabilities(tiny_model, ROWS, off(few))
    assert together == pytest.approx(plain(tiny_model, *few), abs=1e-5)
