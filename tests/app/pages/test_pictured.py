"""The app for models that read a picture beside their text: one map over both."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from transformer_viz.core.interventions import Intervention, Temperature
from transformer_viz.preprocessing.images import example_picture

from ...support.map_pages import MAP_PAGES
from ...support.page_content import address, chips, go, html, part, told, weights
from ...support.pictured import picture, pictured_folder

pytestmark = pytest.mark.app
NAMES = ("llava", "gemma3", "qwen2_vl", "paligemma")
TEXT = "what is in the picture ?"
HOT = Intervention((Temperature(value=4.0),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with four models that read both, as the library writes them."""
    made = tmp_path_factory.mktemp("pictured")
    for name in NAMES:
        pictured_folder(name, made / name)
    return made


@pytest.fixture
def look(visit: Callable[..., AppTest], folder: Path, monkeypatch: pytest.MonkeyPatch):
    def opened(name: str, page: str = "", **link: str) -> AppTest:
        monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder / name))
        return visit(page, model=name, text=link.pop("text", TEXT), **link)

    return opened


def own(app: AppTest, content: bytes) -> AppTest:
    app.file_uploader(key="own-file-image").set_value(("cat.png", content, "image/png"))
    return app.run()


def png() -> bytes:
    held = io.BytesIO()
    picture().save(held, "PNG")
    return held.getvalue()


@pytest.mark.parametrize("edits", [Intervention(), HOT], ids=["clean", "hot"])
@pytest.mark.parametrize("name", NAMES)
def test_one_map_over_words_and_patches(look, folder, name: str, edits: Intervention) -> None:
    app = look(name, picture="house", layer="1", head="1", edits=edits.to_json())
    assert not app.exception and not app.error and not app.warning, told(app)
    model = tv.load(folder / name)
    run = clean = tv.trace(model, TEXT, image=example_picture(), check=False)
    if edits:
        held = {} if clean.produced is None else {"produced": clean.produced.ids}
        run = tv.trace(
            model, TEXT, image=example_picture(), intervention=edits, check=False, **held
        )
    assert np.abs(weights(app) - run.attention(run.maps[0], layer=1)[1]).max() <= 1e-6
    rows, columns = run.patches.shape
    texts = [chip["text"] for chip in chips(app)[0]["chips"]]
    assert f"picture, {rows} × {columns} patches" in texts
    assert len(texts) == len(run.source) - run.patches.size + 1
    assert "Where in the picture does this word look?" in html(app)
    assert "of its weight is on the picture" in html(app)
    assert "image 0," in str(part(app, "head"))


def test_without_a_picture_it_is_the_language_model(look, folder) -> None:
    app = look("llava", layer="1", head="0")
    run = tv.trace(tv.load(folder / "llava"), TEXT, check=False)
    assert np.abs(weights(app) - run.attention("decoder", layer=1)[0]).max() <= 1e-6
    assert "Where in the picture" not in html(app)
    with_picture = app.selectbox(key="picture").set_value("house").run()
    assert not with_picture.exception and not with_picture.error
    assert "Where in the picture" in html(with_picture)
    assert address(with_picture)["picture"] == "house"


def test_a_picture_of_ones_own_is_seen_and_not_in_the_link(look, folder) -> None:
    app = look("qwen2_vl", layer="1", head="1")
    link = address(app)
    app = own(app, png())
    assert not app.exception and not app.error, told(app)
    assert "Beside the text stands your own picture" in told(app)
    run = tv.trace(tv.load(folder / "qwen2_vl"), TEXT, image=picture(), check=False)
    assert np.abs(weights(app) - run.attention("decoder", layer=1)[1]).max() <= 1e-6
    assert address(app) == link
    app.button(key="own-back").click().run()
    assert "Where in the picture" not in html(app) and not app.exception


@pytest.mark.parametrize("page", [*MAP_PAGES, "step-inside", "play", "labs"])
def test_the_other_pages_stand_too(look, page: str) -> None:
    app = go(look("llava", picture="house", layer="1"), page)
    assert not app.exception and not app.error and not app.warning, told(app)


def test_it_writes_of_the_picture(look, folder) -> None:
    app = look("gemma3", picture="house", edits=HOT.to_json(), beam="1")
    model = tv.load(folder / "gemma3")
    best = tv.translate(model, TEXT, image=example_picture())[0].text
    plain = tv.translate(model, TEXT)[0].text
    assert best != plain
    assert best.strip() in " ".join(html(app).replace("<", " <").split()) or best in html(app)


def test_what_cannot_be_seen_is_told(look) -> None:
    app = own(look("llava"), b"no picture")
    assert not app.exception and len(app.error) == 1
    assert "is no picture that can be read" in app.error[0].value.replace("\\", "")
    app = look("llava", text="a cat <image>")
    assert "none came" in app.error[0].value and not app.exception
    app = look("llava", text=" ".join(["cat"] * 60), picture="house")
    assert len(app.error) == 1 and not app.exception
