"""Explanations judged: deletion curves, and gradients of gates against difference quotients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from tests.support.witness_models import BOS, EOS, bart, importance, random_gpt2, second_halves
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import read_examples
from transformer_viz.inference.ablation.gradients import gradient_importance, integrated_gates
from transformer_viz.inference.explanation import hiding
from transformer_viz.inference.explanation.captions import OVER_WORDS
from transformer_viz.inference.explanation.deletion import (
    RANDOM,
    deletion_curve,
    words_to_hide,
)
from transformer_viz.inference.explanation.explaining import Explainer
from transformer_viz.inference.explanation.judging import judge
from transformer_viz.inference.explanation.question import ask
from transformer_viz.inference.model_inputs import model_of

from .test_explain import HELD, SOURCE, WORD, drawn, logits


def masked(model: Model, hidden: list[int]) -> float:
    """ln p of the word with source words masked by the module's own mask."""
    token = ask(model, SOURCE, WORD, HELD).token
    seen = torch.ones(1, len(SOURCE), dtype=torch.bool)
    seen[0, hidden] = False
    with torch.inference_mode():
        found = model.module(torch.tensor([SOURCE]), torch.tensor([HELD]), seen)[0, WORD]
    return float(found.log_softmax(-1)[token])


def test_a_curve_hides_the_first_words_of_each_order():
    model = drawn()
    explainer = Explainer(ask(model, SOURCE, WORD, HELD))
    heard: list[tuple[int, int]] = []
    curve = deletion_curve(explainer, most=4, draws=6, on_progress=lambda *done: heard.append(done))
    full = float(logits(model)[WORD].log_softmax(-1)[explainer.question.token])
    hideable = [n for places in words_to_hide(explainer.question).values() for _, n in places]
    for method in OVER_WORDS:
        table = explainer.answer(method).values
        own = table[(table["sentence"] == "source") & table["token"].isin(hideable)]
        order = own.sort_values("value", ascending=False, kind="stable")["token"].tolist()
        rows = curve.table[curve.table["method"] == method]
        assert list(rows["hidden"]) == [0, 1, 2, 3, 4]
        for k, loss in zip(rows["hidden"], rows["loss"], strict=True):
            assert loss == pytest.approx(full - masked(model, order[:k]), abs=1e-9)
    chance = curve.table[curve.table["method"] == RANDOM]
    assert chance["loss"].iloc[0] == 0
    assert (chance["low"] <= chance["loss"]).all() and (chance["loss"] <= chance["high"]).all()
    assert heard and heard[-1][0] == heard[-1][1]
    assert curve.card["draws"] == 6 and curve.best.index[0] in (*OVER_WORDS, RANDOM)
    again = deletion_curve(explainer, most=4, draws=6)
    assert again.table.equals(curve.table)
    other = deletion_curve(explainer, most=4, draws=6, seed=1)
    assert not other.table.equals(curve.table)
    found = tv.explain(drawn(), SOURCE, WORD, HELD, "removal").deletion(2, draws=4)
    assert set(found.table["method"]) == {"removal", RANDOM}
    assert len(found.table) == 6


def test_masks_and_edits_hide_the_same(monkeypatch):
    """Many sets in one pass of the model's own mask, against one run of the probe for each."""
    question = ask(drawn(), SOURCE, WORD, HELD)
    sets = [[("source", 1)], [("source", 4), ("source", 2)], [], [("source", n) for n in range(6)]]
    together = hiding.scores_without(question, sets)
    monkeypatch.setattr(hiding, "_by_mask", lambda *_: False)
    assert hiding.scores_without(question, sets) == pytest.approx(together, abs=1e-9)


@pytest.mark.families
def test_the_word_that_was_copied_is_the_one_that_matters():
    """W2: the diagonal head writes source word i at row i; hiding it costs all, others nothing."""
    made = bart(["uniform", "shift-1", "shift0"], ["shift0", "uniform", "on_eos"])
    source, held = [5, 9, 7, 4, 11, EOS], [BOS, 5, 9, 7, 4, 11]
    found = tv.explain(made.module, source, 2, [*held], "removal")
    assert made.module is not None and found.explainer.question.token == 7
    table = found.values[found.values["sentence"] == "source"]
    assert int(table["value"].argmax()) == 2 and table["value"].max() > 5
    assert table["value"].drop(table.index[2]).abs().max() < 1e-3
    for method in ("removal", "gradient"):
        curve = tv.explain(made.module, source, 2, held, method).deletion(3, draws=20)
        own = curve.table[curve.table["method"] == method].set_index("hidden")
        chance = curve.table[curve.table["method"] == RANDOM].set_index("hidden")
        assert own["words"].loc[1] == "7"
        assert own["loss"].loc[1] == pytest.approx(table["value"].max(), abs=1e-3)
        assert own["loss"].loc[1] > chance["loss"].loc[1] + 1


