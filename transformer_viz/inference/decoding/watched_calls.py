"""One call of a model, watched: by the parts of a Transformer that are known, or by the probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...capture import Capture, CaptureRequest
from ...capture.donations import Donation
from ...capture.module_names import Names
from ...capture.probe import watching
from ...capture.reference import watched
from ...checkpoints.common.model import Calls, Model
from ...core.interventions import Intervention

NOTES = "own notes"  # the law that what a model tells of itself is what the probe sees
TINY = torch.finfo(torch.float32).tiny
Laws = dict[str, dict[str, float | None]]


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
    made = None if on is None else watched(model.module, edits, request, donations)
    if on is None or made is None:
        return None
    output = call(on(made))
    capture = made.finished()
    return None if capture is None else (capture, output)


def with_notes(
    laws: Laws, model: Model, call: Callable[[Calls], Tensor], intervention: Intervention
) -> Laws:
    """The laws of a proof, and that what the model tells of itself is what the probe sees: weights
    and output, under the edits of this run. As they are where it tells nothing.

    Args:
        call: what is called, as in `watched_call`.
    """
    request = CaptureRequest()
    with torch.inference_mode():
        found = _noted(model, call, intervention.of_the_pass(), request)
        if found is None:
            return laws
        seen, output = watched_call(model, call, intervention, request, notes=False)
        told = {one.path: one.weights for one in found[0].attentions}
        whole = _apart(found[1], output) / max(TINY, float(output.abs().max()))
        gaps = {
            f"{one.site} {one.path}": max(whole, _apart(told.get(one.path), one.weights))
            for one in seen.attentions
        }
    return {site: {**own, NOTES: gaps.get(site, math.inf)} for site, own in laws.items()}


def _apart(told: Tensor | None, seen: Tensor | None) -> float:
    if told is None or seen is None or told.shape != seen.shape:
        return math.inf
    return float((told.double() - seen.double()).abs().nan_to_num(0.0).max())
