"""Experiments inside a model: the feed-forward network, the leak, shared projections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.inference.experiments.mask_leak import leak
from transformer_viz.inference.experiments.position_wise import convolved, position_wise
from transformer_viz.inference.experiments.shared_keys import tie_query_key, written

SOURCE, TARGET = (5, 7, 11, 13, 17, 3), (2, 9, 10, 21, 30)
BUILDS = (
    {},
    {"norm": "post"},
    {"norm": "query_only"},
    {"gated": True, "activation": "silu"},
    {"encoder_layers": 0, "source_vocab": 0, "positions": "rotary", "d_k": 12},
)


def test_the_feed_forward_network_asks_no_neighbour():
    for words in BUILDS:
        found = position_wise(make_model(**words), SOURCE, 1, 2, seed=3)
        assert found.moved[2] == 1 and not np.delete(found.moved, 2).any(), words
        behind = slice(2, None) if words.get("encoder_layers") == 0 else slice(None)
        assert (found.mixed[behind] > 1e-6).all(), words
        assert found.permuted < 1e-5 * found.largest, words
        assert found.convolved < 1e-5 * found.largest, words
        assert sorted(found.order) == list(range(6)), words


def test_the_network_reads_what_the_model_gives_it_and_equals_two_convolutions(tiny_model):
    """Its largest output, against a forward hook's; and PyTorch's own Conv1d."""
    module, heard = tiny_model.module, []
    network = module.encoder.layers[1].feed_forward
    handle = network.register_forward_hook(lambda _, given, out: heard.append(out))
    with torch.no_grad():
        module.encode(torch.tensor([SOURCE]), module.padding_mask(torch.tensor([SOURCE])))
    handle.remove()
    largest = position_wise(tiny_model, SOURCE, 1, 0).largest
    assert largest == pytest.approx(float(heard[0].abs().max()), rel=1e-6)
    feed = module.encoder.layers[0].feed_forward
    inner, outer = torch.nn.Conv1d(22, 29, 1), torch.nn.Conv1d(29, 22, 1)
    for conv, linear in ((inner, feed.inner), (outer, feed.outer)):
        conv.load_state_dict({"weight": linear.weight[..., None], "bias": linear.bias})
    x = torch.linspace(-1, 1, 5 * 22).view(1, 5, 22)
    wanted = outer(inner(x.transpose(1, 2)).relu()).transpose(1, 2)
    assert torch.allclose(convolved(feed, x), wanted, atol=1e-6)
    said = "layers 0 to 2 and words 0 to 5; got layer 3"
    refuses(said, position_wise, tiny_model, SOURCE, 3, 0)
    other = replace(tiny_model, module=torch.nn.Linear(2, 2))
    refuses("other parts", position_wise, other, SOURCE, 0, 0)
    refuses("other parts", tie_query_key, other, "query-key")


def test_nothing_leaks_through_the_mask_and_something_does_without(tiny_model, tiny_gpt):
    held, lifted = (leak(tiny_model, list(SOURCE), TARGET, 3, on) for on in (True, False))
    assert not held[:3].any() and (held[3:] > 0).all() and (lifted > 0).all()
    # the place half the 41 words away: 21 becomes 0 (41 // 2 = 20, 21 + 20 = 41)
    rows = []
    for ids in (TARGET, (2, 9, 10, 0, 30)):
        logits = tiny_model.module(torch.tensor([SOURCE]), torch.tensor([ids]))[0]
        rows.append(logits.double().softmax(-1).detach())
    wanted = (rows[0] - rows[1]).clamp(min=0).sum(-1).numpy()  # what one has more than the other
    assert held == pytest.approx(wanted, rel=1e-4, abs=1e-9)
    held, lifted = (leak(tiny_gpt, "", TARGET, 4, on) for on in (True, False))
    assert not held[:4].any() and held[4] > 0 and (lifted > 0).all()
    refuses("places 0 to 4; got 5", leak, tiny_gpt, "", TARGET, 5, True)
    refuses("no decoder", leak, make_model(decoder_layers=0), list(SOURCE), TARGET, 1, True)


def test_shared_projections_are_those_of_a_model_edited_by_hand(tiny_model):
    model = make_model(d_k=11, d_v=11)
    before = [p.clone() for p in model.module.parameters()]
    made, words = tie_query_key(model, "query-key"), {"target": list(TARGET)}
    trace = tv.trace(made, list(SOURCE), **words, keep=("scores", "qkv"), check=False)
    for block in ("encoder", "decoder"):
        found = trace.block(block, 1)
        assert found.q is not None and np.array_equal(found.q, found.k), block
    cross = trace.block("cross", 1)
    assert cross.q.shape != cross.k.shape
    values = tv.trace(tie_query_key(model, "key-value"), list(SOURCE), **words, keep=("qkv",))
    given = values.block("decoder", 0)
    assert given.k is not None and np.array_equal(given.k, given.v)
    # the model itself is as it was
    assert all(torch.equal(a, b) for a, b in zip(before, model.module.parameters(), strict=True))
    assert written(model, "5 7 11", "none") == tv.translate(model, "5 7 11")[0].text
    assert written(model, "5 7 11", "query-key") == tv.translate(made, "5 7 11")[0].text
    refuses("different widths", tie_query_key, tiny_model, "key-value")  # 11 and 13
    refuses("no pair 'value-query'", tie_query_key, tiny_model, "value-query")
