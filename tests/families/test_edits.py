"""Edits against the same change made by hand in the model."""

from __future__ import annotations

import pytest

from transformer_viz.core.interventions import (
    BlockEdges,
    BlockKeys,
    Causal,
    ScaleHead,
    Temperature,
    UniformHead,
    Window,
)

from . import hands, laws
from .__main__ import LIFTABLE
from .catalogue import BY_NAME, FAMILIES, SOURCE, Family, built, real
from .test_capture import EACH, label

pytestmark = pytest.mark.families
LIFTED = [(f, i) for f, i in EACH if f.name in LIFTABLE]
WINDOWED = [(f, i) for f, i in EACH if f.name in (*LIFTABLE, "bert", "roberta", "qwen2")]
PROJECTED = [(f, i) for f, i in EACH if f.output]


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_temperature_is_halved_queries_and_biases(family: Family, implementation: str) -> None:
    assert laws.temperature(family, implementation) <= 1e-5


@pytest.mark.parametrize(("family", "implementation"), PROJECTED, ids=label)
def test_silenced_head_is_a_zeroed_slice(family: Family, implementation: str) -> None:
    assert laws.ablation(family, implementation) <= 1e-5


def test_silenced_head_of_xlnet_is_its_part_of_the_projection() -> None:
    family = BY_NAME["xlnet"]
    _, out = laws.watched(built(family), family, ScaleHead(value=0, layer=1, head=1))
    model = hands.copied(family)
    model.layer[1].rel_attn.o.data[:, 1] = 0
    assert laws.far(laws.answer(out), laws.answer(laws.run(model, family))) <= 1e-5


@pytest.mark.parametrize(("family", "implementation"), LIFTED, ids=label)
def test_lifted_causal_mask_is_an_all_visible_one(family: Family, implementation: str) -> None:
    mask = hands.visible(family, lambda query, key: key == key + 0 * query)
    assert laws.masked(family, implementation, (Causal(on=False),), mask) <= 1e-5


@pytest.mark.parametrize(("family", "implementation"), WINDOWED, ids=label)
def test_window_is_a_narrow_mask(family: Family, implementation: str) -> None:
    causal = family.maps[0][1] == "decoder"
    mask = hands.visible(
        family, lambda query, key: ((key - query).abs() <= 1) & ((key <= query) | (not causal))
    )
    assert laws.masked(family, implementation, (Window(radius=1),), mask) <= 1e-5


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_hidden_keys_and_cut_links_are_masked_cells(name: str, implementation: str) -> None:
    family = BY_NAME[name]
    causal = family.maps[0][1] == "decoder"
    mask = hands.visible(
        family,
        lambda query, key: (
            (key != 2) & ~((query == 4) & (key == 1)) & ((key <= query) | (not causal))
        ),
    )
    edits = (BlockKeys(keys=(2,)), BlockEdges(edges=((4, 1),)))
    assert laws.masked(family, implementation, edits, mask) <= 1e-5


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_uniform_head_sees_all_visible_keys_alike(name: str, implementation: str) -> None:
    family = BY_NAME[name]
    seen, _ = laws.watched(built(family, implementation), family, UniformHead(head=2))
    clean, _ = laws.watched(built(family, implementation), family)
    weights = seen.attentions[0].weights[:, 2]
    visible = (clean.attentions[0].weights[:, 2] > 0).float()
    expected = visible / visible.sum(-1, keepdim=True)
    assert laws.far(real(weights, 1), real(expected, 1)) <= 1e-6


@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_temperature_reaches_every_site(family: Family) -> None:
    clean, _ = laws.watched(built(family), family)
    for _, stack, kind in family.maps:
        edit = Temperature(value=3, stack=stack, block=kind, layer=1, head=1)
        seen, _ = laws.watched(built(family), family, edit)
        place = [(a.stack, a.kind, a.layer) for a in clean.attentions].index((stack, kind, 1))
        pairs = zip(clean.attentions, seen.attentions, strict=True)
        changes = [laws.far(real(b.weights, 2), real(a.weights, 2)) for b, a in pairs]
        assert max(changes[:place]) == 0 < 1e-3 < changes[place]


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_an_edit_of_no_site_names_the_sites(name: str) -> None:
    family = BY_NAME[name]
    with pytest.raises(ValueError, match=r"L1 \(4 heads\)"):
        laws.watched(built(family), family, ScaleHead(value=0, layer=7))
    with pytest.raises(ValueError, match=r"4 heads"):
        laws.watched(built(family), family, Temperature(value=2, head=SOURCE))
