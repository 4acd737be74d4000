"""A model that hears, in a real browser: a WAV file is given, and the maps run along its time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import transformer_viz as tv
from tests.support.browser import running_app
from tests.support.page_actions import address, after, go, query, still
from tests.support.speech import speech_folder
from transformer_viz.preprocessing.wav import wav_bytes

MAP = "charts.head-view"
LOOKS = re.compile(r"looks most at “(\d\.\d\d s)”")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Whisper, as the library writes it."""
    return speech_folder("whisper", tmp_path_factory.mktemp("speech") / "whisper")


@pytest.fixture(scope="module")
def speech_url(folder: Path) -> Iterator[str]:
    """The address of an app that shows it first."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
        with running_app() as url:
            yield url


def test_a_wav_file_is_heard_and_its_words_look_at_moments(
    page: Page, speech_url: str, folder: Path
) -> None:
    link = address(speech_url, model="whisper", beam="1", layer="1", head="0")
    go(page, link)
    expect(page.get_by_text(LOOKS)).to_be_visible()  # the model has been loaded
    assert still(page)["said"]["now"]
    expect(page.get_by_role("radio", name="Cross")).to_be_checked()
    expect(page.get_by_test_id("stAudio")).to_have_count(1)
    expect(page.get_by_test_id("stAudioInput")).to_be_visible()
    assert page.get_by_text(LOOKS).count() == 1
    voice = wav_bytes(np.random.default_rng(4).normal(0, 0.2, 30_000), 22_050)

    def give(page: Page) -> None:
        page.get_by_role("button", name="Your own sound").click()
        page.get_by_test_id("stFileUploader").locator("input").set_input_files(
            {"name": "me.wav", "mimeType": "audio/wav", "buffer": voice}
        )
        expect(page.get_by_text("Heard is your own sound")).to_be_visible()
        page.keyboard.press("Escape")

    after(page, give, MAP)
    run = tv.trace(tv.load(folder), voice, check=False)
    best = run.attention("cross", layer=1)[0][0].argmax()
    shown = LOOKS.search(page.get_by_text(LOOKS).inner_text())
    assert shown is not None and shown[1] == run.source.labels[best]
    assert "file" not in query(page)


def test_a_file_that_is_no_sound_is_told_in_a_sentence(page: Page, speech_url: str) -> None:
    go(page, address(speech_url, model="whisper", beam="1"))
    page.get_by_role("button", name="Your own sound").click()
    page.get_by_test_id("stFileUploader").locator("input").set_input_files(
        {"name": "me.wav", "mimeType": "audio/wav", "buffer": b"ID3 no sound at all"}
    )
    expect(page.get_by_text("begins as an MP3 file")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="me.wav").click()
    expect(page.get_by_text(LOOKS)).to_be_visible()
