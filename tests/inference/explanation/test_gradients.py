"""Heads screened by gradients: a batch is its sentences, and the integral is complete."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.witness_models import importance, random_gpt2, second_halves
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import read_examples
from transformer_viz.inference.ablation.gradients import gradient_importance, integrated_gates
from transformer_viz.inference.model_inputs import model_of


def bench(thing: nn.Module | Model, pairs: object) -> Bench:
    model = model_of(thing)
    return Bench(model, read_examples(model, pairs, 0, lambda: None), "zero", 0, lambda: None)


@pytest.mark.families
def test_a_batch_is_the_mean_of_its_sentences(build_model):
    """P24: the absolute value is taken of each sentence before any mean."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(4, 37, 7).tolist() for _ in range(8)]
    model = random_gpt2()
    alone = [gradient_importance(bench(model, [text])) for text in texts]
    assert gradient_importance(bench(model, texts)) == pytest.approx(np.mean(alone, 0), abs=1e-6)
    own = build_model()
    pairs = [([5, *text[:4], 3], [7, 9, text[0]]) for text in texts]
    alone = [gradient_importance(bench(own, [pair])) for pair in pairs]
    assert gradient_importance(bench(own, pairs)) == pytest.approx(np.mean(alone, 0), abs=1e-6)


@pytest.mark.families
def test_importance_is_the_slope_of_a_gate():
    """Against a difference quotient of the loss, one head of one layer scaled by a hook."""
    model, text = random_gpt2().double(), [5, 9, 11, 30, 2, 7, 19]
    attention, ids = model.transformer.h[1].attn, torch.tensor([text])

    def loss(gate: float) -> float:
        def scaled(_: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            x = given[0].clone()
            x[..., 8:16] *= gate
            return (x, *given[1:])

        handle = attention.c_proj.register_forward_pre_hook(scaled)
        with torch.no_grad():
            logits = model(ids).logits[0, :-1]
        handle.remove()
        return float(-logits.log_softmax(-1)[range(len(text) - 1), text[1:]].sum())

    slope = abs(loss(1 + 1e-5) - loss(1 - 1e-5)) / 2e-5
    assert gradient_importance(bench(model, [text]))[4 + 1] == pytest.approx(slope, rel=1e-4)


@pytest.mark.families
def test_the_integral_over_gates_is_complete():
    """P25 (W4, gain 4): the sum is L(all on) - L(all off), and two heads that need each other
    share it unevenly."""
    found, rest = integrated_gates(bench(importance(gain=4.0).module, second_halves(4)), steps=64)
    assert abs(rest) <= 0.01 * abs(found.sum()) and found.sum() < -1
    assert found[0] < 0 and found[4] < 0 and abs(found[0] - found[4]) > 0.1
    others = np.delete(found, [0, 4])
    assert others == pytest.approx(np.zeros(6), abs=1e-6)


def test_a_model_whose_gates_are_hidden_says_so(build_model):
    model, tell = build_model(), lambda: None
    examples = read_examples(model, [([5, 7, 3], [9, 3])], 0, tell)
    hidden = Bench(model, examples, "zero", 0, tell, one_by_one=True)
    with pytest.raises(ValueError, match="rank it by removal, method='zero'"):
        gradient_importance(hidden)
