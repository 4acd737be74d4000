"""Interventions: the edits of one run, and the canonical text that identifies them.

The text is the identity of an intervention in the cache, in links, captions and the manifest of a
trace. Every kind of edit (:mod:`.edits`) can be imported from here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..i18n import say
from .editing.swaps import LENT as LENT
from .editing.swaps import MeanHead as MeanHead
from .editing.swaps import Swap as Swap
from .editing.swaps import SwapHead as SwapHead
from .editing.swaps import SwapPattern as SwapPattern
from .editing.swaps import SwapStream as SwapStream
from .edits import EDITS as EDITS
from .edits import Amount as Amount
from .edits import BlockEdges as BlockEdges
from .edits import BlockKeys as BlockKeys
from .edits import Causal as Causal
from .edits import Edit as Edit
from .edits import HidingEdit as HidingEdit
from .edits import Pad as Pad
from .edits import ScaleHead as ScaleHead
from .edits import ScalePositions as ScalePositions
from .edits import ScaleResidual as ScaleResidual
from .edits import ShufflePositions as ShufflePositions
from .edits import Temperature as Temperature
from .edits import UniformHead as UniformHead
from .edits import Window as Window
from .errors import short, whole
from .sites import Site

FORM = 'Write it like {"edits": [{"kind": "temperature", "value": 2.0}]}.'
_BY_KIND = {edit.kind: edit for edit in EDITS}


@dataclass(frozen=True)
class Intervention:
    """All changes of one run, in order; the empty one is the clean run.

    If two edits of a kind have the same selectors, the later one replaces the earlier. If a wide
    and a narrow one overlap, the later one applies at each site.
    """

    edits: tuple[Edit, ...] = field(default=())

    def __post_init__(self) -> None:
        latest = {(edit.kind, edit.key): edit for edit in self.edits}
        kept = tuple(edit for edit in self.edits if latest[edit.kind, edit.key] is edit)
        object.__setattr__(self, "edits", kept)

    def __bool__(self) -> bool:
        return bool(self.edits)

    def __iter__(self) -> Iterator[Edit]:
        return iter(self.edits)

    def to_json(self) -> str:
        """Return the canonical text: equal edits give identical text."""
        edits = [edit.to_dict() for edit in self.edits]
        return json.dumps({"edits": edits}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Intervention:
        """Read the canonical text, or any JSON of its form.

        Raises:
            ValueError: Invalid JSON, an unknown kind or field, or a value out of range. The message
                names it.
        """
        try:
            words = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"The intervention is not JSON ({error}). {FORM}") from error
        if not whole(json.dumps(words, ensure_ascii=False)):
            raise ValueError(f"The intervention holds half a character (\\ud800). {FORM}")
        if not isinstance(words, dict) or not isinstance(words.get("edits"), list):
            raise ValueError(
                f'An intervention is an object with a list "edits"; got {text[:60]!r}. {FORM}'
            )
        return cls(tuple(_edit(item) for item in words["edits"]))

    def without(self, edit: Edit) -> Intervention:
        """Return the intervention without this edit."""
        return Intervention(tuple(other for other in self.edits if other != edit))

    def of_the_pass(self) -> Intervention:
        """Return the edits of the forward pass only: without padding, which changes the input."""
        return Intervention(tuple(edit for edit in self.edits if not isinstance(edit, Pad)))

    @property
    def lent(self) -> tuple[Edit, ...]:
        """Edits that patch activations from outside the run."""
        return tuple(edit for edit in self.edits if isinstance(edit, LENT))

    def describe(self, source: tuple[str, ...] | None = None) -> str:
        """Return a description of all edits, or a text for the clean run."""
        said = "; ".join(edit.describe(source) for edit in self.edits)
        return said or say("clean run, nothing changed")

    def find(self, kind: type[Edit], site: Site) -> Edit | None:
        """Return the edit of a kind that acts on a site: the last one that matches."""
        found = (e for e in reversed(self.edits) if isinstance(e, kind) and e.matches(site))
        return next(found, None)


def intervention_of(given: object) -> Intervention:
    """Return an intervention from an `Intervention`, its JSON, its dict, or None.

    Raises:
        ValueError: Any other value, or an unknown field. The message names it.
    """
    if given is None:
        return Intervention()
    if isinstance(given, Intervention):
        return given
    if isinstance(given, str):
        return Intervention.from_json(given)
    if isinstance(given, dict):
        return Intervention.from_json(json.dumps(given, default=str))
    raise ValueError(
        say(
            "An intervention is a tv.Intervention, its JSON, or None for the clean run; got "
            "{given}.",
            given=short(given),
        )
    )


def _edit(item: Any) -> Edit:
    kind = item.get("kind") if isinstance(item, dict) else item
    if not isinstance(item, dict) or not isinstance(kind, str) or kind not in _BY_KIND:
        raise ValueError(
            f"There is no edit of kind {short(kind)}; known are {', '.join(_BY_KIND)}."
        )
    fields = {word: value for word, value in item.items() if word != "kind"}
    made = _BY_KIND[kind]
    known = {f.name for f in dataclasses.fields(made)}
    for word in fields:
        if word not in known:
            raise ValueError(
                f"The edit {kind!r} has no word {short(word)}; it knows {', '.join(sorted(known))}."
            )
    try:
        return made(**fields)
    except TypeError as error:
        needed = ", ".join(f.name for f in dataclasses.fields(made) if f.name not in fields)
        raise ValueError(f"The edit {kind!r} is incomplete: it lacks {needed}.") from error
