"""What is captured is what the model did: against its own report, eager and fused."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.support import device
from transformer_viz.capture.lineage import KEY
from transformer_viz.core.sites import Site

from . import laws
from .catalogue import (
    BOTH,
    BY_NAME,
    FAMILIES,
    HEADS,
    LAYERS,
    SOURCE,
    Family,
    answer,
    built,
    copied,
    inputs,
    run,
)

pytestmark = pytest.mark.families
EACH = [(f, i) for f in FAMILIES for i in (("eager", "sdpa") if f.fused else ("eager",))]
#: Falcon's own fused code rounds ALiBi otherwise than its eager code; only outputs can be compared.
REPORTED = [(f, i) for f, i in EACH if (f.name, i) != ("falcon_alibi", "sdpa")]


def label(value: object) -> str:
    return str(value)


@pytest.mark.parametrize(("family", "implementation"), REPORTED, ids=label)
def test_captured_attention_is_what_the_model_reports(family: Family, implementation: str) -> None:
    assert laws.capture(family, implementation) <= 1e-5


@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_attention_is_far_from_uniform(family: Family) -> None:
    seen, _ = laws.watched(built(family), family)
    peaks = [a.weights.amax(-1).mean() * a.shape[1] for a in seen.attentions]
    assert min(peaks) > 1.3


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_watching_changes_nothing(family: Family, implementation: str) -> None:
    bound = 0.0 if implementation == "eager" else 1e-5
    assert laws.output(family, implementation) <= bound


@pytest.mark.parametrize(("family", "implementation"), EACH, ids=label)
def test_each_block_is_rebuilt_from_its_weights(family: Family, implementation: str) -> None:
    worst = laws.rebuilt(family, implementation)
    assert worst is not None and worst <= 1e-5


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "mixtral"])
def test_the_model_stays_as_it_was(name: str) -> None:
    family = BY_NAME[name]
    model = built(family, "sdpa")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    config = copy.deepcopy(model.config.to_dict())
    attributes = [sorted(vars(module)) for module in model.modules()]
    laws.watched(model, family, laws.Temperature(value=2))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert model.config.to_dict() == config
    assert [sorted(vars(module)) for module in model.modules()] == attributes
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["t5", "bart", "marian", "whisper"])
def test_sites_of_both_stacks(name: str, implementation: str) -> None:
    family = BY_NAME[name]
    seen, _ = laws.watched(built(family, implementation), family)
    expected = {Site(stack, kind, layer) for _, stack, kind in BOTH for layer in range(LAYERS)}
    assert set(seen.sites) == expected
    assert len(seen.attentions) == len(expected)
    assert {a.heads for a in seen.attentions} == {HEADS}
    own = [a for a in seen.attentions if a.kind == "self"]
    assert all(a.path.removeprefix("model.").startswith(a.stack) for a in own)


def test_shared_layers_are_told_apart() -> None:
    family = BY_NAME["albert"]
    seen, _ = laws.watched(built(family), family)
    assert len({a.path for a in seen.attentions}) == 1
    assert [a.layer for a in seen.attentions] == [0, 1, 2]


@pytest.mark.parametrize("name", ["mixtral", "jamba", "gpt_oss"])
def test_routers_and_output_softmaxes_are_no_attention(name: str) -> None:
    family = BY_NAME[name]
    with laws.probe(built(family)) as seen:
        run(built(family), family).logits.softmax(-1)
    assert len(seen.attentions) == 2
    assert not any("mlp" in a.path or "router" in a.path for a in seen.attentions)


@pytest.mark.parametrize("count", [SOURCE, 1])
@pytest.mark.parametrize("name", ["gpt_oss", "mixtral", "jamba"])
def test_weights_of_chosen_experts_are_no_values(name: str, count: int) -> None:
    """The library takes this way when it writes on a graphics card: matrices for each token."""
    family = BY_NAME[name]
    model = copied(family)
    ids = inputs(family)["input_ids"][:1, :count]
    seen = []
    for way in ("grouped_mm", "batched_mm"):
        model.set_experts_implementation(way)
        with torch.no_grad(), laws.probe(model) as run:
            model(input_ids=ids)
        seen.append(run.attentions)
    one, other = ([(a.path, a.weights) for a in records] for records in seen)
    assert [path for path, _ in one] == [path for path, _ in other] and one
    assert max(laws.far(a, b) for (_, a), (_, b) in zip(one, other, strict=True)) <= 1e-5


def test_inputs_may_be_made_inside() -> None:
    model = built(BY_NAME["bert"])
    with laws.probe(model) as seen, torch.no_grad():
        ids = device.placed(torch.cat((torch.randint(3, 60, (1, 4)), torch.full((1, 2), 5)), dim=1))
        model(ids)
    assert [a.shape for a in seen.attentions] == [(6, 6)] * LAYERS


def test_two_passes_under_one_probe() -> None:
    family = BY_NAME["bart"]
    model = built(family)
    with laws.probe(model) as seen:
        first = answer(run(model, family))
        second = answer(run(model, family))
    assert torch.equal(first, second)
    assert [str(a.site) for a in seen.attentions[:6]] == [str(a.site) for a in seen.attentions[6:]]
    assert {a.offset for a in seen.attentions} == {0}


def test_no_mark_is_left_on_any_tensor() -> None:
    family = BY_NAME["gptj"]
    model, given = built(family), inputs(family)
    want = laws.CaptureRequest(positions=True, check=True)
    seen, out = laws.watched(model, family, laws.Temperature(value=2), want=want)
    owned = [*model.parameters(), *model.buffers(), *given.values(), out.logits]
    caches = [x for layer in out.past_key_values.layers for x in (layer.keys, layer.values)]
    captured = [record.weights for record in seen.attentions]
    left = [x for x in (*owned, *caches, *captured) if x is not None]
    assert not any(name.startswith(KEY) for x in left for name in vars(x))
    copy.deepcopy(out.logits)
