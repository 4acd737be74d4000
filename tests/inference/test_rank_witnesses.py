"""Rankings of models whose heads' worth is known (tests/support/witness_models.py)."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformer_viz as tv
from tests.families.catalogue import BY_NAME, built, copied
from tests.families.more import MORE
from tests.support.witness_models import (
    HEADS,
    TWINS,
    VOCABULARY,
    WIDTH,
    Witness,
    importance,
    random_gpt2,
    second_halves,
    twin,
)
from transformer_viz.inference.ablation.bench import Bench
from transformer_viz.inference.ablation.examples import read_examples
from transformer_viz.inference.ablation.ranking import Ranking, measured

EXACT = 1e-6
PROMPTS = second_halves(8)
#: The heads as they are written, and in another order.
SEEDS = [None, 1]


@cache
def witness(gain: float, copies: int, seed: int | None = None) -> tuple[Witness, Ranking]:
    written = importance(gain, copies, seed)
    return written, tv.rank(written.module, PROMPTS, method="zero")


def effect(written: Witness, ranking: Ranking, layer: int, head: int) -> float:
    place = written.place(layer, head)
    return float(ranking.group([("decoder", "self", layer, place)])["effect"])


def loss_without_any(gain: float) -> float:
    """What a token costs where it alone has a logit, ``gain``; ln V where none has."""
    return math.log(math.exp(gain) + VOCABULARY - 1) - gain


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gain", [4.0, 20.0])
def test_the_true_ranking_of_one_induction_head(gain: float, seed: int | None) -> None:
    """W4, P22: both heads of the chain cost everything, also where the gradient is 0."""
    written, ranking = witness(gain, 1, seed)
    table = ranking.table
    wanted = math.log(VOCABULARY) - loss_without_any(gain)
    assert wanted == pytest.approx({4.0: 2.697, 20.0: 2.996}[gain], abs=5e-4)
    found = {tuple(pair) for pair in table[["layer", "head"]].iloc[:2].to_numpy().tolist()}
    assert found == {(layer, written.place(layer, 0)) for layer in (0, 1)}
    assert table["effect"].iloc[:2].to_numpy() == pytest.approx([wanted] * 2, abs=1e-5)
    assert table["significant"].iloc[:2].all()
    assert (table["rank_high"].iloc[:2] <= 2).all()


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("gain", "copies"), [(4.0, 1), (20.0, 1), (20.0, 2)])
def test_heads_that_write_nothing_cost_exactly_nothing(
    gain: float, copies: int, seed: int | None
) -> None:
    """P20: removing one head leaves the roles of the others alone, to the last bit."""
    written, ranking = witness(gain, copies, seed)
    used = {(0, written.place(0, 0)), *((1, written.place(1, head)) for head in range(copies))}
    idle = [
        number for number, site in enumerate(ranking.heads) if (site.layer, site.head) not in used
    ]
    assert len(idle) == 2 * HEADS - 1 - copies
    assert (ranking.effects[:, idle] == 0).all()
    names = ["effect", "low", "high", "kl", "changed"]
    dull = ranking.table.iloc[1 + copies :]
    assert (dull[names] == 0).all(axis=None)
    assert not dull["significant"].any()
    # none of them is put before another
    assert (dull["rank_low"] == 2 + copies).all()
    assert (dull["rank_high"] == 2 * HEADS).all()


@pytest.mark.families
def test_the_gradient_calls_the_most_important_heads_useless() -> None:
    """P22: on the saturated witness |dL/dgate| is nothing, where removal costs ln V."""
    model, gates, losses = importance(20.0).module, torch.ones(2, HEADS, requires_grad=True), []

    def gate(layer: int) -> object:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (inputs[0] * gates[layer].repeat_interleave(WIDTH),)

        return hook

    for layer, block in enumerate(model.transformer.h):
        block.attn.c_proj.register_forward_pre_hook(gate(layer))
    for first, second in PROMPTS:
        rows = model(torch.tensor([first + second])).logits[0, len(first) - 1 : -1]
        losses.append(nn.functional.cross_entropy(rows, torch.tensor(second)))
    torch.stack(losses).mean().backward()
    assert gates.grad is not None
    assert float(gates.grad.abs().max()) < 1e-6
    assert witness(20.0, 1)[1].table["effect"].iloc[0] > 2.99


@pytest.mark.families
@pytest.mark.parametrize("seed", SEEDS)
def test_two_heads_that_cover_for_each_other(seed: int | None) -> None:
    """P23: alone each of two copies costs nothing, and the pair table shows what both are worth."""
    written, ranking = witness(20.0, 2, seed)
    assert effect(written, ranking, 0, 0) == pytest.approx(math.log(VOCABULARY), abs=1e-4)
    assert effect(written, ranking, 1, 0) < 1e-3
    assert effect(written, ranking, 1, 1) < 1e-3
    pairs = ranking.pairs
    names = {f"decoder L1 H{written.place(1, head)}" for head in (0, 1)}
    both = pairs[pairs["a"].isin(names) & pairs["b"].isin(names)].iloc[0]
    assert both["together"] == pytest.approx(2.996, abs=1e-3)
    assert both["interaction"] == pytest.approx(2.996, abs=2e-3)
    assert both["covered"]
    assert pairs["covered"].sum() == 1
    assert any("may be covered by others" in note for note in ranking.notes)
    # removing the head before them leaves nothing that one of them could lose: links of a chain
    first = f"decoder L0 H{written.place(0, 0)}"
    chain = pairs[(pairs["a"] == first) | (pairs["b"] == first)]
    assert (chain["interaction"] <= 0).all()


@pytest.mark.families
@pytest.mark.parametrize("kind", TWINS)
def test_other_weights_of_one_function(kind: str) -> None:
    """W5, P17: the ranking by means stays whatever the weights; zero's does not where a value bias
    moved into the output bias, and the ranking says so."""
    one = random_gpt2()
    other = twin(one, kind)
    generator = torch.Generator().manual_seed(3)
    texts = torch.randint(37, (12, 13), generator=generator).tolist()
    ids = torch.tensor(texts)
    with torch.inference_mode():
        assert (one(ids).logits - other.module(ids).logits).abs().max() < 2e-5
    for method in ("mean", "zero", "resample"):
        a, b = (tv.rank(model, texts, method=method) for model in (one, other.module))
        # column n of b is head order[n] of a
        as_a = [HEADS * layer + head for layer, heads in enumerate(other.order) for head in heads]
        apart = float(np.abs(a.effects[:, as_a] - b.effects).max() / 12)
        assert a.card["method"] == method
        assert ("output projection changes this ranking" in " ".join(a.notes)) == (method == "zero")
        if (method, kind) == ("zero", "bias"):
            assert apart > 0.05
        else:
            assert apart < 5e-6


@pytest.mark.families
@pytest.mark.parametrize("method", ["zero", "uniform"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "falcon", "marian", "t5"])
def test_one_pass_is_the_probe_one_by_one(name: str, method: str) -> None:
    """P21 on models of the transformers library: fused projections, grouped queries, biases."""
    # in float64, as far as these models let it: some take their softmax in float32 all the same
    model = tv.load(copied(BY_NAME[name]).double())
    texts = [[1, 5, 7, 11, 13, 2], [1, 9, 8, 7, 2], [1, 33, 21, 5, 5, 30, 2]]
    pairs = [(a, [1, *b[2:5]]) for a, b in zip(texts, texts[::-1], strict=True)]
    given = pairs if model.kind == "encoder-decoder" else texts
    examples = read_examples(model, given, 0, lambda: None)
    fast = Bench(model, examples, method, 0, lambda: None)
    assert fast.in_one_pass
    slow = Bench(model, examples, method, 0, lambda: None, one_by_one=True)
    a, b = measured(fast), measured(slow)
    assert np.abs(a.effects).max() > 0.1
    assert (np.abs(a.effects - b.effects) / a.counts[:, None]).max() <= EXACT


@pytest.mark.families
def test_a_model_whose_projection_is_not_found_has_a_run_for_each_head() -> None:
    """Bitnet norms the heads together before it projects them: no feature is one head's alone."""
    model = tv.load(built(next(family for family in MORE if family.name == "bitnet")))
    texts = [[1, 5, 7, 11, 13, 2], [1, 9, 8, 7, 2]]
    ranking = tv.rank(model, texts, method="zero")
    assert ranking.card["runs"] == "one run of the probe a head"
    assert ranking.table["effect"].iloc[0] > 0.1
    with pytest.raises(ValueError, match=r"not found before an output projection.*method='zero'"):
        tv.rank(model, texts)
