"""The opened map of a long text under changes whose run has not come yet.

A run of a long text takes seconds, and a hand that moves a slider waits for none. The open head's
own map needs no run: its queries and keys are those of a run that is there already
(`core/tiles/edited.py`). Which of two things it then shows, is said beside it:

- where nothing new acts below the head's layer, the very map that the run will give (``exact``);
- else the map that this head alone would have under its new settings, the layers below it being as
  they were. The map of the run follows, under another name, so that no cell of the one is ever
  taken for one of the other.

While the hand moves each cell is of its first rows alone, where all of them would take too long,
and says so when it is pointed at. Hard attention, positions, padding, residuals and what is taken
from other runs wait for the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from ...core.editing.edit_controls import Place
from ...core.interventions import Intervention
from ...core.tiles import Tiles
from ...core.tiles.edited import ON_MAPS, EditedMap, beneath
from ...core.trace import Trace
from ...i18n import mark, say
from ..engine.query import Question
from ..engine.turns.run_slots import RunSlots
from ..session.scene import Scene

#: Maps that are made at once: a hand that moves does not stand in the line of the runs.
SLOTS = RunSlots(2)
GONE = "The run that this map is made of is gone by now."
SHOWN = mark("This map shows the change already; everything else on the page follows the model.")
ALONE = mark(
    "This map shows the change of this head alone, with the layers below as they were, until the "
    "model has run; everything else on the page follows then."
)
OLDER = mark("This map is still of the run before the change, until the model has run.")


@dataclass(frozen=True, eq=False)
class Ahead:
    """A map ahead of its run: what it is called, and whether it is the map of that run."""

    of: str
    exact: bool
    map: EditedMap

    @property
    def note(self) -> str:
        """What a reader must know of it."""
        return say(SHOWN if self.exact else ALONE)


def name_of(question: Question, place: Place, changes: Intervention, *more: str) -> str:
    """What a map is told from others by: the question, the head, the edits, and what else."""
    what = repr((question, place.site, changes.to_json(), *more))
    return sha256(what.encode()).hexdigest()[:24]


def ahead(
    question: Question, place: Place, changes: Intervention, before: Trace, now: Trace
) -> Ahead:
    """The map of a place under changes.

    Args:
        before: the run without changes.
        now: the run that was made last, under other changes.

    Raises:
        LookupError: a map that has to wait for its run; says why.
    """
    own, last = _tiles(before, place), _tiles(now, place)
    site = replace(own.site, head=place.head)
    wanted = beneath(changes, site)
    same = [run for run in (now, before) if beneath(run.intervention, site) == wanted]
    run = same[0] if same else now
    if _others(run.intervention) != _others(changes):
        raise LookupError("These changes are not of maps alone.")
    made = EditedMap(own if run is before else last, own, changes, place.head)
    if same:
        return Ahead(name_of(question, place, changes, "now"), True, made)
    alone = name_of(question, place, changes, "alone", run.intervention.to_json())
    return Ahead(alone, False, made)


def _tiles(run: Trace, place: Place) -> Tiles:
    for tiles in run.tiles:
        if (tiles.site.map, tiles.site.layer) == (place.map_name, place.layer):
            return tiles
    raise LookupError("Queries and keys of this map are not at hand.")


def _others(changes: Intervention) -> list[Any]:
    return [edit for edit in changes if not isinstance(edit, ON_MAPS)]


def of_scene(scene: Scene) -> Ahead | None:
    """The map that a page shows while it waits for its run; None where it has to wait too."""
    if not scene.awaited or scene.look.compare != "now":
        return None
    try:
        return ahead(scene.question, scene.place, scene.changes, scene.before, scene.now)
    except LookupError:
        return None
