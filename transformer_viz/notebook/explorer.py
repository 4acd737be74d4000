"""The widget: an `Exploration` between Python's attributes and the browser's messages."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anywidget
import traitlets

from ..components.bundle import module, style
from ..core.errors import is_fault
from ..i18n import say, speaking, spoken_language
from .exploration import Exploration
from .pictures import frame
from .still import still
from .wishes import heard

MOST_WISHES = 200  # in one message
LOG = logging.getLogger(__name__)
VIEW = "application/vnd.jupyter.widget-view+json"


class Explorer(anywidget.AnyWidget):
    """Widget to explore and edit a model in a notebook; `tv.explore` creates it.

    All attributes can be read, set, and observed (``widget.observe(f, "trace")``). Setting one runs
    the model. An invalid value raises a ValueError with the reason, and changes nothing.

    Attributes:
        trace: The run that is shown.
        intervention: Its edits.
        site: The open head.
        source: The input.
    """

    _esm = module("explorer/explorer.js")
    _sheet = traitlets.Unicode().tag(sync=True)
    _frame = traitlets.Bytes().tag(sync=True)
    # None is not exempt from validation: it is processed like any other value, as the clean run.
    trace: Any = traitlets.TraitType(None, allow_none=False)
    intervention: Any = traitlets.TraitType(None, allow_none=False)
    site: Any = traitlets.TraitType(None, allow_none=False)
    source: Any = traitlets.TraitType(None, allow_none=False)

    def __init__(self, exploration: Exploration) -> None:
        self._exploration, self._language = exploration, spoken_language()
        self._seq = self._steps = 0
        self._following = False
        with self._followed():
            super().__init__(_sheet=style("explorer.css"), _frame=self._drawn())
            self._follow()
        self.on_msg(self._heard)

    def still(self) -> bytes:
        """Return the current picture as a PNG file, for a page without Python."""
        with speaking(self._language):
            return still(self._exploration)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Return the live view, and a still for readers without a kernel, such as GitHub."""
        made = super()._repr_mimebundle_(**options)
        if made is None:
            return None
        data, about = made if isinstance(made, tuple) else (made, {})
        return data | {"image/png": base64.b64encode(self.still()).decode("ascii")}, about

    # ---- from Python

    @traitlets.validate("trace", "intervention", "site", "source")
    def _set(self, proposal: Any) -> Any:
        """Validate a value set from Python: the model has to run with it first."""
        value, name = proposal["value"], proposal["trait"].name
        if self._following:
            return value
        exploration = self._exploration
        state = exploration.state()
        ways = {
            "trace": exploration.see,
            "intervention": exploration.change,
            "site": exploration.open,
            "source": exploration.ask,
        }
        try:
            with speaking(self._language):
                ways[name](value)
        except BaseException:
            exploration.go_back(state)
            raise
        return self._values()[name]

    @traitlets.observe("trace", "intervention", "site", "source")
    def _was_set(self, change: Any) -> None:
        if not self._following:
            self._show()

    # ---- from the browser

    def _heard(self, widget: Any, content: Any, buffers: Any) -> None:
        """Process all requests of a browser message, or none on error, and answer once."""
        said = content if isinstance(content, dict) else {}
        wishes, exploration = said.get("wishes"), self._exploration
        state, problem = exploration.state(), ""
        try:
            with speaking(self._language):
                if not isinstance(wishes, list) or len(wishes) > MOST_WISHES:
                    raise ValueError(say("The widget was asked for something that it cannot read."))
                for wish in wishes:
                    match wish:
                        case [str(name), value]:
                            self._steps = max(self._steps, _step(value))
                            heard(exploration, name, value)
                        case _:
                            raise ValueError(say("A wish is a name and a value."))
                self._values()
        except BaseException as error:
            exploration.go_back(state)
            problem = self._told(error)
        self._show(problem=problem, answers=said.get("ask"), view=said.get("view"))

    def _told(self, error: BaseException) -> str:
        """Return an error message in a sentence; unexpected errors are logged as well."""
        if isinstance(error, KeyboardInterrupt):
            return say("The run was stopped; the picture is of the run before.")
        if not is_fault(error):
            raise error
        if isinstance(error, ValueError | LookupError):
            return str(error.args[0] if error.args else error)
        LOG.warning("a change could not be run", exc_info=error)
        return say(
            "The model could not be run with this ({kind}: {error}); the picture is of the run "
            "before.",
            kind=type(error).__name__,
            error=(str(error).splitlines() or [""])[0][:200],
        )

    # ---- both

    def _show(self, **told: Any) -> None:
        """Send the current pictures, and update Python's attributes."""
        with self._followed():
            self._follow()
            self._frame = self._drawn(**told)

    def _drawn(self, **told: Any) -> bytes:
        self._seq += 1
        with speaking(self._language):
            return frame(self._exploration, self._seq, self._steps, **told)

    def _values(self) -> dict[str, Any]:
        now = self._exploration
        return {
            "trace": now.now,
            "intervention": now.changes,
            "site": now.shown.site,
            "source": now.asked,
        }

    def _follow(self) -> None:
        for name, value in self._values().items():
            if getattr(self, name) is not value:
                self.set_trait(name, value)

    @contextmanager
    def _followed(self) -> Iterator[None]:
        before, self._following = self._following, True
        try:
            yield
        finally:
            self._following = before


def _step(value: Any) -> int:
    """Return the number of a slider's step; rejected ones count, as the browser waits for them."""
    seq = value.get("seq") if isinstance(value, dict) else None
    return seq if isinstance(seq, int) and 0 <= seq < 2**53 else 0
