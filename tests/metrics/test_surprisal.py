"""Bits of held words, costs of heads, and the parameters of attention: against sums by hand."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import TINY, make_model
from tests.support.refusals import refuses
from transformer_viz.app.labs.experiments.multi_head import (
    MultiHeadResult,
    answer,
    arranged,
    every_head,
    reveal,
)
from transformer_viz.core.interventions import Causal, Edit, Intervention, ScaleHead
from transformer_viz.metrics.attention.parameter_counts import attention_sizes
from transformer_viz.metrics.output.surprisal import certainty, cost, held_bits, later, weight_on
from transformer_viz.model import ModelConfig
from transformer_viz.model.transformer import Attention

SOURCE, TARGET, SAID = [5, 7, 11, 13, 3], [2, 9, 10, 21], [9, 10, 21, 3]


def run_model(model, *edits: Edit) -> tv.Trace:
    words: dict[str, Any] = {"target": TARGET, "produced": SAID, "check": False}
    return tv.trace(model, SOURCE, intervention=Intervention(edits), **words)


def test_bits_are_the_models_own_and_a_change_costs_their_difference(tiny_model):
    with torch.no_grad():
        logits = tiny_model.module(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0]
    logs = logits.double().log_softmax(-1)[range(4), SAID].numpy() / np.log(2)
    before = run_model(tiny_model)
    assert np.allclose(held_bits(before), -logs, rtol=1e-5)
    off = ScaleHead(value=0, stack="decoder", block="cross", layer=1, head=0)
    after = run_model(tiny_model, off)
    ratio = before.produced.probability.prod() / after.produced.probability.prod()
    assert cost(before, after) == pytest.approx(np.log2(ratio), abs=1e-4)
    other = tv.trace(tiny_model, SOURCE, target=[2, 9, 10, 22], check=False)
    refuses("different words", cost, before, other)
    core = tv.trace(make_model(decoder_layers=0, target_vocab=0), SOURCE, check=False)
    refuses("no output layer", held_bits, core, error=LookupError)
    # certainty is the geometric mean
    assert certainty(np.array([0.5, 0.125])) == pytest.approx(0.25, abs=1e-12)
    assert certainty(np.array([1.0, 1.0, 1.0])) == 1
    assert certainty(np.array([])) == 0
    assert 0 <= certainty(np.array([0.9, 0.0])) < 1e-20  # rounded to 0 in float32


def test_no_weight_lies_ahead_under_the_mask_and_some_does_without(tiny_model):
    clean, lifted = (
        run_model(tiny_model),
        run_model(tiny_model, Causal(on=False, stack="decoder")),
    )
    ahead = [weight_on(t.attention("decoder", 0), later(4)) for t in (clean, lifted)]
    assert not ahead[0].any()
    weights = lifted.attention("decoder", 0)
    hand = [sum(w[i, j] for i in range(4) for j in range(i + 1, 4)) / 4 for w in weights]
    assert ahead[1] == pytest.approx(hand)


def test_parameters_are_those_of_a_block_that_is_really_built():
    scores = ("scaled_dot", "dot", "general", "additive", "location")
    for score, bias in product(scores, (True, False)):
        config: dict[str, Any] = {"d_model": 48, "score": score, "attention_bias": bias}
        config["max_positions"] = 43
        found = attention_sizes(config, (1, 2, 4, 5, 8, 16))
        assert [size.heads for size in found] == [1, 2, 4, 8, 16]  # 5 does not divide 48
        for size in found:
            words: dict[str, Any] = {"heads": size.heads, "d_k": size.d_k, "d_v": size.d_k}
            words |= {"d_ff": 1, "encoder_layers": 1, "source_vocab": 3}
            block = Attention(ModelConfig(**config, **words))
            count = sum(p.numel() for p in block.parameters())
            assert count == size.parameters, (score, bias, size.heads)
        counts = {size.parameters for size in found}
        assert len(counts) == (5 if score == "general" else 1), (score, bias)
    refuses("how wide", attention_sizes, {"heads": 4}, error=LookupError)


def test_every_head_is_named_and_finds_its_place(tiny_model):
    places = every_head(run_model(tiny_model))
    assert len(places) == (TINY.encoder_layers + 2 * TINY.decoder_layers) * TINY.heads
    assert places[0] == ("encoder", 0, 0) and places[-1] == ("cross", 1, 1)
    bits = arranged(places, list(range(len(places))))
    assert bits["encoder"].tolist() == [[0, 1], [2, 3], [4, 5]]
    uneven = arranged([("cross", 0, 0), ("cross", 1, 0), ("cross", 1, 1)], [1.0, 2.0, 3.0])
    assert np.isnan(uneven["cross"][0, 1])
    found = MultiHeadResult(uneven, (), None)
    assert found.dearest == ("cross", 1, 1, 3.0)
    assert found.noticed == 3 and answer(found) == 0
    assert answer(MultiHeadResult({"cross": np.zeros((2, 2))}, (), None)) == 2
    assert answer(MultiHeadResult({"cross": np.array([[5.0, 0.2]])}, (), None)) == 1
    for cost_in_bits, number, times in (
        (3.0, ": 3.00 bits.", "8.0 times"),
        (60.0, ": 60.00 bits.", "1,152,921,504,606,846,976.0 times"),
        (2048.0, ": 2,048.00 bits.", ""),
        (0.0, ": 0.00 bits.", ""),
        (-0.32, ": −0.32 bits.", ""),
    ):
        told: list[str] = []
        bench: Any = SimpleNamespace(tell=lambda *sentences, to=told: to.extend(sentences))
        reveal(
            bench,
            MultiHeadResult({"cross": np.array([[cost_in_bits, cost_in_bits - 1]])}, (), None),
        )
        assert number in told[0], cost_in_bits
        text = " ".join(told)
        assert ("less probable" in text) == bool(times) and times in text, cost_in_bits
