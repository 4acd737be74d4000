"""The right answer of every station, against independent runs and sums by hand."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pytest import approx

import transformer_viz as tv
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.pages.labs import LABS
from transformer_viz.checkpoints import Model
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.lessons import STATIONS, NotHere, Seen
from transformer_viz.lessons.find_spot import telling
from transformer_viz.lessons.stations.s03_query_key_value import rival
from transformer_viz.lessons.stations.s05_heads import STATION as HEADS
from transformer_viz.lessons.stations.s07_norms import growth

from .conftest import MODEL, Asked

pytestmark = pytest.mark.shipped
TEXTS = (
    "The animal didn't cross the street because it was too tired.",
    "She gave him the book that he wanted to read.",
    "We can't go home before it stops raining.",
)


@pytest.fixture(scope="module")
def model(engine: Engine) -> Model:
    return engine.model(MODEL)


def run(model: Model, seen: Seen, edit: dict[str, Any] | None = None, **words: Any) -> Trace:
    """Run the same sentence and target words once more, apart from the app."""
    change = edit and tv.Intervention.from_json(json.dumps({"edits": [edit]}))
    ids = list(seen.clean.target.ids)
    words |= {"intervention": change or None, "check": False}
    return tv.trace(model, seen.text, target=ids, **words)


def row_of(trace: Trace, seen: Seen) -> np.ndarray:
    spot = seen.spot
    return trace.attention(spot.map_name, spot.layer)[spot.head, spot.row].astype(np.float64)


def products(trace: Trace, seen: Seen) -> tuple[np.ndarray, int]:
    """Return q·k of the row from kept queries and keys, and the width of the head."""
    block = trace.block(seen.spot.map_name, seen.spot.layer)
    q, k = block.q[seen.spot.head, seen.spot.row], block.k[seen.spot.head]
    return k.astype(np.float64) @ q, len(q)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def chances(trace: Trace) -> np.ndarray:
    """Return the probability of each word that a run is asked about, from its logits."""
    shares = softmax(trace.logits.astype(np.float64))
    return shares[np.arange(len(shares)), list(trace.produced.ids)]


def silent(layer: int, head: int) -> dict[str, Any]:
    """Return the edit that switches a head of the encoder off."""
    place = {"stack": "encoder", "block": "self", "layer": int(layer), "head": int(head)}
    return {"kind": "scale_head", "value": 0.0} | place


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+\.\d+|\d+", text)]


def test_tokens_are_those_of_the_tokenizer(asked: Asked, model: Model) -> None:
    for text in TEXTS:
        _, ask = asked("tokens", text)
        count = len(model.tokenizer.source_ids(text))
        assert ask.options[ask.right] == str(count) and str(count) in ask.why, text
        assert str(len(text.split())) in ask.options and "“</s>”" in ask.hint, text


def test_the_word_that_is_looked_at_most(asked: Asked, model: Model) -> None:
    for text in TEXTS:
        for name in ("looking", "crossing"):
            seen, ask = asked(name, text)
            again = run(model, seen)
            row = row_of(again, seen)
            best, case = int(row.argmax()), (name, text)
            assert ask.options[ask.right] == f"“{again.source.labels[best]}”", case
            assert f"{row[best]:.2f}" in ask.why and f"{row[best]:.2f}" in ask.hint, case
            assert not again.source.special[best], case
            if name == "looking":
                assert best != seen.spot.row and "1.00" in ask.why, case
                spot = telling(seen.clean, "encoder")  # a telling link is the largest of its row
                told = seen.clean.attention("encoder", spot.layer)[spot.head, spot.row]
                assert told.argmax() == spot.key and abs(spot.row - spot.key) >= 2, case
    # The missing weight of the exercise is what lacks to one.
    seen, ask = asked("looking", TEXTS[0])
    cells = [cell for _, cell in ask.exercise.rows[1:]]
    lacking = 1 - sum(float(cell) for cell in cells if cell)
    assert cells.count("") == 1 and f"{lacking:.3f}" in ask.exercise.solution
    assert lacking == approx(row_of(run(model, seen), seen).max(), abs=0.004)


def test_a_difference_of_scores_is_a_factor_of_weights(asked: Asked, model: Model) -> None:
    for text in TEXTS:
        seen, ask = asked("query-key-value", text)
        again = run(model, seen, keep=("weights", "qkv"))
        scores, width = products(again, seen)
        scores /= math.sqrt(width)
        key, other, row = seen.spot.key, rival(scores, seen.spot.key), row_of(again, seen)
        apart = scores[key] - scores[other]
        assert numbers(ask.hint)[-1] == approx(apart, abs=0.011), text
        assert f"{scores[key]:.2f}" in ask.question and f"{scores[other]:.2f}" in ask.question
        (factor,) = numbers(ask.options[ask.right].replace(",", ""))
        assert factor == approx(row[key] / row[other], rel=0.06), text  # said in two digits
        assert row[key] / row[other] == approx(math.exp(apart), rel=1e-4), text
    # Shares of the three best scores.
    _, ask = asked("query-key-value", TEXTS[0])
    best = np.array([float(row[1]) for row in ask.exercise.rows[1:]])
    for power, share in zip(np.exp(best), softmax(best), strict=True):
        written = f"{power:.0f}" if power >= 100 else f"{power:.3g}"
        assert f"{written}, {share:.3f}" in re.sub(r"(?<=\d),(?=\d)", "", ask.exercise.solution)
    # A rival is plainly below and not masked.
    assert rival(np.array([5.0, 4.9, 3.2, -np.inf, -40.0]), 0) == 2  # 1.8 below, the nearest to 2
    with pytest.raises(NotHere):
        rival(np.array([5.0, 4.9, -np.inf]), 0)


def test_without_the_division_a_row_is_the_softmax_of_the_products(asked, model) -> None:
    for text in TEXTS:
        seen, ask = asked("temperature", text)
        again = run(model, seen, keep=("weights", "qkv"))
        scores, width = products(again, seen)
        before, after = float(row_of(again, seen).max()), float(softmax(scores).max())
        assert numbers(ask.why)[:2] == [approx(before, abs=0.006), approx(after, abs=0.006)], text
        assert ask.right == (0 if after > before + 0.01 else 1), text
        hinted = math.sqrt(width) if ask.right == 0 else before
        assert numbers(ask.hint)[0] == approx(hinted, rel=0.06), text  # said in two digits
        assert f"√{width} = {math.sqrt(width):.2f}" in ask.question, text


def test_the_head_that_looks_at_the_word_before(asked: Asked, model: Model) -> None:
    for text in TEXTS:
        seen, ask = asked("heads", text)
        weights = run(model, seen).attention("encoder").astype(np.float64)
        rows = np.arange(1, weights.shape[2])
        shares = {
            f"L{layer} H{head}": weights[layer, head, rows, rows - 1].mean()
            for layer, head in np.ndindex(weights.shape[:2])
        }
        best = max(shares, key=lambda name: shares[name])
        assert ask.options[ask.right] == best, text
        assert f"{shares[best]:.2f}" in ask.why and f"{shares[best]:.2f}" in ask.hint, text
        others = [shares[option] for option in ask.options if option != best]
        assert max(others) < shares[best] / 2, text
    # Most words look back only where they do.
    seen, _ = asked("heads", TEXTS[0])
    block = seen.clean.block(seen.spot.map_name, seen.spot.layer)
    for share in (0.25, 0.75):
        weights = np.array(block.weights)
        size = weights.shape[1]
        weights[seen.spot.head] = np.eye(size)
        back = 1 + np.arange(round(share * (size - 1)))
        weights[seen.spot.head, back] = np.eye(size)[back - 1]
        layers = seen.clean.attentions
        changed = tuple(replace(one, weights=weights) if one is block else one for one in layers)
        ask = HEADS.ask(replace(seen, clean=replace(seen.clean, attentions=changed)))
        assert ("most words look" in ask.question) == (share > 0.5), share


def test_the_sentence_tells_which_head_it_misses(asked: Asked, model: Model) -> None:
    """The ranking of the library on the class's own sentence, also for the worksheet."""
    seen, ask = asked("heads", TEXTS[1])
    table = tv.rank(model, [(TEXTS[1], list(seen.clean.target.ids))]).table
    sites = [Site(r.stack, r.block, r.layer, r.head) for r in table.itertuples()]
    own = Site("encoder", "self", seen.spot.layer, seen.spot.head)
    place, first = sites.index(own) + 1, sites[0]
    effect = table["effect"].iloc[place - 1]
    told = f"even becomes more probable, by {-effect:.3f}" if effect < 0 else f"loses {effect:.3f}"
    assert f"{told} nats: rank {place} of all {len(table)} heads" in ask.why
    assert first == own or f"It is {first} that this sentence misses most" in ask.why
    without = HEADS.ask(replace(seen, costs={}))
    assert "nats" not in without.why and without.options == ask.options


