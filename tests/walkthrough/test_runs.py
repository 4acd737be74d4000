"""What the page asks: the chain is that of the run on the screen, made once for all visitors."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from tests.conftest import make_module
from tests.support.cases import case
from tests.support.refusals import refuses
from transformer_viz.app.engine import trace_jobs
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_kind import of_model
from transformer_viz.app.engine.query import Question
from transformer_viz.app.session.scene import Scene, scene_at
from transformer_viz.app.session.view_options import Look
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import (
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
)
from transformer_viz.core.stages import PROBLEM

from .laws import hold_to_block

pytestmark = pytest.mark.shipped
QUESTION = Question("en-de", "The old cat sat.", beam=1)
CHANGES = (
    Intervention(),
    Intervention((Temperature(value=2.0, stack="decoder"), ScaleHead(value=0.0, layer=1, head=2))),
    Intervention((Pad(count=2), ScalePositions(value=0.5))),
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine("en-de")


def scene(
    engine: Engine, question: Question, place: Place, changes: Intervention = CHANGES[0]
) -> Scene:
    kind = of_model(engine.model(question.model))
    return scene_at(engine, question, kind, place, changes, Look(view="qk"))


def hold_to_screen(found: Scene, row: int) -> None:
    """Weights, scores and v of the row are those of the run that the screen shows."""
    chain, place = found.inside(row), found.place
    hold_to_block(chain, found.now.block(place.map_name, place.layer))
    assert chain.intervention == found.changes
    number = chain.number("score/out/1")
    opened = found.terms(chain, number)
    assert opened.sum == pytest.approx(chain.value(number), rel=1e-5, abs=1e-6)
    assert found.terms(chain, number) is opened


def test_the_chain_is_that_of_the_screen(engine):
    for number, block in product(range(len(CHANGES)), ("encoder", "decoder", "cross")):
        with case(number, block):
            found = scene(engine, QUESTION, Place(block, 1, 3), CHANGES[number])
            hold_to_screen(found, row=1)
    # a masked word and a typed target are held
    question = Question("en-mlm", "The cat sat on the mat.", masked=(2,))
    found = scene(engine, question, Place("encoder", 1, 1))
    hold_to_screen(found, row=2)
    assert found.inside(2)["embedding"].numbers["id"] == found.now.source.ids[2]
    question = Question("en-de", "The old cat sat.", target="Ein Hund lief.")
    hold_to_screen(scene(engine, question, Place("cross", 0, 0)), row=3)


def test_a_chain_is_made_once(engine, monkeypatch):
    found = scene(engine, QUESTION, Place("cross", 1, 3))
    first = found.inside(1)
    refuses("'cross' has rows 0 to", found.inside, 99, error=LookupError)
    monkeypatch.setattr(trace_jobs, "source_of", lambda *_: pytest.fail("asked again"))
    assert found.inside(1) is first
    assert scene(engine, QUESTION, found.place).inside(1) is first


def test_a_picture_model_is_told_from_q_and_k_on(engine):
    picture = next(iter(engine.shelf["digits"].pictures))
    question = Question("digits", picture=picture)
    found = scene(engine, question, Place("encoder", 0, 1))
    chain = found.inside(4)
    assert chain.problem == PROBLEM
    assert np.array_equal(chain["mix"]["x"], found.now.block("encoder", 0).weights[1, 4])


def test_vectors_are_those_of_the_screen(tmp_path: Path):
    folder = tmp_path / "vectors"
    folder.mkdir()
    module = make_module(source_vocab=0, target_vocab=0, decoder_layers=0)
    save_file(module.state_dict(), folder / "weights.safetensors")
    words = {"layout": "transformer_viz"} | module.config.to_dict()
    (folder / "config.json").write_text(json.dumps(words), encoding="utf-8")
    question = Question("vectors", seed=3)
    found = scene(Engine(str(folder)), question, Place("encoder", 1, 1))
    hold_to_screen(found, row=2)
    assert found.inside(2)["embedding"].numbers["id"] == -1
