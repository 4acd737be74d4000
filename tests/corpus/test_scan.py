"""A shard gives the numbers of tv.metrics, and its examples the maps of tv.trace."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.corpus.scan import Scanned, scan
from transformer_viz.metrics.corpus.selection import LONGEST, SHORTEST
from transformer_viz.metrics.corpus.totals import table

pytestmark = pytest.mark.shipped

FLOAT = 1e-6  # a batch adds in another order than one sentence does
PAIRS = [
    ("The cat sat on the mat.", "Die Katze saß auf der Matte."),
    ("A dog barks at the other dog, and the other dog barks.", "Ein Hund bellt den Hund an."),
    ("Hi.", "Hallo."),
    ("The dog sat on the mat.", "Der Hund saß auf der Matte."),
    ("I know that you know that I know.", "Ich weiß, dass du weißt, dass ich weiß."),
    ("The cow sat on the mat.", "Die Kuh saß auf der Matte."),
    ("Go!", "Geh!"),
]


@cache
def opened(name: str) -> Model:
    return tv.load(name, device="cpu")


def items(name: str) -> list[tuple[int, Any]]:
    return list(enumerate(PAIRS if name.startswith("en-de") else [pair[0] for pair in PAIRS]))


@cache
def scanned(name: str, view: str = "content") -> Scanned:
    return scan(opened(name), items(name), view=view, seed=0, with_weights=True)


def same_columns(found: pd.DataFrame, wanted: pd.DataFrame, columns: list[str]) -> None:
    apart = [
        column
        for column in columns
        if not np.allclose(
            *(one[column].to_numpy(float) for one in (found, wanted)),
            atol=FLOAT,
            rtol=0,
            equal_nan=True,
        )
    ]
    assert not apart, apart


def test_the_numbers_are_those_of_metrics():
    for name in ("en-de-small", "en-lm", "en-mlm"):
        for view in ("content", "raw"):
            found = scanned(name, view)
            told = table(list(found.heads), found.totals)
            wanted = tv.metrics(opened(name), [item for _, item in items(name)], view=view)
            assert list(told.columns) == list(wanted.columns)
            assert told.iloc[:, :4].equals(wanted.iloc[:, :4])
            inner = [c for c in wanted.columns[4:] if not c.endswith(("_low", "_high"))]
            same_columns(told, wanted, inner)
            assert tv.roles(told)["roles"].notna().all()


def test_sources_alone_are_decoded_as_trace_decodes_them():
    model, sources = opened("en-de-small"), [pair[0] for pair in PAIRS]
    found = scan(model, list(enumerate(sources)), view="content", seed=0, with_weights=True)
    told, wanted = table(list(found.heads), found.totals), tv.metrics(model, sources)
    names = ("entropy", "previous", "coverage", "copying")
    same_columns(told, wanted, [n + part for n in names for part in ("", "_rows", "_chance")])
    kept = {one.sentence: one.target for one in found.examples}
    assert kept[0] == tv.translate(model, sources[0], beam=1)[0].text


def test_examples_are_the_maps_of_trace_with_their_sentences_scores():
    model, found = opened("en-de-small"), scanned("en-de-small")
    traces = {n: tv.trace(model, *pair, check=False) for n, pair in enumerate(PAIRS)}
    alone = {n: tv.metrics(run) for n, run in traces.items()}
    seen, counted = set(), 0
    for one in found.examples:
        stack, block, layer, head = found.heads[one.head]
        name, run = "cross" if block == "cross" else stack, traces[one.sentence]
        weights = run.attention(name, layer=layer)[head]
        assert np.abs(one.weights / 255 - weights).max() <= 0.5 / 255 + FLOAT
        assert one.query == (run.source if name == "encoder" else run.target).pieces
        assert one.key == (run.target if name == "decoder" else run.source).pieces
        assert (one.text, one.target) == PAIRS[one.sentence]
        seen.add(one.sentence)
        for choice in one.chosen:
            if choice.measure not in ("null", "copying"):  # a trace alone does not give these
                expected = alone[one.sentence][choice.measure].iloc[one.head]
                assert choice.score == pytest.approx(expected, abs=FLOAT)
                counted += 1
    assert counted > 500
    lengths = {n: max(len(t.source), len(t.target or ())) for n, t in traces.items()}
    assert seen <= {n for n, length in lengths.items() if SHORTEST <= length <= LONGEST}
    assert 2 not in seen and 6 not in seen


def test_one_shard_twice_is_the_same_to_the_last_bit():
    first, before = scanned("en-de-small"), torch.get_num_threads()
    torch.set_num_threads(2)
    words = {"view": "content", "seed": 0, "with_weights": True}
    again = scan(opened("en-de-small"), items("en-de-small"), **words)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    for name, part in vars(first.totals).items():
        assert part.tobytes() == getattr(again.totals, name).tobytes(), name
    assert [one.chosen for one in first.examples] == [one.chosen for one in again.examples]


def test_copying_is_asked_of_some_sentences_and_long_ones_are_left_out():
    model, words = opened("en-de-small"), {"view": "content", "seed": 0}
    some = scan(model, items("en-de-small"), copying_every=3, **words)
    told = table(list(some.heads), some.totals)
    whole = table(list(scanned("en-de-small").heads), scanned("en-de-small").totals)
    assert 0 < told["copying_rows"].sum() < whole["copying_rows"].sum()
    assert told["entropy_rows"].equals(whole["entropy_rows"])
    assert (told["ov_copying_rows"] == 0).all()
    given = [(5, PAIRS[0]), (6, ("word " * 5000, "Wort")), (7, ("word", "Wort " * 5000))]
    found = scan(model, given, **words)
    assert found.sentences == 1
    assert [number for number, _ in found.refused] == [6, 7]
    assert all("tokens and this model reads at most" in why for _, why in found.refused)
