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


@pytest.mark.shipped
def test_the_numbers_are_the_librarys(tmp_path: Path):
    assert METHODS and set(METHODS) == set(captions.METHODS)
    out, model = tmp_path / "why.csv", tv.load("en-de-small", device="cpu")
    for method in ("removal", "lens", "logits"):
        words = ["--word", "1", "--method", method, "--out", str(out)]
        said = answer("explain", "en-de-small", TEXT, *words).splitlines()
        found = tv.explain(model, TEXT, 1, method=method)
        table, column = pd.read_csv(out), "logit" if method == "lens" else "value"
        assert list(table.columns) == list(found.values.columns), method
        numbers = found.values[column].to_numpy()
        assert table[column].to_numpy() == pytest.approx(numbers, abs=1e-5), method
        assert f"[1 {found.word}]" in said[0], method
        assert found.caption in "\n".join(said), method
        if method == "removal":
            first = found.values.iloc[0]
            line = next(line for line in said if line.startswith(f"{first['label']} "))
            assert f"{first['value']:.4f}"[:-1] in line
        card = json.loads((tmp_path / "why.card.json").read_text("utf-8"))
        assert card == json.loads(json.dumps(found.card)), method
    # the deletion stands beside chance
    said = answer("explain", "en-de-small", TEXT, "--method", "removal", "--deletion").splitlines()
    head = next(n for n, line in enumerate(said) if "by chance" in line)
    found = tv.explain(model, TEXT, 0, method="removal").deletion()
    own = found.table[found.table["method"] == "removal"]
    assert len(said) - head == len(own)
    assert float(said[head + 1].split()[1]) == pytest.approx(own["loss"].iloc[1], abs=1e-3)
    for words, why in (
        (("--word", "99"), "There is no word 99; this output has 0 to"),
        (("--out", str(tmp_path)), "is a folder"),
        (("--method", "lens", "--deletion"), "is not judged"),
    ):
        assert why in refusal("explain", "en-de-small", TEXT, *words)
