"""A text of more tokens than most pages take: Explore draws its map in tiles, others say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.app.live.test_frames import ask
from tests.support.component_stage import decoded
from tests.support.long_model import page_of, write_long
from tests.support.page_content import address, go, panel, part, told
from transformer_viz.app.live.registry import EXCHANGE
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.metrics.attention import tile_pyramid
from transformer_viz.metrics.attention.tile_pyramid import TILE

from ..conftest import APP, TIMEOUT

pytestmark = pytest.mark.app
TOKENS = 1101  # of the tokens that whole words make


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: bytes) -> Path:
    made = tmp_path_factory.mktemp("chapter") / "long"
    write_long(made, tiny_vocabulary, 2)
    return made


@pytest.fixture
def chapter(tiny_vocabulary: bytes) -> str:
    return page_of(tiny_vocabulary, TOKENS)


@pytest.fixture
def visit(folder: Path, chapter: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., AppTest]:
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")

    def begin(**words: str) -> AppTest:
        app = AppTest.from_file(str(APP), default_timeout=TIMEOUT)
        app.query_params.update({"text": chapter, "block": "decoder"} | words)
        return app.run()

    return begin


def test_explore_draws_a_long_text_and_says_what_it_leaves_out(
    visit: Callable[..., AppTest], chapter: str
) -> None:
    app = visit(layer="1", head="1", token="700")
    assert not app.exception and not app.error, told(app)
    header, arrays = part(app, "head")
    assert header["tiles"] == header["tiles"] | {"address": "", "size": TILE, "levels": 4}
    assert arrays["pooled"].shape == (62, 62)  # of 18 x 18 weights
    assert len(header["rows"]["labels"]) == TOKENS
    assert "never trained on such a text" in header["note"] and "lines, q·k" in header["note"]
    assert "Words 671 to 730 of 1,101" in panel(app, "outcome")
    assert not [box for box in app.selectbox if box.key in ("token", "key", "answer")]
    link = address(app)
    assert link["text"].startswith("z.") and len(link["text"]) < len(chapter) / 2
    again = visit(**link)
    assert again.text_input(key="text").value == chapter


def test_other_pages_say_how_long_a_text_may_be(visit: Callable[..., AppTest]) -> None:
    app = visit()
    for name in ("norms", "step-inside", "why"):
        go(app, name)
        assert not app.exception, name
        assert "this page takes at most 1,024. Shorten it, or open Explore" in told(app), name


def test_each_tile_of_the_route_is_the_matrix(
    visit: Callable[..., AppTest],
    folder: Path,
    chapter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The finest level exactly; a cell of the others is the largest weight below it."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    monkeypatch.setattr(tile_pyramid, "KEPT", 512)
    app = visit(layer="1", head="1")
    line = part(app, "head")[0]["tiles"]
    token = line["address"].split("/")[-2]
    model = longer(tv.load(folder), TOKENS)
    run = tv.trace(model, chapter, keep=("weights",), check=False)
    weights = run.attention("decoder", 1)[1]
    hidden = np.triu(np.ones_like(weights), 1) > 0

    def tile(**words: object) -> tuple[int, bytes]:
        asked = {"of": line["of"], "level": 0, "row": 0, "column": 0} | words
        status, (_, body) = ask(token + "/tile", **asked)
        return status, body

    for level, row, column in ((0, 0, 0), (0, 4, 3), (1, 1, 2), (2, 0, 1), (3, 0, 0)):
        status, body = tile(level=level, row=row, column=column)
        assert status == 200
        _, arrays = decoded(body)
        step = 2**level
        down, across = (slice(TILE * step * n, TILE * step * (n + 1)) for n in (row, column))
        cells = np.pad(weights[down, across], [(0, -n % step) for n in weights[down, across].shape])
        gone = np.pad(
            hidden[down, across],
            [(0, -n % step) for n in hidden[down, across].shape],
            constant_values=True,
        )
        shape = len(cells) // step, step, -1, step
        assert np.abs(cells.reshape(shape).max((1, 3)) - arrays["weights"]).max() <= 2e-6
        assert np.array_equal(gone.reshape(shape).all((1, 3)), arrays["masked"] > 0)
    for words, status in (
        ({"row": 5}, 409),
        ({"level": 4}, 409),
        ({"of": "another"}, 409),
        ({"of": ""}, 400),
        ({"level": "x"}, 400),
        ({"row": -1}, 400),
    ):
        found, body = tile(**words)
        assert found == status and body.decode().endswith("."), words
    assert ask("a" * 43 + "/tile", of=line["of"], level=0, row=0, column=0)[0] == 404
