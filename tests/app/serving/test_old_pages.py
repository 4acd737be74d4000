"""A page whose visit is gone is drawn from its link first; one whose visit is here asks itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.app.live.test_visit_limits import run
from transformer_viz.app.serving import old_pages
from transformer_viz.app.serving.old_pages import OldPages, Visit

QUERY = "text=The+cat+sat."


def wish(fragment: str = "", click: str = "", **controls: str) -> Message:
    """A browser's wish to run its page."""
    said = BackMsg()
    asked = said.rerun_script
    asked.query_string, asked.fragment_id = QUERY, fragment
    for key, value in controls.items():
        state = asked.widget_states.widgets.add()
        state.id, state.string_value = f"$$ID-0123-{key}", value
    if click:
        state = asked.widget_states.widgets.add()
        state.id, state.json_trigger_value = "$$ID-0123-slider", click
    return {"type": "websocket.receive", "bytes": said.SerializeToString()}


def ended(status: Any = ForwardMsg.FINISHED_SUCCESSFULLY) -> Message:
    told = ForwardMsg()
    told.script_finished = status
    return {"type": "websocket.send", "bytes": told.SerializeToString()}


def heard(
    *said: Message, ends: tuple[Message, ...] = (ended(),), name: str = "gone"
) -> list[BackMsg | str]:
    """What the app hears of what a browser says; its first run ends with ``ends``."""
    found: list[BackMsg | str] = []

    async def receive() -> Message:
        if not waiting:
            await asyncio.sleep(0.2)  # nothing more is said for a while
            return {"type": "websocket.disconnect"}
        return waiting.pop(0)

    async def send(message: Message) -> None:
        pass

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def draw() -> None:
            await asyncio.sleep(0.05)
            for one in ends:
                found.append("told")
                await send(one)

        drawing = None
        while (message := await receive())["type"] != "websocket.disconnect":
            told = BackMsg()
            told.ParseFromString(message["bytes"])
            found.append(told)
            if drawing is None and told.HasField("rerun_script"):
                drawing = asyncio.ensure_future(draw())
        found.append("gone")
        if drawing is not None:
            await drawing

    waiting = list(said)
    scope = {
        "type": "websocket",
        "path": "/viz/_stcore/stream",
        "subprotocols": ["streamlit", "x", name],
    }
    run(OldPages(app)(scope, receive, send))
    return found


def controls(one: BackMsg | str) -> list[str]:
    assert isinstance(one, BackMsg)
    states = one.rerun_script.widget_states.widgets
    return [old_pages.key_of(state.id) for state in states]


def test_a_move_of_a_page_without_a_visit_comes_after_the_page() -> None:
    moved = wish("page", "[1]", text="The cat sat.", head="3")
    first, told, again, more, gone = heard(moved, wish("page", "[2]"))
    assert isinstance(first, BackMsg) and isinstance(again, BackMsg) and isinstance(more, BackMsg)
    assert (first.rerun_script.fragment_id, controls(first)) == ("", [])
    assert first.rerun_script.query_string == QUERY
    assert (told, gone) == ("told", "gone")
    assert again.SerializeToString() == moved["bytes"]
    assert more.rerun_script.widget_states.widgets[0].json_trigger_value == "[2]"


def test_a_run_that_begins_anew_has_not_drawn_the_page() -> None:
    ends = ended(ForwardMsg.FINISHED_EARLY_FOR_RERUN), ended()
    assert [type(one) for one in heard(wish("page"), ends=ends)] == [
        BackMsg,
        str,
        str,
        BackMsg,
        str,
    ]


@pytest.mark.parametrize(
    "said",
    [wish(), wish(head="3"), wish(text="The cat sat.", head="3")],
    ids=["a new page", "nothing of the hand", "what the link says too"],
)
def test_what_the_link_says_is_asked_once(said: Message) -> None:
    first, *rest = heard(said)
    assert isinstance(first, BackMsg) and first.SerializeToString() == said["bytes"]
    assert not any(isinstance(one, BackMsg) for one in rest)


