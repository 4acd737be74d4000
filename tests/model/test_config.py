"""Every word of ModelConfig does something, and what cannot be is refused by name."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from transformer_viz.model import ModelConfig
from transformer_viz.model.config import CHOICES
from transformer_viz.model.transformer import ACTIVATIONS

SOURCE = torch.tensor([[5, 9, 31, 7, 3], [8, 36, 3, 0, 0]])
TARGET = torch.tensor([[2, 6, 40, 11], [2, 12, 6, 33]])

#: Each word with values other than the tiny model's own; all change logits or their shape.
OTHER: dict[str, tuple] = {
    "d_model": (26,),
    "heads": (1, 7),
    "d_k": (17,),
    "d_v": (19,),
    "d_ff": (31,),
    "encoder_layers": (1, 7),
    "decoder_layers": (1, 5),
    "target_vocab": (53,),
    "norm": ("post", "query_only"),
    "norm_kind": ("annotated", "rms"),
    "norm_eps": (0.5,),
    "embedding_norm": (True,),
    "final_norm": (False,),
    "activation": tuple(name for name in CHOICES["activation"] if name != "relu"),
    "gated": (True,),
    "positions": ("sinusoidal_halves", "learned", "none"),
    "score": ("dot", "general", "additive", "location"),
    "attention_bias": (False,),
    "output_bias": (True,),
    "embedding_scale": (3.0,),
    "logit_scale": (0.5,),
    "tied": ("output",),
    "mask_fill": (-1.0,),
    "pad_id": (9,),
}
#: Words that a run in evaluation mode does not read, or that need company; tested below.
ELSEWHERE = {"source_vocab", "max_positions", "dropout", "bos_id", "eos_id"}


def test_every_word_is_tested():
    words = {field.name for field in dataclasses.fields(ModelConfig)}
    assert words == set(OTHER) | ELSEWHERE


@pytest.mark.parametrize(
    ("word", "value"), [(word, value) for word, values in OTHER.items() for value in values]
)
def test_a_word_changes_the_run(build_module, word, value):
    before = build_module()(SOURCE, TARGET)
    after = build_module(**{word: value})(SOURCE, TARGET)
    vocabulary = value if word == "target_vocab" else 41
    assert after.shape == (2, 4, vocabulary)
    assert after.isfinite().all()
    assert after.shape != before.shape or not torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("norm", CHOICES["norm"])
@pytest.mark.parametrize("score", CHOICES["score"])
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_choices_go_together(build_module, norm, score, positions):
    words = {"norm": norm, "score": score, "positions": positions, "d_k": 14}
    logits = build_module(**words)(SOURCE, TARGET)
    assert logits.shape == (2, 4, 41)
    assert logits.isfinite().all()


def test_the_source_vocabulary_bounds_ids(build_module):
    assert build_module(source_vocab=47)(torch.tensor([[46]]), TARGET[:1]).shape == (1, 4, 41)
    with pytest.raises(IndexError):
        build_module()(torch.tensor([[46]]), TARGET[:1])


def test_dropout_is_for_training_alone(build_module):
    plain, dropping = build_module(), build_module(dropout=0.5)
    assert torch.equal(plain(SOURCE, TARGET), dropping(SOURCE, TARGET))
    torch.manual_seed(1)
    assert not torch.allclose(plain(SOURCE, TARGET), dropping.train()(SOURCE, TARGET), atol=1e-3)


@pytest.mark.parametrize("words", [{}, {"positions": "none", "score": "location"}])
def test_too_many_tokens_are_refused(build_module, words):
    module = build_module(max_positions=5, **words)
    assert module(SOURCE, TARGET).shape == (2, 4, 41)
    long = torch.full((1, 6), 4)
    with pytest.raises(ValueError, match=r"The input has 6 tokens; this model has 5 positions\. S"):
        module(long, TARGET)
    with pytest.raises(ValueError, match="has 6 tokens"):
        module(SOURCE[:1], long)
    mask = module.padding_mask(SOURCE)
    with pytest.raises(ValueError, match="has 6 tokens"):
        module.decode(long, module.encode(SOURCE, mask)[:1], mask[:1])


@pytest.mark.parametrize("kind", ["encoder-decoder", "encoder-only", "decoder-only"])
def test_three_arrangements(build_module, kind):
    words = {
        "encoder-only": {"decoder_layers": 0, "target_vocab": 0},
        "decoder-only": {"encoder_layers": 0, "source_vocab": 0},
    }.get(kind, {})
    module = build_module(**words)
    assert module.config.kind == kind
    if kind == "encoder-only":
        assert module(SOURCE).shape == (2, 5, 22)
        assert build_module(decoder_layers=0)(SOURCE).shape == (2, 5, 41)
    elif kind == "decoder-only":
        assert module(SOURCE).shape == (2, 5, 41)
    else:
        with pytest.raises(ValueError, match=r"needs a target; give target ids beside source\."):
            module(SOURCE)


def test_an_encoder_takes_vectors_where_there_is_no_vocabulary(build_module):
    module = build_module(source_vocab=0)
    vectors = torch.linspace(-1, 1, 2 * 5 * 22).reshape(2, 5, 22)
    assert module(vectors, TARGET).shape == (2, 4, 41)
    assert module.encoder.embedding.tokens is None


@pytest.mark.parametrize(
    ("tied", "shared"),
    [
        ("none", 3),
        ("embeddings", 2),
        ("output", 2),
        ("all", 1),
    ],
)
def test_tied_words_share_storage(build_module, tied, shared):
    module = build_module(tied=tied, source_vocab=41)
    source, target = module.encoder.embedding.tokens.weight, module.decoder.embedding.tokens.weight
    places = {source.data_ptr(), target.data_ptr(), module.output.weight.data_ptr()}
    assert len(places) == shared
    assert (source.data_ptr() == target.data_ptr()) == (tied in ("embeddings", "all"))
    assert (target.data_ptr() == module.output.weight.data_ptr()) == (tied in ("output", "all"))


def test_an_encoder_and_a_gpt_tie_their_output(build_module):
    encoder = build_module(decoder_layers=0, target_vocab=37, tied="output")
    assert encoder.output.weight is encoder.encoder.embedding.tokens.weight
    gpt = build_module(encoder_layers=0, source_vocab=0, tied="output")
    assert gpt.output.weight is gpt.decoder.embedding.tokens.weight


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *[
            ({word: "x"}, f"{word}='x' is not supported; choose one of {', '.join(names)}.")
            for word, names in CHOICES.items()
        ],
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
    ],
)
def test_what_cannot_be_is_refused_by_name(tiny_config, words, message):
    with pytest.raises(ValueError) as refused:
        dataclasses.replace(tiny_config, **words)
    assert message in str(refused.value)


def test_widths_of_a_head_follow_from_d_model():
    config = ModelConfig(d_model=22, heads=2, d_ff=5, decoder_layers=1, target_vocab=7)
    assert (config.d_k, config.d_v) == (11, 11)


@pytest.mark.parametrize("fill", [float("-inf"), -1e9])
def test_words_come_back_from_their_dictionary(tiny_config, fill):
    config = dataclasses.replace(tiny_config, mask_fill=fill)
    assert ModelConfig.from_dict(config.to_dict()) == config
    assert config.to_dict()["mask_fill"] == ("-inf" if fill < -1e9 else -1e9)


def test_unknown_and_missing_words_are_named(tiny_config):
    with pytest.raises(ValueError, match="Unknown configuration word 'dmodel'; known are act"):
        ModelConfig.from_dict(tiny_config.to_dict() | {"dmodel": 5})
    with pytest.raises(ValueError, match="The configuration lacks 'd_ff'; it has"):
        ModelConfig.from_dict({"d_model": 4, "heads": 1})


def test_every_activation_is_known():
    assert set(ACTIVATIONS) == set(CHOICES["activation"])


def test_activations_equal_their_formulas():
    x = torch.linspace(-4, 4, 41, dtype=torch.float64)
    normal = 0.5 * (1 + torch.erf(x / 2**0.5))
    tanh = torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))
    formulas = {
        "relu": x.clamp(min=0),
        "gelu": x * normal,
        "gelu_tanh": 0.5 * x * (1 + tanh),
        "silu": x / (1 + torch.exp(-x)),
        "sigmoid": 1 / (1 + torch.exp(-x)),
        "tanh": (torch.exp(x) - torch.exp(-x)) / (torch.exp(x) + torch.exp(-x)),
        "identity": x,
    }
    for name, expected in formulas.items():
        torch.testing.assert_close(ACTIVATIONS[name](x), expected, atol=1e-12, rtol=0)
