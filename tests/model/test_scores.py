"""Scores, norms and positions, each against its formula in numpy."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from transformer_viz.model.config import CHOICES
from transformer_viz.model.normalization import make_norm
from transformer_viz.model.positional_encoding import (
    LearnedPositions,
    Rotary,
    SinusoidalPositions,
    make_positions,
    sinusoidal_table,
)
from transformer_viz.model.transformer import Attention

BATCH, QUERIES, KEYS = 2, 5, 7


def attention(config, **words):
    torch.manual_seed(3)
    module = Attention(replace(config, **words)).double().eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module


def inputs(width):
    torch.manual_seed(4)
    x = torch.randn(BATCH, QUERIES, width, dtype=torch.float64)
    memory = torch.randn(BATCH, KEYS, width, dtype=torch.float64)
    mask = torch.rand(BATCH, 1, QUERIES, KEYS) > 0.3
    mask[..., 0] = True
    return x, memory, mask


def score_by_hand(kind, weight, q, k, number, head):
    """One score of a query and key vector (numpy), as the papers write it."""
    if kind == "scaled_dot":
        return sum(q * k) / len(q) ** 0.5
    if kind == "dot":
        return sum(q * k)
    if kind == "general":
        return q @ weight[head] @ k
    if kind == "additive":
        return sum(weight[head, :, 0] * np.tanh(q + k))
    return sum(q * weight[head, :, number])  # location: the key's number, never the key


def test_a_block_equals_its_formula(tiny_config):
    for kind, bias in product(CHOICES["score"], (True, False)):
        config = replace(tiny_config, score=kind, attention_bias=bias)
        module = attention(config)
        x, memory, mask = inputs(config.d_model)
        expected = block_by_hand(module, config, x.numpy(), memory.numpy(), mask)
        assert (module.key is None) == (kind == "location")
        got = module(x, memory, mask).detach()
        np.testing.assert_allclose(got, expected, atol=1e-12, err_msg=f"{kind} {bias}")


def block_by_hand(module, config, x, memory, mask):
    """Return the block's output in numpy, score by score."""
    part = {name: value.detach().numpy() for name, value in module.named_parameters()}

    def projected(name, vectors, width):
        out = vectors @ part[f"{name}.weight"].T + part.get(f"{name}.bias", 0)
        return out.reshape(BATCH, -1, config.heads, width)

    kind, weight = config.score, part.get("score.weight")
    q, v = projected("query", x, config.d_k), projected("value", memory, config.d_v)
    k = projected("key", memory, config.d_k) if kind != "location" else v  # reads no key
    expected = np.zeros((BATCH, QUERIES, config.d_model))
    for b, t in np.ndindex(BATCH, QUERIES):
        heads = []
        for h in range(config.heads):
            pairs = [(weight, q[b, t, h], k[b, j, h], j, h) for j in range(KEYS)]
            scores = np.array([score_by_hand(kind, *pair) for pair in pairs])
            scores[~mask[b, 0, t].numpy()] = -np.inf
            weights = np.exp(scores - scores.max())
            heads.append(weights / weights.sum() @ v[b, :, h])
        expected[b, t] = part["output.weight"] @ np.concatenate(heads) + part.get("output.bias", 0)
    return expected


def test_fused_attention_and_a_finite_fill(tiny_config):
    for heads in (1, 2, 7, 16):
        config = replace(tiny_config, heads=heads)
        module = attention(config)
        x, memory, mask = inputs(config.d_model)
        parts = (module.query(x), module.key(memory), module.value(memory))
        q, k, v = (module.split(part) for part in parts)
        assert q.shape == (BATCH, heads, QUERIES, 11)
        assert v.shape == (BATCH, heads, KEYS, 13)
        fused = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        expected = module.output(fused.transpose(1, 2).flatten(2))
        torch.testing.assert_close(module(x, memory, mask), expected, atol=1e-12, rtol=0)
    x, memory, mask = inputs(tiny_config.d_model)
    mask[:, :, 2] = False
    even = attention(tiny_config, mask_fill=-1e9)(x, memory, mask)
    assert even.isfinite().all()
    module = attention(tiny_config, mask_fill=-1e9)
    mean = module.output(module.value(memory).mean(1))
    torch.testing.assert_close(even[:, 2], mean, atol=1e-12, rtol=0)
    assert attention(tiny_config)(x, memory, mask)[:, 2].isnan().all()


@pytest.mark.slow
def test_each_score_learns(build_module):
    """Copy tokens into a new alphabet: the loss falls, and the score's own weights move."""
    for kind in CHOICES["score"]:
        torch.manual_seed(5)
        module = build_module(score=kind, encoder_layers=1, decoder_layers=1).train()
        module.reset()
        source = torch.randint(4, 37, (13, 7))
        target = torch.cat((torch.full((13, 1), 2), source[:, :-1]), dim=1)
        start = {name: p.detach().clone() for name, p in module.named_parameters()}
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            loss = F.cross_entropy(module(source, target).flatten(0, 1), source.flatten())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < losses[0] / 2, kind
        own = [name for name in start if name.endswith("score.weight")]
        assert len(own) == (0 if kind in ("scaled_dot", "dot") else 3), kind
        now = dict(module.named_parameters())
        assert not [name for name in own if torch.equal(now[name], start[name])], kind


