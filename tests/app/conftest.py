"""The app without a browser, on a tiny model with ramp weights in a folder of its own."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests.support.model_kinds import write_kinds
from tests.support.paths import ROOT
from transformer_viz import reach, settings
from transformer_viz.checkpoints.common.bundled import CONFIG, VOCABULARY, WEIGHTS
from transformer_viz.inference import tracing
from transformer_viz.inference.proof.prove import Proof
from transformer_viz.model import Transformer
from transformer_viz.preprocessing.tokenizers import SentencePieceText

APP = ROOT / "app.py"
TIMEOUT = 60
PANELS = ("more", "target-panel", "search-panel")
#: By all that a proof depends on: weights, options and input.
PROOFS: dict[str, Proof] = {}


@pytest.fixture(scope="session", autouse=True)
def installed_components() -> Iterator[None]:
    """Streamlit asks every installed package for components once, not once for each AppTest.

    A server does so once, too, when it starts; on a hundred packages it takes half a second.
    """
    with pytest.MonkeyPatch.context() as patch:
        once = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_shares() -> Iterator[None]:
    """Nobody is held to a share, as where only this machine reaches the app: all tests are one
    visit to the same server."""
    with pytest.MonkeyPatch.context() as patch:
        for setting in settings.SHARES:
            patch.setenv(setting.variable, "0")
        patch.setenv(settings.REACH.variable, reach.OTHERS)  # whatever address Streamlit reads
        yield


@pytest.fixture(autouse=True)
def forget_reach() -> Iterator[None]:
    """Undo what a server begun in this process notes about who can reach it."""
    with pytest.MonkeyPatch.context() as patch:  # not the test's own, which it may undo early
        patch.setattr(reach, "option", None)
        patch.delenv(reach.PASSED_ON, raising=False)
        yield


@pytest.fixture(scope="session")
def shelf(
    tmp_path_factory: pytest.TempPathFactory,
    build_module: Callable[..., Transformer],
    tiny_vocabulary: bytes,
) -> Path:
    """A folder with one checkpoint, ``tiny``: three and two layers of two heads."""
    folder = tmp_path_factory.mktemp("shelf") / "tiny"
    folder.mkdir()
    words = len(SentencePieceText(tiny_vocabulary).pieces)
    module = build_module(source_vocab=words, target_vocab=words, max_positions=700)
    save_file(module.state_dict(), folder / WEIGHTS)
    config = {"layout": "transformer_viz", "title": "English to German"} | module.config.to_dict()
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    (folder / VOCABULARY).write_bytes(tiny_vocabulary)
    return folder.parent


@pytest.fixture
def proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prove a model once, however many copies, pages and witnesses open it."""
    prove = tracing.proved

    def proved(model: Any, read: Any, seen: Any = None, *rest: Any) -> Proof:
        about = hashlib.sha256(repr((model.module, model.config, read, rest)).encode())
        for name, x in model.module.state_dict().items():
            about.update(f"{name} {x.dtype}".encode() + x.double().numpy().tobytes())
        key = about.hexdigest()
        return PROOFS.get(key) or PROOFS.setdefault(key, prove(model, read, seen, *rest))

    monkeypatch.setattr(tracing, "proved", proved)


def new_visit(
    page: str = "", link: dict[str, str] | None = None, timeout: int = TIMEOUT
) -> AppTest:
    """Return a visit to a page that has not run yet, with the parameters of its link."""
    app = AppTest.from_file(str(APP), default_timeout=timeout)
    app._page_hash = calc_hash(page) if page else ""  # as st.Page names a page of its own
    for name, text in (link or {}).items():
        app.query_params[name] = text
    return app


def unfold(app: AppTest) -> AppTest:
    """Open the panels whose controls are drawn only while they are open."""
    for panel in PANELS:
        app.session_state[panel] = True
    return app


@pytest.fixture
def visit(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Opens a page of the app with a link and runs it once; words are the link's parameters."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(shelf / "tiny"))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(shelf))
    return lambda page="", **link: unfold(new_visit(page, {"text": "The cat sat."} | link)).run()


@pytest.fixture
def bundled(
    visit: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AppTest]:
    """Opens a page with a bundled model as the app's own; words are the link's parameters."""

    def open_app(page: str, model: str = "en-de", **link: str) -> AppTest:
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", model)
        app = visit(page, model=model, **link)
        assert not app.exception
        return app

    return open_app


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files that the page's download buttons offer, by their names."""
    found: dict[str, bytes] = {}

    def button(label: str, data: bytes, file_name: str, **more: object) -> None:
        found[file_name] = data

    monkeypatch.setattr("streamlit.download_button", button)
    return found


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory, make_vocabulary: Callable[..., bytes]) -> Path:
    """A folder with a tiny model of each kind; see `tests.support.model_kinds`."""
    return write_kinds(tmp_path_factory.mktemp("kinds"), make_vocabulary)


@pytest.fixture
def meet(shelf: Path, kinds: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    """Opens a page with one of those models in the link, beside the translation model."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(shelf / "tiny"))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", str(kinds))
    return lambda model, page="", **link: unfold(new_visit(page, {"model": model} | link)).run()
