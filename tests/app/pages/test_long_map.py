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
from tests.support.page_content import address, go, html, panel, part, told
from transformer_viz.app.engine.trace_jobs import MAX_TOKENS
from transformer_viz.app.live.registry import EXCHANGE
from transformer_viz.app.ui.progress import Stopped
from transformer_viz.checkpoints.common.longer import longer
from transformer_viz.core.interventions import Intervention, Temperature, Window
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
    assert header["rows"]["sentence"] == "produced" and header["rows"]["count"] == TOKENS
    assert len(header["rows"]["labels"]) == len(header["row_words"]) == TOKENS  # nobody else has it
    named = part(app, "atlas")[0]["sentences"]["produced"]  # of links alone
    assert named["length"] == TOKENS and 2 <= len(named) < 100
    assert "never trained on such a text" in header["note"] and "lines, q·k" in header["note"]
    assert "Words 671 to 730 of 1,101" in panel(app, "outcome")
    assert not [box for box in app.selectbox if box.key in ("token", "key", "answer")]
    assert not [box for box in app.toggle if box.key in ("words", "special")]
    offered = next(box for box in app.button_group if box.key == "compare").options
    assert offered == ["Now", "Before", "Difference"]
    link = address(app)
    assert link["text"].startswith("z.") and len(link["text"]) < len(chapter) / 2
    again = visit(**link)
    assert again.text_input(key="text").value == chapter


