"""A class of four before two workers, one of which is killed: nobody loses anything."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from benchmarks.pupil import PATIENCE, Pupil
from tests.app.balancer.test_workers import got, until
from tests.soak.cut import link_of, processes, worker_of
from tests.support.browser import running_app
from transformer_viz import settings

pytestmark = pytest.mark.process
SENTENCES = ("The cat sat.", "The dog sat.", "The cat.", "The dog.")
PLACE = {"block": "cross", "layer": "1", "head": "1"}


def test_a_class_goes_on_when_a_worker_is_killed(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first two pupils have only opened their link, the others have moved the slider."""
    monkeypatch.setenv(settings.MODEL.variable, str(shelf / "tiny"))
    with running_app(workers=2) as url:
        until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
        pupils = [Pupil(url) for _ in SENTENCES]
        for number, pupil in enumerate(pupils):
            pupil.open(PLACE | {"text": SENTENCES[number]})
            if number > 1:
                _moves(pupil, f"{number}.0")
        assert [worker_of(pupil) for pupil in pupils] == ["0", "1", "0", "1"]
        shown = [_screen(pupil) for pupil in pupils]
        os.kill(processes(url)["0"], signal.SIGKILL)
        cut, stay = pupils[::2], pupils[1::2]
        for pupil in cut:
            with pytest.raises(ConnectionClosed):
                while pupil.socket.recv(timeout=PATIENCE):
                    pass
            pupil.again()
            assert worker_of(pupil) == "1"
        assert cut[0].seen.session != "" and not cut[0].seen.fragments_last  # it asked for nothing
        for pupil, before in zip(pupils, shown, strict=True):
            assert np.array_equal(_screen(pupil), before)
        for number, pupil in enumerate(pupils):
            _moves(pupil, f"{number}.5")
            assert link_of(pupil) == (SENTENCES[number], number + 0.5)
            assert pupil.seen.alerts == []
            assert np.array_equal(_screen(pupil), _fresh(url, pupil))
            assert not np.array_equal(_screen(pupil), shown[number])
            pupil.end()
        assert len(stay) == 2


def _moves(pupil: Pupil, value: str) -> None:
    pupil.tell(value, int(pupil.slider["seq"]) + 1)


def _screen(pupil: Pupil) -> np.ndarray:
    weights: np.ndarray = pupil.seen.parts["head"][1]["weights"]
    return weights


def _fresh(url: str, pupil: Pupil) -> np.ndarray:
    """What somebody sees who opens the link of a pupil."""
    other = Pupil(url)
    other.query = pupil.query
    other._ask()
    found = _screen(other)
    other.end()
    return found
