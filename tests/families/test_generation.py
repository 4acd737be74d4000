"""Cached decoding in absolute positions, and models without attention."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Edit,
    Intervention,
    ScalePositions,
    Temperature,
    Window,
)

from . import laws
from .catalogue import (
    BERT,
    HEADS,
    LAYERS,
    SMALL,
    SOURCE,
    VOCABULARY,
    Family,
    built,
    inputs,
    real,
)
from .test_capture import EACH, label

pytestmark = pytest.mark.families
STEPS = 4
ALONE = ["gpt2", "llama", "mistral", "gemma2", "bloom", "qwen3", "gpt_neox", "opt", "gpt_oss"]
DECODING = [(f, i) for f, i in EACH if f.name in (*ALONE, "t5", "bart", "marian")]
SLIDING = ("mistral", "gemma2", "gpt_oss")


def prompt(family: Family) -> dict[str, Tensor]:
    """The input, padded on the left where the model goes on at its right end."""
    given = {n: x for n, x in inputs(family).items() if not n.startswith("decoder")}
    return {n: x.flip(1) for n, x in given.items()} if family.name in ALONE else given


def generated(
    family: Family, implementation: str, *edits: Edit, **words: Any
) -> tuple[Capture, Any]:
    """Some steps of greedy decoding under the probe."""
    model = built(family, implementation)
    fixed = {"do_sample": False, "max_new_tokens": STEPS, "min_new_tokens": STEPS, "num_beams": 1}
    report = {"return_dict_in_generate": True, "output_logits": True}
    with (
        torch.no_grad(),
        probe(model, Intervention(edits), CaptureRequest(stack="decoder")) as seen,
    ):
        out = model.generate(**prompt(family), **(fixed | report | words))
    return seen, out


def reports(out: Any) -> list[Tensor]:
    """The attentions that `generate` reports, in the order of the calls."""
    if hasattr(out, "attentions") and out.attentions is not None:
        return [layer for step in out.attentions for layer in step]
    steps = zip(out.decoder_attentions, out.cross_attentions, strict=True)
    pairs = [pair for step in steps for pair in zip(*step, strict=True)]
    return [*out.encoder_attentions, *(weights for pair in pairs for weights in pair)]


@pytest.mark.parametrize(("family", "implementation"), DECODING, ids=label)
def test_one_record_a_step_and_layer(family: Family, implementation: str) -> None:
    seen, out = generated(family, implementation)
    _, expected = generated(family, "eager", output_attentions=True)
    assert torch.equal(out.sequences, expected.sequences)
    theirs = reports(expected)
    assert len(seen.attentions) == len(theirs)
    for record, weights in zip(seen.attentions, theirs, strict=True):
        assert record.weights.shape == weights.shape
        left = family.name in ALONE and record.shape[0] == SOURCE
        ours, own = (x.flip(2) if left else x for x in (record.weights, weights))
        assert laws.far(real(ours, 2), real(own, 2)) <= 1e-5


@pytest.mark.parametrize(("family", "implementation"), DECODING, ids=label)
def test_steps_know_their_absolute_positions(family: Family, implementation: str) -> None:
    seen, _ = generated(family, implementation)
    own = [a for a in seen.attentions if a.stack == "decoder" and a.kind == "self"]
    start = SOURCE if family.name in ALONE else 1
    expected = [0, *range(start, start + STEPS - 1)]
    assert [a.offset for a in own] == [place for place in expected for _ in range(LAYERS)]
    assert [a.layer for a in own] == list(range(LAYERS)) * STEPS
    assert {a.heads for a in seen.attentions} == {HEADS}
    ends = [a.first_key + a.shape[1] - a.offset - a.shape[0] for a in own]
    assert set(ends) == {0}
    assert family.name in SLIDING or {a.first_key for a in own} == {0}


@pytest.mark.parametrize(
    "edit",
    [
        Window(radius=1),
        BlockKeys(keys=(6, 7)),
        BlockEdges(edges=((8, 7), (7, 5))),
        Temperature(value=2),
        ScalePositions(value=0.5),
    ],
    ids=lambda edit: edit.kind,
)
@pytest.mark.parametrize(
    ("family", "implementation"), [(f, i) for f, i in DECODING if f.name in ALONE[:5]], ids=label
)
def test_an_edit_with_a_cache_is_the_same_edit_without(
    family: Family, implementation: str, edit: Edit
) -> None:
    _, cached = generated(family, implementation, edit)
    _, plain = generated(family, implementation, edit, use_cache=False)
    for ours, whole in zip(cached.logits, plain.logits, strict=True):
        assert laws.far(ours, whole) <= 1e-5
    _, clean = generated(family, implementation)
    assert laws.far(cached.logits[-1], clean.logits[-1]) > 1e-4


def stranger(name: str, **words: Any) -> nn.Module:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **words)
    return getattr(transformers, f"{name}Model")(config).eval()


def test_a_model_without_attention_says_so() -> None:
    model = stranger("Mamba", hidden_size=32, num_hidden_layers=2, state_size=4)
    ids = torch.randint(3, VOCABULARY, (2, 8))
    with torch.no_grad(), probe(model) as seen:
        out = model(ids)
    assert seen.attentions == []
    assert "no attention was seen" in seen.unrecognised[0]
    with torch.no_grad():
        assert torch.equal(out[0], model(ids)[0])
    with (
        pytest.raises(ValueError, match="it has none"),
        probe(model, Intervention((Temperature(value=2),))),
    ):
        model(ids)


def test_a_band_layout_is_never_taken_for_attention() -> None:
    model = stranger("Longformer", attention_window=[4, 4], **BERT, **SMALL)
    ids = torch.randint(3, VOCABULARY, (2, 8))
    with torch.no_grad(), probe(model) as seen:
        model(ids)
    assert seen.attentions == []
    assert any("encoder.layer.1.attention.self" in line for line in seen.unrecognised)