def test_the_difference_of_two_runs_comes_in_tiles(
    visit: Callable[..., AppTest],
    folder: Path,
    chapter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each tile is the one matrix less the other, and the finest say what the weight was."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    edits = '{"edits":[{"kind":"temperature","value":3.0}]}'
    app = visit(layer="1", head="1", compare="difference", edits=edits)
    assert not app.exception and address(app)["compare"] == "difference", told(app)
    header, arrays = part(app, "head")
    line = header["tiles"]
    assert header["change"] and line["far"] == "" and "The difference: each" in header["note"]
    model = longer(tv.load(folder), TOKENS)
    now, was = (
        tv.trace(model, chapter, keep=("weights",), check=False, intervention=one)
        for one in (Intervention.from_json(edits), Intervention())
    )
    before = was.attention("decoder", 1)[1]
    change = now.attention("decoder", 1)[1] - before
    small = (arrays["pooled"].astype(int) - header["zero"]) * header["unit"]
    assert 0 < np.abs(small).max() <= 1
    token = line["address"].split("/")[-2]
    for row, column in ((0, 0), (4, 1)):
        status, (_, body) = ask(token + "/tile", of=line["of"], level=0, row=row, column=column)
        found = decoded(body)[1]
        place = np.s_[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
        assert status == 200 and np.abs(found["weights"] - change[place]).max() <= 2e-6
        assert np.abs(found["was"] - before[place]).max() <= 2e-6
    status, (_, body) = ask(token + "/tile", of=line["of"], level=2, row=0, column=0)
    found = decoded(body)[1]
    assert (
        "was" not in found
        and abs(np.abs(found["weights"]).max() - np.abs(change[:1024, :1024]).max()) <= 2e-6
    )
    assert (found["weights"] < 0).any() and (found["weights"] > 0).any()


def test_words_and_far_links_of_the_route(
    visit: Callable[..., AppTest],
    folder: Path,
    chapter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Words once, by their content; links as sorting the matrix gives them."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    app = visit(layer="1", head="1")
    header = part(app, "head")[0]
    line = header["tiles"]
    assert header["rows"] == {"sentence": "produced", "count": TOKENS} and "spelled" not in header
    token = line["address"].split("/")[-2]
    assert line["words"].endswith(token + "/words") and line["far"].endswith(token + "/far")
    run = tv.trace(longer(tv.load(folder), TOKENS), chapter, keep=("weights",), check=False)
    status, (_, body) = ask(token + "/words", of=line["named"])
    words = decoded(body)[0]
    assert status == 200 and words["row_labels"] == list(run.produced.labels)
    assert words["column_labels"] == list(run.source.labels)
    said = [words["spelled"][n] for n in words["column_words"]]
    assert words["spelled"][1:9] == ["The", "cat", "sat", "on", "the", "mat", "and", "a"]
    assert said[1:] == [words["spelled"][n] for n in words["row_words"][:-1]]
    weights = run.attention("decoder", 1)[1]
    rows, columns = np.indices(weights.shape)
    for asked, counts in (
        ({"distance": 64}, columns > 0),
        ({"distance": 500, "first": "on"}, columns >= 0),
    ):
        status, (_, body) = ask(token + "/far", of=line["of"], **asked)
        links, found = decoded(body)
        far = weights[(rows - columns >= asked["distance"]) & counts]
        assert status == 200 and len(found["weight"]) == 12
        assert np.abs(np.sort(far)[::-1][:12] - found["weight"]).max() <= 2e-6
        assert np.abs(weights[found["row"], found["column"]] - found["weight"]).max() <= 2e-6
        assert abs(links["first"] - weights[asked["distance"] :, 0].mean()) <= 2e-6
    _, (_, body) = ask(token + "/far", of=line["of"], distance=64, once="on")
    found = decoded(body)[1]
    assert len(set(found["column"].tolist())) == 12
    for door, words in (
        ("/words", {"of": "another"}),
        ("/far", {"of": "another", "distance": 64}),
        ("/far", {"of": line["of"], "distance": 0}),
        ("/far", {"of": line["of"], "distance": "x"}),
        ("/far", {"of": line["of"]}),
    ):
        status, (_, body) = ask(token + door, **words)
        assert status == 409 and body.decode().endswith("."), (door, words)


def test_other_pages_say_how_long_a_text_may_be(visit: Callable[..., AppTest]) -> None:
    app = visit()
    for name in ("norms", "step-inside", "why"):
        go(app, name)
        assert not app.exception, name
        assert "this page takes at most 1,024. Shorten it, or open Explore" in told(app), name


def test_there_is_no_worksheet_of_so_long_a_text(
    visit: Callable[..., AppTest], tiny_vocabulary: bytes
) -> None:
    """Each of its stations would say that the text is too long, and nothing else."""
    app = visit()
    go(app, "lessons")
    assert not app.exception and "this page takes at most 1,024" in html(app)
    assert "worksheet" not in [one.key for one in app.get("download_button")]
    short = visit(text=page_of(tiny_vocabulary, 30) + " " * MAX_TOKENS)
    go(short, "lessons")
    assert "worksheet" in [one.key for one in short.get("download_button")]
    assert "this page takes at most" not in html(short)


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
        ({"level": 0, "top": 0, "bottom": 9, "left": 0, "right": 9}, 409),
        ({"level": 0, "top": 0, "bottom": 9, "left": 0}, 400),
        ({"level": 0, "top": 0, "bottom": 9, "left": 0, "right": 600}, 400),
        ({"level": 1, "top": 1, "bottom": 9, "left": 0, "right": 9}, 400),
    ):
        found, body = tile(**words)
        assert found == status and body.decode().endswith("."), words
    assert ask("a" * 43 + "/tile", of=line["of"], level=0, row=0, column=0)[0] == 404


def test_a_frame_is_the_part_of_the_map_that_the_run_will_give(
    visit: Callable[..., AppTest],
    folder: Path,
    chapter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a slider paints is the matrix of the real edited run; before the page has run it."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    monkeypatch.setattr("transformer_viz.core.tiles.edited.AT_ONCE", 200_000)
    app = visit(layer="1", head="1", scope="layer")
    token = part(app, "head")[0]["tiles"]["address"].split("/")[-2]
    line = EXCHANGE.line(token)
    model = longer(tv.load(folder), TOKENS)
    for name, value, edit in (
        ("temperature", "2.5", Temperature(value=2.5, layer=1)),
        ("window", "24", Window(radius=24, layer=1)),
    ):
        edits = Intervention((edit,))
        run = tv.trace(model, chapter, keep=("weights",), check=False, intervention=edits)
        weights = run.attention("decoder", 1)[1]
        for level, top, bottom, left, right in ((0, 700, 1101, 300, 650), (2, 0, 1101, 0, 1101)):
            words = {"level": level, "top": top, "bottom": bottom, "left": left, "right": right}
            status, (_, body) = ask(token, seq=7, **{name: value}, **words)
            assert status == 200, body
            header, arrays = decoded(decoded(body)[1]["head"].tobytes())
            assert header["ahead"] and header["seq"] == 7
            assert "shows the change already" in header["note"]
            assert header["region"] == [[top, bottom], [left, right]]
            step, deep = 2**level, header["deep"]
            assert deep == 1 or level == 0
            cells = weights[top:bottom, left:right]
            wide = np.pad(cells, [(0, -n % step) for n in cells.shape])
            shape = len(wide) // step, step, -1, step
            wanted = wide.reshape(shape)[:, :deep].max((1, 3))
            assert np.abs(wanted - arrays["weights"]).max() <= 2e-6
            assert np.array_equal(arrays["masked"] > 0, wanted == 0)
        square = {"of": header["of"], "level": 1, "row": 1, "column": 0}
        status, (_, body) = ask(token + "/tile", **square)  # and of all rows, when the hand rests
        assert status == 200
        whole = weights[512:1024, :512].reshape(256, 2, 256, 2).max((1, 3))
        assert np.abs(whole - decoded(body)[1]["weights"]).max() <= 2e-6
    assert line.view.changes == Intervention()


def test_a_change_that_reaches_lower_layers_is_told_from_the_run(
    visit: Callable[..., AppTest],
    folder: Path,
    chapter: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then the map is that of this head's change alone, under another name, and says so."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    app = visit(layer="1", head="1", scope="everything")
    token = part(app, "head")[0]["tiles"]["address"].split("/")[-2]
    place = {"level": 0, "top": 0, "bottom": 300, "left": 0, "right": 300}
    status, (_, body) = ask(token, temperature="0.5", seq=1, **place)
    assert status == 200
    header, arrays = decoded(decoded(body)[1]["head"].tobytes())
    assert "the change of this head alone" in header["note"]
    alone = Intervention((Temperature(value=0.5, layer=1, head=1),))
    model = longer(tv.load(folder), TOKENS)
    run = tv.trace(model, chapter, keep=("weights",), check=False, intervention=alone)
    wanted = run.attention("decoder", 1)[1, :300, :300]
    assert np.abs(wanted - arrays["weights"]).max() <= 2e-6
    for words in ({"temperature": "0"}, {"temperature": "2", "top": 5000, "bottom": 5100}):
        status, (_, body) = ask(token, seq=2, **place | words)
        assert status == 409 and body.decode().endswith(".")
    app.session_state["edits"] = Intervention((Temperature(value=0.5),)).to_json()
    app.run()
    assert part(app, "head")[0]["tiles"]["of"] != header["of"]


def test_a_page_waits_for_a_run_with_what_it_has_and_a_stop_leaves_it_so(
    visit: Callable[..., AppTest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The map is ahead, all else is of the run before; stopped, it stays and says so."""
    monkeypatch.setattr(EXCHANGE, "is_open", True)
    app = visit(layer="1", head="1", causal="on")
    before = part(app, "head")[0], part(app, "atlas")[1], panel(app, "outcome")

    def changed(*_: object) -> None:
        raise Stopped("Stopped before it was done.")

    with monkeypatch.context() as stopped:
        stopped.setattr("transformer_viz.app.session.scene._changed", changed)
        app.segmented_control(key="causal").set_value("off").run()
        assert not app.exception and not app.error, told(app)
        header, _ = part(app, "head")
        assert header["tiles"]["ahead"] and "shows the change already" in header["note"]
        assert header["tiles"]["of"] != before[0]["tiles"]["of"] and header["numbers"] == ""
        for name, array in part(app, "atlas")[1].items():
            assert np.array_equal(array, before[1][name])
        assert panel(app, "outcome") == before[2]
        assert "is of the run before the change, but for the opened map" in html(app)
        app.segmented_control(key="compare").set_value("before").run()
        now = part(app, "head")[0]["tiles"]
        assert not now["ahead"]
        place = {"of": now["of"], "level": 0, "row": 0, "column": 0}
        assert ask(now["address"].split("/")[-2] + "/tile", **place)[0] == 200
        app.segmented_control(key="compare").set_value("now").run()
    app.run()  # goes on: the run is made, and the page drawn once more
    after, _ = part(app, "head")
    assert not after["tiles"]["ahead"] and after["tiles"]["of"] == header["tiles"]["of"]
    assert panel(app, "outcome") != before[2]
    assert "run before the change" not in html(app)
    hard = Intervention((Temperature(value=0.0, layer=1),)).to_json()
    with monkeypatch.context() as stopped:
        stopped.setattr("transformer_viz.app.session.scene._changed", changed)
        app.session_state["edits"] = hard
        app.run()
        waits = part(app, "head")[0]
        assert not waits["tiles"]["ahead"] and "still of the run before the change" in waits["note"]
        assert waits["tiles"]["of"] == after["tiles"]["of"]
