"""Conversion between the switches of Positions and its edits: scaled and shuffled positions."""

from __future__ import annotations

from dataclasses import replace

from ...core.interventions import Edit, Intervention, ScalePositions, ShufflePositions
from ...core.sites import MAPS, STACKS


def stack_of(name: str) -> str:
    """Return the stack that uses positions of this name: a table, angles, or a bias."""
    kind, _, place = name.partition(".")
    return MAPS[place.partition(".")[0]][0] if kind == "bias" else place


def stacks_of(reach: str) -> tuple[str, ...]:
    """Return the stacks whose positions a switch changes."""
    return STACKS if reach == "both" else (reach,)


def scale(intervention: Intervention, reach: str) -> float:
    """Return the factor of the positions; 1 is the model's."""
    edit = _acting(intervention, ScalePositions)[stacks_of(reach)[0]]
    return edit.value if isinstance(edit, ScalePositions) else 1.0


def set_scale(intervention: Intervention, reach: str, value: float) -> Intervention:
    """Return the intervention with scaled positions; 1 removes the edit."""
    edit = None if value == 1 else ScalePositions(value=value)
    return _written(intervention, ScalePositions, reach, edit)


def shuffled(intervention: Intervention, reach: str) -> int | None:
    """Return the seed of the shuffled positions; None if they are not shuffled."""
    edit = _acting(intervention, ShufflePositions)[stacks_of(reach)[0]]
    return edit.seed if isinstance(edit, ShufflePositions) else None


def set_shuffled(intervention: Intervention, reach: str, seed: int | None) -> Intervention:
    """Return the intervention with positions shuffled by a seed; None removes the edit."""
    edit = None if seed is None else ShufflePositions(seed=seed)
    return _written(intervention, ShufflePositions, reach, edit)


def differ(intervention: Intervention) -> bool:
    """Return True if the positions of the two sentences are changed differently."""
    one, other = STACKS
    return scale(intervention, one) != scale(intervention, other) or (
        shuffled(intervention, one) != shuffled(intervention, other)
    )


def _acting(intervention: Intervention, kind: type[Edit]) -> dict[str, Edit | None]:
    """Return the edit of a kind that acts on each stack: the last one that names it or none."""
    found: dict[str, Edit | None] = dict.fromkeys(STACKS)
    for edit in intervention:
        if isinstance(edit, kind):
            found.update(dict.fromkeys([s for s in STACKS if edit.stack in (None, s)], edit))
    return found


def _written(
    intervention: Intervention, kind: type[Edit], reach: str, edit: Edit | None
) -> Intervention:
    """Return the intervention with one edit for both stacks if equal, else one per stack."""
    acting = _acting(intervention, kind) | dict.fromkeys(stacks_of(reach), edit)
    wanted = {stack: one and replace(one, stack=stack) for stack, one in acting.items()}
    plain = {replace(one, stack=None) if one else None for one in wanted.values()}
    kept = tuple(other for other in intervention if not isinstance(other, kind))
    made = plain if len(plain) == 1 else wanted.values()
    return Intervention((*kept, *(one for one in made if one is not None)))
