"""BertViz's three views: the same signatures, and what our pages show for each argument."""

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
from tests.families.catalogue import BY_NAME, built
from transformer_viz.bertviz.arguments import runs_of_pair
from transformer_viz.bertviz.shown import HtmlPage
from transformer_viz.components.qk import qk_data
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


def data(page: HtmlPage | None) -> bytes:
    """Return the data that a page holds."""
    found = re.search(r'id="tv-data">([^<]+)<', page.data)
    return zlib.decompress(base64.b64decode(found[1]))


def given(page: HtmlPage | None) -> dict[str, Any]:
    return header(data(page))


def head(**words: Any) -> dict[str, Any]:
    return given(tv.head_view(WEIGHTS, TOKENS, html_action="return", **words))


def model(**words: Any) -> dict[str, Any]:
    return given(tv.model_view(WEIGHTS, TOKENS, html_action="return", **words))


def labels(found: dict[str, Any]) -> list[str]:
    return list(found["runs"][0]["blocks"]["encoder"]["map"]["rows"]["labels"])


def test_the_signatures_are_bertvizs() -> None:
    for view, theirs in (
        (tv.head_view, HEAD_VIEW), (tv.model_view, MODEL_VIEW), (tv.neuron_view, NEURON_VIEW),
    ):  # fmt: skip
        ours = inspect.signature(view).parameters.values()
        bare = [one.replace(annotation=inspect.Parameter.empty) for one in ours]
        assert str(inspect.Signature(bare)) == theirs, view


def test_head_view_lays_the_heads_of_a_layer_over_each_other() -> None:
    page = tv.head_view(WEIGHTS, TOKENS, html_action="return")
    found = given(page)
    assert found["view"] == "lines" and found["opened"] == ["encoder", 0, 0]
    assert found["overlaid"] == [[0, n] for n in range(1, 8)]  # eight can be told apart
    assert "8 of 11 heads are drawn at once" in page.data
    # The page says that nothing proves it, and needs no network.
    assert "nothing proves that it used them" in page.data
    assert page.data.startswith("<!doctype html>")
    assert "https://" not in page.data.partition("<script")[0]
    assert page._repr_html_().startswith("<iframe srcdoc=")
    assert labels(found)[:3] == ["[CLS]", "the", "cat"]
    assert labels(head(prettify_tokens=False))[:3] == ["[CLS]", "the", "Ġcat"]
    found = head(layer=2, heads=[4, 9])
    assert found["opened"] == ["encoder", 2, 4] and found["overlaid"] == [[2, 9]]
    found = head(include_layers=[1])
    assert found["opened"][1] == 1 and len(found["runs"][0]["heads"]) == HEADS


def test_model_view_opens_a_map() -> None:
    found = model()
    assert found["view"] == "map" and len(found["runs"]) == 1
    assert len(found["runs"][0]["heads"]) == LAYERS * HEADS
    kept = model(include_layers=[0, 2], include_heads=[1, 5])["runs"][0]["heads"]
    assert set(kept) == {f"encoder {layer} {n}" for layer in (0, 2) for n in (1, 5)}
    for words, mode in (({}, "dark"), *(({"display_mode": one}, one) for one in ("light", "dark"))):
        page = tv.model_view(WEIGHTS, TOKENS, html_action="return", **words)
        assert f'data-theme="{mode}"' in page.data, words


def test_sentence_pairs_can_be_filtered() -> None:
    found = head(sentence_b_start=4)
    pairs = [f"Sentence {a} → Sentence {b}" for a, b in ("AA", "BB", "AB", "BA")]
    assert [run["name"] for run in found["runs"]] == ["All", *pairs]
    sides = [run["blocks"]["encoder"]["map"] for run in found["runs"]]
    first, second = ["[CLS]", "the", "cat", "[SEP]"], ["a", "dog", "[SEP] (2)"]
    assert sides[3]["rows"]["labels"] == first and sides[3]["columns"]["labels"] == second
    assert sides[4]["rows"]["labels"] == second and sides[4]["columns"]["labels"] == first
    # Rows and columns are other words, so they do not light up together.
    assert sides[3]["rows"]["sentence"] != sides[3]["columns"]["sentence"]
    # The parts are slices of the weights.
    a, b = slice(0, 4), slice(4, 7)
    runs = runs_of_pair(tv.from_attentions(WEIGHTS, TOKENS), 4)[1:]
    for run, (row, column) in zip(runs, [(a, a), (b, b), (a, b), (b, a)], strict=True):
        for layer, weights in enumerate(WEIGHTS):
            wanted = weights[0][:, row, column].astype(np.float32)
            assert np.array_equal(run.trace.block("encoder", layer).weights, wanted), run.name
        tiles = np.rint(wanted * np.float32(255))
        assert np.array_equal(run.trace.thumbnail("encoder")[-1], tiles), run.name


