"""Live frames without a browser: what they show, whose they are, and how the server answers."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

import numpy as np
import pytest
from starlette.applications import Starlette
from streamlit.testing.v1 import AppTest

from tests.support.asgi import answered, scope
from tests.support.component_events import slide, trigger
from tests.support.component_stage import decoded
from tests.support.page_content import address, component
from transformer_viz.app.engine.engine import Engine
from transformer_viz.app.engine.model_kind import of_model
from transformer_viz.app.engine.query import Question
from transformer_viz.app.engine.task import Abandoned, Task
from transformer_viz.app.live import frames as live
from transformer_viz.app.live import registry, server
from transformer_viz.app.live.registry import EXCHANGE, Exchange, LiveSession, ViewState
from transformer_viz.app.render.payloads import PARTS
from transformer_viz.app.session.scene import scene_at
from transformer_viz.app.session.view_options import Look
from transformer_viz.components.edit_sliders import SLIDERS, TEMPERATURE, WINDOW
from transformer_viz.core.editing.edit_controls import Place
from transformer_viz.core.interventions import Intervention, Temperature, Window

PLACE = Place("cross", 1, 0)
Visit = Callable[..., AppTest]
Make = Callable[..., LiveSession]


@pytest.fixture(scope="module")
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


@pytest.fixture(scope="module")
def make_line(engine: Engine) -> Make:
    kind = of_model(engine.model("tiny"))

    def make(text: str = "The cat sat.", place: Place = PLACE, *edits: Any) -> LiveSession:
        question = Question("tiny", text, beam=1)
        return LiveSession(ViewState(engine, question, kind, place, Intervention(edits), Look()))

    return make


@pytest.fixture
def opened() -> Iterator[Exchange]:
    """The exchange as it is while `serve` runs."""
    EXCHANGE.is_open = True
    yield EXCHANGE
    EXCHANGE.is_open = False


def parts(blob: bytes) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in decoded(blob)[1].items()}


def expected(line: LiveSession, changes: Intervention, seq: int) -> dict[str, bytes]:
    """Return the parts as the page itself would send them under these changes."""
    view = line.view
    look = replace(view.look, seq=seq)
    scene = scene_at(view.engine, view.question, view.kind, view.place, changes, look)
    return {name: draw(scene) for name, draw in PARTS.items()}


def warm(value: float) -> Temperature:
    return Temperature(value=value, **PLACE.selectors)


def test_a_frame_holds_what_the_page_would_send(make_line: Make) -> None:
    line = make_line()
    for seq in (1, 9):
        blob = live.frame(line, TEMPERATURE, 2.5, seq)
        assert decoded(blob)[0]["seq"] == seq
        found = parts(blob)
        assert found == expected(line, Intervention((warm(2.5),)), seq), seq
        assert found != expected(line, Intervention(), seq)
    assert line.view.changes == Intervention()  # a frame shows a change; the page makes it
    # It changes one edit and keeps the others.
    narrow = Window(radius=2, stack="encoder", block="self")
    line = make_line("The cat sat.", PLACE, narrow, warm(4.0))
    for value, edits in ((0.5, (narrow, warm(0.5))), (1.0, (narrow,))):
        found = parts(live.frame(line, TEMPERATURE, value, 1))
        assert found == expected(line, Intervention(edits), 1), value


def test_the_newest_frame_of_a_visit_lets_older_ones_give_up(
    make_line: Make, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = make_line("A dog ran."), make_line("The cat ran.")
    for line in (mine, other):
        live.frame(line, TEMPERATURE, 1.0, 0)  # the clean runs
    with ThreadPoolExecutor(3) as pool, ExitStack() as others:
        for _ in range(engine.gate.free):
            others.enter_context(engine.gate.place(Task()))
        place, arrived = engine.gate.place, threading.Semaphore(0)
        monkeypatch.setattr(engine.gate, "place", lambda *given: arrived.release() or place(*given))
        old = pool.submit(live.frame, mine, TEMPERATURE, 2.0, 1)
        beside = pool.submit(live.frame, other, TEMPERATURE, 2.0, 1)
        assert arrived.acquire(timeout=30) and arrived.acquire(timeout=30)
        new = pool.submit(live.frame, mine, TEMPERATURE, 3.0, 2)
        with pytest.raises(Abandoned):
            old.result(30)
        assert not new.done() and not beside.done()
        others.close()
        assert decoded(new.result(30))[0]["seq"] == 2 and beside.result(30)


def test_a_flood_of_frames_evicts_its_own_runs(make_line: Make, shelf: Path) -> None:
    """All frames of a visit are its own in the cache: those of another stay, its clean run too."""
    narrow = Engine(str(shelf / "tiny"), limit=1_500_000)
    lines = [make_line(text) for text in ("A dog ran.", "The cat sat.")]
    flood, pupil = (
        replace(line, view=replace(line.view, engine=narrow), token=str(n))
        for n, line in enumerate(lines)
    )
    live.frame(pupil, TEMPERATURE, 2.0, 1)
    mine = list(narrow.cache._values)
    for n in range(60):
        live.frame(flood, TEMPERATURE, 0.5 + n / 50, n)
    assert len(narrow.cache) < 60, "the cache was never full"
    assert all(key in narrow.cache for key in mine)


def test_two_visitors_at_once_are_never_mixed(make_line: Make) -> None:
    """Sentences of other lengths, other heads, other sliders: 30 frames each, in two threads."""
    warmths, widths = [0.2 + n for n in range(30)], [n % 7 for n in range(30)]
    visitors = [
        (make_line("The cat sat.", Place("cross", 1, 0)), TEMPERATURE, warmths),
        (make_line("A dog and a cat.", Place("encoder", 2, 1)), WINDOW, widths),
    ]
    start = threading.Barrier(2)

    def walk(line: LiveSession, slider: Any, values: list[Any]) -> list[dict[str, bytes]]:
        start.wait()
        return [parts(live.frame(line, slider, value, n)) for n, value in enumerate(values)]

    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(walk, *visitor) for visitor in visitors]
        found = [run.result(60) for run in runs]
    for (line, slider, values), frames in zip(visitors, found, strict=True):
        for n, (value, frame) in enumerate(zip(values, frames, strict=True)):
            changes = slider.moved(Intervention(), line.view.place, value)
            assert frame == expected(line, changes, n), (slider, value)
    assert found[0][0]["head"] != found[1][0]["head"]


def test_a_line_lives_as_long_as_its_visit(make_line: Make) -> None:
    lines, held, other = Exchange(), make_line(), make_line()
    lines.add(held)
    token = held.token
    assert lines.line(token) is held and len(lines) == 1
    assert other.token != token and len(token) >= 43  # 256 bits as letters
    del held
    gc.collect()
    with pytest.raises(KeyError):
        lines.line(token)
    assert len(lines) == 0


# ---- the routes of the server ------------------------------------------------------------------


def ask(token: str, path: str = "/live/", method: str = "GET", **words: Any) -> tuple[int, Any]:
    """Send one request to the real routes; return status, and headers and body of the answer."""
    asked = scope(path + token, method=method, query_string=urlencode(words).encode())
    status, headers, body = answered(Starlette(routes=server.routes()), asked)
    return status, (headers, body)


def test_the_server_answers_with_a_frame_that_nobody_keeps_or_packs(make_line: Make) -> None:
    EXCHANGE.add(line := make_line())
    for path in ("/live/", "/some/base/live/"):
        status, (headers, body) = ask(line.token, path, temperature="2.5", seq=3)
        assert status == 200, path
        assert parts(body) == parts(live.frame(line, TEMPERATURE, 2.5, 3)), path
        assert headers["cache-control"] == "no-store", path
        assert headers["content-encoding"] == "identity", path
        assert not [name for name in headers if name.startswith("access-control")], path


def test_requests_for_no_frame_are_refused(make_line: Make) -> None:
    EXCHANGE.add(line := make_line())
    for token in ("", "a", "a" * 43, "..", "%2e%2e", "🙂"):
        status, (_, body) = ask(token, temperature="2", seq=1)
        assert status == 404 and line.token.encode() not in body, token
    assert ask(line.token, method="POST", temperature="2", seq=1)[0] == 405
    for words in (
        {}, {"temperature": "2"}, {"seq": 1}, {"temperature": "2", "seq": "-1"},
        {"temperature": "2", "seq": "1" * 40}, {"temperature": "2", "seq": "²"},
        {"temperature": "hot", "seq": 1}, {"temperature": "nan", "seq": 1},
        {"temperature": "-1", "seq": 1}, {"window": "2.5", "seq": 1},
        {"temperature": "2", "window": "2", "seq": 1}, {"pad": "3", "seq": 1},
    ):  # fmt: skip
        status, (_, body) = ask(line.token, **words)
        assert status == 400 and body.decode().endswith(".") and len(body) < 200, words
    nowhere = Temperature(value=2.0, layer=77)  # an edit that cannot be made
    EXCHANGE.add(line := make_line("The cat sat.", PLACE, nowhere))
    status, (_, body) = ask(line.token, window="3", seq=1)
    assert status == 409 and b"matches no place" in body


def test_frames_that_end_otherwise(make_line, monkeypatch, capsys) -> None:
    """Given up, a frame has no body; an error of ours is told to the operator alone."""
    EXCHANGE.add(line := make_line())

    def asked(error: Exception) -> tuple[int, bytes]:
        def frame(*words: Any) -> bytes:
            raise error

        monkeypatch.setattr(live, "frame", frame)
        status, (_, body) = ask(line.token, temperature="2", seq=1)
        return status, body

    assert asked(Abandoned("Nobody waits for this work any more."))[0] == 204
    status, body = asked(RuntimeError("a secret path"))
    assert status == 500 and b"secret" not in body and b"RuntimeError" in body
    assert "a secret path" in capsys.readouterr().err


# ---- on the page -------------------------------------------------------------------------------


def sliders(app: AppTest) -> dict[str, dict[str, Any]]:
    """Return what each slider was sent, by its name."""
    return {name: decoded(component(app, f"slider-{name}").bytes)[0] for name in SLIDERS}


def of_all(app: AppTest, name: str) -> Any:
    """Return the one value of that name that all sliders were sent."""
    (found,) = {header[name] for header in sliders(app).values()}
    return found


def edits_of(app: AppTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(str(app.session_state["edits"]))["edits"]
    return found


def moved(app: AppTest, value: Any, seq: int, stroke: int = 1, name: str = "temperature") -> None:
    trigger(app, name, "moved", {"value": value, "seq": seq, "stroke": stroke})


def test_a_move_is_written_into_the_edits_and_the_link(visit: Visit) -> None:
    app = visit(block="cross", layer="1", head="1")
    assert set(sliders(app)) == set(SLIDERS) and of_all(app, "line") == ""  # without the server
    slide(app, "temperature", "2.0")
    assert [(edit["kind"], edit["value"]) for edit in edits_of(app)] == [("temperature", 2.0)]
    assert edits_of(app)[0]["head"] == 1 and json.loads(address(app)["edits"])
    slide(app, "window", "3")
    assert [edit["kind"] for edit in edits_of(app)] == ["temperature", "window"]
    shown = {name: header["values"][header["chosen"]] for name, header in sliders(app).items()}
    assert shown == {"temperature": "2.0", "window": "3"}
    # The server was started anew: a page that outlives its visit finds the next one newer.
    assert of_all(visit(), "seq") > app.session_state["_frame_number"]
    slide(app, "temperature", "1.0")
    slide(app, "window", "off")
    assert edits_of(app) == [] and "edits" not in address(app)
    for said in (
        None, 3, "x", [], {}, {"value": "2.0"}, {"value": "2.0", "seq": "1"},
        {"value": "2.0", "seq": -1}, {"value": "2.0", "seq": 10**30}, {"value": "hot", "seq": 1},
        {"value": None, "seq": 1}, {"value": {"a": 1}, "seq": 1},
    ):  # fmt: skip
        trigger(app, "temperature", "moved", said)
        assert not app.exception and not app.error and edits_of(app) == [], said
    app = visit(scope="everything")  # a move reaches as far as is chosen
    slide(app, "temperature", "2.0")
    assert edits_of(app) == [{"kind": "temperature", "value": 2.0}]


def test_one_stroke_of_the_hand_is_one_step_back(visit: Visit) -> None:
    app = visit()

    def press(key: str) -> list[float]:
        app.button(key=key).click().run()
        return [edit["value"] for edit in edits_of(app)]

    for seq, value in enumerate(("2.0", "3.0", "1.0"), start=2):
        moved(app, value, seq)
    assert edits_of(app) == [] and app.button(key="undo").disabled  # it came back: no step
    moved(app, "2.0", 15, 11)  # the hand rests
    moved(app, "4.0", 19, 11)  # and lets go
    moved(app, "3.0", 22, 20)  # another stroke
    assert edits_of(app)[0]["value"] == 3.0
    assert press("undo") == [4.0]
    assert press("undo") == [] and app.button(key="undo").disabled
    assert press("redo") == [4.0]
    moved(app, "5.0", 30, 11)  # what was undone and redone in between is another step
    assert press("undo") == [4.0]


def test_every_part_is_told_the_newest_number_that_python_heard(visit: Visit) -> None:
    app = visit()
    seq = app.session_state["_frame_number"] + 41
    moved(app, "2.0", seq)
    moved(app, "3", seq - 1, name="window")  # overtaken
    assert of_all(app, "seq") == seq
    assert {decoded(component(app, name).bytes)[0]["seq"] for name in ("atlas", "head")} == {seq}
    moved(app, "no number", seq + 9, name="window")
    window = sliders(app)["window"]
    assert window["seq"] == seq + 9  # the browser waits for it
    assert window["values"][window["chosen"]] == "3"


def test_a_visit_keeps_its_line_and_shows_its_newest_scene(visit: Visit, opened: Exchange) -> None:
    app = visit(block="encoder", layer="2")
    first = of_all(app, "line")
    slide(app, "temperature", "2.0")
    app.text_input(key="text").set_value("A dog sat.").run()
    path = of_all(app, "line")
    assert first == path and path.startswith(registry.PATH.lstrip("/") + "/")
    token = path.rpartition("/")[2]
    view = opened.line(token).view
    assert view.question.text == "A dog sat." and view.place.map_name == "encoder"
    assert [edit.to_dict()["value"] for edit in view.changes] == [2.0]
    assert of_all(visit(), "line") != path
    # A line is relative to the page.
    for below in ("http://viz.example/", "http://viz.example/lessons/"):
        for page in ("", "norms"):
            assert urljoin(below + page, path) == f"{below}live/{token}", page


def test_a_live_frame_is_what_the_page_then_sends(visit: Visit, opened: Exchange) -> None:
    app = visit(block="cross", layer="1")
    token = of_all(app, "line").rpartition("/")[2]
    seq = app.session_state["_frame_number"] + 7
    status, (_, body) = ask(token, temperature="2.5", seq=seq)
    assert status == 200
    frame = parts(body)
    moved(app, "2.5", seq)
    for name in ("atlas", "head"):
        assert component(app, name).bytes == frame[name], name
        assert np.frombuffer(frame[name], np.uint8).size > 1000, name
