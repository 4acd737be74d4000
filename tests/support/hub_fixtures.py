"""A Hub of this machine, an empty cache, and small models to put on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.checkpoints.hugging_face import CASES, made, saved
from tests.checkpoints.test_hugging_face_beside import words_tokenizer
from tests.support.hub_server import Hub, serving
from transformer_viz.checkpoints.hub import transfer

Folder = Callable[[str], Path]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder of a tiny model with a tokenizer, as its library saves it: bert, gpt2, marian."""
    home = tmp_path_factory.mktemp("models")

    @cache
    def make(name: str) -> Path:
        case = CASES[name]
        place = saved(made(case.cls, case.config, **case.words), home / name)
        words_tokenizer().save_pretrained(place)
        return place

    return make


@contextmanager
def hub_at(place: Path, patch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve an empty Hub, which the client asks, with an empty cache below ``place``."""
    from huggingface_hub import constants

    here = Hub()
    with serving(here) as url:
        form = url + "/{repo_id}/resolve/{revision}/{filename}"
        words = {"ENDPOINT": url, "HUGGINGFACE_CO_URL_TEMPLATE": form, "HF_HUB_OFFLINE": False}
        words |= {"HF_HUB_CACHE": str(place / "cache"), "HF_TOKEN_PATH": str(place / "token")}
        for name, value in words.items():
            patch.setattr(constants, name, value)
        patch.delenv("HF_TOKEN", raising=False)
        patch.setattr(transfer, "WAIT", 0.0)
        yield here


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve an empty Hub for one test."""
    with hub_at(tmp_path, monkeypatch) as here:
        yield here
