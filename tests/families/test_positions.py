"""Edits of positions against tables, angles and biases that are changed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from tests.support import device
from transformer_viz.capture import CaptureRequest
from transformer_viz.capture.handlers.positions import permutation
from transformer_viz.core.interventions import Edit, ScalePositions, ShufflePositions

from . import hands, laws
from .catalogue import BY_NAME, FAMILIES, SOURCE, Family, answer, built, copied, inputs, run
from .test_capture import EACH, label

pytestmark = pytest.mark.families
SEED, HALF = 3, 0.5
TABLES = [(f, i) for f, i in EACH if f.tables]
ROTARY = [(f, i) for f, i in EACH if any("inv_freq" in n for n, _ in built(f).named_buffers())]
ROTARY = [(f, i) for f, i in ROTARY if f.name != "falcon_alibi"]
ALIBI = [(f, i) for f, i in EACH if f.name in ("bloom", "mpt", "falcon_alibi")]
SPECIAL = (True, False, False, False)


def whole(family: Family) -> dict[str, Tensor]:
    """The text without padding."""
    if "attention_mask" not in inputs(family):
        return {}
    mask = device.placed(torch.ones(2, SOURCE, dtype=torch.long))
    return {"attention_mask": mask, "input_ids": inputs(family)["input_ids"].clamp(min=3)}


def edited(family: Family, implementation: str, *edits: Edit, **words: Any) -> Tensor:
    """What a model gives with its positions edited; the first token of every stack is special."""
    stack = family.maps[-1][1] if len(family.maps) == 1 else "encoder"
    want = CaptureRequest(stack=stack, special={"encoder": SPECIAL, "decoder": SPECIAL})
    model = built(family, implementation)
    return answer(laws.watched(model, family, *edits, want=want, **whole(family), **words)[1])


def order(length: int) -> Tensor:
    return device.placed(torch.as_tensor(permutation(length, SPECIAL, SEED)))


def given(model: nn.Module, family: Family, **words: Any) -> Tensor:
    return answer(run(model, family, **whole(family), **words))


def check(got: Tensor, expected: Tensor, clean: Tensor) -> None:
    """The edit equals the work by hand, and neither is the clean run."""
    assert laws.far(got, expected) <= 1e-5
    assert laws.far(expected, clean) > 1e-3


def permuted(lengths: dict[str, int]) -> Callable[[Tensor, str, int], None]:
    def change(rows: Tensor, stack: str, first: int) -> None:
        rows[first : first + lengths[stack]] = rows[first + order(lengths[stack])].clone()

    return change


def lengths_of(family: Family) -> dict[str, int]:
    seen, _ = laws.watched(built(family), family)
    return {a.stack: a.shape[0] for a in seen.attentions if a.kind == "self"}


@pytest.mark.parametrize(("family", "implementation"), TABLES, ids=label)
def test_scaled_table(family: Family, implementation: str) -> None:
    got = edited(family, implementation, ScalePositions(value=HALF))
    model = hands.with_table(family, implementation, lambda rows, stack, first: rows.mul_(HALF))
    check(got, given(model, family), given(built(family, implementation), family))


@pytest.mark.parametrize(("family", "implementation"), TABLES, ids=label)
def test_shuffled_table(family: Family, implementation: str) -> None:
    got = edited(family, implementation, ShufflePositions(seed=SEED))
    model = hands.with_table(family, implementation, permuted(lengths_of(family)))
    check(got, given(model, family), given(built(family, implementation), family))


@pytest.mark.parametrize("name", ["bart", "marian", "whisper"])
def test_positions_of_one_stack(name: str) -> None:
    family = BY_NAME[name]
    got = edited(family, "eager", ScalePositions(value=0, stack="decoder"))
    model = hands.with_table(
        family, "eager", lambda rows, stack, first: rows.mul_(0 if stack == "decoder" else 1)
    )
    check(got, given(model, family), given(built(family), family))


@pytest.mark.parametrize(("family", "implementation"), ROTARY, ids=label)
def test_scaled_angles(family: Family, implementation: str) -> None:
    model = copied(family, implementation)
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            buffer.mul_(HALF)
    got = edited(family, implementation, ScalePositions(value=HALF))
    check(got, given(model, family), given(built(family, implementation), family))


@pytest.mark.parametrize(
    ("family", "implementation"), [*ROTARY, (BY_NAME["gptj"], "eager")], ids=label
)
def test_shuffled_angles(family: Family, implementation: str) -> None:
    model = built(family, implementation)
    got = edited(family, implementation, ShufflePositions(seed=SEED))
    places = order(SOURCE).expand(2, SOURCE)
    check(got, given(model, family, position_ids=places), given(model, family))


def test_scaled_angles_of_a_stored_table() -> None:
    family = BY_NAME["gptj"]
    model = copied(family)
    width = model.config.rotary_dim
    frequency = 1 / 10000 ** (torch.arange(0, width, 2) / width)
    angles = HALF * torch.arange(40)[:, None] * frequency
    for name, buffer in model.named_buffers():
        if name.endswith("embed_positions"):
            buffer.copy_(torch.cat((angles.sin(), angles.cos()), dim=1))
    got = edited(family, "eager", ScalePositions(value=HALF))
    check(got, given(model, family), given(built(family), family))


def columns(x: Tensor) -> Tensor:
    """ALiBi whose last columns, those of the sentence, are in the shuffled order."""
    return torch.cat((x[..., :-SOURCE], x[..., -SOURCE:][..., order(SOURCE)]), dim=-1)


@pytest.mark.parametrize("change", ["scaled", "shuffled"])
@pytest.mark.parametrize(("family", "implementation"), ALIBI, ids=label)
def test_alibi(family: Family, implementation: str, change: str) -> None:
    model = built(family, implementation)
    edit = ScalePositions(value=HALF) if change == "scaled" else ShufflePositions(seed=SEED)
    with hands.alibi(model, (lambda x: x * HALF) if change == "scaled" else columns):
        expected = given(model, family)
    check(edited(family, implementation, edit), expected, given(model, family))


@contextmanager
def shuffled_bias(model: nn.Module) -> Iterator[None]:
    """T5's relative bias with queries and keys in the shuffled order."""
    owner = next(type(m) for m in model.modules() if hasattr(m, "compute_bias"))
    own = owner.compute_bias

    def bias(self: nn.Module, *args: Any, **words: Any) -> Tensor:
        made = own(self, *args, **words)
        return made[:, :, order(made.shape[2])][..., order(made.shape[3])]

    with mock.patch.object(owner, "compute_bias", bias):
        yield


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_relative_bias_of_t5(implementation: str) -> None:
    family = BY_NAME["t5"]
    model, clean = built(family, implementation), given(built(family, implementation), family)
    with shuffled_bias(model):
        expected = given(model, family)
    check(edited(family, implementation, ShufflePositions(seed=SEED)), expected, clean)
    half = scaled_parameters(family, implementation, "relative_attention_bias.weight")
    check(edited(family, implementation, ScalePositions(value=HALF)), given(half, family), clean)


