"""Edits that take numbers from elsewhere: in traces, in searches, and refused where they mean
nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transformer_viz as tv
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
def translator(build_model: Callable[..., Model]) -> Model:
    return drawn(build_model())


@pytest.fixture(scope="module")
def gpt(build_model: Callable[..., Model]) -> Model:
    return drawn(build_model(encoder_layers=0, source_vocab=0))


def test_tokens_are_matched_in_their_order() -> None:
    assert matched("abcde", "abxde") == (0, 1, 2, 3, 4)
    assert matched("abcde", "abxyde") == (0, 1, None, 4, 5)
    assert matched("abcde", "abde") == (0, 1, None, 2, 3)
    assert matched("abc", "abc") == (0, 1, 2)
    assert matched("", "abc") == ()
    assert unmatched(matched("abcde", "abxyde"), 6) == ((2,), (2, 3))


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_search_is_one_pass_over_its_words(translator: Model, name: str, beam: int) -> None:
    """Each step's probability is that of one traced pass, whose donor reads the same words."""
    edits = Intervention((EDITS[name],))
    best = tv.translate(translator, OWN, beam, intervention=edits, max_tokens=7)[0]
    run = tv.trace(
        translator,
        OWN,
        [2, *best.ids[:-1]],
        intervention=edits,
        produced=best.ids,
        check=False,
    )
    assert run.produced is not None
    steps = np.log(run.produced.probability)
    assert best.steps == pytest.approx(steps.tolist(), abs=1e-4)
    clean = tv.translate(translator, OWN, target=[2, *best.ids])[0]
    assert abs(clean.log_probability - best.log_probability) > 1e-4
    line = " ".join(map(str, OWN))
    again = translate_lines(translator, [line], beam, intervention=edits)[0]
    assert again.ids[:6] == tv.translate(translator, OWN, beam, intervention=edits)[0].ids[:6]


@pytest.mark.parametrize("kind", [SwapHead, SwapPattern, SwapStream])
def test_a_gpt_goes_on_with_its_own_words_in_both_runs(gpt: Model, kind: type[Edit]) -> None:
    edits = Intervention((kind(source=tuple(OTHER), layer=0),))  # type: ignore[call-arg]
    best = tv.translate(gpt, OWN, intervention=edits, max_tokens=5)[0]
    run = tv.trace(gpt, OWN, best.ids, intervention=edits, check=False)
    logs = run.logits - np.log(np.exp(run.logits).sum(-1, keepdims=True))
    steps = [logs[len(OWN) - 1 + n, i] for n, i in enumerate(best.ids)]
    assert best.steps == pytest.approx(steps, abs=1e-4)


def test_everything_from_the_other_is_the_other(translator: Model) -> None:
    other = tv.trace(translator, OTHER, HELD, check=False)
    for edits in (
        (SwapHead(source=OTHER, stack="decoder"),),
        (SwapStream(source=OTHER, stack="encoder", layer=2),),
        tuple(SwapStream(source=OTHER, stack="encoder", layer=0, token=n) for n in range(7)),
    ):
        run = tv.trace(translator, OWN, HELD, intervention=Intervention(edits), check=False)
        np.testing.assert_allclose(run.logits, other.logits, atol=1e-5)
    own = Intervention((SwapHead(source=tuple(OWN)),))
    clean = tv.trace(translator, OWN, HELD, check=False)
    run = tv.trace(translator, OWN, HELD, intervention=own, check=False)
    np.testing.assert_allclose(run.logits, clean.logits, atol=1e-6)


def test_a_report_and_gradients_live_with_it(translator: Model) -> None:
    edits = Intervention((EDITS["head"], Temperature(value=2.0, stack="encoder")))
    run = tv.trace(translator, OWN, HELD, intervention=edits, keep=("weights", "gradients"))
    assert run.report.status == "green" and run.intervention == edits
    assert np.abs(run.gradients("encoder")).max() > 0
    plain = tv.trace(translator, OWN, HELD, intervention=edits, check=False)
    np.testing.assert_allclose(run.logits, plain.logits, atol=1e-5)
    # the donor is the other sentence's clean run: the temperature does not touch it
    alone = tv.trace(translator, OWN, HELD, intervention=Intervention(edits.edits[1:]), check=False)
    assert np.abs(alone.logits - plain.logits).max() > 1e-3


def test_the_later_head_covers_the_earlier_one(translator: Model) -> None:
    """A swap stands behind all that is done to the weights of its head."""
    place = {"stack": "decoder", "block": "cross", "layer": 1, "head": 1}
    hot = Intervention((Temperature(value=9.0, **place), EDITS["head"]))  # type: ignore[arg-type]
    both, alone = (
        tv.trace(translator, OWN, HELD, intervention=edits, check=False)
        for edits in (hot, Intervention((EDITS["head"],)))
    )
    np.testing.assert_allclose(both.logits, alone.logits, atol=1e-6)


