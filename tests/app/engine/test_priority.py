"""Frames go first: others pause for them, for a stated while."""

from __future__ import annotations

import threading
import time

import pytest

from transformer_viz.app.engine.task import Task
from transformer_viz.app.engine.turns import priority
from transformer_viz.app.engine.turns.priority import Priority
from transformer_viz.app.engine.turns.run_slots import RunSlots


def test_others_wait_until_the_last_frame_is_made() -> None:
    first, order = Priority(), list[str]()
    with first.urgent():
        other = threading.Thread(target=lambda: order.append(str(first.give_way(10))))
        other.start()
        with first.urgent():
            pass
        time.sleep(0.05)
        order.append("made")
    other.join()
    assert order == ["made", "True"]


def test_nobody_waits_longer_than_was_said() -> None:
    first = Priority()
    with first.urgent():
        began = time.monotonic()
        assert not first.give_way(0.05)
        assert time.monotonic() - began >= 0.05
    assert first.give_way(0)


def test_a_frame_that_fails_leaves_nobody_waiting() -> None:
    first = Priority()
    with pytest.raises(ValueError, match="no such head"), first.urgent():
        raise ValueError("no such head")
    assert first.give_way(0)


def test_a_long_run_pauses_between_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, order = Priority(), list[str]()
    monkeypatch.setattr(priority, "PAUSE", 10)
    monkeypatch.setattr("transformer_viz.app.engine.turns.run_slots.PRIORITY", mine)
    gate, task = RunSlots(2), Task()

    def search() -> None:
        with gate.place(task, long=True):
            task.step(1, 2)
            order.append("second pass")

    with mine.urgent():
        thread = threading.Thread(target=search)
        thread.start()
        time.sleep(0.05)
        order.append("frame")
    thread.join()
    assert order == ["frame", "second pass"]


def test_nobody_waits_for_a_frame_that_is_late_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "SOON", 0.01)
    first = Priority()
    with first.urgent():
        time.sleep(0.05)
        assert first.give_way(10)