def scaled_parameters(family: Family, implementation: str, ending: str) -> nn.Module:
    model = copied(family, implementation)
    for name, parameter in model.named_parameters():
        if name.endswith(ending):
            parameter.data.mul_(HALF)
    return model


@pytest.mark.parametrize(
    ("name", "implementation", "ending"),
    [
        ("swin", "eager", "relative_position_bias_table"),
        ("swin", "sdpa", "relative_position_bias_table"),
        ("xlnet", "eager", "rel_attn.r"),
    ],
)
def test_scaled_relative_positions(name: str, implementation: str, ending: str) -> None:
    family = BY_NAME[name]
    got = edited(family, implementation, ScalePositions(value=HALF))
    model = scaled_parameters(family, implementation, ending)
    check(got, given(model, family), given(built(family, implementation), family))


def test_scaled_disentangled_positions() -> None:
    family = BY_NAME["deberta_v2"]
    model = scaled_parameters(family, "eager", "position_embeddings.weight")
    owner = next(type(m) for m in model.modules() if hasattr(m, "disentangled_attention_bias"))
    own = owner.disentangled_attention_bias
    with mock.patch.object(owner, own.__name__, lambda *a, **k: own(*a, **k) * HALF):
        expected = given(model, family)
    got = edited(family, "eager", ScalePositions(value=HALF))
    check(got, expected, given(built(family), family))


