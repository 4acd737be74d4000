"""A page whose visit is gone is drawn from its link first; one whose visit is here asks itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.support.asgi import run, scope
from transformer_viz.app.serving import old_pages
from transformer_viz.app.serving.old_pages import OldPages, Visit

QUERY = "text=The+cat+sat."


def rerun(fragment: str = "", click: str = "", **controls: str) -> Message:
    """Return a browser's request to run its page."""
    said = BackMsg()
    asked = said.rerun_script
    asked.query_string, asked.fragment_id = QUERY, fragment
    for key, value in controls.items():
        asked.widget_states.widgets.add(id=f"$$ID-0123-{key}", string_value=value)
    if click:
        asked.widget_states.widgets.add(id="$$ID-0123-slider", json_trigger_value=click)
    return {"type": "websocket.receive", "bytes": said.SerializeToString()}


def ended(status: Any = ForwardMsg.FINISHED_SUCCESSFULLY) -> Message:
    told = ForwardMsg(script_finished=status)
    return {"type": "websocket.send", "bytes": told.SerializeToString()}


def socket(name: str) -> Scope:
    """Return the scope of the websocket of a browser that comes back to the visit ``name``."""
    names = ["streamlit", "x", name] if name else ["streamlit", "x"]
    return scope("/viz/_stcore/stream", kind="websocket", subprotocols=names)


def heard(
    *said: Message, ends: tuple[Message, ...] = (ended(),), name: str = "gone"
) -> list[BackMsg | str]:
    """Return what the app receives of a browser's messages; its first run ends with ``ends``."""
    found: list[BackMsg | str] = []
    waiting = list(said)

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
            found.append(told := BackMsg.FromString(message["bytes"]))
            if drawing is None and told.HasField("rerun_script"):
                drawing = asyncio.ensure_future(draw())
        found.append("gone")
        if drawing is not None:
            await drawing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(old_pages, "GRACE", 0)
        run(OldPages(app)(socket(name), receive, send))
    return found


def controls(one: Any) -> list[str]:
    return [old_pages.key_of(state.id) for state in one.rerun_script.widget_states.widgets]


def test_a_move_of_a_page_without_a_visit_comes_after_the_page() -> None:
    moved = rerun("page", "[1]", text="The cat sat.", head="3")
    first, told, again, more, gone = heard(moved, rerun("page", "[2]"))
    assert (first.rerun_script.fragment_id, controls(first)) == ("", [])
    assert first.rerun_script.query_string == QUERY
    assert (told, gone) == ("told", "gone")
    assert again.SerializeToString() == moved["bytes"]
    assert more.rerun_script.widget_states.widgets[0].json_trigger_value == "[2]"
    # A run that begins anew has not drawn the page.
    ends = ended(ForwardMsg.FINISHED_EARLY_FOR_RERUN), ended()
    kinds = [type(one) for one in heard(rerun("page"), ends=ends)]
    assert kinds == [BackMsg, str, str, BackMsg, str]
    # A browser that leaves while its page is drawn is gone.
    found = heard(rerun("page", "[1]"), ends=())
    assert [type(one) for one in found] == [BackMsg, str] and found[-1] == "gone"


def test_only_what_the_link_lacks_is_asked_again() -> None:
    for said in (rerun(), rerun(head="3"), rerun(text="The cat sat.", head="3")):
        first, *rest = heard(said)
        assert first.SerializeToString() == said["bytes"], said
        assert not any(isinstance(one, BackMsg) for one in rest), said
    first, _, again, _ = heard(rerun(text="The dog slept.", head="3", unfolded="on"))
    assert controls(first) == []
    assert controls(again) == ["text", "unfolded"]  # of the head the link says the newest


def test_an_open_visit_and_a_new_browser_are_left_alone() -> None:
    old_pages.VISITS["here"] = visit = Visit()
    for name in ("here", ""):
        first, *_ = heard(rerun("page", "[1]", head="3"), name=name)
        assert controls(first)[:1] == ["head"], name
    del visit
    assert "here" not in old_pages.VISITS


def test_a_browser_that_missed_a_page_or_a_link_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    old_pages.VISITS["here"] = visit = Visit()
    for page, kept in (("", ["head"]), ("ab", ["head"]), ("cd", [])):
        monkeypatch.setattr(old_pages, "discard_unsent", lambda name, page=page: page)
        said = BackMsg.FromString(rerun(head="3")["bytes"])
        said.rerun_script.page_script_hash = "ab"
        said.rerun_script.query_string += "&embed=true"
        told = {"type": "websocket.receive", "bytes": said.SerializeToString()}
        first, second, _ = heard(told, told, name="here")[:3]
        assert controls(first) == kept and second == said, page
        assert first.rerun_script.page_script_hash == (page or "ab")
        assert first.rerun_script.query_string == "embed=true"  # the rest is sent anew
    assert visit


def connected(name: str, steps: list[Message | str]) -> tuple[list[Message], float]:
    """Return what a browser is told in these steps, and seconds until its app hears of its end.

    Args:
        name: of the visit that it comes back to.
        steps: what it says; ``send``: the app tells it something; ``broken``: that fails;
            ``leave``: it is gone.
    """
    told, took, broken, saying = [], [], [], []

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

    run(OldPages(app)(socket(name), receive, send))
    return told, took[0]


def test_what_a_stopped_run_left_is_discarded_until_the_browser_asks(monkeypatch) -> None:
    discarded: list[str] = []
    monkeypatch.setattr(old_pages, "discard_unsent", lambda name: discarded.append(name) or "")
    old_pages.VISITS["here"] = visit = Visit()
    told, waits = connected("here", ["send", rerun("page"), "send", rerun()])
    assert (len(told), discarded) == (1, ["here"])
    assert waits < old_pages.GRACE / 2  # its browser is still there
    for name in ("gone", ""):  # in a new visit nothing is left of another one
        assert len(connected(name, ["send", rerun(), "send"])[0]) == 2, name
    assert discarded == ["here"] and visit


def test_a_run_goes_on_for_a_moment_after_its_browser_is_gone(monkeypatch) -> None:
    monkeypatch.setattr(old_pages, "GRACE", 0.2)
    told, waits = connected("", [rerun(), "leave", "send"])
    assert 0.15 < waits < 0.4 and told == []
    assert connected("", [rerun(), "broken", "leave"])[1] > 0.15
    assert connected("", ["leave"])[1] < 0.1
