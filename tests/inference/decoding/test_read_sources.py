"""A source that was read before gives the very trace and text that reading it again gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.same_trace import same
from transformer_viz import trace
from transformer_viz.core.interventions import (
    BlockKeys,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
    UniformHead,
)
from transformer_viz.inference.batching.shared_passes import SharedPasses, SharedSearch
from transformer_viz.inference.decoding import read_sources
from transformer_viz.inference.decoding.read_sources import ReadSources
from transformer_viz.inference.generation import translate
from transformer_viz.inference.tracing import traced

SOURCE, TARGET = [5, 9, 31, 7, 3], [2, 8, 11, 4]
#: Edits behind the encoder, and edits that change what it reads.
LATE = (
    (),
    (Temperature(value=2.5, stack="decoder"),),
    (Temperature(value=0.4, stack="decoder", block="cross", layer=0, head=1),),
    (BlockKeys(keys=(1, 2), stack="decoder"), UniformHead(stack="decoder", head=0)),
    (Pad(count=2), ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0)),
)
EARLY = (
    (Temperature(value=2.5),),
    (ScalePositions(value=0.5, stack="encoder"),),
    (Temperature(value=2.5, stack="decoder"), ScaleHead(value=0, stack="encoder", head=0)),
)


def test_trace_and_best_text_are_the_same(tiny_model):
    for edits in (*LATE, *EARLY):
        known, change = ReadSources(), Intervention(edits)
        words = {"target": TARGET, "intervention": change, "check": False}
        words |= {"keep": ("weights", "scores", "hidden")}
        alone = trace(tiny_model, SOURCE, **words)
        for _ in range(2):  # read, and then known
            same(traced(tiny_model, SOURCE, known=known, **words), alone)
        assert len(known) == (edits in LATE), edits
        known = ReadSources()
        for beam in (1, 4, 6):
            best = translate(tiny_model, SOURCE, beam=beam, intervention=change)[0]
            search = SharedSearch(tiny_model, SOURCE, beam, change, best_only=True, known=known)
            search.begin()
            while not search.ended:
                passes = SharedPasses([search])
                passes.step()
                passes.part()
            assert search.error is None and search.found[0].ids == best.ids, (edits, beam)
            assert search.found[0].score == pytest.approx(best.score, abs=1e-5), (edits, beam)


def test_another_sentence_and_another_request_are_read_again(tiny_model):
    known = ReadSources()
    words = {"target": TARGET, "check": False}
    traced(tiny_model, SOURCE, known=known, **words)
    other = traced(tiny_model, SOURCE[::-1], known=known, **words)
    kept = traced(tiny_model, SOURCE, keep="scores", known=known, **words)
    plain = trace(tiny_model, SOURCE[::-1], **words)
    assert np.array_equal(other.attention("encoder", layer=0), plain.attention("encoder", layer=0))
    assert kept.block("encoder", 0).scores is not None and len(known) == 3
    lost = Intervention((ScaleHead(value=0, stack="decoder", head=99),))
    with pytest.raises(ValueError, match="matches no place"):
        traced(tiny_model, SOURCE, intervention=lost, known=ReadSources(), **words)


def test_the_latest_sources_stay(monkeypatch):
    monkeypatch.setattr(read_sources, "SMALL", 0)
    known, made = ReadSources(100), []
    for key in "ababcab":  # 40 bytes each: two fit
        known.get(key, lambda key=key: made.append(key) or torch.zeros(10))
    assert made == ["a", "b", "c", "a", "b"] and len(known) == 2 and known.size == 80
    known.get("large", lambda: torch.zeros(30))
    assert len(known) == known.size == 0
