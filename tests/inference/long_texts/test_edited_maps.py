"""Maps of long texts: a head under edits without another pass, and strongest far links."""

from __future__ import annotations

import dataclasses
import tracemalloc
from itertools import product

import numpy as np
import pytest

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.checkpoints import Model
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import (
    BlockKeys,
    Edit,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.sites import Site
from transformer_viz.core.tiles import edited
from transformer_viz.core.tiles.cells import Visible
from transformer_viz.core.tiles.edited import EditedMap, beneath
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace

CLOSE = 2e-6
EDITS: dict[str, Edit] = {
    "hot": Temperature(value=5.0, layer=1),
    "cold": Temperature(value=0.2, layer=1, head=1),
    "window": Window(radius=40, layer=1),
    "causal off": edit.Causal(on=False, layer=1),
    "words": edit.BlockKeys(keys=(0, 1, 700), layer=1),
    "links": edit.BlockEdges(edges=((5, 5), (900, 3), (0, 0)), layer=1),
    "uniform": edit.UniformHead(layer=1),
    "negative": edit.ScaleHead(value=-0.5, layer=1),
}


def make(tokens: int, **sizes: object) -> tuple[Model, list[int]]:
    words = {"encoder_layers": 0, "source_vocab": 0, "decoder_layers": 3, "d_k": 10} | sizes
    return make_model(max_positions=tokens, **words), [5 + n * n % 31 for n in range(tokens)]


def run(model: Model, text: list[int], *edits: Edit, keep: str = "tiles") -> Trace:
    return trace(model, text, intervention=Intervention(edits), keep=(keep,), check=False)


def largest(weights: np.ndarray, step: int, deep: int) -> np.ndarray:
    """The largest weight of the first rows of each cell, of numpy's own blocks."""
    rows, columns = (-(-side // step) * step for side in weights.shape)
    wide = np.full((rows, columns), -np.inf, np.float32)
    wide[: weights.shape[0], : weights.shape[1]] = weights
    cells = wide.reshape(rows // step, step, columns // step, step)[:, :deep]
    return np.asarray(cells.max((1, 3)))


@pytest.fixture(scope="module", params=["sinusoidal", "rotary"])
def long(request: pytest.FixtureRequest) -> tuple[Model, list[int], Trace]:
    model, text = make(1030, positions=request.param, score="scaled_dot")
    return model, text, run(model, text)


@pytest.mark.slow
def test_an_edited_map_is_the_matrix_of_the_edited_run(long, monkeypatch):
    model, text, clean = long
    tiles = clean.tiles[1]
    for name, change in EDITS.items():
        edits = Intervention((change,))
        weights = run(model, text, change, keep="weights").attention("decoder", 1)
        for head in range(tiles.heads):
            assert not beneath(edits, dataclasses.replace(tiles.site, head=head)), name
            made, wanted, case = EditedMap(tiles, tiles, edits, head), weights[head], (name, head)
            at = slice(512, 1030), slice(256, 768)
            assert abs(made.pooled(1, *at)[0] - wanted[at]).max() <= CLOSE, case
            for step in (1, 8):  # of some rows the sums are known by now
                assert abs(made.pooled(step)[0] - largest(wanted, step, step)).max() <= CLOSE, case
            made = EditedMap(tiles, tiles, edits, head)
            assert abs(made.pooled(16)[0] - largest(wanted, 16, 16)).max() <= CLOSE, case
            with monkeypatch.context() as patch:
                patch.setattr(edited, "AT_ONCE", 300_000)
                found, hidden, deep = EditedMap(tiles, tiles, edits, head).quick(16)
            assert deep == (16 if name == "negative" else 4), case
            assert abs(found - largest(wanted, 16, deep)).max() <= CLOSE, case
            if name in ("hot", "window", "words", "causal off"):
                assert np.array_equal(hidden, largest(wanted, 16, deep) == 0), case


@pytest.mark.slow
def test_a_page_of_2048_tokens():
    model, text = make(2048)
    edits = Temperature(value=0.5, layer=2), Window(radius=300, layer=2)
    clean = run(model, text).tiles[2]
    wanted = run(model, text, *edits, keep="weights").attention("decoder", 2)[1]
    made = EditedMap(clean, clean, Intervention(edits), 1)
    for step in (8, 1):
        assert abs(made.pooled(step)[0] - largest(wanted, step, step)).max() <= CLOSE


@pytest.mark.slow
def test_of_a_run_with_edits_others_can_be_made_and_taken_back(long):
    """Lower layers are edited in both runs; of the open head's layer only the later one."""
    model, text, clean = long
    low = Temperature(value=3.0, layer=0)
    before = run(model, text, low, Window(radius=2, layer=1), Temperature(value=0.0, layer=1))
    for change in (None, *EDITS.values()):
        edits = (low,) if change is None else (low, change)
        wanted = run(model, text, *edits, keep="weights").attention("decoder", 1)[1]
        made = EditedMap(before.tiles[1], clean.tiles[1], Intervention(edits), 1)
        assert abs(made.pooled(1)[0] - wanted).max() <= CLOSE


def test_what_a_head_depends_on():
    site = Site("decoder", "self", 1, 0)
    for kept in (
        Temperature(value=2.0),
        Temperature(value=2.0, layer=0, head=1),
        Window(radius=2, stack="decoder"),
        Temperature(value=2.0, layer=1, path="*"),
        Temperature(value=2.0, layer=1, stack="encoder"),
        edit.Pad(count=2),
    ):
        assert beneath(Intervention((kept,)), site) == Intervention((kept,)), kept
    for free in (
        Temperature(value=2.0, layer=1),
        Window(radius=2, layer=2),
        edit.ScaleHead(value=0.0, layer=1, head=1, stack="decoder", block="self"),
    ):
        assert not beneath(Intervention((free,)), site), free
    assert not beneath(Intervention((Temperature(value=2.0),)), Site("decoder", "self", 0, 0))


def test_refusals(long):
    tiles = long[2].tiles[1]
    hard = Intervention((Temperature(value=0.0),))
    refuses("Hard attention", EditedMap, tiles, tiles, hard, 0, error=LookupError)
    sunk = dataclasses.replace(tiles, parts=(dataclasses.replace(tiles.parts[0], sinks=True),))
    clean = Intervention()
    refuses("goes to no word", EditedMap, sunk, tiles, clean, 0, error=LookupError)
    other = run(*make(40)).tiles[1]
    refuses("other words", EditedMap, tiles, other, clean, 0, error=LookupError)
    map_ = EditedMap(tiles, tiles, clean, 0)
    refuses("The map has 1,030 rows", map_.pooled, 4, slice(0, 1032))


def test_masks_of_rows_here_and_there():
    """Rows by number are those of a slice; what is told at once is true."""
    draw = np.random.default_rng(0)
    for runs in (1, 3):
        seen = np.zeros((40, 60), bool)
        for row in seen:
            for first in draw.integers(0, 60, runs):
                row[first : first + draw.integers(0, 60)] = True
        turns = np.diff(np.pad(seen, ((0, 0), (1, 1))).astype(np.int8)) != 0
        mask = Visible(np.nonzero(turns)[1].astype(np.int32), turns.sum(1).cumsum()[None])
        assert np.array_equal(mask.columns(60), seen.any(0))
        assert np.array_equal(mask.of_head(0).tile(0, slice(0, 40), slice(0, 60)), seen)
        for first, last in draw.integers(1, 40, (50, 2)):
            rows = np.unique(draw.integers(0, 40, first))
            columns = slice(int(min(first, last)), int(max(first, last)) + 1)
            assert np.array_equal(mask.tile(0, rows, columns), seen[rows][:, columns])
            for some in (rows, slice(int(rows[0]), int(rows[0]) + 3)):
                told = mask.uniform(0, some, columns)
                cells = seen[some][:, columns]
                assert told is None or (cells == told).all()


GPT = {"encoder_layers": 0, "source_vocab": 0, "decoder_layers": 2, "max_positions": 2048}
BERT = {"encoder_layers": 2, "decoder_layers": 0, "target_vocab": 0, "max_positions": 1200}
TEXT = [5 + n * n * 13 % 31 for n in range(2048)]


def matches(found: Trace, weights: np.ndarray, block: str, head: int, **words: object) -> None:
    """Links against all cells of the matrix ``[query, key]``, sorted."""
    links = found.far_links(block, 1, head, **words)
    asked = {"distance": 64, "count": 12, "first": False, "once": False} | words
    rows, columns = np.indices(weights.shape)
    counts = abs(rows - columns) >= asked["distance"]
    counts[:, 0] &= bool(asked["first"])
    far = np.where(counts, abs(weights), 0)
    sizes = np.sort(far.max(axis=0) if asked["once"] else far.reshape(-1))[::-1][: asked["count"]]
    assert len(links) == np.count_nonzero(sizes)
    mine = links["weight"].to_numpy()
    np.testing.assert_allclose(abs(mine), sizes[: len(mine)], atol=CLOSE)
    at = links["row"].to_numpy(), links["column"].to_numpy()
    assert len(set(zip(*at, strict=True))) == len(links)
    assert not asked["once"] or len(set(at[1])) == len(links)
    assert counts[at].all() and np.array_equal(links["distance"], abs(at[0] - at[1]))
    np.testing.assert_allclose(weights[at], mine, atol=CLOSE)
    labels = found.source.labels
    assert links["key"].tolist() == [labels[n] for n in at[1]]
    saying = found.produced.labels if block == "decoder" else labels
    assert links["query"].tolist() == [saying[n] for n in at[0]]


@pytest.fixture(scope="module")
def gpt():
    return make_model(**GPT)


@pytest.fixture(scope="module")
def page(gpt) -> tuple[Trace, Trace]:
    """A page of 2,048 tokens, in tiles and as matrices."""
    whole = trace(gpt, TEXT, keep=("weights",), check=False)
    return trace(gpt, TEXT, keep=("tiles",), check=False), whole


@pytest.mark.slow
def test_links_are_those_of_the_whole_matrix(page):
    tiled, whole = page
    for head in (0, 1):
        weights = whole.attention("decoder", 1)[head]
        for words in (
            {},
            {"first": True},
            {"once": True},
            {"once": True, "count": 3000, "distance": 3},
            {"distance": 1, "count": 40},
            {"distance": 1500, "count": 3},
            {"distance": 2047, "first": True},  # one cell
            {"distance": 2048, "first": True},  # none
        ):
            matches(tiled, weights, "decoder", head, **words)
            matches(whole, weights, "decoder", head, **words)


WIDE_EDITS = (
    Temperature(value=3.0),
    Temperature(value=0.0),
    Window(radius=80),
    BlockKeys(keys=(2, 3)),
    ScaleHead(value=0.5, head=1),
    ScaleHead(value=-2.0, head=1),
    UniformHead(head=0),
)


@pytest.mark.parametrize("block", ["encoder", "decoder"])
def test_links_under_edits(block):
    model = make_model(**(GPT if block == "decoder" else BERT))
    for one in WIDE_EDITS:
        words = {"intervention": Intervention((one,)), "check": False}
        tiled = trace(model, TEXT[:300], keep=("tiles",), **words)
        whole = trace(model, TEXT[:300], keep=("weights",), **words)
        for head, once in product(range(2), (False, True)):
            weights = whole.attention(block, 1)[head]
            matches(tiled, weights, block, head, count=7, once=once)


@pytest.mark.slow
def test_the_matrix_is_never_built_and_a_search_can_be_stopped(page):
    tiled, said = page[0], []
    tracemalloc.start()
    tiled.far_links("decoder", 1, 0, on_progress=lambda done, of: said.append((done, of)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2048**2 * 4 / 2, most  # half of the matrix; it does not grow with the text
    assert said[0] == (0, 2048) and said[-1] == (2048, 2048) and len(said) == 9

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    refuses(None, tiled.far_links, "decoder", 1, 0, on_progress=stop, error=KeyboardInterrupt)


def test_refusals_of_far_links(tiny_model):
    links = trace(tiny_model, [5, 17, 6], [2, 7], keep=("tiles",), check=False).far_links
    refuses("rows of 'cross' are words of the target and its columns", links, "cross", 0, 0)
    refuses(r"1 or more; got distance=0, count=12", links, "encoder", 0, 0, distance=0)
    refuses("There is no head 7", links, "encoder", 0, 7)
    assert links("encoder", 0, 0).empty
