"""`transformer-viz compare`: the library's own numbers of every kind of sides, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention

from .test_cli import answer, refusal

TEXT = "The cat sat on the mat."
SIDES = ("en-de-small/step-4096", "en-de-small")
EDIT = '{"edits": [{"kind": "uniform_head", "stack": "encoder", "layer": 0, "head": 1}]}'


@pytest.mark.shipped
def test_two_checkpoints(tmp_path: Path):
    out, matched = tmp_path / "heads.csv", tmp_path / "pairs.csv"
    words = ["--sentence", TEXT, "--out", str(out), "--matched", str(matched)]
    said = answer("compare", *SIDES, *words).splitlines()
    found = tv.compare(*SIDES, TEXT)
    pd.testing.assert_frame_equal(pd.read_csv(out), found.heads, check_dtype=False)
    pairs = pd.read_csv(matched)
    assert pairs["other_head"].tolist() == found.matched["other_head"].tolist()
    assert pairs["margin"].to_numpy() == pytest.approx(found.matched["margin"].to_numpy())
    first = found.heads.sort_values("divergence", ascending=False, kind="stable").iloc[0]
    assert said[1].strip().startswith(f"{first.divergence:.3f}")
    assert said[1].endswith(f"{first.stack} {first.block} L{first.layer} H{first['head']}")
    assert all(note in said for note in found.notes)
    assert json.loads((tmp_path / "heads.card.json").read_text("utf-8")) == found.card


@pytest.mark.shipped
def test_two_sentences_interventions_and_traces(tmp_path: Path):
    out, other = tmp_path / "heads.csv", "The dog sat on the mat."
    model, edit = tv.load("en-de-small", device="cpu"), Intervention.from_json(EDIT)
    runs = [str(tmp_path / f"{number}.safetensors") for number in range(2)]
    for text, path in zip((TEXT, other), runs, strict=True):
        tv.trace(model, text, check=False).save(path)
    named = ("--model", "en-de-small")
    for words, found in (
        ((TEXT, other, *named), tv.compare(TEXT, other, model=model)),
        (("none", EDIT, *named, "--sentence", TEXT), tv.compare(None, edit, TEXT, model=model)),
        (runs, tv.compare(*map(tv.Trace.load, runs))),
    ):
        answer("compare", *words, "--out", str(out))
        pd.testing.assert_frame_equal(pd.read_csv(out), found.heads, check_dtype=False)


@pytest.mark.shipped
def test_a_file_of_sentences_has_intervals(tmp_path: Path):
    (tmp_path / "some.txt").write_text("The cat sat.\nA dog was tired.\n", "utf-8")
    said = answer("compare", *SIDES, "--file", str(tmp_path / "some.txt"))
    found = tv.compare(*SIDES, ["The cat sat.", "A dog was tired."])
    first = found.heads.sort_values("divergence", ascending=False, kind="stable").iloc[0]
    assert f"{first.low:.3f} to {first.high:.3f}" in said.splitlines()[1]


def test_what_is_refused(tmp_path: Path):
    for words, said in (
        (SIDES, "no file that transformer-viz trace --out wrote"),
        ((*SIDES, "--sentence", TEXT, "--file", "x.txt"), "--sentence and --file both came"),
        (("x", SIDES[1], "--sentence", TEXT), "There is no checkpoint 'x'"),
        ((*SIDES, "--sentence", TEXT, "--out", str(tmp_path)), "is a folder"),
    ):
        assert said in refusal("compare", *words)
