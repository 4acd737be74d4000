"""BertViz's three views: its very signatures, and what our pages show for each argument."""

from __future__ import annotations

import base64
import inspect
import json
import re
import sys
import types
import zlib
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from transformer_viz.bertviz.arguments import runs_of_pair
from transformer_viz.bertviz.shown import HtmlPage
from transformer_viz.components.standalone_page import header

#: As `inspect.signature` tells of the installed bertviz 1.4.1.
HEAD_VIEW = (
    "(attention=None, tokens=None, sentence_b_start=None, prettify_tokens=True, layer=None, "
    "heads=None, encoder_attention=None, decoder_attention=None, cross_attention=None, "
    "encoder_tokens=None, decoder_tokens=None, include_layers=None, html_action='view')"
)
MODEL_VIEW = (
    "(attention=None, tokens=None, sentence_b_start=None, prettify_tokens=True, "
    "display_mode='dark', encoder_attention=None, decoder_attention=None, cross_attention=None, "
    "encoder_tokens=None, decoder_tokens=None, include_layers=None, include_heads=None, "
    "html_action='view')"
)
NEURON_VIEW = (
    "(model, model_type, tokenizer, sentence_a, sentence_b=None, display_mode='dark', layer=None, "
    "head=None, html_action='view')"
)
LAYERS, HEADS = 3, 11
TOKENS = ["[CLS]", "the", "Ġcat", "[SEP]", "a", "Ġdog", "[SEP]"]


def rows(*shape: int) -> np.ndarray:
    made = np.random.default_rng(shape[-1]).random(shape) + 0.01
    return made / made.sum(-1, keepdims=True)


WEIGHTS = [rows(1, HEADS, 7, 7) for _ in range(LAYERS)]


def given(page: HtmlPage | None) -> dict[str, Any]:
    """The words of the data that a page holds."""
    assert page is not None
    found = re.search(r'id="tv-data">([^<]+)<', page.data)
    assert found
    return header(zlib.decompress(base64.b64decode(found[1])))


def head(**words: Any) -> dict[str, Any]:
    return given(tv.head_view(WEIGHTS, TOKENS, html_action="return", **words))


def model(**words: Any) -> dict[str, Any]:
    return given(tv.model_view(WEIGHTS, TOKENS, html_action="return", **words))


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("head_view", HEAD_VIEW), ("model_view", MODEL_VIEW), ("neuron_view", NEURON_VIEW)],
)
def test_the_signatures_are_bertvizs(name: str, theirs: str) -> None:
    ours = inspect.signature(getattr(tv, name))
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in ours.parameters.values()]
    assert str(inspect.Signature(bare)) == theirs


def test_head_view_lays_the_heads_of_a_layer_over_each_other() -> None:
    found = head()
    assert found["view"] == "lines" and found["opened"] == ["encoder", 0, 0]
    assert found["overlaid"] == [[0, n] for n in range(1, 8)]  # eight can be told apart
    page = tv.head_view(WEIGHTS, TOKENS, html_action="return")
    assert page is not None and "8 of 11 heads are drawn at once" in page.data
    found = head(layer=2, heads=[4, 9])
    assert found["opened"] == ["encoder", 2, 4] and found["overlaid"] == [[2, 9]]


def test_model_view_opens_a_map() -> None:
    found = model()
    assert found["view"] == "map" and len(found["runs"]) == 1
    assert len(found["runs"][0]["heads"]) == LAYERS * HEADS


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_display_mode_is_the_pages(mode: str) -> None:
    page = tv.model_view(WEIGHTS, TOKENS, display_mode=mode, html_action="return")
    assert page is not None and f'data-theme="{mode}"' in page.data
    left = tv.model_view(WEIGHTS, TOKENS, html_action="return")
    assert left is not None and 'data-theme="dark"' in left.data


def test_layers_and_heads_can_be_included() -> None:
    kept = model(include_layers=[0, 2], include_heads=[1, 5])["runs"][0]["heads"]
    assert set(kept) == {f"encoder {layer} {n}" for layer in (0, 2) for n in (1, 5)}
    kept = head(include_layers=[1])
    assert kept["opened"][1] == 1 and len(kept["runs"][0]["heads"]) == HEADS


def test_prettify_tokens_leaves_marks_out_or_in() -> None:
    def labels(found: dict[str, Any]) -> list[str]:
        return list(found["runs"][0]["blocks"]["encoder"]["map"]["rows"]["labels"])

    assert labels(head())[:3] == ["[CLS]", "the", "cat"]
    assert labels(head(prettify_tokens=False))[:3] == ["[CLS]", "the", "Ġcat"]


def test_sentence_pairs_can_be_filtered() -> None:
    found = head(sentence_b_start=4)
    assert [run["name"] for run in found["runs"]] == [
        "All",
        "Sentence A → Sentence A",
        "Sentence B → Sentence B",
        "Sentence A → Sentence B",
        "Sentence B → Sentence A",
    ]
    sides = [run["blocks"]["encoder"]["map"] for run in found["runs"]]
    first, second = ["[CLS]", "the", "cat", "[SEP]"], ["a", "dog", "[SEP] (2)"]
    assert sides[3]["rows"]["labels"] == first and sides[3]["columns"]["labels"] == second
    assert sides[4]["rows"]["labels"] == second and sides[4]["columns"]["labels"] == first
    # Rows and columns are other words, so they do not light up together.
    assert sides[3]["rows"]["sentence"] != sides[3]["columns"]["sentence"]