def test_two_stacks() -> None:
    def blocks(view: Any, **words: Any) -> set[str]:
        return set(given(view(html_action="return", **words))["runs"][0]["blocks"])

    decoder = {"decoder_attention": [rows(1, 2, 2, 2)], "decoder_tokens": ["<s>", "▁c"]}
    both = decoder | {"encoder_attention": [rows(1, 2, 3, 3)]}
    both |= {"cross_attention": [rows(1, 2, 2, 3)], "encoder_tokens": ["▁a", "▁b", "</s>"]}
    for view in (tv.head_view, tv.model_view):
        assert blocks(view, **both) == {"encoder", "decoder", "cross"}
    assert blocks(tv.head_view, **decoder) == {"decoder"}


def test_arguments_that_do_not_fit_are_refused() -> None:
    one = {"attention": WEIGHTS, "tokens": TOKENS}
    both = (tv.head_view, tv.model_view)
    for views, words, said in (
        (both, {}, "No weights came"),
        (both, {"attention": WEIGHTS}, "attention came without tokens"),
        (both, one | {"encoder_tokens": TOKENS}, "attention is for models of one stack"),
        (both, {"encoder_attention": WEIGHTS}, "need encoder_tokens"),
        (both, {"cross_attention": WEIGHTS, "encoder_tokens": TOKENS}, "need decoder_tokens"),
        (both, {"html_action": "show"}, "html_action is 'view' or 'return'; got 'show'"),
        (both, one | {"sentence_b_start": 7}, "1 to 6; got 7"),
        (both, one | {"include_layers": [0, 3]}, "include_layers counts from 0 to 2 here; got 3"),
        (both[:1], one | {"layer": 3}, "layer counts from 0 to 2 here; got 3"),
        (both[:1], one | {"heads": [11]}, "heads counts from 0 to 10 here; got 11"),
        (both[:1], one | {"heads": []}, "heads is empty"),
        (
            both[:1],
            one | {"layer": 0, "include_layers": [1]},
            "layer 0 is not among include_layers",
        ),
        (both[1:], one | {"display_mode": "grey"}, "display_mode is 'light' or 'dark'; got 'grey'"),
    ):
        for view in views:
            with pytest.raises(ValueError, match=re.escape(said)):
                view(**words)


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
    opened, text = tv.load("en-lm"), "The cat sat."
    page = tv.neuron_view(opened, "gpt2", None, text, layer=1, head=2, html_action="return")
    run = tv.trace(opened, text, keep=("scores", "qkv"), check=False)
    count, found, blob = len(run.source), given(page), data(page)
    assert found["part"] == "neuron" and found["shape"] == [count, count]
    assert found["heads"][0] == ["decoder", 1, 2] and len(found["heads"]) > 1
    length = 8 + int.from_bytes(blob[4:8], "little")
    arrays, start = json.loads(blob[8:length])["arrays"], -(-length // 8) * 8
    place, cells = (start + arrays[name]["offset"] for name in ("ends0", "cells0"))
    ends = np.frombuffer(blob[place : place + 4 * (count**2 + 1)], np.int32)
    row, column = 2, 1
    at = row * count + column
    cell = blob[cells + ends[at] : cells + ends[at + 1]]
    assert cell == qk_data(run, "decoder", 1, 2, query=row, key=column)
    # It takes a module of transformers, and refuses a long text.
    page = tv.neuron_view(built(BY_NAME["bert"]), "bert", None, [3, 4, 5, 6], html_action="return")
    assert given(page)["heads"][0] == ["encoder", 0, 0]
    with pytest.raises(ValueError, match="at most 64 tokens on a side; this run has"):
        tv.neuron_view("en-lm", None, None, "a " * 70, html_action="return")
