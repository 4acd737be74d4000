"""`from_attentions(outputs, tokens)` is what our own capture saw, for every family that reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from tests.families.catalogue import BOTH, FAMILIES, Family, built
from tests.families.laws import watched
from tests.families.more import MORE
from transformer_viz.core.sites import MAPS

pytestmark = pytest.mark.families
#: Rows that sum to less than 1 beside a learned sink, which takes the rest.
SINKS = ("gpt_oss",)
ALL = [family for family in (*FAMILIES, *MORE) if family.name != "clip"]  # two models in one


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


def test_there_are_enough_families() -> None:
    assert len(ALL) >= 40


@pytest.mark.parametrize("family", ALL, ids=str)
def test_given_weights_are_what_we_capture(family: Family) -> None:
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
                assert np.abs(a.weights - b.weights[batch].numpy()).max() <= 1e-6
