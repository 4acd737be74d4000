"""`transformer-viz explain`: the library's own numbers, as bars, a table and a card."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import transformer_viz as tv
from transformer_viz.cli.explain import METHODS
from transformer_viz.inference.explanation import captions

from .test_cli import answer, refusal

TEXT = "The cat sat."


def test_the_methods_are_the_librarys() -> None:
    assert METHODS and set(METHODS) == set(captions.METHODS)


@pytest.mark.shipped
@pytest.mark.parametrize("method", ["removal", "lens", "logits"])
def test_the_numbers_are_the_librarys(method: str, tmp_path: Path) -> None:
    out = tmp_path / "why.csv"
    words = ["--word", "1", "--method", method, "--out", str(out)]
    said = answer("explain", "en-de-small", TEXT, *words).splitlines()
    found = tv.explain(tv.load("en-de-small", device="cpu"), TEXT, 1, method=method)
    table = pd.read_csv(out)
    column = "logit" if method == "lens" else "value"
    assert list(table.columns) == list(found.values.columns)
    assert table[column].to_numpy() == pytest.approx(found.values[column].to_numpy(), abs=1e-5)
    assert f"[1 {found.word}]" in said[0]
    assert found.caption in "\n".join(said)
    if method == "removal":
        first = found.values.iloc[0]
        line = next(line for line in said if line.startswith(f"{first['label']} "))
        assert f"{first['value']:.4f}"[:-1] in line
    card = json.loads((tmp_path / "why.card.json").read_text("utf-8"))
    assert card == json.loads(json.dumps(found.card))


@pytest.mark.shipped
def test_the_deletion_stands_beside_chance() -> None:
    said = answer("explain", "en-de-small", TEXT, "--method", "removal", "--deletion").splitlines()
    head = next(n for n, line in enumerate(said) if "by chance" in line)
    found = tv.explain(tv.load("en-de-small", device="cpu"), TEXT, 0, method="removal").deletion()
    own = found.table[found.table["method"] == "removal"]
    assert len(said) - head == len(own)
    assert float(said[head + 1].split()[1]) == pytest.approx(own["loss"].iloc[1], abs=1e-3)


@pytest.mark.shipped
def test_what_is_refused(tmp_path: Path) -> None:
    assert "There is no word 99; this output has 0 to" in refusal(
        "explain", "en-de-small", TEXT, "--word", "99"
    )
    assert "is a folder" in refusal("explain", "en-de-small", TEXT, "--out", str(tmp_path))
    assert "is not judged" in refusal(
        "explain", "en-de-small", TEXT, "--method", "lens", "--deletion"
    )
