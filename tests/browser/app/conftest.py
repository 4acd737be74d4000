"""An app that has a model of every kind beside those in the box."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.browser import running_app
from tests.support.long_story import write_storyteller
from tests.support.model_kinds import write_kinds
from tests.support.pictured import pictured_folder
from tests.support.speech import speech_folder


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, make_vocabulary: Callable[..., bytes]) -> Path:
    """A folder of tiny models: every kind, and those that hear, see and read whole books."""
    folder = write_kinds(tmp_path_factory.mktemp("models"), make_vocabulary)
    speech_folder("whisper", folder / "whisper")
    pictured_folder("llava", folder / "llava")
    write_storyteller(folder / "teller")
    return folder


@pytest.fixture(scope="session")
def url(models: Path) -> Iterator[str]:
    """The address of the running app, with these models beside those in the box."""
    with running_app(TRANSFORMER_VIZ_MODELS=str(models)) as address:
        yield address
