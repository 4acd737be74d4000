"""A search as it is sent to the browser: every array against the search itself."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.component_stage import decoded
from transformer_viz.components.play import PlayLook, play_data
from transformer_viz.core.search_tree import Search
from transformer_viz.inference.search_recorder import record

SOURCE = [5, 9, 31, 7, 3]
PIECES = [f"w{n}" for n in range(41)]
WORDS = [f"s{n}" for n in SOURCE]
WAYS = {"greedy": {}, "sample": {"sample": 0.8, "seed": 2}, "beam": {"beam": 3}}


@pytest.fixture(params=WAYS)
def search(request, tiny_model) -> Search:
    return record(tiny_model, SOURCE, max_tokens=6, **WAYS[request.param])


def test_the_arrays_are_those_of_the_search(search):
    header, arrays = decoded(play_data(search, PIECES, WORDS, PlayLook(layer=1), about="a"))
    names = header["names"]
    assert [names[n] for n in arrays["tokens"]] == [PIECES[n] for n in search.tokens]
    assert [[names[n] for n in row] for row in arrays["top"]] == [
        [PIECES[n] for n in row] for row in search.top_tokens
    ]
    for name in ("steps", "parents", "ranks", "fates", "owners", "keys"):
        assert np.array_equal(arrays[name], getattr(search, name))
    for name in ("logs", "totals", "scores", "chances", "top_logs", "top_chances"):
        wanted = getattr(search, name).astype(np.float32)
        assert np.array_equal(arrays[name], wanted, equal_nan=True)
    assert np.array_equal(arrays["rows"], search.rows[1])


def test_the_header_says_how_it_was_searched(search):
    header, _ = decoded(
        play_data(
            search, PIECES, WORDS, PlayLook(head=1, pooled=False, played=3), about="a", before="x"
        )
    )
    assert header["way"] == {1: "greedy", 3: "beam"}[search.beam] or header["way"] == "sample"
    assert (header["drawing"] is None) == (header["way"] != "sample")
    assert header["best"] == list(search.best) and header["written"] == list(search.texts)
    assert header["chosen"] == search.best[0] and header["played"] == 3
    assert (header["layer"], header["head"], header["pooled"]) == (0, 1, False)
    assert header["words"] == WORDS and header["before"] == "x"
    assert json.dumps(header["names"]) == json.dumps(sorted(header["names"], key=PIECES.index))


def test_only_what_is_there_can_be_shown(search):
    with pytest.raises(LookupError, match="There are layers 0 to 1; got 2"):
        play_data(search, PIECES, WORDS, PlayLook(layer=2), about="a")
    with pytest.raises(LookupError, match=r"This search weighed \d+ texts"):
        play_data(search, PIECES, WORDS, PlayLook(chosen=10**6), about="a")


def test_a_play_is_small(tiny_model):
    """One layer's rows and four-byte numbers: 14 bytes a candidate, and the rows themselves."""
    search = record(tiny_model, SOURCE, 4, max_tokens=12)
    data = play_data(search, PIECES, WORDS, about="a")
    passes, candidates = len(search.owners), len(search.steps)
    numbers = 4 * (candidates * 8 + passes * (2 + 30)) + candidates + search.rows[0].nbytes
    assert len(data) < numbers + 6000  # the header: names, texts, two palettes
