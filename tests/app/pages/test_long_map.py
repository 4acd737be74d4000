"""Long texts: a page of text on Explore and in the cache, and a longer one as a map in tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import transformer_viz as tv
from tests.app.live.test_frames import ask
from tests.support.component_stage import decoded
from tests.support.long_model import page_of, write_long
from tests.support.page_content import address, chips, go, html, panel, part, told
from tests.support.widgets import ok, put, runs
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_kind import of_model
from transformer_viz.app.engine.query import Question, whole_layer
from transformer_viz.app.engine.trace_cache import size_of
from transformer_viz.app.engine.trace_jobs import MAX_TOKENS
from transformer_viz.app.live.registry import EXCHANGE
from transformer_viz.app.render.payloads import PARTS
from transformer_viz.app.session.scene import Scene, scene_at
from transformer_viz.app.session.view_options import Look
from transformer_viz.app.ui.progress import Stopped
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention, Temperature, Window
from transformer_viz.core.trace import Trace
from transformer_viz.metrics.attention import tile_pyramid
from transformer_viz.metrics.attention.tile_pyramid import TILE

from ..conftest import new_visit

pytestmark = pytest.mark.app
Visit = Callable[..., AppTest]
TOKENS = 1101  # of the tokens that whole words make
LAYERS = HEADS = 12
PAGE, MEGABYTE = 1024, 1_000_000
CLEAN, WARM = Intervention(), Intervention((Temperature(value=2.0),))
CHANGED = "transformer_viz.app.session.scene._changed"


# ---- A page of text: 1,024 tokens through 12 layers of 12 heads


@pytest.fixture(scope="module")
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
        return scene_at(engine, question, kind, Place("decoder", 7, 5), edits, Look(**look))

    return make


def test_every_part_of_a_long_text_is_below_a_megabyte(scenes: Callable[..., Scene]) -> None:
    seen = ((CLEAN, "now", "map"), (CLEAN, "now", "lines"), (WARM, "difference", "qk"))
    for tokens in (512, PAGE):
        for edits, compare, view in seen:
            case = (tokens, compare, view)
            scene = scenes(tokens, edits, compare=compare, view=view, token=300)
            assert len(scene.now.source) == tokens
            assert [str(kept.site) for kept in scene.now.attentions] == ["decoder L7"], case
            assert len(scene.now.heads) == LAYERS * HEADS, case
            for name, draw in PARTS.items():
                assert 0 < len(draw(scene)) <= MEGABYTE, (case, name)


def test_the_map_of_a_long_text_is_pooled_and_exact_where_it_is_enlarged(
    scenes: Callable[..., Scene],
) -> None:
    scene = scenes(PAGE, zoom=((500, 560), (480, 540)))
    header, arrays = decoded(PARTS["head"](scene))
    weights = scene.now.attention("decoder", layer=7)[5]
    assert header["stride"] == [4, 4] and arrays["pooled"].shape == (256, 256)
    drawn = arrays["pooled"] * header["unit"]
    assert np.abs(drawn - pooled(weights, 4)).max() <= header["unit"] / 2 + 1e-7
    (top, bottom), (left, right) = header["region"]
    assert top <= 500 and bottom >= 560 and left <= 480 and right >= 540
    assert np.array_equal(arrays["weights"], weights[top:bottom, left:right])
    # Lines keep the layers of all their heads, and q·k only its own.
    lines = scenes(512, view="lines", overlay=((2, 1), (9, 0)))
    assert {kept.site.layer for kept in lines.now.attentions} == {2, 7, 9}
    header, _ = decoded(PARTS["head"](lines))
    assert [(at["layer"], at["head"]) for at in header["heads"]] == [(7, 5), (2, 1), (9, 0)]
    (kept,) = scenes(512, view="qk", overlay=((2, 1),)).now.attentions
    assert kept.site.layer == 7 and kept.q is not None and kept.k is not None
    assert lines.now.attentions[0].q is None


def test_what_is_remembered_of_long_texts_stays_bounded(long: Path, tiny_vocabulary: bytes) -> None:
    engine = Engine(str(long), limit=20 * MEGABYTE)
    asked = Question("long", page_of(tiny_vocabulary, 512))
    place = whole_layer("decoder", 0)
    clean = engine.clean(asked, place)
    largest = size_of(clean.trace)
    for value in (0.5, 2.0, 3.0):  # a slider moves
        engine.changed(asked, clean, Intervention((Temperature(value=value),)), place)
        assert engine.clean(asked, place).trace is clean.trace
        assert engine.cache.size <= 20 * MEGABYTE + 2 * 1.01 * largest


def test_a_page_of_text_stands_on_explore(
    long: Path, tiny_vocabulary: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(long))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")
    link = {"text": page_of(tiny_vocabulary, PAGE), "block": "decoder"}
    app = ok(new_visit(link=link).run())
    (row,) = chips(app)
    assert len(row["chips"]) == PAGE and part(app, "head")[0]["stride"] == [4, 4]
    assert "Words 1 to 60 of 1,024 are shown" in panel(app, "outcome")
    assert "Words 671 to 730 of 1,024 are shown" in panel(put(app, {"token": 700}), "outcome")
    assert panel(app, "outcome").count('data-row="produced:') == 60


# ---- A chapter: Explore draws its map in tiles, other pages say how long a text may be


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: bytes) -> Path:
    made = tmp_path_factory.mktemp("chapter") / "long"
    write_long(made, tiny_vocabulary, 2)
    return made


@pytest.fixture(scope="module")
def chapter(tiny_vocabulary: bytes) -> str:
    return page_of(tiny_vocabulary, TOKENS)


@pytest.fixture(scope="module")
def trace(folder: Path, chapter: str) -> Callable[..., Trace]:
    """Runs the chapter with edits, without the app."""
    model = longer(tv.load(folder), TOKENS)
    words: dict[str, Any] = {"keep": ("weights",), "check": False}
    return cache(lambda *edits: tv.trace(model, chapter, intervention=Intervention(edits), **words))


@pytest.fixture
def visit(folder: Path, chapter: str, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Opens Explore with the chapter, on a server without the route of tiles."""
    monkeypatch.setenv("TRANSFORMER_VIZ_MODEL", str(folder))
    monkeypatch.setenv("TRANSFORMER_VIZ_MODELS", "")
    return lambda **words: new_visit(link={"text": chapter, "block": "decoder"} | words).run()


