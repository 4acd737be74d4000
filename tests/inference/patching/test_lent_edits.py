"""Edits that take numbers from another run: in traces, in searches, and refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

import transformer_viz as tv
from tests.conftest import make_model
from tests.support.refusals import refuses
from transformer_viz.capture import probe
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.core.editing.token_match import matched, unmatched
from transformer_viz.core.interventions import (
    Edit,
    Intervention,
    MeanHead,
    SwapHead,
    SwapPattern,
    SwapStream,
    Temperature,
)
from transformer_viz.core.sites import Site
from transformer_viz.inference import head_means
from transformer_viz.inference.generation import translate_lines
from transformer_viz.inference.head_means import HeadMeans
from transformer_viz.inference.search_recorder import record
from transformer_viz.walkthrough import step_inside

from .hooks import reading, replacing

OWN, OTHER, HELD = [5, 17, 6, 29, 8, 3, 11], [5, 17, 23, 29, 8, 3, 12], [2, 7, 31, 9]
EDITS: dict[str, Edit] = {
    "head": SwapHead(source=OTHER, stack="decoder", block="cross", layer=1, head=1),
    "encoder": SwapHead(source=OTHER, stack="encoder", token=2),
    "pattern": SwapPattern(source=OTHER, stack="decoder", block="self", layer=1),
    "stream": SwapStream(source=OTHER, stack="encoder", layer=1),
    "written": SwapStream(source=OTHER, stack="decoder", layer=0, token=3),
}


def drawn(model: Model) -> Model:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.module.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


@pytest.fixture(scope="module")
def translator() -> Model:
    return drawn(make_model())


def traced(model: Model, *edits: Edit, **words: object) -> tv.Trace:
    words = {"intervention": Intervention(edits), "check": False} | words
    return tv.trace(model, OWN, HELD, **words)


def test_everything_from_the_other_is_the_other(translator):
    for own, other, wanted in (
        ("abcde", "abxde", (0, 1, 2, 3, 4)),
        ("abcde", "abxyde", (0, 1, None, 4, 5)),
        ("abcde", "abde", (0, 1, None, 2, 3)),
        ("abc", "abc", (0, 1, 2)),
        ("", "abc", ()),
    ):
        assert matched(own, other) == wanted, (own, other)
    assert unmatched(matched("abcde", "abxyde"), 6) == ((2,), (2, 3))
    other = tv.trace(translator, OTHER, HELD, check=False)
    for edits in (
        (SwapHead(source=OTHER, stack="decoder"),),
        (SwapStream(source=OTHER, stack="encoder", layer=2),),
        tuple(SwapStream(source=OTHER, stack="encoder", layer=0, token=n) for n in range(7)),
    ):
        np.testing.assert_allclose(traced(translator, *edits).logits, other.logits, atol=1e-5)
    own = traced(translator, SwapHead(source=tuple(OWN))).logits
    np.testing.assert_allclose(own, traced(translator).logits, atol=1e-6)


@pytest.mark.slow
def test_a_search_is_one_pass_over_its_words(translator):
    """Each step's probability is that of one traced pass, whose donor reads the same words."""
    line = " ".join(map(str, OWN))
    for (name, edit), beam in product(EDITS.items(), (1, 3)):
        edits, case = Intervention((edit,)), (name, beam)
        best = tv.translate(translator, OWN, beam, intervention=edits, max_tokens=7)[0]
        words = {"intervention": edits, "produced": best.ids, "check": False}
        run = tv.trace(translator, OWN, [2, *best.ids[:-1]], **words)
        steps = np.log(run.produced.probability)
        assert best.steps == pytest.approx(steps.tolist(), abs=1e-4), case
        clean = tv.translate(translator, OWN, target=[2, *best.ids])[0]
        assert abs(clean.log_probability - best.log_probability) > 1e-4, case
        again = translate_lines(translator, [line], beam, intervention=edits)[0].ids[:6]
        assert again == tv.translate(translator, OWN, beam, intervention=edits)[0].ids[:6], case
    seen = record(translator, OWN, 2, intervention=Intervention((EDITS["head"],)), max_tokens=4)
    assert seen.rows and seen.rows[0].shape[-1] == len(OWN)


