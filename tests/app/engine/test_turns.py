"""Turns: visitors share the passes of searches, a long run holds nobody up, and a server ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.browser import ROOT, free_port
from tests.support.waiting import until
from transformer_viz.app.engine.engine import Engine, Question
from transformer_viz.app.engine.task import Task
from transformer_viz.app.engine.turns import shared_searches
from transformer_viz.app.engine.turns.run_slots import RunSlots
from transformer_viz.core.interventions import Intervention, ScalePositions
from transformer_viz.inference.generation import translate

LONG = 20  # seconds after which a test that hangs gives up
BEGINS, ENDS = 180, 60  # seconds in which a server begins and ends; on a quiet machine one
ASKED = Question("tiny", "The cat sat on the mat.", beam=2)


def order_of(*runs: tuple[str, str, int]) -> str:
    """Return the order of the steps of runs (name, visitor, steps) whose turns are one step.

    The first step of the first run waits until the others stand in the line.
    """
    gate, order, threads, go = RunSlots(2, turn=0), list[str](), [], threading.Event()

    def run(name: str, visitor: str, steps: int) -> None:
        task = Task(visitor)
        with gate.place(task, long=True):
            for step in range(steps):
                order.append(name)
                if name == runs[0][0] and not step:
                    go.wait(LONG)
                task.step(step, steps)

    for number, words in enumerate(runs):
        threads.append(threading.Thread(target=run, args=words))
        threads[-1].start()
        until(lambda number=number: order != [] and gate.waiting == number)
    go.set()
    for thread in threads:
        thread.join(LONG)
    assert gate.free == 2 and gate.free_long == 1
    return "".join(order)


def test_runs_of_visitors_take_turns() -> None:
    long, two, one = ("a", "first", 40), ("b", "second", 2), ("c", "third", 1)
    assert order_of(long, two, one) == "abcab" + "a" * 38
    # The second run of a visitor waits for everybody's first.
    assert order_of(("a", "first", 3), ("A", "first", 2), ("b", "second", 4)) == "abababAbA"


class Counting(Task):
    """A task that notes the steps of all, and may keep its run waiting from a step on."""

    def __init__(self, order: list[str], name: str, at: int = 0) -> None:
        super().__init__()
        self.order, self.name, self.at, self.may = order, name, at, threading.Event()
        self.may.set()

    def step(self, done: int, of: int) -> None:
        self.order.append(self.name)
        assert done < self.at or self.may.wait(LONG)
        super().step(done, of)


@pytest.fixture
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


@pytest.mark.parametrize("cells", [4096, 1], ids=["in one pass", "by turns"])
def test_a_long_search_does_not_hold_a_short_one(engine, monkeypatch, cells) -> None:
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
        assert found[name] == translate(model, text, beam=2)[0].text, name


def test_a_search_that_cannot_share_passes_gives_the_same(engine: Engine) -> None:
    edits = Intervention((ScalePositions(value=0.5),))
    alone = translate(engine.model("tiny"), ASKED.text, beam=2, intervention=edits)[0].text
    assert engine.free(ASKED, edits) == alone and not engine.shared._queues


def test_a_long_search_tells_what_is_quicker(engine, monkeypatch) -> None:
    monkeypatch.setattr(shared_searches, "LONG", 1)
    engine.model("tiny")
    task = Counting([], "a", at=2)
    task.may.clear()
    thread = threading.Thread(target=engine.free, args=(ASKED, Intervention(), task))
    thread.start()
    until(lambda: "quicker" in task.words)
    assert task.words.startswith("A long search; 0 others")
    task.may.set()
    thread.join(LONG)


@pytest.mark.app
@pytest.mark.process
@pytest.mark.parametrize(
    "how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.soak)]
)
def test_a_server_ends_amid_a_shared_search(shelf, how, tmp_path) -> None:
    words = [sys.executable, "-m", "tests.support.stopped_server", str(shelf / "tiny")]
    said = tmp_path / "said"
    with said.open("wb") as errors:
        server = subprocess.Popen(
            [*words, str(free_port())], cwd=ROOT, stdout=subprocess.PIPE, stderr=errors,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        try:
            begun, heard = time.monotonic(), b""
            while b"sharing\nsharing\n" not in heard or b"URL" not in heard:
                alive = time.monotonic() - begun < BEGINS and server.poll() is None
                assert alive, said.read_text()
                if select.select([server.stdout], [], [], 1)[0]:
                    heard += os.read(server.stdout.fileno(), 65536)
            server.send_signal(how)
            server.communicate(timeout=ENDS)
        finally:
            server.kill()
            server.communicate()
    told = said.read_text()
    assert "Traceback" not in told and "Error" not in told, told