def test_words_that_came_too_late_for_the_link_are_not_lost() -> None:
    first, _, again, _ = heard(wish(text="The dog slept.", head="3", unfolded="on"))
    assert controls(first) == []
    assert controls(again) == ["text", "unfolded"]  # of the head the link says the newest


def test_a_visit_that_is_here_and_a_browser_without_one_are_left_alone() -> None:
    said = wish("page", "[1]", head="3")
    old_pages.VISITS["here"] = visit = Visit()
    for name in ("here", ""):
        first, *_ = heard(said, name=name)
        assert isinstance(first, BackMsg) and controls(first)[:1] == ["head"], name
    del visit
    assert "here" not in old_pages.VISITS


def test_what_a_stopped_run_left_is_discarded_until_the_browser_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    discarded: list[str] = []

    def discard(name: str) -> str:
        discarded.append(name)
        return ""

    monkeypatch.setattr(old_pages, "discard_unsent", discard)
    old_pages.VISITS["here"] = visit = Visit()
    told, waits = _connection("here", ["send", wish("page"), "send", wish()])
    assert (len(told), discarded) == (1, ["here"])
    assert waits < old_pages.GRACE / 2  # its browser is still there
    for name, sends in (("gone", 2), ("", 2)):  # in a new visit nothing is left of another one
        assert len(_connection(name, ["send", wish(), "send"])[0]) == sends, name
    assert discarded == ["here"] and visit


def test_a_browser_that_did_not_hear_of_a_page_or_a_link_does_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old_pages.VISITS["here"] = visit = Visit()
    for page, kept in (("", ["head"]), ("ab", ["head"]), ("cd", [])):
        monkeypatch.setattr(old_pages, "discard_unsent", lambda name, page=page: page)
        said = BackMsg()
        said.ParseFromString(wish(head="3")["bytes"])
        said.rerun_script.page_script_hash = "ab"
        said.rerun_script.query_string += "&embed=true"
        told = {"type": "websocket.receive", "bytes": said.SerializeToString()}
        first, second, _ = heard(told, told, name="here")[:3]
        assert isinstance(first, BackMsg) and controls(first) == kept, page
        assert first.rerun_script.page_script_hash == (page or "ab")
        assert first.rerun_script.query_string == "embed=true"  # the rest is sent anew
        assert second == said, page
    assert visit


def test_a_run_goes_on_for_a_moment_after_its_browser_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(old_pages, "GRACE", 0.2)
    told, waits = _connection("", [wish(), "leave", "send"])
    assert 0.15 < waits < 0.4 and told == []
    assert _connection("", [wish(), "broken", "leave"])[1] > 0.15
    assert _connection("", ["leave"])[1] < 0.1


def _connection(name: str, steps: list[Message | str]) -> tuple[list[Message], float]:
    """Return what a browser is told in these steps, and seconds until its app hears of its end.

    Args:
        name: of the visit that it comes back to.
        steps: what it says; ``send``: the app tells it something; ``broken``: that fails;
            ``leave``: it is gone.
    """
    told: list[Message] = []
    took: list[float] = []
    broken: list[bool] = []

    async def receive() -> Message:
        return saying[0]

    async def send(message: Message) -> None:
        if broken:
            raise OSError("The line is closed.")
        told.append(message)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        began = asyncio.get_running_loop().time()
        for step in steps:
            if step in ("send", "broken"):
                broken.extend([True] * (step == "broken"))
                await send(ended())
            else:
                saying[:] = [{"type": "websocket.disconnect"} if step == "leave" else step]
                await receive()
        took.append(asyncio.get_running_loop().time() - began)

    saying: list[Any] = []
    names = {"subprotocols": ["streamlit", "x", name] if name else ["streamlit", "x"]}
    scope = {"type": "websocket", "path": "/_stcore/stream", **names}
    run(OldPages(app)(scope, receive, send))
    return told, took[0]


def test_a_browser_that_leaves_while_its_page_is_drawn_is_gone() -> None:
    found = heard(wish("page", "[1]"), ends=())
    assert [type(one) for one in found] == [BackMsg, str] and found[-1] == "gone"
