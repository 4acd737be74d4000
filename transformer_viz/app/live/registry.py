"""Who may ask for live frames: each visit under an unguessable token, for as long as it lasts.

What is noted of a visit is small: traces stay in the engine's cache, which is bounded.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakValueDictionary

from ..engine.task import Task

if TYPE_CHECKING:
    from ...core.editing.edit_controls import Place
    from ...core.interventions import Intervention
    from ...core.trace import Trace
    from ..engine.engine import Engine
    from ..engine.model_kind import Kind
    from ..engine.query import Question
    from ..session.view_options import Look
    from .ahead import Ahead

PATH = "/live"  # where frames are asked for, below the path at which the app is served
TILE = "/tile"  # and tiles of a long map, behind the token
WORDS = "/words"  # the words along its sides
FAR = "/far"  # and its strongest links over far distances
UNGUESSABLE = 32  # random bytes of a token


@dataclass(frozen=True)
class ViewState:
    """What a visitor looks at: enough to make the scene again. ``parts`` are drawn of it, each
    from a scene; None: those of Explore. ``long``: of a text of which there are only tiles; of it
    also the runs that were drawn, ``before`` and ``now``, as long as the engine keeps them, and
    whether the latter is ``awaited``: still the one before the changes."""

    engine: Engine
    question: Question
    kind: Kind
    place: Place
    changes: Intervention
    look: Look
    parts: Mapping[str, Callable[[Any], bytes]] | None = None
    long: bool = False
    before: ReferenceType[Trace] | None = None
    now: ReferenceType[Trace] | None = None
    awaited: bool = False

    @property
    def before_run(self) -> Trace | None:
        """The run without changes of a long text, if it is still there."""
        return None if self.before is None else self.before()

    @property
    def now_run(self) -> Trace | None:
        """The run of a long text that was drawn last, if it is still there."""
        return None if self.now is None else self.now()


@dataclass(eq=False)
class LiveSession:
    """One visit: what it looks at, the frame that is being made for it, the map of a long text that
    is shown ``ahead`` of its run, and the task ``following`` of that run."""

    view: ViewState
    token: str = field(default_factory=lambda: secrets.token_urlsafe(UNGUESSABLE))
    task: Task = field(default_factory=Task)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ahead: Ahead | None = None
    following: Task | None = None

    def begin(self) -> Task:
        """The task of a new frame; an older one that still waits for its turn is given up."""
        with self.lock:
            self.task.abandon()
            self.task = Task(self.token)  # its runs take turns with those of others
            return self.task


class Exchange:
    """The lines of all visits of this server; a line is gone when its visit lets go of it.

    ``is_open`` tells whether the server answers at all.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._lines: WeakValueDictionary[str, LiveSession] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: LiveSession) -> None:
        """Let a line be found by its token."""
        self._lines[line.token] = line

    def line(self, token: str) -> LiveSession:
        """The line of a token.

        Raises:
            KeyError: there is none, or its visit has ended.
        """
        return self._lines[token]


EXCHANGE = Exchange()