@pytest.fixture
def routed(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Opens Explore with one head of the chapter, on a server with the route of tiles."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    return lambda **words: runs(visit(layer="1", head="1", **words))


def answer(path: str, **words: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays that the route sends."""
    status, (_, body) = ask(path, **words)
    assert status == 200, (path, words, body)
    return decoded(body)


def refused(path: str, status: int = 409, **words: Any) -> None:
    """Check that the route answers with a sentence."""
    found, (_, body) = ask(path, **words)
    assert found == status and body.decode().endswith("."), (path, words, found)


def tiled(app: AppTest) -> tuple[dict[str, Any], str]:
    """Return the page's data about its tiles, and the token of their route."""
    line = part(app, "head")[0]["tiles"]
    return line, line["address"].split("/")[-2]


def pooled(cells: np.ndarray, step: int, deep: int | None = None) -> np.ndarray:
    """The largest value of each square of so many cells, or of its first rows alone."""
    wide = np.pad(cells, [(0, -n % step) for n in cells.shape])
    return wide.reshape(len(wide) // step, step, -1, step)[:, :deep].max((1, 3))


def test_explore_draws_a_long_text_and_says_what_it_leaves_out(visit: Visit, chapter: str) -> None:
    app = ok(visit(layer="1", head="1", token="700"))
    header, arrays = part(app, "head")
    assert header["tiles"] == header["tiles"] | {"address": "", "size": TILE, "levels": 4}
    assert arrays["pooled"].shape == (62, 62)  # of 18 x 18 weights
    assert header["rows"]["sentence"] == "produced" and header["rows"]["count"] == TOKENS
    assert len(header["rows"]["labels"]) == len(header["row_words"]) == TOKENS  # nobody else has it
    named = part(app, "atlas")[0]["sentences"]["produced"]  # of links alone
    assert named["length"] == TOKENS and 2 <= len(named) < 100
    assert "never trained on such a text" in header["note"] and "lines, q·k" in header["note"]
    assert "Words 671 to 730 of 1,101" in panel(app, "outcome")
    boxes = {box.key for box in (*app.selectbox, *app.toggle)}
    assert not boxes & {"token", "key", "answer", "words", "special"}
    assert app.button_group(key="compare").options == ["Now", "Before", "Difference"]
    link = address(app)
    assert link["text"].startswith("z.") and len(link["text"]) < len(chapter) / 2
    assert visit(**link).text_input(key="text").value == chapter


def test_the_difference_of_two_runs_comes_in_tiles(
    routed: Visit, trace: Callable[..., Trace]
) -> None:
    """Each tile is the one matrix less the other, and the finest say what the weight was."""
    hot = Temperature(value=3.0)
    app = routed(compare="difference", edits=Intervention((hot,)).to_json())
    assert address(app)["compare"] == "difference", told(app)
    header, arrays = part(app, "head")
    line, token = tiled(app)
    assert header["change"] and line["far"] == "" and "The difference: each" in header["note"]
    before = trace().attention("decoder", 1)[1]
    change = trace(hot).attention("decoder", 1)[1] - before
    assert 0 < np.abs(arrays["pooled"].astype(int) - header["zero"]).max() * header["unit"] <= 1
    for row, column in ((0, 0), (4, 1)):
        _, found = answer(token + "/tile", of=line["of"], level=0, row=row, column=column)
        place = np.s_[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
        assert np.abs(found["weights"] - change[place]).max() <= 2e-6
        assert np.abs(found["was"] - before[place]).max() <= 2e-6
    _, found = answer(token + "/tile", of=line["of"], level=2, row=0, column=0)
    assert "was" not in found
    most = np.abs(change[:1024, :1024]).max()
    assert abs(np.abs(found["weights"]).max() - most) <= 2e-6
    assert (found["weights"] < 0).any() and (found["weights"] > 0).any()


def test_words_and_far_links_of_the_route(routed: Visit, trace: Callable[..., Trace]) -> None:
    """Words once, by their content; links as sorting the matrix gives them."""
    app = routed()
    header = part(app, "head")[0]
    line, token = tiled(app)
    assert header["rows"] == {"sentence": "produced", "count": TOKENS} and "spelled" not in header
    assert line["words"].endswith(token + "/words") and line["far"].endswith(token + "/far")
    clean = trace()
    words, _ = answer(token + "/words", of=line["named"])
    assert words["row_labels"] == list(clean.produced.labels)
    assert words["column_labels"] == list(clean.source.labels)
    said = [words["spelled"][n] for n in words["column_words"]]
    assert words["spelled"][1:9] == ["The", "cat", "sat", "on", "the", "mat", "and", "a"]
    assert said[1:] == [words["spelled"][n] for n in words["row_words"][:-1]]
    weights = clean.attention("decoder", 1)[1]
    rows, columns = np.indices(weights.shape)
    for asked, counts in (
        ({"distance": 64}, columns > 0),
        ({"distance": 500, "first": "on"}, columns >= 0),
    ):
        links, found = answer(token + "/far", of=line["of"], **asked)
        far = weights[(rows - columns >= asked["distance"]) & counts]
        assert len(found["weight"]) == 12, asked
        assert np.abs(np.sort(far)[::-1][:12] - found["weight"]).max() <= 2e-6, asked
        assert np.abs(weights[found["row"], found["column"]] - found["weight"]).max() <= 2e-6
        assert abs(links["first"] - weights[asked["distance"] :, 0].mean()) <= 2e-6, asked
    _, found = answer(token + "/far", of=line["of"], distance=64, once="on")
    assert len(set(found["column"].tolist())) == 12
    refused(token + "/words", of="another")
    for words in ({"distance": 0}, {"distance": "x"}, {}, {"distance": 64, "of": "another"}):
        refused(token + "/far", **{"of": line["of"]} | words)


def test_other_pages_and_the_worksheet_say_how_long_a_text_may_be(
    visit: Visit, tiny_vocabulary: bytes
) -> None:
    app = visit()
    for name in ("norms", "step-inside", "why"):
        runs(go(app, name), name)
        assert "this page takes at most 1,024. Shorten it, or open Explore" in told(app), name
    # No worksheet: each of its stations would say that the text is too long, and nothing else.
    assert "this page takes at most 1,024" in html(runs(go(app, "lessons")))
    assert "worksheet" not in [one.key for one in app.get("download_button")]
    short = go(visit(text=page_of(tiny_vocabulary, 30) + " " * MAX_TOKENS), "lessons")
    assert "worksheet" in [one.key for one in short.get("download_button")]
    assert "this page takes at most" not in html(short)


def test_each_tile_of_the_route_is_the_matrix(
    routed: Visit, trace: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finest level exactly; a cell of the others is the largest weight below it."""
    monkeypatch.setattr(tile_pyramid, "KEPT", 512)
    app = routed()  # the route ends with its visit
    line, token = tiled(app)
    weights = trace().attention("decoder", 1)[1]
    shown = 1 - (np.triu(np.ones_like(weights), 1) > 0)

    first = {"of": line["of"], "level": 0, "row": 0, "column": 0}
    for level, row, column in ((0, 0, 0), (0, 4, 3), (1, 1, 2), (2, 0, 1), (3, 0, 0)):
        case, step = (level, row, column), 2**level
        _, arrays = answer(token + "/tile", of=line["of"], level=level, row=row, column=column)
        place = tuple(slice(TILE * step * n, TILE * step * (n + 1)) for n in (row, column))
        assert np.abs(pooled(weights[place], step) - arrays["weights"]).max() <= 2e-6, case
        assert np.array_equal(pooled(shown[place], step) == 0, arrays["masked"] > 0), case
    square = {"level": 0, "top": 0, "bottom": 9, "left": 0}
    for status, odd in (
        (409, ({"row": 5}, {"level": 4}, {"of": "another"}, square | {"right": 9})),
        (400, ({"of": ""}, {"level": "x"}, {"row": -1}, square, square | {"right": 600})),
        (400, ({"level": 1, "top": 1, "bottom": 9, "left": 0, "right": 9},)),
    ):
        for words in odd:
            refused(token + "/tile", status, **first | words)
    assert ask("a" * 43 + "/tile", **first)[0] == 404


def test_a_frame_is_the_part_of_the_map_that_the_run_will_give(
    routed: Visit, trace: Callable[..., Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a slider paints is the matrix of the real edited run; before the page has run it."""
    monkeypatch.setattr("transformer_viz.core.tiles.edited.AT_ONCE", 200_000)
    app = routed(scope="layer")  # the route ends with its visit
    line = EXCHANGE.line(token := tiled(app)[1])
    for name, value, edit in (
        ("temperature", "2.5", Temperature(value=2.5, layer=1)),
        ("window", "24", Window(radius=24, layer=1)),
    ):
        weights = trace(edit).attention("decoder", 1)[1]
        for level, top, bottom, left, right in ((0, 700, 1101, 300, 650), (2, 0, 1101, 0, 1101)):
            case = (name, level)
            words = {"level": level, "top": top, "bottom": bottom, "left": left, "right": right}
            _, sent = answer(token, seq=7, **{name: value}, **words)
            header, arrays = decoded(sent["head"].tobytes())
            assert header["ahead"] and header["seq"] == 7, case
            assert "shows the change already" in header["note"], case
            assert header["region"] == [[top, bottom], [left, right]], case
            step, deep = 2**level, header["deep"]
            assert deep == 1 or level == 0, case
            wanted = pooled(weights[top:bottom, left:right], step, deep)
            assert np.abs(wanted - arrays["weights"]).max() <= 2e-6, case
            assert np.array_equal(arrays["masked"] > 0, wanted == 0), case
        square = {"of": header["of"], "level": 1, "row": 1, "column": 0}
        _, arrays = answer(token + "/tile", **square)  # and of all rows, when the hand rests
        whole = pooled(weights[512:1024, :512], 2)
        assert np.abs(whole - arrays["weights"]).max() <= 2e-6, name
    assert line.view.changes == CLEAN


def test_a_change_that_reaches_lower_layers_is_told_from_the_run(
    routed: Visit, trace: Callable[..., Trace]
) -> None:
    """Then the map is that of this head's change alone, under another name, and says so."""
    app = routed(scope="everything")
    _, token = tiled(app)
    place = {"level": 0, "top": 0, "bottom": 300, "left": 0, "right": 300}
    _, sent = answer(token, temperature="0.5", seq=1, **place)
    header, arrays = decoded(sent["head"].tobytes())
    assert "the change of this head alone" in header["note"]
    run = trace(Temperature(value=0.5, layer=1, head=1))
    wanted = run.attention("decoder", 1)[1, :300, :300]
    assert np.abs(wanted - arrays["weights"]).max() <= 2e-6
    for words in ({"temperature": "0"}, {"temperature": "2", "top": 5000, "bottom": 5100}):
        refused(token, seq=2, **place | words)
    app.session_state["edits"] = Intervention((Temperature(value=0.5),)).to_json()
    assert tiled(app.run())[0]["of"] != header["of"]


def test_a_page_waits_for_a_run_with_what_it_has_and_a_stop_leaves_it_so(
    routed: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map is ahead, all else is of the run before; stopped, it stays and says so."""
    app = routed(causal="on")
    before = part(app, "head")[0], part(app, "atlas")[1], panel(app, "outcome")

    def changed(*_: object) -> None:
        raise Stopped("Stopped before it was done.")

    with monkeypatch.context() as stopped:
        stopped.setattr(CHANGED, changed)
        ok(put(app, {"causal": "off"}))
        header, _ = part(app, "head")
        assert header["tiles"]["ahead"] and "shows the change already" in header["note"]
        assert header["tiles"]["of"] != before[0]["tiles"]["of"] and header["numbers"] == ""
        for name, array in part(app, "atlas")[1].items():
            assert np.array_equal(array, before[1][name]), name
        assert panel(app, "outcome") == before[2]
        assert "is of the run before the change, but for the opened map" in html(app)
        now, token = tiled(put(app, {"compare": "before"}))
        assert not now["ahead"]
        answer(token + "/tile", of=now["of"], level=0, row=0, column=0)
        put(app, {"compare": "now"})
    app.run()  # goes on: the run is made, and the page drawn once more
    after, _ = part(app, "head")
    assert not after["tiles"]["ahead"] and after["tiles"]["of"] == header["tiles"]["of"]
    assert panel(app, "outcome") != before[2]
    assert "run before the change" not in html(app)
    with monkeypatch.context() as stopped:
        stopped.setattr(CHANGED, changed)
        app.session_state["edits"] = Intervention((Temperature(value=0.0, layer=1),)).to_json()
        waits = part(app.run(), "head")[0]
        assert not waits["tiles"]["ahead"] and "still of the run before the change" in waits["note"]
        assert waits["tiles"]["of"] == after["tiles"]["of"]
