"""Searches of all users for one model, computed in shared passes.

New searches join at the next pass, finished ones leave, and those that do not fit into one pass
take turns. Torch is imported inside, when a search is made.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....core.interventions import Intervention
from ....i18n import say
from ...counts.server_counts import computing
from ..task import Abandoned, Task, waiting_for
from .priority import PRIORITY
from .run_slots import RunSlots

if TYPE_CHECKING:
    from ....checkpoints import Model
    from ....inference.batching.shared_passes import SharedSearch
    from ....inference.decoding.read_sources import ReadSources
    from ....inference.generation import Hypothesis

CELLS = 4096  # rows of a pass times longest keys; above this limit searches take turns
TURN = 16  # passes until searches that did not fit go on
LONG = 16 * CELLS  # final number of keys of all rows from which on a search is called long


@dataclass(eq=False)
class _Entry:
    """A search that a task waits for."""

    search: SharedSearch
    task: Task
    served: int  # the last turn in which it took part
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def ended(self) -> bool:
        """True if it is finished or abandoned."""
        if self.task.abandoned and not self.search.ended:
            self.search.error = Abandoned("Nobody waits for this work any more.")
        return self.search.ended


class SharedSearches:
    """Runner of users' searches, with one thread for each model that has any."""

    def __init__(self, gate: RunSlots) -> None:
        self._gate = gate
        self._queues: dict[Model, _Queue] = {}
        self._lock = threading.Lock()

    def search(
        self,
        model: Model,
        source: str | Sequence[int],
        beam: int,
        intervention: Intervention,
        task: Task,
    ) -> Hypothesis:
        """Return the best hypothesis of the model.

        Raises:
            ValueError: As :func:`generation.translate`.
            Abandoned: The task was abandoned.
        """
        from ....inference.batching.shared_passes import SharedSearch

        asked = SharedSearch(
            model, source, beam, intervention, task.step, best_only=True, known=self.known
        )
        entry = self._add(model, asked, task)
        with PRIORITY.waiting():
            task.until(entry.over.wait, lambda: self._words(entry))
        if asked.error is not None:
            raise asked.error
        assert asked.found is not None
        return asked.found[0]

    @cached_property
    def known(self) -> ReadSources:
        """Sources that the models have read before, for searches and captured runs alike."""
        from ....inference.decoding.read_sources import ReadSources

        return ReadSources()

    @property
    def waiting(self) -> int:
        """Number of searches that have not started."""
        with self._lock:
            return sum(not e.search.begun for queue in self._queues.values() for e in queue.entries)

    def _add(self, model: Model, search: SharedSearch, task: Task) -> _Entry:
        with self._lock:
            queue, new = self._queues.get(model), model not in self._queues
            if queue is None:
                queue = self._queues[model] = _Queue()
            entry = _Entry(search, task, queue.turn)
            queue.entries.append(entry)
        if new:
            threading.Thread(target=self._work, args=(model, queue), name="searches").start()
        return entry

    def _work(self, model: Model, queue: _Queue) -> None:
        """Take turns until no search is left."""
        task = Task()
        while True:
            with self._gate.place(task, long=True, endless=True):
                while chosen := self._chosen(queue):
                    with computing("searches"):
                        self._turn(queue, chosen, task)
            with self._lock:
                if not queue.entries:
                    del self._queues[model]
                    return

    def _chosen(self, queue: _Queue) -> list[_Entry]:
        """Return the searches of the next turn, as many as fit into one pass.

        Each user's first search comes before any second one, then the longest wait counts.
        """
        with self._lock:
            queue.settle()
            queue.turn += 1
            chosen = queue.first(CELLS)
            for entry in chosen:
                entry.served = queue.turn
            return chosen

    def _turn(self, queue: _Queue, chosen: Sequence[_Entry], task: Task) -> None:
        """Run some passes of these searches, until another one comes."""
        from ....inference.batching.shared_passes import SharedPasses

        searches = [entry.search for entry in chosen]
        try:
            for search in searches:
                if not search.begun:
                    search.begin()
                    _step(task)
            going = [search for search in searches if not search.ended]
            if not going:
                return
            passes = SharedPasses(going)
            cells = sum(search.beam for search in going) * max(s.row_keys for s in going)
            for _ in range(max(1, TURN * CELLS // max(CELLS, cells))):
                passes.step()
                self._settle(queue)
                _step(task)
                if not passes.searches or any(not e.search.begun for e in tuple(queue.entries)):
                    break
            passes.part()
        except BaseException as error:  # such as no memory; all of this pass get the error
            for search in searches:
                if not search.ended:
                    search.error = error

    def _settle(self, queue: _Queue) -> None:
        with self._lock:
            queue.settle()

    def _words(self, entry: _Entry) -> str:
        """Return the waiting message: the searches before it, or that it is a long one."""
        search = entry.search
        others = sum(other is not entry for queue in self._queued() for other in queue.entries)
        if not search.begun:
            return waiting_for(others) if others else ""
        if search.last_cells < LONG:
            return ""
        return say(
            "A long search; {others} others take turns with it. A beam of 1 or a shorter text is "
            "quicker.",
            others=others,
        )

    def _queued(self) -> list[_Queue]:
        with self._lock:
            return list(self._queues.values())


def _step(task: Task) -> None:
    """Give way between two passes, and end with the server.

    Raises:
        Abandoned: The server ends, which waits for this thread.
    """
    if not threading.main_thread().is_alive():
        raise Abandoned("The server ends.")
    task.step(0, 1)


class _Queue:
    """Searches of one model; guarded by the lock of all queues."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self.turn = 0

    def settle(self) -> None:
        """Remove ended searches and wake their waiters."""
        for entry in [entry for entry in self.entries if entry.ended]:
            self.entries.remove(entry)
            entry.over.set()

    def first(self, cells: int) -> list[_Entry]:
        """Return the next searches with at most ``cells`` keys over all rows, but at least one."""
        seen: dict[Any, int] = {}
        order: list[tuple[int, int, int]] = []
        for number, entry in enumerate(self.entries):
            rank = seen[entry.task.visitor] = seen.get(entry.task.visitor, -1) + 1
            order.append((rank, entry.served, number))
        chosen: list[_Entry] = []
        rows, keys = 0, 0
        for *_, number in sorted(order):
            search = self.entries[number].search
            rows, keys = rows + search.beam, max(keys, search.row_keys)
            if chosen and rows * keys > cells:
                break
            chosen.append(self.entries[number])
        return chosen
