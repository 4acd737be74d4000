"""The line under a translation that the model itself found improbable."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.support.page_content import html, told
from transformer_viz.checkpoints.common.bundled import CONFIG

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
LINE = 'class="tv-unsure"'


@pytest.fixture
def limit(
    visit: Visit, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[object], None]:
    """Show a copy of the tiny model whose config names the certainty that a sentence needs."""

    def put(value: object) -> None:
        folder = shutil.copytree(shelf / "tiny", tmp_path / "tiny")
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8")) | {"sure_from": value}
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
        monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(tmp_path))

    return put


def _mean(shelf: Path) -> float:
    """Of the best translation's pieces, by `translate` alone."""
    steps = tv.translate(tv.load(shelf / "tiny"), "The cat sat.", beam=4)[0].steps
    return math.exp(sum(steps) / len(steps))


def test_what_is_less_probable_than_the_limit_is_said_to_be_unsure(
    visit: Visit, shelf: Path, limit: Callable[[object], None]
) -> None:
    mean = _mean(shelf)
    limit(mean + 1e-3)
    app = visit()
    assert not app.exception, told(app)
    assert LINE in html(app)
    assert f"a probability of {mean:.0%} (geometric mean)" in html(app)
    assert f"everyday sentences it is {mean + 1e-3:.0%} or more" in html(app)


def test_nothing_is_said_of_what_reaches_it(
    visit: Visit, shelf: Path, limit: Callable[[object], None]
) -> None:
    limit(_mean(shelf) - 1e-3)
    assert LINE not in html(visit())


@pytest.mark.parametrize("value", [None, "0.9", True, 1])
def test_nothing_is_said_without_a_measured_limit(
    visit: Visit, limit: Callable[[object], None], value: object
) -> None:
    limit(value)
    app = visit()
    assert not app.exception and not app.error, told(app)
    assert LINE not in html(app)


def test_nothing_is_said_of_words_that_the_visitor_wrote(
    visit: Visit, limit: Callable[[object], None]
) -> None:
    limit(1.0)
    assert LINE in html(visit())
    assert LINE not in html(visit(target="Der Hund."))
