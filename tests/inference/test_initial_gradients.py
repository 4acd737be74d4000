"""Gradients of fresh models against finite differences, lengths against a loop by hand."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from tests.conftest import TINY
from transformer_viz.inference.experiments.initial_gradients import beginning, fresh, loss_of
from transformer_viz.model import ModelConfig, Transformer

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


def test_the_loss_is_the_mean_over_target_tokens():
    module, chances = fresh(config_of("pre"), 1), []
    with torch.no_grad():
        for source, target in PAIRS:
            shown = torch.tensor([[TINY.bos_id, *target[:-1]]])
            logs = module(torch.tensor([source]), shown)[0].log_softmax(-1)
            chances += [float(logs[place, word]) for place, word in enumerate(target)]
    found = loss_of(module, PAIRS).item()
    assert found == pytest.approx(-sum(chances) / len(chances), rel=1e-5)


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


def test_post_norm_is_the_more_uneven_one_where_it_is_deep():
    config, spread = replace(TINY, d_model=24, d_k=12, d_v=12, heads=2), {}
    for norm in ("pre", "post"):
        sizes = beginning(config, norm, 8, PAIRS, (1, 2)).gradients["decoder"]
        spread[norm] = max(sizes) / min(sizes)
    assert spread["post"] > 2 * spread["pre"]
