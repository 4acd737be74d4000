"""The witnesses do what is said of them: losses, copies, twins of one function."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import pytest
import torch

import transformer_viz as tv
from tests.support import witness_models
from tests.support.witness_models import Witness, copy_accuracy, second_half_loss

pytestmark = pytest.mark.families


def removed(witness: Witness, *names: str) -> float:
    """What the loss grows by without these heads: their rows of the projection are 0."""
    model = deepcopy(witness.model)
    for name in names:
        _, _, layer, head = witness.where[name]
        projection = model.transformer.h[layer].attn.c_proj.weight
        wide = projection.shape[0] // witness_models.HEADS
        projection.data[head * wide : (head + 1) * wide] = 0
    return second_half_loss(model, witness.prompts) - second_half_loss(
        witness.model, witness.prompts
    )


@pytest.mark.parametrize(
    ("copies", "gain", "wanted"),
    [
        (1, 4, (2.697, 2.697, 0, 2.697)),
        (1, 20, (2.996, 2.996, 0, 2.996)),
        (2, 4, (2.952, 0.255, 0.255, 2.952)),
        (2, 20, (2.996, 0, 0, 2.996)),
    ],
)
@pytest.mark.parametrize("seed", [None, 4])
def test_what_removal_costs(
    copies: int, gain: float, wanted: Sequence[float], seed: int | None
) -> None:
    witness = witness_models.causal(seed, copies=copies, gain=gain)
    twins = ("induction", "induction_copy")
    groups = (("previous",), *((name,) for name in twins), twins)
    assert [removed(witness, *group) for group in groups] == pytest.approx(wanted, abs=6e-4)
    for name in ("duplicate", "sink", "uniform", "self", "uniform_1"):
        assert removed(witness, name) == pytest.approx(0, abs=1e-9)


def test_the_encoder_decoder_copies_its_source() -> None:
    witness = witness_models.encoder_decoder(seed=2)
    for source, target in witness.prompts:
        with torch.no_grad():
            logits = witness.model(
                torch.tensor([source]), decoder_input_ids=torch.tensor([target])
            ).logits
        assert logits.argmax(-1)[0].tolist() == source


def test_twins_are_one_function() -> None:
    twins = witness_models.gauge_twins()
    ids = torch.tensor([twins["original"].prompts[0]])
    with torch.no_grad():
        logits = {name: twin.model(ids).logits for name, twin in twins.items()}
    for name, other in logits.items():
        assert torch.allclose(other, logits["original"], atol=1e-5), name


@pytest.mark.slow
def test_two_layers_learn_induction_and_one_does_not() -> None:
    """Elhage et al. 2021, Olsson et al. 2022: which heads they are depends on the seed."""
    two, one = witness_models.trained(), witness_models.trained(layers=1)
    assert copy_accuracy(two.model) > 0.95
    assert copy_accuracy(one.model) < 0.75
    table = tv.roles(tv.metrics(two.model, two.prompts))
    lower, upper = (table[table["layer"] == layer] for layer in (0, 1))
    assert upper["induction"].max() > 0.6
    assert lower["previous"].max() > 0.6
    assert any("induction" in names for names in upper["roles"])
    assert not any("induction" in names for names in lower["roles"])
    assert tv.metrics(one.model, one.prompts)["induction"].max() < 0.5
