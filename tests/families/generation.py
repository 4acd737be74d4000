"""Cached decoding: what `generate` reports, absolute positions, edits, and our own decoding."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.versions import at_most
from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Edit,
    Intervention,
    ScalePositions,
    Temperature,
    Window,
)
from transformer_viz.inference import generation
from transformer_viz.inference.decoding.key_value_cache import reads_on
from transformer_viz.inference.generation import translate
from transformer_viz.inference.inspection import sample_source
from transformer_viz.inference.token_ids import source_ids

from . import table
from .catalogue import ENCODER, HEADS, LAYERS, SOURCE, Family, built, inputs, real
from .laws import far

STEPS = 4
ALONE = ("gpt2", "llama", "mistral", "gemma2", "bloom", "qwen3", "gpt_neox", "opt", "gpt_oss")
DECODING = (*ALONE, "t5", "bart", "marian")
SLIDING = ("mistral", "gemma2", "gpt_oss")
EDITS: tuple[Edit, ...] = (
    Window(radius=1),
    BlockKeys(keys=(6, 7)),
    BlockEdges(edges=((8, 7), (7, 5))),
    Temperature(value=2),
    ScalePositions(value=0.5),
)


def generated(
    family: Family, implementation: str, *edits: Edit, **words: Any
) -> tuple[Capture, Any]:
    """Some steps of greedy decoding under the probe.

    The input is padded on the left where the model goes on at its right end.
    """
    model = built(family, implementation)
    given = {n: x for n, x in inputs(family).items() if not n.startswith("decoder")}
    if family.name in ALONE:
        given = {n: x.flip(1) for n, x in given.items()}
    fixed = {"do_sample": False, "max_new_tokens": STEPS, "min_new_tokens": STEPS, "num_beams": 1}
    report = {"return_dict_in_generate": True, "output_logits": True}
    want = CaptureRequest(stack="decoder")
    with torch.no_grad(), probe(model, Intervention(edits), want) as seen:
        out = model.generate(**given, **(fixed | report | words))
    return seen, out


@cache
def unedited(family: Family, implementation: str) -> tuple[Capture, Any]:
    return generated(family, implementation)


def reports(out: Any) -> list[Tensor]:
    """The attentions that `generate` reports, in the order of the calls."""
    if hasattr(out, "attentions") and out.attentions is not None:
        return [layer for step in out.attentions for layer in step]
    steps = zip(out.decoder_attentions, out.cross_attentions, strict=True)
    pairs = [pair for step in steps for pair in zip(*step, strict=True)]
    return [*out.encoder_attentions, *(weights for pair in pairs for weights in pair)]


def steps_are_recorded_as_reported(family: Family, implementation: str) -> None:
    """One record a step and layer, at its absolute positions."""
    if family.name not in DECODING:
        return
    seen, out = unedited(family, implementation)
    _, expected = generated(family, "eager", output_attentions=True)
    assert torch.equal(out.sequences, expected.sequences)
    theirs = reports(expected)
    assert len(seen.attentions) == len(theirs)
    for record, weights in zip(seen.attentions, theirs, strict=True):
        assert record.weights.shape == weights.shape
        left = family.name in ALONE and record.shape[0] == SOURCE
        ours, own = (x.flip(2) if left else x for x in (record.weights, weights))
        assert far(real(ours, 2), real(own, 2)) <= 1e-5
    own = [a for a in seen.attentions if a.stack == "decoder" and a.kind == "self"]
    start = SOURCE if family.name in ALONE else 1
    places = [0, *range(start, start + STEPS - 1)]
    assert [a.offset for a in own] == [place for place in places for _ in range(LAYERS)]
    assert [a.layer for a in own] == list(range(LAYERS)) * STEPS
    assert {a.heads for a in seen.attentions} == {HEADS}
    ends = {a.first_key + a.shape[1] - a.offset - a.shape[0] for a in own}
    assert ends == {0}
    assert family.name in SLIDING or {a.first_key for a in own} == {0}


def an_edit_with_a_cache_is_the_same_edit_without(family: Family, implementation: str) -> None:
    if family.name not in ALONE[:5]:
        return
    _, clean = unedited(family, implementation)
    for edit in EDITS:
        _, cached = generated(family, implementation, edit)
        _, plain = generated(family, implementation, edit, use_cache=False)
        for ours, whole in zip(cached.logits, plain.logits, strict=True):
            assert far(ours, whole) <= 1e-5, edit
        assert far(cached.logits[-1], clean.logits[-1]) > 1e-4, edit


def our_decoding_reads_the_cache(family: Family, implementation: str) -> None:
    """A translation with the model's own cache has the ids and numbers of one without."""
    if implementation != "eager" or family.maps == ENCODER or family.name in ("clip", "whisper"):
        return  # the others write words from words
    model = table.opened(family)
    assert isinstance(model, Model) and (model.gives, model.takes) == ("words", "text")
    source = sample_source(model)
    if not reads_on(model, source_ids(model, source)):
        assert family.name == "jamba" and at_most("transformers", "5.20")
        return
    for edits in (None, Intervention((Temperature(value=2), Window(radius=2)))):
        with_cache = translate(model, source, 3, None, edits, max_tokens=8)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generation, "reads_on", lambda *_: False)
            without = translate(model, source, 3, None, edits, max_tokens=8)
        assert [one.ids for one in with_cache] == [one.ids for one in without], edits
        for one, other in zip(with_cache, without, strict=True):
            assert one.steps == pytest.approx(other.steps, abs=2e-5), edits


LAWS = (
    steps_are_recorded_as_reported,
    an_edit_with_a_cache_is_the_same_edit_without,
    our_decoding_reads_the_cache,
)
