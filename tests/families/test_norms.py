"""Norms are found by what they do, with the right kind, gain and statistics."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from . import laws
from .catalogue import BY_NAME, FAMILIES, Family, built, run
from .test_capture import label

pytestmark = pytest.mark.families


def hooked(model: nn.Module, family: Family) -> list[tuple[str, nn.Module, Tensor, Tensor]]:
    """Every call of a norm on a sentence, by class name and hooks: path, module, input, output."""
    calls: list[tuple[str, nn.Module, Tensor, Tensor]] = []
    handles = []

    def note(path: str) -> Any:
        return lambda module, args, out: calls.append((path, module, args[0].clone(), out.clone()))

    for path, module in model.named_modules():
        if "Norm" in type(module).__name__:
            handles.append(module.register_forward_hook(note(path)))
    try:
        run(model, family)
    finally:
        for handle in handles:
            handle.remove()
    return [call for call in calls if call[2].dim() == 3]


@pytest.mark.parametrize("family", FAMILIES, ids=label)
def test_every_norm_is_found_with_its_gain(family: Family) -> None:
    model = built(family)
    seen, _ = laws.watched(model, family)
    records = [record for record in seen.norms if record.statistics["mean"].dim() == 2]
    expected = hooked(model, family)
    assert [record.path for record in records] == [path for path, *_ in expected]
    for record, (_, module, x, out) in zip(records, expected, strict=True):
        assert record.kind == family.norm
        assert record.gain is not None
        assert laws.far(record.gain, module.weight.detach() + family.plus) == 0
        bias = getattr(module, "bias", None)
        assert (record.bias is None) == (bias is None)
        statistics = {
            "mean": x.mean(-1),
            "std": x.std(-1, unbiased=False),
            "rms": x.square().mean(-1).sqrt(),
            "input_norm": x.norm(dim=-1),
            "output_norm": out.norm(dim=-1),
            "output_mean": out.mean(-1),
        }
        for name, value in statistics.items():
            assert laws.far(record.statistics[name], value) <= 1e-4, name


@pytest.mark.parametrize("name", ["t5", "bart", "marian", "whisper"])
def test_norms_and_sums_know_their_stack(name: str) -> None:
    family = BY_NAME[name]
    seen, _ = laws.watched(built(family), family)
    sums = {(r.site.stack, r.site.block) for r in seen.residuals}
    assert sums >= {("encoder", "self"), ("decoder", "self"), ("decoder", "cross")}
    assert sums >= {("encoder", "feed_forward"), ("decoder", "feed_forward")}
    stacks = {
        ("encoder" if "encoder." in r.path else "decoder"): r.stack for r in seen.norms if r.stack
    }
    assert stacks == {"encoder": "encoder", "decoder": "decoder"}


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_residual_lengths_are_those_of_the_hidden_states(name: str) -> None:
    family = BY_NAME[name]
    seen, _ = laws.watched(built(family), family)
    out = run(built(family), family, output_hidden_states=True)
    states = out.hidden_states if hasattr(out, "hidden_states") else out.encoder_hidden_states
    if name == "bert":  # its states are normed after the sums
        states = states[:1]
    stack = seen.attentions[0].stack
    lengths = [
        r.norm
        for r in seen.residuals
        if r.site.stack == stack and r.site.block in ("embedding", "feed_forward")
    ]
    for state, length in list(zip(states, lengths, strict=False))[:2]:
        assert laws.far(length, torch.linalg.vector_norm(state, dim=-1)) <= 1e-5
