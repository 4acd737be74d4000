"""Frames go first: other runs pause for them, for a stated while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.app.engine.turns import priority
from transformer_viz.app.engine.turns.priority import Priority
from transformer_viz.app.engine.turns.run_slots import RunSlots


def elsewhere(run: Callable[..., Any], *words: Any) -> Any:
    """Return what a function gives in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run, *words).result()


def test_others_wait_until_the_last_frame_is_made_or_their_time_is_over() -> None:
    first, order = Priority(), list[str]()
    with ThreadPoolExecutor(1) as pool, first.urgent():
        pool.submit(lambda: order.append(str(first.give_way(10))))
        with first.urgent():
            pass
        time.sleep(0.05)
        order.append("made")
    assert order == ["made", "True"]
    with first.urgent():
        began = time.monotonic()
        assert not elsewhere(first.give_way, 0.05)
        assert time.monotonic() - began >= 0.05
        assert first.give_way(0.05), "what is urgent waits for itself"
    assert first.give_way(0)
    # A frame that fails leaves nobody waiting.
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

    with ThreadPoolExecutor(1) as pool, mine.urgent():
        pool.submit(search)
        time.sleep(0.05)
        order.append("frame")
    assert order == ["frame", "second pass"]


def test_nobody_waits_for_a_frame_that_is_late_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "SOON", 0.01)
    first = Priority()
    with first.urgent():
        time.sleep(0.05)
        assert elsewhere(first.give_way, 10)


def test_nobody_pauses_for_a_frame_that_waits_for_them() -> None:
    """A frame whose clean run was gone waited for a search, which paused for that frame."""
    first, asked, over = Priority(), threading.Event(), threading.Event()

    def frame() -> bool:
        with first.urgent():
            with first.waiting():
                asked.set()
                over.wait(5)
            return elsewhere(first.give_way, 0)

    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(frame)
        asked.wait(5)
        assert first.give_way(0) and not first._inside, "its place is free"
        over.set()
        assert not made.result(5), "it goes on, and others pause again"
    assert first.give_way(0)
    with first.waiting():  # of a run that is no frame: nothing
        assert first.give_way(0)


def test_a_long_run_leaves_its_place_to_a_short_one() -> None:
    """Where there is one place, a frame came after the last pass of a search."""
    gate, order, long = RunSlots(1, turn=100), list[str](), Task("search")

    def short() -> None:
        with gate.place(Task("hand")):
            order.append("short")

    with ThreadPoolExecutor(1) as pool, gate.place(long, long=True):
        pool.submit(short)
        while not gate.waiting:
            time.sleep(0.01)
        order.append("pass 1")
        long.step(1, 2)
        order.append("pass 2")
    assert order == ["pass 1", "short", "pass 2"]


# ---- shares -------------------------------------------------------------------------------------


def spend(first: Priority, visitor: str) -> None:
    """Have a visitor take more than its share of the processor."""
    with first.urgent(visitor):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass


@pytest.fixture
def stingy(monkeypatch: pytest.MonkeyPatch) -> Priority:
    """Shares of a hundredth of a second, which stay taken; the flood has had its share."""
    for name, value in (("SHARE", 0.01), ("LEAST", 0.01), ("TRIFLE", 0.001), ("LATELY", 1e6)):
        monkeypatch.setattr(priority, name, value)
    first = Priority()
    spend(first, "flood")
    return first


def test_nobody_pauses_for_a_visitor_over_its_share(stingy: Priority) -> None:
    with stingy.urgent("flood"):
        assert elsewhere(stingy.give_way, 0)
        with stingy.urgent("pupil"):
            pass
    with stingy.urgent("pupil"):
        assert not elsewhere(stingy.give_way, 0)


def test_a_visitor_over_its_share_begins_when_nobody_else_does(stingy: Priority) -> None:
    order: list[str] = []

    def frame(who: str) -> None:
        with stingy.urgent(who):
            order.append(who)

    with ThreadPoolExecutor(2) as pool:
        with stingy.urgent("pupil"):
            waits = pool.submit(frame, "flood")
            pool.submit(frame, "other").result(5)
            assert not waits.done()
        waits.result(5)
    assert order == ["other", "flood"]


def test_its_frame_pauses_for_others_between_two_pictures(stingy: Priority) -> None:
    begun, end = threading.Event(), threading.Event()

    def pupil() -> None:
        with stingy.urgent("pupil"):
            begun.set()
            end.wait(5)

    with stingy.urgent("flood"), ThreadPoolExecutor(1) as pool:
        made = pool.submit(pupil)
        begun.wait(5)
        assert not stingy.give_way(0.01)
        end.set()
        assert stingy.give_way(5)
        made.result(5)


def test_a_share_grows_with_time(stingy: Priority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priority, "LATELY", 1.0)
    now = [0.0]
    first = Priority(clock=lambda: now[0])
    spend(first, "flood")
    for seconds, pauses in ((0.0, False), (10 * priority.LATELY, True)):
        now[0] = seconds
        with first.urgent("flood"):
            assert elsewhere(first.give_way, 0) is not pauses
    assert len(first._taken) == 1


def test_a_waiting_frame_makes_room_for_a_newer_one_of_its_visitor() -> None:
    first = Priority()
    monopoly = [first.urgent() for _ in range(priority.PLACES)]
    for one in monopoly:
        elsewhere(one.__enter__)

    def frame(newest: bool) -> str:
        try:
            with first.urgent("hand", newest=newest):
                return "made"
        except Abandoned:
            return "abandoned"

    with ThreadPoolExecutor(3) as pool:
        tile = pool.submit(frame, False)
        older = pool.submit(frame, True)
        while len(first._waiting) < 2:
            time.sleep(0.01)
        newer = pool.submit(frame, True)
        assert older.result(5) == "abandoned"
        assert not tile.done() and not newer.done(), "there are only so many places"
        for one in monopoly:
            one.__exit__(None, None, None)
        assert (tile.result(5), newer.result(5)) == ("made", "made")