def test_without_positions_both_orders_are_one(asked: Asked, model: Model) -> None:
    dropped = tv.Intervention.from_json('{"edits":[{"kind":"scale_positions","value":0.0}]}')
    for text in TEXTS[:2]:
        seen, ask = asked("order", text)
        ids = list(seen.clean.source.ids)
        mixed = ids[-2::-1] + ids[-1:]  # another order than the app's: all are one to it
        straight, turned = (
            tv.translate(model, order, beam=1, intervention=dropped)[0].text
            for order in (text, mixed)
        )
        assert ask.right == 0 and straight == turned == seen.said[0], text
        assert f"“{straight}”" in ask.hint and f"“{straight}”" in ask.why, text
        assert seen.mixed in ask.question, text
        assert sorted(seen.mixed.split()) != seen.mixed.split() or seen.mixed != text


def test_the_stream_is_as_long_as_its_numbers(asked: Asked, model: Model) -> None:
    encoder: Any = model.module.encoder
    # What enters each layer, stands between its two sums, and leaves the last one.
    parts = [part for layer in encoder.layers for part in (layer, layer.feed_forward_norm)]
    streams: list[Any] = []
    hooks = [
        part.register_forward_pre_hook(lambda _, given: streams.append(given[0][0].double()))
        for part in (*parts, encoder.norm)
    ]
    try:
        for text in TEXTS:
            seen, ask = asked("norms", text)
            streams.clear()
            run(model, seen)
            lengths = [float(stream[seen.spot.row].norm()) for stream in streams]
            assert len(lengths) == len(parts) + 1, text
            first, last = lengths[0], lengths[-1]
            assert numbers(ask.question)[0] == approx(first, abs=0.06), text
            assert numbers(ask.why)[0] == approx(last, abs=0.06), text
            done, sums, length = numbers(ask.hint)
            assert sums == 2 * len(encoder.layers) == len(parts) and 0 < done < sums, text
            assert length == approx(lengths[int(done)], abs=0.06), text
            assert ask.right == growth(last / first), text
    finally:
        for hook in hooks:
            hook.remove()
    assert [growth(ratio) for ratio in (0.5, 0.9, 1.2, 2.0, 3.5)] == [0, 1, 1, 2, 3]


