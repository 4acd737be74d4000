"""A chain under edits is that of the changed run, says what was done, and has the same stages."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.cases import case
from tests.support.refusals import refuses
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core import interventions as edits
from transformer_viz.core.interventions import Edit, Intervention
from transformer_viz.core.sites import MAPS, Site
from transformer_viz.core.stages import Walkthrough
from transformer_viz.walkthrough import step_inside, terms

from .laws import hold, hold_to_block, same

SOURCE, TARGET = [4, 9, 6, 21, 9, 30, 3], [2, 7, 11, 19, 5]
EDITS: dict[str, tuple[Edit, ...]] = {
    "nothing": (),
    "warm": (edits.Temperature(value=2.5),),
    "cold, one head": (edits.Temperature(value=0.3, layer=1, head=1),),
    "hard": (edits.Temperature(value=0.0),),
    "off": (edits.ScaleHead(value=0.0, head=1),),
    "another one off": (edits.ScaleHead(value=0.0, head=0),),
    "louder": (edits.ScaleHead(value=-1.5),),
    "even": (edits.UniformHead(),),
    "even, half": (edits.UniformHead(), edits.ScaleHead(value=0.5)),
    "window": (edits.Window(radius=1),),
    "causal on": (edits.Causal(on=True),),
    "causal off": (edits.Causal(on=False),),
    "keys": (edits.BlockKeys(keys=(0, 2)),),
    "edges": (edits.BlockEdges(edges=((2, 1), (2, 0), (1, 1))),),
    "all hidden": (edits.BlockKeys(keys=tuple(range(9))),),
    "padding": (edits.Pad(count=2),),
    "padding in sight": (edits.Pad(count=2, masked=False),),
    "positions": (edits.ScalePositions(value=0.4),),
    "no positions": (edits.ScalePositions(value=0.0),),
    "shuffled": (edits.ShufflePositions(seed=3),),
    "residual": (edits.ScaleResidual(value=0.5),),
    "no residual at one": (edits.ScaleResidual(value=0.0, block="cross"),),
    "many": (
        edits.Temperature(value=2.0),
        edits.Window(radius=2),
        edits.ScaleHead(value=0.7, head=1),
        edits.ScalePositions(value=1.5),
        edits.ScaleResidual(value=1.1, block="feed_forward"),
    ),
}
WORDS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post, additive": {"norm": "post", "score": "additive", "final_norm": False},
    "rotary, general": {"positions": "rotary", "d_k": 10, "score": "general"},
    "low fill, learned": {"mask_fill": -1e9, "positions": "learned", "score": "dot"},
}
PLAIN = make_model()
FEW = ("warm", "hard", "even, half", "causal off", "all hidden", "shuffled", "many")


@cache
def made(name: str) -> Model:
    return make_model(**WORDS[name])


@pytest.mark.slow
def test_the_chain_is_that_of_the_changed_run():
    words: dict[str, Any] = {"keep": ("scores", "qkv", "hidden"), "check": False}
    for kind, edit in product(WORDS, EDITS):
        if kind != "pre" and edit not in FEW:
            continue
        model, changed = made(kind), Intervention(EDITS[edit])
        run = tv.trace(model, SOURCE, TARGET, intervention=changed, **words)
        for name, (stack, _) in MAPS.items():
            with case(kind, edit, name):
                chain = _chain(model, *changed.edits, name=name)
                assert [stage.name for stage in chain] == _names(model, name)
                hold(model, chain, most=2)
                kept = run.block(name, 1)
                hold_to_block(chain, kept)
                if model.config["score"] in ("dot", "scaled_dot"):
                    same(chain["score"]["q"], kept.q[1, 2])
                    same(chain["score"]["k"], kept.k[1])
                same(chain.stages[-1]["out"], run.hidden(stack)[2][2])


@cache
def _names(model: Model, name: str) -> list[str]:
    """Return the stages of the clean run."""
    return [stage.name for stage in _chain(model, name=name)]


def _chain(model: Model, *edits: Edit, name: str = "decoder", row: int = 2) -> Walkthrough:
    site, changed = Site(*MAPS[name], 1, 1), Intervention(edits)
    return step_inside(model, SOURCE, TARGET, site=site, row=row, intervention=changed)


def test_every_hidden_key_says_why():
    free, late = ("",) * 3, ("future",) * 2
    for changes, why in (
        ((), free + late),
        ((edits.Causal(on=False),), free + ("lifted",) * 2),
        ((edits.Window(radius=1),), ("window", "", "", *late)),
        ((edits.BlockKeys(keys=(1,)),), ("", "block_keys", "", *late)),
        ((edits.BlockEdges(edges=((2, 0), (1, 2))),), ("block_edges", "", "", *late)),
    ):
        chain = _chain(PLAIN, *changes)
        assert chain["mask"].why == why
        seen = chain["mask"]["seen"]
        assert seen.tolist() == [float(word in ("", "lifted")) for word in why]
        assert np.isneginf(chain["mask"]["out"]).tolist() == (1 - seen).astype(bool).tolist()
        assert chain["mask"].numbers["hidden"] == (1 - seen).sum()
    padded = _chain(
        PLAIN, edits.Pad(count=2), edits.Causal(on=True, stack="encoder"), name="encoder"
    )
    assert padded["mask"].why == ("",) * 3 + ("causal",) * 4 + ("padding",) * 2
    # e to the power of a hidden score is no sum
    chain = _chain(PLAIN)
    hidden = np.flatnonzero(np.isneginf(chain["softmax"]["x"])).tolist()
    assert hidden == [3, 4] and not chain["softmax"]["exponentials"][hidden].any()
    for key in hidden:
        number = chain.number(f"softmax.self/exponentials/{key}")
        refuses(f"exponentials/{key} is no sum", terms, PLAIN, chain, number, error=LookupError)


def test_a_temperature_divides_what_the_mask_left_and_others_replace_the_softmax():
    chain = _chain(PLAIN, edits.Temperature(value=2.0))
    given, got = chain["temperature"]["x"], chain["temperature"]["out"]
    assert chain["temperature"].numbers == {"temperature": 2.0}
    same(got, (given / np.float32(2)))
    parts = np.exp(got.astype(np.float64))
    assert np.abs(chain["softmax"]["softmax"] - parts / parts.sum()).max() < 1e-6
    # the softmax says what stands in its place
    for changes, form, row in (
        ((), "soft", None),
        ((edits.UniformHead(),), "uniform", [1 / 3] * 3 + [0, 0]),
        ((edits.BlockKeys(keys=(0, 1, 2)),), "nothing", [0] * 5),
    ):
        stage = _chain(PLAIN, *changes)["softmax"]
        assert stage.words["form"] == form
        assert row is None or np.allclose(stage["softmax"], row, atol=1e-7)
    hard = _chain(PLAIN, edits.Temperature(value=0.0))["softmax"]
    assert hard.words["form"] == "hard"
    assert hard["softmax"].tolist() == (hard["x"] == hard["x"].max()).astype(float).tolist()


def test_a_head_that_is_off_adds_nothing():
    """Off in this layer alone, so that what comes in is the same."""
    edit = edits.ScaleHead(value=0.0, head=1, layer=1, stack="decoder", block="self")
    off, clean = _chain(PLAIN, edit), _chain(PLAIN)
    assert off["softmax"].numbers["head"] == 0
    assert np.abs(off["softmax"]["softmax"] - clean["softmax"]["softmax"]).max() < 1e-6
    assert not off["project"]["shares"][1].any()
    expected = clean["project"]["out"] - clean["project"]["shares"][1]
    assert np.abs(off["project"]["out"] - expected).max() < 1e-6
    assert np.abs(expected - clean["project"]["out"]).max() > 0.1


def test_positions_and_the_residual_are_as_the_edit_left_them():
    clean, half = _chain(PLAIN), _chain(PLAIN, edits.ScalePositions(value=0.5))
    same(half["position"]["table"], clean["position"]["table"] * np.float32(0.5))
    moved = _chain(PLAIN, edits.ShufflePositions(seed=3))["position"]["table"]
    rows = [_chain(PLAIN, row=row)["position"]["table"] for row in range(5)]
    assert sum(np.array_equal(moved, row) for row in rows) == 1
    # a cut residual is said and done
    stage = _chain(PLAIN, edits.ScaleResidual(value=0.0, block="self"))["residual.self"]
    assert stage.numbers == {"scale": 0.0}
    same(stage["out"], stage["added"])
