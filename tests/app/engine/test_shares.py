"""Shares of one visit in loading and computing; a sentence tells what is over it."""

from __future__ import annotations

import pytest

from transformer_viz import settings
from transformer_viz.app.engine.task import Task
from transformer_viz.app.engine.turns import run_slots
from transformer_viz.app.engine.turns.model_shares import WHILE, ModelShares
from transformer_viz.app.engine.turns.run_slots import RunSlots


class Clock:
    """Seconds that only a test moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    monotonic = __call__


def test_the_eleventh_model_of_one_file_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(settings.MODELS_A_VISIT.variable, raising=False)
    clock = Clock()
    shares = ModelShares(clock)
    names = [f'path:big.pt//{{"dropout":0.{n}}}' for n in range(11)]
    for name in names[:10]:
        clock.now += 1
        shares.require("me", name)
    for name in names[:10]:
        shares.require("me", name)  # those that are there can be looked at again
    with pytest.raises(ValueError, match=r"10 models .* wait 592 s for another one\.$"):
        shares.require("me", names[10])
    shares.require("another visit", names[10])
    clock.now = WHILE + 1.5
    shares.require("me", names[10])
    # Bundled models and work of nobody are not counted; other options make another model.
    shares = ModelShares(clock)
    for n in range(30):
        shares.require("me", f"en-de-{n}")
        shares.require(Task(), f"path:{n}")
    for n in range(10):
        shares.require("me", f'en-de//{{"heads":{n}}}')
    with pytest.raises(ValueError, match="10 models"):
        shares.require("me", 'en-de//{"heads":11}')
    monkeypatch.setenv(settings.MODELS_A_VISIT.variable, "0")
    shares = ModelShares(clock)
    for n in range(100):
        shares.require("me", f"path:{n}")


def test_a_run_ends_after_its_seconds_and_leaves_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(run_slots, "time", clock)
    gate, task = RunSlots(2, most=30), Task("me")
    with (
        pytest.raises(ValueError, match=r"computed for 30 s, which is the most here.*\.$"),
        gate.place(task, long=True),
    ):
        for second in range(100):
            clock.now = float(second)
            task.step(second, 100)
    assert clock.now == 31 and gate.free == 2 and gate.free_long == 1
    with gate.place(task := Task(), long=True, endless=True):  # it works for many
        clock.now = 1e6
        task.step(1, 2)
    # Waiting is not computing.
    clock.now, task = 0.0, Task("me")
    with gate.place(task, long=True):
        (ticket,) = gate._unfinished
        clock.now = 20.0
        task.step(1, 3)
        with gate._change:
            gate._leave(ticket)  # another one's turn, which takes an hour
        clock.now = 3_620.0
        gate._wait(ticket, task)
        clock.now = 3_629.0
        task.step(2, 3)
        assert ticket.used == 20