def test_what_a_lifted_mask_does_to_the_words(asked: Asked, model: Model) -> None:
    edit = {"kind": "causal", "on": False, "stack": "decoder", "block": "self"}
    for text in TEXTS:
        seen, ask = asked("masks", text)
        before = chances(run(model, seen)).mean()
        lifted = run(model, seen, edit, produced=list(seen.clean.produced.ids))
        after, row = chances(lifted).mean(), seen.spot.row
        ahead = lifted.attention("decoder", 0)[:, row, row + 1 :].sum(axis=1).mean()
        assert numbers(ask.question)[0] == approx(before, abs=0.006), text
        shown = numbers(ask.why)[:3]
        assert shown == [approx(float(x), abs=0.006) for x in (before, after, ahead)], text
        assert numbers(ask.hint)[0] == shown[2], text
        assert ask.right == (0 if after > before + 0.02 else 2 if after < before - 0.02 else 1)


def test_what_a_switched_off_head_does_to_the_text(asked: Asked, model: Model) -> None:
    bounds = (0.1, 0.8, 1.25)
    for text in TEXTS[1:]:
        seen, ask = asked("limits", text)
        produced, spot = seen.clean.produced, seen.spot
        without = run(model, seen, silent(spot.layer, spot.head), produced=list(produced.ids))
        off, on = chances(without), chances(run(model, seen))
        factor, word = float(np.prod(off) / np.prod(on)), int(np.abs(off - on).argmax())
        assert f"“{produced.labels[word]}”" in ask.hint, text
        assert numbers(ask.hint)[-2:] == [approx(x[word], abs=0.006) for x in (on, off)], text
        assert numbers(ask.why)[0] == approx(factor, rel=0.02, abs=0.006), text
        assert ask.right == sum(factor > bound for bound in bounds), text
        assert ask.lab == "", text  # there is no "it"
    # The pronoun without the famous head, which is found again from the weights.
    seen, ask = asked("limits", TEXTS[0])
    clean, produced = run(model, seen), seen.clean.produced
    labels, words = list(clean.source.labels), clean.source.words
    weights = clean.attention("encoder")[:, :, labels.index("it")]  # [layer, head, key]
    whole = dict.fromkeys(words, "")
    for number, label in zip(words, labels, strict=True):
        whole[number] += label
    named = [number for number, word in whole.items() if word in ("animal", "street")]
    nouns = [token for token, number in enumerate(words) if number in named]
    of_nouns = weights[..., nouns]
    layer, head, best = np.unravel_index(of_nouns.argmax(), of_nouns.shape)
    assert len(named) == 2
    assert f"“{labels[nouns[best]]}” in head L{layer} H{head}" in ask.question
    assert numbers(ask.question)[-1] == approx(of_nouns.max(), abs=0.006)
    off = chances(run(model, seen, silent(layer, head), produced=list(produced.ids)))
    on, row = (
        chances(clean),
        max(n for n, x in enumerate(produced.labels) if x in ("er", "sie", "es")),
    )
    assert f"“{produced.labels[row]}” in the translation" in ask.question
    assert numbers(ask.why)[:2] == [approx(one[row], abs=0.006) for one in (off, on)]
    assert ask.right == sum(off[row] / on[row] > bound for bound in bounds)
    assert numbers(ask.hint) == [weights.shape[0] * weights.shape[1]]
    assert ask.lab in {lab.name for lab in LABS}