@pytest.mark.parametrize("name", ["xlnet", "deberta_v2"])
def test_positions_mixed_with_content_are_not_shuffled(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be shuffled there"):
        edited(BY_NAME[name], "eager", ShufflePositions(seed=SEED))


@pytest.mark.parametrize(
    "edit", [ScalePositions(value=0), ShufflePositions(seed=1)], ids=lambda e: e.kind
)
def test_a_model_without_positions_refuses(edit: Edit) -> None:
    with pytest.raises(ValueError, match="found no positions"):
        edited(BY_NAME["jamba"], "eager", edit)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.tables], ids=label)
def test_the_table_that_is_shown_is_the_one_that_is_added(family: Family) -> None:
    want = CaptureRequest(positions=True, stack=family.maps[-1][1])
    seen, _ = laws.watched(built(family), family, want=want, **whole(family))
    for name, first, stack in family.tables:
        rows = built(family).get_parameter(name).detach()
        shown = seen.positions[f"table.{stack}"]
        rows = rows.view(-1, rows.shape[-1])[first : first + shown.shape[0]]
        assert laws.far(shown, rows) <= 1e-6


def test_the_angles_that_are_shown_are_those_of_the_model() -> None:
    family = BY_NAME["llama"]
    seen, _ = laws.watched(
        built(family), family, want=CaptureRequest(positions=True, stack="decoder")
    )
    angles = device.placed(torch.arange(SOURCE))[:, None] * built(family).model.rotary_emb.inv_freq
    assert laws.far(seen.positions["rotary.decoder"][:, :4], angles) <= 1e-6


def test_the_bias_that_is_shown_is_that_of_the_model() -> None:
    family = BY_NAME["t5"]
    seen, _ = laws.watched(built(family), family, want=CaptureRequest(positions=True))
    attention = built(family).encoder.block[0].layer[0].SelfAttention
    with torch.no_grad():
        expected = attention.compute_bias(SOURCE, SOURCE)[0]
    assert laws.far(seen.positions["bias.encoder.1"], expected) <= 1e-6


def test_the_angles_of_a_stored_table_are_read_back() -> None:
    family = BY_NAME["gptj"]
    want = CaptureRequest(positions=True, stack="decoder")
    seen, _ = laws.watched(built(family), family, want=want)
    angles = torch.arange(SOURCE)[:, None] * torch.tensor([1.0, 1.0, 0.01, 0.01])
    angles = device.placed(angles)
    assert laws.far(seen.positions["rotary.decoder"], angles) <= 1e-5


@pytest.mark.parametrize(
    ("name", "key"),
    [("bert", "table.encoder"), ("llama", "rotary.decoder"), ("gptj", "rotary.decoder"),
     ("t5", "bias.encoder.1")],
)  # fmt: skip
def test_what_is_shown_carries_the_edits(name: str, key: str) -> None:
    family = BY_NAME[name]
    stack = key.split(".")[1]
    special = dict.fromkeys(("encoder", "decoder"), SPECIAL)

    def shown(*edits: Edit) -> Tensor:
        want = CaptureRequest(positions=True, stack=stack, special=special)
        return laws.watched(built(family), family, *edits, want=want, **whole(family))[0].positions[
            key
        ]

    clean = shown()
    assert laws.far(shown(ScalePositions(value=HALF)), HALF * clean) <= 1e-6
    moved = order(SOURCE)
    axes = (1, 2) if key.startswith("bias") else (0,)
    expected = clean
    for axis in axes:
        expected = expected.index_select(axis, moved)
    assert not torch.equal(expected, clean)
    assert laws.far(shown(ShufflePositions(seed=SEED)), expected) <= 1e-6
