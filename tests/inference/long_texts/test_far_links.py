"""Strongest links far from the diagonal: the very ones that sorting the whole matrix gives."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest

from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.core.interventions import (
    BlockKeys,
    Intervention,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)
from transformer_viz.core.trace import Trace
from transformer_viz.inference.tracing import trace

CLOSE = 2e-6
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


EDITS = (
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
    for edit in EDITS:
        words = {"intervention": Intervention((edit,)), "check": False}
        tiled = trace(model, TEXT[:300], keep=("tiles",), **words)
        whole = trace(model, TEXT[:300], keep=("weights",), **words)
        for head, once in product(range(2), (False, True)):
            weights = whole.attention(block, 1)[head]
            matches(tiled, weights, block, head, count=7, once=once)


def test_the_matrix_is_never_built_and_a_search_can_be_stopped(page):
    tiled, said = page[0], []
    tracemalloc.start()
    tiled.far_links("decoder", 1, 0, tell=lambda done, of: said.append((done, of)))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2048**2 * 4 / 2, most  # half of the matrix; it does not grow with the text
    assert said[0] == (0, 2048) and said[-1] == (2048, 2048) and len(said) == 9

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    refuses(None, tiled.far_links, "decoder", 1, 0, tell=stop, error=KeyboardInterrupt)


def test_refusals(tiny_model):
    links = trace(tiny_model, [5, 17, 6], [2, 7], keep=("tiles",), check=False).far_links
    refuses("rows of 'cross' are words of the target and its columns", links, "cross", 0, 0)
    refuses(r"1 or more; got distance=0, count=12", links, "encoder", 0, 0, distance=0)
    refuses("There is no head 7", links, "encoder", 0, 7)
    assert links("encoder", 0, 0).empty
