"""What null mass, copying and OV circuits read of a model's own weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.inference.head_metrics.own_weights import OwnWeights

EXACT = 1e-5
IDS = [[5, 9, 7, 11, 5, 8, 9, 4], [6, 4, 12, 6, 9, 10]]
THREE = ["null", "copying", "ov_copying"]
GPT = {"encoder_layers": 0, "source_vocab": 0}


def test_heads_add_up_to_what_the_block_writes(build_model):
    """Weights times ``values`` over all heads, and both biases: the output of the projection."""
    model = build_model(**GPT)
    block = model.module.get_submodule("decoder.layers.1.self_attention")
    output, heard = block.get_submodule("output"), []
    handle = output.register_forward_hook(lambda _, given, out: heard.append(out[0].detach()))
    trace = tv.trace(model, IDS[0], keep=("weights", "qkv"), check=False)
    handle.remove()
    attention = trace.block("decoder", 1)
    values = OwnWeights(model).beside(attention, True)["values"]
    bias = output(block.get_submodule("value").bias).detach().numpy()  # rows of weights sum to 1
    found = (attention.weights @ values).sum(0) + bias
    assert found == pytest.approx(heard[0].numpy(), abs=EXACT)


def test_direct_logits_are_what_the_last_norm_lets_through(build_model):
    """The last norm's own derivative in the direction that a head writes, its scale held.

    In a stream x the norm changes by ``(z - share x) gain / scale``, where ``share`` of x lies in
    what was written: that part turns the scale, and is put back here.
    """
    model = build_model(**GPT, decoder_layers=1)
    trace = tv.trace(model, IDS[0], keep=("weights", "qkv"), check=False)
    (attention,) = trace.blocks("decoder")
    found = OwnWeights(model).beside(attention, True)
    norm = model.module.get_submodule("decoder.norm")
    gain = norm.weight.detach().numpy()
    unembed = model.module.get_submodule("output").weight.detach().numpy()
    x = torch.randn(len(IDS[0]), 22, generator=torch.Generator().manual_seed(0))
    middle = (x - x.mean(-1, keepdim=True)).numpy()
    scale = np.sqrt(middle.var(-1, keepdims=True) + norm.eps)
    for direct, z in zip(found["direct"], attention.weights @ found["values"], strict=True):
        step = torch.from_numpy(z).float() * 1e-3
        with torch.no_grad():
            change = (norm(x + step) - norm(x - step)).numpy() / 2e-3 * scale
        share = (z * middle).sum(-1, keepdims=True) / (middle**2).sum(-1, keepdims=True)
        assert (change + share * middle * gain) @ unembed.T == pytest.approx(direct, abs=5e-3)


def test_a_bias_that_moves_changes_nothing(build_model):
    """W5b: value biases moved into the output bias are the same function and the same numbers."""
    before, after = build_model(**GPT), build_model(**GPT)
    with torch.no_grad():
        for layer in after.module.get_submodule("decoder.layers"):
            attention = layer.get_submodule("self_attention")
            value, output = attention.get_submodule("value"), attention.get_submodule("output")
            output.bias += output.weight @ value.bias
            value.bias.zero_()
    one, other = tv.metrics(before, IDS), tv.metrics(after, IDS)
    assert one["null"].notna().any() and one["copying"].notna().any()
    for name in THREE:
        assert np.allclose(one[name], other[name], atol=EXACT, equal_nan=True)


def test_where_there_is_an_output(build_model):
    """Copying is asked where keys and output have one vocabulary; OV circuits once, of no row."""
    two = tv.metrics(build_model(), [(ids, [1, *ids]) for ids in IDS])
    assert two.query("stack == 'encoder' or block == 'cross'")["copying"].isna().all()
    assert two.query("stack == 'decoder' and block == 'self'")["ov_copying"].notna().all()
    assert set(two["ov_copying_rows"]) == {0, 1} and two["ov_copying_low"].isna().all()
    post = tv.metrics(build_model(**GPT, norm="post"), IDS)
    assert post[["copying", "ov_copying"]].isna().all(axis=None)
    trace = tv.trace(build_model(**GPT), IDS[0], check=False)
    assert tv.metrics(trace)[THREE].isna().all(axis=None)
