"""Tiles of attention in every way it is written, under every edit of scores and weights."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from tests.capture.styles import PADDED, example, filled_exponentials, made, ramp
from tests.capture.test_laws import SOURCE, TARGET
from tests.capture.test_memory import EDITS, MASKS, TOKENS, Fused, small_blocks, words
from tests.capture.test_torch_nn import HeadByHead, vectors
from tests.capture.test_written_out import CASES
from tests.conftest import make_module
from transformer_viz.capture import probe
from transformer_viz.capture.tiles.written_out import NO_PRODUCT, NO_SOFTMAX
from transformer_viz.core.interventions import Causal, Intervention, ScaleHead, Temperature
from transformer_viz.model.config import CHOICES

from .law import ALONE, CLOSE, TILED, apart, named, watched

__all__ = ["small_blocks"]  # a fixture for every test
PRODUCTS = ("scaled_dot", "dot", "general")


def test_tiles_are_pieces_of_the_matrix_however_it_is_written():
    for style, (case, (edits, _)) in itertools.product(PADDED, CASES.items()):
        module, (x, padding) = made(style), example(style)
        with torch.inference_mode(), probe(module, Intervention(edits), TILED) as seen:
            module(x, padding)
        (record,) = seen.attentions
        if style is filled_exponentials:
            assert record.untiled == NO_SOFTMAX and not record.tiles
        else:
            assert not record.untiled, (style, case)
            assert apart(seen) <= CLOSE, (style, case)


@pytest.mark.slow
def test_tiles_of_long_fused_attention_never_saw_a_matrix():
    module = Fused(fused=True)
    for (mask, (given, own)), (name, edits) in itertools.product(MASKS.items(), EDITS.items()):
        edits = (*edits, own) if name == "masks" else edits
        alone = watched(module, *edits, want=ALONE, x=words(), **given)
        whole = watched(module, *edits, x=words(), **given)
        assert all(record.weights is None for record in alone.attentions), (mask, name)
        assert apart(whole) <= CLOSE, (mask, name)
        assert apart(alone, whole) <= CLOSE, (mask, name)


def test_biases_follow_distances_or_not(monkeypatch):
    seen = watched(Fused(fused=True), want=ALONE, x=words(), mask=MASKS["bias"][0]["mask"])
    for tiles in named(seen).values():
        (part,) = tiles.parts
        assert part.bias.kind == "distance" and part.bias.table.shape[1] == 2 * TOKENS - 1
    # Biases that follow no distance.
    module = Fused(fused=True)
    for shape in ("cells", "keys", "rows hidden"):
        draw = torch.Generator().manual_seed(1)
        bias = torch.randn(1, 1, TOKENS, TOKENS, generator=draw)
        if shape == "keys":
            bias = bias[:, :, :1]
        if shape == "rows hidden":
            bias[:, :, 5:9] = float("-inf")
        seen = watched(module, want=ALONE, x=words(), mask=bias)
        assert apart(seen, watched(module, x=words(), mask=bias)) <= CLOSE, shape
    # A large bias that follows nothing has no tiles.
    monkeypatch.setattr("transformer_viz.capture.tiles.bias.MOST_BYTES", 4 * TOKENS)
    monkeypatch.setattr("transformer_viz.capture.tiles.factors.MOST_BYTES", 4 * TOKENS)
    bias = torch.randn(1, 1, TOKENS, TOKENS, generator=torch.Generator().manual_seed(1))
    seen = watched(Fused(fused=True), want=ALONE, x=words(), mask=bias)
    for record in seen.attentions:
        assert record.weights is None and not record.tiles
        assert record.untiled == (
            "its scores add a table that follows neither distances nor keys, and is as large as "
            "the map"
        )


@pytest.mark.slow
def test_tiles_of_the_reference_transformer():
    edits = (Temperature(value=2.0, head=0), Causal(on=False, stack="decoder", layer=1))
    for case in itertools.product(CHOICES["score"], CHOICES["positions"], ((), edits)):
        score, positions, chosen = case
        module = make_module(score=score, positions=positions, d_k=10, encoder_layers=1)
        with torch.inference_mode(), probe(module, Intervention(chosen), TILED) as seen:
            module(SOURCE, TARGET)
        if score in PRODUCTS:
            assert apart(seen) <= CLOSE, case
        else:
            assert {record.untiled for record in seen.attentions} == {NO_PRODUCT}, case
            assert all(record.weights is not None for record in seen.attentions), case


def test_tiles_of_torch_nn_and_of_heads_that_are_modules():
    mask, x = nn.Transformer.generate_square_subsequent_mask(7), vectors(1, 7, 22)
    for norm_first in (True, False):
        layer = nn.TransformerEncoderLayer(22, 2, 31, batch_first=True, norm_first=norm_first)
        module = ramp(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval())
        assert apart(watched(module, x=vectors(1, 7, 22), mask=mask)) <= CLOSE, norm_first
    lone = ramp(nn.MultiheadAttention(22, 2, batch_first=True, add_bias_kv=True).eval())
    for need_weights in (True, False):
        seen = watched(lone, query=x, key=x, value=x, need_weights=need_weights)
        assert apart(seen) <= CLOSE, need_weights
    # Heads that are modules have tiles of their own.
    module = ramp(HeadByHead())
    edit = ScaleHead(value=0.5, head=1)
    with torch.inference_mode(), probe(module, Intervention((edit,)), TILED) as seen:
        module(vectors(1, 5, 22))
    assert all(len(tiles.parts) == tiles.heads == 2 for tiles in named(seen).values())
    assert apart(seen) <= CLOSE
