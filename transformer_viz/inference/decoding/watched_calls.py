"""Capture of one model call, by the instrumented reference Transformer or by the probe."""

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

NOTES = "own notes"  # law: the model's own capture equals the probe's
Laws = dict[str, dict[str, float | None]]


def without_gradients(model: Model, *callbacks: object) -> AbstractContextManager[object]:
    """Return the mode of passes that need no gradients.

    Inference mode is faster, but its tensors can never take part in training. This includes tables
    that a module makes on its first call, and tensors stored by hooks or callbacks. So it is used
    only for the unmodified reference Transformer, which makes no tables.

    Args:
        model: Model of the passes.
        callbacks: Functions called between passes, or None.
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
    """Return the capture of a model call, and its output.

    The probe takes about as long as the model itself. A reference Transformer can record most of it
    at a tenth of that (`capture.reference`), with the same numbers.

    Args:
        model: Model to run.
        call: Function to run, given the model's calls or those of a replacement module.
        intervention: Edits of the run.
        request: Parts to capture.
        donations: Patches from donor runs.
        names: Returns the model's modules for the probe; read anew by default.
        notes: True if the model may record its own capture.

    Raises:
        ValueError: See :func:`probe`.
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
    """Return the model's own capture and output; None if only the probe can capture it."""
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
    """Return the laws of a proof, and the law that the model's own capture equals the probe's.

    Compares weights and statistics of each attention, norms, residual stream lengths and the
    output, under the edits of this run. Returns ``laws`` unchanged if the model has no own capture.
    The model runs twice.

    Args:
        laws: Laws proved so far, by site.
        model: Model to run.
        call: Function to run, as in `watched_call`.
        intervention: Edits of the run.
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
    """Return the residual norms and norm statistics of a run."""
    norms = [x for norm in seen.norms for x in norm.statistics.values()]
    return [*(one.norm for one in seen.residuals), *norms]


def _of_heads(record: AttentionRecord) -> list[Tensor]:
    """Return weights and statistics of an attention."""
    values = [record.statistics[name] for name in sorted(record.statistics)]
    return values if record.weights is None else [record.weights, *values]


def _apart(told: Sequence[Tensor], seen: Sequence[Tensor]) -> float:
    """Return the largest difference relative to max(1, largest value); inf if shapes differ."""
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