def test_a_gpt_goes_on_with_its_own_words_in_both_runs():
    gpt = drawn(make_model(encoder_layers=0, source_vocab=0))
    for kind in (SwapHead, SwapPattern, SwapStream):
        edits = Intervention((kind(source=tuple(OTHER), layer=0),))
        best = tv.translate(gpt, OWN, intervention=edits, max_tokens=5)[0]
        run = tv.trace(gpt, OWN, best.ids, intervention=edits, check=False)
        logs = run.logits - np.log(np.exp(run.logits).sum(-1, keepdims=True))
        steps = [logs[len(OWN) - 1 + n, i] for n, i in enumerate(best.ids)]
        assert best.steps == pytest.approx(steps, abs=1e-4), kind


@pytest.mark.slow
def test_a_swap_beside_other_edits(translator):
    edits = (EDITS["head"], Temperature(value=2.0, stack="encoder"))
    run = traced(translator, *edits, keep=("weights", "gradients"), check=None)
    assert run.report.status == "green" and run.intervention.edits == Intervention(edits).edits
    assert np.abs(run.gradients("encoder")).max() > 0
    plain = traced(translator, *edits).logits
    np.testing.assert_allclose(run.logits, plain, atol=1e-5)
    # the donor is the other sentence's clean run: the temperature does not touch it
    assert np.abs(traced(translator, *run.intervention.edits[1:]).logits - plain).max() > 1e-3
    # a swap stands behind all that is done to the weights of its head
    hot = Temperature(value=9.0, stack="decoder", block="cross", layer=1, head=1)
    both, alone = traced(translator, hot, EDITS["head"]), traced(translator, EDITS["head"])
    np.testing.assert_allclose(both.logits, alone.logits, atol=1e-6)
    for name in ("head", "pattern", "stream"):  # step inside shows the same run
        words = {"site": Site("decoder", "cross", 1, 1), "row": 2}
        words["intervention"] = Intervention((EDITS[name],))
        last = step_inside(translator, OWN, HELD, **words).stages[-1].arrays["out"]
        run = traced(translator, EDITS[name], keep=("hidden",))
        np.testing.assert_allclose(last, run.hidden("decoder")[-1, 2], atol=1e-4)


def test_refusals(translator):
    for edit, said in (
        (SwapHead(source=OTHER, layer=9), "matches no place in this model, which has encoder L0"),
        (SwapHead(source=OTHER, stack="encoder", token=40), "token 40 does not stand in this"),
        (SwapStream(source=[5, 17, 30, 31, 29], stack="encoder", token=2), "has no counterpart"),
        (SwapPattern(source=[5, 17], stack="encoder"), "swap what the heads give"),
        (SwapHead(source=[99]), "The source has the id 99"),
        (SwapHead(source="The cat"), "type token ids"),
        (MeanHead(mean="0123456789"), "are not known here"),
    ):
        refuses(said, traced, translator, edit)
        words = {"intervention": Intervention((edit,)), "max_tokens": 2}
        if getattr(edit, "token", None) is not None:  # it may come later in a search
            tv.translate(translator, OWN, **words)
        else:
            refuses(None, tv.translate, translator, OWN, **words)
    with (
        pytest.raises(ValueError, match="which a probe alone does not know; use trace"),
        torch.inference_mode(),
        probe(translator.module, Intervention((EDITS["head"],))),
    ):
        translator.module(torch.tensor([OWN]), torch.tensor([HELD]))


@pytest.mark.shipped
def test_models_of_pictures_are_refused():
    model, picture = tv.load("digits", device="cpu"), np.zeros((1, 8, 8), np.float32)
    edits = Intervention((SwapHead(source="a"),))
    said = "reads image; take the edit out"
    refuses(said, tv.trace, model, picture, intervention=edits, check=False)


PAIRS = [([5, 9, 31, 7, 3], [2, 7, 31, 9]), ([17, 6, 3], [2, 9, 4, 4, 8]), ([8, 6, 30, 3], [2, 5])]


