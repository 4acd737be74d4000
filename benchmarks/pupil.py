"""One pupil without a browser: a raw websocket to the app, and live frames as the sliders ask them.

What a browser would send is sent, and what it would be sent is kept; nothing is drawn. So thirty of
them fit on the machine that serves them.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import numpy as np
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from tests.support.component_stage import decoded

PATIENCE = 60  # seconds
LARGEST = 50_000_000  # bytes of a message
OURS = ("slider-temperature", "head", "atlas", "tokens")
AFTER = re.compile(r'data-what="after">(.*?)</span></span>', re.DOTALL)


@dataclass
class Seen:
    """What the server has put on a pupil's screen."""

    parts: dict[str, tuple[dict[str, Any], dict[str, np.ndarray]]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # of components and boxes, by their key
    fragments: dict[str, str] = field(default_factory=dict)  # in which they stand
    after: str = ""  # what the changed model writes freely
    alerts: list[str] = field(default_factory=list)
    page: str = ""
    session: str = ""  # the visit's name
    fragments_last: bool = False  # whether the last run drew a fragment alone

    def take(self, message: ForwardMsg) -> None:
        """What one message changes."""
        if message.HasField("new_session"):
            self.page = message.new_session.page_script_hash
            self.session = message.new_session.initialize.session_id or self.session
            run = getattr(message.metadata, "run", message.new_session)  # before Streamlit 1.67
            self.fragments_last = bool(
                getattr(run, "fragment_ids", ()) or getattr(run, "fragment_ids_this_run", ())
            )
        if message.HasField("delta") and message.delta.HasField("new_element"):
            self._element(message.delta.new_element, message.delta.fragment_id)

    def _element(self, element: Any, fragment: str) -> None:
        kind = element.WhichOneof("type")
        if kind == "bidi_component":
            self._component(element.bidi_component, fragment)
        elif kind == "text_input":
            self.ids[element.text_input.id.rpartition("-")[2]] = element.text_input.id
        elif kind == "html":
            found = AFTER.search(element.html.body)
            if found:
                self.after = unescape(re.sub(r"<[^>]*>", "", found[1]))
        elif kind in ("alert", "exception"):
            words = element.alert.body if kind == "alert" else element.exception.message
            self.alerts.append(words)

    def _component(self, component: Any, fragment: str) -> None:
        if not component.bytes:
            return
        header, arrays = decoded(component.bytes)
        part = str(header.get("part", ""))
        if part in OURS:
            self.parts[part] = (header, arrays)
            self.ids[part], self.fragments[part] = component.id, fragment


class Pupil:
    """A visit: opened with a link, it types, and moves the temperature.

    Args:
        url: of the app.
        headers: that an earlier visit of the same browser has kept, with its cookie.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url, self.seen = url, Seen()
        self.host = urlsplit(url).netloc
        self.query = ""
        self.line = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        self.headers = dict(headers or {})
        self.typed = ""  # what stands in the box of the sentence, if the hand wrote it
        self.waits = False  # whether an answer of the page is still to come
        answer, _ = self._fetch("/", Accept="text/html")
        self._keep_cookies(answer.headers.get_all("Set-Cookie", []))
        self._connect()

    def _keep_cookies(self, said: list[str]) -> None:
        """Of several workers the cookie says whose visit this is."""
        kept = dict(
            one.split("=", 1) for one in self.headers.get("Cookie", "").split("; ") if "=" in one
        )
        kept |= dict(one.partition(";")[0].split("=", 1) for one in said)
        if kept:
            self.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in kept.items())

    def fetch_token(self) -> None:
        """Take the cookie without which Streamlit accepts no upload."""
        answer, _ = self._fetch("/_stcore/health")
        self._keep_cookies(answer.headers.get_all("Set-Cookie", []))

    def _connect(self) -> None:
        """Open the websocket as the page's script does: it names the visit that it had before."""
        offered = ["streamlit", "PLACEHOLDER_AUTH_TOKEN", self.seen.session]
        self.open_lines = ExitStack()
        line: Any = connect(
            f"ws://{self.host}/_stcore/stream",
            subprotocols=[one for one in offered if one],
            max_size=LARGEST,
            additional_headers=self.headers,
        )
        self.socket = self.open_lines.enter_context(line)
        more = self.socket.response.headers.get_all("Set-Cookie") if self.socket.response else []
        self._keep_cookies(list(more))

    def again(self) -> None:
        """Connect anew after the server broke off, as the page does by itself, and wait until what
        it then asks for stands.

        A page whose last run was a whole one and had ended asks for nothing; see `handleConnection`
        in Streamlit's App: only a run that was on its way, or one of a fragment, is asked for anew.
        """
        self.open_lines.close()
        self.line.close()
        while self._fetch("/_stcore/health")[0].status != 200:
            time.sleep(0.5)
        self._connect()
        if self.waits or self.seen.fragments_last:
            self._ask()

    def end(self) -> None:
        self.open_lines.close()
        self.line.close()

    def open(self, link: dict[str, str]) -> float:
        """Open a link; seconds until the whole page has come."""
        self.query = urlencode(link)
        return self._ask()

    def type(self, text: str) -> float:
        """Type another sentence; seconds until the page has come."""
        self.typed = text
        return self._ask()

    @property
    def slider(self) -> dict[str, Any]:
        """What the temperature's slider was given."""
        return self.seen.parts["slider-temperature"][0]

    def frame(self, value: str, seq: int) -> tuple[float, dict[str, bytes]]:
        """The pictures of one step of the slider, and the seconds until they were here.

        Raises:
            ConnectionError: the server gave none; says what it answered.
        """
        began = time.perf_counter()
        words = urlencode({"temperature": value, "seq": seq})
        answer, body = self._fetch(f"/{quote(self.slider['line'])}?{words}")
        if answer.status != 200:
            raise ConnectionError(f"{answer.status}: {body.decode(errors='replace')[:200]}")
        header, arrays = decoded(body)
        seconds = time.perf_counter() - began
        if header["seq"] != seq:
            raise ConnectionError(f"The frame of step {header['seq']} came for step {seq}.")
        return seconds, {name: array.tobytes() for name, array in arrays.items()}

    def _fetch(self, path: str, **more: str) -> tuple[http.client.HTTPResponse, bytes]:
        """An answer of the server; a connection that it closed meanwhile is opened anew."""
        for last in (False, True):
            try:
                self.line.request("GET", path, headers=self.headers | more)
                answer = self.line.getresponse()
                return answer, answer.read()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self.line.close()
                if last:
                    raise
        raise ConnectionError("The server closes every connection.")

    def tell(self, value: str, seq: int) -> float:
        """Say where the slider was left; seconds until the page has answered."""
        said = {"event": "moved", "value": {"value": value, "seq": seq, "stroke": seq}}
        part = "slider-temperature"
        trigger = _make_trigger_id(self.seen.ids[part], "events")
        widget = (trigger, "json_trigger_value", json.dumps([said]))
        return self._ask(widget=widget, fragment=self.seen.fragments[part])

    def _ask(self, widget: tuple[str, str, str] | None = None, fragment: str = "") -> float:
        message = BackMsg()
        asked = message.rerun_script
        asked.query_string, asked.page_script_hash = self.query, self.seen.page
        asked.fragment_id = fragment
        asked.context_info.url = self.url
        asked.context_info.color_scheme = "light"
        components = (self.seen.ids[part] for part in self.seen.fragments)
        told = [(name, "json_value", "{}") for name in components]
        told += [(self.seen.ids["text"], "string_value", self.typed)] if self.typed else []
        told += [widget] if widget else []
        for name, kind, value in told:
            state = asked.widget_states.widgets.add()
            state.id = name
            setattr(state, kind, value)
        began = time.perf_counter()
        self.waits = True
        self.socket.send(message.SerializeToString())
        visit = self.seen.session
        told_late = self.typed and [self.typed] != parse_qs(self.query).get("text")
        self._listen()
        if visit and self.seen.session != visit and (widget or told_late):
            self._listen()  # the page was drawn for a new visit first, and then came the answer
        self.waits = False
        return time.perf_counter() - began

    def _listen(self) -> None:
        """Take what comes until the run has ended; a run that was asked for anew goes on."""
        while True:
            message = ForwardMsg()
            message.ParseFromString(bytes(self.socket.recv(timeout=PATIENCE)))
            self.seen.take(message)
            if message.HasField("page_info_changed"):
                self.query = message.page_info_changed.query_string
            if message.HasField("script_finished"):
                status = message.script_finished
                if status != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    return
