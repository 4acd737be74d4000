"""A source that was read before gives the very trace and text that reading it again gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.support.same_trace import same
from transformer_viz import trace
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.interventions import (
    BlockKeys,
    Edit,
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
KEEP = ("weights", "scores", "hidden")
LATE: tuple[tuple[Edit, ...], ...] = (
    (),
    (Temperature(value=2.5, stack="decoder"),),
    (Temperature(value=0.4, stack="decoder", block="cross", layer=0, head=1),),
    (BlockKeys(keys=(1, 2), stack="decoder"), UniformHead(stack="decoder", head=0)),
    (Pad(count=2), ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0)),
)
EARLY: tuple[tuple[Edit, ...], ...] = (
    (Temperature(value=2.5),),
    (ScalePositions(value=0.5, stack="encoder"),),
    (Temperature(value=2.5, stack="decoder"), ScaleHead(value=0, stack="encoder", head=0)),
)


@pytest.mark.parametrize("edits", [*LATE, *EARLY], ids=str)
def test_the_trace_is_the_same(tiny_model: Model, edits: tuple[Edit, ...]) -> None:
    known, change = ReadSources(), Intervention(edits)
    words = {"target": TARGET, "intervention": change, "keep": KEEP, "check": False}
    alone = trace(tiny_model, SOURCE, **words)
    for _ in range(2):  # read, and then known
        same(traced(tiny_model, SOURCE, known=known, **words), alone)
    assert len(known) == (edits in LATE)


def test_another_sentence_and_another_wish_are_read_anew(tiny_model: Model) -> None:
    known = ReadSources()
    words = {"target": TARGET, "check": False, "known": known}
    traced(tiny_model, SOURCE, **words)
    other = traced(tiny_model, SOURCE[::-1], **words)
    kept = traced(tiny_model, SOURCE, keep="scores", **words)
    same_words = {"target": TARGET, "check": False}
    plain = trace(tiny_model, SOURCE[::-1], **same_words)
    assert np.array_equal(other.attention("encoder", layer=0), plain.attention("encoder", layer=0))
    assert kept.block("encoder", 0).scores is not None and len(known) == 3


def test_an_edit_that_finds_no_place_still_says_so(tiny_model: Model) -> None:
    lost = Intervention((ScaleHead(value=0, stack="decoder", head=99),))
    with pytest.raises(ValueError, match="matches no place"):
        traced(tiny_model, SOURCE, target=TARGET, intervention=lost, known=ReadSources())


@pytest.mark.parametrize("edits", [*LATE, *EARLY], ids=str)
def test_the_best_text_is_the_same(tiny_model: Model, edits: tuple[Edit, ...]) -> None:
    known, change = ReadSources(), Intervention(edits)
    for beam in (1, 4, 6):
        alone = translate(tiny_model, SOURCE, beam=beam, intervention=change)[0]
        search = SharedSearch(tiny_model, SOURCE, beam, change, best_only=True, known=known)
        search.begin()
        while not search.ended:
            passes = SharedPasses([search])
            passes.step()
            passes.part()
        assert search.error is None and search.found is not None
        assert search.found[0].ids == alone.ids
        assert search.found[0].score == pytest.approx(alone.score, abs=1e-5)


def test_what_was_read_last_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_sources, "SMALL", 0)
    known, made = ReadSources(100), list[str]()

    def get(key: str) -> torch.Tensor:
        found: torch.Tensor = known.get(key, lambda: made.append(key) or torch.zeros(10))
        return found

    for key in "ababcab":  # 40 bytes each: two fit
        get(key)
    assert made == ["a", "b", "c", "a", "b"] and len(known) == 2 and known.size == 80
    known.get("large", lambda: torch.zeros(30))
    assert len(known) == known.size == 0
