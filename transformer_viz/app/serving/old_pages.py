"""Reconnection of pages that outlive their session: a killed worker, or a sleeping laptop.

The browser reconnects and Streamlit starts a new session, in which nothing is drawn yet. The page's
message is about controls and a fragment unknown to this session, so Streamlit drops it silently.
Here such a page is first drawn from its link, and then receives the message: the user's move
counts, with a delay of seconds.

A session that still exists may have lost a run: Streamlit stops it when the connection breaks. Its
unsent messages would empty the page, so they are discarded. The reconnected browser requests the
run once more (``connection.js``), with the values of all its controls and without old clicks.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import cache
from urllib.parse import parse_qs, urlencode
from weakref import WeakValueDictionary

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from ..ui.streamlit_private import discard_unsent, is_replaced, is_running, key_of, session_id

STREAM = "/_stcore/stream"  # address of the websocket, below the path of the app
#: Seconds that a run goes on without its browser: an interrupted callback would not be repeated.
GRACE = 2.0
STEP = 0.02  # seconds between two checks of its end
SESSION = 2  # index of the session's name in the subprotocols sent by a browser
#: Values of clicks, sent once; all other values of controls are sent again and again.
CLICKS = ("trigger_value", "string_trigger_value", "chat_input_value", "json_trigger_value")
#: Keys of the link that are typed.
TYPED = ("text", "second", "target")


class Visit:
    """Session of this process; it vanishes when Streamlit drops the session's state."""


VISITS: WeakValueDictionary[str, Visit] = WeakValueDictionary()


def note_visit() -> None:
    """Register the session of a page run."""
    # Imported here, as below: the server answers while its pages are still imported.
    from ..session.keys import private

    name = session_id()
    if private.visit is None and name is not None:
        private.visit = VISITS[name] = Visit()


class OldPages:
    """ASGI middleware that first draws a page whose session is gone."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "websocket" and scope["path"].endswith(STREAM)
        offered = scope.get("subprotocols", []) if is_page else []
        if not is_page:
            await self.app(scope, receive, send)
            return
        name = offered[SESSION] if len(offered) > SESSION else ""
        line = _Connection(receive, send, name if name in VISITS else "")
        if not name or name in VISITS:
            await self.app(scope, line.receive, line.send)
            return
        page = _Page(line.receive, line.send)
        try:
            await self.app(scope, page.receive, page.send)
        finally:
            page.end()


class _Connection:
    """Connection of a page; Streamlit receives its end after the last callbacks have run.

    Args:
        receive: Returns messages of the browser.
        send: Sends messages to the browser.
        visit: Session to which the browser returns; empty for a new one.
    """

    def __init__(self, receive: Receive, send: Send, visit: str) -> None:
        self._receive, self._send, self._visit = receive, send, visit
        self._asked_at = -GRACE
        self._open = True

    async def receive(self) -> Message:
        """Return the next message of the browser."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._open = False
            await asyncio.sleep(self._asked_at + GRACE - time.monotonic())
        elif (said := _rerun(message)) is not None:
            self._asked_at = time.monotonic()
            if self._visit:
                end = self._asked_at + GRACE
                while is_running(self._visit) and time.monotonic() < end:  # requested to stop
                    await asyncio.sleep(STEP)
                message = _ask_anew(said, self._visit)
                self._visit = ""
        return message

    async def send(self, message: Message) -> None:
        """Send a message, unless it is of an earlier run, or the browser is gone."""
        if message["type"] == "websocket.send" and (self._visit or not self._open):
            return
        try:
            await self._send(message)
        except OSError:  # Streamlit would stop the run at once
            self._open = False


