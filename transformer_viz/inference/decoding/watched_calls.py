"""One call of a model, watched: by the parts of a Transformer that are known, or by the probe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from ...capture import Capture, CaptureRequest
from ...capture.donations import Donation
from ...capture.module_names import Names
from ...capture.probe import watching
from ...capture.reference import watched
from ...checkpoints.common.model import Calls, Model
from ...core.interventions import Intervention


def watched_call(
    model: Model,
    call: Callable[[Calls], Tensor],
    intervention: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
    names: Callable[[], Names] | None = None,
) -> tuple[Capture, Tensor]:
    """What a call of a model shows, and what it gives.

    The probe takes about as long again as the model; a reference Transformer can tell most of it
    at a tenth of that (`capture.reference`), and the numbers are the same.

    Args:
        call: what is called, with the model's calls or with those of a module in its place.
        names: the model's modules for the probe, read anew where it is left out.

    Raises:
        ValueError: as :func:`probe`.
    """
    edits, on = intervention.of_the_pass(), model.calls.on
    made = None if on is None else watched(model.module, edits, request, donations)
    if on is not None and made is not None:
        output = call(on(made))
        capture = made.finished()
        if capture is not None:
            return capture, output
    known = Names(model.module) if names is None else names()
    with watching(known, edits, request, donations) as seen:
        output = call(model.calls)
    return seen, output
