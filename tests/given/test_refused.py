"""What is no attention is refused with the layer, the head and the row, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv

from .test_from_attentions import WEIGHTS, WORDS, rows


def with_cell(value: float) -> np.ndarray:
    changed = WEIGHTS.astype(np.float64)
    changed[1, 2, 3, 4] = value
    return changed


REFUSED: dict[str, tuple[Any, str]] = {
    "nan": (with_cell(np.nan), "layer 1, head 2, row 3, column 4 holds nan; .*cut padding off"),
    "inf": (with_cell(np.inf), "layer 1, head 2, row 3, column 4 holds inf"),
    "negative": (with_cell(-0.2), "column 4 holds -0.2; a weight is never negative"),
    "too large": (with_cell(1.5), "column 4 holds 1.5; a weight is at most 1"),
    "sums": (with_cell(0.9), r"layer 1, head 2, row 3 sums to .* instead of 1 \(allowed: 1e-04"),
    "dropout": (WEIGHTS * 0.5, r"row \d sums to 0.5 .*model.eval"),
    "fewer rows": (WEIGHTS[..., :6, :], "layer 0, has 6 rows and 7 columns, and 7 tokens came"),
    "two axes": (WEIGHTS[0, 0], r"shape \[7, 7\]; expected \[layer, head, row, column\]"),
    "a list of matrices": ([WEIGHTS[0, 0]], r"layer 0 has the shape \[7, 7\]; expected \[head"),
    "six axes": (WEIGHTS[None, None], "has the shape"),
    "none": ((None, None), "holds no weights: fused attention"),
    "empty": ((), "holds no weights: fused attention .*attn_implementation"),
    "nothing": (None, "No weights came: give attentions="),
    "words": ([["a"]], "is no array of numbers"),
    "text": ("weights", "is no array of numbers but a str"),
    "ragged": ([[[[0.5, 0.5], [1.0]]]], "is no array of numbers"),
    "complex": (WEIGHTS.astype(np.complex64), "holds complex64, and weights are floats"),
    "no heads": (WEIGHTS[:, :0], "is empty"),
    "batch": (torch.tensor(WEIGHTS)[:, None].repeat(1, 2, 1, 1, 1), "batch of 2 sequences"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_attention_is_refused(name: str) -> None:
    weights, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        tv.from_attentions(weights, WORDS)


TARGET = ["<s>", "a", "b"]
SIDES: dict[str, tuple[dict[str, Any], str]] = {
    "no words": ({"tokens": []}, "tokens= is empty"),
    "one text": ({"tokens": "the cat"}, "tokens= is one text; give its tokens"),
    "missing": ({"tokens": None}, "tokens= is missing"),
    "two rows": ({"tokens": [WORDS, WORDS]}, "has 2 rows; give those of one sequence"),
    "floats": ({"tokens": [0.5] * 7}, "takes strings, or ids with tokenizer="),
    "cross alone": ({"cross": rows(2, 2, 3, 7)}, "give its tokens, the start token too"),
    "target alone": ({"target_tokens": TARGET}, "came without decoder= or cross="),
    "both": ({"decoder": rows(2, 2, 3, 3)}, "both came without target_tokens="),
    "cross rows": (
        {"cross": rows(2, 2, 4, 7), "target_tokens": TARGET},
        r"cross, layer 0, has 4 rows and 7 columns, and there are 3 target tokens \(the rows\)",
    ),
}


@pytest.mark.parametrize("name", SIDES)
def test_sides_that_do_not_fit_are_refused(name: str) -> None:
    words, said = SIDES[name]
    with pytest.raises(ValueError, match=said):
        tv.from_attentions(WEIGHTS, **({"tokens": WORDS} | words))


def test_rows_may_sum_to_less_where_that_is_said() -> None:
    from transformer_viz.core.given.facts import given_facts

    found = tv.from_attentions(WEIGHTS * 0.5, WORDS, check_sums=False)
    assert found.report.row_sum_error == pytest.approx(0.5)
    assert "Rows are up to 0.5 away from a sum of 1." in given_facts(found)
    with pytest.raises(ValueError, match="never negative"):
        tv.from_attentions(-WEIGHTS, WORDS, check_sums=False)
