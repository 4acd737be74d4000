"""Live frames without a browser: what they show, whose they are, and how the server answers."""

from __future__ import annotations

import asyncio
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

pytestmark = pytest.mark.app
PLACE = Place("cross", 1, 0)
Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def engine(shelf: Path) -> Engine:
    return Engine(str(shelf / "tiny"))


@pytest.fixture(scope="module")
def make_line(engine: Engine) -> Callable[..., LiveSession]:
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
    """The parts as the page itself would send them under these changes."""
    view = line.view
    seen = replace(view.look, seq=seq)
    scene = scene_at(view.engine, view.question, view.kind, view.place, changes, seen)
    return {name: draw(scene) for name, draw in PARTS.items()}


@pytest.mark.parametrize("seq", [1, 9])
def test_a_frame_holds_what_the_page_would_send(
    make_line: Callable[..., LiveSession], seq: int
) -> None:
    line = make_line()
    warm = Intervention((Temperature(value=2.5, **PLACE.selectors),))
    blob = live.frame(line, TEMPERATURE, 2.5, seq)
    assert decoded(blob)[0]["seq"] == seq
    assert parts(blob) == expected(line, warm, seq) != expected(line, Intervention(), seq)
    assert line.view.changes == Intervention()  # a frame shows a change; the page makes it


def test_a_frame_changes_one_edit_and_keeps_the_others(
    make_line: Callable[..., LiveSession],
) -> None:
    narrow = Window(radius=2, stack="encoder", block="self")
    line = make_line("The cat sat.", PLACE, narrow, Temperature(value=4.0, **PLACE.selectors))
    found = parts(live.frame(line, TEMPERATURE, 0.5, 1))
    both = Intervention((narrow, Temperature(value=0.5, **PLACE.selectors)))
    assert found == expected(line, both, 1)
    assert parts(live.frame(line, TEMPERATURE, 1.0, 1)) == expected(
        line, Intervention((narrow,)), 1
    )


def test_the_newest_frame_of_a_visit_lets_older_ones_give_up(
    make_line: Callable[..., LiveSession], engine: Engine, monkeypatch: pytest.MonkeyPatch
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


def test_what_is_remembered_of_a_flood_puts_out_its_own_runs(
    make_line: Callable[..., LiveSession], shelf: Path
) -> None:
    """All frames of a visit are its own in the cache: those of another stay, its clean run too."""
    lines, narrow = (
        [make_line(text) for text in ("A dog ran.", "The cat sat.")],
        Engine(str(shelf / "tiny"), limit=1_500_000),
    )
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


def test_two_visitors_at_once_are_never_mixed(make_line: Callable[..., LiveSession]) -> None:
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
            assert frame == expected(line, changes, n)
    assert found[0][0]["head"] != found[1][0]["head"]


def test_a_line_lives_as_long_as_its_visit(make_line: Callable[..., LiveSession]) -> None:
    lines, held = Exchange(), make_line()
    lines.add(held)
    assert lines.line(held.token) is held and len(lines) == 1
    other = make_line()
    assert other.token != held.token and len(held.token) >= 43  # 256 bits as letters
    token = held.token
    del held
    gc.collect()
    with pytest.raises(KeyError):
        lines.line(token)
    assert len(lines) == 0


def ask(token: str, path: str = "/live/", method: str = "GET", **words: Any) -> tuple[int, Any]:
    """One request through the real routes: status, headers and body of the answer."""
    sent: list[dict[str, Any]] = []
    scope = {
        "type": "http", "method": method, "path": path + token, "headers": [],
        "query_string": urlencode(words).encode(), "http_version": "1.1", "scheme": "http",
        "server": ("127.0.0.1", 1), "client": ("127.0.0.1", 2), "root_path": "",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        pool.submit(asyncio.run, Starlette(routes=server.routes())(scope, receive, send)).result()
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], (headers, b"".join(part.get("body", b"") for part in sent[1:]))


@pytest.mark.parametrize("path", ["/live/", "/some/base/live/"])
def test_the_server_answers_with_a_frame_that_nobody_keeps_or_packs(
    make_line: Callable[..., LiveSession], path: str
) -> None:
    line = make_line()
    EXCHANGE.add(line)
    status, (headers, body) = ask(line.token, path, temperature="2.5", seq=3)
    assert status == 200 and parts(body) == parts(live.frame(line, TEMPERATURE, 2.5, 3))
    assert headers["cache-control"] == "no-store"
    assert headers["content-encoding"] == "identity"
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("token", ["", "a", "a" * 43, "..", "%2e%2e", "🙂"])
def test_a_token_that_nobody_has_gets_nothing(
    token: str, make_line: Callable[..., LiveSession]
) -> None:
    EXCHANGE.add(line := make_line())
    status, (_, body) = ask(token, temperature="2", seq=1)
    assert status == 404 and line.token.encode() not in body


def test_only_reading_is_allowed(make_line: Callable[..., LiveSession]) -> None:
    EXCHANGE.add(line := make_line())
    assert ask(line.token, method="POST", temperature="2", seq=1)[0] == 405


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"temperature": "2"},
        {"seq": 1},
        {"temperature": "2", "seq": "-1"},
        {"temperature": "2", "seq": "1" * 40},
        {"temperature": "2", "seq": "²"},
        {"temperature": "hot", "seq": 1},
        {"temperature": "nan", "seq": 1},
        {"temperature": "-1", "seq": 1},
        {"window": "2.5", "seq": 1},
        {"temperature": "2", "window": "2", "seq": 1},
        {"pad": "3", "seq": 1},
    ],
)
def test_what_is_no_step_gets_a_sentence(
    make_line: Callable[..., LiveSession], words: dict[str, Any]
) -> None:
    EXCHANGE.add(line := make_line())
    status, (_, body) = ask(line.token, **words)
    assert status == 400
    assert body.decode().endswith(".") and len(body) < 200


