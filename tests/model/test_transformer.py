"""The whole model: equal to PyTorch's own, blind to padding, never looking ahead."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn

from tests.conftest import TINY
from transformer_viz.model import Transformer
from transformer_viz.model.config import CHOICES

SOURCE = torch.tensor([[5, 9, 31, 7, 3], [8, 36, 3, 0, 0]])
TARGET = torch.tensor([[2, 6, 40, 11], [2, 12, 6, 33]])
#: PyTorch's heads split d_model evenly.
EVEN = replace(TINY, d_v=11, norm_eps=1e-5)


def carry_attention(ours, theirs: nn.MultiheadAttention):
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def carry_stack(ours, theirs, cross: bool):
    for own, layer in zip(ours.layers, theirs.layers, strict=True):
        carry_attention(own.self_attention, layer.self_attn)
        pairs = [(own.self_norm, layer.norm1)]
        if cross:
            carry_attention(own.cross_attention, layer.multihead_attn)
            pairs += [(own.cross_norm, layer.norm2), (own.feed_forward_norm, layer.norm3)]
        else:
            pairs.append((own.feed_forward_norm, layer.norm2))
        pairs += [(own.feed_forward.inner, layer.linear1), (own.feed_forward.outer, layer.linear2)]
        for first, second in [*pairs, (ours.norm, theirs.norm)]:
            second.load_state_dict(first.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
def test_it_equals_the_transformer_of_torch(build_module):
    for norm, activation in product(("pre", "post"), ("relu", "gelu")):
        ours = build_module(EVEN, norm=norm, activation=activation).double()
        words = {"dropout": 0.0, "norm_first": norm == "pre", "batch_first": True}
        theirs = nn.Transformer(22, 2, 3, 2, 29, activation=activation, **words).double()
        carry_stack(ours.encoder, theirs.encoder, cross=False)
        carry_stack(ours.decoder, theirs.decoder, cross=True)
        padding = SOURCE == 0
        states = theirs(
            ours.encoder.embedding(SOURCE),
            ours.decoder.embedding(TARGET),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(4).double(),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        torch.testing.assert_close(ours(SOURCE, TARGET), ours.output(states), atol=1e-10, rtol=0)


def test_padding_changes_no_real_token(build_module):
    scores = ("scaled_dot", "additive", "location")
    for norm, score in product(("pre", "post", "query_only"), scores):
        module, target = build_module(norm=norm, score=score), TARGET[1:]
        short, longer = module(SOURCE[1:, :3], target), module(SOURCE[1:], target)
        torch.testing.assert_close(short, longer, atol=1e-5, rtol=0)
        padded = torch.cat((target, torch.zeros(1, 3, dtype=torch.long)), dim=1)
        behind = module(SOURCE[1:], padded)[:, :4]
        torch.testing.assert_close(longer, behind, atol=1e-5, rtol=0)


def test_batches_masks_and_padding(build_module):
    module = build_module()
    together = module(SOURCE, TARGET)
    for i in range(2):
        alone = module(SOURCE[i : i + 1], TARGET[i : i + 1])
        torch.testing.assert_close(together[i : i + 1], alone, atol=1e-5, rtol=0)
    module = build_module()
    seen = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    everything = module(SOURCE, TARGET, seen)
    own = module(SOURCE, TARGET)
    torch.testing.assert_close(everything[0], own[0])
    assert not torch.allclose(everything[1], own[1], atol=1e-3)
    gpt = build_module(encoder_layers=0, source_vocab=0)
    hidden = torch.tensor([True, False, True, True, True])[None, None, None]
    changed = TARGET[:1].clone()
    changed[0, 1] = 20
    rows = [0, 2, 3]
    first, second = (gpt(ids, None, hidden[..., :4])[:, rows] for ids in (TARGET[:1], changed))
    torch.testing.assert_close(first, second)
    gpt = build_module(encoder_layers=0, source_vocab=0, pad_id=-1)
    other = build_module(encoder_layers=0, source_vocab=0, pad_id=0)
    ids = torch.tensor([[0, 5, 0, 9]])
    assert gpt(ids).isfinite().all()
    assert other(ids)[:, 0].isnan().all()  # its first row sees padding alone


def test_later_tokens_cannot_change_earlier_rows(build_module):
    for alone, score in product((False, True), CHOICES["score"]):
        words = {"encoder_layers": 0, "source_vocab": 0} if alone else {}
        module, given = build_module(score=score, **words), [] if alone else [SOURCE]
        for changed in range(1, 4):
            other = TARGET.clone()
            other[:, changed:] = torch.tensor([19, 23, 29])[: 4 - changed]
            first, second = module(*given, TARGET), module(*given, other)
            earlier = first[:, :changed], second[:, :changed]
            torch.testing.assert_close(*earlier, atol=1e-6, rtol=0)
            moved = not torch.allclose(first[:, changed:], second[:, changed:], atol=1e-3)
            assert moved, (alone, score, changed)


def test_norm_placements_gates_and_scales_by_hand(build_module):
    """One layer by hand, from the formula of each placement."""
    for norm in ("pre", "post", "query_only"):
        module = build_module(norm=norm, decoder_layers=0, encoder_layers=1, final_norm=False)
        layer, mask = module.encoder.layers[0], module.padding_mask(SOURCE)
        x = module.encoder.embedding(SOURCE)
        n1, n2 = layer.self_norm, layer.feed_forward_norm
        attend, think = layer.self_attention, layer.feed_forward
        if norm == "pre":
            x = x + attend(n1(x), n1(x), mask)
            x = x + think(n2(x))
        elif norm == "post":
            x = n1(x + attend(x, x, mask))
            x = n2(x + think(x))
        else:
            x = x + attend(n1(x), x, mask)
            x = x + think(n2(x))
        torch.testing.assert_close(module.encode(SOURCE, mask), x)
    module = build_module(gated=True, activation="silu", embedding_scale=3.0, logit_scale=0.5)
    x = torch.randn(2, 5, 22)
    think = module.encoder.layers[0].feed_forward
    inner = think.inner(x)
    expected = think.outer(inner * torch.sigmoid(inner) * think.gate(x))
    torch.testing.assert_close(think(x), expected)
    embedding = module.encoder.embedding
    torch.testing.assert_close(
        embedding(SOURCE), embedding.tokens(SOURCE) * 3.0 + embedding.positions.table[:5]
    )
    torch.testing.assert_close(module.logits(x), module.output(x) / 2)


def test_fresh_weights_keep_embeddings_at_unit_length():
    torch.manual_seed(7)
    module = Transformer(replace(EVEN, d_model=256, heads=8, d_k=0, d_v=0, embedding_scale=16.0))
    lengths = module.decoder.embedding.tokens.weight.detach().norm(dim=-1)
    assert float(lengths.mean()) == pytest.approx(1.0, abs=0.05)
