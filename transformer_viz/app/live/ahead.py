"""The opened map of a long text under changes whose run is not finished.

A run of a long text takes seconds, too long for a slider. The open head's map needs no run: its
queries and keys come from an earlier one (`core/tiles/edited.py`). The page states which of two
maps it shows:

- the exact map of the coming run (``exact``), if nothing new acts below the head's layer;
- else the map of this head alone under its new settings, with the layers below unchanged. The map
of
  the run follows under another name, so that cells of the two are never mixed up.

While the slider moves, each cell uses its first rows only if all of them would take too long; its
tooltip states that. Hard attention, positions, padding, residuals and patches wait for the run.
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

#: Maps made at once: a moving slider does not wait in the queue of the runs.
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
    """A map shown before its run.

    Attributes:
        of: Name of the map.
        exact: True if it equals the map of the run.
    """

    of: str
    exact: bool
    map: EditedMap

    @property
    def note(self) -> str:
        """Explanation shown beside the map."""
        return say(SHOWN if self.exact else ALONE)


def name_of(question: Question, place: Place, changes: Intervention, *more: str) -> str:
    """Return the name of a map: a hash of question, site, edits and further parts."""
    what = repr((question, place.site, changes.to_json(), *more))
    return sha256(what.encode()).hexdigest()[:24]


def ahead(
    question: Question, place: Place, changes: Intervention, before: Trace, now: Trace
) -> Ahead:
    """Return the map of a place under changes.

    Args:
        before: The run without changes.
        now: The latest run, under other changes.

    Raises:
        LookupError: The map has to wait for its run; the message gives the reason.
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
    """Return the map shown while a page waits for its run; None if the map has to wait too."""
    if not scene.awaited or scene.look.compare != "now":
        return None
    try:
        return ahead(scene.question, scene.place, scene.changes, scene.before, scene.now)
    except LookupError:
        return None
