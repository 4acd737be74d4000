"""The numbers in pages of the real BertViz, against those in our traces and pages."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built
from tests.support.component_stage import decoded
from tests.support.paths import ROOT

#: Written by bertviz 1.4.1 from the weights below: the data of `html_action="return"`, to 1e-6.
RECORDED = json.loads(Path(__file__).with_name("recorded.json").read_text(encoding="utf-8"))
TOKENS = ["[CLS]", "Ġcat", "[SEP]", "a", "[SEP]"]
STEP = 1 / 65534
VIEWS = (tv.head_view, tv.model_view)
#: Of its neuron view: its own copy of BERT with the weights of `small_bert`, to six digits.
NEURON = json.loads(Path(__file__).with_name("recorded_neuron.json").read_text(encoding="utf-8"))
#: What may lie between, by the row of docs/coming-from.md that says so.
MOST = {
    "weights in the trace": 5e-7,  # half of what was recorded
    "weights on the page": 8.2e-6,  # and half a step of the page
    "weights of a run": 1e-6,
    "queries and keys of a run": 1e-5,  # as large as 5.4, six digits recorded
}


def small_bert() -> Any:
    """Return a BERT of two layers of three heads, whose weights are a formula as in the record."""
    config = BertConfig(
        vocab_size=11, hidden_size=15, num_hidden_layers=2, num_attention_heads=3,
        intermediate_size=17, max_position_embeddings=13, type_vocab_size=2,
    )  # fmt: skip
    model = BertModel(config).eval()
    with torch.no_grad():
        for place, (_, weights) in enumerate(sorted(model.named_parameters())):
            steps = torch.arange(weights.numel(), dtype=torch.float64)
            weights.copy_((0.9 * torch.sin(steps * (1.7 + place / 11) + place)).view_as(weights))
    return model


def weights() -> np.ndarray:
    """Two layers of three heads, ``[layer, 1, head, row, column]``."""
    cells = np.arange(2 * 3 * 5 * 5).reshape(2, 1, 3, 5, 5) * 37 % 101 + 1.0
    return cells / cells.sum(-1, keepdims=True)


def page_runs(page: Any) -> dict[str, dict[str, np.ndarray]]:
    """The weights on a page by the name of a run, then by map, layer and head, in one row."""
    found = re.search(r'id="tv-data">([^<]+)<', page.data)
    words, arrays = decoded(zlib.decompress(base64.b64decode(found[1])))
    runs: dict[str, dict[str, np.ndarray]] = {}
    for run in words["runs"]:
        runs[run["name"]] = {}
        for name, head in run["heads"].items():
            high, low = head["arrays"][:2]
            steps = arrays[high].astype(int) * 256 + arrays[low]
            runs[run["name"]][name] = run["low"] + (1 - run["low"]) * steps * STEP
    return runs


def test_each_choice_of_sentences_has_the_weights_of_bertviz() -> None:
    for view in VIEWS:
        runs = page_runs(view(list(weights()), TOKENS, 3, html_action="return"))
        assert len(runs) == len(RECORDED["views"]) == 5
        for (name, ours), theirs in zip(runs.items(), RECORDED["views"], strict=True):
            assert name == theirs["name"].replace("->", "→"), view
            for layer, heads in enumerate(theirs["attn"]):
                for head, rows in enumerate(heads):
                    off = np.abs(ours[f"encoder {layer} {head}"] - np.ravel(rows)).max()
                    assert off < MOST["weights on the page"], (view, name, layer, head)
    trace = tv.from_attentions(list(weights()), TOKENS)
    for layer, heads in enumerate(RECORDED["views"][0]["attn"]):
        off = np.abs(trace.block("encoder", layer).weights - np.array(heads)).max()
        assert off < MOST["weights in the trace"], layer


def test_what_generate_returned_is_one_pass_on_the_page() -> None:
    asked = {"output_attentions": True, "return_dict_in_generate": True, "do_sample": False}
    asked |= {"max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0}
    ids = torch.tensor([[5, 6, 7, 8, 9], [0, 0, 5, 6, 7]])
    mask = (ids > 0).long()
    sliding, bart = built(BY_NAME["gemma2"]), built(BY_NAME["bart"])

    def named(ids: torch.Tensor) -> list[str]:
        return [f"w{n}" for n in ids.tolist()]

    def shown(theirs: Any, first: int, **words: Any) -> None:
        """Compare ``theirs``, by map; the rows before ``first`` are padding."""
        for view in VIEWS:
            ours = page_runs(view(html_action="return", **words))["All"]
            assert len(ours) == sum(len(one[0]) for layers in theirs.values() for one in layers)
            for block, layers in theirs.items():
                for layer, weights in enumerate(layers):
                    for head, rows in enumerate(weights[0].numpy()):
                        found = ours[f"{block} {layer} {head}"].reshape(rows.shape)
                        off = np.abs(found - rows)[first:].max()
                        assert off < MOST["weights on the page"], (view, block, layer, head)

    with torch.no_grad():
        one = sliding.generate(ids[:1], **asked)
        whole = sliding(one.sequences[:, :-1], output_attentions=True, use_cache=False).attentions
        for weights in (one, one.attentions):
            shown({"decoder": whole}, 0, attention=weights, tokens=named(one.sequences[0]))

        both = sliding.generate(ids, attention_mask=mask, **asked)
        seen = torch.cat((mask[1:], torch.ones(1, 4, dtype=torch.long)), 1)
        places = (seen.cumsum(-1) - 1).clamp(min=0)
        whole = sliding(
            both.sequences[1:, :-1], attention_mask=seen, position_ids=places,
            output_attentions=True, use_cache=False,
        ).attentions  # fmt: skip
        tokens = ["<pad>"] * 2 + named(both.sequences[1, 2:])
        made = tv.from_attentions(both, tokens, batch=1)
        shown({"decoder": whole}, 2, attention=made)
        for view in VIEWS:
            with pytest.raises(ValueError, match=r"batch=1, .* and give its trace as attention"):
                view(both, tokens)
            with pytest.raises(ValueError, match="leave tokens out"):
                view(made, tokens)

        pair = bart.generate(ids[:1], **asked)
        out = bart(ids[:1], decoder_input_ids=pair.sequences[:, :-1], output_attentions=True)
        blocks = ("encoder", "decoder", "cross")
        theirs = {block: getattr(out, f"{block}_attentions") for block in blocks}
        given = {f"{block}_attention": getattr(pair, f"{block}_attentions") for block in blocks}
        given |= {"encoder_tokens": named(ids[0]), "decoder_tokens": named(pair.sequences[0])}
        shown(theirs, 0, **given)


def test_a_run_has_the_numbers_of_bertvizs_neuron_view() -> None:
    """Their BERT and that of transformers are other code; the page of ours is cut from this trace
    (`test_neuron_view_holds_the_whole_sum_of_every_pair`)."""
    ids = [1, 7, 4, 9, 5, 2]
    trace = tv.trace(tv.load(small_bert()), ids, keep=("weights", "scores", "qkv"))
    assert np.shape(NEURON["queries"]) == (2, 3, len(ids), 5)
    for layer in range(2):
        block = trace.block("encoder", layer)
        for ours, theirs, row in (
            (block.weights, "attn", "weights of a run"),
            (block.q, "queries", "queries and keys of a run"),
            (block.k, "keys", "queries and keys of a run"),
        ):
            assert np.abs(ours - np.array(NEURON[theirs][layer])).max() < MOST[row], theirs


def test_the_docs_say_these_figures() -> None:
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+) \| .* \| ([\d.e-]+) \|$", text, re.MULTILINE)
    assert {row: float(most) for row, most in rows} == MOST
