"""Edits of positions against tables, angles and biases that are changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
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

from . import hands
from .catalogue import BY_NAME, SOURCE, Family, answer, built, copied, inputs, run
from .laws import clean, far, watched

pytestmark = pytest.mark.families
SEED, HALF = 3, 0.5
SPECIAL = (True, False, False, False)
SCALED, SHUFFLED = ScalePositions(value=HALF), ShufflePositions(seed=SEED)


def whole(family: Family) -> dict[str, Tensor]:
    """The text without padding."""
    if "attention_mask" not in inputs(family):
        return {}
    mask = device.placed(torch.ones(2, SOURCE, dtype=torch.long))
    return {"attention_mask": mask, "input_ids": inputs(family)["input_ids"].clamp(min=3)}


def order(length: int) -> Tensor:
    return device.placed(torch.as_tensor(permutation(length, SPECIAL, SEED)))


def given(model: nn.Module, family: Family, **words: Any) -> Tensor:
    return answer(run(model, family, **whole(family), **words))


def assert_edit(family: Family, implementation: str, edit: Edit, expected: Tensor) -> None:
    """The edit equals the work by hand, and neither is the clean run.

    The first token of every stack is special.
    """
    stack = family.maps[-1][1] if len(family.maps) == 1 else "encoder"
    want = CaptureRequest(stack=stack, special={"encoder": SPECIAL, "decoder": SPECIAL})
    model = built(family, implementation)
    got = answer(watched(model, family, edit, want=want, **whole(family))[1])
    assert far(got, expected) <= 1e-5, edit
    assert far(expected, given(model, family)) > 1e-3, edit


def scaled(family: Family, implementation: str, ending: str) -> nn.Module:
    """A copy with the parameters and buffers of this ending halved."""
    model = copied(family, implementation)
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if name.endswith(ending):
            parameter.data.mul_(HALF)
    return model


def a_table_is_scaled_and_shuffled(family: Family, implementation: str) -> None:
    if not family.tables:
        return
    lengths = {
        a.stack: a.shape[0] for a in clean(family, "eager")[0].attentions if a.kind == "self"
    }

    def permuted(rows: Tensor, stack: str, first: int) -> None:
        length = lengths[stack]
        rows[first : first + length] = rows[first + order(length)].clone()

    model = hands.with_table(family, implementation, lambda rows, stack, first: rows.mul_(HALF))
    assert_edit(family, implementation, SCALED, given(model, family))
    model = hands.with_table(family, implementation, permuted)
    assert_edit(family, implementation, SHUFFLED, given(model, family))
    want = CaptureRequest(positions=True, stack=family.maps[-1][1])
    seen, _ = watched(built(family, implementation), family, want=want, **whole(family))
    for name, first, stack in family.tables:
        rows, shown = built(family).get_parameter(name).detach(), seen.positions[f"table.{stack}"]
        rows = rows.view(-1, rows.shape[-1])[first : first + shown.shape[0]]
        assert far(shown, rows) <= 1e-6, name


def angles_are_scaled_and_shuffled(family: Family, implementation: str) -> None:
    rotary = any("inv_freq" in name for name, _ in built(family).named_buffers())
    rotary = rotary and family.name != "falcon_alibi"
    if rotary:
        model = scaled(family, implementation, "inv_freq")
        assert_edit(family, implementation, SCALED, given(model, family))
    if rotary or family.name == "gptj":
        model, places = built(family, implementation), order(SOURCE).expand(2, SOURCE)
        assert_edit(family, implementation, SHUFFLED, given(model, family, position_ids=places))


def alibi_is_scaled_and_shuffled(family: Family, implementation: str) -> None:
    def columns(x: Tensor) -> Tensor:
        """The last columns, those of the sentence, in the shuffled order."""
        return torch.cat((x[..., :-SOURCE], x[..., -SOURCE:][..., order(SOURCE)]), dim=-1)

    if family.name in ("bloom", "mpt", "falcon_alibi"):
        model = built(family, implementation)
        for edit, change in ((SCALED, lambda x: x * HALF), (SHUFFLED, columns)):
            with hands.alibi(model, change):
                expected = given(model, family)
            assert_edit(family, implementation, edit, expected)


LAWS = (
    a_table_is_scaled_and_shuffled,
    angles_are_scaled_and_shuffled,
    alibi_is_scaled_and_shuffled,
)


def test_one_stack_and_stored_tables() -> None:
    for name in ("bart", "marian", "whisper"):
        family = BY_NAME[name]
        model = hands.with_table(
            family, "eager", lambda rows, stack, first: rows.mul_(0 if stack == "decoder" else 1)
        )
        edit = ScalePositions(value=0, stack="decoder")
        assert_edit(family, "eager", edit, given(model, family))
    # Scaled angles of a stored table.
    family = BY_NAME["gptj"]
    model = copied(family)
    width = model.config.rotary_dim
    frequency = 1 / 10000 ** (torch.arange(0, width, 2) / width)
    angles = HALF * torch.arange(40)[:, None] * frequency
    for name, buffer in model.named_buffers():
        if name.endswith("embed_positions"):
            buffer.copy_(torch.cat((angles.sin(), angles.cos()), dim=1))
    assert_edit(family, "eager", SCALED, given(model, family))


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


def test_relative_positions() -> None:
    for name, implementation, ending in (
        ("t5", "eager", "relative_attention_bias.weight"),
        ("t5", "sdpa", "relative_attention_bias.weight"),
        ("swin", "eager", "relative_position_bias_table"),
        ("swin", "sdpa", "relative_position_bias_table"),
        ("xlnet", "eager", "rel_attn.r"),
    ):
        family = BY_NAME[name]
        half = scaled(family, implementation, ending)
        assert_edit(family, implementation, SCALED, given(half, family))
        if name == "t5":
            model = built(family, implementation)
            with shuffled_bias(model):
                expected = given(model, family)
            assert_edit(family, implementation, SHUFFLED, expected)
    family = BY_NAME["deberta_v2"]
    model = scaled(family, "eager", "position_embeddings.weight")
    owner = next(type(m) for m in model.modules() if hasattr(m, "disentangled_attention_bias"))
    own = owner.disentangled_attention_bias
    with mock.patch.object(owner, own.__name__, lambda *a, **k: own(*a, **k) * HALF):
        expected = given(model, family)
    assert_edit(family, "eager", SCALED, expected)


def test_edits_that_a_model_cannot_have_are_refused() -> None:
    for name, edit, said in (
        ("xlnet", SHUFFLED, "cannot be shuffled there"),  # positions mixed with content
        ("deberta_v2", SHUFFLED, "cannot be shuffled there"),
        ("jamba", ScalePositions(value=0), "found no positions"),
        ("jamba", ShufflePositions(seed=1), "found no positions"),
    ):
        family = BY_NAME[name]
        want = CaptureRequest(stack=family.maps[-1][1], special={"encoder": SPECIAL})
        with pytest.raises(ValueError, match=said):
            watched(built(family), family, edit, want=want, **whole(family))


def test_shown_positions_are_those_of_the_model_and_carry_the_edits() -> None:
    def shown(name: str, key: str, *edits: Edit) -> Tensor:
        special = dict.fromkeys(("encoder", "decoder"), SPECIAL)
        want = CaptureRequest(positions=True, stack=key.split(".")[1], special=special)
        family = BY_NAME[name]
        seen, _ = watched(built(family), family, *edits, want=want, **whole(family))
        return seen.positions[key]

    attention = built(BY_NAME["t5"]).encoder.block[0].layer[0].SelfAttention
    places = device.placed(torch.arange(SOURCE))[:, None]
    with torch.no_grad():
        bias = attention.compute_bias(SOURCE, SOURCE)[0]
    stored = places * device.placed(torch.tensor([1.0, 1.0, 0.01, 0.01]))
    angles = places * built(BY_NAME["llama"]).model.rotary_emb.inv_freq
    table = built(BY_NAME["bert"]).embeddings.position_embeddings.weight[:SOURCE].detach()
    for name, key, expected, bound in (
        ("bert", "table.encoder", table, 1e-6),
        ("llama", "rotary.decoder", angles, 1e-6),
        ("gptj", "rotary.decoder", stored, 1e-5),
        ("t5", "bias.encoder.1", bias, 1e-6),
    ):
        clean = shown(name, key)
        assert far(clean[..., : expected.shape[-1]], expected) <= bound, name
        assert far(shown(name, key, SCALED), HALF * clean) <= 1e-6, name
        moved = clean
        for axis in (1, 2) if key.startswith("bias") else (0,):
            moved = moved.index_select(axis, order(SOURCE))
        assert not torch.equal(moved, clean), name
        assert far(shown(name, key, SHUFFLED), moved) <= 1e-6, name
