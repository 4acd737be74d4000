"""The right answer of every station, against runs of its own and sums by hand."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import transformer_viz as tv
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.pages.labs import LABS
from transformer_viz.checkpoints import Model
from transformer_viz.core.sites import Site
from transformer_viz.core.trace import Trace
from transformer_viz.lessons import STATIONS, NotHere, Seen, Station
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
NUMBER = re.compile(r"\d+\.\d+|\d+")


@pytest.fixture(scope="module")
def model(engine: Engine) -> Model:
    return engine.model(MODEL)


def run(model: Model, seen: Seen, edits: str | None = None, **words: Any) -> Trace:
    """The same sentence and target words once more, apart from the app."""
    target = seen.clean.target
    assert target is not None
    change = None if edits is None else tv.Intervention.from_json(edits)
    ids = list(target.ids)
    trace: Trace = tv.trace(model, seen.text, target=ids, intervention=change, **words)
    return trace


def row_of(trace: Trace, seen: Seen) -> np.ndarray:
    spot = seen.spot
    return trace.attention(spot.map_name, spot.layer)[spot.head, spot.row].astype(np.float64)


def numbers(text: str) -> list[float]:
    return [float(found) for found in NUMBER.findall(text)]


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_those_of_the_tokenizer(asked: Asked, model: Model, text: str) -> None:
    _, ask = asked("tokens", text)
    count = len(model.tokenizer.source_ids(text))
    assert ask.options[ask.right] == str(count)
    assert str(len(text.split())) in ask.options and str(count) in ask.why
    assert "“</s>”" in ask.hint


@pytest.mark.parametrize("name", ["looking", "crossing"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_word_that_is_looked_at_most(asked: Asked, model: Model, name: str, text: str) -> None:
    seen, ask = asked(name, text)
    again = run(model, seen)
    row = row_of(again, seen)
    best = int(row.argmax())
    assert ask.options[ask.right] == f"“{again.source.labels[best]}”"
    assert f"{row[best]:.2f}" in ask.why and f"{row[best]:.2f}" in ask.hint
    assert not again.source.special[best]
    if name == "looking":
        assert best != seen.spot.row and "1.00" in ask.why


@pytest.mark.parametrize("text", TEXTS)
def test_a_difference_of_scores_is_a_factor_of_weights(
    asked: Asked, model: Model, text: str
) -> None:
    seen, ask = asked("query-key-value", text)
    spot, again = seen.spot, run(model, seen, keep=("weights", "qkv"))
    block = again.block(spot.map_name, spot.layer)
    assert block.q is not None and block.k is not None
    q, k = block.q[spot.head, spot.row], block.k[spot.head]
    scores = k.astype(np.float64) @ q / math.sqrt(len(q))  # from q and k, not from kept scores
    other = rival(scores, spot.key)
    assert numbers(ask.hint)[-1] == pytest.approx(scores[spot.key] - scores[other], abs=0.011)
    row = row_of(again, seen)
    assert f"{scores[spot.key]:.2f}" in ask.question and f"{scores[other]:.2f}" in ask.question
    (factor,) = numbers(ask.options[ask.right].replace(",", ""))
    assert factor == pytest.approx(row[spot.key] / row[other], rel=0.06)  # said in two digits
    exact = math.exp(scores[spot.key] - scores[other])
    assert row[spot.key] / row[other] == pytest.approx(exact, rel=1e-4)


@pytest.mark.parametrize("text", TEXTS)
def test_without_the_division_a_row_is_the_softmax_of_the_products(
    asked: Asked, model: Model, text: str
) -> None:
    seen, ask = asked("temperature", text)
    spot, again = seen.spot, run(model, seen, keep=("weights", "qkv"))
    block = again.block(spot.map_name, spot.layer)
    assert block.q is not None and block.k is not None
    products = block.k[spot.head].astype(np.float64) @ block.q[spot.head, spot.row]
    powers = np.exp(products - products.max())
    before, after = float(row_of(again, seen).max()), float((powers / powers.sum()).max())
    told = numbers(ask.why)
    assert told[:2] == [pytest.approx(before, abs=0.006), pytest.approx(after, abs=0.006)]
    assert ask.right == (0 if after > before + 0.01 else 1)
    width = block.q.shape[-1]
    hinted = math.sqrt(width) if ask.right == 0 else before
    assert numbers(ask.hint)[0] == pytest.approx(hinted, rel=0.06)  # said in two digits
    assert f"√{width} = {math.sqrt(width):.2f}" in ask.question


@pytest.mark.parametrize("text", TEXTS)
def test_the_head_that_looks_at_the_word_before(asked: Asked, model: Model, text: str) -> None:
    seen, ask = asked("heads", text)
    weights = run(model, seen).attention("encoder").astype(np.float64)
    shares = {}
    for layer in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            rows = range(1, weights.shape[2])
            shares[f"L{layer} H{head}"] = np.mean([weights[layer, head, r, r - 1] for r in rows])
    best = max(shares, key=lambda name: shares[name])
    assert ask.options[ask.right] == best and f"{shares[best]:.2f}" in ask.why
    assert f"{shares[best]:.2f}" in ask.hint
    assert all(shares[option] < shares[best] / 2 for option in ask.options if option != best)


def test_the_sentence_says_which_head_it_misses(asked: Asked, model: Model) -> None:
    """The very ranking of the library on the class's own sentence, also for the worksheet."""
    seen, ask = asked("heads", TEXTS[1])
    assert seen.clean.target is not None
    table = tv.rank(model, [(TEXTS[1], list(seen.clean.target.ids))]).table
    rows = {
        Site(r.stack, r.block, r.layer, r.head): (r.effect, n)
        for n, r in enumerate(table.itertuples(), 1)
    }
    own = Site("encoder", "self", seen.spot.layer, seen.spot.head)
    effect, place = rows[own]
    told = f"even becomes more probable, by {-effect:.3f}" if effect < 0 else f"loses {effect:.3f}"
    assert f"{told} nats: rank {place} of all {len(table)} heads" in ask.why
    first = next(iter(rows))
    assert first == own or f"It is {first} that this sentence misses most" in ask.why
    without = HEADS.ask(replace(seen, costs={}))
    assert "nats" not in without.why and without.options == ask.options


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_most_words_look_back_only_where_they_do(asked: Asked, share: float) -> None:
    seen, _ = asked("heads", TEXTS[0])
    block = seen.clean.block(seen.spot.map_name, seen.spot.layer)
    weights = np.array(block.weights)
    size = weights.shape[1]
    weights[seen.spot.head] = np.eye(size)
    for row in range(1, 1 + round(share * (size - 1))):
        weights[seen.spot.head, row] = np.eye(size)[row - 1]
    layers = tuple(
        replace(one, weights=weights) if one is block else one for one in seen.clean.attentions
    )
    changed = replace(seen, clean=replace(seen.clean, attentions=layers))
    assert ("most words look" in HEADS.ask(changed).question) == (share > 0.5)


