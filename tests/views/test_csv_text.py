"""CSV text: no cell is a formula, every number reads back."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

from transformer_viz.views.csv_text import csv_text

FORMULAS = (
    *("=1+1", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"),
    '=HYPERLINK("http://evil.example","x")',
)


@pytest.mark.parametrize("word", FORMULAS)
def test_no_cell_is_a_formula(word: str) -> None:
    table = pd.DataFrame({"from": [word, "the"], word: [1.0, 2.0]})
    back = pd.read_csv(io.StringIO(csv_text(table)), dtype=str, keep_default_na=False)
    inert = "'" + word.replace("\r", " ")
    assert back["from"][0] == inert and back.columns[1] == inert
    assert back["from"][1] == "the" and len(back) == 2


def test_signs_and_numbers_stay() -> None:
    table = pd.DataFrame(
        {
            "word": ["-", "=", "--1", "-1.5", "it's"],
            "weight": np.float32([0.1, -2, 3e-9, 1, np.nan]),
        }
    )
    back = pd.read_csv(io.StringIO(csv_text(table)), dtype={"word": str, "weight": np.float32})
    assert back["word"].tolist() == ["-", "=", "'--1", "-1.5", "it's"]
    np.testing.assert_array_equal(back["weight"], table["weight"])
