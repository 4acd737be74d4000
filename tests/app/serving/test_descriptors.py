"""A server asks for room for as many pages as it may have open."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from transformer_viz.app.live import server
from transformer_viz.app.serving import descriptors

resource = pytest.importorskip("resource", reason="Windows has no such limit")
LITTLE = 300


@pytest.fixture
def little() -> Iterator[int]:
    """As few as many systems begin a program with; the hard limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LITTLE, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def soft() -> int:
    return int(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def test_it_takes_what_the_system_grants(little: int) -> None:
    most = max(descriptors.WANTED)
    expected = most if little == resource.RLIM_INFINITY else min(most, little)
    assert descriptors.make_room() == expected == soft() > LITTLE
    assert descriptors.make_room() == expected  # a second time changes nothing


def test_a_system_that_grants_less_gets_asked_for_less(
    little: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(kind: int, wanted: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert descriptors.make_room() == soft() == LITTLE


def test_the_server_asks_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class App:
        def run(self, config: dict[str, object]) -> None:
            asked.append("run")

    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(server, "application", App)
    monkeypatch.setattr(descriptors, "make_room", lambda: asked.append("room"))
    server.main([], standalone_mode=False)
    assert asked == ["room", "run"]