@pytest.mark.parametrize("text", TEXTS[:2])
def test_without_positions_both_orders_are_one(
    asked: Asked, engine: Engine, model: Model, text: str
) -> None:
    seen, ask = asked("order", text)
    dropped = tv.Intervention.from_json('{"edits":[{"kind":"scale_positions","value":0.0}]}')
    straight = tv.translate(model, text, beam=1, intervention=dropped)[0].text
    ids = list(seen.clean.source.ids)
    mixed = ids[-2::-1] + ids[-1:]  # another order than the app's: all are one to it
    turned = tv.translate(model, mixed, beam=1, intervention=dropped)[0].text
    assert ask.right == 0 and straight == turned == seen.said[0]
    assert f"“{straight}”" in ask.hint
    assert f"“{straight}”" in ask.why and seen.mixed in ask.question
    assert sorted(seen.mixed.split()) != seen.mixed.split() or seen.mixed != text


@pytest.mark.parametrize("text", TEXTS)
def test_the_stream_is_as_long_as_its_numbers(asked: Asked, model: Model, text: str) -> None:
    seen, ask = asked("norms", text)
    streams: list[Any] = []
    encoder: Any = model.module.encoder
    layers = encoder.layers
    # what enters each layer, stands between its two sums, and leaves the last one
    parts = [part for layer in layers for part in (layer, layer.feed_forward_norm)]
    hooks = [
        part.register_forward_pre_hook(lambda _, given: streams.append(given[0][0].double()))
        for part in (*parts, encoder.norm)
    ]
    try:
        run(model, seen)
    finally:
        for hook in hooks:
            hook.remove()
    lengths = [float(stream[seen.spot.row].norm()) for stream in streams]
    lengths = lengths[: len(parts) + 1]  # of the run itself; the others prove it
    first, last = lengths[0], lengths[-1]
    assert numbers(ask.question)[0] == pytest.approx(first, abs=0.06)
    assert numbers(ask.why)[0] == pytest.approx(last, abs=0.06)
    done, sums, length = numbers(ask.hint)
    assert sums == 2 * len(layers) == len(parts) and 0 < done < sums
    assert length == pytest.approx(lengths[int(done)], abs=0.06)
    assert ask.right == growth(last / first)


