"""A nursery for these tests, guarded as the app's own, and one whose children check nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from transformer_viz.checkpoints.common.model import Model
from transformer_viz.confinement.processes import Nursery
from transformer_viz.opening import open_apart, places

from .unguarded import NAME, PREPARE

Open = Callable[..., Model]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """Tells which folders of processes lie there; none may at the end."""
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(places, "folder", lambda: room)
    yield lambda: sorted(path.name for path in room.iterdir())


@pytest.fixture
def opened(left: Callable[[], list[str]]) -> Open:
    """Opens as the app does."""
    return open_apart


@pytest.fixture(scope="session")
def unguarded_nursery() -> Iterator[Nursery]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        made = Nursery(PREPARE, f"{NAME}:nothing", places.REHEARSAL, places.TOKENIZERS)
        made.warm()
        yield made
    made._leave()


@pytest.fixture
def unguarded(
    unguarded_nursery: Nursery, left: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> Open:
    """Opens in processes that check nothing, as if each check had a hole."""
    monkeypatch.setattr(places, "NURSERY", unguarded_nursery)
    return open_apart
