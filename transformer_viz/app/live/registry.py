"""Access to live frames: each session has an unguessable token for as long as it lasts.

The record of a session is small: traces stay in the engine's cache, which is bounded.
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

PATH = "/live"  # address of frames, below the path of the app
TILE = "/tile"  # address of tiles of a long map, after the token
WORDS = "/words"  # of the labels along its sides
FAR = "/far"  # of its strongest links over long distances
UNGUESSABLE = 32  # random bytes of a token


@dataclass(frozen=True)
class ViewState:
    """View of a session: enough to build the scene again.

    Attributes:
        parts: Functions that draw the parts of a frame from a scene; None for those of Explore.
        long: True for a text for which there are only tiles.
        before: For a long text, the clean run that was drawn, while the engine keeps it.
        now: For a long text, the changed run that was drawn, likewise.
        awaited: True if ``now`` is still the run before the changes.
    """

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
        """Run without changes of a long text, if it still exists."""
        return None if self.before is None else self.before()

    @property
    def now_run(self) -> Trace | None:
        """Run of a long text that was drawn last, if it still exists."""
        return None if self.now is None else self.now()


@dataclass(eq=False)
class LiveSession:
    """Live state of one session.

    Attributes:
        view: Its current view.
        task: Task of its current frame.
        ahead: Map of a long text shown before its run.
        following: Task of that run.
    """

    view: ViewState
    token: str = field(default_factory=lambda: secrets.token_urlsafe(UNGUESSABLE))
    task: Task = field(default_factory=Task)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ahead: Ahead | None = None
    following: Task | None = None

    def begin(self) -> Task:
        """Return the task of a new frame; an older one is abandoned."""
        with self.lock:
            self.task.abandon()
            self.task = Task(self.token)  # its runs take turns with those of others
            return self.task


class Exchange:
    """Live sessions of this server by token; an entry vanishes with its session.

    Attributes:
        is_open: True if the server answers requests for frames.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._lines: WeakValueDictionary[str, LiveSession] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: LiveSession) -> None:
        """Register a live session under its token."""
        self._lines[line.token] = line

    def line(self, token: str) -> LiveSession:
        """Return the live session of a token.

        Raises:
            KeyError: There is none, or its session has ended.
        """
        return self._lines[token]


EXCHANGE = Exchange()