def test_growth_has_four_steps() -> None:
    assert [growth(ratio) for ratio in (0.5, 0.9, 1.2, 2.0, 3.5)] == [0, 1, 1, 2, 3]


def chances(trace: Trace) -> np.ndarray:
    """The probability of each word that a run is asked about, from its logits."""
    assert trace.logits is not None and trace.produced is not None
    logits = trace.logits.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    return np.asarray(shares[np.arange(len(shares)), list(trace.produced.ids)])


@pytest.mark.parametrize("text", TEXTS)
def test_what_a_lifted_mask_does_to_the_words(asked: Asked, model: Model, text: str) -> None:
    seen, ask = asked("masks", text)
    produced = seen.clean.produced
    assert produced is not None
    edit = '{"edits":[{"kind":"causal","on":false,"stack":"decoder","block":"self"}]}'
    before = chances(run(model, seen)).mean()
    lifted = run(model, seen, edit, produced=list(produced.ids))
    after = chances(lifted).mean()
    assert numbers(ask.question)[0] == pytest.approx(before, abs=0.006)
    shown = numbers(ask.why)[:3]
    ahead = lifted.attention("decoder", 0)[:, seen.spot.row, seen.spot.row + 1 :].sum(axis=1)
    assert shown == [pytest.approx(x, abs=0.006) for x in (before, after, float(ahead.mean()))]
    assert numbers(ask.hint)[0] == shown[2]
    assert ask.right == (0 if after > before + 0.02 else 2 if after < before - 0.02 else 1)


@pytest.mark.parametrize("text", TEXTS[1:])
def test_what_a_switched_off_head_does_to_the_text(asked: Asked, model: Model, text: str) -> None:
    seen, ask = asked("limits", text)
    produced, spot = seen.clean.produced, seen.spot
    assert produced is not None
    edit = (
        '{"edits":[{"kind":"scale_head","value":0.0,"stack":"encoder","block":"self",'
        f'"layer":{spot.layer},"head":{spot.head}}}]}}'
    )
    silent = run(model, seen, edit, produced=list(produced.ids))
    off, on = chances(silent), chances(run(model, seen))
    factor = float(np.prod(off) / np.prod(on))
    word = int(np.abs(off - on).argmax())
    assert f"“{produced.labels[word]}”" in ask.hint
    assert numbers(ask.hint)[-2:] == [pytest.approx(x[word], abs=0.006) for x in (on, off)]
    assert numbers(ask.why)[0] == pytest.approx(factor, rel=0.02, abs=0.006)
    assert ask.right == sum(factor > bound for bound in (0.1, 0.8, 1.25))


def test_what_becomes_of_the_pronoun_without_the_famous_head(asked: Asked, model: Model) -> None:
    """The head is found again from the weights, the probability from logits of runs of its own."""
    seen, ask = asked("limits", TEXTS[0])
    clean = run(model, seen)
    labels, produced = list(clean.source.labels), seen.clean.produced
    assert produced is not None
    weights = clean.attention("encoder")[:, :, labels.index("it")]  # [layer, head, key]
    whole = dict.fromkeys(clean.source.words, "")
    for number, label in zip(clean.source.words, labels, strict=True):
        whole[number] += label
    named = [number for number, word in whole.items() if word in ("animal", "street")]
    nouns = [token for token, number in enumerate(clean.source.words) if number in named]
    assert len(named) == 2
    of_nouns = weights[..., nouns]
    layer, head, best = np.unravel_index(of_nouns.argmax(), of_nouns.shape)
    assert f"“{labels[nouns[best]]}” in head L{layer} H{head}" in ask.question
    assert numbers(ask.question)[-1] == pytest.approx(of_nouns.max(), abs=0.006)
    edit = (
        '{"edits":[{"kind":"scale_head","value":0.0,"stack":"encoder","block":"self",'
        f'"layer":{layer},"head":{head}}}]}}'
    )
    off, on = chances(run(model, seen, edit, produced=list(produced.ids))), chances(clean)
    row = max(n for n, label in enumerate(produced.labels) if label in ("er", "sie", "es"))
    assert f"“{produced.labels[row]}” in the translation" in ask.question
    assert numbers(ask.why)[:2] == [pytest.approx(one[row], abs=0.006) for one in (off, on)]
    assert ask.right == sum(off[row] / on[row] > bound for bound in (0.1, 0.8, 1.25))
    assert numbers(ask.hint) == [weights.shape[0] * weights.shape[1]]
    assert ask.lab in {lab.name for lab in LABS}
    assert [asked("limits", text)[1].lab for text in TEXTS[1:]] == ["", ""]  # there is no "it"


