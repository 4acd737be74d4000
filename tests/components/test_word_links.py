"""An alignment as lines, on Python's side: each weight once, in the kind that it is of."""

from __future__ import annotations

import numpy as np
import pytest

import transformer_viz as tv
from tests.metrics.alignment.test_alignment import IDENTITY, WRITES, across, looking
from tests.views.conftest import make_trace
from transformer_viz.components.word_links import word_links_data

from ..support.component_stage import decoded


def test_linked_pairs_and_the_rest_are_two_kinds() -> None:
    trace = across(0.7 * WRITES + 0.3 * looking([1, 2, 3, 4, 5, 0]))
    found = tv.align(trace)
    header, arrays = decoded(word_links_data(trace, found, picked=(1, 2), top=3, threshold=0.1))
    links, rest = arrays["weights"]
    assert np.array_equal(links + rest, found.weights)
    assert {(s, t) for t, s in np.argwhere(links).tolist()} == set(IDENTITY) == set(found.pairs)
    assert not (links * rest).any() and rest.max() == pytest.approx(0.3)
    assert [one["name"] for one in header["heads"]] == ["links", "other weight"]
    assert header["columns"]["labels"] == [f"w{n}" for n in range(5)]
    assert (header["token"], header["key"]) == (1, 2)
    assert (header["top"], header["threshold"], header["unread"]) == (3, 0.1, [])


def test_words_are_known_by_the_rows_that_write_them() -> None:
    """Source: the | c at | the; target: die | Ka tze, which rows 0 and 1, 2 produce."""
    trace = make_trace()
    for shift in ("out", "in"):
        header, _ = decoded(word_links_data(trace, tv.align(trace, shift)))
        assert header["columns"]["groups"] == [[0], [1, 2], [3]]
        assert header["rows"]["sentence"] == "produced"
        assert header["rows"]["groups"] == [[0], [1, 2]]
        assert header["rows"]["labels"] == ["die", "Katze"]


def test_words_that_nobody_read_are_marked() -> None:
    trace = across(looking([0, 0, 0, 0, 0, 5]))
    found = tv.align(trace)
    header, _ = decoded(word_links_data(trace, found))
    assert header["unread"] == [1, 2, 3, 4] == list(found.unread)
    assert "read by nobody" in header["note"]
