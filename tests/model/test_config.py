"""Each word of ModelConfig changes the model, and impossible values are refused by name."""

from __future__ import annotations

import dataclasses
from itertools import product

import pytest
import torch

from tests.support.refusals import refuses
from transformer_viz.model import ModelConfig
from transformer_viz.model.config import CHOICES
from transformer_viz.model.transformer import ACTIVATIONS

SOURCE = torch.tensor([[5, 9, 31, 7, 3], [8, 36, 3, 0, 0]])
TARGET = torch.tensor([[2, 6, 40, 11], [2, 12, 6, 33]])

#: Each word with values other than the tiny model's own; all change logits or their shape.
OTHER: dict[str, tuple] = {
    "d_model": (26,), "heads": (1, 7), "d_k": (17,), "d_v": (19,), "d_ff": (31,),
    "encoder_layers": (1, 7), "decoder_layers": (1, 5), "target_vocab": (53,),
    "norm": ("post", "query_only"), "norm_kind": ("annotated", "rms"), "norm_eps": (0.5,),
    "embedding_norm": (True,), "final_norm": (False,), "gated": (True,),
    "activation": tuple(name for name in CHOICES["activation"] if name != "relu"),
    "positions": ("sinusoidal_halves", "learned", "none"),
    "score": ("dot", "general", "additive", "location"),
    "attention_bias": (False,), "output_bias": (True,), "embedding_scale": (3.0,),
    "logit_scale": (0.5,), "tied": ("output",), "mask_fill": (-1.0,), "pad_id": (9,),
}  # fmt: skip
#: Words that a run in evaluation mode does not read, or that need company; tested below.
ELSEWHERE = {"source_vocab", "max_positions", "dropout", "bos_id", "eos_id"}


@pytest.mark.slow
def test_every_word_changes_the_run_and_choices_go_together(build_module):
    words = {field.name for field in dataclasses.fields(ModelConfig)}
    assert words == set(OTHER) | ELSEWHERE
    before = build_module()(SOURCE, TARGET)
    for word, value in ((word, value) for word, values in OTHER.items() for value in values):
        after = build_module(**{word: value})(SOURCE, TARGET)
        vocabulary = value if word == "target_vocab" else 41
        assert after.shape == (2, 4, vocabulary), (word, value)
        assert after.isfinite().all(), (word, value)
        moved = after.shape != before.shape or not torch.allclose(before, after, atol=1e-4)
        assert moved, (word, value)
    for choice in product(CHOICES["norm"], CHOICES["score"], CHOICES["positions"]):
        words = dict(zip(("norm", "score", "positions"), choice, strict=True))
        logits = build_module(**words, d_k=14)(SOURCE, TARGET)
        assert logits.shape == (2, 4, 41) and logits.isfinite().all(), choice
    assert build_module(source_vocab=47)(torch.tensor([[46]]), TARGET[:1]).shape == (1, 4, 41)
    with pytest.raises(IndexError):
        build_module()(torch.tensor([[46]]), TARGET[:1])
    plain, dropping = build_module(), build_module(dropout=0.5)
    assert torch.equal(plain(SOURCE, TARGET), dropping(SOURCE, TARGET))
    torch.manual_seed(1)
    assert not torch.allclose(plain(SOURCE, TARGET), dropping.train()(SOURCE, TARGET), atol=1e-3)


def test_too_many_tokens_are_refused(build_module):
    for words in ({}, {"positions": "none", "score": "location"}):
        module = build_module(max_positions=5, **words)
        assert module(SOURCE, TARGET).shape == (2, 4, 41)
        long, mask = torch.full((1, 6), 4), module.padding_mask(SOURCE)
        refuses(r"The input has 6 tokens; this model has 5 position", module, long, TARGET)
        refuses("has 6 tokens", module, SOURCE[:1], long)
        refuses("has 6 tokens", module.decode, long, module.encode(SOURCE, mask)[:1], mask[:1])


