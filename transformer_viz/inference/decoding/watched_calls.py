"""One call of a model, watched: by the parts of a Transformer that are known, or by the probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from ...capture import AttentionRecord, Capture, CaptureRequest
from ...capture.donations import Donation
from ...capture.module_names import Names
from ...capture.probe import watching
from ...capture.reference import as_built, noting
from ...checkpoints.common.model import Calls, Model
from ...core.interventions import Intervention

NOTES = "own notes"  # the law that what a model tells of itself is what the probe sees
Laws = dict[str, dict[str, float | None]]


def without_gradients(model: Model, *callbacks: object) -> AbstractContextManager[object]:
    """Return the mode of passes that need no gradients.

    Inference mode is faster, but nothing that is made in it can take part in a training: neither
    tables that a module makes on its first call, nor what a hook or a callback keeps. So it is used
    for the reference Transformer as it was built alone, which makes no tables.

    Args:
        model: whose passes they are.
        callbacks: what is called between them, None where there is none.
    """
    alone = all(one is None for one in callbacks) and as_built(model.module)
    return torch.inference_mode() if alone else torch.no_grad()


def watched_call(
    model: Model,
    call: Callable[[Calls], Tensor],
    intervention: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
    names: Callable[[], Names] | None = None,
    notes: bool = True,
) -> tuple[Capture, Tensor]:
    """What a call of a model shows, and what it gives.

    The probe takes about as long again as the model; a reference Transformer can tell most of it
    at a tenth of that (`capture.reference`), and the numbers are the same.

    Args:
        call: what is called, with the model's calls or with those of a module in its place.
        names: the model's modules for the probe, read anew where it is left out.
        notes: whether the model may tell of itself.

    Raises:
        ValueError: as :func:`probe`.
    """
    edits = intervention.of_the_pass()
    found = _noted(model, call, edits, request, donations) if notes else None
    if found is not None:
        return found
    known = Names(model.module) if names is None else names()
    with watching(known, edits, request, donations) as seen:
        output = call(model.calls)
    return seen, output


def _noted(
    model: Model,
    call: Callable[[Calls], Tensor],
    edits: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
) -> tuple[Capture, Tensor] | None:
    """What a model tells of itself; None where only the probe knows."""
    on = model.calls.on
    made = None if on is None else noting(model.module, edits, request, donations)
    if on is None or made is None:
        return None
    output = call(on(made))
    capture = made.finished()
    return None if capture is None else (capture, output)


def laws_of_notes(
    laws: Laws, model: Model, call: Callable[[Calls], Tensor], intervention: Intervention
) -> Laws:
    """The laws of a proof, and that what the model tells is what the probe sees, under the edits of
    this run: weights and statistics of each attention, norms, lengths of the stream, the output.
    As they are where it tells nothing. The model runs twice for it.

    Args:
        call: what is called, as in `watched_call`.
    """
    request = CaptureRequest()
    with torch.no_grad():
        found = _noted(model, call, intervention.of_the_pass(), request)
        if found is None:
            return laws
        seen, output = watched_call(model, call, intervention, request, notes=False)
        whole = max(_apart([found[1]], [output]), _apart(_beside(found[0]), _beside(seen)))
        told = {one.path: _of_heads(one) for one in found[0].attentions}
        gaps = {
            f"{one.site} {one.path}": max(whole, _apart(told.get(one.path, []), _of_heads(one)))
            for one in seen.attentions
        }
    return {site: {**own, NOTES: gaps.get(site, math.inf)} for site, own in laws.items()}


def _beside(seen: Capture) -> list[Tensor]:
    """What is known of a run beside its attentions."""
    norms = [x for norm in seen.norms for x in norm.statistics.values()]
    return [*(one.norm for one in seen.residuals), *norms]


def _of_heads(record: AttentionRecord) -> list[Tensor]:
    """Weights and statistics of an attention."""
    values = [record.statistics[name] for name in sorted(record.statistics)]
    return values if record.weights is None else [record.weights, *values]


def _apart(told: Sequence[Tensor], seen: Sequence[Tensor]) -> float:
    """The largest difference, of 1 or of the largest value; infinite where one has more."""
    if len(told) != len(seen) or any(a.shape != b.shape for a, b in zip(told, seen, strict=True)):
        return math.inf
    worst = 0.0
    for a, b in zip(told, seen, strict=True):
        one, other = a.double(), b.double()
        same = (one == other) | (one.isnan() & other.isnan())
        gap = torch.where(same, 0.0, (one - other).abs()).nan_to_num(math.inf)
        scale = max(1.0, float(other.nan_to_num(0.0, 0.0, 0.0).abs().max())) if b.numel() else 1.0
        worst = max(worst, float(gap.max()) / scale if gap.numel() else 0.0)
    return worst
