"""The laws that hold for every family, as numbers: how far the probe is from the work by hand."""

from __future__ import annotations

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
    """A run under the probe, with edits: what the probe saw and what the model gave."""
    with probe(model, Intervention(edits), want or CaptureRequest()) as seen:
        out = run(model, family, **words)
    return seen, out


def attentions(family: Family, implementation: str) -> list[tuple[Tensor, Tensor]]:
    """Pairs of captured and reported attention; the model reports under eager only."""
    seen, _ = watched(built(family, implementation), family)
    theirs = run(built(family), family, output_attentions=True)
    pairs = []
    for name, stack, kind in family.maps:
        ours = [a for a in seen.attentions if (a.stack, a.kind) == (stack, kind)]
        assert [a.layer for a in ours] == list(range(len(ours)))
        ours = [ours[i] for i in family.reported] if family.reported else ours
        pairs.extend(zip([a.weights for a in ours], reported(theirs, name), strict=True))
    return pairs


def capture(family: Family, implementation: str) -> float:
    """Captured attention against `output_attentions=True`, rows of padding left out."""
    return max(far(real(a, 2), real(b, 2)) for a, b in attentions(family, implementation))


def output(family: Family, implementation: str) -> float:
    """What a watched model gives against what it gives unwatched."""
    model = built(family, implementation)
    return far(answer(watched(model, family)[1]), answer(run(model, family)))


def temperature(family: Family, implementation: str) -> float:
    """Temperature 2 everywhere against halved queries and biases."""
    _, out = watched(built(family, implementation), family, Temperature(value=2))
    model = hands.cooled(family, implementation)
    with hands.alibi(model, lambda x: x / 2):
        return far(answer(out), answer(run(model, family)))


def ablation(family: Family, implementation: str) -> float:
    """A silenced head of each map against its slice zeroed before the output projection."""
    model = built(family, implementation)
    seen, clean = watched(model, family)
    worst = 0.0
    for _, stack, kind in family.maps:
        records = [a for a in seen.attentions if (a.stack, a.kind) == (stack, kind)]
        record = records[-1]
        call = sum(a.path == record.path for a in records) - 1
        edit = ScaleHead(value=0, stack=stack, block=kind, layer=record.layer, head=HEAD)
        _, out = watched(model, family, edit)
        with hands.silenced(model, family, record, HEAD, call):
            worst = max(worst, far(answer(out), answer(run(model, family))))
        assert far(answer(out), answer(clean)) > 1e-3, "silencing the head changed nothing"
    return worst


def masked(family: Family, implementation: str, edits: tuple[Edit, ...], mask: Tensor) -> float:
    """Edits of the mask against the same mask given to the model, in four dimensions."""
    model = built(family, implementation)
    _, out = watched(model, family, *edits)
    return far(answer(out), answer(run(model, family, attention_mask=mask)))


def rebuilt(family: Family, implementation: str) -> float | None:
    """The worst rebuilt output of all blocks; None if one could not be checked."""
    seen, _ = watched(built(family, implementation), family, want=CaptureRequest(check=True))
    found = [a.rebuilt for a in seen.attentions]
    return None if None in found else max(value for value in found if value is not None)