@pytest.mark.parametrize("text", TEXTS)
def test_words_are_hidden_in_the_class_own_sentence(asked: Asked, model: Model, text: str) -> None:
    """Station 10: of the pronoun, else of the longest word, as tv.explain measures it."""
    seen, ask = asked("limits", text)
    assert seen.hidden is not None and ask.row is not None
    produced, target = seen.clean.produced, seen.clean.target
    assert produced is not None and target is not None
    assert produced.labels[ask.row] == seen.hidden.word
    found = tv.explain(model, text, ask.row, list(target.ids), "weights").deletion().table
    for name in ("weights", "random"):
        row = found[(found["method"] == name) & (found["hidden"] == seen.hidden.count)]
        assert seen.hidden.losses[name] == pytest.approx(row["loss"].item(), abs=1e-4)
        assert f"{seen.hidden.losses[name]:.2f}" in ask.why


@pytest.mark.parametrize("station", STATIONS, ids=lambda station: station.name)
def test_a_hint_does_not_give_the_answer_away(asked: Asked, station: Station) -> None:
    for text in TEXTS:
        _, ask = asked(station.name, text)
        assert ask.hint and ask.options[ask.right] not in ask.hint and ask.hint != ask.why


def test_the_missing_weight_is_what_lacks_to_one(asked: Asked, model: Model) -> None:
    seen, ask = asked("looking", TEXTS[0])
    assert ask.exercise is not None
    cells = [cell for _, cell in ask.exercise.rows[1:]]
    assert cells.count("") == 1
    lacking = 1 - sum(float(cell) for cell in cells if cell)
    assert f"{lacking:.3f}" in ask.exercise.solution
    assert lacking == pytest.approx(row_of(run(model, seen), seen).max(), abs=0.004)


def test_shares_of_the_three_best_scores(asked: Asked) -> None:
    _, ask = asked("query-key-value", TEXTS[0])
    assert ask.exercise is not None
    scores = [float(row[1]) for row in ask.exercise.rows[1:]]
    powers = np.exp(scores)
    for power, share in zip(powers, powers / powers.sum(), strict=True):
        written = f"{power:.0f}" if power >= 100 else f"{power:.3g}"
        assert f"{written}, {share:.3f}" in re.sub(r"(?<=\d),(?=\d)", "", ask.exercise.solution)


def test_a_telling_link_is_the_largest_of_its_row(asked: Asked) -> None:
    for text in TEXTS:
        seen, _ = asked("looking", text)
        spot = telling(seen.clean, "encoder")
        row = seen.clean.attention("encoder", spot.layer)[spot.head, spot.row]
        assert row.argmax() == spot.key and abs(spot.row - spot.key) >= 2


@pytest.mark.parametrize("name", ["looking", "query-key-value", "temperature", "limits"])
def test_a_sentence_too_short_is_refused_in_words(asked: Asked, name: str) -> None:
    with pytest.raises(NotHere, match=r"too short for this question\. Type a longer one"):
        asked(name, "Go.")


def test_a_rival_is_plainly_below_and_not_masked() -> None:
    scores = np.array([5.0, 4.9, 3.2, -np.inf, -40.0])
    assert rival(scores, 0) == 2  # 1.8 below, the nearest to 2
    with pytest.raises(NotHere):
        rival(np.array([5.0, 4.9, -np.inf]), 0)
