"""A search as it is written down: against the search itself, forced passes, and a plainer one."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from transformer_viz import load, trace
from transformer_viz.app.shell.inputs import EXAMPLES
from transformer_viz.core.interventions import (
    Causal,
    Intervention,
    Pad,
    ScaleHead,
    ScalePositions,
    Temperature,
    Window,
)
from transformer_viz.core.search_tree import CUT, ENDED, KEPT, LEFT_OUT, START
from transformer_viz.inference.generation import length_norm, translate
from transformer_viz.inference.search_recorder import TOP, record

from .test_generation import forced_rows

SOURCE = [5, 9, 31, 7, 3]
WAYS = {
    "greedy": {},
    "sample": {"sample": 1.7, "seed": 3},
    "beam": {"beam": 4},
    "wide": {"beam": 7},
}
SHIPPED = WAYS | {"sample": {"sample": 0.6, "seed": 3}}  # hotter ones write up to the limit
EDITS = {
    "clean": Intervention(),
    "temperature": Intervention((Temperature(value=3.0, stack="decoder"),)),
    "head": Intervention((ScaleHead(value=0.0, stack="decoder", layer=1, head=1),)),
    "window": Intervention((Window(radius=2),)),
    "positions": Intervention((ScalePositions(value=0.5),)),
    "no causal mask": Intervention((Causal(on=False, stack="decoder"),)),
    "padding": Intervention((Pad(count=2, masked=False),)),
}


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def model(request, tiny_model, tiny_gpt):
    return tiny_model if request.param == "encoder-decoder" else tiny_gpt


def fits(model, name):
    """GPT-like models have no encoder to edit, and their padding stands between text and answer."""
    return model.kind != "decoder-only" or name != "padding"


def forced(model, source, ids, edits):
    """One traced pass over what stood before the last token, and that token."""
    if model.kind == "decoder-only":
        return trace(model, [*source, *ids[:-1]], intervention=edits, check=False)
    target = [model.bos_id, *ids[:-1]]
    return trace(model, source, target=target, intervention=edits, check=False)


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_the_search_of_translate(model, way, edits):
    words = WAYS[way] | {"intervention": EDITS[edits], "max_tokens": 9}
    found = translate(model, SOURCE, **words)
    seen = record(model, SOURCE, **words)
    assert [seen.ids(one) for one in seen.best] == [h.ids for h in found]
    assert seen.texts == tuple(h.text for h in found)
    for one, hypothesis in zip(seen.best, found, strict=True):
        assert tuple(seen.logs[list(seen.line(one))]) == hypothesis.steps
        assert seen.totals[one] == hypothesis.log_probability
        assert seen.scores[one] == hypothesis.score
        assert (seen.fates[one] == ENDED) == hypothesis.finished


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_each_token_has_the_row_and_the_chances_of_a_forced_pass(model, way, edits):
    """Every text that ended, token by token: each row against a traced pass over its prefix."""
    if not fits(model, edits):
        return
    edit = EDITS[edits]
    seen = record(model, SOURCE, **WAYS[way], intervention=edit, max_tokens=7)
    for one in seen.best:
        ids, passes = seen.ids(one), seen.passes(one)
        for step in range(len(ids)):
            run = forced(model, SOURCE, ids[: step + 1], edit)
            weights = run.attention(seen.block)
            for layer, rows in enumerate(seen.rows):
                keys = weights.shape[-1]
                assert seen.keys[passes[step]] == keys
                row = rows[passes[step]]
                assert np.allclose(row[:, :keys], weights[layer][:, -1], atol=1e-6)
                assert not row[:, keys:].any()
            logs = torch.tensor(run.logits[-1]).log_softmax(-1).numpy()
            assert seen.logs[seen.line(one)[step]] == pytest.approx(logs[ids[step]], abs=1e-5)
            top = seen.top_tokens[passes[step]]
            assert np.allclose(seen.top_logs[passes[step]], logs[top], atol=1e-5)
            assert logs[top].min() >= np.sort(logs)[-TOP] - 1e-6
            assert (logs > logs[ids[step]] + 1e-6).sum() < seen.ranks[seen.line(one)[step]]


@pytest.mark.parametrize("edits", [name for name in EDITS if name != "no causal mask"])
@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_one_pass_over_the_finished_words_has_all_rows(tiny_model, way, edits):
    """Row t of the whole pass is the step that produced token t, as long as nobody looks ahead."""
    edit = EDITS[edits]
    seen = record(tiny_model, SOURCE, **WAYS[way], intervention=edit, max_tokens=9)
    for one in seen.best:
        run = forced(tiny_model, SOURCE, seen.ids(one), edit)
        for layer in range(2):
            assert np.allclose(
                seen.history(one, layer), run.attention("cross", layer=layer), atol=1e-6
            )


def test_each_text_of_a_beam_has_the_history_of_a_run_of_its_own(model):
    """Those kept for a while and those left out too: all that a search weighed, each alone."""
    seen = record(model, SOURCE, 3, max_tokens=6)
    assert set(seen.fates) >= {LEFT_OUT, KEPT, CUT}
    for one in range(len(seen.steps)):
        ids = seen.ids(one)
        rows = forced_rows(model, list(ids))
        logs = [float(rows[t, token]) for t, token in enumerate(ids)]
        assert seen.logs[list(seen.line(one))] == pytest.approx(logs, abs=1e-5)
        assert seen.totals[one] == pytest.approx(sum(logs), abs=1e-5)
        assert seen.scores[one] == pytest.approx(sum(logs) / length_norm(len(ids), 1.0), abs=1e-5)
        run = forced(model, SOURCE, ids, None)
        first = 0 if model.kind == "encoder-decoder" else len(SOURCE) - 1
        for layer in range(len(seen.rows)):
            weights = run.attention(seen.block, layer=layer)[:, first:]
            keys = weights.shape[-1]
            assert np.allclose(seen.history(one, layer)[..., :keys], weights, atol=1e-6)


def test_a_beam_keeps_what_a_plain_beam_search_keeps(tiny_model):
    """By hand: all texts one token longer, sorted; the best go on, and one that ends stays."""
    beam, limit = 4, 7
    seen = record(tiny_model, SOURCE, beam, max_tokens=limit)
    live, done = [()], 0
    for step in range(limit):
        weighed = {}
        for text in live:
            logs = forced_rows(tiny_model, [*text, 0])[-1]
            before = sum(float(forced_rows(tiny_model, text)[t, i]) for t, i in enumerate(text))
            weighed |= {(*text, token): before + float(logs[token]) for token in range(len(logs))}
        order = sorted(weighed, key=weighed.__getitem__, reverse=True)
        kept = order[: beam - done]
        here = np.flatnonzero(seen.steps == step)
        fates = {seen.ids(one): int(seen.fates[one]) for one in here}
        assert [seen.ids(one) for one in here if seen.fates[one] != LEFT_OUT] == kept
        assert set(fates) == set(
            itertools.chain.from_iterable(
                sorted((t for t in weighed if t[:-1] == text), key=weighed.__getitem__)[-beam:]
                for text in live
            )
        )
        assert list(seen.totals[here]) == sorted(seen.totals[here], reverse=True)
        ends = [text for text in kept if text[-1] == tiny_model.eos_id or len(text) == limit]
        assert {text for text, fate in fates.items() if fate in (ENDED, CUT)} == set(ends)
        done, live = done + len(ends), [text for text in kept if text not in ends]
        if not live:
            break
    assert len(seen.best) == beam


def test_what_was_drawn_had_the_chance_that_is_told(tiny_model):
    """softmax(log-probabilities / temperature), by numpy."""
    seen = record(tiny_model, SOURCE, sample=0.6, seed=5, max_tokens=6)
    (one,) = seen.best
    ids, line, passes = seen.ids(one), seen.line(one), seen.passes(one)
    rows = forced_rows(tiny_model, list(ids)).double().numpy()
    for step, token in enumerate(ids):
        powers = np.exp(rows[step] / 0.6)
        chances = powers / powers.sum()
        assert seen.chances[line[step]] == pytest.approx(chances[token], rel=1e-4)
        assert seen.top_chances[passes[step]] == pytest.approx(
            chances[seen.top_tokens[passes[step]]], rel=1e-4
        )
    assert np.isnan(record(tiny_model, SOURCE).chances).all()


def test_a_model_that_is_only_a_forward_is_seen_alike(tiny_model):
    calls = dataclasses.replace(tiny_model.calls, encode=None, decode=None)
    bare = dataclasses.replace(tiny_model, calls=calls)
    one, other = (record(m, SOURCE, 3, max_tokens=6) for m in (tiny_model, bare))
    assert np.array_equal(one.tokens, other.tokens)
    for rows, same in zip(one.rows, other.rows, strict=True):
        assert np.allclose(rows, same, atol=1e-6)


def test_its_arrays_are_read_only_and_its_places_are_checked(tiny_model):
    seen = record(tiny_model, SOURCE, 2, max_tokens=4)
    for array in (seen.totals, seen.top_logs, *seen.rows):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert seen.named(0, 1) == 1 and seen.named(0, 99) is None and seen.named(99, 0) is None
    assert seen.parents[0] == START and seen.line(0) == (0,)
    with pytest.raises(LookupError, match=r"weighed \d+ texts, numbered from 0; got 999"):
        seen.line(999)


def test_what_is_refused_is_refused_by_translate(tiny_model, build_model):
    with pytest.raises(ValueError, match="A beam holds at least 1 hypothesis"):
        record(tiny_model, SOURCE, 0)
    with pytest.raises(ValueError, match="has no decoder, so it produces no text"):
        record(build_model(decoder_layers=0), SOURCE)


@pytest.mark.shipped
@pytest.mark.parametrize(
    "every", [pytest.param(9, id="few"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("way", ["greedy", "sample", "beam"])
def test_twenty_sentences_of_a_shipped_model(way, every):
    """Probabilities and rows of each played translation against one forced pass over it."""
    model = load("en-de-small", device="cpu")
    lines = [*EXAMPLES["translation"], *EXAMPLES["sentence"][:2], *EXAMPLES["continues"]]
    lines += [f"{who} {does} house." for who in ("I", "Tom") for does in ("saw the", "sold this")]
    lines += ["Thank you!", "No.", "Who is it?", "Come in.", "It is late.", "We won."]
    assert len(lines) == 20
    hot = Intervention((Temperature(value=2.0, stack="decoder", block="cross"),))
    for number, line in list(enumerate(lines))[::every]:
        edits = hot if number % 2 else Intervention()
        seen = record(model, line, **SHIPPED[way], intervention=edits)
        one = seen.best[0]
        ids = seen.ids(one)
        run = trace(
            model,
            line,
            target=[model.bos_id, *ids[:-1]],
            produced=ids,
            intervention=edits,
            check=False,
        )
        chances = np.exp(seen.logs[list(seen.line(one))])
        assert np.allclose(chances, run.produced.probability, atol=1e-5)
        for layer in range(run.layers("cross")):
            rows = seen.history(one, layer)
            assert np.allclose(rows, run.attention("cross", layer=layer), atol=1e-5)
