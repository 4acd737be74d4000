"""Whose run goes on: visitors take turns, and a long run holds nobody up. Steps are counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from transformer_viz.app.engine.engine import Engine, Question
from transformer_viz.app.engine.task import Task
from transformer_viz.app.engine.turns import shared_searches
from transformer_viz.app.engine.turns.run_slots import RunSlots
from transformer_viz.core.interventions import Intervention, ScalePositions
from transformer_viz.inference.generation import translate

LONG = 20  # seconds after which a test that hangs gives up


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)


class Runs:
    """Runs of so many steps at a gate whose turns are one step, and the order of their steps."""

    def __init__(self) -> None:
        self.gate, self.order = RunSlots(2, turn=0), list[str]()
        self.threads: list[threading.Thread] = []

    def begin(self, name: str, visitor: str, steps: int) -> None:
        """The first step of the first run waits until the others stand in the line."""
        number = len(self.threads)

        def run() -> None:
            task = Task(visitor)
            with self.gate.place(task, long=True):
                for step in range(steps):
                    self.order.append(name)
                    if not number and not step:
                        self.go.wait(LONG)
                    task.step(step, steps)

        if not number:
            self.go = threading.Event()
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        until(lambda: self.order != [] and self.gate.waiting == number)

    def end(self) -> str:
        self.go.set()
        for thread in self.threads:
            thread.join(LONG)
        assert self.gate.free == 2 and self.gate.free_long == 1
        return "".join(self.order)


def test_a_long_run_does_not_starve_a_short_one() -> None:
    runs = Runs()
    runs.begin("a", "first", 40)
    runs.begin("b", "second", 2)
    runs.begin("c", "third", 1)
    assert runs.end() == "abcab" + "a" * 38


def test_the_second_run_of_a_visitor_waits_for_everybodys_first() -> None:
    runs = Runs()
    runs.begin("a", "first", 3)
    runs.begin("A", "first", 2)
    runs.begin("b", "second", 4)
    assert runs.end() == "abababAbA"


class Counting(Task):
    """A task that counts the steps of all, and may keep its run waiting at the first."""

    def __init__(self, order: list[str], name: str, visitor: str | None = None) -> None:
        super().__init__(visitor)
        self.order, self.name, self.may = order, name, threading.Event()
        self.may.set()

    def step(self, done: int, of: int) -> None:
        self.order.append(self.name)
        assert self.may.wait(LONG)
        super().step(done, of)


@pytest.fixture
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


@pytest.mark.parametrize("cells", [4096, 1], ids=["in one pass", "by turns"])
def test_a_long_search_does_not_hold_a_short_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, cells: int
) -> None:
    """They share passes, or where these would be too large, take turns of as many passes."""
    monkeypatch.setattr(shared_searches, "CELLS", cells)
    monkeypatch.setattr(shared_searches, "TURN", 2)
    order: list[str] = []
    texts = {"l": "The cat sat on the mat. " * 6, "s": "The dog."}
    found: dict[str, str] = {}
    tasks = {name: Counting(order, name) for name in texts}

    def ask(name: str) -> None:
        asked = Question("tiny", texts[name], beam=2)
        found[name] = engine.free(asked, Intervention(), tasks[name])

    model = engine.model("tiny")
    tasks["l"].may.clear()
    threads = [threading.Thread(target=ask, args=(name,)) for name in texts]
    threads[0].start()
    until(lambda: order == ["l"])
    threads[1].start()
    until(lambda: tasks["s"].words != "")
    assert tasks["s"].words == "Waiting for another run to end ..."
    tasks["l"].may.set()
    for thread in threads:
        thread.join(LONG)
    short, last = order.count("s"), max(n for n, name in enumerate(order) if name == "s")
    assert order.count("l") > 2 * short  # it is long
    assert order[: last + 1].count("l") <= short + 3
    for name, text in texts.items():
        assert found[name] == translate(model, text, beam=2)[0].text


def test_what_cannot_share_passes_gives_the_same(engine: Engine) -> None:
    edits = Intervention((ScalePositions(value=0.5),))
    asked = Question("tiny", "The cat sat on the mat.", beam=2)
    alone = translate(engine.model("tiny"), asked.text, beam=2, intervention=edits)[0].text
    assert engine.free(asked, edits) == alone and not engine.shared._queues


def test_a_long_search_says_what_is_quicker(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_searches, "LONG", 1)
    order: list[str] = []
    asked = Question("tiny", "The cat sat on the mat.", beam=2)
    engine.model("tiny")

    class Late(Counting):
        def step(self, done: int, of: int) -> None:
            if done == 2:
                self.order.append("here")
                assert self.may.wait(LONG)
            Task.step(self, done, of)

    task = Late(order, "a")
    task.may.clear()
    thread = threading.Thread(target=engine.free, args=(asked, Intervention(), task))
    thread.start()
    until(lambda: "quicker" in task.words)
    assert task.words.startswith("A long search; 0 others")
    task.may.set()
    thread.join(LONG)
