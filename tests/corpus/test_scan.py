"""A shard gives the numbers of tv.metrics, and its examples the maps of tv.trace."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.corpus.scan import Scanned, scan
from transformer_viz.metrics.corpus.selection import LONGEST, SHORTEST
from transformer_viz.metrics.corpus.totals import table

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
PARTS = ("", "_rows", "_chance")


@cache
def opened(name: str) -> Model:
    return tv.load(name, device="cpu")


@cache
def scanned(name: str, view: str = "content") -> Scanned:
    return scan(opened(name), items(name), view=view, seed=0, with_weights=True)


def items(name: str) -> list[tuple[int, Any]]:
    return list(enumerate(PAIRS if name.startswith("en-de") else [pair[0] for pair in PAIRS]))


@pytest.mark.shipped
@pytest.mark.parametrize("name", ["en-de-small", "en-lm", "en-mlm"])
@pytest.mark.parametrize("view", ["content", "raw"])
def test_the_numbers_are_those_of_metrics(name: str, view: str) -> None:
    found = scanned(name, view)
    told = table(list(found.heads), found.totals)
    witness = tv.metrics(opened(name), [item for _, item in items(name)], view=view)
    assert list(told.columns) == list(witness.columns)
    assert told.iloc[:, :4].equals(witness.iloc[:, :4])
    for column in witness.columns[4:]:
        if column.endswith(("_low", "_high")):
            continue
        a, b = told[column].to_numpy(float), witness[column].to_numpy(float)
        assert np.allclose(a, b, atol=FLOAT, rtol=0, equal_nan=True), column
    assert tv.roles(told)["roles"].notna().all()


@pytest.mark.shipped
def test_sources_alone_are_decoded_as_trace_decodes_them() -> None:
    model = opened("en-de-small")
    sources = [pair[0] for pair in PAIRS]
    found = scan(model, list(enumerate(sources)), view="content", seed=0, with_weights=True)
    told, witness = table(list(found.heads), found.totals), tv.metrics(model, sources)
    for name in ("entropy", "previous", "coverage", "copying"):
        for part in PARTS:
            a, b = (t[name + part].to_numpy(float) for t in (told, witness))
            assert np.allclose(a, b, atol=FLOAT, rtol=0, equal_nan=True), name + part
    kept = {one.sentence: one.target for one in found.examples}
    assert kept[0] == tv.translate(model, sources[0], beam=1)[0].text


@pytest.mark.shipped
def test_examples_are_the_maps_of_trace() -> None:
    model, found = opened("en-de-small"), scanned("en-de-small")
    traces = {n: tv.trace(model, *PAIRS[n], check=False) for n in range(len(PAIRS))}
    seen = set()
    for one in found.examples:
        stack, block, layer, head = found.heads[one.head]
        name = "cross" if block == "cross" else stack
        run = traces[one.sentence]
        weights = run.attention(name, layer=layer)[head]
        assert np.abs(one.weights / 255 - weights).max() <= 0.5 / 255 + FLOAT
        assert run.target is not None
        assert one.query == (run.source if name == "encoder" else run.target).pieces
        assert one.key == (run.target if name == "decoder" else run.source).pieces
        assert (one.text, one.target) == PAIRS[one.sentence]
        seen.add(one.sentence)
    long_enough = {
        n
        for n, t in traces.items()
        if SHORTEST <= max(len(t.source), len(t.target or ())) <= LONGEST
    }
    assert seen <= long_enough and 2 not in seen and 6 not in seen


@pytest.mark.shipped
def test_scores_of_examples_are_those_of_the_sentence() -> None:
    model, found = opened("en-de-small"), scanned("en-de-small")
    alone = {n: tv.metrics(tv.trace(model, *PAIRS[n], check=False)) for n in range(len(PAIRS))}
    counted = 0
    for one in found.examples:
        for choice in one.chosen:
            if choice.measure in ("null", "copying"):  # a trace alone does not give them
                continue
            expected = alone[one.sentence][choice.measure].iloc[one.head]
            assert choice.score == pytest.approx(expected, abs=FLOAT)
            counted += 1
    assert counted > 500


@pytest.mark.shipped
def test_one_shard_twice_is_the_same_to_the_last_bit() -> None:
    first = scanned("en-de-small")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    again = scan(opened("en-de-small"), items("en-de-small"), view="content", seed=0,
                 with_weights=True)  # fmt: skip
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)
    for name, part in vars(first.totals).items():
        assert part.tobytes() == getattr(again.totals, name).tobytes(), name
    assert [one.chosen for one in first.examples] == [one.chosen for one in again.examples]


@pytest.mark.shipped
def test_copying_is_asked_of_some_sentences() -> None:
    model = opened("en-de-small")
    some = scan(model, items("en-de-small"), view="content", seed=0, copying_every=3)
    told = table(list(some.heads), some.totals)
    whole = table(list(scanned("en-de-small").heads), scanned("en-de-small").totals)
    assert 0 < told["copying_rows"].sum() < whole["copying_rows"].sum()
    assert told["entropy_rows"].equals(whole["entropy_rows"])
    assert (told["ov_copying_rows"] == 0).all()


@pytest.mark.shipped
def test_what_the_model_cannot_read_is_left_out_and_said() -> None:
    model = opened("en-de-small")
    given = [(5, PAIRS[0]), (6, ("word " * 5000, "Wort")), (7, ("word", "Wort " * 5000))]
    found = scan(model, given, view="content", seed=0)
    assert found.sentences == 1
    assert [number for number, _ in found.refused] == [6, 7]
    assert all("tokens and this model reads at most" in why for _, why in found.refused)
