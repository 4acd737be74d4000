"""Longer tables of sines share all weights; pooled cells hold the largest of theirs, and masks."""

from __future__ import annotations

import numpy as np

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.core.interventions import BlockKeys, Intervention, Pad, ScaleHead, Temperature
from transformer_viz.inference.long_texts import room
from transformer_viz.inference.tracing import trace
from transformer_viz.views.numbers import whose

IDS = [5, 17, 6, 29, 8, 11, 3, 9, 4, 12, 7]
LONE = {"encoder_layers": 2, "decoder_layers": 0}


def test_a_longer_model_reads_the_same_and_more():
    model = make_model(**LONE)
    most = model.max_tokens
    more = longer(model, most + 9)
    assert more.max_tokens == most + 9 and longer(model, most) is model
    assert {id(p) for p in more.module.parameters()} == {id(p) for p in model.module.parameters()}
    was, now = (trace(one, IDS, check=False).attention("encoder") for one in (model, more))
    np.testing.assert_array_equal(was, now)
    text = (IDS * most)[: most + 9]
    assert len(trace(more, text, check=False).source) == most + 9
    run = trace(model, text, check=False)  # the same without being asked for
    np.testing.assert_array_equal(run.logits, trace(more, text, check=False).logits)
    assert run.manifest["beyond"] == most and "beyond" not in trace(model, IDS).manifest
    padded = trace(model, text[:most], intervention=Intervention((Pad(count=4),)), check=False)
    assert len(padded.source) == most + 4 and model.max_tokens == most
    assert f"beyond the {most} tokens that it was made for" in whose(run)


def test_two_stacks_and_learned_positions_keep_their_limits():
    learned = make_model(positions="learned", **LONE)
    for model in (make_model(), learned):
        said = f"reads at most {model.max_tokens}"
        refuses(said, trace, model, [5] * (model.max_tokens + 1), check=False)
    assert longer(learned, learned.max_tokens + 1) is learned
    assert room(learned, 10**6) == learned.max_tokens


def test_there_is_room_for_what_the_memory_holds(monkeypatch):
    model = make_model(**LONE)
    assert room(model, 3000) == 3000
    monkeypatch.setattr("transformer_viz.inference.long_texts.estimate.memory", lambda: 10**8)
    assert 0 < room(model, 3000) < 3000


def test_a_pooled_cell_is_the_largest_of_its_weights(monkeypatch):
    monkeypatch.setattr("transformer_viz.core.tiles.pooling.ROWS", 4)
    monkeypatch.setattr("transformer_viz.core.tiles.pooling.COLUMNS", 6)
    model = make_model(**LONE)
    for edit in (
        None,
        Temperature(value=0.0),
        ScaleHead(value=-1.0, head=1),
        BlockKeys(keys=(2, 3, 7)),
        BlockKeys(keys=tuple(range(len(IDS)))),
    ):
        words = {"check": False, "intervention": Intervention(() if edit is None else (edit,))}
        tiled = trace(model, IDS, keep=("tiles",), **words)
        weights = trace(model, IDS, **words).attention("encoder", 1)[1]
        blocked = np.isin(np.arange(len(IDS)), getattr(edit, "keys", ()))
        for step in (1, 2, 3, 5, 20):
            found, hidden = tiled.pooled("encoder", 1, 1, step, slice(1, 10), slice(2, 11))
            for r, row in enumerate(range(1, 10, step)):
                for c, column in enumerate(range(2, 11, step)):
                    at = slice(row, min(row + step, 10)), slice(column, min(column + step, 11))
                    assert abs(weights[at].max() - found[r, c]) <= 2e-6, (edit, step, at)
                    assert hidden[r, c] == blocked[at[1]].all(), (edit, step, at)
