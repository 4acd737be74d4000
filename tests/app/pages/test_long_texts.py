"""A page of text: 1,024 tokens through 12 layers of 12 heads, on the screen and in the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from tests.support.component_stage import decoded
from tests.support.long_model import page_of, write_long
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_kind import of_model
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.engine.trace_cache import size_of
from transformer_viz.app.render.payloads import PARTS
from transformer_viz.app.session.scene import Scene, scene_at
from transformer_viz.app.session.view_options import Look
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention, Temperature

from ...support.page_content import chips, panel, part, told
from ..conftest import APP, TIMEOUT

pytestmark = pytest.mark.app
TOKENS = 1024
LAYERS = HEADS = 12
PLACE = Place("decoder", 7, 5)
MEGABYTE = 1_000_000
CLEAN = Intervention()
WARM = Intervention((Temperature(value=2.0),))


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: bytes) -> Path:
    folder = tmp_path_factory.mktemp("long") / "long"
    write_long(folder, tiny_vocabulary, LAYERS)
    return folder


@pytest.fixture(scope="module")
def scenes(long: Path, tiny_vocabulary: bytes) -> Callable[..., Scene]:
    """What a visitor of a text of so many tokens sees; words are those of a look."""
    engine = Engine(str(long))
    kind = of_model(engine.model("long"))

    def make(tokens: int, edits: Intervention = CLEAN, **look: Any) -> Scene:
        question = Question("long", page_of(tiny_vocabulary, tokens))
        return scene_at(engine, question, kind, PLACE, edits, Look(**look))

    return make


@pytest.mark.parametrize("tokens", [512, TOKENS])
def test_every_part_of_a_long_text_is_below_a_megabyte(
    scenes: Callable[..., Scene], tokens: int
) -> None:
    seen = ((CLEAN, "now", "map"), (CLEAN, "now", "lines"), (WARM, "difference", "qk"))
    for edits, compare, view in seen:
        scene = scenes(tokens, edits, compare=compare, view=view, token=300)
        assert len(scene.now.source) == tokens
        assert [str(kept.site) for kept in scene.now.attentions] == ["decoder L7"]
        assert len(scene.now.heads) == LAYERS * HEADS
        for name, draw in PARTS.items():
            assert 0 < len(draw(scene)) <= MEGABYTE, name


def test_the_map_of_a_long_text_is_pooled_and_exact_where_it_is_enlarged(
    scenes: Callable[..., Scene],
) -> None:
    scene = scenes(TOKENS, zoom=((500, 560), (480, 540)))
    header, arrays = decoded(PARTS["head"](scene))
    weights = scene.now.attention("decoder", layer=7)[5]
    assert header["stride"] == [4, 4] and arrays["pooled"].shape == (256, 256)
    wanted = weights.reshape(256, 4, 256, 4).max(axis=(1, 3))
    drawn = arrays["pooled"] * header["unit"]
    assert np.abs(drawn - wanted).max() <= header["unit"] / 2 + 1e-7
    (top, bottom), (left, right) = header["region"]
    assert top <= 500 and bottom >= 560 and left <= 480 and right >= 540
    assert np.array_equal(arrays["weights"], weights[top:bottom, left:right])


def test_what_is_remembered_of_long_texts_stays_bounded(long: Path, tiny_vocabulary: bytes) -> None:
    engine = Engine(str(long), limit=20 * MEGABYTE)
    asked = Question("long", page_of(tiny_vocabulary, 512))
    place = whole_layer("decoder", 0)
    clean = engine.clean(asked, place)
    largest = size_of(clean.trace)
    for value in (0.5, 2.0, 3.0):  # a slider moves
        warm = Intervention((Temperature(value=value),))
        engine.changed(asked, clean, warm, place)
        assert engine.clean(asked, place).trace is clean.trace
        assert engine.cache.size <= 20 * MEGABYTE + 2 * 1.01 * largest


def test_lines_keep_the_layers_of_all_their_heads_and_qk_only_its_own(
    scenes: Callable[..., Scene],
) -> None:
    lines = scenes(512, view="lines", overlay=((2, 1), (9, 0)))
    assert {kept.site.layer for kept in lines.now.attentions} == {2, 7, 9}
    header, _ = decoded(PARTS["head"](lines))
    assert [(at["layer"], at["head"]) for at in header["heads"]] == [(7, 5), (2, 1), (9, 0)]
    (kept,) = scenes(512, view="qk", overlay=((2, 1),)).now.attentions
    assert kept.site.layer == 7 and kept.q is not None and kept.k is not None
    assert lines.now.attentions[0].q is None


def test_a_page_of_text_stands_on_explore(
    long: Path, tiny_vocabulary: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(long))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")
    app = AppTest.from_file(str(APP), default_timeout=TIMEOUT)
    app.query_params["text"] = page_of(tiny_vocabulary, TOKENS)
    app.query_params["block"] = "decoder"
    app.run()
    assert not app.exception and not app.error, told(app)
    (row,) = chips(app)
    assert len(row["chips"]) == TOKENS
    assert "Words 1 to 60 of 1,024 are shown" in panel(app, "outcome")
    assert part(app, "head")[0]["stride"] == [4, 4]
    app.selectbox(key="token").set_value(700).run()
    assert "Words 671 to 730 of 1,024 are shown" in panel(app, "outcome")
    assert panel(app, "outcome").count('data-row="produced:') == 60
