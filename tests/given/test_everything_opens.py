"""Measures, views, files, the report and comparison of given weights, beside the captured run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from transformer_viz.components.qk import qk_data
from transformer_viz.components.standalone_page import header
from transformer_viz.inference.findings import findings_of
from transformer_viz.views.export.file_formats import FORMATS, exported
from transformer_viz.views.numbers import manifest, whose

pytestmark = pytest.mark.shipped
PLACE = ("cross", 1, 3)
SAID = "Weights given, not captured: nothing proves them."


@pytest.fixture(scope="module")
def own() -> tv.Trace:
    return tv.trace(tv.load("en-de"), "The cat and the dog and the cat sat.", check=False)


@pytest.fixture(scope="module")
def given(own: tv.Trace) -> tv.Trace:
    """The same weights, through the door for arrays."""
    assert own.target is not None
    return tv.from_attentions(
        own.attention("encoder"),
        own.source.pieces,
        decoder=own.attention("decoder"),
        cross=own.attention("cross"),
        target_tokens=own.target.pieces,
    )


def assert_same(ours: Any, theirs: Any, close: float, nan: bool = False) -> None:
    assert list(ours.columns) == list(theirs.columns)
    for name in ours.columns:
        if ours[name].dtype.kind == "f":
            assert np.allclose(theirs[name], ours[name], atol=close, equal_nan=nan), name
        elif not nan:
            assert (theirs[name] == ours[name]).all(), name


def test_numbers_are_those_of_the_captured_run(own: tv.Trace, given: tv.Trace) -> None:
    for block in own.maps:
        assert np.array_equal(given.thumbnail(block), own.thumbnail(block))
    assert given.heads.dtypes.equals(own.heads.dtypes)
    assert_same(own.heads, given.heads, 1e-5)
    ours, theirs = tv.metrics(own), tv.metrics(given)
    assert_same(ours, theirs, 1e-6, nan=True)
    # Which tokens are the same is read from the strings, so induction can be told.
    assert theirs["duplicate"].notna().any() and theirs["induction"].notna().any()
    assert list(tv.roles(theirs)["roles"]) == list(tv.roles(ours)["roles"])
    found = tv.compare(own, given)
    assert found.heads["divergence"].max() < 1e-9
    assert found.card["b"]["report"] == "given, not captured"
    links = tv.align(given)
    assert links.pharaoh() == tv.align(own).pharaoh()
    assert links.card["report"] == "given, not captured"


def test_files_hold_it(own: tv.Trace, given: tv.Trace, tmp_path: Path) -> None:
    given.save(tmp_path / "given.safetensors")
    again = tv.Trace.load(tmp_path / "given.safetensors")
    assert again.report == given.report and again.manifest == given.manifest
    assert again.source == given.source and again.heads.equals(given.heads)
    for block in given.maps:
        assert np.array_equal(again.attention(block), given.attention(block))
    for kind in FORMATS:
        assert len(exported(given, kind, "map", PLACE)) > 300, kind
    # The captured run names rows by what they produce, the given one by what they read.
    ours, theirs = (
        [line.split(",")[2:] for line in exported(run, "csv", "map", PLACE).decode().splitlines()]
        for run in (own, given)
    )
    assert ours == theirs


def test_report_and_pictures_claim_no_proof(own: tv.Trace, given: tv.Trace) -> None:
    for picture in ("map", "lines", "atlas"):
        drawn = tv.views.printed(given, picture, "svg", *PLACE).decode()
        assert "given, not captured" in drawn, picture
    assert SAID in whose(given)
    page = tv.views.report(given)
    assert SAID in page and "nothing proves that it used them" in page
    assert "Capture report" not in page and "green" not in page.partition("<script")[0]
    assert "Capture not checked" in tv.views.report(own)
    about = json.loads(json.dumps(manifest(given)))
    assert about["capture report"] == "given, not captured"
    assert about["run"]["given"]["decoder"]["masks"][0] == "causal"
    for drawn in (tv.views.atlas(given), tv.views.lines(given, "cross")):
        assert "nothing proves that it used them" in drawn.caption
    assert {one.status for one in findings_of(given)} == {"amber"}


LACKS: dict[str, Callable[[Any], Any]] = {
    "outcome": lambda t: tv.views.outcome(t),
    "candidates": lambda t: tv.views.candidates(t, None, 0, ["a"]),
    "vector_change": lambda t: tv.views.vector_change(t),
    "position_table": lambda t: tv.views.position_table(t, "any"),
    "position_similarity": lambda t: tv.views.position_similarity(t, "any"),
    "wavelengths": lambda t: tv.views.wavelengths(t, "any"),
    "position_waves": lambda t: tv.views.position_waves(t, "any", 0),
    "position_shift": lambda t: tv.views.position_shift(t, "any", 1, 0),
    "norm_map": lambda t: tv.views.norm_map(t, "mean", "encoder"),
    "stream_length": lambda t: tv.views.stream_length(t, "encoder", 0),
    "gain_bias": lambda t: tv.views.gain_bias(t, "any"),
    "hidden": lambda t: t.hidden("encoder"),
    "gradients": lambda t: t.gradients("cross"),
}


def test_what_needs_more_says_that_it_was_not_given(given: tv.Trace) -> None:
    for name, needs in LACKS.items():
        with pytest.raises(LookupError, match=r"were not given.* Open the model with tv\.load"):
            needs(given)
            pytest.fail(name)
    problem = header(qk_data(given, *PLACE, query=0))["problem"]
    assert problem.startswith("q, k and the scores of cross L1 were not given")
    for name, words in {"explain": (1,), "rank": (["x"],), "swap": ("a", "b")}.items():
        with pytest.raises(ValueError, match="needs a model to run, and a trace is one run"):
            getattr(tv, name)(given, *words)
            pytest.fail(name)
