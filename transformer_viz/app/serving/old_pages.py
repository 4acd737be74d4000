"""A page that outlives its visit goes on: its worker was killed, or its laptop slept too long.

Its browser connects anew and Streamlit begins a new visit, in which nothing is drawn yet. What the
page then says is about controls and a fragment that this visit does not know, so Streamlit drops
it without a word. Here such a page is drawn from its link first, and then hears what was said: the
visitor's move counts, and nobody notices but by the seconds.

A visit that is still here may have lost a run: Streamlit stops it when the connection breaks. What
is left of it would empty the page, so it is discarded. The browser asks once more when it is
connected again (``connection.js``), with the values of all its controls and without old clicks.
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

STREAM = "/_stcore/stream"  # where pages are open, below the path at which the app is served
#: Seconds that a run goes on without its browser: a callback cut in half would not be called again.
GRACE = 2.0
STEP = 0.02  # seconds between two looks whether it has ended
SESSION = 2  # the place of the visit's name among what a browser offers as subprotocols
#: What a click says, once; all other states of controls are said again and again.
CLICKS = ("trigger_value", "string_trigger_value", "chat_input_value", "json_trigger_value")
#: Keys of the link that somebody types.
TYPED = ("text", "second", "target")


class Visit:
    """One visit of this process; gone when Streamlit lets go of its state."""


VISITS: WeakValueDictionary[str, Visit] = WeakValueDictionary()


def note_visit() -> None:
    """Note in a run of a page that its visit is here."""
    # Imported here, as below: the server answers while its pages are still imported.
    from ..session.keys import private

    name = session_id()
    if private.visit is None and name is not None:
        private.visit = VISITS[name] = Visit()


class OldPages:
    """ASGI middleware that has a page drawn first whose visit is gone."""

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
    """The connection of a page, whose end Streamlit is told of after the last callbacks have run.

    Args:
        receive: says what the browser says.
        send: tells the browser something.
        visit: the name of the visit that the browser comes back to; empty if it is a new one.
    """

    def __init__(self, receive: Receive, send: Send, visit: str) -> None:
        self._receive, self._send, self._visit = receive, send, visit
        self._asked_at = -GRACE
        self._open = True

    async def receive(self) -> Message:
        """Return what the browser says."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._open = False
            await asyncio.sleep(self._asked_at + GRACE - time.monotonic())
        elif (said := _rerun(message)) is not None:
            self._asked_at = time.monotonic()
            if self._visit:
                end = self._asked_at + GRACE
                while is_running(self._visit) and time.monotonic() < end:  # it was told to stop
                    await asyncio.sleep(STEP)
                message = _ask_anew(said, self._visit)
                self._visit = ""
        return message

    async def send(self, message: Message) -> None:
        """Send a message, unless it is of a run from before, or the browser is gone."""
        if message["type"] == "websocket.send" and (self._visit or not self._open):
            return
        try:
            await self._send(message)
        except OSError:  # Streamlit would stop the run at once
            self._open = False


class _Page:
    """The connection of one such page: what was said is held back until the page is drawn."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._held: Message | None = None
        self._asked = False
        self._drawn = asyncio.Event()
        self._coming: asyncio.Task[Message] | None = None

    async def receive(self) -> Message:
        """What the browser says; before it the wish to have the page drawn at all."""
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
        if not (wish.fragment_id or wish.widget_states.widgets):  # a page without anything on it
            return message
        if not (wish.fragment_id or _has_click(said)):
            if not _typed(said):  # it only wants to stand as it did, and its link says how
                return message
            _leave_to_link(said)
        self._held = {"type": "websocket.receive", "bytes": said.SerializeToString()}
        wish.fragment_id = ""
        wish.ClearField("widget_states")
        return {"type": "websocket.receive", "bytes": said.SerializeToString()}

    async def _after_drawing(self) -> Message:
        """What was held back, once the page is drawn; or that the browser is gone meanwhile."""
        self._coming = self._coming or asyncio.ensure_future(self._receive())
        drawn = asyncio.ensure_future(self._drawn.wait())
        try:
            await asyncio.wait({self._coming, drawn}, return_when=asyncio.FIRST_COMPLETED)
            if not drawn.done() and self._coming.result()["type"] != "websocket.disconnect":
                await drawn  # more was said: it waits for its turn behind the first
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
        """What the browser is told, as it is; the end of the first drawing is noted."""
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
    """The wish of a browser to run the page; None where it says anything else."""
    said = BackMsg()
    with suppress(DecodeError):
        said.ParseFromString(message.get("bytes") or b"")
    return said if said.HasField("rerun_script") else None


def _ask_anew(said: BackMsg, visit: str) -> Message:
    """Return the first wish of a browser that comes back to its visit.

    The visit knows what its link says, and the browser may not have heard it: so it is sent again.
    The browser may not have heard of another page or its controls; those of the last are left out.
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
    """Whether a button, or anything else that acts once, was used."""
    return any(one.WhichOneof("value") in CLICKS for one in said.rerun_script.widget_states.widgets)


def _typed(said: BackMsg) -> bool:
    """Whether a box of the frame holds words that the link does not say: they came too late."""
    wish = said.rerun_script
    link = parse_qs(wish.query_string)
    return any(
        one.WhichOneof("value") == "string_value" and [one.string_value] != link.get(key_of(one.id))
        for one in wish.widget_states.widgets
        if key_of(one.id) in TYPED
    )


def _leave_to_link(said: BackMsg) -> None:
    """Take away what an unasked browser still shows of controls that the link says newer.

    The link is written before a page is drawn. Whoever was cut in between shows older values, and
    these are no move of the hand.
    """
    widgets = said.rerun_script.widget_states.widgets
    kept = [one for one in widgets if key_of(one.id) not in _linked()]
    del widgets[:]
    widgets.extend(kept)


@cache
def _linked() -> frozenset[str]:
    """Keys of the link whose controls the page draws: of these the link says the newest."""
    from ..session.url_state import DEFAULTS
    from ..session.visit import FRAME

    return frozenset(DEFAULTS) - frozenset(FRAME) - {"lang"}
