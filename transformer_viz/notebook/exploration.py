"""State behind a widget: a model, its runs, its edits, and its display options.

It is independent of notebooks. Python sets a run, edits or a head; `wishes.py` parses messages of
the browser. Edits are kept only if the model runs with them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checkpoints.common.model import Model
from ..core.errors import short
from ..core.interventions import Intervention, intervention_of
from ..core.sites import Site
from ..core.trace import Trace
from ..i18n import say
from ..metrics.attention.map_cells import cells
from .runs import Runs, same_words
from .shown import Shown, site_of


class Exploration:
    """Explorable model: it is displayed, edited and run again.

    Args:
        runs: An input, and the model that reads it.
        intervention: The initial edits.
        site: The head that is open at first; if omitted, the first one of the last map.

    Raises:
        ValueError: An input, an edit or a head that the model does not accept; the message gives
            the reason.
    """

    def __init__(
        self, runs: Runs, intervention: Intervention | None = None, site: object = None
    ) -> None:
        self.runs, self.changes = runs, intervention or Intervention()
        self.asked: Any = runs.source
        first = runs.clean().maps[-1] if site is None else site_of(site, runs.clean())
        self.shown = Shown(first) if isinstance(first, str) else _at(Shown(first.map), first)
        self._settle()

    @property
    def model(self) -> Model:
        """Model that runs."""
        return self.runs.model

    @property
    def before(self) -> Trace:
        """Clean run."""
        return self.runs.clean(self._product)

    @property
    def now(self) -> Trace:
        """Run with the edits; the clean one without edits."""
        return self.runs.changed(self.changes, self._product)

    @property
    def _product(self) -> bool:
        return self.shown.view == "qk"

    def state(self) -> tuple[Runs, Any, Intervention, Shown]:
        """Return the mutable state, for `go_back`."""
        return self.runs, self.asked, self.changes, self.shown

    def go_back(self, state: tuple[Runs, Any, Intervention, Shown]) -> None:
        """Restore a state returned by `state`."""
        self.runs, self.asked, self.changes, self.shown = state

    def ask(self, source: Any) -> None:
        """Set another input; it is rejected if the edits do not fit it.

        Raises:
            ValueError: An input that the model cannot read, or that the edits do not fit; the
                message gives the reason.
        """
        self._take(Runs(self.model, source), source, self.changes)

    def change(self, intervention: object) -> None:
        """Set other edits: an intervention, its JSON, or the object that the JSON describes.

        Raises:
            ValueError: No intervention, or one that the model does not accept; the message gives
                the reason.
        """
        self._take(self.runs, self.asked, intervention_of(intervention))

    def see(self, trace: object) -> None:
        """Show an existing run of the same model, with its input and edits.

        Raises:
            ValueError: No trace, one of other heads, or one whose input cannot be reconstructed.
        """
        if not isinstance(trace, Trace):
            raise ValueError(
                say(
                    "The widget shows a Trace, as tv.trace gives it; got {given}.",
                    given=short(trace),
                )
            )
        if trace.report.given:
            raise ValueError(
                say(
                    "The weights of that trace were given, so that no model can run it again; "
                    "look at it with tv.views.atlas(trace)."
                )
            )
        mine = self.runs.clean()
        shapes = [{m: t.head_counts(m).tolist() for m in t.maps} for t in (mine, trace)]
        if shapes[0] != shapes[1] or mine.manifest.get("hash") != trace.manifest.get("hash"):
            raise ValueError(
                say(
                    "That trace is of the model {other}, and the widget explores {model}. Open "
                    "another widget for it.",
                    other=str(trace.manifest.get("model", "?")),
                    model=self.model.name,
                )
            )
        if not trace.attentions:
            raise ValueError(
                say("That trace kept no weights; trace it with keep=('weights', 'scores').")
            )
        if same_words(mine, trace):
            self.runs.remember(trace)
            self._take(self.runs, self.asked, trace.intervention)
        else:
            runs = self.runs.of_words(trace)
            self._take(runs, runs.source, trace.intervention)

    def open(self, site: object) -> Site:
        """Open another head.

        Raises:
            ValueError: No such head; the message lists the available ones.
        """
        found = site_of(site, self.before)
        other = found.map != self.shown.block
        self.shown = _at(self.shown, found)
        if other:
            self.shown = replace(self.shown, token=0, key=None, overlay=())
        self._settle()
        return found

    def _take(self, runs: Runs, asked: Any, changes: Intervention) -> None:
        runs.changed(changes, self._product)  # it has to run before it is stored
        self.runs, self.asked, self.changes = runs, asked, changes
        self._settle()

    def _settle(self) -> None:
        """Clamp the selection to the open map."""
        shown, trace = self.shown, self.now
        found = cells(trace, shown.block, shown.layer, shown.head)
        if found.row_of(shown.token) is None:
            shown = replace(shown, token=found.members[0][0])
        if found.column_of(shown.key) is None:
            shown = replace(shown, key=None)
        sides = found.weights.shape
        if shown.zoom and any(b > side for (_, b), side in zip(shown.zoom, sides, strict=True)):
            shown = replace(shown, zoom=None)
        self.shown = shown


def _at(shown: Shown, site: Site) -> Shown:
    return replace(shown, block=site.map, layer=site.layer, head=site.head or 0, zoom=None)
