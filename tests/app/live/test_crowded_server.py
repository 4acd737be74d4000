"""A server in a process of its own: its first imports, and one client with 200 connections."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from benchmarks.pupil import Pupil
from tests.app.balancer.test_workers import got
from tests.support.asgi import run
from tests.support.browser import running_app
from tests.support.paths import ROOT
from tests.support.waiting import until
from transformer_viz import settings

pytestmark = pytest.mark.process
MANY = 200  # connections of one client
MOST = 120  # pages that one address may have open: those of a class, twice
LINK = {"text": "The cat sat.", "block": "cross", "layer": "1", "head": "1"}
PATIENT = {"X-Forwarded-For": "10.0.0.7"}  # a visitor of another address, as a proxy here says
LATER = ("transformer_viz.app.pages", "pandas", "numpy", "PIL.Image")
SCRIPT = f"""
import sys
from transformer_viz.app.live import server
server.application()
assert not [name for name in {LATER} if name in sys.modules]
server._import_pages()
assert not [name for name in {LATER} if name not in sys.modules]
assert "torch" not in sys.modules  # a server that nobody visits holds none of it
"""


def test_the_server_answers_before_its_pages_are_imported() -> None:
    command = [sys.executable, "-c", SCRIPT]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "ScriptRunContext" not in ended.stderr  # nothing was drawn


def test_others_do_not_notice_two_hundred_connections_nor_slow_clients(shelf, monkeypatch) -> None:
    """Two workers, whose visitors are held to the shares of a server for others."""
    monkeypatch.setenv(settings.MODEL.variable, str(shelf / "tiny"))
    for setting in settings.SHARES:
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv(settings.CONNECTIONS.variable, str(settings.CONNECTIONS.default))
    with running_app(workers=2) as url, ExitStack() as slow:
        # One address leads to one worker; while that one is not up yet, to the other.
        until(lambda: got(url, "/ready")[1].startswith(b"2 of 2"))
        parts = urlsplit(url)
        for _ in range(20):  # half a request, and then nothing
            line = socket.create_connection((parts.hostname, parts.port), timeout=20)
            slow.enter_context(line)
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/ht")
        words = run(refusals_beside_a_pupil(url))
    assert MANY - MOST <= len(words) < MANY  # fewer pages at once than may be open
    assert {status for status, _ in words} == {503}
    assert all(re.search(r"\. Try again in \d+ s\.$", told) for _, told in words), words[-1]


async def refusals_beside_a_pupil(url: str) -> list[tuple[int, str]]:
    """Return what one client is told of its 200 pages, of which it reads none."""
    address = f"ws://{urlsplit(url).netloc}/_stcore/stream"
    held, words, ask = [], [], BackMsg()
    ask.rerun_script.query_string = "text=The+dog+sat."

    def works() -> None:
        pupil = Pupil(url, dict(PATIENT))
        pupil.open(LINK)
        for number in range(3):
            pupil.frame(f"{number + 2}.0", int(pupil.slider["seq"]) + 1)
            pupil.tell(f"{number + 2}.0", int(pupil.slider["seq"]) + 2)
        assert pupil.seen.alerts == []
        pupil.end()
        assert got(url, "/_stcore/health", **PATIENT)[0] == 200

    for number in range(MANY):
        try:
            page = await connect(address, subprotocols=["streamlit"], compression=None, max_queue=1)
        except InvalidStatus as error:
            words.append((error.response.status_code, (error.response.body or b"").decode()))
            continue
        held.append(page)
        if number % 20 == 0:
            await page.send(ask.SerializeToString())  # its answer is never read
    await asyncio.to_thread(works)
    for page in held:
        page.transport.abort()
    return words
