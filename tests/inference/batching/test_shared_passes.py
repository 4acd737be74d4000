"""Searches that share their passes give what each gives alone: ids, and numbers to 1e-5."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from transformer_viz.checkpoints import load
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Edit, Intervention
from transformer_viz.inference.batching.shared_passes import (
    SharedPasses,
    SharedSearch,
    may_share,
)
from transformer_viz.inference.generation import Hypothesis, translate

SOURCES = ([5, 9, 31, 7, 3], [8, 36, 3], [11, 12, 13, 14, 15, 16, 17, 18, 19, 3], [30, 3])
#: The decoder's, the encoder's, those of both, and none.
EDITS = (
    (),
    (edit.Temperature(value=2.5),),
    (edit.Temperature(value=0, stack="decoder", block="self", head=1),),
    (edit.Window(radius=1), edit.UniformHead(stack="decoder", head=0)),
    (
        edit.BlockKeys(keys=(1, 2)),
        edit.ScaleHead(value=0, stack="decoder", block="self", layer=0, head=0),
    ),
    (edit.BlockEdges(edges=((2, 1), (3, 0), (4, 4)), stack="decoder"),),
)
OF_ENCODER = (
    (edit.Pad(count=3),),
    (edit.Pad(count=2, masked=False), edit.Temperature(value=0.3, stack="encoder")),
    (edit.ScaleResidual(value=0.5, stack="encoder"), edit.Causal(on=True, stack="encoder")),
    (edit.ScalePositions(value=0.5, stack="encoder"),),
)


class GoneError(Exception):
    """The user of a search has left."""


def together(searches: Sequence[SharedSearch], seed: int, leave: float = 0) -> None:
    """Run them: later ones join, some rest for a while, ended ones leave.

    Between two passes one of them is given up with the probability ``leave``.
    """
    draw, waiting, inside = random.Random(seed), list(searches), list[SharedSearch]()
    while waiting or inside:
        for search in waiting[: draw.randint(0, 3)]:
            search.begin()
            inside.append(waiting.pop(0))
        inside = [search for search in inside if not search.ended]
        some = [search for search in inside if draw.random() < 0.8]
        if some:
            passes = SharedPasses(some)
            for _ in range(draw.randint(1, 4)):
                if draw.random() < leave:
                    draw.choice(some).error = GoneError()
                passes.step()
            passes.part()


def same(search: SharedSearch, alone: Sequence[Hypothesis]) -> None:
    assert search.error is None and search.found is not None
    assert [one.ids for one in search.found] == [one.ids for one in alone]
    for one, other in zip(search.found, alone, strict=True):
        assert one.text == other.text and one.finished == other.finished
        assert one.steps == pytest.approx(other.steps, abs=1e-5)
        assert one.score == pytest.approx(other.score, abs=1e-5)


def compared(model: Model, edits: Sequence[Sequence[Edit]], seed: int = 1, leave: float = 0):
    """Searches of other sources, beams and edits beside each other, and each alone."""
    asked = [
        (SOURCES[n % len(SOURCES)], 1 + (3 * n) % 8, Intervention(tuple(edits[n % len(edits)])))
        for n in range(2 * len(edits))
    ]
    assert all(may_share(model, source, change) for source, _, change in asked)
    searches = [SharedSearch(model, *one) for one in asked]
    together(searches, seed, leave)
    gone = [search for search in searches if isinstance(search.error, GoneError)]
    assert bool(gone) == bool(leave) and len(gone) < len(searches) / 2  # most are compared
    for search, (source, beam, change) in zip(searches, asked, strict=True):
        if search not in gone:
            same(search, translate(model, source, beam, None, change))


@pytest.mark.slow
@pytest.mark.parametrize("leave", [0, 0.1])
def test_searches_with_edits_of_their_own_also_where_some_leave(tiny_model, leave):
    for seed in range(1, 5 if leave else 3):
        compared(tiny_model, (*EDITS, *OF_ENCODER), seed, leave)


@pytest.mark.slow
def test_other_models(tiny_gpt, build_model):
    compared(tiny_gpt, EDITS)
    for words in (
        {"positions": "learned", "norm": "post"},
        {"positions": "rotary", "d_k": 12, "d_v": 12, "mask_fill": -1e9},
        {"positions": "none", "score": "general", "norm": "query_only"},
    ):
        compared(build_model(**words), EDITS)
    additive = build_model(score="additive")
    compared(additive, [()])  # shares without edits
    assert not may_share(additive, SOURCES[0], Intervention((edit.Temperature(value=2),)))


def test_searches_that_cannot_share_are_known(tiny_model, tiny_gpt, build_model):
    positions, residual = edit.ScalePositions(value=0.5), edit.ScaleResidual(value=0.5)
    for one in (edit.Causal(on=False), positions, residual):
        assert not may_share(tiny_model, SOURCES[0], Intervention((one,))), one
    assert not may_share(tiny_gpt, SOURCES[0], Intervention((edit.Pad(count=2),)))
    assert not may_share(build_model(score="location"), SOURCES[0], None)
    counted = build_model()
    counted.module.decoder.embedding = torch.nn.Sequential(counted.module.decoder.embedding)
    assert may_share(build_model(), SOURCES[0], None) and not may_share(counted, SOURCES[0], None)


def test_a_search_that_fails_or_is_stopped_leaves_the_others_alone(tiny_model):
    lost = Intervention((edit.Temperature(value=2, stack="decoder", layer=9),))
    searches = [SharedSearch(tiny_model, SOURCES[0], 2, lost), SharedSearch(tiny_model, [8, 3], 2)]
    together(searches, 1)
    with pytest.raises(ValueError, match="matches no place"):
        translate(tiny_model, SOURCES[0], 2, None, lost)
    assert "matches no place" in str(searches[0].error)
    same(searches[1], translate(tiny_model, [8, 3], 2))
    heard: list[int] = []

    def stop(done: int, of: int) -> None:
        heard.append(done)
        if done == 3:
            raise InterruptedError

    stopped = SharedSearch(tiny_model, SOURCES[0], 4, on_progress=stop)
    others = [SharedSearch(tiny_model, source, 3) for source in SOURCES[1:]]
    for search in (stopped, *others):
        search.begin()
    passes = SharedPasses([others[0], stopped, *others[1:]])
    while passes.searches:
        passes.step()
        if isinstance(stopped.error, InterruptedError):
            assert stopped not in passes.rows
    assert heard == [0, 1, 2, 3] and stopped.found is None
    for search, source in zip(others, SOURCES[1:], strict=True):
        same(search, translate(tiny_model, source, 3))


def test_a_search_that_leaves_takes_its_columns(tiny_model):
    """It ends in the very pass in which the other search reads its first token."""
    for had in (0, 1, 2, 5):
        for parts in (False, True):
            stays = SharedSearch(tiny_model, SOURCES[1], 3)
            leaves = SharedSearch(tiny_model, SOURCES[2], 2)
            leaves.begin()
            passes = SharedPasses([leaves])
            for _ in range(had):
                passes.step()
            passes.part()
            stays.begin()
            passes = SharedPasses([leaves, stays])
            leaves.error = InterruptedError()
            while not stays.ended:
                passes.step()
                if parts:
                    passes.part()
                    passes = SharedPasses([stays])
            same(stays, translate(tiny_model, SOURCES[1], 3))
    first, later = SharedSearch(tiny_model, SOURCES[2], 1), SharedSearch(tiny_model, SOURCES[1], 2)
    first.begin()
    alone = SharedPasses([first])
    for _ in range(3):
        alone.step()
    alone.part()
    later.begin()
    passes = SharedPasses([first, later])
    first.error = InterruptedError()
    passes.step()
    assert passes.reader.cache.text.shape[1] == 1


@pytest.mark.shipped
def test_the_shipped_model():
    model = load("en-de")
    texts = ("The cat sat on the mat.", "Where is the station, and when does the train go?", "Yes.")
    asked = [
        (texts[n % 3], (1, 4, 8)[n % 3], Intervention((edit.Temperature(value=t),) if t else ()))
        for n, t in enumerate((None, 0.5, 2.0, 0.5, 2.0, None))
    ]
    searches = [SharedSearch(model, *one) for one in asked]
    together(searches, 3)
    for search, (text, beam, change) in zip(searches, asked, strict=True):
        same(search, translate(model, text, beam, None, change))
