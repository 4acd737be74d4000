"""The numbers that the real BertViz put into its pages, against those in our traces and pages."""

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
from tests.bertviz.neuron_model import IDS, small_bert
from tests.support.component_stage import decoded
from tests.support.paths import ROOT

#: Written by bertviz 1.4.1 from the weights below: the data of `html_action="return"`, to 1e-6.
RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
TOKENS = ["[CLS]", "Ġcat", "[SEP]", "a", "[SEP]"]
STEP = 1 / 65534
#: Of its neuron view: its own copy of BERT with the weights of `small_bert`, to six digits.
NEURON = json.loads(Path(__file__).with_name("recorded_neuron.json").read_text(encoding="utf-8"))
#: What may lie between, by the row of docs/coming-from.md that says so.
MOST = {
    "weights in the trace": 5e-7,  # half of what was recorded
    "weights on the page": 8.2e-6,  # and half a step of the page
    "weights of a run": 1e-6,
    "queries and keys of a run": 1e-5,  # as large as 5.4, six digits recorded
}


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
                assert np.abs(ours - np.ravel(rows)).max() < MOST["weights on the page"]


def test_a_trace_has_the_weights_of_bertviz() -> None:
    trace = tv.from_attentions(list(weights()), TOKENS)
    for layer, heads in enumerate(RECORDED["views"][0]["attn"]):
        ours = trace.block("encoder", layer).weights
        assert ours is not None
        assert np.abs(ours - np.array(heads)).max() < MOST["weights in the trace"]


def test_a_run_has_the_numbers_of_bertvizs_neuron_view() -> None:
    """Their BERT and that of transformers are other code; the page of ours is cut from this trace
    (`test_neuron_view_holds_the_whole_sum_of_every_pair`)."""
    trace = tv.trace(tv.load(small_bert()), IDS, keep=("weights", "scores", "qkv"))
    assert np.shape(NEURON["queries"]) == (2, 3, len(IDS), 5)
    for layer in range(2):
        block = trace.block("encoder", layer)
        for ours, theirs, row in (
            (block.weights, "attn", "weights of a run"),
            (block.q, "queries", "queries and keys of a run"),
            (block.k, "keys", "queries and keys of a run"),
        ):
            assert ours is not None
            assert np.abs(ours - np.array(NEURON[theirs][layer])).max() < MOST[row]


def test_the_docs_say_these_figures() -> None:
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| .* \| ([\d.e-]+) \|$", text, re.MULTILINE)
    assert {row: float(most) for row, most in rows} == MOST