def test_an_edit_that_cannot_be_made_gets_its_sentence(
    make_line: Callable[..., LiveSession],
) -> None:
    nowhere = Temperature(value=2.0, layer=77)
    EXCHANGE.add(line := make_line("The cat sat.", PLACE, nowhere))
    status, (_, body) = ask(line.token, window="3", seq=1)
    assert status == 409 and b"matches no place" in body


def test_a_frame_that_is_given_up_has_no_body(
    make_line: Callable[..., LiveSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives_up(*words: Any) -> bytes:
        raise Abandoned("Nobody waits for this work any more.")

    EXCHANGE.add(line := make_line())
    monkeypatch.setattr(live, "frame", gives_up)
    assert ask(line.token, temperature="2", seq=1)[0] == 204


def test_an_error_of_ours_is_told_to_the_operator_alone(
    make_line: Callable[..., LiveSession],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def breaks(*words: Any) -> bytes:
        raise RuntimeError("a secret path")

    EXCHANGE.add(line := make_line())
    monkeypatch.setattr(live, "frame", breaks)
    status, (_, body) = ask(line.token, temperature="2", seq=1)
    assert status == 500 and b"secret" not in body and b"RuntimeError" in body
    assert "a secret path" in capsys.readouterr().err


# On the page ---------------------------------------------------------------------------------


def sliders(app: AppTest) -> dict[str, dict[str, Any]]:
    """What each slider was sent, by its name."""
    return {name: decoded(component(app, f"slider-{name}").bytes)[0] for name in SLIDERS}


def edits_of(app: AppTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(str(app.session_state["edits"]))["edits"]
    return found


def test_a_move_is_written_into_the_edits_and_the_link(visit: Visit) -> None:
    app = visit(block="cross", layer="1", head="1")
    assert set(sliders(app)) == set(SLIDERS)
    slide(app, "temperature", "2.0")
    assert [(edit["kind"], edit["value"]) for edit in edits_of(app)] == [("temperature", 2.0)]
    assert edits_of(app)[0]["head"] == 1 and json.loads(address(app)["edits"])
    slide(app, "window", "3")
    assert [edit["kind"] for edit in edits_of(app)] == ["temperature", "window"]
    shown = {name: header["values"][header["chosen"]] for name, header in sliders(app).items()}
    assert shown == {"temperature": "2.0", "window": "3"}
    slide(app, "temperature", "1.0")
    slide(app, "window", "off")
    assert edits_of(app) == [] and "edits" not in address(app)


def test_a_move_reaches_as_far_as_is_chosen(visit: Visit) -> None:
    app = visit(scope="everything")
    slide(app, "temperature", "2.0")
    assert edits_of(app) == [{"kind": "temperature", "value": 2.0}]


def test_one_stroke_of_the_hand_is_one_step_back(visit: Visit) -> None:
    app = visit()

    def left(value: str, seq: int, stroke: int) -> None:
        trigger(app, "temperature", "moved", {"value": value, "seq": seq, "stroke": stroke})

    left("2.0", 5, 1)  # the hand rests
    left("4.0", 9, 1)  # and lets go
    left("3.0", 12, 10)  # another stroke
    assert edits_of(app)[0]["value"] == 3.0
    app.button(key="undo").click().run()
    assert edits_of(app)[0]["value"] == 4.0
    app.button(key="undo").click().run()
    assert edits_of(app) == [] and app.button(key="undo").disabled
    app.button(key="redo").click().run()
    assert edits_of(app)[0]["value"] == 4.0
    left("5.0", 20, 1)  # what was undone and redone in between is another step
    app.button(key="undo").click().run()
    assert edits_of(app)[0]["value"] == 4.0


def test_a_stroke_that_comes_back_is_no_step(visit: Visit) -> None:
    app = visit()
    for seq, value in enumerate(("2.0", "3.0", "1.0"), start=2):
        trigger(app, "temperature", "moved", {"value": value, "seq": seq, "stroke": 1})
    assert edits_of(app) == [] and app.button(key="undo").disabled


@pytest.mark.parametrize(
    "said",
    [None, 3, "x", [], {}, {"value": "2.0"}, {"value": "2.0", "seq": "1"},
     {"value": "2.0", "seq": -1}, {"value": "2.0", "seq": 10**30}, {"value": "hot", "seq": 1},
     {"value": None, "seq": 1}, {"value": {"a": 1}, "seq": 1}],
)  # fmt: skip
def test_anything_may_come_from_a_browser(visit: Visit, said: object) -> None:
    app = visit()
    trigger(app, "temperature", "moved", said)
    assert not app.exception and not app.error and edits_of(app) == []


def test_a_page_that_outlives_its_visit_finds_the_next_one_newer(visit: Visit) -> None:
    # The server was started anew: the page stays, and with it what it knows to be the newest.
    before = visit()
    slide(before, "temperature", "2.0")
    seen = before.session_state["_frame_number"]
    after = {header["seq"] for header in sliders(visit()).values()}
    assert min(after) > seen


def test_what_python_has_heard_of_is_told_to_every_part(visit: Visit) -> None:
    app = visit()
    seq = app.session_state["_frame_number"] + 41
    trigger(app, "temperature", "moved", {"value": "2.0", "seq": seq, "stroke": 1})
    trigger(app, "window", "moved", {"value": "3", "seq": seq - 1, "stroke": 1})  # overtaken
    assert {header["seq"] for header in sliders(app).values()} == {seq}
    assert {decoded(component(app, name).bytes)[0]["seq"] for name in ("atlas", "head")} == {seq}
    trigger(app, "window", "moved", {"value": "no number", "seq": seq + 9, "stroke": 1})
    assert sliders(app)["window"]["seq"] == seq + 9  # the browser waits for it
    assert sliders(app)["window"]["values"][sliders(app)["window"]["chosen"]] == "3"


def test_without_the_server_there_is_no_line(visit: Visit) -> None:
    assert {header["line"] for header in sliders(visit()).values()} == {""}


def test_a_visit_keeps_its_line_and_shows_its_newest_scene(visit: Visit, opened: Exchange) -> None:
    app = visit(block="encoder", layer="2")
    first = {header["line"] for header in sliders(app).values()}
    slide(app, "temperature", "2.0")
    app.text_input(key="text").set_value("A dog sat.").run()
    (path,) = {header["line"] for header in sliders(app).values()}
    assert first == {path} and path.startswith(registry.PATH.lstrip("/") + "/")
    view = opened.line(path.rpartition("/")[2]).view
    assert view.question.text == "A dog sat." and view.place.map_name == "encoder"
    assert [edit.to_dict()["value"] for edit in view.changes] == [2.0]
    (other,) = {header["line"] for header in sliders(visit()).values()}
    assert other != path


@pytest.mark.parametrize("base", ["", "lessons"])
@pytest.mark.parametrize("page", ["", "norms"])
def test_a_line_is_relative_to_the_page(
    visit: Visit, opened: Exchange, base: str, page: str
) -> None:
    (path,) = {header["line"] for header in sliders(visit()).values()}
    below = f"http://viz.example/{base + '/' if base else ''}"
    assert urljoin(below + page, path) == f"{below}live/{path.rpartition('/')[2]}"


def test_a_live_frame_is_what_the_page_then_sends(visit: Visit, opened: Exchange) -> None:
    app = visit(block="cross", layer="1")
    path = sliders(app)["temperature"]["line"]
    seq = app.session_state["_frame_number"] + 7
    status, (_, body) = ask(path.rpartition("/")[2], temperature="2.5", seq=seq)
    assert status == 200
    frame = parts(body)
    trigger(app, "temperature", "moved", {"value": "2.5", "seq": seq, "stroke": 1})
    for name in ("atlas", "head"):
        assert component(app, name).bytes == frame[name]
        assert np.frombuffer(frame[name], np.uint8).size > 1000
