"""Search for the call of a user's module: roles allowed by its names, settled by trial runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from torch import nn

from . import names
from .assignments import MOST, assignments, fixed_input, mask_inputs, roles_of
from .names import Signature
from .plan import MASK, OTHER, SOURCE, TARGET, Input, Plan
from .refusals import refuse_batch, refuse_signature, refuse_twofold, refuse_unclear
from .trials import Sample, Trials, samples


@dataclass(frozen=True)
class Found:
    """Call of a module, its kind, confirmation by a trial, and notes about it."""

    plan: Plan
    kind: str
    shown: bool = False
    classes: int = 0
    notes: tuple[str, ...] = ()


def find_plan(module: nn.Module, kind: str | None, device: str) -> Found:
    """Return the call of a module.

    Args:
        module: The module, in evaluation mode.
        kind: Kind given by the user, or None.
        device: Device of the module.

    Raises:
        CheckpointError: The inputs of its forward cannot be determined; states what to do.
    """
    signature = read_signature_of(module, kind)
    best: tuple[bool, Trials] | None = None
    error = ""
    for sample in samples(module, device):
        for tried, sure in _tried(module, signature, kind, sample):
            error = tried.error or error
            if sure is not False and (best is None or (sure and not best[0])):
                best = bool(sure), tried
            if sure:
                break
        if best is not None and (best[0] or not _unnamed(signature)):
            break
    if best is None:
        return _by_names(module, signature, kind, error)
    sure, tried = best
    if not sure and kind is None and _strange(signature, tried.plan):
        raise refuse_unclear(module, signature, [p.name for p in _unnamed(signature)])
    return _described(module, signature, kind, tried)


def read_signature_of(module: nn.Module, kind: str | None) -> Signature:
    """Return the signature; an optional target counts as required if there must be one.

    Raises:
        CheckpointError: The forward of an encoder-decoder takes one text.
    """
    found = names.read_signature(module)
    optional = {p.name: p for p in found.optional}
    target = optional.get(names.TARGET_NAME)
    if kind == "encoder-decoder" and target is None and not any(map(_may_be_text, found.needed)):
        target = next(filter(_may_be_text, found.optional), None)
        if target is None and found.source.name != "0":
            raise refuse_batch(module, found) or refuse_twofold(module, found)
    if target is None or kind not in (None, "encoder-decoder"):
        return found
    rest = tuple(p for p in found.optional if p is not target)
    return replace(found, needed=(*found.needed, target), optional=rest)


def _may_be_text(parameter: inspect.Parameter) -> bool:
    return not names.MASKED.search(parameter.name) and names.beside(parameter) is None


def _unnamed(signature: Signature) -> list[inspect.Parameter]:
    """Return the required inputs whose names indicate no role."""
    return [
        p
        for p in filter(_may_be_text, signature.needed)
        if not names.OF_TARGET.search(p.name)
        and not names.LABELS.search(p.name)
        and p.name != names.TARGET_NAME
    ]


def _runs_otherwise(module: nn.Module, signature: Signature) -> bool:
    """Return True if a module runs without a target of another length."""
    device = str(next((p.device for p in module.parameters()), torch.device("cpu")))
    every = (_tried(module, signature, "encoder-only", one) for one in samples(module, device))
    return any(tried.plain is not None for tries in every for tried, _ in tries)


def _is_label(parameter: inspect.Parameter) -> bool:
    return names.LABELS.search(parameter.name) is not None


def _strange(signature: Signature, plan: Plan) -> bool:
    """Return True if an input with an unclear name has a role that no trial confirmed."""
    strange = {p.name for p in _unnamed(signature)}
    return any(one.name in strange and one.make is not names.nothing for one in plan.inputs)


def _tried(
    module: nn.Module, signature: Signature, kind: str | None, sample: Sample
) -> Iterator[tuple[Trials, bool | None]]:
    """Yield trials, and True, False or None if they confirm, refute or leave open the plan."""
    for first in (False, True):
        for inputs in islice(assignments(signature, kind), MOST):
            plan = Plan(
                (signature.source, *inputs),
                signature.placed,
                tokens_first=first,
                causal=kind == "decoder-only",
            )
            tried = Trials(module, plan, sample)
            found = tried.arranged()
            if found is None:
                yield tried, False
                continue
            if found.plan.twofold and not found.by_token:
                swapped = Trials(module, replace(plan, inputs=_swapped(plan.inputs)), sample)
                other = swapped.arranged()
                if other is not None and other.by_token:
                    found = other
            yield found, _judged(found, signature)


def _swapped(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """Return the inputs with source and target exchanged: ``forward(target, source)``."""
    other = {SOURCE: TARGET, TARGET: SOURCE}
    return tuple(replace(one, role=other.get(one.role, one.role)) for one in inputs)


def _judged(tried: Trials, signature: Signature) -> bool | None:
    """Return True if a plan is right: its masks hide the right tokens, its target is one."""
    plan = tried.plan
    if tried.leaks():
        return False
    sure: list[bool | None] = []
    if plan.twofold:
        strange = any(
            p.name in {one.name for one in plan.inputs if one.role in (SOURCE, TARGET)}
            for p in _unnamed(signature)
        )
        if not tried.by_token and strange:
            return False
        read = [tried.changes(tried.places(0), side) for side in (SOURCE, TARGET)]
        sure.append(all(one is not None and bool(one.any()) for one in read) or None)
    masks = [one for one in plan.inputs if one.role == MASK]
    if any(one.keys == SOURCE for one in masks):
        sure.append(tried.hides())
    own = [one for one in masks if (one.rows, one.keys) == (TARGET, TARGET)]
    if any(not one.full for one in own):
        sure.append(tried.hides(TARGET))
    if any(one.full for one in own):
        ahead = tried.looks_ahead(TARGET)
        sure.append(None if ahead is None else not ahead)
    if plan.causal and any(one.full for one in masks):
        ahead = tried.looks_ahead()
        sure.append(None if ahead is None else not ahead)
    if False in sure:
        return False
    filled = {one.name for one in plan.inputs if one.make is names.zeros}
    if any(p.name in filled for p in _unnamed(signature)):
        return None
    return None if None in sure else True


def _described(module: nn.Module, signature: Signature, kind: str | None, tried: Trials) -> Found:
    """Return the description of a module, with the optional inputs that it is given too."""
    notes: list[str] = []
    tried = _with_every_row(module, signature, tried)
    ahead = None if tried.plan.twofold else tried.looks_ahead()
    if ahead is False and tried.plan.arrangement == "classes" and _is_word(module, tried):
        tried = replace(tried, plan=replace(tried.plan, arrangement="last"))
    plan = replace(tried.plan, hiding=_hiding(module, signature, tried))
    found, shown = kind, False
    if found is None:
        found = "encoder-decoder" if plan.twofold else "encoder-only"
        shown = bool(_unnamed(signature))
        if ahead is False:
            found, shown = "decoder-only", True
            notes.append(
                "A trial run shows that no token looks at a later one, so this module is "
                'decoder-only; kind="encoder-only" opens it as an encoder.'
            )
        elif any(one.full and one.role == MASK for one in plan.inputs) and not plan.twofold:
            notes.append(
                'All tokens see each other, since the mask comes from outside; kind="decoder-only" '
                "gives the module a causal mask."
            )
    elif found == "decoder-only" and ahead:
        notes.append(
            "A trial run shows tokens that look at later ones, although the kind given is "
            "decoder-only."
        )
    if plan.twofold and tried.by_token and tried.looks_ahead(TARGET):
        notes.append(
            "A trial run shows target tokens that look at later ones: this forward makes no causal "
            "mask by itself. Wrap it in a module whose forward(source, target) gives the mask."
        )
    filled = [one.name for one in plan.inputs if one.make in (names.zeros, names.nothing)]
    strange = [p.name for p in _unnamed(signature) if p.name in filled]
    if strange:
        notes.append(
            f"No trial shows what {', '.join(strange)} is for; it is None where that runs, and 0 "
            "for each token elsewhere."
        )
    plan, more = _with_ending(module, plan, tried)
    if plan.arrangement == "last":
        more = (*more, "The module gives the last token's row alone; other tokens have no words.")
    classes = 0
    if plan.arrangement in ("classes", "one") and tried.plain is not None:
        classes = 1 if tried.plain.dim() < 2 else tried.plain.shape[1]
    return Found(plan, found, shown, classes, (*notes, *more))


def _with_every_row(module: nn.Module, signature: Signature, tried: Trials) -> Trials:
    """Return trials with labels given if the module returns all rows only then."""
    if tried.plan.arrangement != "last":
        return tried
    left = {one.name for one in tried.plan.inputs if one.make is names.nothing}
    labels = [p.name for p in signature.optional if names.LABELS.search(p.name)]
    for name in (*labels, *(p.name for p in signature.needed if p.name in left)):
        kept = tuple(one for one in tried.plan.inputs if one.name != name)
        given = Input(name, OTHER, make=names.itself)
        plan = replace(tried.plan, inputs=(*kept, given))
        found = Trials(module, replace(plan, arrangement=""), tried.sample).arranged()
        if found is not None and found.by_token:
            return found
    return tried


def _is_word(module: nn.Module, tried: Trials) -> bool:
    """Return True if a single row of numbers has one per token of an embedding table."""
    assert tried.plain is not None
    tables = [part.num_embeddings for part in module.modules() if isinstance(part, nn.Embedding)]
    return tried.plain.shape[-1] == max(tables, default=0)


def _hiding(module: nn.Module, signature: Signature, tried: Trials) -> tuple[Input, ...]:
    """Return the optional masks that hide source tokens."""
    if tried.plan.hides:
        return ()
    every = [p.name for p in signature.optional if names.MASKED.search(p.name)]
    every = [name for name in every if not tried.plan.twofold or names.side_of(name)[1] == SOURCE]
    known = tuple(
        Input(
            name,
            MASK,
            *(names.side_of(name) if tried.plan.twofold else (SOURCE, SOURCE)),
            form=names.usual_form(name),
        )
        for name in every
        if name in names.KNOWN
    )
    padded = [name for name in every if names.PADDED.search(name)]
    groups = [group for group in (padded, *([name] for name in every)) if group]
    tries = [known] if known else []
    for group in groups:
        tries += islice(mask_inputs(group, False, tried.plan.twofold), 60)
    for masks in tries:
        plan = replace(tried.plan, hiding=masks)
        if replace(tried, plan=plan).hides():
            return masks
    return known


def _with_ending(module: nn.Module, plan: Plan, tried: Trials) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with the generator that computes logits, if forward leaves it out."""
    generator = getattr(module, "generator", None)
    if not isinstance(generator, nn.Module) or not tried.by_token or tried.plain is None:
        return plan, ()
    used: list[str] = []
    hooks = [part.register_forward_hook(lambda *_: used.append("")) for part in generator.modules()]
    try:
        tried.run(tried.source, tried.target)
        if used:
            return plan, ()
        with torch.no_grad():
            generator(tried.plain)
    except Exception:  # a foreign forward pass may raise anything
        return plan, ()
    finally:
        for hook in hooks:
            hook.remove()
    note = "forward ends in states; the module's generator, which it leaves out, makes the logits."
    return replace(plan, ending="generator"), (note,)


