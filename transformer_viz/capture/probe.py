"""The probe: put it around any call of a module to see, and to change, its attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ..core.interventions import Edit, Intervention, Pad
from .handlers import HANDLERS
from .handlers.positions import narrow, wanted
from .handlers.sinusoids import stored
from .merge_heads import merge_heads
from .run import Run, Want
from .state import CaptureState
from .torch_function_mode import CaptureMode


@contextmanager
def probe(
    module: nn.Module, intervention: Intervention | None = None, want: Want | None = None
) -> Iterator[Run]:
    """Watch what a module does inside ``with``, and edit it; the module itself is not touched.

    ``with probe(module) as run: module(x)`` fills ``run.attentions`` in call order: weights
    ``[batch, head, query, key]``, path, kind, stack, layer; also norms, residual sums and what was
    not recognised. Enter it in the thread that runs the forward pass; other threads on the same
    module notice nothing.

    Raises:
        ValueError: an edit that found no place in the model; names the edit and the places.
    """
    state = CaptureState(module, intervention or Intervention(), want or Want(), HANDLERS)
    if wanted(state):
        state.lineage.waves = stored(state.names.tensors)
    try:
        with CaptureMode(state):
            yield state.capture
    finally:
        state.forget()
    merge_heads(state.capture)
    state.capture.unrecognised += [
        f"a softmax in {path or 'the model'} meets no values of its keys: no attention, or one in "
        "a layout that is not known"
        for path in state.open
    ]
    if not state.capture.attentions:
        state.capture.unrecognised.append(
            "no attention found: nothing here multiplies a softmax of scores with values"
        )
    lost = [edit for edit in state.intervention if edit not in state.used]
    if lost:
        raise ValueError(_lost(lost[0], state.capture))


def _lost(edit: Edit, run: Run) -> str:
    if isinstance(edit, Pad):
        return (
            f"The edit “{edit.describe()}” changes the source, which a probe does not see; append "
            "the padding to your input, or use trace."
        )
    if edit.kind.endswith("positions"):
        if narrow(edit):
            return (
                f"The edit “{edit.describe()}” names less than a stack, and positions are those of "
                "a whole one; leave block, layer and head out."
            )
        return (
            f"The edit “{edit.describe()}” found no positions: this model adds no position table "
            "to its embeddings, rotates no queries and adds no bias to its scores there."
        )
    sites = ", ".join(f"{site} ({heads} heads)" for site, heads in _heads(run).items())
    return f"The edit “{edit.describe()}” matches no place in this model; it has {sites or 'none'}."


def _heads(run: Run) -> dict[str, int]:
    return {str(record.site): record.heads for record in run.attentions}