def test_a_search_can_be_watched(translator: Model) -> None:
    edits = Intervention((EDITS["head"],))
    seen = record(translator, OWN, 2, intervention=edits, max_tokens=4)
    assert seen.rows and seen.rows[0].shape[-1] == len(OWN)


def test_step_inside_tells_the_same_run(translator: Model) -> None:
    for name in ("head", "pattern", "stream"):
        edits = Intervention((EDITS[name],))
        walk = step_inside(
            translator, OWN, HELD, site=Site("decoder", "cross", 1, 1), row=2, intervention=edits
        )
        run = tv.trace(translator, OWN, HELD, intervention=edits, check=False, keep=("hidden",))
        last = walk.stages[-1].arrays["out"]
        np.testing.assert_allclose(last, run.hidden("decoder")[-1, 2], atol=1e-4)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (SwapHead(source=OTHER, layer=9), "matches no place in this model, which has encoder L0"),
        (SwapHead(source=OTHER, stack="encoder", token=40), "token 40 does not stand in this"),
        (SwapStream(source=[5, 17, 30, 31, 29], stack="encoder", token=2), "has no counterpart"),
        (SwapPattern(source=[5, 17], stack="encoder"), "swap what the heads give"),
        (SwapHead(source=[99]), "The source has the id 99"),
        (SwapHead(source="The cat"), "type token ids"),
        (MeanHead(mean="0123456789"), "are not known here"),
    ],
)
def test_what_finds_nothing_is_said(translator: Model, edit: Edit, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tv.trace(translator, OWN, HELD, intervention=Intervention((edit,)), check=False)
    with pytest.raises(ValueError):
        late = isinstance(edit, SwapHead | SwapStream) and edit.token is not None
        tv.translate(translator, OWN, intervention=Intervention((edit,)), max_tokens=2)
        if late:
            raise ValueError("a token may come later in a search, so it is passed over")


def test_a_probe_alone_knows_no_other_sentence(translator: Model) -> None:
    edits = Intervention((EDITS["head"],))
    with (
        pytest.raises(ValueError, match="which a probe alone does not know; use trace"),
        torch.inference_mode(),
        probe(translator.module, edits),
    ):
        translator.module(torch.tensor([OWN]), torch.tensor([HELD]))


@pytest.mark.shipped
def test_models_of_pictures_are_refused() -> None:
    model = tv.load("digits", device="cpu")
    picture = np.zeros((1, 8, 8), np.float32)
    edits = Intervention((SwapHead(source="a"),))
    with pytest.raises(ValueError, match="reads image; take the edit out"):
        tv.trace(model, picture, intervention=edits, check=False)


PAIRS = [([5, 9, 31, 7, 3], [2, 7, 31, 9]), ([17, 6, 3], [2, 9, 4, 4, 8]), ([8, 6, 30, 3], [2, 5])]


def test_a_stored_mean_removes_a_head_as_the_ranking_did(translator: Model) -> None:
    """The edit's run against a ranking's own removal: the same nats on the same words."""
    ranking = tv.rank(translator, PAIRS)
    row: Any = next(ranking.table.itertuples())
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
    with pytest.raises(ValueError, match="No edit says 'resample'"):
        tv.rank(translator, PAIRS, method="resample").edits([row])
    with pytest.raises(ValueError, match="those of method='mean'"):
        _ = zero.means


def test_means_are_a_file_beside_the_weights(tmp_path: Path, translator: Model) -> None:
    from dataclasses import replace

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
    attention = model.module.decoder.layers[0].cross_attention

    def change(_: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        x = given[0].clone()
        x[..., 13:] = 1
        return (x,)

    handle = attention.output.register_forward_pre_hook(change)
    with torch.inference_mode():
        wanted = model.module(torch.tensor([OWN]), torch.tensor([HELD]))[0].numpy()
    handle.remove()
    np.testing.assert_allclose(run.logits, wanted, atol=1e-5)
    with pytest.raises(ValueError, match="these means are of cross L0, cross L1"):
        lost = Intervention((MeanHead(mean=means.hash, stack="encoder"),))
        tv.trace(model, OWN, HELD, intervention=lost, check=False)
    with pytest.raises(ValueError, match="measured on other weights"):
        head_means.find(means.hash, replace(model, hash="0" * 64))
    damaged = tmp_path / f"means-{'0' * 16}.safetensors"
    path.rename(damaged)
    with pytest.raises(ValueError, match="not those that its name says"):
        head_means.read(damaged)
    damaged.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="holds no means of heads"):
        head_means.read(damaged)


@pytest.mark.shipped
def test_the_words_are_found_in_the_outputs() -> None:
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
    with pytest.raises(ValueError, match="stands in the outputs"):
        tv.swap(model, own, other, ("Regen", "Sonne"))
    with pytest.raises(ValueError, match="part nowhere"):
        tv.swap(model, "The cat sat.", "The cat sat .")
    with pytest.raises(ValueError, match="Both runs say"):
        tv.swap(model, own, other, target="")
