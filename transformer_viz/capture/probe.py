"""The probe: a context that captures and edits the attention of any call of a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from ..core.interventions import LENT, Edit, Intervention, Pad
from .donations import Donation
from .handlers import HANDLERS
from .handlers.positions import narrow, uses_positions
from .handlers.sinusoids import stored
from .merge_heads import merge_heads
from .module_names import Names
from .records import Capture, CaptureRequest
from .refusals import as_sentence, refuse_compiled
from .state import CaptureState
from .torch_function_mode import CaptureMode


@contextmanager
def probe(
    module: nn.Module,
    intervention: Intervention | None = None,
    want: CaptureRequest | None = None,
    donations: Sequence[Donation] = (),
) -> Iterator[Capture]:
    """Capture a module's forward pass inside ``with``, and edit it; the module stays unchanged.

    ``with probe(module) as run: module(x)`` fills ``run.attentions`` in call order: weights
    ``[batch, head, query, key]``, path, kind, stack, layer. It also records norms, residual sums
    and unrecognised operations. Enter it in the thread of the forward pass; other threads are not
    affected.

    Args:
        module: The module.
        intervention: Edits of the pass.
        want: Data to keep; None keeps the weights of all heads.
        donations: Patches from other runs (`trace` finds them for edits).

    Raises:
        ValueError: An edit found no site in the model; names the edit and the sites. Also for a
            compiled module, nested tensors, torch.vmap, and edits under gradient checkpointing;
                states
            what to do.
    """
    edits, request = intervention or Intervention(), want or CaptureRequest()
    with watching(Names(module), edits, request, donations) as capture:
        yield capture


@contextmanager
def watching(
    names: Names,
    intervention: Intervention,
    request: CaptureRequest,
    donations: Sequence[Donation] = (),
) -> Iterator[Capture]:
    """Do the work of `probe` for repeated calls on a module that did not change in between.

    Reading the module names takes a twentieth of a pass of a small model.
    """
    refuse_compiled(names.root)
    state = CaptureState(names, intervention, request, HANDLERS, donations)
    if uses_positions(state):
        if names.waves is None:
            names.waves = stored(names.tensors)
        state.lineage.waves = names.waves
    try:
        with CaptureMode(state):
            yield state.capture
        if state.running is not None:
            state.running.ended(state)
    except Exception as error:
        sentence = as_sentence(error)
        if sentence is None:
            raise
        raise sentence from error
    finally:
        state.forget()
    drop_undivided(state)
    merge_heads(state.capture)
    state.capture.unrecognised += _unrecognised(state)
    if state.unconfirmed:
        raise ValueError(_unconfirmed(next(iter(state.unconfirmed.values()))))
    if state.giving.left:
        raise ValueError(_not_given(state))
    lost = [edit for edit in state.intervention if edit not in state.used]
    if lost:
        raise ValueError(_lost(lost[0], state.capture))


def drop_undivided(state: CaptureState) -> None:
    """Drop attentions whose weights were expected to be divided by their sum, but were not.

    Raises:
        ValueError: An edit was made there.
    """
    for record, _ in state.undivided.values():
        where = record.path or "this module"
        told = f"weights in {where} meet a column of ones and are never divided by what it gives"
        if any(edit.matches(record.site) for edit in state.intervention):
            raise ValueError(f"No edit can be made here: {told}.")
        state.capture.attentions.remove(record)
        state.say_unrecognised(told)


def _unrecognised(state: CaptureState) -> list[str]:
    """Return sentences on apparent attentions that were not recorded by the end of the pass."""
    said = [
        f"a softmax in {path or 'the model'} meets no values of its keys: no attention, or one in "
        "a layout that is not known"
        for path in state.open
    ]
    if state.outside:
        said.append(
            f"{state.outside} softmaxes or attentions ran outside the probed module: probe the "
            "module that runs them"
        )
    elif not state.capture.attentions and not said + state.capture.unrecognised:
        said.append(
            "no attention was seen: no softmax met values that the probe could follow; what runs "
            "below Python (TorchScript, kernels called by their own name) is not seen"
        )
    return said


def _unconfirmed(path: str) -> str:
    return (
        f"An edit reached a softmax in {path or 'this module'} whose product with values was not "
        "found: it may be no attention, or its weights are changed in a way that is not known, so "
        "what this pass gave is not to be used. Name another place that the edit is meant for."
    )


def _not_given(state: CaptureState) -> str:
    missed = next(one for one in state.giving.donations if id(one) in state.giving.left)
    edit = "" if missed.edit is None else f" (“{missed.edit.describe()}”)"
    return (
        f"What another run lends to {missed.site}{edit} met no place in this pass, so what it gave "
        "is not to be used."
    )


def _lost(edit: Edit, capture: Capture) -> str:
    if isinstance(edit, LENT):
        return (
            f"The edit “{edit.describe()}” takes numbers from elsewhere, which a probe alone does "
            "not know; use trace or translate."
        )
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
    sites = ", ".join(f"{site} ({heads} heads)" for site, heads in _heads(capture).items())
    return f"The edit “{edit.describe()}” matches no place in this model; it has {sites or 'none'}."


def _heads(capture: Capture) -> dict[str, int]:
    return {str(record.site): record.heads for record in capture.attentions}
