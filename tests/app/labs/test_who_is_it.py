"""The lab "Who is it?": its numbers against sums of their own, and what it says of odd input."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import cache
from html import unescape
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from torch import nn

import transformer_viz as tv
from tests.app.conftest import APP
from tests.support.model_kinds import NAMES
from tests.support.page_content import address, charts, heatmap, html, said, told
from transformer_viz.app.labs import lab_state
from transformer_viz.app.labs.experiments.who_is_it import answer, reveal
from transformer_viz.app.labs.jobs import WithoutHeads
from transformer_viz.app.labs.pronoun_heads import Picture, WhoIsItResult
from transformer_viz.app.labs.sentence_pairs import SentencePair
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.sites import Site
from transformer_viz.metrics.output.pronouns import Place

Visit = Callable[..., AppTest]
TIRED, WIDE = (
    f"The animal didn't cross the street because it was too {word}." for word in ("tired", "wide")
)
GERMAN = "Das Tier überquerte die Straße nicht, weil"
PRONOUNS = ("er", "sie", "es")
HELD = re.compile(r'data-what="held">“(.*?)”<')
SEEN = re.compile(r"<(?:td|th)[^>]*>(.*?)</(?:td|th)>")


@pytest.fixture
def ask() -> Visit:
    """Opens the lab on the model in the box."""

    def open_app(**link: str) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=300)
        app._page_hash = calc_hash("labs")
        for name, text in ({"lab": "it", "tried": "guess=show"} | link).items():
            app.query_params[name] = text
        app.run()
        assert not app.exception and not app.error, told(app)
        return app

    return open_app


@cache
def en_de() -> Model:
    return tv.load("en-de", device="cpu")


@cache
def chances(off: tuple[tuple[str, int, int], ...] = ()) -> np.ndarray:
    """Probabilities of er, sie and es in both sentences ``[sentence, word]``.

    A switched-off head is a slice of the output projection that was zeroed in a copy of the
    model, the softmax is numpy's, each sentence runs alone, and no probe is near.
    """
    model = en_de()
    module = zeroed(model.module, off) if off else model.module
    words = model.tokenizer
    target = list(words.target_ids(GERMAN))
    pieces = [words.target_ids(f"{GERMAN} {word}")[len(target)] for word in PRONOUNS]
    found = []
    for text in (TIRED, WIDE):
        source = torch.tensor([words.source_ids(text)])
        with torch.no_grad():
            logits = module(source, torch.tensor([target]))[0, -1].double().numpy()
        powers = np.exp(logits - logits.max())
        found.append(powers[list(pieces)] / powers.sum())
    return np.array(found)


def zeroed(module: nn.Module, off: tuple[tuple[str, int, int], ...]) -> nn.Module:
    made: Any = copy.deepcopy(module)
    for block, layer, head in off:
        stack = made.encoder if block == "encoder" else made.decoder
        part = stack.layers[layer]
        attention = part.cross_attention if block == "cross" else part.self_attention
        width = attention.output.weight.shape[1] // attention.heads
        with torch.no_grad():
            attention.output.weight[:, head * width : (head + 1) * width] = 0
    return made


def lead(found: np.ndarray) -> float:
    """log2 of how many times more probable es is (tired), or sie (wide): mean of both."""
    return float((np.log2(found[0, 2] / found[0, 1]) + np.log2(found[1, 1] / found[1, 2])) / 2)


def rows(app: AppTest) -> list[list[str]]:
    """The cells of all tables of the lab, row by row."""
    lines = re.findall(r"<tr.*?</tr>", html(app), flags=re.S)
    return [[unescape(cell) for cell in SEEN.findall(line)] for line in lines]


def shown(chance: float) -> str:
    return f"{chance:.3f}" if chance >= 0.001 else f"{chance:.1e}"


@pytest.mark.shipped
def test_the_famous_pair_by_sums_of_its_own(ask: Visit) -> None:
    app = ask(text=TIRED)
    assert HELD.findall(html(app)) == [f"{GERMAN} ▢"]
    cells, clean = rows(app), chances()
    for name, found, right in zip(("tired", "wide"), clean, ("es", "sie"), strict=True):
        assert [f"… it was too {name}.", *map(shown, found), right] in cells
    maps = {name: heatmap(charts(app)[f"lab-it-off-{name}"]) for name in ("encoder", "decoder")}
    maps["cross"] = heatmap(charts(app)["lab-it-off-cross"])
    assert sum(found.size for found in maps.values()) == 80 == 8 * (4 + 3 + 3)
    lost = {}
    for block, found in maps.items():
        for layer, head in np.ndindex(*found.shape):
            alone = chances(((block, layer, head),))
            lost[block, layer, head] = lead(clean) - lead(alone)
            assert found[layer, head] == pytest.approx(lost[block, layer, head], abs=2e-3)
    ranked = sorted(lost, key=lambda head: -lost[head])
    top = chances(tuple(ranked[:8]))
    (line,) = [line for line in cells if line[0] == "the first 8 of the ranking"]
    said_most = [PRONOUNS[int(one.argmax())] for one in top]
    hits = sum(word == right for word, right in zip(said_most, ("es", "sie"), strict=True))
    for cell, one, word, right in zip(line[1:3], top, said_most, ("es", "sie"), strict=True):
        assert float(cell.split()[0]) == pytest.approx(one[PRONOUNS.index(right)], abs=2e-3)
        assert cell.endswith(f"({word} leads)") == (word != right)
    assert line[3:] == [f"{hits} of 2"]
    names = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}
    placed = [line for line in cells if len(line) == 5 and re.fullmatch(r"[+-]\d+\.\d\d", line[2])]
    for line in placed:
        number = int(line[1]) - 1
        block, layer, head = ranked[number]
        if number < 8:  # far apart; further down places are a matter of rounding
            assert line[0].startswith(f"{names[block]} L{layer} H{head}")
        assert float(line[2]) == pytest.approx(lost[ranked[number]], abs=0.02)
    alone_right = [
        (one[0].argmax() == 2) + (one[1].argmax() == 1)
        for one in (chances((head,)) for head in ranked)
    ]
    if min(alone_right) == 2:
        option = "No head alone" if hits < 2 else "None of these"
        assert option in said(app, "verdict")
    else:
        assert "head" in said(app, "verdict")


@pytest.mark.shipped
def test_the_pictures_are_the_heads_with_the_largest_weight_on_a_noun(ask: Visit) -> None:
    app = ask(text=TIRED)
    cells, best = rows(app), {}
    traces = [tv.trace(en_de(), text, target=GERMAN, check=False) for text in (TIRED, WIDE)]
    for block, name in (("encoder", "encoder"), ("cross", "cross-attention")):
        found = []
        for trace in traces:
            labels = list(trace.source.labels)
            row = labels.index("it") if block == "encoder" else -1
            columns = [labels.index("animal"), labels.index("street")]
            found.append(trace.attention(block)[:, :, row][..., columns])
        weights = np.array(found)  # [sentence, layer, head, noun]
        layer, head = np.unravel_index(weights.max(axis=(0, 3)).argmax(), weights.shape[1:3])
        for which, end in enumerate(("tired", "wide")):
            two = [f"{one:.2f}" for one in weights[which, layer, head]]
            assert [f"{name} L{layer} H{head} · it was too {end}.", *two] in cells
        best[block] = [("animal", "street")[int(one.argmax())] for one in weights[:, layer, head]]
    for block, nouns in best.items():
        same = "both sentences" if nouns[0] == nouns[1] else "the first sentence"
        assert f"looks at “{nouns[0]}” in {same}" in unescape(html(app)), block


@pytest.mark.shipped
def test_each_head_swapped_by_plain_hooks(ask: Visit) -> None:
    """What a head gives in the other sentence, put before the output projection by hand."""
    app = ask(text=TIRED)
    clean, other = (lead_of(text) for text in (TIRED, WIDE))
    drawn, cells = charts(app), rows(app)
    moved = {}
    for block in ("encoder", "decoder", "cross"):
        found = heatmap(drawn[f"lab-it-swap-{block}"])
        for layer, head in np.ndindex(*found.shape):
            patched = lead_of(TIRED, lent=(block, layer, head))
            moved[block, layer, head] = (patched - clean) / (other - clean)
            assert found[layer, head] == pytest.approx(moved[block, layer, head], abs=1e-4)
    ranked = sorted(moved, key=lambda head: -moved[head])
    names = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}
    block, layer, head = ranked[0]
    line = next(one for one in cells if one[0].startswith(f"{names[block]} L{layer} H{head}")
                and len(one) == 2)  # fmt: skip
    assert float(line[1]) == pytest.approx(moved[ranked[0]], abs=0.006)
    told_of = unescape(html(app))
    assert f"makes {moved[ranked[0]]:.0%} of the way to the other pronoun" in told_of


def lead_of(text: str, lent: tuple[str, int, int] | None = None) -> float:
    """Logit of es less that of sie behind the German, with one head's output of the other one."""
    model, words = en_de(), en_de().tokenizer
    target = list(words.target_ids(GERMAN))
    es, sie = (words.target_ids(f"{GERMAN} {word}")[len(target)] for word in ("es", "sie"))

    def run(sentence: str) -> torch.Tensor:
        source = torch.tensor([words.source_ids(sentence)])
        with torch.no_grad():
            return model.module(source, torch.tensor([target]))[0, -1].double()

    if lent is None:
        logits = run(text)
        return float(logits[es] - logits[sie])
    block, layer, head = lent
    stack = getattr(model.module, "encoder" if block == "encoder" else "decoder")
    part = stack.layers[layer]
    attention = part.cross_attention if block == "cross" else part.self_attention
    seen: list[torch.Tensor] = []
    handle = attention.output.register_forward_pre_hook(lambda _, x: seen.append(x[0].clone()))
    run(WIDE)
    handle.remove()
    width = seen[0].shape[-1] // attention.heads

    def change(_: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        x = given[0].clone()
        mine = slice(head * width, (head + 1) * width)
        x[..., mine] = seen[0][..., mine]
        return (x,)

    handle = attention.output.register_forward_pre_hook(change)
    try:
        logits = run(text)
    finally:
        handle.remove()
    return float(logits[es] - logits[sie])


@pytest.mark.shipped
def test_a_pair_of_one_s_own_is_in_the_link(ask: Visit) -> None:
    app = ask(text="The dog ate the bread because it was hungry.")
    assert "Both sentences end in" in app.info[0].value
    app.text_input(key="try-it-second-en").set_value("was fresh; 100% so.").run()
    assert not app.exception and not app.error and not app.info
    assert address(app)["tried"] == "guess=show;second=was fresh%3B 100%25 so."
    assert lab_state.read(address(app)["tried"])["second"] == "was fresh%3B 100%25 so."
    assert "… it was fresh; 100% so." in unescape(html(app))
    again = ask(text="The dog ate the bread because it was hungry.", tried=address(app)["tried"])
    assert HELD.findall(html(again)) == HELD.findall(html(app)) != []
    before = rows(app)
    app.button(key="try-it-draw-en").click().run()
    others = [line for line in rows(app) if line and line[0] == "8 others drawn by chance"]
    assert others != [line for line in before if line and line[0] == "8 others drawn by chance"]
    pills = {one.key: one for one in app.get("button_group")}
    pills["try-it-right0-en"].set_value("sie").run()
    pills = {one.key: one for one in app.get("button_group")}
    pills["try-it-right1-en"].set_value("sie").run()
    assert "nothing to tell apart" in app.info[0].value and not app.exception


@pytest.mark.shipped
@pytest.mark.parametrize("text", ["I would like a cup of coffee.", "The dog saw it"])
def test_a_sentence_without_it_takes_a_pair_of_the_lab(ask: Visit, text: str) -> None:
    """Behind "it" there must be something that could differ."""
    app = ask(text=text)
    assert "no “it”" in html(app) and HELD.findall(html(app)) == [f"{GERMAN} ▢"]
    assert 'data-held="shown"' in said(app, "verdict")


@pytest.mark.shipped
def test_of_several_its_and_pronouns_one_is_chosen(ask: Visit) -> None:
    text = "I found it, but the dog ate it because it was hungry."
    typed = "Ich fand es, aber sie fraß es, weil er hungrig war."
    app = ask(text=text, target=typed, tried="guess=show;second=was fresh.;it=1")
    assert HELD.findall(html(app)) == ["Ich fand es, aber sie fraß es, weil ▢"]
    assert "… it because it was hungry." in unescape(html(app))  # from the second "it" on
    boxes = {box.key: box for box in app.selectbox}
    assert len(boxes["try-it-it-en"].options) == 3
    assert len(boxes["try-it-place-en"].options) == 4
    boxes["try-it-place-en"].set_value("1").run()
    assert HELD.findall(html(app)) == ["Ich fand es, aber ▢"]
    assert not app.exception and not app.error


def test_a_translation_without_a_pronoun_is_said(visit: Visit) -> None:
    """The tiny model writes pieces by chance, and a typed translation is taken as it is."""
    text = "The cat saw the dog because it was tired."
    link = {"text": text, "tried": "guess=0;second=was small."}
    app = visit("labs", lab="it", target="Die Katze war hungrig.", **link)
    assert not app.exception and not app.error
    assert "none of er, sie and es" in app.info[0].value
    assert "Die Katze war hungrig" in app.info[0].value


@pytest.mark.parametrize("model", NAMES)
def test_what_does_not_translate_says_what_the_lab_needs(
    meet: Callable[..., AppTest], model: str
) -> None:
    app = meet(model, "labs", lab="it", tried="guess=0")
    assert not app.exception and not app.error
    assert "translates English into German" in app.info[0].value


@pytest.mark.parametrize("text", ["a;b", "50 %", "%3B", "x=y", "", "%25;%"])
def test_a_typed_text_goes_through_the_link_unharmed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = SimpleNamespace(tried="guess=1")
    monkeypatch.setattr(lab_state, "state", kept)
    lab_state.put_text("second", text)
    assert lab_state.written("second", "else") == (text or "else")
    assert lab_state.settings()["guess"] == "1"


SITES = (
    Site("encoder", "self", 0, 0),
    Site("encoder", "self", 0, 1),
    Site("decoder", "cross", 0, 0),
)
GOOD = [[0.05, 0.05, 0.9], [0.05, 0.9, 0.05]]  # es is right, then sie
ONE = [[0.05, 0.05, 0.9], [0.05, 0.4, 0.55]]  # the second one turns


def result(clean: Any, each: Any, first: Any) -> WhoIsItResult:
    """A measurement of three heads, the first of which has the encoder's picture."""
    pair = SentencePair("It", ("a", "b"), 0, "Es", Place("", "", PRONOUNS))
    looks = np.array([[0.1, 0.9], [0.2, 0.8]])
    pictures = {"encoder": Picture(SITES[0], (0,), ("animal", "street"), looks)}
    logs = [np.log(np.array(part)) for part in (clean, each, first)]
    measured = WithoutHeads(logs[0], logs[1], SITES, 0.5)
    return WhoIsItResult(pair, measured, (2, 1), pictures, logs[2], logs[0], 1)


@pytest.mark.parametrize(
    ("clean", "each", "first", "option", "told_so"),
    [
        (ONE, [ONE] * 3, ONE, None, "does not prefer the right pronoun in both"),
        (GOOD, [ONE, GOOD, GOOD], ONE, 0, "alone a pronoun turns: encoder L0 H0."),
        (GOOD, [GOOD, GOOD, ONE], ONE, 1, "alone a pronoun turns: cross-attention L0 H0."),
        (GOOD, [GOOD] * 3, ONE, 2, "No head turns a pronoun alone: both stay right"),
        (GOOD, [GOOD] * 3, GOOD, 3, "No head turns a pronoun alone: both stay right"),
    ],
)
def test_the_verdict_follows_from_what_was_measured(
    clean: Any, each: Any, first: Any, option: int | None, told_so: str
) -> None:
    found = result(clean, each, first)
    assert answer(found) == option
    said_all: list[str] = []
    bench: Any = SimpleNamespace(
        tell=lambda *sentences: said_all.extend(sentences), quiet=lambda *sentences: None
    )
    reveal(bench, found)
    text = " ".join(said_all)
    assert told_so in text
    assert "looks at “street” in both sentences (0.90 and 0.80)" in text
    lost = np.log2(18) / 2 + np.log2(0.55 / 0.4) / 2 if each[0] == ONE and clean == GOOD else 0.0
    assert f"takes {lost:.2f} bits" in text
