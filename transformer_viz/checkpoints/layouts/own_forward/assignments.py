"""Possible roles of each input of a user's module, by its name: text, mask, left out or filled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice, product

from . import names
from .mask_forms import Form
from .names import Signature
from .plan import MASK, SOURCE, TARGET, Input

MOST = 300  # plans tried with one sample; most fail at once
TEXT, HIDE, LEAVE, FILL = "text", "hide", "leave", "fill"  # possible roles of an input


def roles_of(parameter: inspect.Parameter, kind: str | None) -> list[str]:
    """Return the possible roles of an input, the likely first."""
    twofold = kind in (None, "encoder-decoder")
    name = parameter.name
    if names.MASKED.search(name):
        return [HIDE, LEAVE]
    if names.beside(parameter) is not None:
        return [FILL]
    if name == names.TARGET_NAME or names.OF_TARGET.search(name):
        return [TEXT, LEAVE] if twofold else [LEAVE]
    if names.LABELS.search(name):
        return [LEAVE]
    ends = [LEAVE] if kind is None else [LEAVE, FILL]
    if kind == "encoder-decoder":
        return [TEXT, HIDE, *ends]
    return [*([TEXT] if twofold else []), HIDE, *ends]


def assignments(signature: Signature, kind: str | None) -> Iterator[tuple[Input, ...]]:
    """Yield the roles of the needed inputs, likely ones first; masks in all their forms."""
    needed = signature.needed
    for roles in product(*(roles_of(p, kind) for p in needed)):
        twofold = roles.count(TEXT) == 1
        if roles.count(TEXT) > 1 or (kind == "encoder-decoder" and not twofold and needed):
            continue
        fixed = [fixed_input(p, role) for p, role in zip(needed, roles, strict=True)]
        masks = [p.name for p, role in zip(needed, roles, strict=True) if role == HIDE]
        for made in mask_inputs(masks, kind == "decoder-only", twofold):
            given = iter(made)
            yield tuple(next(given) if one is None else one for one in fixed)


def fixed_input(parameter: inspect.Parameter, role: str) -> Input | None:
    name = parameter.name
    if role == HIDE:
        return None
    if role == TEXT:
        return Input(name, TARGET)
    if role == LEAVE:
        return names.other(name, names.nothing)
    return names.other(name, names.beside(parameter) or names.zeros)


def mask_inputs(masks: list[str], causal: bool, twofold: bool) -> Iterator[tuple[Input, ...]]:
    """Yield the forms of some masks, starting with those of a single convention."""
    if not masks:
        yield ()
        return
    telling = any(names.side_of(name) != (SOURCE, SOURCE) for name in masks)
    if twofold and len(masks) > 1 and not telling:  # source and target, in this order
        sides = [(SOURCE, SOURCE), (TARGET, TARGET), (TARGET, SOURCE)]
    else:
        sides = [names.side_of(name) if twofold else (SOURCE, SOURCE) for name in masks]
    axes = [
        names.axes_of(name, side, tuple(o for o in masks if o != name), causal)
        for name, side in zip(masks, sides, strict=False)
    ]
    ranked = sorted(product(*(range(len(one)) for one in axes)), key=lambda at: (sum(at), at))
    for shared in (True, False):
        for at in ranked[: MOST if shared else 12]:
            for values in _values(masks, shared):
                yield tuple(
                    Input(name, MASK, *side, form=Form(one[n], value))
                    for name, side, one, n, value in zip(
                        masks, sides, axes, at, values, strict=False
                    )
                )


def _values(masks: list[str], shared: bool) -> Iterator[tuple[str, ...]]:
    """Yield values of masks: by their names, then the same for all; or else all others."""
    by_name = [names.values_of(name) for name in masks]
    if not shared:
        if len(masks) > 1:
            yield from islice(product(*by_name), 125)
        return
    first = tuple(values[0] for values in by_name)
    yield first
    same = ((value,) * len(masks) for value in by_name[0])
    yield from (values for values in same if values != first)
