"""The app for models that hear: the maps over time, one's own sound, and what cannot be heard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.preprocessing.audio import example_sound
from transformer_viz.preprocessing.wav import wav_bytes

from ...support.map_pages import MAP_PAGES
from ...support.page_content import chips, go, html, part, told, weights
from ...support.speech import speech_folder

pytestmark = pytest.mark.app
NAMES = ("whisper", "wav2vec2")
HOT = Intervention((Temperature(value=4.0),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models that hear, as the library writes them."""
    made = tmp_path_factory.mktemp("speech")
    for name in NAMES:
        speech_folder(name, made / name)
    return made


@pytest.fixture
def hear(visit: Callable[..., AppTest], folder: Path, monkeypatch: pytest.MonkeyPatch):
    def opened(name: str, page: str = "", **link: str) -> AppTest:
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder / name))
        return visit(page, model=name, **link)

    return opened


@pytest.mark.parametrize("page", MAP_PAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_page_stands(hear, name: str, page: str) -> None:
    app = go(hear(name), page)
    assert not app.exception and not app.error and not app.warning, told(app)


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
def test_the_cross_map_stands_first_and_is_that_of_a_separate_run(hear, folder, edits) -> None:
    app = hear("whisper", edits=edits.to_json(), layer="1", head="1", beam="1")
    assert not app.exception and not app.error and not app.warning, told(app)
    assert app.session_state["block"] == "cross"
    model = tv.load(folder / "whisper")
    clean = tv.trace(model, example_sound(16000), check=False)
    run = clean
    if edits:
        held = {"target": clean.target.ids, "produced": clean.produced.ids}
        run = tv.trace(model, example_sound(16000), intervention=edits, check=False, **held)
    shown = weights(app)
    assert shown.shape == (len(clean.target), 50)
    assert np.abs(shown - run.attention("cross", layer=1)[1]).max() <= 1e-6
    assert "0.08 s" in str(part(app, "head"))