@pytest.mark.shipped
def test_with_one_word_hidden_nothing_is_above_removal():
    """Words of several pieces are hidden whole, and removal's order is that of whole words."""
    model, text = tv.load("en-de-small", device="cpu"), "Tom's neighbours unexpectedly emigrated."
    explainer = Explainer(ask(model, text, 3))
    words = words_to_hide(explainer.question)
    assert any(len(places) > 1 for places in words.values())
    table = deletion_curve(explainer, most=1).table.query("hidden == 1").set_index("method")
    alone = hiding.scores_without(explainer.question, [(), *words.values()])
    best = float((alone[0] - alone[1:]).max())
    assert table.loc["removal", "loss"] == pytest.approx(best, abs=1e-5)
    assert (table["loss"] <= best + 1e-5).all() and (table["high"] <= best + 1e-5).all()


@pytest.mark.slow
def test_many_sentences_are_judged_together():
    """Each mean is that of the sentences' curves; chance is above chance by nothing."""
    model, generator = drawn(), np.random.default_rng(0)
    pairs = [(generator.integers(4, 37, 6).tolist(), [2, 9, 13, 30]) for _ in range(5)]
    heard: list[tuple[int, int]] = []
    found = judge(model, pairs, most=2, draws=3, on_progress=lambda *done: heard.append(done))
    assert heard[-1] == (5, 5) and found.losses.shape == (5, 6, 2)
    table = found.table.set_index(["method", "hidden"])
    assert table.loc[("rollout", 2), "loss"] == pytest.approx(found.losses[:, 1, 1].mean())
    above = (found.losses[:, 1, 1] - found.losses[:, -1, 1]).mean()
    assert table.loc[("rollout", 2), "above"] == pytest.approx(above)
    assert (table["low"] <= table["loss"]).all() and (table["loss"] <= table["high"]).all()
    assert (table.loc[RANDOM][["above", "above_low", "above_high"]] == 0).all(axis=None)
    assert found.card["sentences"] == 5 and found.card["seed"] == 0
    assert judge(model, pairs, most=2, draws=3).table.equals(found.table)


def test_refusals():
    model = drawn()
    lens = tv.explain(model, SOURCE, WORD, HELD, "lens")
    refuses(r"judges weights, rollout, .*'lens' is not judged", lens.deletion)
    short = tv.explain(model, [5], WORD, HELD, "weights")
    refuses("this input has 1 that can be hidden", short.deletion)
    refuses("None of these sentences", judge, model, [([5], [2, 9])])
    core = make_model(decoder_layers=0, source_vocab=0, target_vocab=0)
    vectors = np.random.default_rng(0).normal(size=(5, 22)).astype(np.float32)
    refuses("no output layer", tv.explain(core, vectors, 1, method="weights").deletion)


def bench(thing: nn.Module | Model, pairs: object) -> Bench:
    model = model_of(thing)
    return Bench(model, read_examples(model, pairs, 0, lambda: None), "zero", 0, lambda: None)


@pytest.mark.families
def test_gradients_of_gates(build_model):
    """P24: the absolute value is taken of each sentence before any mean."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(4, 37, 7).tolist() for _ in range(8)]
    model = random_gpt2()
    alone = [gradient_importance(bench(model, [text])) for text in texts]
    assert gradient_importance(bench(model, texts)) == pytest.approx(np.mean(alone, 0), abs=1e-6)
    own = build_model()
    pairs = [([5, *text[:4], 3], [7, 9, text[0]]) for text in texts]
    alone = [gradient_importance(bench(own, [pair])) for pair in pairs]
    assert gradient_importance(bench(own, pairs)) == pytest.approx(np.mean(alone, 0), abs=1e-6)
    model, text = random_gpt2().double(), [5, 9, 11, 30, 2, 7, 19]
    attention, ids = model.transformer.h[1].attn, torch.tensor([text])

    def loss(gate: float) -> float:
        def scaled(_: nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            x = given[0].clone()
            x[..., 8:16] *= gate
            return (x, *given[1:])

        handle = attention.c_proj.register_forward_pre_hook(scaled)
        with torch.no_grad():
            logits = model(ids).logits[0, :-1]
        handle.remove()
        return float(-logits.log_softmax(-1)[range(len(text) - 1), text[1:]].sum())

    slope = abs(loss(1 + 1e-5) - loss(1 - 1e-5)) / 2e-5
    assert gradient_importance(bench(model, [text]))[4 + 1] == pytest.approx(slope, rel=1e-4)
    found, rest = integrated_gates(bench(importance(gain=4.0).module, second_halves(4)), steps=64)
    assert abs(rest) <= 0.01 * abs(found.sum()) and found.sum() < -1
    assert found[0] < 0 and found[4] < 0 and abs(found[0] - found[4]) > 0.1
    others = np.delete(found, [0, 4])
    assert others == pytest.approx(np.zeros(6), abs=1e-6)


def test_a_model_whose_gates_are_hidden_says_so(build_model):
    model, tell = build_model(), lambda: None
    examples = read_examples(model, [([5, 7, 3], [9, 3])], 0, tell)
    hidden = Bench(model, examples, "zero", 0, tell, one_by_one=True)
    with pytest.raises(ValueError, match="rank it by removal, method='zero'"):
        gradient_importance(hidden)