def test_words_are_hidden_in_the_class_own_sentence(asked: Asked, model: Model) -> None:
    """Station 10: of the pronoun, else of the longest word, as tv.explain measures it."""
    for text in TEXTS:
        seen, ask = asked("limits", text)
        hidden, target = seen.hidden, list(seen.clean.target.ids)
        assert seen.clean.produced.labels[ask.row] == hidden.word, text
        found = tv.explain(model, text, ask.row, target, "weights").deletion().table
        for name in ("weights", "random"):
            row = found[(found["method"] == name) & (found["hidden"] == hidden.count)]
            assert hidden.losses[name] == approx(row["loss"].item(), abs=1e-4), (text, name)
            assert f"{hidden.losses[name]:.2f}" in ask.why, (text, name)


def test_hints_keep_the_answer_and_short_sentences_are_refused(asked: Asked) -> None:
    for station in STATIONS:
        for text in TEXTS:
            _, ask = asked(station.name, text)
            assert ask.hint and ask.hint != ask.why, (station.name, text)
            assert ask.options[ask.right] not in ask.hint, (station.name, text)
    for name in ("looking", "query-key-value", "temperature", "limits"):
        with pytest.raises(NotHere, match=r"too short for this question\. Type a longer one"):
            asked(name, "Go.")
