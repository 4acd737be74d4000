"""The laws that hold for every family, as numbers: how far the probe is from the work by hand."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor, nn

from transformer_viz.capture import Capture, CaptureRequest, probe
from transformer_viz.core.interventions import Edit, Intervention, ScaleHead, Temperature

from . import hands
from .catalogue import Family, answer, built, real, reported, run

HEAD = 1


def far(a: Tensor, b: Tensor) -> float:
    """The largest difference, in units of the largest value where that is above 1."""
    assert a.shape == b.shape, f"shapes {tuple(a.shape)} and {tuple(b.shape)}"
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def watched(
    model: nn.Module, family: Family, *edits: Edit, want: CaptureRequest | None = None, **words: Any
) -> tuple[Capture, Any]:
    """Run a model under the probe, with edits; return what the probe saw and the output."""
    with probe(model, Intervention(edits), want or CaptureRequest()) as seen:
        out = run(model, family, **words)
    return seen, out


@cache
def clean(family: Family, implementation: str = "eager") -> tuple[Capture, Any]:
    """A watched run without edits; shared, so nothing may change it."""
    return watched(built(family, implementation), family)


@cache
def plain(family: Family, implementation: str) -> Tensor:
    """The answer without the probe."""
    return answer(run(built(family, implementation), family))


def capture(family: Family, implementation: str) -> float:
    """Captured attention against `output_attentions=True`, rows of padding left out.

    The model reports its attention under eager only.
    """
    seen, _ = clean(family, implementation)
    theirs = run(built(family), family, output_attentions=True)
    worst = 0.0
    for name, stack, kind in family.maps:
        ours = [a for a in seen.attentions if (a.stack, a.kind) == (stack, kind)]
        assert [a.layer for a in ours] == list(range(len(ours)))
        ours = [ours[i] for i in family.reported] if family.reported else ours
        for a, b in zip(ours, reported(theirs, name), strict=True):
            worst = max(worst, far(real(a.weights, 2), real(b, 2)))
    return worst


def output(family: Family, implementation: str) -> float:
    """The output of a watched model against that of the model alone."""
    return far(answer(clean(family, implementation)[1]), plain(family, implementation))


def temperature(family: Family, implementation: str) -> float:
    """Temperature 2 everywhere against halved queries and biases."""
    _, out = watched(built(family, implementation), family, Temperature(value=2))
    model = hands.cooled(family, implementation)
    with hands.alibi(model, lambda x: x / 2):
        return far(answer(out), answer(run(model, family)))


def ablation(family: Family, implementation: str) -> float:
    """A silenced head of each map against its slice zeroed before the output projection."""
    model = built(family, implementation)
    seen, unchanged = clean(family, implementation)
    worst = 0.0
    for _, stack, kind in family.maps:
        records = [a for a in seen.attentions if (a.stack, a.kind) == (stack, kind)]
        record = records[-1]
        call = sum(a.path == record.path for a in records) - 1
        edit = ScaleHead(value=0, stack=stack, block=kind, layer=record.layer, head=HEAD)
        _, out = watched(model, family, edit)
        with hands.silenced(model, family, record, HEAD, call):
            worst = max(worst, far(answer(out), answer(run(model, family))))
        assert far(answer(out), answer(unchanged)) > 1e-3, "silencing the head changed nothing"
    return worst


def masked(family: Family, implementation: str, edits: tuple[Edit, ...], mask: Tensor) -> float:
    """Edits of the mask against the same mask given to the model, in four dimensions."""
    model = built(family, implementation)
    _, out = watched(model, family, *edits)
    return far(answer(out), answer(run(model, family, attention_mask=mask)))


def norms_by_hooks(family: Family) -> list[tuple[str, nn.Module, Tensor, Tensor]]:
    """Every call of a norm on a sentence, by class name and hooks: path, module, input, output."""
    model, calls = built(family), []

    def hook(path: str) -> Any:
        return lambda module, args, out: calls.append((path, module, args[0].clone(), out.clone()))

    handles = [
        module.register_forward_hook(hook(path))
        for path, module in model.named_modules()
        if "Norm" in type(module).__name__
    ]
    try:
        run(model, family)
    finally:
        for handle in handles:
            handle.remove()
    return [call for call in calls if call[2].dim() == 3]
