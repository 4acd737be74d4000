"""The five ways to compare query and key, each against its formula written out in numpy."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch.nn import functional as F

from transformer_viz.model.config import CHOICES
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


def test_scaled_dot_equals_fused_attention(tiny_config):
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


def test_a_finite_fill_lets_a_fully_masked_row_look_everywhere(tiny_config):
    x, memory, mask = inputs(tiny_config.d_model)
    mask[:, :, 2] = False
    even = attention(tiny_config, mask_fill=-1e9)(x, memory, mask)
    assert even.isfinite().all()
    module = attention(tiny_config, mask_fill=-1e9)
    mean = module.output(module.value(memory).mean(1))
    torch.testing.assert_close(even[:, 2], mean, atol=1e-12, rtol=0)
    assert attention(tiny_config)(x, memory, mask)[:, 2].isnan().all()


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