def test_added_positions_are_the_papers_and_do_not_depend_on_words(tiny_config):
    table, halves = sinusoidal_table(43, 22), sinusoidal_table(43, 22, halves=True)
    assert table.shape == (43, 22)
    for position, dimension in ((0, 0), (0, 1), (1, 0), (1, 1), (6, 4), (6, 5), (42, 20), (42, 21)):
        angle = position / 10000 ** (2 * (dimension // 2) / 22)
        expected = math.sin(angle) if dimension % 2 == 0 else math.cos(angle)
        where = position, dimension
        assert float(table[where]) == pytest.approx(expected, abs=1e-6), where
        column = dimension // 2 + (11 if dimension % 2 else 0)
        assert float(halves[position, column]) == pytest.approx(expected, abs=1e-6), where
    odd = sinusoidal_table(5, 7)  # ends with a sine
    assert odd.shape == (5, 7)
    assert float(odd[3, 6]) == pytest.approx(math.sin(3 / 10000 ** (6 / 7)), abs=1e-6)
    for kind in ("sinusoidal", "sinusoidal_halves", "learned"):
        module = make_positions(replace(tiny_config, positions=kind))
        assert isinstance(module, LearnedPositions if kind == "learned" else SinusoidalPositions)
        x = torch.randn(2, 5, 22)
        added = module(x) - x
        torch.testing.assert_close(added[0], added[1], atol=1e-6, rtol=0)
        table = module.table.weight if kind == "learned" else module.table
        torch.testing.assert_close(added[0], table[:5], atol=1e-6, rtol=0)
    for kind in ("rotary", "none"):
        assert make_positions(replace(tiny_config, positions=kind, d_k=14)) is None


def test_rotary_turns_complex_numbers_and_scores_know_only_the_distance(tiny_config):
    rotary = Rotary(replace(tiny_config, positions="rotary", d_k=14))
    x = torch.randn(2, 3, 5, 14)
    numbers = x[..., :7].numpy().astype(np.float64) + 1j * x[..., 7:].numpy()
    for position, pair in np.ndindex(5, 7):
        numbers[:, :, position, pair] *= np.exp(1j * position / 10000 ** (2 * pair / 14))
    expected = np.concatenate((numbers.real, numbers.imag), axis=-1)
    np.testing.assert_allclose(rotary(x), expected, atol=1e-6)
    q, k = torch.randn(14).expand(1, 1, 11, 14), torch.randn(14).expand(1, 1, 11, 14)
    scores = (rotary(q) @ rotary(k).transpose(-2, -1))[0, 0]
    for distance in range(-10, 11):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)
    assert scores[0].std() > 0.01


def test_without_positions_a_sentence_is_a_bag_of_words(build_module):
    for kind in ("none", "sinusoidal", "sinusoidal_halves", "learned", "rotary"):
        module = build_module(positions=kind, d_k=14)
        ids, order = torch.tensor([[5, 9, 31, 7]]), [2, 0, 3, 1]
        mask = module.padding_mask(ids)
        first, second = module.encode(ids, mask), module.encode(ids[:, order], mask)
        same = torch.allclose(first[:, order], second, atol=1e-5)
        assert same == (kind == "none"), kind


def normed(kind, x, gain, bias, eps):
    """Return the norm of x by its formula, in numpy."""
    if kind == "rms":
        return gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    mean = x.mean(-1, keepdims=True)
    if kind == "annotated":
        deviation = np.sqrt(((x - mean) ** 2).sum(-1, keepdims=True) / (x.shape[-1] - 1))
        return gain * (x - mean) / (deviation + eps) + bias
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return gain * (x - mean) / np.sqrt(variance + eps) + bias


def test_a_norm_equals_its_formula(tiny_config):
    for kind in ("layer", "annotated", "rms"):
        for eps in (1e-6, 0.3):
            norm = make_norm(replace(tiny_config, norm_kind=kind, norm_eps=eps)).double()
            torch.manual_seed(6)
            for parameter in norm.parameters():
                torch.nn.init.normal_(parameter)
            x = 3 + torch.randn(2, 5, 22, dtype=torch.float64)
            part = {name: p.detach().numpy() for name, p in norm.named_parameters()}
            expected = normed(kind, x.numpy(), part["weight"], part.get("bias", 0), eps)
            np.testing.assert_allclose(norm(x).detach(), expected, atol=1e-12, err_msg=kind)
            assert ("bias" in part) == (kind != "rms")