def test_a_stored_mean_removes_a_head_as_the_ranking_did(translator):
    """The edit's run against a ranking's own removal: the same nats on the same words."""
    ranking = tv.rank(translator, PAIRS)
    row = next(ranking.table.itertuples())
    (edit,) = ranking.edits([row])
    assert isinstance(edit, MeanHead) and edit.mean == ranking.means.hash
    assert Intervention.from_json(Intervention((edit,)).to_json()).edits == (edit,)
    total = 0.0
    for source, target in PAIRS:
        read, wanted = target[:-1], target[1:]
        costs = []
        for edits in (Intervention(), Intervention((edit,))):
            run = tv.trace(translator, source, read, intervention=edits, check=False)
            logs = run.logits.astype(np.float64)
            logs -= np.log(np.exp(logs).sum(-1, keepdims=True))
            costs.append(-sum(logs[n, i] for n, i in enumerate(wanted)))
        total += costs[1] - costs[0]
    rows = int(ranking.counts.sum())
    assert total / rows == pytest.approx(row.effect, abs=1e-5)
    zero = tv.rank(translator, PAIRS, method="zero")
    assert zero.edits([row])[0].kind == "scale_head"
    resampled = tv.rank(translator, PAIRS, method="resample")
    refuses("No edit says 'resample'", resampled.edits, [row])
    refuses("those of method='mean'", getattr, zero, "means")


def test_means_are_a_file_beside_the_weights(tmp_path, translator):
    values = {"cross L0": np.ones((2, 13), np.float32), "cross L1": np.zeros((2, 13), np.float32)}
    means = HeadMeans(values, "", "abc", 9)
    path = means.save(tmp_path)
    assert head_means.read(path).hash == means.hash
    model = replace(translator, folder=tmp_path)
    assert head_means.find(means.hash[:8], model).rows == 9
    at = {"stack": "decoder", "block": "cross", "layer": 0, "head": 1}
    edits = Intervention((MeanHead(mean=means.hash, **at),))  # type: ignore[arg-type]
    run = tv.trace(model, OWN, HELD, intervention=edits, check=False)
    # by hand: the projection reads ones where the head's features are
    attention, ones = model.module.decoder.layers[0].cross_attention, torch.ones(1, len(HELD), 26)
    with torch.inference_mode(), reading(attention.output, replacing(ones, ..., slice(13, None))):
        wanted = model.module(torch.tensor([OWN]), torch.tensor([HELD]))[0].numpy()
    np.testing.assert_allclose(run.logits, wanted, atol=1e-5)
    lost, said = MeanHead(mean=means.hash, stack="encoder"), "these means are of cross L0, cross L1"
    refuses(said, traced, model, lost)
    other = replace(model, hash="0" * 64)
    refuses("measured on other weights", head_means.find, means.hash, other)
    damaged = tmp_path / f"means-{'0' * 16}.safetensors"
    path.rename(damaged)
    refuses("not those that its name says", head_means.read, damaged)
    damaged.write_bytes(b"nothing")
    refuses("holds no means of heads", head_means.read, damaged)


@pytest.mark.shipped
def test_the_words_are_found_in_the_outputs():
    model = tv.load("en-de", device="cpu")
    own = "The animal didn't cross the street because it was too tired."
    other = "The animal didn't cross the street because it was too wide."
    texts = [tv.translate(model, text)[0].text for text in (own, other)]
    assert texts[0] != texts[1]
    found = tv.swap(model, own, other, only=["cross"])
    named = tv.swap(model, own, other, found.words, only=["cross"])
    np.testing.assert_array_equal(found.grid, named.grid)
    assert found.target is not None
    held = model.tokenizer.decode(found.target.ids)
    assert texts[0].startswith(held) and texts[1].startswith(held)
    typed = tv.swap(model, own, other, found.words, target=held, only=["cross"])
    np.testing.assert_allclose(typed.grid, found.grid, atol=1e-5)
    refuses("stands in the outputs", tv.swap, model, own, other, ("Regen", "Sonne"))
    refuses("part nowhere", tv.swap, model, "The cat sat.", "The cat sat .")
    refuses("Both runs say", tv.swap, model, own, other, target="")
