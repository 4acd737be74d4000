"""A recorded search against the search itself, forced passes, and a plainer one."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from tests.support.refusals import refuses
from transformer_viz import load, trace
from transformer_viz.app.shell.inputs import EXAMPLES
from transformer_viz.core import interventions as edit
from transformer_viz.core.interventions import Intervention
from transformer_viz.core.search_tree import CUT, ENDED, KEPT, LEFT_OUT, START
from transformer_viz.inference.generation import length_norm, translate
from transformer_viz.inference.search_recorder import TOP, record

from .test_generation import SOURCE, forced_rows, forced_steps

WAYS = {"greedy": {}, "sample": {"sample": 1.7, "seed": 3}, "beam": {"beam": 4}}
EDITS = (
    (),
    (edit.Temperature(value=3.0, stack="decoder"),),
    (edit.ScaleHead(value=0.0, stack="decoder", layer=1, head=1),),
    (edit.Window(radius=2),),
    (edit.ScalePositions(value=0.5),),
    (edit.Causal(on=False, stack="decoder"),),
    (edit.Pad(count=2, masked=False),),
)


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def model(request, tiny_model, tiny_gpt):
    return tiny_model if request.param == "encoder-decoder" else tiny_gpt


def forced(model, source, ids, edits):
    """One traced pass over what stood before the last token, and that token."""
    if model.kind == "decoder-only":
        return trace(model, [*source, *ids[:-1]], intervention=edits, check=False)
    target = [model.bos_id, *ids[:-1]]
    return trace(model, source, target=target, intervention=edits, check=False)


@pytest.mark.slow
def test_it_is_the_search_of_translate(model):
    for way, edits in itertools.product((*WAYS.values(), {"beam": 7}), EDITS):
        words, case = way | {"intervention": Intervention(edits), "max_tokens": 9}, (way, edits)
        found, seen = translate(model, SOURCE, **words), record(model, SOURCE, **words)
        assert [seen.ids(one) for one in seen.best] == [h.ids for h in found], case
        assert seen.texts == tuple(h.text for h in found), case
        for one, hypothesis in zip(seen.best, found, strict=True):
            assert tuple(seen.logs[list(seen.line(one))]) == hypothesis.steps, case
            assert seen.totals[one] == hypothesis.log_probability, case
            assert seen.scores[one] == hypothesis.score, case
            assert (seen.fates[one] == ENDED) == hypothesis.finished, case


@pytest.mark.slow
def test_each_token_has_the_row_and_the_chances_of_a_forced_pass(model):
    """Every text that ended, token by token: each row against a traced pass over its prefix."""
    for way, edits in itertools.product(WAYS.values(), EDITS):
        if model.kind == "decoder-only" and edits == EDITS[-1]:
            continue  # its padding stands between text and answer
        change, case = Intervention(edits), (way, edits)
        seen = record(model, SOURCE, **way, intervention=change, max_tokens=7)
        for one in seen.best:
            ids, passes, line = seen.ids(one), seen.passes(one), seen.line(one)
            for step in range(len(ids)):
                run = forced(model, SOURCE, ids[: step + 1], change)
                weights = run.attention(seen.block)
                keys = weights.shape[-1]
                assert seen.keys[passes[step]] == keys, case
                for layer, rows in enumerate(seen.rows):
                    row = rows[passes[step]]
                    assert np.allclose(row[:, :keys], weights[layer][:, -1], atol=1e-6), case
                    assert not row[:, keys:].any(), case
                logs = torch.tensor(run.logits[-1]).log_softmax(-1).numpy()
                assert seen.logs[line[step]] == pytest.approx(logs[ids[step]], abs=1e-5), case
                top = seen.top_tokens[passes[step]]
                assert np.allclose(seen.top_logs[passes[step]], logs[top], atol=1e-5), case
                assert logs[top].min() >= np.sort(logs)[-TOP] - 1e-6, case
                assert (logs > logs[ids[step]] + 1e-6).sum() < seen.ranks[line[step]], case


@pytest.mark.slow
def test_one_pass_over_the_finished_words_has_all_rows(tiny_model):
    """Row t of the whole pass is the step that produced token t, as long as nobody looks ahead."""
    for way, edits in itertools.product(WAYS.values(), (*EDITS[:5], EDITS[6])):
        change = Intervention(edits)
        seen = record(tiny_model, SOURCE, **way, intervention=change, max_tokens=9)
        for one in seen.best:
            run = forced(tiny_model, SOURCE, seen.ids(one), change)
            for layer, rows in enumerate(run.attention("cross")):
                assert np.allclose(seen.history(one, layer), rows, atol=1e-6), (way, edits)


def test_each_text_of_a_beam_has_the_history_of_a_run_of_its_own(model):
    """Those kept for a while and those left out too: all that a search weighed, each alone."""
    seen = record(model, SOURCE, 3, max_tokens=6)
    assert set(seen.fates) >= {LEFT_OUT, KEPT, CUT}
    for one in range(len(seen.steps)):
        ids = seen.ids(one)
        logs = forced_steps(model, ids)
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
            rows = forced_rows(tiny_model, [*text, 0])
            before = sum(float(rows[t, i]) for t, i in enumerate(text))
            weighed |= {(*text, token): before + float(log) for token, log in enumerate(rows[-1])}
        order = sorted(weighed, key=weighed.__getitem__, reverse=True)
        kept = order[: beam - done]
        here = np.flatnonzero(seen.steps == step)
        fates = {seen.ids(one): int(seen.fates[one]) for one in here}
        assert [seen.ids(one) for one in here if seen.fates[one] != LEFT_OUT] == kept
        best = [[t for t in order if t[:-1] == text][:beam] for text in live]
        assert set(fates) == set(itertools.chain.from_iterable(best))
        assert list(seen.totals[here]) == sorted(seen.totals[here], reverse=True)
        ends = [text for text in kept if text[-1] == tiny_model.eos_id or len(text) == limit]
        assert {text for text, fate in fates.items() if fate in (ENDED, CUT)} == set(ends)
        done, live = done + len(ends), [text for text in kept if text not in ends]
        if not live:
            break
    assert len(seen.best) == beam


def test_a_sample_records_the_chance_of_each_draw(tiny_model):
    """softmax(log-probabilities / temperature), by numpy."""
    seen = record(tiny_model, SOURCE, sample=0.6, seed=5, max_tokens=6)
    (one,) = seen.best
    ids, line, passes = seen.ids(one), seen.line(one), seen.passes(one)
    powers = np.exp(forced_rows(tiny_model, list(ids)).double().numpy() / 0.6)
    for step, (token, chances) in enumerate(zip(ids, powers, strict=True)):
        chances = chances / chances.sum()
        assert seen.chances[line[step]] == pytest.approx(chances[token], rel=1e-4)
        top = chances[seen.top_tokens[passes[step]]]
        assert seen.top_chances[passes[step]] == pytest.approx(top, rel=1e-4)
    assert np.isnan(record(tiny_model, SOURCE).chances).all()


def test_a_model_that_is_only_a_forward_is_seen_alike(tiny_model):
    calls = dataclasses.replace(tiny_model.calls, encode=None, decode=None)
    bare = dataclasses.replace(tiny_model, calls=calls)
    one, other = (record(m, SOURCE, 3, max_tokens=6) for m in (tiny_model, bare))
    assert np.array_equal(one.tokens, other.tokens)
    for rows, same in zip(one.rows, other.rows, strict=True):
        assert np.allclose(rows, same, atol=1e-6)


def test_arrays_are_read_only_and_places_are_checked(tiny_model, build_model):
    seen = record(tiny_model, SOURCE, 2, max_tokens=4)
    for array in (seen.totals, seen.top_logs, *seen.rows):
        refuses("read-only", array.__setitem__, 0, 0)
    assert seen.named(0, 1) == 1 and seen.named(0, 99) is None and seen.named(99, 0) is None
    assert seen.parents[0] == START and seen.line(0) == (0,)
    refuses(r"weighed \d+ texts, numbered from 0; got 999", seen.line, 999, error=LookupError)
    refuses("A beam holds at least 1 hypothesis", record, tiny_model, SOURCE, 0)
    refuses("has no decoder, so it produces no text", record, build_model(decoder_layers=0), SOURCE)


@pytest.mark.shipped
@pytest.mark.parametrize(
    "every", [pytest.param(9, id="few"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
def test_twenty_sentences_of_a_shipped_model(every):
    """Probabilities and rows of each played translation against one forced pass over it."""
    model = load("en-de-small", device="cpu")
    lines = [*EXAMPLES["translation"], *EXAMPLES["sentence"][:2], *EXAMPLES["continues"]]
    lines += [f"{who} {does} house." for who in ("I", "Tom") for does in ("saw the", "sold this")]
    lines += ["Thank you!", "No.", "Who is it?", "Come in.", "It is late.", "We won."]
    assert len(lines) == 20
    hot = Intervention((edit.Temperature(value=2.0, stack="decoder", block="cross"),))
    # a hotter sample writes up to the limit
    for way, number in itertools.product(({}, {"beam": 4}, {"sample": 0.6, "seed": 3}), range(20)):
        if number % every:
            continue
        words, case = {"intervention": hot if number % 2 else Intervention()}, (way, number)
        seen = record(model, lines[number], **way, **words)
        one = seen.best[0]
        ids = seen.ids(one)
        words |= {"target": [model.bos_id, *ids[:-1]], "produced": ids, "check": False}
        run = trace(model, lines[number], **words)
        chances = np.exp(seen.logs[list(seen.line(one))])
        assert np.allclose(chances, run.produced.probability, atol=1e-5), case
        for layer in range(run.layers("cross")):
            rows = run.attention("cross", layer=layer)
            assert np.allclose(seen.history(one, layer), rows, atol=1e-5), case
