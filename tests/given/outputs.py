"""`from_attentions(outputs, tokens)` of a family against our own capture and against its trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import transformer_viz as tv
from tests.families.catalogue import BOTH, Family, built
from tests.families.laws import watched
from tests.families.table import AT_ODDS, opened
from tests.support.versions import at_most
from transformer_viz.checkpoints import Model
from transformer_viz.core.sites import MAPS

IDS = (5, 9, 33, 12, 5, 40, 61, 7)
#: Rows that sum to less than 1 beside a learned sink, which takes the rest.
SINKS = ("gpt_oss",)
#: Its fused code, asked for weights, returns those of other numbers: without the causal mask.
EAGER_ONLY = ["falcon"]
if at_most("transformers", "5.22"):  # there the two halves of T5 do not hear of the other code
    EAGER_ONLY.append("t5")


def part_of(out: Any, name: str) -> Any:
    """The part of an output that a dotted name leads to, and its last word."""
    *path, last = name.split(".")
    for part in path:
        out = getattr(out, part)
    return out, [layer for layer in getattr(out, last) if layer is not None]


def given(family: Family, out: Any, batch: int) -> tv.Trace:
    first, weights = part_of(out, family.maps[0][0])
    names = [f"w{n}" for n in range(weights[0].shape[-1])]
    sums = family.name not in SINKS
    if family.maps != BOTH:
        return tv.from_attentions(first, names, batch=batch, check_sums=sums)
    own = part_of(out, "decoder_attentions")[1][0].shape[-1]
    target = [f"t{n}" for n in range(own)]
    return tv.from_attentions(out, names, target_tokens=target, batch=batch, check_sums=sums)


def given_weights_are_the_captured_ones(family: Family, implementation: str) -> None:
    if implementation != "eager" or family.name == "clip":  # clip: two models in one
        return
    seen, out = watched(built(family), family, output_attentions=True)
    for batch in (0, 1):
        trace = given(family, out, batch)
        assert len(trace.maps) == len(family.maps)
        for block, (_, stack, kind) in zip(trace.maps, family.maps, strict=True):
            assert MAPS[block] == (stack, kind)
            ours = [a for a in seen.attentions if (a.stack, a.kind) == (stack, kind)]
            ours = [ours[i] for i in family.reported] if family.reported else ours
            theirs = trace.blocks(block)
            assert len(theirs) == len(ours)
            for a, b in zip(theirs, ours, strict=True):
                assert b.weights is not None
                assert np.abs(a.weights - b.weights[batch].cpu().numpy()).max() <= 1e-6


def given_weights_are_those_of_a_trace(family: Family, implementation: str) -> None:
    """The model opened from its folder, for families that read text."""
    text = family.inputs in ("text", "pair") and family.name not in AT_ODDS
    if implementation != "eager" or not text:
        return
    model = opened(family)
    assert isinstance(model, Model), model
    module, own = model.module, model.module.config._attn_implementation
    if family.name not in EAGER_ONLY:
        module.set_attn_implementation("eager")  # fused attention returns no weights
    try:
        assert_given_is_traced(
            family, model, built(family) if family.name in EAGER_ONLY else module
        )
    finally:
        module.set_attn_implementation(own)


def assert_given_is_traced(family: Family, model: Model, module: nn.Module) -> None:
    trace = tv.trace(model, " ".join(map(str, IDS)))
    ids = {"input_ids": torch.tensor([trace.source.ids])}
    if trace.target is not None:
        ids["decoder_input_ids"] = torch.tensor([trace.target.ids])
    with torch.inference_mode():
        out = module(**ids, output_attentions=True)
    target = None if trace.target is None else trace.target.labels
    sums = family.name not in SINKS
    mine = tv.from_attentions(out, trace.source.labels, target_tokens=target, check_sums=sums)
    assert len(mine.maps) == len(trace.maps)
    for block, shown in zip(mine.maps, trace.maps, strict=True):
        theirs, ours = mine.blocks(block), trace.blocks(shown)
        assert len(theirs) == len(ours)
        for a, b in zip(theirs, ours, strict=True):
            assert a.weights is not None and b.weights is not None
            assert np.abs(a.weights - b.weights).max() <= 2e-6


LAWS = (given_weights_are_the_captured_ones, given_weights_are_those_of_a_trace)
