"""Experiments inside a model: positions, masks, shared projections, first gradients, heads off."""

from __future__ import annotations

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import TINY, make_model
from tests.support.refusals import refuses
from transformer_viz.core.sites import Site
from transformer_viz.inference.experiments.held_pronouns import (
    Held,
    heads,
    log_probabilities,
    off,
    without_each,
)
from transformer_viz.inference.experiments.initial_gradients import beginning, fresh, loss_of
from transformer_viz.inference.experiments.mask_leak import leak
from transformer_viz.inference.experiments.position_wise import convolved, position_wise
from transformer_viz.inference.experiments.shared_keys import tie_query_key, written
from transformer_viz.model import ModelConfig, Transformer

SOURCE, TARGET = (5, 7, 11, 13, 17, 3), (2, 9, 10, 21, 30)
BUILDS = (
    {},
    {"norm": "post"},
    {"norm": "query_only"},
    {"gated": True, "activation": "silu"},
    {"encoder_layers": 0, "source_vocab": 0, "positions": "rotary", "d_k": 12},
)


def test_the_feed_forward_network_asks_no_neighbour(tiny_model):
    for words in BUILDS:
        found = position_wise(make_model(**words), SOURCE, 1, 2, seed=3)
        assert found.moved[2] == 1 and not np.delete(found.moved, 2).any(), words
        behind = slice(2, None) if words.get("encoder_layers") == 0 else slice(None)
        assert (found.mixed[behind] > 1e-6).all(), words
        assert found.permuted < 1e-5 * found.largest, words
        assert found.convolved < 1e-5 * found.largest, words
        assert sorted(found.order) == list(range(6)), words
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


PAIRS = (((5, 9, 14, 3), (7, 11, 3)), ((6, 3), (8, 12, 19, 21, 3)))
STEP = 1e-6  # larger ones cross a corner of a ReLU


def config_of(norm: str) -> ModelConfig:
    layers = {"encoder_layers": 2, "decoder_layers": 2, "dropout": 0.0}
    return replace(TINY, norm=norm, final_norm=norm == "pre", **layers)


def slope(module: Transformer, layer: torch.nn.Module) -> float:
    """The loss's slope along a layer's unit gradient, which is the gradient's norm."""
    parts = list(layer.parameters())
    gradients = torch.autograd.grad(loss_of(module, PAIRS), parts)
    length = torch.stack([g.square().sum() for g in gradients]).sum().sqrt()
    sides = []
    with torch.no_grad():
        for sign in (1, -2, 1):  # forth, back past the middle, and to the middle
            for part, gradient in zip(parts, gradients, strict=True):
                part += sign * STEP * gradient / length
            sides.append(float(loss_of(module, PAIRS)))
    return (sides[0] - sides[1]) / (2 * STEP)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_gradients_are_slopes_of_the_loss_and_lengths_those_of_the_words(norm):
    found = beginning(TINY, norm, 2, PAIRS, (1, 2))
    modules = [fresh(config_of(norm), seed).double() for seed in (1, 2)]
    for stack in ("encoder", "decoder"):
        for layer in range(2):
            slopes = [slope(m, getattr(m, stack).layers[layer]) for m in modules]
            assert found.gradients[stack][layer] == pytest.approx(sum(slopes) / 2, rel=1e-6)
    # one sentence at a time, without padding, layer by layer
    module, lengths = fresh(config_of(norm), 4), [[], [], []]
    with torch.no_grad():
        for source, _ in PAIRS:
            ids = torch.tensor([source])
            x = module.encoder.embedding(ids)
            lengths[0].append(x.norm(dim=-1).flatten())
            for place, layer in enumerate(module.encoder.layers, 1):
                x = layer(x, module.padding_mask(ids))
                lengths[place].append(x.norm(dim=-1).flatten())
    means = [float(torch.cat(rows).mean()) for rows in lengths]
    found = beginning(TINY, norm, 2, PAIRS, (4,))
    assert found.lengths["encoder"] == pytest.approx(means, rel=1e-5)


def test_the_loss_and_the_unevenness_of_post_norm():
    module, chances = fresh(config_of("pre"), 1), []
    with torch.no_grad():
        for source, target in PAIRS:
            shown = torch.tensor([[TINY.bos_id, *target[:-1]]])
            logs = module(torch.tensor([source]), shown)[0].log_softmax(-1)
            chances += [float(logs[place, word]) for place, word in enumerate(target)]
    found = loss_of(module, PAIRS).item()
    assert found == pytest.approx(-sum(chances) / len(chances), rel=1e-5)
    config, spread = replace(TINY, d_model=24, d_k=12, d_v=12, heads=2), {}
    for norm in ("pre", "post"):
        sizes = beginning(config, norm, 8, PAIRS, (1, 2)).gradients["decoder"]
        spread[norm] = max(sizes) / min(sizes)
    assert spread["post"] > 2 * spread["pre"]


def test_first_weights_depend_on_the_seed_alone_also_while_other_threads_draw():
    torch.manual_seed(99)
    before = torch.get_rng_state()
    one, same, other = (fresh(config_of("pre"), seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    weights = [next(module.parameters()) for module in (one, same, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        witness = Transformer(config_of("pre")).state_dict()
    ended = threading.Event()

    def draw() -> None:
        while not ended.is_set():
            torch.rand(3)
            torch.manual_seed(7)

    with torch.random.fork_rng(devices=[]), ThreadPoolExecutor(2) as others:
        for _ in range(2):
            others.submit(draw)
        try:
            modules = [fresh(config_of("pre"), 5) for _ in range(40)]
        finally:
            ended.set()
    for module in modules:
        found = module.state_dict()
        assert all(torch.equal(found[name], weights) for name, weights in witness.items())


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


def test_held_words_and_heads_that_are_off(tiny_model):
    found = log_probabilities(tiny_model, ROWS)
    assert found.shape == (2, 3) and found.dtype == np.float64 and not found.flags.writeable
    assert found == pytest.approx(plain(tiny_model), abs=1e-5) and (found < 0).all()
    alike = Held("5 7 3", "2 9", ("4", "4 8", "30"))
    refuses("do not begin with different pieces", log_probabilities, tiny_model, [alike])
    refuses("shorten the text", log_probabilities, tiny_model, [Held("5 " * 44, "2", ("4", "8"))])
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
