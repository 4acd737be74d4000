"""Numbers to take along: what is written reads back as the very weights of the trace."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.views.conftest import make_trace
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.views.numbers import as_text, csv_numbers, manifest, npz_numbers

CLEAN, WARM = make_trace(), make_trace(temperature=3.0)


def table(text: str) -> pd.DataFrame:
    words = {"dtype": {"weight": np.float32}, "keep_default_na": False, "na_values": [""]}
    return pd.read_csv(io.StringIO(text), **words)


def archive(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return dict(file)


def test_files_have_every_weight_its_words_and_whose_they_are() -> None:
    for block in CLEAN.maps:
        weights = CLEAN.attention(block, layer=1)[2]
        read = table(csv_numbers(CLEAN, block, 1, 2))
        assert list(read.columns) == ["from", "to", "weight", "masked", "query", "key"]
        shown = read["weight"].to_numpy(np.float32).reshape(weights.shape)
        assert np.array_equal(shown, weights), block
        order = [(q, k) for q in range(weights.shape[0]) for k in range(weights.shape[1])]
        assert list(zip(read["query"], read["key"], strict=True)) == order, block
        read = archive(npz_numbers(CLEAN, block, 1, 2))
        assert read["weights"].dtype == np.float32
        assert np.array_equal(read["weights"], weights), block
        assert read["masked"].sum() == (6 if block == "decoder" else 0)
        keys = CLEAN.tokens("target" if block == "decoder" else "source").labels
        assert tuple(read["keys"]) == keys and str(read["note"]) == ""
        about = json.loads(str(read["manifest"]))
        assert (about["block"], about["layer"], about["head"]) == (block, 1, 2)
        assert about["run"]["model"] == "by hand"
    assert npz_numbers(CLEAN, "cross", 1, 0) == npz_numbers(CLEAN, "cross", 1, 0)


def test_csv_names_rows_by_what_they_produce_and_says_what_is_masked() -> None:
    read = table(csv_numbers(CLEAN, "decoder", 0, 0)).set_index(["from", "to"])
    produced, given = ["die", "Ka", "tze", "</s>"], ["<s>", "die", "Ka", "tze"]
    assert list(read.index.unique("from")) == produced
    assert list(read.index.unique("to")) == given
    hidden = {pair for pair, masked in read["masked"].items() if masked}
    assert hidden == {(produced[q], given[k]) for q in range(4) for k in range(q + 1, 4)}
    read = table(csv_numbers(CLEAN, "encoder", 1, 1, words=True, special=False))
    assert list(read["to"].unique()) == ["the", "cat", "the (2)"]
    assert np.allclose(read.groupby("query")["weight"].sum(), 1, atol=1e-6)
    edits = Intervention((Temperature(value=2.0, stack="decoder", block="cross", layer=1, head=2),))
    runs = (CLEAN, replace(CLEAN, intervention=edits))
    plain, changed = (table(csv_numbers(run, "cross", 1, 2)) for run in runs)
    assert "edits" not in plain and list(changed)[:6] == list(plain)
    assert set(changed["edits"]) == {edits.describe(CLEAN.source.labels)}


def test_files_of_a_difference_and_their_manifest() -> None:
    read = table(csv_numbers(WARM, "decoder", 1, 2, before=CLEAN))
    now, was = (t.attention("decoder", layer=1)[2].astype(np.float64) for t in (WARM, CLEAN))
    seen = np.tril(np.ones((4, 4), bool)).reshape(-1)
    assert np.allclose(read["before"], was.reshape(-1), atol=1e-7)
    assert np.allclose(read["change"][seen], (now - was).reshape(-1)[seen], atol=1e-7)
    assert read["change"][~seen].isna().all()
    found = archive(npz_numbers(WARM, "cross", 0, 1, before=CLEAN))
    now, was = (t.attention("cross", layer=0)[1].astype(np.float64) for t in (WARM, CLEAN))
    assert np.array_equal(found["before"], was.astype(np.float32))
    assert np.allclose(found["change"], now - was, atol=1e-7)
    words = replace(CLEAN.source, ids=(7, 5, 6, 6, 3), labels=("the", "c", "at", "at (2)", "</s>"))
    for numbers in (csv_numbers, npz_numbers):
        with pytest.raises(ValueError, match="different words: 'the c at at"):
            numbers(CLEAN, "cross", 0, 0, before=replace(CLEAN, source=words))
    with pytest.raises(LookupError, match="heads 0 to 2; got 3"):
        csv_numbers(CLEAN, "cross", 0, 3)
    # A manifest is plain text.
    text = as_text(manifest(CLEAN, WARM, picture="map", caption="größer → “0.5”"))
    assert text.isascii() and "\n" not in text
    read = json.loads(text)
    assert read["caption"] == "größer → “0.5”"
    assert read["compared with"] == WARM.manifest
    assert read["capture report"] == CLEAN.report.status
