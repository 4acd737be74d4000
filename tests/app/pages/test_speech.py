"""The app for models that hear: the maps over time, one's own sound, and what cannot be heard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.app.engine.model_kind import of_config
from transformer_viz.app.pages.labs import LABS
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.preprocessing.audio import example_sound
from transformer_viz.preprocessing.token_names import spelled
from transformer_viz.preprocessing.wav import wav_bytes

from ...support.map_pages import MAP_PAGES
from ...support.page_content import address, chips, go, html, part, told, weights
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


def test_the_files_alone_do_not_tell_what_it_takes(folder: Path) -> None:
    for name in NAMES:
        assert of_config(json.loads((folder / name / "config.json").read_text()), True) is None


def test_the_letters_of_a_sound_make_its_text(hear, folder) -> None:
    app = hear("wav2vec2")
    model = tv.load(folder / "wav2vec2")
    ids = tv.trace(model, example_sound(16000), check=False).produced.ids
    tokenizer = model.tokenizer
    library = transformers.AutoTokenizer.from_pretrained(folder / "wav2vec2")
    for given in (ids, (4, 6, 6, 0, 6, 7, 4, 4, 8, 1, 8, 0)):
        text = spelled(tokenizer, given, 0)
        assert text == re.sub("<.*?>", "", library.decode(given)).strip()
        assert text
    assert f'data-what="lead">{spelled(tokenizer, ids, 0)}<' in html(app)


def own(app: AppTest, content: bytes) -> AppTest:
    app.file_uploader(key="own-file-audio").set_value(("me.wav", content, "audio/wav"))
    return app.run()


def test_a_sound_of_ones_own_is_heard_and_not_in_the_link(hear, folder) -> None:
    app = hear("wav2vec2", layer="1", head="1")
    link, example = address(app), weights(app)
    assert "Heard are three notes made by code" in told(app)
    voice = np.random.default_rng(2).normal(0, 0.1, 12_000)
    app = own(app, wav_bytes(voice, 8000))
    assert not app.exception and not app.error and "Heard is your own sound" in told(app)
    run = tv.trace(tv.load(folder / "wav2vec2"), wav_bytes(voice, 8000), check=False)
    assert np.abs(weights(app) - run.attention("encoder", layer=1)[1]).max() <= 1e-6
    assert len(weights(app)) == 1 + (24_000 - 320) // 640
    assert address(app) == link
    go(app, "norms")
    assert "Heard is your own sound" in told(app) and not app.exception
    app.button(key="own-back").click().run()
    assert np.array_equal(weights(go(app, "")), example)


def test_a_recording_is_heard_too(hear, folder) -> None:
    app = hear("wav2vec2")
    content = wav_bytes(example_sound(16000)[:9000], 16000)
    app.audio_input(key="own-file-recording").set_value(("audio.wav", content, "audio/wav")).run()
    assert not app.exception and not app.error
    assert len(weights(app)) == 1 + (9000 - 320) // 640


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no sound", "is no WAV file"),
        (wav_bytes(example_sound(16000), 16000)[:999], "was cut off"),
        (wav_bytes(np.zeros(40_000), 16000), "lasts 2.5 s and this model hears at most 2 s"),
    ],
)
def test_a_file_that_is_no_sound_is_told(hear, content: bytes, message: str) -> None:
    app = own(hear("whisper"), content)
    assert not app.exception and len(app.error) == 1
    assert message in app.error[0].value.replace("\\", "")
    app.button(key="own-back").click().run()
    assert not app.error and "0.08 s" in str(part(app, "head"))


def test_words_of_ones_own_are_held(hear, folder) -> None:
    app = hear("whisper", target="the cat sat", beam="1")
    assert not app.exception and not app.error, told(app)
    run = tv.trace(tv.load(folder / "whisper"), example_sound(16000), "the cat sat", check=False)
    assert np.abs(weights(app) - run.attention("cross", layer=0)[0]).max() <= 1e-6
    assert [chip["text"] for chip in chips(app)[0]["chips"]] == list(run.target.labels)


def test_under_an_edit_it_also_writes_freely(hear, folder) -> None:
    app = hear("whisper", edits=HOT.to_json(), beam="2")
    model = tv.load(folder / "whisper")
    for edits, name in ((Intervention(), "before"), (HOT, "after")):
        best = tv.translate(model, example_sound(16000), beam=2, intervention=edits)[0]
        shown = re.search(rf'data-what="{name}">(.*?)</span></span>', html(app), re.S)
        assert shown is not None
        assert re.sub("<.*?>", "", shown[1]) == best.text


@pytest.mark.parametrize("page", ["step-inside", "play", "labs", "checkpoint", "lessons"])
@pytest.mark.parametrize("name", NAMES)
def test_the_other_pages_stand_too(hear, name: str, page: str) -> None:
    app = hear(name, page, layer="1")
    assert not app.exception and not app.error and not app.warning, told(app)
    if page == "play":
        assert ("nothing to play" in told(app)) == (name == "wav2vec2")


@pytest.mark.parametrize("name", NAMES)
def test_every_lab_is_served_or_says_why_not(hear, name: str) -> None:
    app = hear(name, "labs", lab=LABS[0].name, tried="guess=show")
    for lab in LABS[:-1]:  # the last one asks models of its own
        app.session_state["lab"], app.session_state["tried"] = lab.name, "guess=show"
        app.run()
        assert not app.exception and not app.error, lab.name
        assert len(app.info) == 1 or 'data-what="verdict"' in html(app), lab.name
