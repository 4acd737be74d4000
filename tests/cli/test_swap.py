"""`transformer-viz swap`: the library's own numbers, as words, a table, a card and edits."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention

from .test_cli import answer, refusal

OWN = "The animal didn't cross the street because it was too tired."
OTHER = "The animal didn't cross the street because it was too wide."


@pytest.mark.shipped
@pytest.mark.parametrize("what", ["heads", "stream"])
def test_the_numbers_are_the_librarys(what: str, tmp_path: Path) -> None:
    out = tmp_path / "swaps.csv"
    words = ["--what", what, "--best", "2", "--out", str(out)]
    said = answer("swap", "en-de", OWN, OTHER, *words).splitlines()
    found = tv.swap(tv.load("en-de", device="cpu"), OWN, OTHER, what=what)
    table = pd.read_csv(out)
    assert list(table.columns) == list(found.table.columns)
    assert table["moved"].to_numpy() == pytest.approx(found.table["moved"].to_numpy())
    best = found.ranked[0]
    assert said[1].strip().startswith(f"{found.parts[best.part][best.row, best.column]:.3f}")
    assert f"{best.part} L{best.row}" in said[1]
    assert all(note in said for note in found.notes)
    assert Intervention.from_json(said[-2]).edits == found.best(2)
    card = json.loads((tmp_path / "swaps.card.json").read_text("utf-8"))
    assert card == json.loads(json.dumps(found.card))


def test_what_is_refused(tmp_path: Path) -> None:
    assert "takes two words with a comma" in refusal("swap", "en-de", OWN, OTHER, "--words", "es")
    assert "is a folder" in refusal("swap", "en-de", OWN, OTHER, "--out", str(tmp_path))
    assert "Both sentences are the same" in refusal("swap", "en-de", OWN, OWN)