def test_the_parts_of_a_pair_are_slices_of_the_weights() -> None:
    trace = tv.from_attentions(WEIGHTS, TOKENS)
    a, b = slice(0, 4), slice(4, 7)
    for run, (row, column) in zip(
        runs_of_pair(trace, 4)[1:], [(a, a), (b, b), (a, b), (b, a)], strict=True
    ):
        for layer, weights in enumerate(WEIGHTS):
            wanted = weights[0][:, row, column].astype(np.float32)
            assert np.array_equal(run.trace.block("encoder", layer).weights, wanted)
        tiles = np.rint(wanted * np.float32(255))
        assert np.array_equal(run.trace.thumbnail("encoder")[-1], tiles)


def test_two_stacks() -> None:
    source, target = ["▁a", "▁b", "</s>"], ["<s>", "▁c"]
    weights: dict[str, Any] = {
        "encoder_attention": [rows(1, 2, 3, 3)],
        "decoder_attention": [rows(1, 2, 2, 2)],
        "cross_attention": [rows(1, 2, 2, 3)],
        "encoder_tokens": source,
        "decoder_tokens": target,
    }
    for view in (tv.head_view, tv.model_view):
        found = given(view(html_action="return", **weights))
        assert set(found["runs"][0]["blocks"]) == {"encoder", "decoder", "cross"}
    alone = {name: weights[name] for name in ("decoder_attention", "decoder_tokens")}
    assert set(given(tv.head_view(html_action="return", **alone))["runs"][0]["blocks"]) == {
        "decoder"
    }


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "No weights came"),
    "no tokens": ({"attention": WEIGHTS}, "attention came without tokens"),
    "both": (
        {"attention": WEIGHTS, "tokens": TOKENS, "encoder_tokens": TOKENS},
        "attention is for models of one stack",
    ),
    "encoder alone": ({"encoder_attention": WEIGHTS}, "need encoder_tokens"),
    "cross alone": (
        {"cross_attention": WEIGHTS, "encoder_tokens": TOKENS},
        "need decoder_tokens",
    ),
    "action": ({"html_action": "show"}, "html_action is 'view' or 'return'; got 'show'"),
    "start": (
        {"attention": WEIGHTS, "tokens": TOKENS, "sentence_b_start": 7},
        "1 to 6; got 7",
    ),
    "layers": (
        {"attention": WEIGHTS, "tokens": TOKENS, "include_layers": [0, 3]},
        "include_layers counts from 0 to 2 here; got 3",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_do_not_fit(name: str) -> None:
    words, said = REFUSED[name]
    for view in (tv.head_view, tv.model_view):
        with pytest.raises(ValueError, match=re.escape(said)):
            view(**words)


def test_head_view_refuses_what_is_not_there() -> None:
    for words, said in (
        ({"layer": 3}, "layer counts from 0 to 2 here; got 3"),
        ({"heads": [11]}, "heads counts from 0 to 10 here; got 11"),
        ({"heads": []}, "heads is empty"),
        ({"layer": 0, "include_layers": [1]}, "layer 0 is not among include_layers"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            head(**words)
    with pytest.raises(ValueError, match="display_mode is 'light' or 'dark'; got 'grey'"):
        model(display_mode="grey")


def test_a_page_says_that_nothing_proves_it_and_needs_no_network() -> None:
    page = tv.head_view(WEIGHTS, TOKENS, html_action="return")
    assert page is not None and "nothing proves that it used them" in page.data
    assert "https://" not in page.data.partition("<script")[0]
    assert page.data.startswith("<!doctype html>")
    assert page._repr_html_().startswith("<iframe srcdoc=")


def test_in_a_notebook_it_shows_itself_and_returns_nothing(monkeypatch: Any) -> None:
    shown: list[Any] = []
    shell = types.SimpleNamespace(get_ipython=object)
    display = types.SimpleNamespace(display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert tv.head_view(WEIGHTS, TOKENS) is None
    assert len(shown) == 1 and isinstance(shown[0], HtmlPage)
    shell.get_ipython = lambda: None
    assert isinstance(tv.head_view(WEIGHTS, TOKENS), HtmlPage)  # a plain Python


@pytest.mark.shipped
def test_neuron_view_holds_the_whole_sum_of_every_pair() -> None:
    from transformer_viz.components.qk import qk_data

    opened = tv.load("en-lm")
    text = "The cat sat."
    page = tv.neuron_view(opened, "gpt2", None, text, layer=1, head=2, html_action="return")
    found = given(page)
    run = tv.trace(opened, text, keep=("scores", "qkv"), check=False)
    count = len(run.source)
    assert found["part"] == "neuron" and found["shape"] == [count, count]
    assert found["heads"][0] == ["decoder", 1, 2] and len(found["heads"]) > 1
    blob = zlib.decompress(base64.b64decode(re.search(r'tv-data">([^<]+)<', page.data)[1]))  # type: ignore[index, union-attr]
    start = -(-(8 + int.from_bytes(blob[4:8], "little")) // 8) * 8
    arrays = json.loads(blob[8 : 8 + int.from_bytes(blob[4:8], "little")])["arrays"]
    place = start + arrays["ends0"]["offset"]
    ends = np.frombuffer(blob[place : place + 4 * (count**2 + 1)], np.int32)
    row, column = 2, 1
    at = row * count + column
    cells = start + arrays["cells0"]["offset"]
    cell = blob[cells + ends[at] : cells + ends[at + 1]]
    assert cell == qk_data(run, "decoder", 1, 2, query=row, key=column)


@pytest.mark.shipped
def test_neuron_view_takes_a_module_of_transformers_and_refuses_a_long_text() -> None:
    from tests.families.catalogue import BY_NAME, built

    page = tv.neuron_view(built(BY_NAME["bert"]), "bert", None, [3, 4, 5, 6], html_action="return")
    assert given(page)["heads"][0] == ["encoder", 0, 0]
    with pytest.raises(ValueError, match="at most 64 tokens on a side; this run has"):
        tv.neuron_view("en-lm", None, None, "a " * 70, html_action="return")
