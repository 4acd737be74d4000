"""The numbers and words that the real BertViz put into its page, against those in ours."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from tests.support.component_stage import decoded

#: Written by bertviz 1.4.1 from the weights below: the data of `html_action="return"`, to 1e-6.
RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
TOKENS = ["[CLS]", "Ġcat", "[SEP]", "a", "[SEP]"]
STEP = 1 / 65534


def weights() -> np.ndarray:
    """Two layers of three heads, ``[layer, 1, head, row, column]``."""
    cells = np.arange(2 * 3 * 5 * 5).reshape(2, 1, 3, 5, 5) * 37 % 101 + 1.0
    return cells / cells.sum(-1, keepdims=True)


@pytest.mark.parametrize("view", [tv.head_view, tv.model_view], ids=lambda view: view.__name__)
def test_each_choice_of_sentences_has_the_weights_of_bertviz(view: Callable[..., Any]) -> None:
    page = view(list(weights()), TOKENS, 3, html_action="return")
    found = re.search(r'id="tv-data">([^<]+)<', page.data)
    assert found
    words, arrays = decoded(zlib.decompress(base64.b64decode(found[1])))
    assert len(words["runs"]) == len(RECORDED["views"]) == 5
    for run, theirs in zip(words["runs"], RECORDED["views"], strict=True):
        assert run["name"] == theirs["name"].replace("->", "→")
        for layer, heads in enumerate(theirs["attn"]):
            for head, rows in enumerate(heads):
                high, low = run["heads"][f"encoder {layer} {head}"]["arrays"][:2]
                steps = arrays[high].astype(int) * 256 + arrays[low]
                ours = run["low"] + (1 - run["low"]) * steps * STEP
                assert np.abs(ours - np.ravel(rows)).max() < STEP / 2 + 1e-6