class _Page:
    """Connection of such a page, which holds its message back until the page is drawn."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._held: Message | None = None
        self._asked = False
        self._drawn = asyncio.Event()
        self._coming: asyncio.Task[Message] | None = None

    async def receive(self) -> Message:
        """Return the next message of the browser; before it a request to draw the page."""
        if self._held is not None:
            return await self._after_drawing()
        message = await self._next()
        if self._asked:
            return message
        said = _rerun(message)
        if said is None:
            return message
        self._asked = True
        wish = said.rerun_script
        if not (wish.fragment_id or wish.widget_states.widgets):  # a page without controls
            return message
        if not (wish.fragment_id or _has_click(said)):
            if not _typed(said):  # it only restores its state, which its link contains
                return message
            _leave_to_link(said)
        self._held = {"type": "websocket.receive", "bytes": said.SerializeToString()}
        wish.fragment_id = ""
        wish.ClearField("widget_states")
        return {"type": "websocket.receive", "bytes": said.SerializeToString()}

    async def _after_drawing(self) -> Message:
        """Return the held message once the page is drawn, or the browser's disconnection."""
        self._coming = self._coming or asyncio.ensure_future(self._receive())
        drawn = asyncio.ensure_future(self._drawn.wait())
        try:
            await asyncio.wait({self._coming, drawn}, return_when=asyncio.FIRST_COMPLETED)
            if not drawn.done() and self._coming.result()["type"] != "websocket.disconnect":
                await drawn  # further messages wait behind the first one
        finally:
            drawn.cancel()
        held, self._held = self._held, None
        if not self._drawn.is_set() or held is None:
            return await self._next()
        return held

    async def _next(self) -> Message:
        coming, self._coming = self._coming, None
        return await (self._receive() if coming is None else coming)

    async def send(self, message: Message) -> None:
        """Send a message unchanged; note the end of the first drawing."""
        await self._send(message)
        if self._held is not None and message["type"] == "websocket.send":
            told = ForwardMsg()
            with suppress(DecodeError):
                told.ParseFromString(message.get("bytes") or b"")
            ended = told.HasField("script_finished")
            if ended and told.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                self._drawn.set()

    def end(self) -> None:
        if self._coming is not None:
            self._coming.cancel()


def _rerun(message: Message) -> BackMsg | None:
    """Return a browser's request to run the page; None for any other message."""
    said = BackMsg()
    with suppress(DecodeError):
        said.ParseFromString(message.get("bytes") or b"")
    return said if said.HasField("rerun_script") else None


def _ask_anew(said: BackMsg, visit: str) -> Message:
    """Return the first request of a browser that returns to its session.

    The session knows its link, which the browser may not have received, so it is sent again. The
    browser may not know a newer page or its controls either; values of the last page are left out.
    """
    from ..session.url_state import others

    wish, page = said.rerun_script, discard_unsent(visit)
    if not wish.is_history_navigation:
        link = {key: values[0] for key, values in parse_qs(wish.query_string).items()}
        wish.query_string = urlencode(others(link))
        if page not in ("", wish.page_script_hash):
            wish.page_script_hash, wish.fragment_id = page, ""
            wish.ClearField("widget_states")
        kept = [one for one in wish.widget_states.widgets if not is_replaced(visit, one.id)]
        del wish.widget_states.widgets[:]
        wish.widget_states.widgets.extend(kept)
    return {"type": "websocket.receive", "bytes": said.SerializeToString()}


def _has_click(said: BackMsg) -> bool:
    """Return True if a button, or another control that acts once, was used."""
    return any(one.WhichOneof("value") in CLICKS for one in said.rerun_script.widget_states.widgets)


def _typed(said: BackMsg) -> bool:
    """Return True if an input of the frame has text that the link lacks: it came too late."""
    wish = said.rerun_script
    link = parse_qs(wish.query_string)
    return any(
        one.WhichOneof("value") == "string_value" and [one.string_value] != link.get(key_of(one.id))
        for one in wish.widget_states.widgets
        if key_of(one.id) in TYPED
    )


def _leave_to_link(said: BackMsg) -> None:
    """Remove old values of controls for which the link has newer ones.

    The link is written before a page is drawn. A browser that was disconnected in between shows
    older values, which are no moves of the user.
    """
    widgets = said.rerun_script.widget_states.widgets
    kept = [one for one in widgets if key_of(one.id) not in _linked()]
    del widgets[:]
    widgets.extend(kept)


@cache
def _linked() -> frozenset[str]:
    """Return the keys of the link with controls on the page; the link has their newest values."""
    from ..session.url_state import DEFAULTS
    from ..session.visit import FRAME

    return frozenset(DEFAULTS) - frozenset(FRAME) - {"lang"}