def _by_names(module: nn.Module, signature: Signature, kind: str | None, error: str) -> Found:
    """Return the plan suggested by the names alone, if no trial ran.

    Raises:
        CheckpointError: The names do not decide either.
    """
    if (asked := refuse_batch(module, signature)) is not None:
        raise asked
    strange = _unnamed(signature)
    labels = [p for p in signature.needed if p.default is not p.empty and _is_label(p)]
    doubtful = error and kind == "encoder-decoder" and (strange or labels)
    if doubtful and _runs_otherwise(module, signature):
        raise refuse_twofold(module, signature)
    if error and ((strange and kind is None) or len(strange) > 1):
        raise refuse_signature(module, signature, error)
    inputs: list[Any] = [signature.source]
    for parameter in signature.needed:
        role = roles_of(parameter, kind)[0]
        made = fixed_input(parameter, role)
        side = names.side_of(parameter.name)
        inputs.append(
            made or Input(parameter.name, MASK, *side, form=names.usual_form(parameter.name))
        )
    plan = Plan(tuple(inputs), signature.placed)
    optional = [p.name for p in signature.optional if p.name in names.KNOWN]
    hiding = tuple(Input(name, MASK, form=names.usual_form(name)) for name in optional)
    if error and any(one.role == MASK for one in inputs):
        raise refuse_signature(module, signature, error)
    plan = replace(plan, hiding=hiding)
    return Found(plan, kind or ("encoder-decoder" if plan.twofold else "encoder-only"))
