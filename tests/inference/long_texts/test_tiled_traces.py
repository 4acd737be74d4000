"""Long texts: how much is read, and traces that keep tiles with the same numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.app.engine import trace_jobs
from transformer_viz.app.engine.query import Question
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.core import interventions as iv
from transformer_viz.core.edits import EDITS
from transformer_viz.core.errors import TooLongError
from transformer_viz.core.interventions import (
    BlockKeys,
    Intervention,
    Pad,
    ScaleHead,
    Temperature,
    Window,
)
from transformer_viz.core.trace import Trace
from transformer_viz.inference.long_texts import beginning, room
from transformer_viz.inference.token_ids import source_ids
from transformer_viz.inference.tracing import trace
from transformer_viz.views.numbers import whose


def words(text: str) -> int:
    return len(text.split())


def test_the_beginning_is_the_longest_that_fits():
    cases = [
        ("one two three four", 3, words, "one two three"),
        ("one two three four", 4, words, "one two three four"),
        ("one two three four", 9, words, "one two three four"),
        ("one two  three", 9, len, "one two"),  # the cut is inside of the third word
        ("one two three", 7, len, "one two"),
        ("one two three", 8, len, "one two"),
        ("你好世界", 3, len, "你好世"),
        ("你好 世界", 4, len, "你好"),
        ("a" * 200, 120, len, "a" * 120),  # no blank near: cut anywhere
        ("👩‍👧" * 50, 122, len, "👩‍👧" * 40),  # nor inside of a family
        ("👍🏽" * 90, 121, len, "👍🏽" * 60),  # nor between a hand and its colour
        ("e\u0301" * 100, 121, len, "e\u0301" * 60),  # never between a letter and its accent
    ]
    for text, most, count, kept in cases:
        assert beginning(text, most, count) == kept, (text, most)
    refuses("Not even the first word", beginning, "word", 0, len)

    def count(text: str) -> int:
        return sum(1 if word == "longest" else len(word) for word in text.split())

    for most in range(2, 30):
        kept = beginning("ab longest " * 9, most, count)
        assert count(kept) <= most and ("ab longest " * 9).startswith(kept)


def test_a_model_says_how_much_it_reads():
    """The very number that the sentence names will do, and one more will not."""
    model = make_model(max_positions=12)
    text = " ".join(["7 8"] * 9)
    with pytest.raises(TooLongError) as error:
        source_ids(model, text)
    assert error.value.most == model.max_tokens
    assert f"at most {model.max_tokens}" in str(error.value)
    read = model.tokenizer.source_ids
    kept = beginning(text, error.value.most, lambda part: len(read(part)))
    assert text.startswith(kept) and len(source_ids(model, kept)) <= model.max_tokens
    longer = text[: len(kept) + 3]
    assert len(read(longer)) > model.max_tokens
    model, pad = make_model(max_positions=700), Intervention((Pad(count=20),))
    with pytest.raises(TooLongError) as error:
        trace_jobs.length(model, Question("tiny", "7 8 " * 600), pad)
    assert error.value.most == 680


IDS = [5, 17, 6, 29, 8, 11, 3, 9, 4, 12, 7]
LONE = {"encoder_layers": 2, "decoder_layers": 0}


def test_longer_models():
    learned = make_model(positions="learned", **LONE)
    for model in (make_model(), learned):
        said = f"reads at most {model.max_tokens}"
        refuses(said, trace, model, [5] * (model.max_tokens + 1), check=False)
    assert longer(learned, learned.max_tokens + 1) is learned
    assert room(learned, 10**6) == learned.max_tokens
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


SOURCE, TARGET = [5, 17, 6, 29, 8, 11, 3], [2, 7, 31, 9, 4]
OTHER = [5, 9, 30, 31, 29, 8, 3]
HEAD = {"stack": "decoder", "block": "self", "layer": 1}
#: One edit of each kind that a trace alone can run; the mean of a head comes from a corpus.
EDIT = {
    edit.kind: edit
    for edit in (
        Temperature(value=2.0),
        iv.ScaleHead(value=0.5, head=1),
        iv.UniformHead(head=0),
        iv.Causal(on=False),
        Window(radius=1),
        iv.BlockKeys(keys=(2,)),
        iv.BlockEdges(edges=((4, 1), (2, 2))),
        iv.Pad(count=3),
        iv.ScalePositions(value=0.5),
        iv.ShufflePositions(seed=3),
        iv.ScaleResidual(value=0.5, layer=0),
        iv.SwapHead(source=OTHER, head=1, **HEAD),
        iv.SwapPattern(source=OTHER, **HEAD),
        iv.SwapStream(source=OTHER, stack="encoder", layer=1),
    )
}


def kept(model, *edits, keep=("tiles",), **words):
    words = {"intervention": Intervention(edits), "check": False} | words
    return trace(model, SOURCE, TARGET, keep=keep, **words)


@pytest.mark.slow
def test_tiles_are_the_matrix_under_every_edit(tiny_model):
    assert {kind.kind for kind in EDITS} - set(EDIT) == {iv.MeanHead.kind}
    for kind, edits in {"clean": (), **{kind: (edit,) for kind, edit in EDIT.items()}}.items():
        whole, tiled = (kept(tiny_model, *edits, keep=(what,)) for what in ("weights", "tiles"))
        lent = {"decoder.1"} if kind == "swap_pattern" else set()
        assert set(tiled.manifest.get("untiled", {})) == lent
        assert len(tiled.tiles) == 7 - len(lent) and len(tiled.attentions) == len(lent), kind
        np.testing.assert_array_equal(tiled.logits, whole.logits)
        for block in whole.maps:
            weights = whole.attention(block)
            for at in np.ndindex(weights.shape[:2]):
                case, map_ = (kind, block, *at), weights[at]
                assert abs(tiled.tile(block, *at) - map_).max() <= 2e-6, case
                piece = tiled.tile(block, *at, slice(1, 4), slice(2, 5))
                assert abs(piece - map_[1:4, 2:5]).max() <= 2e-6, case
                assert abs(tiled.level(block, *at, 1) - map_.max()).max() <= 2e-6, case
            assert abs(tiled.attention(block) - weights).max() <= 2e-6, (kind, block)


def test_levels_tiles_of_matrices_and_the_proof(tiny_model):
    tiled, whole = kept(tiny_model), kept(tiny_model, keep=("weights",))
    weights = whole.attention("cross", 1)[0]  # 5 x 7; a level has the largest under each cell
    wanted = [[weights[i : i + 2, j : j + 3].max() for j in (0, 3, 6)] for i in (0, 2, 4)]
    np.testing.assert_allclose(tiled.level("cross", 1, 0, 3), wanted, atol=2e-6)
    tile = whole.tile("encoder", 2, 1, slice(2, 5), slice(0, 3))
    np.testing.assert_array_equal(tile, whole.attention("encoder", 2)[1, 2:5, :3])
    found = kept(tiny_model, check=True)
    assert found.report.status == "green" and not found.attentions and len(found.tiles) == 7


def test_scores_without_keys_keep_their_matrix_or_give_a_reason(monkeypatch):
    for score in ("additive", "location"):
        found = kept(make_model(score=score))
        assert not found.tiles and len(found.attentions) == 7
        said = "its scores are no product of queries and keys (additive, or by location)"
        assert set(found.manifest["untiled"].values()) == {said}, score
        assert found.tile("cross", 0, 1).shape == (5, 7)
    monkeypatch.setattr("transformer_viz.capture.tiles.factors.MOST_BYTES", 0)
    found, said = kept(make_model(score="additive")), "Tiles cannot be had of cross.0"
    refuses(f"{said}: its scores are no", found.tile, "cross", 0, 1, error=LookupError)
    refuses(rf"were not kept.*{said}", found.attention, "cross", error=LookupError)


def test_tiles_outside_of_the_map_and_in_a_file(tiny_model, tmp_path):
    found = kept(tiny_model)
    for asked, said in (
        ((0, 9), "There is no head 9 in 'cross' layer 0; it has 2, counted from 0."),
        ((0, 0, slice(0, 6)), r"The map has 5 rows, counted from 0; rows=slice\(0, 6, None\)"),
        ((0, 0, slice(None), slice(-2, None)), r"The map has 7 columns.*slice\(0, 7\)"),
        ((0, 0, slice(3, 3)), "rows=.*is not a part of them"),
        ((0, 0, slice(0, 4, 2)), "without a step"),
    ):
        refuses(said, found.tile, "cross", *asked)
    said = "Neither tiles nor weights of 'cross' layer 5"
    refuses(said, found.tile, "cross", 5, 0, error=LookupError)
    refuses("has no 'nowhere' attention", found.tile, "nowhere", 0, 0, error=LookupError)
    before = kept(tiny_model, Window(radius=2), Temperature(value=0.0, head=1))
    before.save(tmp_path / "run.safetensors")
    after = Trace.load(tmp_path / "run.safetensors")
    assert len(after.tiles) == len(before.tiles) == 7
    for one, other in zip(before.tiles, after.tiles, strict=True):
        assert (one.site, one.query, one.key) == (other.site, other.query, other.key)
        for field in dataclasses.fields(one.parts[0]):
            mine, theirs = (getattr(t.parts[0], field.name) for t in (one, other))
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, theirs)
                assert mine.dtype == theirs.dtype and not theirs.flags.writeable
        np.testing.assert_array_equal(one.whole(), other.whole())


def test_large_matrices_are_not_built_on_demand(tiny_model, monkeypatch):
    found = kept(tiny_model)
    monkeypatch.setattr("transformer_viz.core.trace.MOST_CELLS", 2 * 7 * 7)
    assert found.attention("encoder", 2).shape == (2, 7, 7)
    said = r"are built on demand. Ask for a part with tile\('enc"
    refuses(said, found.attention, "encoder", error=LookupError)
    monkeypatch.setattr("transformer_viz.core.tiles.maps.MOST_CELLS", 12)
    refuses(r"A tile of 7 x 7 cells takes .* Name fewer rows", found.tile, "encoder", 2, 0)
    assert found.tile("encoder", 2, 0, slice(0, 3), slice(0, 4)).shape == (3, 4)


def test_a_long_text_keeps_tiles_and_is_not_proved_in_full(monkeypatch):
    lone = {"encoder_layers": 0, "source_vocab": 0, "max_positions": 1200}
    gpt, text = make_model(**lone, decoder_layers=2), [5 + n * n % 31 for n in range(1025)]
    found = trace(gpt, text)
    assert found.manifest["keep"] == ["tiles"] and not found.attentions
    assert found.report.output_difference is None and not found.report.rebuilt
    rows, columns = slice(700, 1020), slice(300, 900)
    whole = trace(gpt, text, keep=("weights",), check=False)
    for head in range(2):
        wanted = whole.attention("decoder", 1)[head, rows, columns]
        assert abs(found.tile("decoder", 1, head, rows, columns) - wanted).max() <= 2e-6
    assert not any(name.startswith("bias") for name in found.positions)
    short = trace(gpt, text[:9])
    assert short.manifest["keep"] == ["weights"] and short.report.output_difference is not None
    monkeypatch.setattr("transformer_viz.inference.long_texts.estimate.memory", lambda: 10**7)
    refuses(r"builds the maps of a layer in full: about 0 GB of maps", trace, gpt, text)
    learned = make_model(**lone, decoder_layers=1, positions="learned")
    said = "has 1,201 tokens and this model reads at most 1,200"
    refuses(said, trace, learned, [5] * 1201)
