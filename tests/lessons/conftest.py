"""Questions of stations as the app makes them, on the small shipped translator."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.query import Question
from transformer_viz.app.lessons.evidence import seen_of
from transformer_viz.lessons import STATIONS, Ask, Seen

MODEL = "en-de-small"
Asked = Callable[[str, str], tuple[Seen, Ask]]


@pytest.fixture(scope="session")
def engine() -> Engine:
    return Engine(MODEL)


@pytest.fixture(scope="session")
def asked(engine: Engine) -> Asked:
    """The runs and the question of a station, by its name, for a sentence."""
    stations = {station.name: station for station in STATIONS}
    engine.model(MODEL)
    kind = engine.kind(MODEL)
    assert kind is not None

    @cache
    def ask(name: str, text: str) -> tuple[Seen, Ask]:
        seen = seen_of(engine, Question(MODEL, text, beam=1), stations[name], kind)
        return seen, stations[name].ask(seen)

    return ask