def test_three_arrangements_and_tied_words(build_module):
    both = build_module()
    encoder = build_module(decoder_layers=0, target_vocab=0)
    decoder = build_module(encoder_layers=0, source_vocab=0)
    kinds = [module.config.kind for module in (both, encoder, decoder)]
    assert kinds == ["encoder-decoder", "encoder-only", "decoder-only"]
    assert encoder(SOURCE).shape == (2, 5, 22)
    assert build_module(decoder_layers=0)(SOURCE).shape == decoder(SOURCE).shape == (2, 5, 41)
    refuses(r"needs a target; give target ids beside source\.", both, SOURCE)
    module = build_module(source_vocab=0)  # without a vocabulary an encoder takes vectors
    vectors = torch.linspace(-1, 1, 2 * 5 * 22).reshape(2, 5, 22)
    assert module(vectors, TARGET).shape == (2, 4, 41)
    assert module.encoder.embedding.tokens is None
    for tied, shared in (("none", 3), ("embeddings", 2), ("output", 2), ("all", 1)):
        module = build_module(tied=tied, source_vocab=41)
        parts = module.encoder.embedding.tokens, module.decoder.embedding.tokens, module.output
        source, target, output = (part.weight.data_ptr() for part in parts)
        assert len({source, target, output}) == shared, tied
        assert (source == target) == (tied in ("embeddings", "all")), tied
        assert (target == output) == (tied in ("output", "all")), tied
    encoder = build_module(decoder_layers=0, target_vocab=37, tied="output")
    assert encoder.output.weight is encoder.encoder.embedding.tokens.weight
    gpt = build_module(encoder_layers=0, source_vocab=0, tied="output")
    assert gpt.output.weight is gpt.decoder.embedding.tokens.weight


def test_impossible_values_are_refused_by_name(tiny_config):
    cases = [
        *(
            ({word: "x"}, f"{word}='x' is not supported; choose one of {', '.join(names)}.")
            for word, names in CHOICES.items()
        ),
        ({"d_model": 23, "d_k": 0}, "d_model=23 cannot be split into heads=2 equal parts; change"),
        ({"d_model": 23, "d_v": 0}, "change one of them, or give d_v."),
        ({"heads": 0}, "heads=0 is too small; give 1 or more."),
        ({"d_ff": 0}, "d_ff=0 is too small; give 1 or more."),
        ({"encoder_layers": -1}, "encoder_layers=-1 is too small; give 0 or more."),
        ({"encoder_layers": 0, "decoder_layers": 0}, "A model needs encoder_layers or decoder_la"),
        ({"target_vocab": 0}, "A decoder needs target_vocab; it is 0. Give the vocabulary size."),
        ({"positions": "rotary"}, "Rotary positions turn pairs of dimensions; d_k=11 is odd."),
        ({"tied": "all"}, "source_vocab=37 and target_vocab=41; make them equal, or say 'none'."),
        ({"tied": "all", "encoder_layers": 0}, "and this model is decoder-only; say 'output'"),
        ({"tied": "output", "decoder_layers": 0}, "source_vocab=37 and target_vocab=41; make"),
    ]
    for words, message in cases:
        with pytest.raises(ValueError) as refused:
            dataclasses.replace(tiny_config, **words)
        assert message in str(refused.value), words


def test_words_come_back_from_their_dictionary(tiny_config):
    for fill, stored in ((float("-inf"), "-inf"), (-1e9, -1e9)):
        config = dataclasses.replace(tiny_config, mask_fill=fill)
        assert ModelConfig.from_dict(config.to_dict()) == config
        assert config.to_dict()["mask_fill"] == stored
    with pytest.raises(ValueError, match="Unknown configuration word 'dmodel'; known are act"):
        ModelConfig.from_dict(tiny_config.to_dict() | {"dmodel": 5})
    with pytest.raises(ValueError, match="The configuration lacks 'd_ff'; it has"):
        ModelConfig.from_dict({"d_model": 4, "heads": 1})
    config = ModelConfig(d_model=22, heads=2, d_ff=5, decoder_layers=1, target_vocab=7)
    assert (config.d_k, config.d_v) == (11, 11)


def test_activations_equal_their_formulas():
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    tanh = torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
    formulas = {
        "relu": x.clamp(min=0),
        "gelu": x * 0.5 * (1 + torch.erf(x / 2**0.5)),
        "gelu_tanh": 0.5 * x * (1 + tanh),
        "silu": x / (1 + torch.exp(-x)),
        "sigmoid": 1 / (1 + torch.exp(-x)),
        "tanh": (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
        "identity": x,
    }
    assert set(ACTIVATIONS) == set(CHOICES["activation"]) == set(formulas)
    for name, expected in formulas.items():
        torch.testing.assert_close(ACTIVATIONS[name](x), expected, atol=1e-12, rtol=0)
